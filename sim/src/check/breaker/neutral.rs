//! BREAKER-2: what a neutral outcome does to a breaker: nothing to a closed one, no trip to a half-open one.

use crate::check::circuits::{Circuits, Follow, result};
use crate::check::setting::Setting;
use crate::check::{Check, Violation};
use crate::history::{Entry, What};
use crate::model::breaker::{Phase, Result};
use squall::base::Outcome;
use squall::event::{Event, OpenWhy};

#[derive(Default)]
pub struct Neutrals {
    setting: Setting,
    circuits: Option<Circuits>,
    now: u64,
    /// Trials that were told to wait in this instant: place, entry number, the end of the stated wait.
    waits: Vec<(usize, u64, Option<u64>)>,
    /// Results of this instant that are no success: place, entry number, and whether it is a failure.
    results: Vec<(usize, u64, bool)>,
    judged: u64,
}

impl Check for Neutrals {
    fn id(&self) -> &'static str {
        "BREAKER-2"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if entry.t_ms != self.now {
            self.settle(out);
            self.now = entry.t_ms;
        }
        if let Some(start) = self.setting.observe(entry) {
            let rules = self.setting.rules().expect("a start brings its rules");
            Circuits::started(&mut self.circuits, Follow::Trials, &start, self.now, rules);
            self.waits.clear();
            return;
        }
        let What::Engine(event) = &entry.what else { return };
        self.opened(entry.n, event, out);
        if let Some(circuits) = &mut self.circuits {
            circuits.observe(self.now, event);
        }
        self.finished(entry.n, event);
    }

    fn finish(&mut self, out: &mut Vec<Violation>) {
        self.settle(out);
    }

    fn judged(&self) -> u64 {
        self.judged
    }
}

impl Neutrals {
    fn finished(&mut self, n: u64, event: &Event) {
        let Event::AttemptFinished { entry, outcome, hint_ms, .. } = event else { return };
        let kind = result(*outcome);
        if kind == Result::Success {
            return;
        }
        let Some((at, breaker)) = self.circuits.as_ref().and_then(|circuits| circuits.known(entry)) else { return };
        self.results.push((at, n, kind == Result::Failure));
        if kind == Result::Failure {
            return;
        }
        self.judged += 1;
        if kind == Result::Wait && breaker.last.trial_wait_ms == Some(self.now) {
            let park = &self.setting.rules().expect("known breakers have rules").park;
            let cap = if *outcome == Outcome::Quota { park.quota_max } else { park.hint_max };
            let until = hint_ms.map(|hint| self.now + hint.min(cap.ms()));
            self.waits.push((at, n, until));
        }
    }

    fn opened(&mut self, n: u64, event: &Event, out: &mut Vec<Violation>) {
        let Event::BreakerOpened { entry, trips, until_ms, why } = event else { return };
        let Some((at, breaker)) = self.circuits.as_ref().and_then(|circuits| circuits.known(entry)) else { return };
        let (now, last) = (Some(self.now), breaker.last);
        let results = || self.results.iter().filter(|(of, _, _)| *of == at);
        let only_neutral = results().next().is_some() && !results().any(|(_, _, failure)| *failure);
        let wrong = match breaker.phase() {
            Phase::Closed if only_neutral && *why != OpenWhy::Restored => {
                "opened at a neutral outcome, which moves no closed breaker".to_owned()
            }
            Phase::HalfOpen { .. } if last.trial_neutral_ms == now && *why == OpenWhy::TrialFailed => {
                "opened at a neutral answer to its trial, which only frees the slot".to_owned()
            }
            Phase::HalfOpen { .. } if last.trial_wait_ms == now || last.adopted_wait_ms == now => {
                let stated = self.waits.iter().find(|(of, _, _)| *of == at).and_then(|(_, _, until)| *until);
                self.waits.retain(|(of, _, _)| *of != at);
                if let Some(before) = breaker.trips().filter(|before| before != trips) {
                    format!("counts {trips} trips after a trial that was told to wait, expected {before} as before")
                } else if let Some(stated) = stated.filter(|stated| until_ms < stated) {
                    format!("opened until {until_ms} ms, its trial was told to wait until {stated} ms")
                } else {
                    return;
                }
            }
            Phase::Closed | Phase::Open { .. } | Phase::HalfOpen { .. } => return,
        };
        let events: Vec<u64> = results().map(|(_, n, _)| *n).chain([n]).collect();
        out.push(Violation::new(self.now, events, format!("the breaker of {entry} {wrong}")));
    }

    fn settle(&mut self, out: &mut Vec<Violation>) {
        self.results.clear();
        let Some(circuits) = &self.circuits else { return };
        for (at, n, _) in self.waits.drain(..) {
            let name = &circuits.topology.places[at].name;
            let what = format!("the breaker of {name} stays half-open after its trial was told to wait");
            out.push(Violation::new(self.now, [n], what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::*;

    fn check() -> Neutrals {
        Neutrals::default()
    }

    fn throttled(story: Story, t: u64, attempt: u64) -> Story {
        story.at(t, sent("alpha", attempt, 1)).at(t, ended("alpha", attempt, 1, Outcome::Throttled))
    }

    fn trial(outcome: Outcome, hint_ms: Option<u64>) -> Story {
        let mut end = probe_ended("alpha", 9, outcome);
        if let Event::AttemptFinished { hint_ms: hint, .. } = &mut end {
            *hint = hint_ms;
        }
        Story::new()
            .at(0, opened("alpha", 1, 120_000, OpenWhy::Consecutive))
            .at(120_000, half_open("alpha", false))
            .at(121_000, probed("alpha", 9))
            .at(121_000, end)
    }

    #[test]
    fn neutral_outcomes_leave_a_closed_breaker_alone() {
        let three = (1..=3).fold(Story::new(), |story, i| throttled(story, i, i));
        three.accepted(check());
        three.at(3, opened("alpha", 1, 120_003, OpenWhy::Consecutive)).rejected(check(), "moves no closed breaker");
    }

    #[test]
    fn a_trial_that_is_told_to_wait_reopens_until_then_without_a_trip() {
        let why = OpenWhy::TrialThrottled;
        let story = trial(Outcome::Throttled, Some(30_000));
        story.clone().at(121_000, opened("alpha", 1, 151_000, why)).accepted(check());
        story.clone().at(121_000, opened("alpha", 2, 361_000, why)).rejected(check(), "counts 2 trips");
        story.clone().at(121_000, opened("alpha", 1, 150_999, why)).rejected(check(), "told to wait until 151000 ms");
        story.at(121_001, over(1, 1)).rejected(check(), "stays half-open after its trial was told to wait");
    }

    #[test]
    fn another_neutral_answer_to_a_trial_only_frees_its_slot() {
        let story = trial(Outcome::CallersFault, None);
        story.accepted(check());
        story.at(121_000, opened("alpha", 2, 361_000, OpenWhy::TrialFailed)).rejected(check(), "only frees the slot");
    }
}
