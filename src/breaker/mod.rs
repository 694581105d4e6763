//! One gate per entry: breaker and park, and who gets through.
//!
//! The engine holds a [`Gate`] per entry (provider, or provider/model) and one for the vector store. It asks
//! [`Gate::admit`] before each attempt, reports the end with [`Gate::settle`], and calls [`Gate::timer`] when
//! [`Gate::due`] is reached. Reading functions move nothing. **Source:** engine.md 3 (park, breaker, probe rounds).

pub mod admission;
pub mod circuit;
pub mod gate;
pub mod park;
pub mod round;

pub use admission::{Ask, Evidence, GateEffect, GateRules, Permit, Refusal, RefusalWhy, Settled};
pub use circuit::{Circuit, Phase};
pub use gate::Gate;
pub use park::{Park, ParkOrder};
