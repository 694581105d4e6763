//! DRAIN-1: the order of deferred work.
//!
//! When an item is claimed, none that waits with a smaller (priority, deferred at, id) may have been runnable. Whether
//! a waiting item could run is judged only where the history shows it: each axis it needs is one that the claimed item
//! needs too (so a recovery run or a shed level that holds back the one holds back the other), or has been NORMAL since
//! a fresh start; its consumer was seen at work; its time has come; it is not too old.
//!
//! Sessions are a lane of their own: their consumer is whoever waits for them (`session.waiter`), so one without a present
//! waiter blocks nobody, and neither lane waits for the other.

use super::setting::Setting;
use super::{Check, Violation};
use crate::history::{Entry, What};
use crate::model::ledger::{Item, Ledger};
use squall::base::{Axis, Level};
use squall::event::Event;
use std::collections::{BTreeMap, BTreeSet};

/// The work type of the items as which sessions wait.
pub const SESSION: &str = "session";

#[derive(Default)]
pub struct Order {
    setting: Setting,
    ledger: Ledger,
    /// Axes that were never anything but NORMAL since a fresh start: no recovery run holds their items back.
    calm: [bool; 4],
    /// Work types whose consumer was seen.
    consumed: BTreeSet<String>,
    /// Items of sessions that somebody waits for.
    awaited: BTreeSet<u64>,
    /// The item of each session.
    items: BTreeMap<u64, u64>,
    judged: u64,
}

impl Check for Order {
    fn id(&self) -> &'static str {
        "DRAIN-1"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if let Some(start) = self.setting.observe(entry) {
            if start.fresh {
                self.ledger = Ledger::default();
            }
            self.ledger.restarted();
            self.consumed.clear();
            self.awaited.clear();
            self.calm = Axis::ALL.map(|axis| start.fresh && start.levels.get(axis) == Level::Normal);
            return;
        }
        let What::Engine(event) = &entry.what else { return };
        if let Event::DeferredRun { id, work_type, .. } = event {
            self.run(entry, *id, work_type, out);
            self.awaited.remove(id); // Who waited has it now; a later run is waited for anew.
        } else if let Event::SessionDeferred { session, item, .. } = event {
            self.items.insert(*session, *item);
        } else if let Event::SessionWaiter { session, present } = event {
            if let Some(item) = self.items.get(session) {
                if *present {
                    self.awaited.insert(*item)
                } else {
                    self.awaited.remove(item)
                };
            }
        } else if let Event::AxisChanged { axis, .. } = event {
            self.calm[*axis as usize] = false;
        }
        let Some(rules) = self.setting.rules() else { return };
        follow(&mut self.ledger, entry, event, rules.queue.discard_after.ms());
    }

    fn finish(&mut self, _: &mut Vec<Violation>) {}

    fn judged(&self) -> u64 {
        self.judged
    }
}

impl Order {
    fn run(&mut self, entry: &Entry, id: u64, work_type: &str, out: &mut Vec<Violation>) {
        if !self.consumed.contains(work_type) {
            self.consumed.insert(work_type.to_owned());
        }
        let Some(claimed) = self.ledger.get(id) else { return };
        if claimed.leased {
            return; // LEASE-1's business.
        }
        self.judged += 1;
        let is_session = |item: &Item| item.work_type == SESSION;
        let needs = |axis: &Axis| claimed.depends_on.contains(axis) || self.calm[*axis as usize];
        let mut ahead = self.ledger.before(claimed.rank).filter(|(_, item)| {
            item.not_before_ms <= entry.t_ms
                && item.stale_ms.is_none_or(|stale| entry.t_ms < stale)
                && item.depends_on.iter().all(needs)
                && self.consumed.contains(&item.work_type)
                && is_session(item) == is_session(claimed)
                && (!is_session(item) || self.awaited.contains(&item.rank.2))
        });
        if let Some((other, item)) = ahead.next() {
            let rank = |item: &Item| format!("({}, {} ms, {})", item.rank.0, item.rank.1, item.rank.2);
            let what = format!("item {id} {} runs before item {other} {}, which could run", rank(claimed), rank(item));
            out.push(Violation::new(entry.t_ms, [item.moved, entry.n], what));
        }
    }
}

/// Tells the ledger what an event says about deferred items.
pub fn follow(ledger: &mut Ledger, entry: &Entry, event: &Event, discard_after_ms: u64) {
    let (now, n) = (entry.t_ms, entry.n);
    if let Event::DeferredQueued {
        id, work_type, priority, policy, depends_on, merged, ttl_ms, not_before_ms, ..
    } = event
    {
        let not_before_ms = not_before_ms.unwrap_or(0);
        if *merged {
            ledger.merged(*id, *priority, not_before_ms);
            return;
        }
        let stale_ms = Item::stale_at(*policy, now, *ttl_ms, discard_after_ms);
        let item = Item { not_before_ms, stale_ms, moved: n, ..Item::new(*id, *priority, now, work_type, depends_on) };
        ledger.queued(*id, item);
    } else if let Event::DeferredRun { id, .. } = event {
        ledger.leased(*id, n);
    } else if let Event::DeferredReleased { id, not_before_ms, .. } = event {
        ledger.released(*id, not_before_ms.unwrap_or(0), n);
    } else if let Event::DeferredFinished { id, status, .. } = event {
        ledger.finished(*id, *status);
    }
    // `lease.lost` is about a late worker, whose item moved before: it moves nothing.
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::check::testing::*;
    use crate::history::World;
    use squall::base::{AxisLevels, ItemStatus, Policy};

    fn check() -> Order {
        Order::default()
    }

    pub fn queued(id: u64, priority: u8, depends_on: &[Axis]) -> Event {
        Event::DeferredQueued {
            id,
            work_type: "chat".into(),
            priority,
            policy: Policy::Drain,
            depends_on: depends_on.to_vec(),
            merged: false,
            reason: "shed".into(),
            ttl_ms: None,
            not_before_ms: None,
        }
    }

    pub fn run(id: u64) -> Event {
        Event::DeferredRun { id, work_type: "chat".into(), priority: 0, token: id }
    }

    pub fn done(id: u64) -> Event {
        Event::DeferredFinished { id, status: ItemStatus::Done, was: ItemStatus::Leased, reason: "done".into() }
    }

    const CLOUD: &[Axis] = &[Axis::Cloud];

    #[test]
    fn an_urgent_item_overtakes_an_older_routine_one() {
        let story = Story::new().at(1, queued(1, 50, CLOUD)).at(2, queued(2, 10, CLOUD)).at(3, queued(3, 10, CLOUD));
        story.clone().at(9, run(2)).at(9, run(3)).at(9, run(1)).accepted(check());
        story.clone().at(9, run(1)).rejected(check(), "item 1 (50, 1 ms, 1) runs before item 2 (10, 2 ms, 2)");
        story.at(9, run(3)).rejected(check(), "runs before item 2");
    }

    #[test]
    fn an_item_whose_time_has_not_come_blocks_nobody() {
        let released =
            Event::DeferredReleased { id: 2, not_before_ms: Some(100), attempts: 1, reason: "refused".into() };
        let story = Story::new().at(1, queued(1, 50, CLOUD)).at(2, queued(2, 10, CLOUD)).at(3, run(2)).at(4, released);
        story.clone().at(99, run(1)).accepted(check());
        story.at(100, run(1)).rejected(check(), "runs before item 2");
    }

    #[test]
    fn an_item_that_needs_another_axis_in_trouble_blocks_nobody() {
        let memory = &[Axis::Cloud, Axis::Memory];
        let story = Story::new().at(1, queued(1, 10, memory)).at(2, queued(2, 50, CLOUD));
        story.clone().at(3, run(2)).rejected(check(), "runs before item 1");
        story.at(3, changed(Axis::Memory, Level::Normal, Level::Down)).at(3, run(2)).accepted(check());
    }

    fn of_sessions(mut event: Event) -> Event {
        if let Event::DeferredQueued { work_type, .. } | Event::DeferredRun { work_type, .. } = &mut event {
            *work_type = SESSION.into();
        }
        event
    }

    #[test]
    fn sessions_are_a_lane_of_their_own_and_block_only_while_somebody_waits() {
        let cc = &[Axis::Cc];
        let deferred = |session| Event::SessionDeferred {
            session,
            class: squall::base::SessionClass::Background,
            item: session,
            reason: "full".into(),
        };
        let waiter = |session, present| Event::SessionWaiter { session, present };
        let story = Story::new()
            .at(1, of_sessions(queued(1, 30, cc)))
            .at(1, deferred(1))
            .at(2, of_sessions(queued(2, 40, cc)))
            .at(2, deferred(2))
            .at(3, queued(3, 50, CLOUD));
        story.clone().at(4, run(3)).accepted(check());
        let second = of_sessions(run(2));
        story.clone().at(4, waiter(1, true)).at(5, second.clone()).rejected(check(), "runs before item 1");
        story.clone().at(4, waiter(1, true)).at(4, waiter(1, false)).at(5, second.clone()).accepted(check());
        // It ran, and its owner died: nobody waits for it any more.
        let back = Event::DeferredReleased { id: 1, not_before_ms: None, attempts: 0, reason: "lost".into() };
        let first = of_sessions(run(1));
        story.at(4, waiter(1, true)).at(5, first).at(6, back).at(7, second).accepted(check());
    }

    #[test]
    fn an_item_without_a_consumer_and_one_that_is_too_old_block_nobody() {
        let mut other = queued(1, 10, CLOUD);
        if let Event::DeferredQueued { work_type, .. } = &mut other {
            *work_type = "nobody".into();
        }
        Story::new().at(1, other).at(2, queued(2, 50, CLOUD)).at(3, run(2)).accepted(check());
        let mut old = queued(1, 10, CLOUD);
        if let Event::DeferredQueued { policy, ttl_ms, .. } = &mut old {
            (*policy, *ttl_ms) = (Policy::Ttl, Some(1_000));
        }
        let story = Story::new().at(1, old).at(2, queued(2, 50, CLOUD));
        story.clone().at(1_001, run(2)).accepted(check());
        story.at(1_000, run(2)).rejected(check(), "runs before item 1");
    }

    #[test]
    fn a_lease_of_a_killed_engine_is_free_again_and_in_its_old_place() {
        Story::new()
            .at(1, queued(1, 10, CLOUD))
            .at(2, queued(2, 50, CLOUD))
            .at(3, run(1))
            .at(4, World::EngineKilled { power_loss: true, point: None })
            .at(5, started(rules(), AxisLevels::NORMAL, true))
            .at(6, run(2))
            .rejected(check(), "runs before item 1");
    }

    #[test]
    fn a_merge_keeps_the_better_priority() {
        let mut better = queued(1, 10, CLOUD);
        if let Event::DeferredQueued { merged, .. } = &mut better {
            *merged = true;
        }
        Story::new()
            .at(1, queued(1, 50, CLOUD))
            .at(2, queued(2, 40, CLOUD))
            .at(3, better)
            .at(4, run(2))
            .rejected(check(), "before item 1");
    }
}
