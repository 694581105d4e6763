//! The axis machine, the gate of an entry and the walk through a chain, in every state that a few steps can reach, and
//! in long random lives.
//!
//! Small steps are exhausted: from each state every event at every instant that matters (each bound, a millisecond before
//! and after), to a depth of eight and more. What the machine does is compared with models written from the
//! specification alone: [`squall_sim::model`] follows it, [`reference`] foretells it. States that differ in nothing but
//! the time on the clock and the numbers of attempts are one state ([`fingerprint`]), so that the depth can be paid for.
//! **Source:** engine.md 2.2, 3.

mod breaker;
mod explore;
mod fingerprint;
mod flap;
mod park;
mod reference;
mod walk;
mod watched;

/// When every history begins: far from zero, so that a moment can be told from a count by its size.
const BEGIN_MS: u64 = 1_000_000_000_000;
