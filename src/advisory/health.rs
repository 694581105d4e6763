//! Health of the dense path, measured on the recall path of this process.
//!
//! ```text
//! unknown, healthy --failures_to_fault failed recalls in a row, or one refused locally--> fault
//! fault --a recall that started since and succeeded--> healthy          (embeddings off: hint, at once)
//! ```
//! Maintenance (backlog, probes) is never reported here. Invariant: ADVISORY-1. **Source:** engine.md 10.

use crate::base::MonoTime;
use crate::base::rules::AdvisoryRules;
use crate::event::{DenseResult, HealthState};
use serde::{Deserialize, Serialize};

/// What failed: embedding and vector search count alike, each with its own reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The query could not be embedded.
    Embedding,
    /// It was embedded, and the vector store could not be searched.
    VectorSearch,
    /// Embeddings are off by configuration.
    Off,
}

/// How one logical recall went; counts once, whatever its attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallReport {
    pub started: MonoTime,
    pub dense: DenseResult,
    /// Looked at for a recall that failed or was refused.
    pub reason: Reason,
    /// The real error, scrubbed; for a recall refused locally the last real one, or `None` for the last one known here.
    pub evidence: Option<String>,
}

/// The state changed: an `advisory.state` event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthChange {
    pub was: HealthState,
    pub state: HealthState,
    pub evidence: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    state: HealthState,
    /// Since when the state is a fault; meaningless otherwise.
    fault_since: MonoTime,
    failures: u32,
    /// When the first of `failures` was known. What was under way then is the same failure seen again.
    first_failure_at: MonoTime,
    reason: Option<Reason>,
    evidence: Option<String>,
}

impl Health {
    /// A new process's health: unknown, or a hint at once when embeddings are off. Also says it as a change, so that every
    /// incarnation's trace begins with a state. Serialisable, but measured per process: a restart begins anew.
    pub fn new(embeddings_configured: bool) -> (Health, HealthChange) {
        let (state, reason) =
            if embeddings_configured { (HealthState::Unknown, None) } else { (HealthState::Hint, Some(Reason::Off)) };
        let health = Health {
            state,
            fault_since: MonoTime::ZERO,
            failures: 0,
            first_failure_at: MonoTime::ZERO,
            reason,
            evidence: None,
        };
        (health, HealthChange { was: HealthState::Unknown, state, evidence: None })
    }

    /// Takes note of a recall that ended at `now`. Says whether the state changed.
    pub fn report(&mut self, recall: RecallReport, now: MonoTime, rules: &AdvisoryRules) -> Option<HealthChange> {
        match recall.dense {
            DenseResult::Cached => None,
            DenseResult::Off => {
                self.reason = Some(Reason::Off);
                self.evidence = None;
                self.enter(HealthState::Hint, now)
            }
            DenseResult::Ok => self.succeeded(recall.started, now),
            DenseResult::RefusedLocally => {
                self.note(recall);
                self.enter(HealthState::Fault, now)
            }
            DenseResult::Failed | DenseResult::RefusedShortly => {
                let seen_again = self.failures > 0 && recall.started < self.first_failure_at;
                self.note(recall);
                if !seen_again {
                    if self.failures == 0 {
                        self.first_failure_at = now;
                    }
                    self.failures = self.failures.saturating_add(1);
                }
                if self.failures < rules.failures_to_fault {
                    return None;
                }
                self.enter(HealthState::Fault, now)
            }
        }
    }

    pub fn state(&self) -> HealthState {
        self.state
    }

    /// Why, while the state is a hint or a fault.
    pub fn reason(&self) -> Option<Reason> {
        match self.state {
            HealthState::Unknown | HealthState::Healthy => None,
            HealthState::Hint | HealthState::Fault => self.reason,
        }
    }

    /// The last real error, while the state is a fault.
    pub fn evidence(&self) -> Option<&str> {
        match self.state {
            HealthState::Unknown | HealthState::Healthy | HealthState::Hint => None,
            HealthState::Fault => self.evidence.as_deref(),
        }
    }

    fn succeeded(&mut self, started: MonoTime, now: MonoTime) -> Option<HealthChange> {
        // An answer to a question asked before the outage would hide it: the next failure would be silent again.
        if self.state == HealthState::Fault && started < self.fault_since {
            return None;
        }
        self.failures = 0;
        self.reason = None;
        self.evidence = None;
        self.enter(HealthState::Healthy, now)
    }

    /// The last failure's reason; its error only if it has one, else the one before stands.
    fn note(&mut self, recall: RecallReport) {
        self.reason = Some(recall.reason);
        self.evidence = recall.evidence.or(self.evidence.take());
    }

    fn enter(&mut self, state: HealthState, now: MonoTime) -> Option<HealthChange> {
        let was = std::mem::replace(&mut self.state, state);
        if was == state {
            return None;
        }
        if state == HealthState::Fault {
            self.fault_since = now;
        }
        Some(HealthChange { was, state, evidence: self.evidence().map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recall(started_ms: u64, dense: DenseResult) -> RecallReport {
        let evidence = (dense == DenseResult::Failed).then(|| format!("timeout of the recall at {started_ms}"));
        RecallReport { started: MonoTime(started_ms), dense, reason: Reason::Embedding, evidence }
    }

    /// Reports (started, ended, result) in order and returns the last state.
    fn after(recalls: &[(u64, u64, DenseResult)]) -> Health {
        let (mut health, _) = Health::new(true);
        for (started, ended, dense) in recalls {
            health.report(recall(*started, *dense), MonoTime(*ended), &AdvisoryRules::default());
        }
        health
    }

    use DenseResult::{Cached, Failed, Ok, RefusedLocally, RefusedShortly};

    #[test]
    fn one_failed_recall_says_nothing_and_the_second_is_a_fault() {
        // AD-001, AD-002
        assert_eq!(after(&[(0, 3_000, Failed)]).state(), HealthState::Unknown);
        let health = after(&[(0, 3_000, Failed), (3_000, 6_000, Failed)]);
        assert_eq!(health.state(), HealthState::Fault);
        assert_eq!(health.evidence(), Some("timeout of the recall at 3000"));
    }

    #[test]
    fn a_success_between_two_failures_starts_the_count_again() {
        assert_eq!(after(&[(0, 1, Failed), (2, 3, Ok), (4, 5, Failed)]).state(), HealthState::Healthy);
    }

    #[test]
    fn a_refusal_on_the_spot_is_a_fault_at_once_with_the_last_real_error() {
        assert_eq!(after(&[(5, 5, RefusedLocally)]).state(), HealthState::Fault);
        let health = after(&[(0, 3_000, Failed), (4_000, 4_000, RefusedLocally)]);
        assert_eq!(health.evidence(), Some("timeout of the recall at 0"));
    }

    #[test]
    fn a_refusal_by_a_short_park_counts_as_one_failed_recall() {
        assert_eq!(after(&[(5, 5, RefusedShortly)]).state(), HealthState::Unknown);
        assert_eq!(after(&[(5, 5, RefusedShortly), (6, 6, RefusedShortly)]).state(), HealthState::Fault);
    }

    #[test]
    fn overlapping_recalls_that_started_before_the_first_failure_was_known_count_once() {
        // AD-014 differs on purpose: one blip seen twice is one blip.
        assert_eq!(after(&[(0, 3_000, Failed), (2_999, 5_000, Failed)]).state(), HealthState::Unknown);
        assert_eq!(after(&[(0, 3_000, Failed), (3_000, 5_000, Failed)]).state(), HealthState::Fault);
    }

    #[test]
    fn a_late_success_of_a_recall_from_before_the_fault_does_not_clear_it() {
        // AD-015 differs on purpose.
        let fault = [(0, 1_000, Failed), (1_000, 2_000, Failed)];
        assert_eq!(after(&[fault[0], fault[1], (1_999, 2_500, Ok)]).state(), HealthState::Fault);
        assert_eq!(after(&[fault[0], fault[1], (2_000, 2_500, Ok)]).state(), HealthState::Healthy);
    }

    #[test]
    fn a_cache_hit_says_nothing() {
        // AD-027 as fixed.
        assert_eq!(after(&[(0, 1, Cached)]).state(), HealthState::Unknown);
        assert_eq!(after(&[(0, 1, Failed), (2, 3, Cached), (4, 5, Failed)]).state(), HealthState::Fault);
        assert_eq!(after(&[(0, 1, RefusedLocally), (2, 3, Cached)]).state(), HealthState::Fault);
    }

    #[test]
    fn the_reason_is_that_of_the_last_failure() {
        // AD-025, AD-017
        let mut health = after(&[(0, 1, Failed)]);
        let search =
            RecallReport { reason: Reason::VectorSearch, evidence: None, ..recall(2, DenseResult::RefusedShortly) };
        let change = health.report(search, MonoTime(3), &AdvisoryRules::default()).unwrap();
        assert_eq!(change.evidence.as_deref(), Some("timeout of the recall at 0"));
        assert_eq!(health.reason(), Some(Reason::VectorSearch));
    }

    #[test]
    fn embeddings_that_are_off_are_a_hint_from_the_start() {
        let (mut health, change) = Health::new(false);
        assert_eq!(change.state, HealthState::Hint);
        assert_eq!((health.state(), health.reason()), (HealthState::Hint, Some(Reason::Off)));
        let off = RecallReport { reason: Reason::Off, evidence: None, ..recall(0, DenseResult::Off) };
        assert_eq!(health.report(off, MonoTime(0), &AdvisoryRules::default()), None);
    }

    #[test]
    fn a_state_is_announced_when_it_changes_and_only_then() {
        let (mut health, _) = Health::new(true);
        let mut report = |started, dense| {
            health
                .report(recall(started, dense), MonoTime(started), &AdvisoryRules::default())
                .map(|change| change.state)
        };
        let said = [Failed, Failed, Failed, Ok, Ok, RefusedLocally].into_iter().enumerate();
        let said: Vec<_> = said.map(|(at, dense)| report(at as u64, dense)).collect();
        let (fault, healthy) = (Some(HealthState::Fault), Some(HealthState::Healthy));
        assert_eq!(said, [None, fault, None, healthy, None, fault]);
    }
}
