//! What is reported is what is in force, on each axis for itself.

use crate::{Row, check, row};
use squall::axis::{Axes, AxisEffect, History};
use squall::base::rules::FlapRules;
use squall::base::{Axis, AxisLevels, Level, MonoTime, WallTime};

/// Four axes on NORMAL, a history, and a clock that goes on a second at each report.
struct State {
    axes: Axes,
    history: History,
    now: MonoTime,
}

impl State {
    fn normal() -> State {
        State { axes: Axes::new(AxisLevels::NORMAL, MonoTime::ZERO), history: History::default(), now: MonoTime::ZERO }
    }

    fn report(&mut self, axis: Axis, level: Level) -> Vec<AxisEffect> {
        self.now = MonoTime(self.now.ms() + 1_000);
        let effects = self.axes.get_mut(axis).report(axis, level, self.now, &FlapRules::default());
        for effect in &effects {
            self.history.record(axis, effect, self.now, WallTime(0), "a report");
        }
        effects
    }
}

pub fn rows() -> Vec<Row> {
    use Level::{Fallback, Normal, Offline, Queued, Reduced, Throttled};
    vec![
        row("SM-002", "a worse report is one transition, not suppressed, and something is degraded", || {
            let mut state = State::normal();
            let effects = state.report(Axis::Cloud, Fallback);
            assert_eq!(effects, [AxisEffect::Changed { was: Normal, to: Fallback, measured: Fallback }]);
            assert_eq!(state.axes.levels().cloud, Fallback);
            assert!(state.axes.levels().is_degraded());
        }),
        row("SM-005", "embedding QUEUED is reported: embedding is QUEUED", || {
            let mut state = State::normal();
            state.report(Axis::Embedding, Queued);
            assert_eq!(state.axes.levels(), AxisLevels { embedding: Queued, ..AxisLevels::NORMAL });
        }),
        row("SM-006", "cc THROTTLED is reported: cc is THROTTLED", || {
            let mut state = State::normal();
            state.report(Axis::Cc, Throttled);
            assert_eq!(state.axes.levels(), AxisLevels { cc: Throttled, ..AxisLevels::NORMAL });
        }),
        row("SM-007", "cloud REDUCED and memory DOWN are reported: each axis holds its own", || {
            let mut state = State::normal();
            state.report(Axis::Cloud, Reduced);
            state.report(Axis::Memory, Level::Down);
            let levels = state.axes.levels();
            assert_eq!(levels, AxisLevels { cloud: Reduced, memory: Level::Down, ..AxisLevels::NORMAL });
            assert!(levels.is_degraded());
        }),
        row("SM-008", "two changes are below the limit: the way back to NORMAL is taken at once", || {
            let mut state = State::normal();
            state.report(Axis::Cloud, Offline);
            state.report(Axis::Cloud, Normal);
            assert_eq!(state.axes.levels(), AxisLevels::NORMAL);
            assert!(!state.axes.levels().is_degraded());
            assert_eq!(state.axes.cloud.hold_until(), None);
        }),
        row("SM-009", "two changes are two records of the history", || {
            let mut state = State::normal();
            state.report(Axis::Cloud, Fallback);
            state.report(Axis::Cloud, Reduced);
            let recorded: Vec<(Level, Level)> = state.history.applied().map(|one| (one.was, one.to)).collect();
            assert_eq!(recorded, [(Normal, Fallback), (Fallback, Reduced)]);
        }),
    ]
}

#[test]
fn table() {
    check(&rows());
}
