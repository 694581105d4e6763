//! A call's walk through its chain: who is asked, how often, after which wait; and what keeps retries in bounds.
//!
//! **Source:** engine.md 3 (chain, retry budget, poison).

pub mod backoff;
pub mod budget;
pub mod poison;
pub mod walk;

pub use budget::RetryBudget;
pub use poison::{Blame, PoisonWatch};
pub use walk::{EntryView, Step, Walk};
