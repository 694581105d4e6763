//! What the axes did: the last applied transitions, and, kept apart, the last suppressed ones.
//!
//! Apart, because a provider that flaps inside a hold would otherwise push every real change out.
//! **Source:** engine.md 2 (the composite state).

use super::flap::AxisEffect;
use crate::base::{Axis, Level, MonoTime, WallTime};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Applied transitions kept.
pub const APPLIED_MAX: usize = 200;
/// Suppressed transitions kept.
pub const SUPPRESSED_MAX: usize = 200;

/// One change of an axis, or one that did not happen. `wall` is for people only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    pub axis: Axis,
    pub was: Level,
    pub to: Level,
    pub at: MonoTime,
    pub wall: WallTime,
    pub cause: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    applied: VecDeque<Transition>,
    suppressed: VecDeque<Transition>,
    applied_count: u64,
    suppressed_count: u64,
}

impl History {
    /// Takes note of an effect, if it is a change of level or a suppressed one.
    pub fn record(&mut self, axis: Axis, effect: &AxisEffect, at: MonoTime, wall: WallTime, cause: &str) {
        let entry = |was, to| Transition { axis, was, to, at, wall, cause: cause.to_owned() };
        match *effect {
            AxisEffect::Changed { was, to, measured: _ } => {
                self.applied_count += 1;
                push(&mut self.applied, entry(was, to), APPLIED_MAX);
            }
            AxisEffect::Suppressed { was, to } => {
                self.suppressed_count += 1;
                push(&mut self.suppressed, entry(was, to), SUPPRESSED_MAX);
            }
            AxisEffect::HoldStarted { .. } | AxisEffect::HoldEnded => {}
        }
    }

    /// The last applied transitions, oldest first.
    pub fn applied(&self) -> impl DoubleEndedIterator<Item = &Transition> + ExactSizeIterator {
        self.applied.iter()
    }

    /// The last suppressed transitions, oldest first.
    pub fn suppressed(&self) -> impl DoubleEndedIterator<Item = &Transition> + ExactSizeIterator {
        self.suppressed.iter()
    }

    /// The applied transition of this number, counted from 1; `None`: it is gone or has not happened.
    pub fn numbered(&self, number: u64) -> Option<&Transition> {
        let gone = self.applied_count - self.applied.len() as u64;
        let place = number.checked_sub(gone + 1)?;
        self.applied.get(usize::try_from(place).ok()?)
    }

    /// Applied transitions since the database was born.
    pub fn applied_count(&self) -> u64 {
        self.applied_count
    }

    /// Suppressed transitions since the database was born.
    pub fn suppressed_count(&self) -> u64 {
        self.suppressed_count
    }
}

fn push(list: &mut VecDeque<Transition>, entry: Transition, entries_max: usize) {
    if list.len() == entries_max {
        list.pop_front();
    }
    list.push_back(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(history: &mut History, effect: AxisEffect, at_ms: u64) {
        history.record(Axis::Cloud, &effect, MonoTime(at_ms), WallTime(0), "a test");
    }

    #[test]
    fn suppressed_noise_evicts_no_real_change() {
        // SM-032 differs on purpose.
        let mut history = History::default();
        let (was, to) = (Level::Normal, Level::Fallback);
        record(&mut history, AxisEffect::Changed { was, to, measured: to }, 1);
        for at_ms in 2..252 {
            record(&mut history, AxisEffect::Suppressed { was: to, to: was }, at_ms);
        }
        assert_eq!((history.applied().len(), history.suppressed().len()), (1, 200));
        assert_eq!((history.applied_count(), history.suppressed_count()), (1, 250));
    }

    #[test]
    fn the_last_200_applied_transitions_are_kept_and_holds_are_none() {
        let mut history = History::default();
        for at_ms in 1..=201 {
            let (was, to) =
                if at_ms % 2 == 0 { (Level::Fallback, Level::Normal) } else { (Level::Normal, Level::Fallback) };
            record(&mut history, AxisEffect::Changed { was, to, measured: to }, at_ms);
            record(&mut history, AxisEffect::HoldStarted { until: MonoTime(at_ms), restarted: false }, at_ms);
            record(&mut history, AxisEffect::HoldEnded, at_ms);
        }
        assert_eq!((history.applied().len(), history.applied_count()), (200, 201));
        assert_eq!(history.applied().next().map(|first| first.at), Some(MonoTime(2)));
        let at = |number| history.numbered(number).map(|transition| transition.at.ms());
        assert_eq!([0, 1, 2, 201, 202].map(at), [None, None, Some(2), Some(201), None]);
    }
}
