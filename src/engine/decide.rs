//! The one way round: decide, record, store.
//!
//! [`Inner::decide`] runs a pure decision over the [`Core`] and hands its events on; [`Inner::commit`] stores
//! acknowledged work and its events in one transaction before anybody hears of them. Events of routing decisions wait
//! for the next commit, at most [`GROUP`].
//! **Source:** architecture.md "How things flow"; engine.md 9 (group commit), 11.

use super::Inner;
use super::core::Core;
use crate::base::{MonoTime, Span};
use crate::event::Event;
use crate::store::journal::Line;
use crate::store::{StoreError, Tx, journal};

/// Routing events commit this long after the first of them, or with the next acknowledged work.
pub const GROUP: Span = Span::from_ms(100);

/// Routing events that may wait for a disk that does not write.
const WAITING_MAX: usize = 10_000;

impl Inner {
    /// Runs one decision. Its events are recorded at one instant, in the order in which it made them.
    pub fn decide<R>(&self, decision: impl FnOnce(&mut Core, MonoTime) -> R) -> R {
        let now = self.ports.clock.mono();
        let mut core = self.core.borrow_mut();
        core.wall = self.ports.clock.wall();
        let result = decision(&mut core, now);
        self.settle(core, now);
        result
    }

    /// What follows from a decision, whoever made it: its events, timers, work that can move now, the status file.
    fn settle(&self, mut core: std::cell::RefMut<'_, Core>, now: MonoTime) {
        let events = std::mem::take(&mut core.events);
        let follows = core.follow_ups();
        drop(core);
        if !events.is_empty() {
            self.record(now, &events);
        }
        if follows.timer {
            self.wake.timer.notify_one();
        }
        if follows.probe {
            self.wake.probe.notify_one();
        }
        if follows.gate {
            self.wake.gate.notify_waiters();
        }
        if follows.people {
            self.wake.notices.notify_one();
            self.wake.webhook.notify_one();
        }
        if follows.levels {
            self.wake.queue.notify_one();
            self.wake.sessions.notify_one();
            self.flush();
            self.write_status("transition");
        }
    }

    /// Stamps events, offers them to the outside and keeps them for the journal.
    fn record(&self, now: MonoTime, events: &[Event]) {
        let wall = self.ports.clock.wall();
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            self.wake.flush.notify_one();
        }
        for event in events {
            let json = serde_json::to_string(event).expect("events have no keys or numbers that JSON lacks");
            self.ports.notify.event(now, event, &json);
            waiting.push(Line { at: now, wall, json });
        }
        if waiting.len() > WAITING_MAX {
            let dropped = waiting.len() - WAITING_MAX;
            waiting.drain(..dropped);
            self.gap.set(self.gap.get() + dropped as u64);
        }
    }

    /// Stores acknowledged work: what waits, what `work` does, and the events `work` makes, in one transaction.
    ///
    /// **Errors:** the disk's; nothing is stored and no event of `work` is recorded.
    pub fn commit<R>(
        &self,
        work: impl FnOnce(&Tx, MonoTime, &mut Vec<Event>) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let now = self.ports.clock.mono();
        let wall = self.ports.clock.wall();
        let mut events = Vec::new();
        let mut lines = Vec::new();
        let result = {
            let mut store = self.store.borrow_mut();
            let incarnation = store.incarnation;
            let waiting = self.waiting.borrow();
            let mut core = self.core.borrow_mut();
            let result = store.write(|tx| {
                journal::append(tx, incarnation, &waiting)?;
                core.save(tx)?;
                let result = work(tx, now, &mut events)?;
                for event in &events {
                    let json = serde_json::to_string(event).expect("events have no keys or numbers that JSON lacks");
                    lines.push(Line { at: now, wall, json });
                }
                journal::append(tx, incarnation, &lines)?;
                Ok(result)
            });
            if result.is_ok() {
                core.saved();
            }
            result
        };
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                self.store_failed(&error);
                return Err(error);
            }
        };
        self.waiting.borrow_mut().clear();
        self.report_gap();
        for (event, line) in events.iter().zip(&lines) {
            self.ports.notify.event(now, event, &line.json);
        }
        let mut core = self.core.borrow_mut();
        for event in &events {
            core.count(event);
        }
        self.settle(core, now);
        Ok(result)
    }

    /// Writes what waits. A failure leaves it waiting: the flush task tries again.
    pub fn flush(&self) {
        if self.waiting.borrow().is_empty() && !self.core.borrow().unsaved() {
            return;
        }
        let written = {
            let mut store = self.store.borrow_mut();
            let incarnation = store.incarnation;
            let waiting = self.waiting.borrow();
            let mut core = self.core.borrow_mut();
            let written = store.write(|tx| {
                journal::append(tx, incarnation, &waiting)?;
                core.save(tx)
            });
            if written.is_ok() {
                core.saved();
            }
            written
        };
        match written {
            Ok(()) => {
                self.waiting.borrow_mut().clear();
                self.report_gap();
            }
            Err(error) => self.store_failed(&error),
        }
    }

    /// Says once in the trace how many routing events were dropped while the disk did not write.
    fn report_gap(&self) {
        let dropped = self.gap.replace(0);
        if dropped > 0 {
            self.record(self.ports.clock.mono(), &[Event::JournalGap { dropped }]);
        }
    }

    fn store_failed(&self, error: &StoreError) {
        let mut text = format!("squalld: {error}");
        if let Some(source) = std::error::Error::source(error) {
            text = format!("{text}: {source}");
        }
        self.ports.notify.line(&text);
    }
}
