//! Poison: a request that breaks whoever it is sent to.
//!
//! A request that failed with provider faults on 2 different hosts, each of which then answered another request within
//! 60 s, is to blame itself: its failures are taken out of the breakers' counts. **Source:** engine.md 3 (poison).

use crate::base::{EntryName, MonoTime, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How soon after the failure a host has to answer another request.
pub const ANSWER_WITHIN: Span = Span::from_secs(60);
/// This many hosts have to be found well.
pub const HOSTS_MIN: usize = 2;
/// Calls watched at most; the oldest is forgotten first.
pub const CALLS_MAX: usize = 1_000;

/// A request found to blame: these counted failures are to be taken back (`Gate::forgive` at each entry).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blame {
    pub call: u64,
    /// Entry and attempt of each failure.
    pub failures: Vec<(EntryName, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Failure {
    host: String,
    entry: EntryName,
    attempt: u64,
    at: MonoTime,
    /// Its host answered another request in time: the host was not at fault.
    cleared: bool,
    /// It was part of a [`Blame`] already.
    taken: bool,
}

/// Watches the failures of the last minutes, by call. Call numbers rise, so the smallest is the oldest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoisonWatch {
    calls: BTreeMap<u64, Vec<Failure>>,
}

impl PoisonWatch {
    /// `call`'s attempt at `entry` on `host` ended in a provider fault.
    pub fn failed(&mut self, call: u64, host: &str, entry: &EntryName, attempt: u64, now: MonoTime) {
        self.forget(now);
        let failure =
            Failure { host: host.to_owned(), entry: entry.clone(), attempt, at: now, cleared: false, taken: false };
        self.calls.entry(call).or_default().push(failure);
        if self.calls.len() > CALLS_MAX {
            self.calls.pop_first();
        }
    }

    /// `host` answered a request well: `call`'s, or a probe's (`None`). Says which requests that puts to blame.
    pub fn answered(&mut self, call: Option<u64>, host: &str, now: MonoTime) -> Vec<Blame> {
        self.forget(now);
        let mut blames = Vec::new();
        for (failed_call, failures) in &mut self.calls {
            if Some(*failed_call) == call {
                continue;
            }
            for failure in failures.iter_mut() {
                failure.cleared |= failure.host == host && failure.at.in_window(now, ANSWER_WITHIN);
            }
            let mut hosts: Vec<&str> =
                failures.iter().filter(|failure| failure.cleared).map(|failure| failure.host.as_str()).collect();
            hosts.sort_unstable();
            hosts.dedup();
            if hosts.len() < HOSTS_MIN {
                continue;
            }
            let mut taken = Vec::new();
            for failure in failures.iter_mut().filter(|failure| failure.cleared && !failure.taken) {
                failure.taken = true;
                taken.push((failure.entry.clone(), failure.attempt));
            }
            if !taken.is_empty() {
                blames.push(Blame { call: *failed_call, failures: taken });
            }
        }
        blames
    }

    /// A call is forgotten when nothing can clear its last failure any more: until then an earlier, cleared one counts.
    fn forget(&mut self, now: MonoTime) {
        self.calls.retain(|_, failures| failures.iter().any(|failure| failure.at.in_window(now, ANSWER_WITHIN)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed_on(watch: &mut PoisonWatch, call: u64, host: &str, attempt: u64, at_ms: u64) {
        watch.failed(call, host, &EntryName::new(host), attempt, MonoTime(at_ms));
    }

    fn blame(call: u64, failures: &[(&str, u64)]) -> Blame {
        let failures = failures.iter().map(|(entry, attempt)| (EntryName::new(entry), *attempt)).collect();
        Blame { call, failures }
    }

    #[test]
    fn two_hosts_that_answer_others_put_the_request_to_blame() {
        let mut watch = PoisonWatch::default();
        failed_on(&mut watch, 1, "a", 10, 0);
        failed_on(&mut watch, 1, "b", 11, 1_000);
        assert_eq!(watch.answered(Some(2), "a", MonoTime(2_000)), []);
        assert_eq!(watch.answered(Some(3), "b", MonoTime(3_000)), [blame(1, &[("a", 10), ("b", 11)])]);
        assert_eq!(watch.answered(Some(4), "b", MonoTime(4_000)), [], "each failure is taken back once");
    }

    #[test]
    fn one_host_is_not_enough_however_often_it_answers() {
        let mut watch = PoisonWatch::default();
        failed_on(&mut watch, 1, "a", 10, 0);
        failed_on(&mut watch, 1, "a", 11, 500);
        failed_on(&mut watch, 1, "b", 12, 1_000);
        assert_eq!(watch.answered(Some(2), "a", MonoTime(2_000)), []);
        assert_eq!(watch.answered(Some(3), "a", MonoTime(3_000)), []);
    }

    #[test]
    fn a_host_that_answers_a_minute_later_is_not_cleared() {
        for (answered_ms, to_blame) in [(60_999, true), (61_000, false)] {
            let mut watch = PoisonWatch::default();
            failed_on(&mut watch, 1, "a", 10, 1_000);
            failed_on(&mut watch, 1, "b", 11, 30_000);
            watch.answered(None, "b", MonoTime(40_000));
            assert_eq!(!watch.answered(None, "a", MonoTime(answered_ms)).is_empty(), to_blame, "{answered_ms}");
        }
    }

    #[test]
    fn its_own_success_does_not_put_a_request_to_blame() {
        let mut watch = PoisonWatch::default();
        failed_on(&mut watch, 1, "a", 10, 0);
        failed_on(&mut watch, 1, "b", 11, 0);
        assert_eq!(watch.answered(Some(1), "a", MonoTime(10)), []);
        assert_eq!(watch.answered(Some(1), "b", MonoTime(20)), []);
    }

    #[test]
    fn a_third_host_found_well_later_is_taken_back_too() {
        let mut watch = PoisonWatch::default();
        for (host, attempt) in [("a", 10), ("b", 11), ("c", 12)] {
            failed_on(&mut watch, 1, host, attempt, 0);
        }
        watch.answered(None, "a", MonoTime(1));
        assert_eq!(watch.answered(None, "b", MonoTime(2)), [blame(1, &[("a", 10), ("b", 11)])]);
        assert_eq!(watch.answered(None, "c", MonoTime(3)), [blame(1, &[("c", 12)])]);
    }

    #[test]
    fn failures_older_than_a_minute_and_calls_beyond_the_limit_are_forgotten() {
        let mut watch = PoisonWatch::default();
        for call in 0..=CALLS_MAX as u64 {
            failed_on(&mut watch, call, "a", call, 0);
        }
        assert_eq!(watch.calls.len(), CALLS_MAX);
        assert!(!watch.calls.contains_key(&0));
        watch.answered(None, "z", MonoTime(60_000));
        assert!(watch.calls.is_empty());
    }
}
