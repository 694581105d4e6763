//! What is wrong with a disk right now: faults by the line that names them, each drawing from its own stream.
//!
//! A fault is over at its `until_ms`, also inside of an operation that waits for it: an engine that waits for a lock
//! gets it when the holder goes. Of several errors the first in file order hits; all of them draw and count.

use crate::scenario::{DiskCode, DiskFault, DiskOp, DiskPick};
use crate::seed::Stream;
use std::collections::BTreeMap;

/// A fault that has begun.
pub struct Ailment {
    pub fault: DiskFault,
    pub since_ms: u64,
    /// Exclusive.
    pub until_ms: u64,
    pub stream: Stream,
    /// Operations of its kind since it began.
    seen: u64,
    /// Bytes that were taken by others when it began.
    taken: u64,
}

/// By line.
#[derive(Default)]
pub struct Trouble(BTreeMap<u32, Ailment>);

impl Trouble {
    /// `free`: the bytes that are free now.
    pub fn begin(&mut self, line: u32, fault: DiskFault, now: u64, until_ms: u64, free: u64, stream: Stream) {
        let taken = match fault {
            DiskFault::Full { free: Some(left), .. } => free.saturating_sub(left),
            DiskFault::Full { free: None, .. }
            | DiskFault::Error { .. }
            | DiskFault::Slow { .. }
            | DiskFault::LyingSync
            | DiskFault::Corrupt
            | DiskFault::LockHeld
            | DiskFault::ReaderHeld
            | DiskFault::CorruptRow { .. } => 0,
        };
        let ailment = Ailment { fault, since_ms: now, until_ms, stream, seen: 0, taken };
        let other = self.0.insert(line, ailment);
        assert!(other.is_none(), "the disk fault of line {line} has begun already");
    }

    pub fn end(&mut self, line: u32) {
        self.0.remove(&line);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that something else has on the disk.
    pub fn taken(&self, now: u64) -> u64 {
        self.active(now).map(|one| one.taken.saturating_add(one.grown(now))).fold(0, u64::saturating_add)
    }

    /// How this operation fails, if it does.
    pub fn refusal(&mut self, op: DiskOp, now: u64) -> Option<DiskCode> {
        let mut hit = None;
        for one in self.0.values_mut().filter(|one| now < one.until_ms) {
            if let DiskFault::Error { op: own, code, pick } = one.fault
                && own == op
            {
                one.seen += 1;
                let hits = match pick {
                    DiskPick::All => true,
                    DiskPick::Share(share) => one.stream.chance(share),
                    DiskPick::Nth(nth) => one.seen == nth,
                };
                hit = hit.or(hits.then_some(code));
            }
        }
        hit
    }

    /// How long this operation takes; of several slow faults the sum.
    pub fn latency_ms(&mut self, op: DiskOp, now: u64) -> u64 {
        let mut sum = 0;
        for one in self.0.values_mut().filter(|one| now < one.until_ms) {
            if let DiskFault::Slow { op: own, latency } = &one.fault
                && *own == op
            {
                sum += latency.sample(&mut one.stream).ms();
            }
        }
        sum
    }

    pub fn sync_lies(&self, now: u64) -> bool {
        self.active(now).any(|one| matches!(one.fault, DiskFault::LyingSync))
    }

    pub fn corrupts(&self, now: u64) -> bool {
        self.active(now).any(|one| matches!(one.fault, DiskFault::Corrupt))
    }

    pub fn lock_held(&self, now: u64) -> bool {
        self.active(now).any(|one| matches!(one.fault, DiskFault::LockHeld))
    }

    fn active(&self, now: u64) -> impl Iterator<Item = &Ailment> {
        self.0.values().filter(move |one| now < one.until_ms)
    }
}

impl Ailment {
    /// Computed when somebody looks: nothing ticks.
    fn grown(&self, now: u64) -> u64 {
        match self.fault {
            DiskFault::Full { grow, .. } => {
                let grown = u128::from(grow) * u128::from(now.saturating_sub(self.since_ms)) / 1_000;
                u64::try_from(grown).unwrap_or(u64::MAX)
            }
            DiskFault::Error { .. }
            | DiskFault::Slow { .. }
            | DiskFault::LyingSync
            | DiskFault::Corrupt
            | DiskFault::LockHeld
            | DiskFault::ReaderHeld
            | DiskFault::CorruptRow { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn begun(faults: &[DiskFault]) -> Trouble {
        let mut trouble = Trouble::default();
        for (line, fault) in (1..).zip(faults) {
            trouble.begin(line, fault.clone(), 1_000, 5_000, 900, Seed::new(3).stream(&format!("fault.{line}")));
        }
        trouble
    }

    fn error(pick: DiskPick) -> DiskFault {
        DiskFault::Error { op: DiskOp::Write, code: DiskCode::Ioerr, pick }
    }

    fn refused(trouble: &mut Trouble) -> Vec<bool> {
        (0..200).map(|_| trouble.refusal(DiskOp::Write, 2_000).is_some()).collect()
    }

    #[test]
    fn a_disk_fills_up_with_time_and_is_empty_again_at_the_end() {
        let trouble = begun(&[DiskFault::Full { free: Some(100), grow: 0 }, DiskFault::Full { free: None, grow: 50 }]);
        assert_eq!([1_000, 2_000, 4_999, 5_000].map(|now| trouble.taken(now)), [800, 850, 999, 0]);
    }

    #[test]
    fn the_nth_operation_fails_once_and_a_share_of_them_is_drawn() {
        let nth = refused(&mut begun(&[error(DiskPick::Nth(3))]));
        assert_eq!(nth.iter().enumerate().filter(|(_, hit)| **hit).map(|(i, _)| i).collect::<Vec<_>>(), [2]);
        let shared = refused(&mut begun(&[error(DiskPick::Share(0.25))]));
        assert!((35..=65).contains(&shared.iter().filter(|hit| **hit).count()));
        assert!(begun(&[error(DiskPick::All)]).refusal(DiskOp::Sync, 2_000).is_none());
        assert!(begun(&[error(DiskPick::All)]).refusal(DiskOp::Write, 5_000).is_none());
    }

    #[test]
    fn another_fault_shifts_no_draw() {
        let share = || error(DiskPick::Share(0.3));
        let alone = refused(&mut begun(&[share()]));
        let mut both = begun(&[share(), error(DiskPick::Share(0.5))]);
        both.end(2);
        both.begin(2, error(DiskPick::Nth(500)), 1_000, 5_000, 0, Seed::new(3).stream("fault.2"));
        assert_eq!(alone, refused(&mut both));
    }
}
