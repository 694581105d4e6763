//! Flap protection of one axis, from its specification: what each step of the engine has to be.
//!
//! It follows the engine's own steps in their order and says of each whether it is the one that the rules ask for.
//! After a wrong step it believes the engine, so that one mistake is told once.
//! **Units:** milliseconds. **Source:** engine.md 2.2.

use squall::base::rules::{FlapCount, FlapRules};
use squall::base::{Axis, Level};
use std::collections::VecDeque;

/// What is wrong with a step, as the end of a sentence about the axis.
pub type Wrong = String;

#[derive(Clone, Debug)]
pub struct Flap {
    axis: Axis,
    window_ms: u64,
    changes_max: usize,
    hold_ms: u64,
    count: FlapCount,
    exempt: bool,
    applied: Level,
    /// The last that the engine reported.
    measured: Option<Level>,
    /// When the counted changes happened.
    counted: VecDeque<u64>,
    /// Whether the last change was to the worse; a run goes on in the same direction.
    run_worse: Option<bool>,
    hold_until: Option<u64>,
    /// A hold has to begin (or begin anew) in this instant.
    due: Option<Due>,
    /// A better level was measured in a hold and is not yet recorded as suppressed.
    unrecorded: bool,
    /// What the engine knows of past changes is not known: it was killed within its commit interval.
    unsure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Start,
    Restart,
}

impl Flap {
    pub fn new(axis: Axis, rules: &FlapRules, applied: Level) -> Flap {
        Flap {
            axis,
            window_ms: rules.window.ms(),
            changes_max: rules.transitions_max as usize,
            hold_ms: rules.hold.ms(),
            count: rules.count,
            exempt: rules.exempt.contains(&axis),
            applied,
            measured: None,
            counted: VecDeque::new(),
            run_worse: None,
            hold_until: None,
            due: None,
            unrecorded: false,
            unsure: false,
        }
    }

    pub fn applied(&self) -> Level {
        self.applied
    }

    pub fn hold_until(&self) -> Option<u64> {
        self.hold_until
    }

    /// Came back after a stop with this level; `unsure` if its newest changes may be lost.
    pub fn resumed(&mut self, applied: Level, unsure: bool) {
        self.applied = applied;
        self.measured = None;
        self.due = None;
        self.unrecorded = false;
        self.unsure |= unsure;
    }

    pub fn measured(&mut self, level: Level) {
        self.measured = Some(level);
        self.unrecorded = self.hold_until.is_some() && self.axis.worse(self.applied, level);
    }

    pub fn changed(&mut self, now: u64, to: Level) -> Result<(), Wrong> {
        let worse = self.axis.worse(to, self.applied);
        let was = std::mem::replace(&mut self.applied, to);
        self.unrecorded = false;
        if let Some(until) = self.hold_until {
            if !worse {
                return Err(format!("went from {was} to the better {to} inside a hold that lasts until {until} ms"));
            }
            self.due = Some(Due::Restart);
            return Ok(());
        }
        if !self.counts(now, worse) {
            return Ok(());
        }
        self.due = Some(Due::Start);
        if worse || self.unsure {
            return Ok(());
        }
        let (n, window) = (self.counted.len(), self.window_ms);
        Err(format!(
            "applied the better {to} as change number {n} within {window} ms: it starts a hold and is suppressed"
        ))
    }

    pub fn suppressed(&mut self, now: u64, to: Level) -> Result<(), Wrong> {
        if !self.axis.worse(self.applied, to) {
            return Err(format!("suppressed {to}, which is no better than the applied {}", self.applied));
        }
        if self.hold_until.is_some() {
            let expected = std::mem::replace(&mut self.unrecorded, false);
            let again = || format!("suppressed {to} in a hold without a newly measured better level");
            return if expected { Ok(()) } else { Err(again()) };
        }
        if self.counts(now, false) || self.unsure {
            self.due = Some(Due::Start);
            return Ok(());
        }
        let (n, max) = (self.counted.len(), self.changes_max);
        Err(format!("suppressed {to} outside a hold as change number {n}, with {max} allowed"))
    }

    pub fn hold_started(&mut self, now: u64, until: u64, restarted: bool) -> Result<(), Wrong> {
        let due = self.due.take();
        let before = self.hold_until.replace(until);
        let (n, max, window) = (self.counted.len(), self.changes_max, self.window_ms);
        let seen = if restarted { Due::Restart } else { Due::Start };
        match due {
            None if self.unsure && before.is_none() => {}
            None if before.is_some() => return Err("began its hold anew without a worse level".to_owned()),
            None => {
                return Err(format!("began a hold after {n} counted changes within {window} ms, with {max} allowed"));
            }
            Some(due) if due != seen => return Err(format!("said restarted={restarted} of a hold, expected {due:?}")),
            Some(_) => {}
        }
        if until != now + self.hold_ms {
            return Err(format!("holds until {until} ms, expected {} ms", now + self.hold_ms));
        }
        Ok(())
    }

    /// `late_max`: how late a timer may be.
    pub fn hold_ended(&mut self, now: u64, late_max: u64) -> Result<(), Wrong> {
        let until = self.hold_until.take();
        self.counted.clear();
        self.run_worse = None;
        self.unrecorded = false;
        self.unsure = false;
        match until {
            None => Err("ended a hold that was not in force".to_owned()),
            Some(until) if now < until => {
                Err(format!("ended its hold {} ms early, it lasts until {until} ms", until - now))
            }
            Some(until) if now > until.saturating_add(late_max) => {
                Err(format!("ended its hold {} ms late, it lasted until {until} ms", now - until))
            }
            Some(_) => Ok(()),
        }
    }

    /// Nothing more happens in this instant.
    pub fn settled(&mut self) -> Result<(), Wrong> {
        if let Some(due) = self.due.take()
            && !self.unsure
        {
            return Err(match due {
                Due::Start => format!(
                    "made change number {} within {} ms and began no hold, with {} allowed",
                    self.counted.len(),
                    self.window_ms,
                    self.changes_max
                ),
                Due::Restart => "took a worse level in a hold and did not begin the hold anew".to_owned(),
            });
        }
        let Some(measured) = self.measured else { return Ok(()) };
        if std::mem::replace(&mut self.unrecorded, false) {
            return Err(format!("measured the better {measured} in a hold and did not record it as suppressed"));
        }
        if self.axis.worse(measured, self.applied) {
            return Err(format!("measured {measured} and stayed at the better {}", self.applied));
        }
        if self.hold_until.is_none() && self.axis.worse(self.applied, measured) && !self.unsure {
            return Err(format!("measured {measured} and stayed at the worse {} without a hold", self.applied));
        }
        Ok(())
    }

    /// Counts a change if it counts; whether it is one too many.
    fn counts(&mut self, now: u64, worse: bool) -> bool {
        let same_run = self.run_worse == Some(worse);
        self.run_worse = Some(worse);
        if self.exempt || (self.count == FlapCount::Runs && same_run) {
            return false;
        }
        while self.counted.front().is_some_and(|t| t.saturating_add(self.window_ms) <= now) {
            self.counted.pop_front();
        }
        self.counted.push_back(now);
        self.counted.len() > self.changes_max
    }
}
