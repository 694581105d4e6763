//! The degraded advisory: what a recall tells its caller while the dense path is out.
//!
//! Two steps that never mix: [`Told::pending`] looks, [`Told::delivered`] records. **Source:** engine.md 10.

pub mod health;
pub mod scope;
pub mod scrub;
pub mod switch;
pub mod text;

pub use health::{Health, HealthChange, RecallReport};
pub use scope::{Audience, DeclaredKey, Pending, Told};
pub use text::{Advisory, Situation};
