//! Flap protection: how one axis's applied level follows its measured one.
//!
//! Worse levels apply at once, better ones when no hold is in force. More than `transitions_max` counted changes inside
//! the window start a hold: the axis stays on the worse of old and new, improvements are suppressed, a worsening is
//! taken and restarts the hold. At its end the axis takes the measured level as number 1 of an empty window.
//! Invariants: TRANSITION-1, TRANSITION-3. Absent on purpose: measuring (`measure`), events, timers.
//! **Source:** engine.md 2.2.

use crate::base::rules::{FlapCount, FlapRules};
use crate::base::{Axis, AxisLevels, Level, MonoTime};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What a report did to the axis, in the order in which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisEffect {
    /// The applied level is now `to`.
    Changed {
        was: Level,
        to: Level,
        measured: Level,
    },
    /// `to` was measured, better than the applied level `was`, and a hold says no.
    Suppressed {
        was: Level,
        to: Level,
    },
    HoldStarted {
        until: MonoTime,
        restarted: bool,
    },
    HoldEnded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Direction {
    Worse,
    Better,
}

/// One axis's applied level and what protects it from flapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisState {
    level: Level,
    since: MonoTime,
    /// The last level reported; a suppressed improvement is recorded once for each time this becomes it.
    measured: Level,
    /// When counted changes happened, oldest first; never more than `transitions_max` (or 1, the change at a hold's end).
    counted: VecDeque<MonoTime>,
    /// Which way the last change since the last hold went; what `count = "runs"` looks at.
    direction: Option<Direction>,
    hold_until: Option<MonoTime>,
}

impl AxisState {
    pub fn new(level: Level, now: MonoTime) -> AxisState {
        AxisState { level, since: now, measured: level, counted: VecDeque::new(), direction: None, hold_until: None }
    }

    /// The applied level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Since when the applied level holds.
    pub fn since(&self) -> MonoTime {
        self.since
    }

    /// The level last reported, whether applied or not.
    pub fn measured(&self) -> Level {
        self.measured
    }

    /// When the hold in force ends.
    pub fn hold_until(&self) -> Option<MonoTime> {
        self.hold_until
    }

    /// When [`AxisState::hold_ended`] wants to be called.
    pub fn due(&self) -> Option<MonoTime> {
        self.hold_until
    }

    /// Takes note of a measured level. Right at any time: a hold that is over and whose timer is late ends first.
    pub fn report(&mut self, axis: Axis, measured: Level, now: MonoTime, rules: &FlapRules) -> Vec<AxisEffect> {
        let mut effects = self.hold_ended(axis, measured, now, rules);
        let exempt = rules.exempt.contains(&axis);
        let repeated = measured == self.measured;
        self.measured = measured;
        if measured == self.level {
            return effects;
        }
        let direction = self.direction_to(axis, measured);
        match (self.hold_until, direction) {
            (Some(_), Direction::Worse) => {
                effects.push(self.apply(measured, now));
                effects.push(self.hold(now, rules, true));
            }
            (Some(_), Direction::Better) => {
                if !repeated {
                    effects.push(self.suppress(measured));
                }
            }
            (None, Direction::Worse) => {
                let starts_hold = !exempt && self.count(direction, now, rules);
                effects.push(self.apply(measured, now));
                if starts_hold {
                    effects.push(self.hold(now, rules, false));
                }
            }
            (None, Direction::Better) => {
                if !exempt && self.count(direction, now, rules) {
                    effects.push(self.suppress(measured));
                    effects.push(self.hold(now, rules, false));
                } else {
                    effects.push(self.apply(measured, now));
                }
            }
        }
        effects
    }

    /// Ends the hold if it is over at `now`: the axis takes `measured` as change number 1 of an empty window.
    pub fn hold_ended(&mut self, axis: Axis, measured: Level, now: MonoTime, rules: &FlapRules) -> Vec<AxisEffect> {
        assert!(axis.severity(measured).is_some(), "TRANSITION-1: axis {axis} has no level {measured}");
        match self.hold_until {
            // The axis may have become exempt while a hold was in force.
            Some(until) if now >= until || rules.exempt.contains(&axis) => self.end_hold(axis, measured, now),
            Some(_) | None => Vec::new(),
        }
    }

    /// After a restart: a stored deadline later than now + its maximum is clamped.
    pub fn restore(&mut self, now: MonoTime, rules: &FlapRules) {
        self.hold_until = self.hold_until.map(|until| until.min(now + rules.hold));
        self.counted.retain(|at| *at <= now);
        self.since = self.since.min(now);
    }

    fn end_hold(&mut self, axis: Axis, measured: Level, now: MonoTime) -> Vec<AxisEffect> {
        self.hold_until = None;
        self.counted.clear();
        self.direction = None;
        self.measured = measured;
        let mut effects = vec![AxisEffect::HoldEnded];
        if measured != self.level {
            self.direction = Some(self.direction_to(axis, measured));
            self.counted.push_back(now);
            effects.push(self.apply(measured, now));
        }
        effects
    }

    fn direction_to(&self, axis: Axis, measured: Level) -> Direction {
        if axis.worse(measured, self.level) { Direction::Worse } else { Direction::Better }
    }

    /// Counts a change that is about to happen; true if it is one too many.
    fn count(&mut self, direction: Direction, now: MonoTime, rules: &FlapRules) -> bool {
        self.counted.retain(|at| at.in_window(now, rules.window));
        let before = self.direction.replace(direction);
        let counts = match rules.count {
            FlapCount::Changes => true,
            // A run counts at its first change, whenever that was.
            FlapCount::Runs => before != Some(direction),
        };
        if !counts {
            return false;
        }
        if self.counted.len() >= rules.transitions_max as usize {
            return true;
        }
        self.counted.push_back(now);
        false
    }

    fn apply(&mut self, to: Level, now: MonoTime) -> AxisEffect {
        let was = std::mem::replace(&mut self.level, to);
        assert!(was != to, "TRANSITION-1: a change from {was} to itself");
        self.since = now;
        AxisEffect::Changed { was, to, measured: self.measured }
    }

    fn suppress(&self, to: Level) -> AxisEffect {
        AxisEffect::Suppressed { was: self.level, to }
    }

    fn hold(&mut self, now: MonoTime, rules: &FlapRules, restarted: bool) -> AxisEffect {
        let until = now + rules.hold;
        self.hold_until = Some(until);
        AxisEffect::HoldStarted { until, restarted }
    }
}

/// The four axes side by side; each moves alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axes {
    pub cloud: AxisState,
    pub memory: AxisState,
    pub embedding: AxisState,
    pub cc: AxisState,
}

impl Axes {
    /// All axes on the given levels, without a past.
    pub fn new(levels: AxisLevels, now: MonoTime) -> Axes {
        let AxisLevels { cloud, memory, embedding, cc } = levels; // A new axis stops the build here.
        Axes {
            cloud: AxisState::new(cloud, now),
            memory: AxisState::new(memory, now),
            embedding: AxisState::new(embedding, now),
            cc: AxisState::new(cc, now),
        }
    }

    pub fn get(&self, axis: Axis) -> &AxisState {
        match axis {
            Axis::Cloud => &self.cloud,
            Axis::Memory => &self.memory,
            Axis::Embedding => &self.embedding,
            Axis::Cc => &self.cc,
        }
    }

    pub fn get_mut(&mut self, axis: Axis) -> &mut AxisState {
        match axis {
            Axis::Cloud => &mut self.cloud,
            Axis::Memory => &mut self.memory,
            Axis::Embedding => &mut self.embedding,
            Axis::Cc => &mut self.cc,
        }
    }

    /// A snapshot of the applied levels.
    pub fn levels(&self) -> AxisLevels {
        let Axes { cloud, memory, embedding, cc } = self;
        AxisLevels { cloud: cloud.level(), memory: memory.level(), embedding: embedding.level(), cc: cc.level() }
    }

    /// A snapshot of the levels last measured.
    pub fn measured(&self) -> AxisLevels {
        let Axes { cloud, memory, embedding, cc } = self;
        AxisLevels {
            cloud: cloud.measured(),
            memory: memory.measured(),
            embedding: embedding.measured(),
            cc: cc.measured(),
        }
    }

    /// Since when the composite state is what it is.
    pub fn since(&self) -> MonoTime {
        let Axes { cloud, memory, embedding, cc } = self;
        cloud.since().max(memory.since()).max(embedding.since()).max(cc.since())
    }

    /// The first end of a hold in force.
    pub fn due(&self) -> Option<MonoTime> {
        Axis::ALL.into_iter().filter_map(|axis| self.get(axis).due()).min()
    }

    pub fn restore(&mut self, now: MonoTime, rules: &FlapRules) {
        for axis in Axis::ALL {
            self.get_mut(axis).restore(now, rules);
        }
    }
}

#[cfg(test)]
mod tests;
