//! Limits that were stated, by window, and when each is over.
//!
//! The newest statement for a window wins, whether its reset is earlier or later. Without a reset (or with one that is
//! over already, which says as little) our own back-off is waited: longer at each limit in a row, where limits that hit
//! sessions of the same time are one.

use super::Statement;
use crate::base::rules::SessionRules;
use crate::base::{MonoTime, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Window {
    until: MonoTime,
    /// Somebody stated when it ends.
    stated: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    windows: BTreeMap<String, Window>,
    /// Steps of our own back-off since sessions were last known to work.
    backoffs: u32,
    said_at: Option<MonoTime>,
}

impl Limits {
    /// A session that started at `started` met a limit. When, by what is known now, the limit of this window is over.
    pub fn stated(&mut self, statement: Statement, started: MonoTime, now: MonoTime, rules: &SessionRules) -> MonoTime {
        let Statement { window, resets_in, jitter_unit } = statement;
        let same_limit = self.said_at.is_some_and(|at| started <= at);
        self.said_at = Some(now);
        let known = self.windows.get(window).copied().filter(|window| window.until > now);
        let until = match (resets_in.filter(|reset| !reset.is_zero()), known) {
            (Some(reset), _) => Window { until: now + reset.min(rules.limit_max), stated: true },
            // It says nothing new: the reset stays the best that is known, and so does the back-off of the same limit.
            (None, Some(known)) if known.stated || same_limit => known,
            (None, _) => {
                if !same_limit || self.backoffs == 0 {
                    self.backoffs = self.backoffs.saturating_add(1);
                }
                Window { until: now + backoff(self.backoffs, jitter_unit, rules), stated: false }
            }
        };
        self.windows.insert(window.to_owned(), until);
        until.until
    }

    pub fn in_force(&self) -> bool {
        !self.windows.is_empty()
    }

    /// The window that is over last, and when that is.
    pub fn last(&self) -> Option<(&str, MonoTime)> {
        self.windows.iter().max_by_key(|(_, window)| window.until).map(|(name, window)| (name.as_str(), window.until))
    }

    pub fn due(&self) -> Option<MonoTime> {
        self.windows.values().map(|window| window.until).min()
    }

    /// Ends what is over. `true`: that was the last.
    pub fn timer(&mut self, now: MonoTime) -> bool {
        let before = self.windows.len();
        self.windows.retain(|_, window| window.until > now);
        before > 0 && self.windows.is_empty()
    }

    /// Sessions work again: the next limit is the first one.
    pub fn confirmed(&mut self) {
        self.backoffs = 0;
    }

    /// After a restart: a stored deadline later than now + its maximum is clamped.
    pub fn restore(&mut self, now: MonoTime, rules: &SessionRules) {
        let own_max = rules.backoff_max.scale(1.0 + rules.jitter);
        for window in self.windows.values_mut() {
            window.until = window.until.min(now + if window.stated { rules.limit_max } else { own_max });
        }
        self.said_at = self.said_at.map(|at| at.min(now));
    }
}

/// Step number `step` (from 1) of our own back-off, stretched upward only. The cap holds before the jitter.
fn backoff(step: u32, jitter_unit: f64, rules: &SessionRules) -> Span {
    assert!((0.0..=1.0).contains(&jitter_unit), "SESSION-1: a jitter unit of {jitter_unit}");
    let doublings = 1_u64.checked_shl(step.saturating_sub(1)).unwrap_or(u64::MAX);
    let capped = Span::from_ms(rules.backoff.ms().saturating_mul(doublings)).min(rules.backoff_max);
    capped + capped.scale(rules.jitter * jitter_unit)
}
