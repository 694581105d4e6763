//! LIMIT-1: a stated wait is kept, in the scope of the park that it made.
//!
//! Two witnesses: the engine's own `park.started` with its hint, and, in a simulated run, the wait that the provider's
//! answer really stated. The second catches a hint that was misread. A wait binds from the moment at which the engine
//! had the answer, so an attempt that was under way by then is no breach.

use crate::check::feed::reach;
use crate::check::setting::Setting;
use crate::check::{Check, Violation};
use crate::history::{Entry, Outside, What};
use crate::model::topology::{Reach, Topology};
use squall::base::{EntryName, Outcome};
use squall::event::{Event, ParkWhy};
use std::collections::BTreeMap;

/// Answers that state a wait and have not arrived yet; the oldest are forgotten.
const ANSWERS_MAX: usize = 1_024;

/// A provider's own clock and its whole-second headers may make the engine's idea of a wait this much shorter.
const STATED_SLACK_MS: u64 = 1_000;

#[derive(Default)]
pub struct Waits {
    setting: Setting,
    topology: Topology,
    /// By place.
    waits: Vec<Wait>,
    /// Waits that answers on their way to the engine state: their end, by request.
    answers: BTreeMap<u64, u64>,
    /// The end of the longest wait.
    until_ms: u64,
    /// Where and when attempts under way were sent.
    flights: BTreeMap<u64, (u64, u64)>,
    judged: u64,
}

/// The longest wait in force for an entry.
#[derive(Clone, Copy, Default)]
struct Wait {
    since_ms: u64,
    until_ms: u64,
    /// The entry in which the engine had it; `None`: there was none so far.
    n: Option<u64>,
}

impl Check for Waits {
    fn id(&self) -> &'static str {
        "LIMIT-1"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if let Some(start) = self.setting.observe(entry) {
            let rules = self.setting.rules().expect("a start brings its rules");
            if start.fresh || start.new_rules {
                self.topology = Topology::new(rules);
                self.waits = vec![Wait::default(); self.topology.places.len()];
            }
            if let Some(from) = start.lost_from_ms {
                self.waits.iter_mut().filter(|wait| wait.since_ms >= from).for_each(|wait| *wait = Wait::default());
            }
            self.flights.clear();
            return;
        }
        let now = entry.t_ms;
        if let What::Engine(event) = &entry.what {
            if let Event::AttemptSent { entry: to, attempt, .. } = event {
                if now >= self.until_ms && self.flights.is_empty() {
                    return; // No wait is in force.
                }
                self.flights.insert(*attempt, (entry.n, now));
                if self.flights.len() > ANSWERS_MAX {
                    self.flights.pop_first();
                }
                self.judge(now, to, (entry.n, now), entry.n, out);
            } else if let Event::ParkStarted { entry: at, scope, hint_ms: Some(hint), why, .. } = event {
                self.parked(now, entry.n, at, reach(*scope), *hint, *why);
            } else if let Event::AttemptFinished { entry: at, attempt, outcome, .. } = event {
                self.answered(now, entry.n, at, *attempt, *outcome);
            }
        } else if let What::Outside(outside) = &entry.what {
            if let Outside::ProviderRequest { entry: to, request: Some(request), .. } = outside {
                if let Some(sent) = self.flights.get(request).copied() {
                    self.judge(now, to, sent, entry.n, out);
                }
            } else if let Outside::ProviderAnswered { request: Some(request), wait_ms: Some(wait), .. } = outside {
                self.answers.insert(*request, now + wait);
                if self.answers.len() > ANSWERS_MAX {
                    self.answers.pop_first();
                }
            }
        }
    }

    fn finish(&mut self, _: &mut Vec<Violation>) {}

    fn judged(&self) -> u64 {
        self.judged
    }
}

impl Waits {
    /// `sent`: the entry and the moment in which the attempt was sent; `n`: the entry that is judged.
    fn judge(&mut self, now: u64, to: &EntryName, sent: (u64, u64), n: u64, out: &mut Vec<Violation>) {
        let Some(at) = self.topology.find(to) else { return };
        let wait = self.waits[at];
        let Some(told_n) = wait.n else { return };
        self.judged += 1;
        let (sent_n, sent_ms) = sent;
        if sent_n > told_n && sent_ms < wait.until_ms {
            let (since, until) = (wait.since_ms, wait.until_ms);
            let done = if sent_n == n { "sent to" } else { "received by" };
            let what =
                format!("an attempt was {done} {to} at {now} ms, a wait stated at {since} ms lasts until {until} ms");
            let mut events = vec![told_n, sent_n, n];
            events.dedup();
            out.push(Violation::new(now, events, what));
        }
    }

    fn parked(&mut self, now: u64, n: u64, source: &EntryName, reach: Reach, hint: u64, why: ParkWhy) {
        let (Some(source), Some(rules)) = (self.topology.find(source), self.setting.rules()) else { return };
        let cap = match why {
            ParkWhy::Throttled => rules.park.hint_max,
            ParkWhy::Quota => rules.park.quota_max,
        };
        self.judged += 1;
        self.keep(source, reach, Wait { since_ms: now, until_ms: now + hint.min(cap.ms()), n: Some(n) });
    }

    /// The engine has the answer: what its provider stated binds, whatever the engine read in it.
    fn answered(&mut self, now: u64, n: u64, entry: &EntryName, attempt: u64, outcome: Outcome) {
        self.flights.remove(&attempt);
        let Some(stated_until) = self.answers.remove(&attempt) else { return };
        let (Some(at), Some(rules)) = (self.topology.find(entry), self.setting.rules()) else { return };
        let cap = if outcome == Outcome::Throttled {
            rules.park.hint_max
        } else if outcome == Outcome::Quota {
            rules.park.quota_max
        } else {
            return;
        };
        let until_ms = stated_until.min(now + cap.ms()).saturating_sub(STATED_SLACK_MS);
        self.judged += 1;
        self.keep(at, Reach::Entry, Wait { since_ms: now, until_ms, n: Some(n) });
    }

    fn keep(&mut self, source: usize, reach: Reach, wait: Wait) {
        self.until_ms = self.until_ms.max(wait.until_ms);
        for at in 0..self.waits.len() {
            if self.topology.reaches(source, reach, at) && wait.until_ms > self.waits[at].until_ms {
                // What was sent under the shorter wait was judged then.
                self.waits[at] = wait;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::*;
    use squall::event::ParkScope;

    fn check() -> Waits {
        Waits::default()
    }

    fn told(hint_ms: u64, scope: ParkScope, why: ParkWhy) -> Story {
        let mut with = rules();
        with.providers[0].models = vec!["one".into(), "two".into()];
        with.providers[0].key_env = "KEY".into();
        with.providers[1].key_env = "KEY".into();
        let hint = Some(hint_ms);
        let park =
            Event::ParkStarted { entry: name("alpha/one"), scope, until_ms: 1_000 + hint_ms, hint_ms: hint, why };
        Story::with(with).at(1_000, park)
    }

    #[test]
    fn a_stated_wait_is_over_exactly_at_its_end() {
        told(30_000, ParkScope::Model, ParkWhy::Throttled).at(31_000, sent("alpha/one", 1, 1)).accepted(check());
        let early = told(30_000, ParkScope::Model, ParkWhy::Throttled).at(30_999, sent("alpha/one", 1, 1));
        early.rejected(check(), "lasts until 31000 ms");
    }

    #[test]
    fn the_scope_of_a_park_is_the_model_the_provider_or_everything_with_its_key() {
        let at = |scope, entry| told(30_000, scope, ParkWhy::Throttled).at(9_000, sent(entry, 1, 1));
        at(ParkScope::Model, "alpha/two").accepted(check());
        at(ParkScope::Provider, "alpha/two").rejected(check(), "alpha/two");
        at(ParkScope::Provider, "beta").accepted(check());
        at(ParkScope::Account, "beta").rejected(check(), "beta");
        at(ParkScope::Account, "gamma").accepted(check());
    }

    #[test]
    fn a_wait_binds_up_to_its_cap_only_a_day_for_rates_and_35_days_for_quotas() {
        let day = 86_400_000;
        let after_a_day = |why| told(3 * day, ParkScope::Model, why).at(1_000 + day, sent("alpha/one", 1, 1));
        after_a_day(ParkWhy::Throttled).accepted(check());
        after_a_day(ParkWhy::Quota).rejected(check(), "a wait stated at 1000 ms");
    }

    #[test]
    fn an_attempt_under_way_when_the_answer_came_is_no_breach_and_a_hint_that_was_misread_is() {
        let request = |request| Outside::ProviderRequest {
            entry: name("alpha"),
            probe: false,
            early: false,
            request: Some(request),
            stream: false,
        };
        let answer = Outside::ProviderAnswered {
            entry: name("alpha"),
            request: Some(1),
            status: 429,
            what: "throttled".into(),
            wait_ms: Some(30_000),
        };
        let story = Story::new()
            .at(10, sent("alpha", 1, 1))
            .at(20, sent("alpha", 2, 2))
            .at(30, request(1))
            .at(30, answer)
            .at(40, ended("alpha", 1, 1, Outcome::Throttled))
            .at(40, parked("alpha", 5_040, None))
            .at(50, request(2));
        story.accepted(check());
        story.clone().at(29_030, sent("alpha", 3, 3)).accepted(check());
        story.at(6_000, sent("alpha", 3, 3)).rejected(check(), "lasts until 29030 ms");
    }

    #[test]
    fn our_own_back_off_is_no_stated_wait() {
        Story::new().at(10, parked("alpha", 5_010, None)).at(20, sent("alpha", 1, 1)).unjudged(check());
    }
}
