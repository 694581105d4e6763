//! Tells the model of what can serve ([`Supply`]) what the history says about entries.

use super::setting::Start;
use crate::model::supply::{Answer, Supply};
use crate::model::topology::Reach;
use squall::base::{EntryName, ItemStatus, Outcome, Rules};
use squall::event::{Event, ParkScope};
use std::collections::{BTreeMap, VecDeque};

/// Attempts under way are few; more than this are forgotten, the oldest first.
const FLIGHTS_MAX: usize = 4_096;

pub struct Feed {
    pub supply: Supply,
    /// Rises when something that levels depend on may have changed.
    pub version: u64,
    flights: BTreeMap<u64, Flight>,
    /// The newest moves, which a kill may undo.
    recent: VecDeque<(u64, usize)>,
}

struct Flight {
    sent_ms: u64,
    token: bool,
}

impl Feed {
    pub fn new(rules: &Rules) -> Feed {
        Feed { supply: Supply::new(rules), version: 0, flights: BTreeMap::new(), recent: VecDeque::new() }
    }

    /// Carries `feed` over a start of the engine.
    pub fn started(feed: &mut Option<Feed>, start: &Start, rules: &Rules) {
        let known = feed.take().filter(|_| !start.fresh && !start.new_rules);
        let mut next = match known {
            Some(known) => known,
            None => {
                let mut new = Feed::new(rules);
                if !start.fresh {
                    (0..new.supply.topology.places.len()).for_each(|at| new.supply.forget_maybe(at));
                }
                new
            }
        };
        if let Some(from_ms) = start.lost_from_ms {
            for (t, at) in std::mem::take(&mut next.recent) {
                if t >= from_ms {
                    next.supply.forget_maybe(at);
                }
            }
        }
        next.flights.clear();
        next.supply.restarted();
        next.version += 1;
        *feed = Some(next);
    }

    pub fn observe(&mut self, now: u64, event: &Event) {
        if let Event::AttemptSent { attempt, .. } = event {
            // Answers matter only after a park; one that was sent before its end proves nothing.
            if !self.supply.any_confirming() {
                return;
            }
            self.flights.insert(*attempt, Flight { sent_ms: now, token: false });
            if self.flights.len() > FLIGHTS_MAX {
                self.flights.pop_first();
            }
        } else if let Event::AttemptFinished { entry, attempt, outcome, .. } = event {
            let flight = self.flights.remove(attempt);
            if flight.is_some() || self.supply.any_confirming() {
                self.finished(entry, flight, *outcome);
            }
        } else if let Event::AttemptFirstToken { entry, attempt, .. } = event {
            if let Some(flight) = self.flights.get_mut(attempt) {
                flight.token = true;
            }
            if self.supply.any_confirming()
                && let Some(at) = self.confirming(entry)
            {
                self.supply.first_token(at);
            }
        } else if let Event::BreakerOpened { entry, .. } | Event::BreakerHalfOpen { entry, .. } = event {
            self.moved(now, entry, |supply, at| supply.breaker(at, false));
        } else if let Event::BreakerClosed { entry } = event {
            self.moved(now, entry, |supply, at| supply.breaker(at, true));
        } else if let Event::ParkStarted { entry, scope, until_ms, .. } = event {
            self.moved(now, entry, |supply, at| supply.parked(at, reach(*scope), now, *until_ms));
        } else if let Event::ParkEnded { entry } = event {
            self.moved(now, entry, |supply, at| supply.park_ended(at, now));
        } else if let Event::ProviderDisabled { provider, .. } = event {
            self.supply.disabled(provider);
            self.version += 1;
        } else if let Event::JournalGap { .. } = event {
            (0..self.supply.topology.places.len()).for_each(|at| self.supply.forget_maybe(at));
            self.version += 1;
        } else {
            self.stored(now, event);
        }
    }

    fn finished(&mut self, entry: &EntryName, flight: Option<Flight>, outcome: Outcome) {
        let Some(at) = self.confirming(entry) else { return };
        let answer = match outcome {
            Outcome::Success => Answer::Good,
            Outcome::CallersFault | Outcome::Unfit => Answer::Neutral,
            Outcome::ProviderFault | Outcome::Overloaded | Outcome::Throttled | Outcome::Quota | Outcome::BadKey => {
                Answer::Bad
            }
            Outcome::Refused | Outcome::Cancelled => return,
        };
        match flight {
            Some(Flight { token: true, .. }) => self.supply.stream_ended(at, answer),
            Some(Flight { sent_ms, .. }) => self.supply.answered(at, answer, Some(sent_ms)),
            None => self.supply.answered(at, answer, None),
        }
    }

    /// The entry, if answers matter for it now.
    fn confirming(&mut self, entry: &EntryName) -> Option<usize> {
        let at = self.supply.topology.find(entry)?;
        self.supply.confirming(at)?;
        self.version += 1;
        Some(at)
    }

    fn moved(&mut self, now: u64, entry: &EntryName, change: impl FnOnce(&mut Supply, usize)) {
        let Some(at) = self.supply.topology.find(entry) else { return };
        change(&mut self.supply, at);
        self.version += 1;
        while self.recent.front().is_some_and(|(t, _)| t + 2 * super::setting::COMMIT_MS < now) {
            self.recent.pop_front();
        }
        self.recent.push_back((now, at));
    }

    fn stored(&mut self, now: u64, event: &Event) {
        if let Event::DeadAdded { id, llm, .. } = event {
            if *llm {
                self.supply.dead_added(*id);
            }
        } else if let Event::DeferredFinished { id, status, .. } = event {
            if *status != ItemStatus::Dead {
                self.supply.dead_settled(*id);
            }
        } else if let Event::EmbeddingQueued { memory, .. } = event {
            self.supply.embedding_waits(*memory);
        } else if let Event::EmbeddingFailed { memory, .. } = event {
            self.supply.embedding_failed(*memory, now);
        } else if let Event::EmbeddingEmbedded { memory } = event {
            self.supply.embedded(*memory);
        } else {
            return;
        }
        self.version += 1;
    }
}

pub fn reach(scope: ParkScope) -> Reach {
    match scope {
        ParkScope::Model => Reach::Entry,
        ParkScope::Provider => Reach::Provider,
        ParkScope::Account => Reach::Key,
    }
}
