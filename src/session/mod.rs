//! The budget of Claude Code sessions: who may start one now, what a limit means, when sessions work again.
//!
//! The engine holds one [`Sessions`] and one [`Waiting`]. It asks [`Sessions::admits`] before each start, reports what
//! happens to a session that runs, and calls [`Sessions::timer`] when [`Sessions::due`] is reached. Reading functions
//! move nothing. Absent on purpose: rows of the queue, events, levels.
//! Invariant: SESSION-1. **Source:** engine.md 6.

mod admission;
mod hour;
mod limits;
mod machine;
mod proof;
mod waiting;

pub use admission::{Applied, Refused, Want};
pub use machine::{Active, Ask, Condition, Ended, Gone, Happened, Held, Place, Sessions, Statement};
pub use waiting::{Rank, Waiter, Waiting};

#[cfg(test)]
mod tests;
