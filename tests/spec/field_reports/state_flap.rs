//! States that chattered, that were held for ever, or whose last word was lost.

use crate::breaker::Breaker;
use crate::{Row, row};
use squall::advisory::{Health, RecallReport, health::Reason};
use squall::axis::{AxisEffect, AxisState};
use squall::base::rules::{AdvisoryRules, FlapRules};
use squall::base::{Axis, Level, MonoTime};
use squall::event::{DenseResult, HealthState};

use Level::{Fallback, Normal};

fn report(axis: &mut AxisState, seconds: u64, level: Level) -> Vec<AxisEffect> {
    axis.report(Axis::Cloud, level, MonoTime(seconds * 1_000), &FlapRules::default())
}

/// Down at 0, up at 120, down at 240, up at 360: held on FALLBACK until 960.
fn held() -> AxisState {
    let mut axis = AxisState::new(Normal, MonoTime(0));
    for (seconds, level) in [(0, Fallback), (120, Normal), (240, Fallback), (360, Normal)] {
        report(&mut axis, seconds, level);
    }
    assert_eq!((axis.level(), axis.hold_until()), (Fallback, Some(MonoTime(960_000))));
    axis
}

/// After how many failed recalls in a row the fault is known.
fn failures_to_fault(threshold: u32) -> u64 {
    let rules = AdvisoryRules { failures_to_fault: threshold, ..AdvisoryRules::default() };
    let (mut health, _) = Health::new(true);
    let failed = |n: u64| RecallReport {
        started: MonoTime(n * 30_000),
        dense: DenseResult::Failed,
        reason: Reason::Embedding,
        evidence: Some("connection refused".to_owned()),
    };
    (0..10)
        .find(|n| {
            health.report(failed(*n), MonoTime(n * 30_000 + 1), &rules);
            health.state() == HealthState::Fault
        })
        .map_or(0, |last| last + 1)
}

pub fn rows() -> Vec<Row> {
    vec![
        row(
            "F044",
            "a hold ends with exactly one change to what is measured, and nobody has to report it again",
            || {
                let mut axis = held();
                let changed = AxisEffect::Changed { was: Fallback, to: Normal, measured: Normal };
                assert_eq!(axis.hold_ended(Axis::Cloud, Normal, MonoTime(959_999), &FlapRules::default()), []);
                let effects = axis.hold_ended(Axis::Cloud, Normal, MonoTime(960_000), &FlapRules::default());
                assert_eq!(effects, [AxisEffect::HoldEnded, changed]);
                assert!((33..100).all(|n| report(&mut axis, n * 30, Normal).is_empty()));
            },
        ),
        row("F045", "wishes for a better state neither count nor prolong the hold", || {
            let mut axis = held();
            for n in 13..32 {
                report(&mut axis, n * 30, Normal);
                assert_eq!(axis.hold_until(), Some(MonoTime(960_000)));
            }
            report(&mut axis, 960, Normal);
            assert_eq!((axis.level(), axis.hold_until()), (Normal, None));
        }),
        row("F047", "one outage that four paths report is one transition", || {
            let mut axis = AxisState::new(Normal, MonoTime(0));
            let down: usize = (0..4).map(|_| report(&mut axis, 1, Fallback).len()).sum();
            let up: usize = (0..4).map(|_| report(&mut axis, 300, Normal).len()).sum();
            assert_eq!((down, up, axis.hold_until()), (1, 1, None));
        }),
        // There is no axis of the network: it is out when every provider is. Quick to open, slow to close, is the breaker's.
        row("F050", "quick to declare, slow to clear: a failure among the successes begins the proof anew", || {
            let mut breaker = Breaker::half_open(3);
            breaker.succeed(10);
            breaker.succeed(20);
            breaker.fail(30);
            assert!(breaker.is_open());
            let at = breaker.due_s().expect("open");
            breaker.timer(at);
            breaker.succeed(at);
            breaker.succeed(at + 10);
            assert!(breaker.is_half_open());
            breaker.succeed(at + 20);
            assert!(breaker.is_closed());
        }),
        row("F051", "a threshold is applied once: n failures, not 2n - 1", || {
            assert_eq!([1, 2, 3].map(failures_to_fault), [1, 2, 3]);
            for failures in [2, 3] {
                let mut breaker = Breaker::opens_after(failures);
                (1..failures).for_each(|n| breaker.fail(u64::from(n) * 30));
                assert!(breaker.is_closed());
                breaker.fail(90);
                assert!(breaker.is_open());
            }
        }),
    ]
}
