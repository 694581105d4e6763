//! The memory that connections of one database share (the write-ahead log's index), and its lock.
//!
//! Regions never move and live as long as anybody may still look into them: an engine that was killed holds its own
//! until its connection is gone, while the next one begins with new ones.

use super::lock::{HandleId, ShmLock};
use std::cell::UnsafeCell;

/// What SQLite asks for at a time.
pub const REGION: usize = 32 * 1024;

/// As aligned as SQLite wants it. Only SQLite reads and writes it.
type Region = Box<[UnsafeCell<u64>]>;

#[derive(Default)]
pub struct Shm {
    regions: Vec<Region>,
    pub lock: ShmLock,
    pub users: Vec<HandleId>,
}

impl Shm {
    pub fn bytes(&self) -> u64 {
        (self.regions.len() * REGION) as u64
    }

    pub fn regions(&self) -> usize {
        self.regions.len()
    }

    pub fn grow(&mut self) {
        self.regions.push((0..REGION / size_of::<u64>()).map(|_| UnsafeCell::new(0)).collect());
    }

    /// Where a region is; valid as long as this value lives.
    pub fn region(&self, index: usize) -> *mut u64 {
        UnsafeCell::raw_get(self.regions[index].as_ptr())
    }
}
