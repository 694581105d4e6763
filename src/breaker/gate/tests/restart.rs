//! What comes back after a restart.

use super::*;

fn restarted(bench: &Bench, now_ms: u64) -> (Bench, Vec<GateEffect>) {
    let json = serde_json::to_string(&bench.gate).unwrap();
    let mut gate: Gate = serde_json::from_str(&json).unwrap();
    assert_eq!(gate, bench.gate);
    let effects = gate.restore(MonoTime(now_ms), &bench.rules);
    (Bench { gate, rules: bench.rules.clone(), attempt: 1_000 }, effects)
}

#[test]
fn open_comes_back_with_the_remaining_time_and_half_open_as_open_with_none() {
    // CB-031 differs on purpose.
    assert_eq!(restarted(&Bench::open(), 100_000).1, [opened(1, 120_000, OpenWhy::Restored)]);
    let (mut bench, effects) = restarted(&Bench::half_open(), 125_000);
    assert_eq!(effects, [opened(1, 125_000, OpenWhy::Restored)]);
    assert_eq!(bench.timer(125_000), [HALF_OPEN]);
    assert_eq!(restarted(&Bench::new(), 0).1, []);
}

#[test]
fn trips_come_back_as_three_at_most() {
    // CB-018, CB-022
    let mut bench = Bench::open();
    for trips in 2..8 {
        let at = bench.due().unwrap();
        bench.timer(at);
        bench.now(Outcome::ProviderFault, at);
        assert_eq!(restarted(&bench, at).0.gate.trips(), trips.min(3));
    }
}

#[test]
fn stored_deadlines_later_than_their_maximum_are_clamped() {
    // As if the clock of the stored state had been far ahead.
    let mut bench = Bench::new();
    (0..3).for_each(|_| drop(bench.now(Outcome::ProviderFault, 1_000_000_000_000)));
    assert_eq!(restarted(&bench, 0).1, [opened(1, 1_800_000, OpenWhy::Restored)]);
    let mut bench = Bench::new();
    bench.throttled(Some(60_000), 1_000_000_000_000);
    assert_eq!(restarted(&bench, 0).0.gate.park_until(), Some(MonoTime(86_400_000)));
}

#[test]
fn an_attempt_of_the_incarnation_before_changes_nothing() {
    let mut bench = Bench::half_open();
    let trial = bench.call(120_000);
    let (mut after, _) = restarted(&bench, 121_000);
    after.timer(121_000);
    assert!(after.admits(121_000), "nobody holds the slot");
    assert!(after.end(trial, Outcome::ProviderFault, None, 122_000).late);
}
