//! Locks of files as SQLite asks for them, held per open file: those of the file itself, and those of its shared memory.
//!
//! **Source:** SQLite's documentation of `xLock` and `xShmLock`; storage.md A.

/// An open file. Numbers are never used again.
pub type HandleId = u64;

/// Levels of a file's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    None,
    Shared,
    Reserved,
    /// Waits for the readers to go; no new ones come.
    Pending,
    Exclusive,
}

impl Level {
    pub fn from_code(code: i32) -> Option<Level> {
        [Level::None, Level::Shared, Level::Reserved, Level::Pending, Level::Exclusive]
            .get(usize::try_from(code).ok()?)
            .copied()
    }
}

/// The lock of one file.
#[derive(Debug, Default)]
pub struct FileLock(Vec<(HandleId, Level)>);

impl FileLock {
    /// Whether `handle` has `level` now. One that asked for exclusive and did not get it may be left pending.
    pub fn raise(&mut self, handle: HandleId, level: Level) -> bool {
        let own = self.level(handle);
        if own >= level {
            return true;
        }
        let others = self.0.iter().filter(|(id, _)| *id != handle).map(|(_, level)| *level).max();
        let others = others.unwrap_or(Level::None);
        let (reached, given) = match level {
            Level::None => (own, true),
            Level::Shared if others >= Level::Pending => (own, false),
            Level::Shared => (Level::Shared, true),
            _ if others >= Level::Reserved => (own, false),
            Level::Reserved => (Level::Reserved, true),
            Level::Pending | Level::Exclusive if others >= Level::Shared => (Level::Pending, level == Level::Pending),
            Level::Pending | Level::Exclusive => (level, true),
        };
        self.set(handle, reached);
        given
    }

    pub fn lower(&mut self, handle: HandleId, level: Level) {
        if self.level(handle) > level {
            self.set(handle, level);
        }
    }

    /// Whether anybody means to write.
    pub fn is_reserved(&self) -> bool {
        self.0.iter().any(|(_, level)| *level >= Level::Reserved)
    }

    fn level(&self, handle: HandleId) -> Level {
        self.0.iter().find(|(id, _)| *id == handle).map_or(Level::None, |(_, level)| *level)
    }

    fn set(&mut self, handle: HandleId, level: Level) {
        self.0.retain(|(id, _)| *id != handle);
        if level > Level::None {
            self.0.push((handle, level));
        }
    }
}

/// Slots of the shared memory's lock.
pub const SLOTS: usize = 8;
/// The slot of whoever writes.
pub const WRITER: u8 = 1;

/// The lock of one shared memory: per handle, a bit for each slot held shared or exclusively.
#[derive(Debug, Default)]
pub struct ShmLock(Vec<(HandleId, u8, u8)>);

impl ShmLock {
    pub fn share(&mut self, handle: HandleId, slots: u8) -> bool {
        let free = self.0.iter().all(|(id, _, exclusive)| *id == handle || exclusive & slots == 0);
        if free {
            self.of(handle).1 |= slots;
        }
        free
    }

    pub fn exclude(&mut self, handle: HandleId, slots: u8) -> bool {
        let free = self.0.iter().all(|(id, shared, exclusive)| *id == handle || (shared | exclusive) & slots == 0);
        if free {
            self.of(handle).2 |= slots;
        }
        free
    }

    pub fn release(&mut self, handle: HandleId, slots: u8) {
        let own = self.of(handle);
        own.1 &= !slots;
        own.2 &= !slots;
        self.0.retain(|(_, shared, exclusive)| shared | exclusive != 0);
    }

    fn of(&mut self, handle: HandleId) -> &mut (HandleId, u8, u8) {
        let at = self.0.iter().position(|(id, ..)| *id == handle).unwrap_or_else(|| {
            self.0.push((handle, 0, 0));
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_waits_for_readers_and_keeps_new_ones_out() {
        let mut lock = FileLock::default();
        assert!(lock.raise(1, Level::Shared) && lock.raise(2, Level::Shared) && lock.raise(1, Level::Reserved));
        assert!(!lock.raise(2, Level::Reserved), "one means to write already");
        assert!(!lock.raise(1, Level::Exclusive), "a reader is there");
        assert!(!lock.raise(3, Level::Shared), "the writer waits");
        lock.lower(2, Level::None);
        assert!(lock.raise(1, Level::Exclusive) && !lock.raise(2, Level::Shared));
        lock.lower(1, Level::Shared);
        assert!(lock.raise(2, Level::Shared) && !lock.is_reserved());
    }

    #[test]
    fn slots_are_shared_or_held_by_one() {
        let mut lock = ShmLock::default();
        assert!(lock.share(1, 0b1000) && lock.share(2, 0b1000) && lock.exclude(1, WRITER));
        assert!(!lock.exclude(2, WRITER) && !lock.exclude(2, 0b1001) && lock.exclude(2, 0b10));
        lock.release(1, 0b1001);
        assert!(lock.exclude(2, 0b1001));
    }
}
