//! squall: a resilience engine for LLM agents.
//!
//! See the README for the map of the modules and the rules about who may import whom.

pub mod base;
pub mod event;
pub mod port;
