//! Follows every entry's breaker through a history with the model of [`Breaker`].

use super::setting::Start;
use crate::model::breaker::{Admission, Breaker, Phase, Result};
use crate::model::topology::Topology;
use squall::base::rules::BreakerRules;
use squall::base::{EntryName, Outcome, Rules};
use squall::event::Event;
use std::collections::BTreeMap;

/// Attempts and calls under way are few; more than this are forgotten, the oldest first.
const FLIGHTS_MAX: usize = 4_096;

/// Which attempts are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    All,
    /// Those that were sent past a breaker that was not closed: what a check of trials needs, at a fraction of the cost.
    Trials,
}

pub struct Circuits {
    pub topology: Topology,
    follow: Follow,
    pub rules: BreakerRules,
    breakers: Vec<Circuit>,
    flights: BTreeMap<u64, Flight>,
}

#[derive(Clone, Default)]
struct Circuit {
    breaker: Breaker,
    /// Its phase is known: from a fresh start, or because it moved.
    known: bool,
    moved_ms: u64,
}

#[derive(Clone, Copy)]
struct Flight {
    at: usize,
    admission: Admission,
    token: bool,
    call: Option<u64>,
}

impl Circuits {
    pub fn new(rules: &Rules, known: bool, follow: Follow) -> Circuits {
        let topology = Topology::new(rules);
        let circuit = Circuit { known, ..Circuit::default() };
        Circuits {
            breakers: vec![circuit; topology.places.len()],
            topology,
            follow,
            rules: rules.breaker.clone(),
            flights: BTreeMap::new(),
        }
    }

    /// Carries `circuits` over a start of the engine.
    pub fn started(circuits: &mut Option<Circuits>, follow: Follow, start: &Start, now: u64, rules: &Rules) {
        let Some(mut next) = circuits.take().filter(|_| !start.fresh && !start.new_rules) else {
            *circuits = Some(Circuits::new(rules, start.fresh, follow));
            return;
        };
        for circuit in &mut next.breakers {
            circuit.breaker.restarted(now, &next.rules);
            if start.lost_from_ms.is_some_and(|from| circuit.moved_ms >= from) {
                circuit.breaker.forgotten();
                circuit.known = false;
            }
        }
        next.flights.clear();
        *circuits = Some(next);
    }

    /// The entry's breaker, where its phase is known.
    pub fn known(&self, entry: &EntryName) -> Option<(usize, &Breaker)> {
        let at = self.topology.find(entry)?;
        let circuit = &self.breakers[at];
        circuit.known.then_some((at, &circuit.breaker))
    }

    pub fn breaker(&self, at: usize) -> &Breaker {
        &self.breakers[at].breaker
    }

    pub fn observe(&mut self, now: u64, event: &Event) {
        let rules = &self.rules;
        if let Event::AttemptSent { call, entry, attempt, .. } = event {
            let Some(at) = self.topology.find(entry) else { return };
            let breaker = &self.breakers[at].breaker;
            if self.follow == Follow::Trials && breaker.phase() == Phase::Closed {
                return;
            }
            let admission = breaker.admit(now);
            let flight = Flight { at, admission, token: false, call: *call };
            self.flights.insert(*attempt, flight);
            if self.flights.len() > FLIGHTS_MAX {
                self.flights.pop_first();
            }
        } else if let Event::AttemptFirstToken { attempt, .. } = event {
            let Some(flight) = self.flights.get_mut(attempt) else { return };
            flight.token = true;
            self.breakers[flight.at].breaker.first_token(now, flight.admission, rules);
        } else if let Event::AttemptFinished { attempt, outcome, .. } = event {
            let Some(flight) = self.flights.remove(attempt) else { return };
            let breaker = &mut self.breakers[flight.at].breaker;
            if *outcome != Outcome::Refused {
                breaker.finished(now, flight.admission, result(*outcome), flight.call, flight.token, rules);
            }
        } else if let Event::CallPoison { call, entries } = event {
            for at in entries.iter().filter_map(|entry| self.topology.find(entry)) {
                self.breakers[at].breaker.poison(*call);
            }
        } else if let Event::BreakerOpened { entry, trips, until_ms, .. } = event {
            self.moved(now, entry, |breaker| breaker.opened(*trips, *until_ms));
        } else if let Event::BreakerHalfOpen { entry, by_probe } = event {
            self.moved(now, entry, |breaker| breaker.half_opened(now, *by_probe));
        } else if let Event::BreakerClosed { entry } = event {
            self.moved(now, entry, Breaker::closed);
        } else if let Event::JournalGap { .. } = event {
            // Attempts are missing: nothing is asked of a breaker before it moves again.
            self.breakers.iter_mut().for_each(|circuit| circuit.known = false);
        }
    }

    fn moved(&mut self, now: u64, entry: &EntryName, change: impl FnOnce(&mut Breaker)) {
        let Some(at) = self.topology.find(entry) else { return };
        let circuit = &mut self.breakers[at];
        change(&mut circuit.breaker);
        circuit.known = true;
        circuit.moved_ms = now;
    }
}

/// What a breaker makes of an outcome.
pub fn result(outcome: Outcome) -> Result {
    match outcome {
        Outcome::Success => Result::Success,
        Outcome::ProviderFault | Outcome::Overloaded => Result::Failure,
        Outcome::Throttled | Outcome::Quota => Result::Wait,
        Outcome::BadKey | Outcome::CallersFault | Outcome::Unfit | Outcome::Refused | Outcome::Cancelled => {
            Result::Neutral
        }
    }
}
