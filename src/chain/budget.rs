//! The retry budget: in any minute a provider's retries stay below a share of its calls, so that a struggling provider is
//! not asked several times as often as a healthy one.
//!
//! [`RetryBudget::allows`] looks; the `record_*` functions write. Invariant: LIMIT-2. **Source:** engine.md 3 (chain).

use crate::base::rules::RetryRules;
use crate::base::{MonoTime, Span};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

const WINDOW: Span = Span::from_mins(1);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Minute {
    calls: VecDeque<MonoTime>,
    retries: VecDeque<MonoTime>,
}

/// All providers' last minutes. What is older is forgotten as new things are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryBudget {
    providers: BTreeMap<String, Minute>,
}

impl RetryBudget {
    /// A call's first attempt at `provider` was sent.
    pub fn record_call(&mut self, provider: &str, now: MonoTime) {
        push(&mut self.minute(provider).calls, now);
    }

    /// Whether a retry may be sent to `provider` now. Looks only.
    pub fn allows(&self, provider: &str, now: MonoTime, rules: &RetryRules) -> bool {
        let in_window = |times: &VecDeque<MonoTime>| times.iter().filter(|at| at.in_window(now, WINDOW)).count();
        let (calls, retries) = self
            .providers
            .get(provider)
            .map_or((0, 0), |minute| (in_window(&minute.calls), in_window(&minute.retries)));
        // The small term keeps 10 of 50 at a share of 0.2, whatever the binary fraction says.
        let share = (rules.budget * calls as f64 + 1e-9).floor() as usize;
        retries < share.max(rules.budget_min_per_minute as usize)
    }

    /// A retry was sent to `provider`.
    pub fn record_retry(&mut self, provider: &str, now: MonoTime) {
        push(&mut self.minute(provider).retries, now);
    }

    fn minute(&mut self, provider: &str) -> &mut Minute {
        self.providers.entry(provider.to_owned()).or_default()
    }
}

fn push(times: &mut VecDeque<MonoTime>, now: MonoTime) {
    while times.front().is_some_and(|at| !at.in_window(now, WINDOW)) {
        times.pop_front();
    }
    times.push_back(now);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(calls: u64, retries: u64, at_ms: u64) -> RetryBudget {
        let mut budget = RetryBudget::default();
        (0..calls).for_each(|_| budget.record_call("p", MonoTime(at_ms)));
        (0..retries).for_each(|_| budget.record_retry("p", MonoTime(at_ms)));
        budget
    }

    #[test]
    fn three_a_minute_are_allowed_whatever_the_traffic() {
        let rules = RetryRules::default();
        assert!(after(0, 2, 0).allows("p", MonoTime(0), &rules));
        assert!(!after(0, 3, 0).allows("p", MonoTime(0), &rules));
        assert!(!after(19, 3, 0).allows("p", MonoTime(0), &rules));
    }

    #[test]
    fn above_that_a_fifth_of_the_calls() {
        let rules = RetryRules::default();
        assert!(after(20, 3, 0).allows("p", MonoTime(0), &rules));
        assert!(!after(20, 4, 0).allows("p", MonoTime(0), &rules));
        assert!(after(50, 9, 0).allows("p", MonoTime(0), &rules));
        assert!(!after(54, 10, 0).allows("p", MonoTime(0), &rules));
        assert!(after(55, 10, 0).allows("p", MonoTime(0), &rules));
    }

    #[test]
    fn a_retry_exactly_a_minute_old_counts_no_more() {
        let rules = RetryRules::default();
        assert!(!after(0, 3, 0).allows("p", MonoTime(59_999), &rules));
        assert!(after(0, 3, 0).allows("p", MonoTime(60_000), &rules));
    }

    #[test]
    fn providers_do_not_share_a_budget() {
        assert!(after(0, 3, 0).allows("q", MonoTime(0), &RetryRules::default()));
    }

    #[test]
    fn what_left_the_window_is_forgotten() {
        let mut budget = after(1_000, 0, 0);
        budget.record_call("p", MonoTime(60_000));
        assert_eq!(budget.providers["p"].calls.len(), 1);
    }
}
