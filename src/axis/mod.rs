//! The four axes: what is measured, what is applied, and what follows from a level.
//!
//! Pure machines: facts, times and rules in, decisions out. **Source:** engine.md 2.

pub mod flap;
pub mod history;
pub mod legacy;
pub mod measure;
pub mod shed;

pub use flap::{Axes, AxisEffect, AxisState};
pub use history::History;
pub use legacy::{LegacyLevel, legacy};
pub use measure::{Facts, Measured, measure};
