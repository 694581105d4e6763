//! How many retries a provider may get in a rolling minute.
//!
//! **Source:** engine.md 3 "Retry budget".

use squall::base::rules::RetryRules;
use std::collections::VecDeque;

const MINUTE_MS: u64 = 60_000;

#[derive(Clone, Debug, Default)]
pub struct Budget {
    calls: VecDeque<u64>,
    retries: VecDeque<u64>,
}

impl Budget {
    /// A call's first attempt at the provider.
    pub fn call(&mut self, now: u64) {
        prune(&mut self.calls, now);
        self.calls.push_back(now);
    }

    /// A further one. `Err`: retries and calls in this minute, if there are more retries than the budget has.
    pub fn retry(&mut self, now: u64, rules: &RetryRules) -> Result<(), (usize, usize)> {
        prune(&mut self.calls, now);
        prune(&mut self.retries, now);
        self.retries.push_back(now);
        let (retries, calls) = (self.retries.len(), self.calls.len());
        let allowed = (rules.budget * calls as f64 + 1e-9).max(f64::from(rules.budget_min_per_minute));
        if retries as f64 <= allowed { Ok(()) } else { Err((retries, calls)) }
    }

    /// The engine was started again and may have forgotten its retries.
    pub fn restarted(&mut self) {
        self.retries.clear();
    }
}

fn prune(times: &mut VecDeque<u64>, now: u64) {
    while times.front().is_some_and(|t| t + MINUTE_MS <= now) {
        times.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_retries_a_minute_are_always_allowed_and_a_fifth_of_the_calls_beyond_that() {
        let rules = RetryRules::default();
        let mut budget = Budget::default();
        for _ in 0..3 {
            assert_eq!(budget.retry(0, &rules), Ok(()));
        }
        assert_eq!(budget.retry(0, &rules), Err((4, 0)));
        assert_eq!(budget.retry(60_000, &rules), Ok(()), "a minute later the window is empty");
        (0..20).for_each(|_| budget.call(60_000));
        for _ in 0..3 {
            assert_eq!(budget.retry(60_000, &rules), Ok(()));
        }
        assert_eq!(budget.retry(60_000, &rules), Err((5, 20)));
    }
}
