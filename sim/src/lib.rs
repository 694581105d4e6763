//! squall-sim: a deterministic simulation and chaos harness around the production engine.
//!
//! See the README for the map of the modules and the rules about who may import whom.

pub mod adapter;
pub mod check;
pub mod cli;
pub mod disk;
pub mod fault;
pub mod history;
pub mod load;
pub mod model;
pub mod provider;
pub mod run;
pub mod scenario;
pub mod seed;
pub mod world;
