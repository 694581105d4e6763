//! The scenario file: one TOML file is one outage drill.
//!
//! [`types`] is what the rest of the harness works with; reading, validating and resolving stand beside it.
//! **Source:** scenario.md.

pub mod dist;
pub mod types;

pub use dist::Dist;
pub use types::*;
