//! squall-sim: a deterministic simulation and chaos harness around the production engine.
//!
//! See the README for the map of the modules and the rules about who may import whom.

pub mod history;
pub mod scenario;
