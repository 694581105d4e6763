//! The deferred items that are not finished, in their order, and the counts of those that are.
//!
//! **Units:** milliseconds. **Source:** engine.md 4.

use squall::base::{Axis, ItemStatus, Policy};
use std::collections::{BTreeMap, BTreeSet};

/// The order of the queue: priority, then age, then number.
pub type Rank = (u8, u64, u64);

#[derive(Clone, Debug)]
pub struct Item {
    pub rank: Rank,
    pub work_type: String,
    pub depends_on: Vec<Axis>,
    pub not_before_ms: u64,
    /// From here on it may be too old to run.
    pub stale_ms: Option<u64>,
    pub leased: bool,
    /// Number of the entry that last moved it.
    pub moved: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Ledger {
    items: BTreeMap<u64, Item>,
    waiting: BTreeSet<Rank>,
    finished: [u64; ItemStatus::ALL.len()],
}

impl Ledger {
    pub fn queued(&mut self, id: u64, item: Item) {
        self.waiting.insert(item.rank);
        self.items.insert(id, item);
    }

    /// Another item was merged into this one: it keeps the better priority.
    pub fn merged(&mut self, id: u64, priority: u8, not_before_ms: u64) {
        let Some(item) = self.items.get_mut(&id) else { return };
        let was_waiting = self.waiting.remove(&item.rank);
        item.rank.0 = item.rank.0.min(priority);
        item.not_before_ms = item.not_before_ms.max(not_before_ms);
        if was_waiting {
            self.waiting.insert(item.rank);
        }
    }

    pub fn leased(&mut self, id: u64, moved: u64) {
        if let Some(item) = self.items.get_mut(&id) {
            self.waiting.remove(&item.rank);
            item.leased = true;
            item.moved = moved;
        }
    }

    pub fn released(&mut self, id: u64, not_before_ms: u64, moved: u64) {
        if let Some(item) = self.items.get_mut(&id) {
            self.waiting.insert(item.rank);
            item.leased = false;
            item.not_before_ms = not_before_ms;
            item.moved = moved;
        }
    }

    /// Leases of an older incarnation are free at boot.
    pub fn restarted(&mut self) {
        for item in self.items.values_mut().filter(|item| item.leased) {
            item.leased = false;
            self.waiting.insert(item.rank);
        }
    }

    pub fn finished(&mut self, id: u64, status: ItemStatus) {
        if let Some(item) = self.items.remove(&id) {
            self.waiting.remove(&item.rank);
        }
        self.finished[status as usize] += 1;
    }

    pub fn get(&self, id: u64) -> Option<&Item> {
        self.items.get(&id)
    }

    /// Not finished, by number.
    pub fn items(&self) -> impl Iterator<Item = (u64, &Item)> {
        self.items.iter().map(|(id, item)| (*id, item))
    }

    /// Waiting items that come before `rank`, in their order.
    pub fn before(&self, rank: Rank) -> impl Iterator<Item = (u64, &Item)> {
        self.waiting.range(..rank).map(|rank| (rank.2, &self.items[&rank.2]))
    }

    pub fn counts(&self) -> Counts {
        let leased = self.items.values().filter(|item| item.leased).count() as u64;
        Counts { waiting: self.items.len() as u64 - leased, leased, finished: self.finished }
    }
}

/// How many items are in each state; `waiting` are the scheduled and the pending ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub waiting: u64,
    pub leased: u64,
    pub finished: [u64; ItemStatus::ALL.len()],
}

impl Item {
    pub fn new(id: u64, priority: u8, at_ms: u64, work_type: &str, depends_on: &[Axis]) -> Item {
        Item {
            rank: (priority, at_ms, id),
            work_type: work_type.to_owned(),
            depends_on: depends_on.to_vec(),
            not_before_ms: 0,
            stale_ms: None,
            leased: false,
            moved: 0,
        }
    }

    /// When an item that was deferred at `at_ms` may be stale.
    pub fn stale_at(policy: Policy, at_ms: u64, ttl_ms: Option<u64>, discard_after_ms: u64) -> Option<u64> {
        match policy {
            Policy::Drain | Policy::Refresh => None,
            Policy::Discard => Some(at_ms + discard_after_ms),
            Policy::Ttl => ttl_ms.map(|ttl| at_ms + ttl),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_keeps_its_place_through_a_run_that_gave_it_back() {
        let mut ledger = Ledger::default();
        ledger.queued(1, Item::new(1, 50, 100, "a", &[]));
        ledger.queued(2, Item::new(2, 10, 200, "a", &[]));
        ledger.leased(2, 0);
        assert_eq!(ledger.before((50, 100, 1)).count(), 0);
        ledger.released(2, 0, 0);
        assert_eq!(ledger.before((50, 100, 1)).map(|(id, _)| id).collect::<Vec<_>>(), [2]);
        ledger.finished(2, ItemStatus::Done);
        let counts = ledger.counts();
        assert_eq!((counts.waiting, counts.leased, counts.finished[ItemStatus::Done as usize]), (1, 0, 1));
    }
}
