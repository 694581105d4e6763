//! Flap protection by example, at its exact boundaries, and by law.

use super::AxisEffect::{Changed, HoldEnded, HoldStarted, Suppressed};
use super::*;
use crate::base::Level::{Essential, Fallback, Normal, Offline, Reduced};
use proptest::prelude::*;

const CLOUD: Axis = Axis::Cloud;

fn changed(was: Level, to: Level) -> AxisEffect {
    Changed { was, to, measured: to }
}

fn hold(until_ms: u64, restarted: bool) -> AxisEffect {
    HoldStarted { until: MonoTime(until_ms), restarted }
}

/// Reports (ms, level) in order to a cloud axis that was NORMAL, and returns it with what the last report did.
fn after(reports: &[(u64, Level)], rules: &FlapRules) -> (AxisState, Vec<AxisEffect>) {
    let mut axis = AxisState::new(Normal, MonoTime::ZERO);
    let mut effects = Vec::new();
    for (at_ms, level) in reports {
        effects = axis.report(CLOUD, *level, MonoTime(*at_ms), rules);
    }
    (axis, effects)
}

fn last(reports: &[(u64, Level)]) -> Vec<AxisEffect> {
    after(reports, &FlapRules::default()).1
}

/// NORMAL, FALLBACK, NORMAL, FALLBACK and the 4th change at `at_ms`, whatever it is.
fn with_4th(at_ms: u64, level: Level) -> [(u64, Level); 4] {
    [(0, Fallback), (0, Normal), (0, Fallback), (at_ms, level)]
}

#[test]
fn worse_and_better_levels_apply_at_once_when_nothing_flaps() {
    // SM-002, SM-008
    assert_eq!(last(&[(0, Fallback)]), [changed(Normal, Fallback)]);
    assert_eq!(last(&[(0, Offline), (1, Normal)]), [changed(Offline, Normal)]);
}

#[test]
fn reporting_the_current_level_is_no_transition() {
    assert_eq!(last(&[(0, Normal)]), []);
    assert_eq!(last(&[(0, Fallback), (1, Fallback)]), []);
}

#[test]
fn three_changes_start_no_hold() {
    // SM-011
    let (axis, effects) = after(&[(0, Fallback), (60_000, Normal), (120_000, Fallback)], &FlapRules::default());
    assert_eq!((effects, axis.hold_until()), (vec![changed(Normal, Fallback)], None));
}

#[test]
fn a_4th_change_for_the_better_is_suppressed_and_starts_a_hold() {
    // SM-012, SM-021
    let (axis, effects) = after(&with_4th(30_000, Normal), &FlapRules::default());
    assert_eq!(effects, [Suppressed { was: Fallback, to: Normal }, hold(630_000, false)]);
    assert_eq!(axis.level(), Fallback);
}

#[test]
fn a_4th_change_for_the_worse_is_taken_and_starts_a_hold() {
    // SM-023
    let decay = [(0, Fallback), (10, Reduced), (20, Essential), (30, Offline)];
    assert_eq!(last(&decay), [changed(Essential, Offline), hold(600_030, false)]);
}

#[test]
fn the_4th_change_counts_until_the_first_is_exactly_15_minutes_old() {
    // SM-025, SM-026
    assert_eq!(last(&with_4th(899_999, Normal))[1], hold(1_499_999, false));
    assert_eq!(last(&with_4th(900_000, Normal)), [changed(Fallback, Normal)]);
}

#[test]
fn a_staircase_of_improvements_is_held_at_its_4th_step() {
    // SM-024
    let stairs = [(0, Offline), (3_600_000, Essential), (3_660_000, Reduced), (3_720_000, Fallback)];
    let (mut axis, _) = after(&stairs, &FlapRules::default());
    let effects = axis.report(CLOUD, Normal, MonoTime(3_780_000), &FlapRules::default());
    assert_eq!(effects, [Suppressed { was: Fallback, to: Normal }, hold(4_380_000, false)]);
}

#[test]
fn inside_a_hold_an_improvement_is_recorded_each_time_it_is_measured_anew() {
    // SM-013, SM-031
    let rules = FlapRules::default();
    let (mut axis, _) = after(&with_4th(0, Reduced), &rules);
    let mut report = |at_ms, level| axis.report(CLOUD, level, MonoTime(at_ms), &rules);
    assert_eq!(report(1_000, Normal), [Suppressed { was: Reduced, to: Normal }]);
    assert_eq!(report(2_000, Normal), [], "the same measurement again");
    assert_eq!(report(3_000, Fallback), [Suppressed { was: Reduced, to: Fallback }]);
    assert_eq!(report(4_000, Reduced), []);
    assert_eq!(report(5_000, Fallback), [Suppressed { was: Reduced, to: Fallback }]);
    assert_eq!(axis.hold_until(), Some(MonoTime(600_000)), "the hold does not grow");
}

#[test]
fn inside_a_hold_a_worsening_is_taken_and_restarts_it() {
    let rules = FlapRules::default();
    let (mut axis, _) = after(&with_4th(0, Normal), &rules);
    let effects = axis.report(CLOUD, Offline, MonoTime(599_999), &rules);
    assert_eq!(effects, [changed(Fallback, Offline), hold(1_199_999, true)]);
}

#[test]
fn a_hold_lasts_exactly_10_minutes_and_ends_with_the_measured_level() {
    // SM-027, SM-028; SM-029 differs on purpose: a suppressed improvement is never lost.
    let rules = FlapRules::default();
    let (axis, _) = after(&with_4th(0, Normal), &rules);
    let end = |at_ms| axis.clone().hold_ended(CLOUD, Normal, MonoTime(at_ms), &rules);
    assert_eq!(axis.due(), Some(MonoTime(600_000)));
    assert_eq!(end(599_999), []);
    assert_eq!(end(600_000), [HoldEnded, changed(Fallback, Normal)]);
}

#[test]
fn a_report_at_or_after_the_end_of_a_hold_whose_timer_is_late_ends_it_first() {
    let rules = FlapRules::default();
    for at_ms in [600_000, 5_000_000] {
        let (axis, _) = after(&with_4th(0, Normal), &rules);
        let report = |level| axis.clone().report(CLOUD, level, MonoTime(at_ms), &rules);
        assert_eq!(report(Normal), [HoldEnded, changed(Fallback, Normal)]);
        assert_eq!(report(Fallback), [HoldEnded]);
        assert_eq!(report(Reduced), [HoldEnded, changed(Fallback, Reduced)]);
    }
}

#[test]
fn the_change_at_the_end_of_a_hold_is_number_1_of_an_empty_window() {
    let rules = FlapRules::default();
    let (mut axis, _) = after(&with_4th(0, Normal), &rules);
    axis.hold_ended(CLOUD, Normal, MonoTime(600_000), &rules);
    for (at_ms, level, changes) in [(600_001, Fallback, 1), (600_002, Normal, 1), (600_003, Fallback, 2)] {
        assert_eq!(axis.report(CLOUD, level, MonoTime(at_ms), &rules).len(), changes, "{at_ms}");
    }
    assert_eq!(axis.hold_until(), Some(MonoTime(1_200_003)));
}

#[test]
fn a_hold_that_ends_without_a_change_leaves_the_window_empty() {
    let rules = FlapRules::default();
    let (mut axis, _) = after(&with_4th(0, Reduced), &rules);
    assert_eq!(axis.hold_ended(CLOUD, Reduced, MonoTime(600_000), &rules), [HoldEnded]);
    for (at_ms, level) in [(600_001, Fallback), (600_002, Reduced), (600_003, Fallback)] {
        axis.report(CLOUD, level, MonoTime(at_ms), &rules);
    }
    assert_eq!(axis.hold_until(), None);
}

#[test]
fn with_runs_a_monotone_decay_or_staircase_counts_once() {
    let rules = FlapRules { count: FlapCount::Runs, ..FlapRules::default() };
    let decay_and_stairs = [
        (0, Fallback),
        (1, Reduced),
        (2, Essential),
        (3, Offline),
        (4, Essential),
        (5, Reduced),
        (6, Fallback),
        (7, Normal),
        (8, Fallback),
    ];
    let (mut axis, effects) = after(&decay_and_stairs, &rules);
    assert_eq!((effects, axis.hold_until()), (vec![changed(Normal, Fallback)], None), "three runs");
    assert_eq!(axis.report(CLOUD, Reduced, MonoTime(9), &rules), [changed(Fallback, Reduced)], "still the third");
    let effects = axis.report(CLOUD, Normal, MonoTime(10), &rules);
    assert_eq!(effects, [Suppressed { was: Reduced, to: Normal }, hold(600_010, false)], "the fourth");
}

#[test]
fn an_exempt_axis_is_never_held() {
    let rules = FlapRules { exempt: vec![CLOUD], ..FlapRules::default() };
    let flapping: Vec<(u64, Level)> = (0..20).map(|n| (n, if n % 2 == 0 { Offline } else { Normal })).collect();
    let (axis, effects) = after(&flapping, &rules);
    assert_eq!((effects, axis.hold_until()), (vec![changed(Offline, Normal)], None));
}

#[test]
fn a_hold_of_an_axis_that_became_exempt_ends_at_the_next_report() {
    let (mut axis, _) = after(&with_4th(0, Normal), &FlapRules::default());
    let exempt = FlapRules { exempt: vec![CLOUD], ..FlapRules::default() };
    assert_eq!(axis.report(CLOUD, Normal, MonoTime(1), &exempt), [HoldEnded, changed(Fallback, Normal)]);
}

#[test]
fn axes_move_alone() {
    // SM-016
    let (rules, mut axes) = (FlapRules::default(), Axes::new(AxisLevels::NORMAL, MonoTime::ZERO));
    for (at_ms, level) in with_4th(5, Reduced) {
        axes.get_mut(CLOUD).report(CLOUD, level, MonoTime(at_ms), &rules);
    }
    let effects = axes.get_mut(Axis::Memory).report(Axis::Memory, Level::FtsOnly, MonoTime(6), &rules);
    assert_eq!(effects, [changed(Normal, Level::FtsOnly)]);
    assert_eq!((axes.due(), axes.since()), (Some(MonoTime(600_005)), MonoTime(6)));
    assert_eq!(axes.levels(), AxisLevels { cloud: Reduced, memory: Level::FtsOnly, ..AxisLevels::NORMAL });
}

#[test]
fn a_stored_hold_comes_back_and_never_ends_later_than_a_fresh_one() {
    let (axis, _) = after(&with_4th(0, Normal), &FlapRules::default());
    let restored = |now_ms, rules: &FlapRules| {
        let mut axis: AxisState = serde_json::from_str(&serde_json::to_string(&axis).unwrap()).unwrap();
        axis.restore(MonoTime(now_ms), rules);
        axis.hold_until()
    };
    assert_eq!(restored(100_000, &FlapRules::default()), Some(MonoTime(600_000)));
    let shorter = FlapRules { hold: crate::base::Span::from_mins(1), ..FlapRules::default() };
    assert_eq!(restored(100_000, &shorter), Some(MonoTime(160_000)));
}

fn any_level() -> impl Strategy<Value = Level> {
    proptest::sample::select(CLOUD.levels())
}

fn any_rules() -> impl Strategy<Value = FlapRules> {
    let count = proptest::sample::select(vec![FlapCount::Changes, FlapCount::Runs]);
    (count, 1u32..5, any::<bool>()).prop_map(|(count, transitions_max, exempt)| FlapRules {
        count,
        transitions_max,
        exempt: if exempt { vec![CLOUD] } else { Vec::new() },
        ..FlapRules::default()
    })
}

proptest! {
    #[test]
    fn reporting_twice_is_reporting_once(
        steps in proptest::collection::vec((0u64..400_000, any_level()), 1..60),
        rules in any_rules(),
    ) {
        let mut axis = AxisState::new(Normal, MonoTime::ZERO);
        let mut now = MonoTime::ZERO;
        for (wait_ms, level) in steps {
            now = MonoTime(now.ms() + wait_ms);
            axis.report(CLOUD, level, now, &rules);
            let once = axis.clone();
            prop_assert_eq!(axis.report(CLOUD, level, now, &rules), []);
            prop_assert_eq!(&axis, &once);
        }
    }

    #[test]
    fn a_level_is_never_better_than_measured_and_a_hold_always_ends(
        steps in proptest::collection::vec((0u64..400_000, any_level()), 1..60),
        rules in any_rules(),
    ) {
        let mut axis = AxisState::new(Normal, MonoTime::ZERO);
        let mut now = MonoTime::ZERO;
        // Since the last hold began by itself: how often it was restarted.
        let mut restarts = 0;
        for (wait_ms, level) in steps {
            now = MonoTime(now.ms() + wait_ms);
            let before = axis.level();
            for effect in axis.report(CLOUD, level, now, &rules) {
                match effect {
                    HoldStarted { until, restarted } => {
                        prop_assert_eq!(until, now + rules.hold);
                        restarts = if restarted { restarts + 1 } else { 0 };
                        prop_assert!(restarts <= 4, "at most four restarts are possible");
                    }
                    Suppressed { was, to } => prop_assert!(was == before && CLOUD.worse(was, to)),
                    Changed { was, to, measured } => prop_assert!(was != to && to == measured),
                    HoldEnded => {}
                }
            }
            prop_assert!(!CLOUD.worse(level, axis.level()), "worse at once");
            prop_assert!(axis.level() == level || axis.due().is_some(), "better at once, but in a hold");
            prop_assert!(axis.due().is_none_or(|end| end > now && end <= now + rules.hold));
        }
        if let Some(end) = axis.due() {
            let measured = axis.measured();
            axis.hold_ended(CLOUD, measured, end, &rules);
            prop_assert_eq!((axis.level(), axis.due()), (measured, None));
        }
    }
}
