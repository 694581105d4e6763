//! ADVISORY-1: the health of the dense path, and an advisory exactly while it is a fault or a hint.
//!
//! Where two recalls met in one millisecond more than one state may be right: the model keeps all of them until the
//! engine's word decides.

use crate::check::setting::Setting;
use crate::check::{Check, Violation};
use crate::history::{Entry, Outside, What};
use crate::model::health::{Dense, Health, State};
use crate::model::topology::Topology;
use squall::event::{AdvisoryForm, AdvisoryScope, DenseResult, Event, HealthState, Severity};
use std::collections::{BTreeMap, VecDeque};

/// How long after the end of its dense path a recall may be answered.
const ANSWER_MS: u64 = 10_000;

/// How long an answer may be on its way to a client.
const TRAVEL_MS: u64 = 15 * 60_000;

/// Advisories on their way to clients that are remembered.
const GIVEN_MAX: usize = 4_096;

#[derive(Default)]
pub struct States {
    setting: Setting,
    /// Embeddings are off by configuration.
    off: bool,
    enabled: bool,
    failures_to_fault: u32,
    /// Every state that the facts allow.
    healths: Vec<Health>,
    reported: Option<State>,
    /// What was reported when this instant began.
    before: Option<State>,
    now: u64,
    /// Recalls that ended in this instant, and advisories given in it.
    ended: Vec<(u64, u64)>,
    given: Vec<(u64, u64, Severity)>,
    touched: Option<u64>,
    /// Recalls that have to carry an advisory: since when, and the entry.
    owed: BTreeMap<u64, (u64, u64)>,
    /// Given and not yet seen by a client.
    travelling: VecDeque<Given>,
    judged: u64,
}

struct Given {
    at_ms: u64,
    severity: Severity,
    form: AdvisoryForm,
    scope: AdvisoryScope,
    client: Option<String>,
}

impl Check for States {
    fn id(&self) -> &'static str {
        "ADVISORY-1"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if entry.t_ms != self.now {
            self.settle(out);
            self.overdue(entry.t_ms, out);
            self.now = entry.t_ms;
            self.before = self.reported;
        }
        if self.setting.observe(entry).is_some() {
            self.start();
            return;
        }
        match &entry.what {
            What::Engine(event) => self.engine(entry.n, event),
            What::Outside(Outside::RecallAnswered { key, advisory: Some(seen), client, .. }) => {
                if self.reported.is_none() {
                    return;
                }
                self.judged += 1;
                let same = |given: &Given| {
                    (given.severity, given.form, given.scope) == (seen.severity, seen.form, seen.scope)
                        && given.client == *key
                };
                match self.travelling.iter().position(same) {
                    Some(at) => drop(self.travelling.remove(at)),
                    None => {
                        let what = format!("{client} got an advisory that the engine did not give");
                        out.push(Violation::new(self.now, [entry.n], what));
                    }
                }
            }
            What::Outside(_) | What::World(_) => {}
        }
    }

    fn finish(&mut self, out: &mut Vec<Violation>) {
        self.settle(out);
    }

    fn judged(&self) -> u64 {
        self.judged
    }
}

impl States {
    /// Health is per process: nothing is known after a start.
    fn start(&mut self) {
        let rules = self.setting.rules().expect("a start brings its rules");
        self.off = !Topology::new(rules).embeds();
        self.enabled = rules.advisory.enabled;
        self.failures_to_fault = rules.advisory.failures_to_fault;
        self.healths = vec![Health::new(State::Unknown, 0, self.now)];
        self.reported = Some(State::Unknown);
        self.before = self.reported;
        self.ended.clear();
        self.given.clear();
        self.owed.clear();
    }

    fn engine(&mut self, n: u64, event: &Event) {
        if self.reported.is_none() {
            return;
        }
        if let Event::RecallFinished { recall, dense, started_ms } = event {
            self.judged += 1;
            self.touched = Some(n);
            self.ended.push((*recall, n));
            let dense = match dense {
                DenseResult::Ok => Dense::Ok,
                DenseResult::Cached => Dense::Cached,
                DenseResult::Failed | DenseResult::RefusedShortly => Dense::Failed,
                DenseResult::RefusedLocally => Dense::RefusedLocally,
                DenseResult::Off => Dense::Off,
            };
            for health in std::mem::take(&mut self.healths) {
                let (next, other) = health.step(dense, *started_ms, self.now, self.failures_to_fault);
                for next in [Some(next), other].into_iter().flatten() {
                    if !self.healths.contains(&next) {
                        self.healths.push(next);
                    }
                }
            }
        } else if let Event::AdvisoryState { state, .. } = event {
            // That nothing is known yet is said at each start: no judgement.
            self.judged += u64::from(*state != HealthState::Unknown);
            self.touched = Some(n);
            let state = match state {
                HealthState::Unknown => State::Unknown,
                HealthState::Healthy => State::Healthy,
                HealthState::Hint => State::Hint,
                HealthState::Fault => State::Fault,
            };
            self.reported = Some(state);
            if state == State::Hint && self.off {
                self.healths = vec![Health::new(State::Hint, 0, self.now)]; // At once, before any recall.
            }
        } else if let Event::AdvisoryGiven { recall, severity, form, scope, client } = event {
            self.judged += 1;
            self.given.push((*recall, n, *severity));
            self.owed.remove(recall);
            while self.travelling.len() >= GIVEN_MAX
                || self.travelling.front().is_some_and(|given| given.at_ms + TRAVEL_MS < self.now)
            {
                self.travelling.pop_front();
            }
            let (at_ms, severity, form, scope) = (self.now, *severity, *form, *scope);
            self.travelling.push_back(Given { at_ms, severity, form, scope, client: client.clone() });
        }
    }

    fn settle(&mut self, out: &mut Vec<Violation>) {
        let Some(reported) = self.reported else { return };
        let now = self.now;
        if let Some(n) = self.touched.take() {
            let expected = self.healths.first().map(|health| health.state);
            self.healths.retain(|health| health.state == reported);
            if self.healths.is_empty() {
                let expected = expected.unwrap_or(State::Unknown);
                let what =
                    format!("the dense path is reported as {reported:?}, the recalls so far make it {expected:?}");
                out.push(Violation::new(now, [n], what));
                self.healths = vec![Health::new(reported, 0, now), Health::new(reported, 1, now)];
            }
        }
        for (recall, n, severity) in std::mem::take(&mut self.given) {
            let wanted = match severity {
                Severity::Hint => State::Hint,
                Severity::Fault => State::Fault,
            };
            // Of a recall that ended in this instant the state after it counts; another may have been decided before.
            let just_ended = self.ended.iter().any(|(ended, _)| *ended == recall);
            if !self.enabled {
                let what = format!("recall {recall} carries an advisory although they are switched off");
                out.push(Violation::new(now, [n], what));
            } else if reported != wanted && (just_ended || self.before != Some(wanted)) {
                let what = format!("recall {recall} carries a {severity:?} advisory while the state is {reported:?}");
                out.push(Violation::new(now, [n], what));
            }
            self.ended.retain(|(ended, _)| *ended != recall);
        }
        for (recall, n) in self.ended.drain(..) {
            if self.enabled && matches!(reported, State::Hint | State::Fault) {
                self.owed.insert(recall, (now, n));
            }
        }
    }

    fn overdue(&mut self, now: u64, out: &mut Vec<Violation>) {
        while let Some(first) = self.owed.first_entry()
            && first.get().0 + ANSWER_MS < now
        {
            let (recall, (since, n)) = first.remove_entry();
            let what = format!("recall {recall} carries no advisory although the state at {since} ms asks for one");
            out.push(Violation::new(now, [n], what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::*;
    use crate::history::outside::SeenAdvisory;

    fn check() -> States {
        States::default()
    }

    fn recall(story: Story, t: u64, recall: u64, dense: DenseResult) -> Story {
        story.at(t, Event::RecallFinished { recall, dense, started_ms: t - 5 })
    }

    fn state(story: Story, t: u64, state: HealthState) -> Story {
        story.at(t, Event::AdvisoryState { state, evidence: None })
    }

    fn given(story: Story, t: u64, recall: u64, severity: Severity) -> Story {
        let (form, scope) = (AdvisoryForm::Full, AdvisoryScope::Process);
        story.at(t, Event::AdvisoryGiven { recall, severity, form, scope, client: None })
    }

    fn fault() -> Story {
        let story = recall(recall(Story::new(), 10, 1, DenseResult::Failed), 20, 2, DenseResult::Failed);
        given(state(story, 20, HealthState::Fault), 20, 2, Severity::Fault)
    }

    #[test]
    fn the_second_failed_recall_in_a_row_is_a_fault_and_a_success_ends_it() {
        let story = recall(fault(), 30, 3, DenseResult::Ok);
        state(story.clone(), 30, HealthState::Healthy).accepted(check());
        story.rejected(check(), "reported as Fault, the recalls so far make it Healthy");
    }

    #[test]
    fn one_failed_recall_is_no_fault() {
        let one = recall(Story::new(), 10, 1, DenseResult::Failed);
        one.accepted(check());
        state(one.clone(), 10, HealthState::Fault).rejected(check(), "make it Unknown");
        given(one, 10, 1, Severity::Fault).rejected(check(), "while the state is Unknown");
    }

    #[test]
    fn two_failed_recalls_without_a_fault_are_rejected() {
        recall(recall(Story::new(), 10, 1, DenseResult::Failed), 20, 2, DenseResult::Failed)
            .rejected(check(), "make it Fault");
    }

    #[test]
    fn a_recall_refused_locally_is_a_fault_at_once_and_one_refused_for_a_moment_counts_as_failed() {
        let refused = |dense| recall(Story::new(), 10, 1, dense);
        given(state(refused(DenseResult::RefusedLocally), 10, HealthState::Fault), 10, 1, Severity::Fault)
            .accepted(check());
        refused(DenseResult::RefusedLocally).rejected(check(), "make it Fault");
        refused(DenseResult::RefusedShortly).accepted(check());
    }

    #[test]
    fn overlapping_failures_count_once_and_a_late_success_clears_nothing() {
        let overlapping = Event::RecallFinished { recall: 2, dense: DenseResult::Failed, started_ms: 8 };
        let story = recall(Story::new(), 10, 1, DenseResult::Failed).at(12, overlapping);
        story.accepted(check());
        state(story, 12, HealthState::Fault).rejected(check(), "make it Unknown");
        let late = fault().at(30, Event::RecallFinished { recall: 3, dense: DenseResult::Ok, started_ms: 15 });
        given(late.clone(), 30, 3, Severity::Fault).accepted(check());
        state(late, 30, HealthState::Healthy).rejected(check(), "make it Fault");
    }

    #[test]
    fn a_recall_in_a_fault_without_its_advisory_is_rejected() {
        let story = recall(fault(), 30, 3, DenseResult::Cached);
        given(story.clone(), 31, 3, Severity::Fault).at(20_000, Event::Tick { caught_up: false }).accepted(check());
        story.at(20_000, Event::Tick { caught_up: false }).rejected(check(), "recall 3 carries no advisory");
    }

    #[test]
    fn an_advisory_that_a_client_saw_must_have_been_given() {
        let seen = |severity| Outside::RecallAnswered {
            load: 1,
            client: "one".into(),
            key: None,
            status: 200,
            hits: 0,
            advisory: Some(SeenAdvisory {
                severity,
                form: AdvisoryForm::Full,
                scope: AdvisoryScope::Process,
                chars: 900,
            }),
        };
        fault().at(25, seen(Severity::Fault)).accepted(check());
        fault().at(25, seen(Severity::Fault)).at(26, seen(Severity::Fault)).rejected(check(), "did not give");
        Story::new().at(25, seen(Severity::Hint)).rejected(check(), "did not give");
    }

    #[test]
    fn embeddings_switched_off_give_a_hint_and_an_opted_out_engine_says_nothing() {
        let mut off = rules();
        off.chains.pop();
        let story = state(recall(Story::with(off), 10, 1, DenseResult::Off), 10, HealthState::Hint);
        given(story, 10, 1, Severity::Hint).accepted(check());
        let mut silent = rules();
        silent.advisory.enabled = false;
        let story = state(recall(Story::with(silent), 10, 1, DenseResult::RefusedLocally), 10, HealthState::Fault);
        story.accepted(check());
        given(story, 10, 1, Severity::Fault).rejected(check(), "switched off");
    }
}
