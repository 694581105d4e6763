//! Interesting things that a run may reach; a library of drills that never reaches one of them proves little.
//!
//! Derived from the history alone. A name stands here only if the events that exist can show it.
//! **Source:** events.md "Sometimes names", harness.md "Sometimes properties".

use crate::history::{Entry, Outside, What};
use squall::base::{Axis, CallOutcome, EntryName, ItemStatus, Level};
use squall::event::{AdvisoryForm, Event, OpenWhy, Severity};
use std::collections::{BTreeMap, BTreeSet};

/// Every name that can be reached.
pub const NAMES: [&str; 24] = [
    "advisory_full",
    "advisory_hint",
    "advisory_short",
    "breaker_half_open",
    "chain_exhausted",
    "duplicate_stopped",
    "hold_restarted",
    "hold_started",
    "improvement_suppressed",
    "in_doubt",
    "item_dead",
    "item_discarded",
    "item_expired",
    "item_merged",
    "item_refreshed",
    "last_resort_probe",
    "lease_lost",
    "measured_at_hold_end",
    "park_confirmed",
    "poison_found",
    "reset_moved",
    "session_deferred",
    "stream_truncated",
    "webhook_undelivered",
];
/// As above, but a trial answered with a limit needs a storm at just the right moment.
pub const RARE: [&str; 1] = ["trial_throttled"];

/// Statements of one reset differ by what their wording rounds away.
const SAME_RESET_MS: u64 = 120_000;

/// Whether an expectation may name it.
pub fn known(name: &str) -> bool {
    NAMES.contains(&name) || RARE.contains(&name)
}

#[derive(Debug, Default)]
pub struct Sometimes {
    counts: BTreeMap<String, u64>,
    /// Entries whose breaker is open (not half-open).
    open: BTreeSet<EntryName>,
    /// Axes whose hold ended, with the moment.
    hold_ended: BTreeMap<Axis, u64>,
    /// Until when a limit was last stated to be in force, by window.
    resets: BTreeMap<String, u64>,
}

impl Sometimes {
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    fn reached(&mut self, name: &'static str) {
        assert!(known(name), "{name} is missing in the list of names");
        *self.counts.entry(name.to_owned()).or_default() += 1;
    }

    pub fn entry(&mut self, entry: &Entry) {
        match &entry.what {
            What::Engine(event) => self.engine(entry.t_ms, event),
            What::Outside(Outside::RecallAnswered { advisory: Some(advisory), .. }) => {
                match advisory.form {
                    AdvisoryForm::Full => self.reached("advisory_full"),
                    AdvisoryForm::Short => self.reached("advisory_short"),
                }
                if advisory.severity == Severity::Hint {
                    self.reached("advisory_hint");
                }
            }
            What::Outside(_) | What::World(_) => {}
        }
    }

    fn engine(&mut self, t_ms: u64, event: &Event) {
        match event {
            Event::HoldStarted { restarted: false, .. } => self.reached("hold_started"),
            Event::HoldStarted { restarted: true, .. } => self.reached("hold_restarted"),
            Event::HoldEnded { axis } => {
                self.hold_ended.insert(*axis, t_ms);
            }
            Event::AxisSuppressed { .. } => self.reached("improvement_suppressed"),
            Event::AxisChanged { axis, to, .. } => {
                if (*axis, *to) == (Axis::Cc, Level::Normal) {
                    self.resets.clear(); // The next limit is another one.
                }
                if self.hold_ended.remove(axis) == Some(t_ms) {
                    self.reached("measured_at_hold_end");
                }
            }
            Event::BreakerOpened { entry, why, .. } => {
                self.open.insert(entry.clone());
                if *why == OpenWhy::TrialThrottled {
                    self.reached("trial_throttled");
                }
            }
            Event::BreakerHalfOpen { entry, .. } => {
                self.open.remove(entry);
                self.reached("breaker_half_open");
            }
            Event::BreakerClosed { entry } => {
                self.open.remove(entry);
            }
            Event::AttemptSent { entry, probe: true, .. } if self.open.contains(entry) => {
                self.reached("last_resort_probe");
            }
            Event::ParkEnded { .. } => self.reached("park_confirmed"),
            Event::CallFinished { outcome, earliest_ms, .. } => match outcome {
                CallOutcome::Truncated => self.reached("stream_truncated"),
                CallOutcome::Refused => self.reached("chain_exhausted"),
                CallOutcome::Failed | CallOutcome::Deferred if earliest_ms.is_some() => {
                    self.reached("chain_exhausted");
                }
                CallOutcome::Ok | CallOutcome::Failed | CallOutcome::Deferred | CallOutcome::Cancelled => {}
            },
            Event::CallPoison { .. } => self.reached("poison_found"),
            Event::DeferredQueued { merged: true, .. } => self.reached("item_merged"),
            Event::DeferredFinished { status, .. } => match status {
                ItemStatus::Expired => self.reached("item_expired"),
                ItemStatus::Discarded => self.reached("item_discarded"),
                ItemStatus::Refreshed => self.reached("item_refreshed"),
                ItemStatus::Dead => self.reached("item_dead"),
                ItemStatus::InDoubt | ItemStatus::Done => {}
                ItemStatus::Scheduled | ItemStatus::Pending | ItemStatus::Leased => {}
            },
            Event::LeaseLost { .. } => self.reached("lease_lost"),
            Event::OutreachInDoubt { .. } => self.reached("in_doubt"),
            Event::OutreachDuplicate { .. } => self.reached("duplicate_stopped"),
            Event::SessionDeferred { .. } => self.reached("session_deferred"),
            Event::SessionLimited { window, resets_in_ms: Some(_), until_ms, .. } => {
                let before = self.resets.insert(window.clone(), *until_ms);
                if before.is_some_and(|before| before.abs_diff(*until_ms) > SAME_RESET_MS) {
                    self.reached("reset_moved");
                }
            }
            Event::SessionLimited { resets_in_ms: None, .. } => {}
            Event::WebhookUndelivered { .. } => self.reached("webhook_undelivered"),
            Event::AttemptSent { .. }
            | Event::SessionAsked { .. }
            | Event::SessionWaiter { .. }
            | Event::SessionStarted { .. }
            | Event::SessionAnswered { .. }
            | Event::SessionEnded { .. }
            | Event::DeferredReady { .. }
            | Event::DeferredQueued { merged: false, .. }
            | Event::EngineStarted { .. }
            | Event::EngineStopped { .. }
            | Event::AxisMeasured { .. }
            | Event::ParkStarted { .. }
            | Event::ProviderDisabled { .. }
            | Event::CallStarted { .. }
            | Event::AttemptFinished { .. }
            | Event::AttemptFirstToken { .. }
            | Event::ProbeRound { .. }
            | Event::DeferredRun { .. }
            | Event::DeferredReleased { .. }
            | Event::EmbeddingQueued { .. }
            | Event::EmbeddingUpserted { .. }
            | Event::EmbeddingEmbedded { .. }
            | Event::EmbeddingFailed { .. }
            | Event::DeadAdded { .. }
            | Event::OutreachIntended { .. }
            | Event::OutreachSent { .. }
            | Event::OutreachRecorded { .. }
            | Event::NoticeSent { .. }
            | Event::NoticeUndelivered { .. }
            | Event::WebhookDelivered { .. }
            | Event::StatusWritten { .. }
            | Event::StatusFailed { .. }
            | Event::AdvisoryState { .. }
            | Event::AdvisoryGiven { .. }
            | Event::RecallFinished { .. }
            | Event::Tick { .. }
            | Event::JournalGap { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(events: &[(u64, Event)]) -> BTreeMap<String, u64> {
        let mut sometimes = Sometimes::default();
        for (n, (t_ms, event)) in events.iter().enumerate() {
            sometimes.entry(&Entry { n: n as u64, t_ms: *t_ms, what: What::Engine(event.clone()) });
        }
        sometimes.counts
    }

    fn improved(axis: Axis) -> Event {
        Event::AxisChanged {
            axis,
            was: Level::Fallback,
            to: Level::Normal,
            measured: Level::Normal,
            legacy: 0,
            cause: "t".into(),
        }
    }

    #[test]
    fn an_axis_that_moves_at_the_moment_its_hold_ends_took_its_measured_level() {
        let seen = counts(&[(600, Event::HoldEnded { axis: Axis::Cloud }), (600, improved(Axis::Cloud))]);
        assert_eq!(seen.get("measured_at_hold_end"), Some(&1));
        let later = counts(&[(600, Event::HoldEnded { axis: Axis::Cloud }), (700, improved(Axis::Cloud))]);
        assert_eq!(later.get("measured_at_hold_end"), None);
    }

    #[test]
    fn a_reset_has_moved_if_a_window_states_another_one() {
        let limited = |window: &str, until_ms| Event::SessionLimited {
            session: 1,
            window: window.into(),
            resets_in_ms: Some(1),
            until_ms,
        };
        let events = [limited("weekly", 900_000), limited("weekly", 930_000), limited("five_hour", 5_000_000)];
        let same = events.map(|event| (1, event));
        assert_eq!(counts(&same).get("reset_moved"), None);
        let moved = [(1, limited("weekly", 900_000)), (2, limited("weekly", 500_000))];
        assert_eq!(counts(&moved).get("reset_moved"), Some(&1));
    }

    #[test]
    fn only_a_probe_of_an_open_breaker_is_a_last_resort() {
        let entry = EntryName::new("a");
        let opened = Event::BreakerOpened { entry: entry.clone(), trips: 1, until_ms: 9, why: OpenWhy::Consecutive };
        let half = Event::BreakerHalfOpen { entry: entry.clone(), by_probe: true };
        let probe = Event::AttemptSent { call: None, entry, attempt: 1, probe: true, trial: false, retry: false };
        let seen = counts(&[(0, probe.clone()), (1, opened), (2, probe.clone()), (3, half), (4, probe)]);
        assert_eq!(seen.get("last_resort_probe"), Some(&1));
    }
}
