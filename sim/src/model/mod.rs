//! Small reference models of what the engine should do, written from its specification and from nothing else.
//!
//! They import the engine's base values (times, levels, names, rules) and never its machines: a mistake there must not
//! be repeated here. Where the specification leaves a reading open, a model answers with the best and the worst case.
//! **Source:** engine.md 2, 3, 4, 6, 10.

pub mod breaker;
pub mod flap;
pub mod health;
pub mod ledger;
pub mod legacy;
pub mod notice;
pub mod retry;
pub mod session;
pub mod supply;
pub mod topology;
