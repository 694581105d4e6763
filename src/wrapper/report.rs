//! What the daemon must learn about a command that runs: in order, each until it is taken.
//!
//! A limit is kept as the moment of its reset and said as what is left of it, so that one which waited for the daemon is
//! as right as one that did not.

use super::Wrapper;
use super::daemon::{Backoff, DaemonError, Held, Slot};
use crate::base::{MonoTime, SessionOutcome};
use std::cell::RefCell;
use std::collections::VecDeque;
use tokio::sync::Notify;

/// A command is said to be alive this often, as a part of its slot's lease: two words may get lost.
const ALIVE_EVERY: f64 = 1.0 / 3.0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub window: String,
    pub resets_at: Option<MonoTime>,
}

enum Report {
    Limit(Limit),
    End { outcome: SessionOutcome, progress: Option<String> },
}

/// Reports on their way.
#[derive(Default)]
pub struct Reports {
    queue: RefCell<VecDeque<Report>>,
    new: Notify,
}

impl Reports {
    pub fn limit(&self, limit: Limit) {
        let mut queue = self.queue.borrow_mut();
        // Of statements about a window that nobody has taken yet the newest is enough.
        queue.retain(|report| !matches!(report, Report::Limit(other) if other.window == limit.window));
        queue.push_back(Report::Limit(limit));
        self.new.notify_one();
    }

    pub fn end(&self, outcome: SessionOutcome, progress: Option<String>) {
        self.queue.borrow_mut().push_back(Report::End { outcome, progress });
        self.new.notify_one();
    }

    /// Delivers until the end was told; says that the command is alive meanwhile. `false`: the slot was lost.
    pub(super) async fn deliver(&self, wrapper: &Wrapper, slot: &Slot) -> bool {
        let clock = &wrapper.clock;
        let every = slot.lease.scale(ALIVE_EVERY);
        let mut alive_at = clock.mono() + every;
        let mut backoff = Backoff::default();
        let mut give_up_at = None;
        loop {
            let now = clock.mono();
            let next = self.queue.borrow_mut().pop_front();
            if let Some(Report::End { .. }) = next {
                // After that the daemon has taken back the slot of a command that says nothing.
                give_up_at.get_or_insert(now + slot.lease);
            }
            let said = match &next {
                Some(report) => self.say(wrapper, slot, report).await,
                None if now >= alive_at => wrapper.daemon.alive(slot).await,
                None => {
                    tokio::select! {
                        biased;
                        () = self.new.notified() => {}
                        () = clock.sleep_until(alive_at) => {}
                    }
                    continue;
                }
            };
            match said {
                Ok(Held::Ours) => {
                    if let Some(Report::End { .. }) = next {
                        return true;
                    }
                    // Whatever it says, it is a sign of life only if it is meant as one.
                    alive_at = if next.is_none() { now + every } else { alive_at };
                    backoff = Backoff::default();
                }
                Ok(Held::Gone) => {
                    (wrapper.tell)(&format!(
                        "squalld: the slot of session {} was given up, for nothing was heard of it; the command runs on \
                         outside of the budget",
                        slot.session
                    ));
                    return false;
                }
                Err(error) => {
                    let again_at = clock.mono() + backoff.next();
                    if give_up_at.is_some_and(|at| again_at > at) {
                        (wrapper.tell)(&format!("squalld: the end of session {} was not told: {error}", slot.session));
                        return true;
                    }
                    self.put_back(next, &error);
                    clock.sleep_until(again_at).await;
                }
            }
        }
    }

    async fn say(&self, wrapper: &Wrapper, slot: &Slot, report: &Report) -> Result<Held, DaemonError> {
        match report {
            Report::Limit(Limit { window, resets_at }) => {
                let left = resets_at.map(|at| at - wrapper.clock.mono());
                wrapper.daemon.limit(slot, window, left).await
            }
            Report::End { outcome, progress } => wrapper.daemon.end(slot, *outcome, progress.as_deref()).await,
        }
    }

    /// To the front again, unless something newer has come for it meanwhile.
    fn put_back(&self, report: Option<Report>, error: &DaemonError) {
        let Some(report) = report else { return };
        let mut queue = self.queue.borrow_mut();
        let superseded = match (&report, error) {
            // The daemon understood it and does not want it: saying it again changes nothing.
            (Report::Limit(_), DaemonError::Refused { .. }) => true,
            (Report::Limit(limit), DaemonError::Away { .. }) => {
                queue.iter().any(|other| matches!(other, Report::Limit(other) if other.window == limit.window))
            }
            (Report::End { .. }, _) => false,
        };
        if !superseded {
            queue.push_front(report);
        }
    }
}
