//! The deferred-work queue at work: claiming in order, running, giving back.
//!
//! One consumer, at most `queue.parallel` items in flight, whenever the applied levels serve what an item depends on.
//! It sleeps until something may have changed: an item came in or back, a level moved, a scheduled time came.
//! **Source:** engine.md 4 (consumers). DRAIN-1, LEASE-1, STALE-1.

use super::Engine;
use super::perform::Ran;
use crate::axis::shed;
use crate::base::work::priority;
use crate::base::{Axis, AxisLevels, ItemStatus, MonoTime, Span};
use crate::event::Event;
use crate::queue::{self as rules, Consumer};
use crate::store::StoreError;
use crate::store::queue::{self, AxisSet, Claimed, Swept};
use std::cell::Cell;
use std::rc::Rc;
use tokio::task::spawn_local;

/// Shortest rest of an item that was refused.
const REST_MIN: Span = Span::from_secs(1);

impl Engine {
    pub(super) fn spawn_consumer(&self) {
        spawn_local(self.clone().consume());
    }

    async fn consume(self) {
        let in_flight = Rc::new(Cell::new(0u32));
        loop {
            while in_flight.get() < self.0.rules.queue.parallel {
                match self.claim_next() {
                    Ok(Some(claimed)) => {
                        in_flight.set(in_flight.get() + 1);
                        let (engine, in_flight) = (self.clone(), in_flight.clone());
                        spawn_local(async move {
                            engine.run(claimed).await;
                            in_flight.set(in_flight.get() - 1);
                            engine.0.wake.queue.notify_one();
                        });
                    }
                    Ok(None) => break,
                    Err(_) => {
                        // Told by `commit`; the disk gets a moment before the next try.
                        self.0.ports.clock.sleep_until(self.now() + REST_MIN).await;
                    }
                }
            }
            // With every place taken, what is due can't be claimed: it is looked for again when a place comes free.
            let full = in_flight.get() >= self.0.rules.queue.parallel;
            let next = if full { None } else { self.next_queue_time() };
            self.sleep_or(next, &self.0.wake.queue).await;
        }
    }

    /// When a scheduled item becomes due or the next sweep of stale ones is.
    fn next_queue_time(&self) -> Option<MonoTime> {
        let store = self.0.store.borrow();
        let scheduled = queue::next_scheduled(store.reader()).ok().flatten();
        let every = self.0.rules.queue.sweep_every.ms();
        // Sweeps stand on a grid, so that one finds all that became stale since the last.
        let sweep = queue::next_expiry(store.reader())
            .ok()
            .flatten()
            .map(|at| MonoTime(at.ms().div_ceil(every).saturating_mul(every)));
        scheduled.into_iter().chain(sweep).min()
    }

    /// Ends what is stale, promotes what is due, and leases the first item that may run.
    fn claim_next(&self) -> Result<Option<Claimed>, StoreError> {
        let now = self.now();
        let (nothing_waits, levels) = {
            let core = self.0.core.borrow();
            let count = |status| core.counts.get(&status).copied().unwrap_or(0);
            // Sessions that wait are pending items too, but not ours to run.
            let ours = count(ItemStatus::Pending) + count(ItemStatus::Scheduled) - core.waiting.len() as u64;
            (ours == 0, core.levels())
        };
        if nothing_waits {
            return Ok(None);
        }
        let runnable = runnable(&levels);
        let owner = self.0.store.borrow().incarnation;
        let lease_until = now + self.0.rules.queue.lease;
        self.0.commit(|tx, now, events| {
            for id in queue::promote(tx, now)? {
                events.push(Event::DeferredReady { id });
            }
            for Swept { id, was, status } in queue::sweep_stale(tx, now)? {
                let reason = "older than its policy allows".to_owned();
                events.push(Event::DeferredFinished { id, status, was, reason });
            }
            let claimed = queue::claim(tx, &runnable, owner, lease_until)?;
            if let Some(claimed) = &claimed {
                events.push(Event::DeferredRun {
                    id: claimed.id,
                    work_type: claimed.work_type.clone(),
                    priority: claimed.priority,
                    token: claimed.token,
                });
            }
            Ok(claimed)
        })
    }

    /// Runs a leased item, keeping its lease alive, and stores what came of it.
    async fn run(&self, mut claimed: Claimed) {
        claimed.attempts += self.late_verdict(claimed.id);
        let work = async {
            if !claimed.intact {
                return Ran::Hopeless { why: "the stored row is damaged".to_owned() };
            }
            if claimed.attempts >= claimed.attempts_max {
                return Ran::Hopeless {
                    why: "every provider that it was sent to failed, and answers others".to_owned(),
                };
            }
            self.perform(&claimed).await
        };
        tokio::pin!(work);
        let ran = loop {
            let renew_at = self.now() + Span::from_ms(self.0.rules.queue.lease.ms() / 3);
            tokio::select! {
                biased;
                ran = &mut work => break ran,
                () = self.0.ports.clock.sleep_until(renew_at) => {
                    let until = self.now() + self.0.rules.queue.lease;
                    // A failure is told by `commit`; the lease has two more chances.
                    let _ = self.0.commit(|tx, _, _| queue::renew(tx, claimed.id, claimed.token, until));
                }
            }
        };
        self.conclude_item(&claimed, ran).await;
    }

    /// Stores the end of a run, trying until the disk takes it: a finished effect must not be forgotten.
    async fn conclude_item(&self, claimed: &Claimed, ran: Ran) {
        loop {
            match self.store_end(claimed, &ran) {
                Ok(()) => return,
                Err(_) => self.0.ports.clock.sleep_until(self.now() + REST_MIN).await,
            }
        }
    }

    fn store_end(&self, claimed: &Claimed, ran: &Ran) -> Result<(), StoreError> {
        let rests = self.0.core.borrow_mut().rests.get(&claimed.id).copied().unwrap_or(0) + 1;
        let attempts = claimed.attempts;
        let llm = rules::work_type(&claimed.work_type).is_some_and(|work| work.consumer == Consumer::Llm);
        let (id, token) = (claimed.id, claimed.token);
        let released = self.0.commit(|tx, now, events| {
            let finish = |status, attempts, why: Option<&str>, events: &mut Vec<Event>| {
                let kept = queue::finish(tx, id, token, status, attempts, now, why)?;
                if kept {
                    let reason = why.unwrap_or_default().to_owned();
                    events.push(Event::DeferredFinished {
                        id,
                        status,
                        was: ItemStatus::Leased,
                        reason: reason.clone(),
                    });
                    if status == ItemStatus::Dead {
                        events.push(Event::DeadAdded { id, llm, reason });
                    }
                } else {
                    events.push(Event::LeaseLost { id });
                }
                Ok(false)
            };
            let release = |attempts, not_before: MonoTime, why: &str, events: &mut Vec<Event>| {
                let kept = queue::release(tx, id, token, attempts, not_before, now, why)?;
                events.push(if kept {
                    let not_before_ms = (not_before > now).then_some(not_before.ms());
                    Event::DeferredReleased { id, not_before_ms, attempts, reason: why.to_owned() }
                } else {
                    Event::LeaseLost { id }
                });
                Ok(true)
            };
            match ran {
                Ran::Done => finish(ItemStatus::Done, attempts, None, events),
                Ran::InDoubt => {
                    finish(ItemStatus::InDoubt, attempts, Some("nobody can say whether it arrived"), events)
                }
                Ran::Hopeless { why } => finish(ItemStatus::Dead, attempts, Some(why), events),
                Ran::Failed { why } if attempts + 1 >= claimed.attempts_max => {
                    finish(ItemStatus::Dead, attempts + 1, Some(why), events)
                }
                Ran::Failed { why } => release(attempts + 1, now + rules::rest_after_failure(rests), why, events),
                Ran::Unserved { earliest, why } => {
                    let rested = now + rules::rest_after_failure(rests);
                    release(attempts, earliest.map_or(rested, |at| at.max(rested)), why, events)
                }
                Ran::Refused { earliest, why } => {
                    let rest = now + REST_MIN;
                    let not_before = match earliest {
                        Some(at) => rest.max(*at),
                        None => now + rules::rest_after_failure(rests),
                    };
                    release(attempts, not_before, why, events)
                }
            }
        })?;
        let mut core = self.0.core.borrow_mut();
        if released {
            core.rests.insert(id, rests);
        } else {
            core.rests.remove(&id);
            drop(core);
            self.0.decide(|core, now| core.measure(now));
        }
        Ok(())
    }
}

/// Which sets of axes may run now, each with the worst priority that is not shed.
fn runnable(levels: &AxisLevels) -> Vec<(AxisSet, u8)> {
    let mut sets = Vec::new();
    for set in AxisSet::all() {
        let axes: Vec<Axis> = set.axes();
        // Whether an item is served falls with its priority number: the last one served bounds the claim.
        let served = (priority::MIN..=priority::MAX).rev().find(|p| shed::item_served(levels, &axes, *p, false));
        sets.extend(served.map(|priority_max| (set, priority_max)));
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Level;

    #[test]
    fn an_axis_that_does_not_serve_takes_its_sets_out_and_a_level_bounds_the_priority() {
        let all = runnable(&AxisLevels::NORMAL);
        assert_eq!(all.len(), 16);
        assert!(all.iter().all(|(_, priority_max)| *priority_max == 100));
        let levels = AxisLevels { cloud: Level::Reduced, memory: Level::Down, ..AxisLevels::NORMAL };
        let some = runnable(&levels);
        assert!(some.iter().all(|(set, _)| !set.contains(Axis::Memory)));
        let of = |axes: &[Axis]| some.iter().find(|(set, _)| *set == AxisSet::of(axes)).map(|(_, max)| *max);
        assert_eq!(of(&[Axis::Cloud]), Some(69));
        assert_eq!(of(&[]), Some(100));
        assert_eq!(of(&[Axis::Embedding]), Some(100));
    }
}
