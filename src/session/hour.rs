//! The starts of the rolling hour, and what they are measured against.
//!
//! THROTTLED begins when they reach one share of the budget and ends when they fall below a smaller one. Both end by
//! themselves: a start leaves the window an hour after it happened.

use crate::base::rules::SessionRules;
use crate::base::{MonoTime, Span};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

const HOUR: Span = Span::from_hours(1);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hour {
    /// Oldest first.
    starts: VecDeque<MonoTime>,
    throttled: bool,
}

impl Hour {
    pub fn started(&mut self, now: MonoTime, rules: &SessionRules) {
        self.starts.push_back(now);
        self.look(now, rules);
    }

    /// Forgets what left the window, and sees whether THROTTLED begins or ends.
    pub fn look(&mut self, now: MonoTime, rules: &SessionRules) {
        while self.starts.front().is_some_and(|start| !start.in_window(now, HOUR)) {
            self.starts.pop_front();
        }
        let starts = self.starts.len();
        self.throttled = match budget(rules) {
            None => false,
            Some(budget) if self.throttled => starts >= share(budget, rules.throttle_end),
            Some(budget) => starts >= share(budget, rules.throttle_at),
        };
    }

    pub fn count(&self, now: MonoTime) -> usize {
        self.starts.iter().rev().take_while(|start| start.in_window(now, HOUR)).count()
    }

    pub fn is_used_up(&self, now: MonoTime, rules: &SessionRules) -> bool {
        budget(rules).is_some_and(|budget| self.count(now) >= budget)
    }

    pub fn is_throttled(&self) -> bool {
        self.throttled
    }

    /// When the budget is no longer used up; for one that is.
    pub fn free_at(&self, rules: &SessionRules) -> Option<MonoTime> {
        budget(rules).and_then(|budget| self.falls_below(budget))
    }

    /// When the next of the two ends.
    pub fn due(&self, rules: &SessionRules) -> Option<MonoTime> {
        let budget = budget(rules)?;
        let calm = if self.throttled { self.falls_below(share(budget, rules.throttle_end)) } else { None };
        self.free_at(rules).into_iter().chain(calm).min()
    }

    /// When fewer than `starts` are left in the window, if there are as many.
    fn falls_below(&self, starts: usize) -> Option<MonoTime> {
        let last_to_leave = self.starts.len().checked_sub(starts)?;
        self.starts.get(last_to_leave).map(|start| *start + HOUR)
    }

    /// After a restart: nothing began later than now.
    pub fn restore(&mut self, now: MonoTime, rules: &SessionRules) {
        for start in &mut self.starts {
            *start = (*start).min(now);
        }
        self.look(now, rules);
    }
}

/// `None`: without a limit.
fn budget(rules: &SessionRules) -> Option<usize> {
    (rules.starts_per_hour > 0).then_some(rules.starts_per_hour as usize)
}

/// So many starts are this share of the budget, or more. A hair below a whole number is that number.
fn share(budget: usize, share: f64) -> usize {
    (budget as f64 * share - 1e-9).ceil().max(0.0) as usize
}
