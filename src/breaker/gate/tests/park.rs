//! Parks and probe rounds at their exact boundaries.

use super::*;

#[test]
fn a_park_lasts_as_long_as_the_answer_stated_and_not_a_millisecond_less() {
    let mut bench = Bench::new();
    let effects = bench.throttled(Some(17_000), 1_000);
    assert_eq!(parked_until(&effects), Some(18_000));
    assert_eq!(bench.refusal(1_000), Some((RefusalWhy::Parked, Some(18_000))));
    assert_eq!((bench.due(), bench.timer(17_999)), (Some(18_000), vec![]));
    assert_eq!(bench.timer(18_000), [GateEffect::ParkEnded]);
    assert!(!bench.gate.not_closed(), "throttled is no failure");
}

#[test]
fn without_a_hint_the_park_is_our_own_backoff_from_5_seconds_to_5_minutes() {
    let mut bench = Bench::new();
    let mut at_ms = 0;
    let mut lengths = Vec::new();
    for _ in 0..9 {
        let until = parked_until(&bench.throttled(None, at_ms)).unwrap();
        lengths.push((until - at_ms) / 1_000);
        bench.timer(until);
        at_ms = until + 1;
    }
    assert_eq!(lengths, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    bench.now(Outcome::Success, at_ms);
    assert_eq!(parked_until(&bench.throttled(None, at_ms)), Some(at_ms + 5_000), "a success resets it");
}

#[test]
fn from_the_second_refusal_in_a_row_the_longer_of_hint_and_backoff_counts() {
    let mut bench = Bench::new();
    let mut at_ms = 0;
    let mut lengths = Vec::new();
    for hint_s in [1, 1, 1, 60, 1] {
        let until = parked_until(&bench.throttled(Some(hint_s * 1_000), at_ms)).unwrap();
        lengths.push((until - at_ms) / 1_000);
        bench.timer(until);
        at_ms = until + 1;
    }
    assert_eq!(lengths, [1, 5, 10, 60, 40], "the back-off is 5 s at the second");
}

#[test]
fn a_burst_of_refusals_is_one_refusal_in_a_row_and_a_late_success_does_not_reset_it() {
    let mut bench = Bench::new();
    let early: Vec<Permit> = (0..5).map(|_| bench.call(0)).collect();
    let late_success = bench.call(0);
    for (n, permit) in early.into_iter().enumerate() {
        let effects = bench.end(permit, Outcome::Throttled, Some(2_000), 100 + n as u64).effects;
        assert_eq!(parked_until(&effects), Some(2_100 + n as u64));
    }
    bench.end(late_success, Outcome::Success, None, 200);
    bench.timer(2_104);
    assert_eq!(parked_until(&bench.throttled(Some(2_000), 3_000)), Some(8_000));
}

#[test]
fn stated_waits_are_capped_at_a_day_for_rates_and_at_35_days_for_quotas() {
    let day_ms = 86_400_000;
    assert_eq!(parked_until(&Bench::new().throttled(Some(99 * day_ms), 0)), Some(day_ms));
    for (hint_ms, until_ms) in [(Some(99 * day_ms), 35 * day_ms), (Some(day_ms), day_ms), (None, 14_400_000)] {
        let mut bench = Bench::new();
        let permit = bench.call(0);
        assert_eq!(parked_until(&bench.end(permit, Outcome::Quota, hint_ms, 0).effects), Some(until_ms));
    }
}

#[test]
fn after_a_park_one_call_at_a_time_passes_until_three_have_answered() {
    let mut bench = Bench::confirming();
    assert!(!bench.gate.serves() && bench.gate.confirming() && bench.admits(20_000));
    for n in 0..3 {
        assert!(!bench.gate.serves(), "{n}");
        let permit = bench.call(20_000 + n);
        assert!(permit.holds_slot() && !permit.is_trial());
        assert_eq!(bench.refusal(20_000 + n).map(|refusal| refusal.0), Some(RefusalWhy::Busy));
        bench.end(permit, Outcome::Success, None, 20_000 + n);
    }
    assert!(bench.gate.serves());
    let _both = (bench.call(21_000), bench.call(21_000));
}

#[test]
fn the_answers_after_a_park_have_to_come_in_a_row() {
    let mut bench = Bench::confirming();
    let outcomes = [Outcome::Success, Outcome::Success, Outcome::ProviderFault, Outcome::Success, Outcome::Success];
    for outcome in outcomes {
        bench.now(outcome, 20_000);
        assert!(!bench.gate.serves());
    }
    bench.now(Outcome::CallersFault, 20_000);
    assert!(!bench.gate.serves(), "a neutral result proves nothing");
    bench.now(Outcome::Success, 20_000);
    assert!(bench.gate.serves());
}

#[test]
fn a_call_from_before_the_park_confirms_nothing() {
    let mut bench = Bench::new();
    let early: Vec<Permit> = (0..3).map(|_| bench.call(0)).collect();
    bench.throttled(Some(1_000), 0);
    bench.timer(1_000);
    for permit in early {
        bench.end(permit, Outcome::Success, None, 2_000);
    }
    assert!(!bench.gate.serves());
}

#[test]
fn while_a_chain_has_no_serving_entry_a_park_ends_with_the_stated_wait() {
    // A second refusal with a hint of 1 s would wait 5 s; without a hint at the seventh 300 s.
    let mut bench = Bench::new();
    bench.throttled(Some(1_000), 0);
    bench.timer(1_000);
    assert_eq!(parked_until(&bench.throttled(Some(1_000), 2_000)), Some(7_000));
    bench.gate.set_chain_down(true);
    assert_eq!((bench.due(), bench.timer(2_999)), (Some(3_000), vec![]), "never before the stated wait");
    assert_eq!(bench.timer(3_000), [GateEffect::ParkEnded]);
}

#[test]
fn while_a_chain_has_no_serving_entry_our_own_backoff_is_30_seconds_at_most() {
    let mut bench = Bench::new();
    let mut at_ms = 0;
    for _ in 0..7 {
        at_ms = parked_until(&bench.throttled(None, at_ms)).unwrap();
        bench.timer(at_ms);
        at_ms += 1;
    }
    assert_eq!(parked_until(&bench.throttled(None, at_ms)), Some(at_ms + 300_000));
    bench.gate.set_chain_down(true);
    assert_eq!(bench.due(), Some(at_ms + 30_000));
}

#[test]
fn a_quota_park_without_a_reset_is_probed_every_five_minutes_while_a_chain_is_down() {
    let mut bench = Bench::new();
    let permit = bench.call(0);
    bench.end(permit, Outcome::Quota, None, 0);
    assert!(!bench.wants_probe(300_000));
    bench.gate.set_chain_down(true);
    assert!(!bench.wants_probe(299_999) && bench.wants_probe(300_000) && !bench.admits(300_000));
    let probe = bench.probe(300_000);
    bench.end(probe, Outcome::Quota, None, 301_000);
    assert!(!bench.wants_probe(600_999) && bench.wants_probe(601_000));
    let probe = bench.probe(601_000);
    assert_eq!(bench.end(probe, Outcome::Success, None, 602_000).effects, [GateEffect::ParkEnded]);
    (0..2).for_each(|n| drop(bench.now(Outcome::Success, 603_000 + n)));
    assert!(bench.gate.serves(), "the probe's answer was the first of three");
}

#[test]
fn a_round_never_enters_a_stated_wait() {
    for outcome in [Outcome::Throttled, Outcome::Quota] {
        let mut bench = Bench::new();
        let permit = bench.call(0);
        bench.end(permit, outcome, Some(3_600_000), 0);
        bench.gate.set_chain_down(true);
        assert!(!bench.wants_probe(3_599_999), "{outcome:?}");
        bench.timer(3_600_000);
        assert!(bench.wants_probe(3_600_000), "{outcome:?}");
    }
}

#[test]
fn a_park_of_more_than_a_minute_counts_until_the_entry_serves_again() {
    for (hint_ms, long) in [(60_000, false), (60_001, true)] {
        let mut bench = Bench::new();
        bench.throttled(Some(hint_ms), 0);
        assert_eq!(bench.gate.parked_long(), long);
        bench.timer(hint_ms);
        (0..2).for_each(|n| drop(bench.now(Outcome::Success, hint_ms + n)));
        assert_eq!(bench.gate.parked_long(), long);
        bench.now(Outcome::Success, hint_ms + 2);
        assert!(!bench.gate.parked_long());
    }
}

// --- Probe rounds ---

#[test]
fn a_half_open_or_unconfirmed_entry_is_probed_when_ten_seconds_passed_without_traffic() {
    for (mut bench, start_ms) in [(Bench::half_open(), 120_000), (Bench::confirming(), 20_000)] {
        assert!(bench.wants_probe(start_ms));
        bench.now(Outcome::CallersFault, start_ms);
        assert!(!bench.wants_probe(start_ms + 9_999));
        assert!(bench.wants_probe(start_ms + 10_000));
        let probe = bench.probe(start_ms + 10_000);
        assert!(!bench.wants_probe(start_ms + 10_001), "the slot is taken");
        bench.end(probe, Outcome::CallersFault, None, start_ms + 10_002);
        assert!(bench.wants_probe(start_ms + 10_003), "probes are not traffic");
    }
}

#[test]
fn while_nothing_serves_traffic_keeps_no_round_away_from_a_half_open_entry() {
    let mut bench = Bench::half_open();
    bench.now(Outcome::CallersFault, 120_000);
    assert!(!bench.wants_probe(120_001));
    bench.gate.set_chain_down(true);
    assert!(bench.wants_probe(120_001));
}

#[test]
fn an_entry_that_works_or_is_disabled_is_not_probed() {
    let mut bench = Bench::new();
    bench.gate.set_chain_down(true);
    assert!(!bench.wants_probe(1_000_000));
    let mut bench = Bench::half_open();
    bench.gate.set_enabled(false);
    assert!(!bench.wants_probe(1_000_000) && !bench.gate.serves());
    assert_eq!(bench.refusal(1_000_000), Some((RefusalWhy::Disabled, None)));
}
