//! Running drills and judging them: one run, a sweep over files and seeds, and what is kept of it.
//!
//! `set up -> load and faults -> heal -> settle -> judge`; [`one`] is the only place that puts a run together.
//! **Source:** harness.md "A run".

pub mod bands;
mod bound;
pub mod determinism;
pub mod exit;
pub mod expect;
pub mod job;
pub mod judge;
pub mod levels;
pub mod metrics;
pub mod one;
pub mod sometimes;
pub mod store;
pub mod sweep;
pub mod verdict;
pub mod vocabulary;

pub use exit::Exit;
pub use job::{Done, Failure, Job};
pub use judge::Judge;
pub use store::Keep;
pub use verdict::{Timing, Verdict};
