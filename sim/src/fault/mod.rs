//! What breaks: one file per family of faults, a board of what is active, a schedule, and one heal switch.
//!
//! [`Board::new`] arms the faults of a drill, [`Board::judge`] is what the simulated servers ask about each request,
//! [`start`] switches the faults at their times; those of the engine's machine act on an [`Engine`]. Not injected here:
//! faults of the clock.
//! **Source:** scenario.md, "Fault kinds".

pub mod answers;
pub mod board;
pub mod disk;
pub mod limits;
pub mod network;
pub mod process;
pub mod schedule;
pub mod shape;

pub use board::{Board, FaultError};
pub use disk::DamageError;
pub use process::Engine;
pub use schedule::start;

#[cfg(test)]
mod end_to_end;
