//! The disk of a simulated machine: a file system in memory that can be full, slow, broken, lie, and lose its power.
//!
//! [`Volume`] is the file system, [`Vfs`] lets SQLite use it: production SQL on a simulated disk, write-ahead log, locks
//! and shared memory included. Everything that happens here is a function of what was asked and of the faults' own
//! random streams. Out of the model: damage to what was synced, tears inside of a sector's written part, inodes.
//! **Source:** storage.md A, B; architecture.md "The five seams".

pub mod contents;
mod lock;
mod shm;
mod state;
mod trouble;
mod vfs;
pub mod volume;

pub use crate::scenario::{DiskCode, DiskFault};
pub use vfs::Vfs;
pub use volume::{Edge, Machine, Refusal, User, Volume};

#[cfg(test)]
mod tests;
