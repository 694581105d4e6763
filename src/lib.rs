//! squall: a resilience engine for LLM agents.
//!
//! See the README for the map of the modules and the rules about who may import whom.

pub mod adapter;
pub mod advisory;
pub mod axis;
pub mod base;
pub mod breaker;
pub mod chain;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod engine;
pub mod event;
pub mod notice;
pub mod port;
pub mod queue;
pub mod server;
pub mod session;
pub mod store;
pub mod wire;
pub mod wrapper;
