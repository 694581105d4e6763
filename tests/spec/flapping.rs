//! Changes that follow each other too fast are held, and a hold ends by itself.

use crate::{Row, check, row};
use squall::axis::{AxisEffect, AxisState, History};
use squall::base::rules::FlapRules;
use squall::base::{Axis, Level, MonoTime, WallTime};

use AxisEffect::{Changed, HoldEnded, HoldStarted, Suppressed};
use Level::{Essential, Fallback, Normal, Offline, Reduced};

/// One axis, with what it did last.
struct One {
    axis: Axis,
    state: AxisState,
    rules: FlapRules,
    history: History,
}

impl One {
    fn normal(axis: Axis) -> One {
        let state = AxisState::new(Normal, MonoTime::ZERO);
        One { axis, state, rules: FlapRules::default(), history: History::default() }
    }

    fn at(&mut self, seconds: u64, level: Level) -> Vec<AxisEffect> {
        let now = MonoTime(seconds * 1_000);
        let effects = self.state.report(self.axis, level, now, &self.rules);
        for effect in &effects {
            self.history.record(self.axis, effect, now, WallTime(0), "a report");
        }
        effects
    }

    fn level(&self) -> Level {
        self.state.level()
    }

    fn hold_until_s(&self) -> Option<u64> {
        self.state.hold_until().map(|until| until.ms() / 1_000)
    }

    /// Three changes at 0 s that leave it on FALLBACK.
    fn three_changes(axis: Axis) -> One {
        let mut one = One::normal(axis);
        let (worse, better) = (axis.levels()[1], axis.levels()[0]);
        for level in [worse, better, worse] {
            one.at(0, level);
        }
        one
    }

    /// A cloud hold on FALLBACK from 0 s to 600 s, with FALLBACK measured.
    fn held() -> One {
        let mut one = One::normal(Axis::Cloud);
        for level in [Reduced, Fallback, Normal, Fallback] {
            one.at(0, level);
        }
        assert_eq!((one.level(), one.hold_until_s()), (Fallback, Some(600)));
        one
    }
}

fn changed(was: Level, to: Level) -> AxisEffect {
    Changed { was, to, measured: to }
}

fn hold(until_s: u64) -> AxisEffect {
    HoldStarted { until: MonoTime(until_s * 1_000), restarted: false }
}

pub fn rows() -> Vec<Row> {
    vec![
        row("SM-011", "three changes inside 15 minutes start no hold", || {
            let mut cloud = One::normal(Axis::Cloud);
            for (seconds, level) in [(0, Fallback), (60, Normal), (120, Fallback)] {
                cloud.at(seconds, level);
            }
            assert_eq!((cloud.level(), cloud.hold_until_s()), (Fallback, None));
        }),
        row("SM-012", "the 4th change inside 15 minutes holds the worse of old and new", || {
            let mut cloud = One::normal(Axis::Cloud);
            for (seconds, level) in [(0, Fallback), (30, Normal), (60, Fallback), (90, Normal)] {
                cloud.at(seconds, level);
            }
            assert_eq!((cloud.level(), cloud.hold_until_s()), (Fallback, Some(690)));
        }),
        row("SM-013", "in a hold a better report is one suppressed transition", || {
            let mut cloud = One::held();
            assert_eq!(cloud.at(60, Normal), [Suppressed { was: Fallback, to: Normal }]);
            assert_eq!(cloud.level(), Fallback);
        }),
        row("SM-016", "a hold on one axis never touches another", || {
            let (mut cloud, mut memory) = (One::held(), One::normal(Axis::Memory));
            assert_eq!(memory.at(10, Level::FtsOnly), [changed(Normal, Level::FtsOnly)]);
            assert_eq!(memory.at(20, Normal), [changed(Level::FtsOnly, Normal)]);
            assert_eq!(cloud.at(30, Normal), [Suppressed { was: Fallback, to: Normal }]);
        }),
        row("SM-019", "beside an exempt cc axis cloud is protected all the same", || {
            let mut cloud = One::held();
            cloud.rules.exempt = vec![Axis::Cc];
            assert_eq!(cloud.at(60, Normal), [Suppressed { was: Fallback, to: Normal }]);
        }),
        row("SM-020", "cc RATE_LIMITED and back a second later are two records, none suppressed", || {
            let mut cc = One::normal(Axis::Cc);
            cc.at(0, Level::RateLimited);
            cc.at(1, Normal);
            assert_eq!((cc.history.applied_count(), cc.history.suppressed_count()), (2, 0));
        }),
        row("SM-023", "four worsenings are four transitions: a monotone decay starts a hold", || {
            let mut cloud = One::normal(Axis::Cloud);
            for (seconds, level) in [(0, Fallback), (10, Reduced), (20, Essential)] {
                cloud.at(seconds, level);
            }
            assert_eq!(cloud.at(30, Offline), [changed(Essential, Offline), hold(630)]);
            assert_eq!(cloud.at(40, Normal), [Suppressed { was: Offline, to: Normal }]);
        }),
        row("SM-024", "a staircase of improvements is held at its 4th step", || {
            let mut cloud = One::normal(Axis::Cloud);
            cloud.at(0, Offline);
            for (seconds, level) in [(3_600, Essential), (3_660, Reduced), (3_720, Fallback)] {
                assert_eq!(cloud.at(seconds, level).len(), 1);
            }
            assert_eq!(cloud.at(3_780, Normal), [Suppressed { was: Fallback, to: Normal }, hold(4_380)]);
            assert_eq!(cloud.level(), Fallback);
        }),
        row("SM-025", "a 4th change after 899 s is inside the window", || {
            let mut cloud = One::three_changes(Axis::Cloud);
            cloud.at(899, Normal);
            assert_eq!(cloud.hold_until_s(), Some(1_499));
        }),
        row("SM-026", "a change exactly 15 minutes old is outside the window", || {
            let mut cloud = One::three_changes(Axis::Cloud);
            assert_eq!(cloud.at(900, Normal), [changed(Fallback, Normal)]);
            assert_eq!(cloud.hold_until_s(), None);
        }),
        row("SM-027", "a better report 599 s into a hold is suppressed", || {
            assert_eq!(One::held().at(599, Normal), [Suppressed { was: Fallback, to: Normal }]);
        }),
        row("SM-028", "at exactly 600 s the hold is over and the improvement is number 1 of a new window", || {
            let mut cloud = One::held();
            assert_eq!(cloud.at(600, Normal), [HoldEnded, changed(Fallback, Normal)]);
            // Numbers 2 and 3 start no hold, number 4 does.
            assert_eq!(cloud.at(601, Fallback), [changed(Normal, Fallback)]);
            assert_eq!(cloud.at(602, Normal), [changed(Fallback, Normal)]);
            assert_eq!(cloud.at(603, Fallback), [changed(Normal, Fallback), hold(1_203)]);
        }),
        row("SM-031", "suppressed attempts neither extend a hold nor count as changes", || {
            let mut cloud = One::held();
            for minute in 1..10 {
                cloud.at(minute * 60 - 1, Fallback);
                assert_eq!(cloud.at(minute * 60, Normal), [Suppressed { was: Fallback, to: Normal }]);
            }
            assert_eq!(cloud.at(600, Normal), [HoldEnded, changed(Fallback, Normal)]);
        }),
    ]
}

#[test]
fn table() {
    check(&rows());
}
