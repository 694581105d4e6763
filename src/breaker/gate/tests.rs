//! The breaker by example at its exact boundaries, and every phase against every outcome.

use super::*;
use crate::base::Rules;
use crate::event::{OpenWhy, ParkScope};

mod laws;
mod park;
mod restart;

const ALL_OUTCOMES: [Outcome; 10] = [
    Outcome::Success,
    Outcome::ProviderFault,
    Outcome::Overloaded,
    Outcome::Throttled,
    Outcome::Quota,
    Outcome::BadKey,
    Outcome::CallersFault,
    Outcome::Unfit,
    Outcome::Refused,
    Outcome::Cancelled,
];

/// A gate with its rules, a clock and a counter of attempts.
struct Bench {
    gate: Gate,
    rules: GateRules,
    attempt: u64,
}

impl Bench {
    fn new() -> Bench {
        Bench { gate: Gate::new(), rules: GateRules::new(&Rules::default(), false), attempt: 0 }
    }

    fn ask(&mut self, probe: bool, now_ms: u64) -> Result<Permit, Refusal> {
        self.attempt += 1;
        let ask = Ask { attempt: self.attempt, probe, stream: true };
        self.gate.admit(ask, MonoTime(now_ms), &self.rules)
    }

    fn call(&mut self, now_ms: u64) -> Permit {
        self.ask(false, now_ms).expect("the gate admits a call")
    }

    fn probe(&mut self, now_ms: u64) -> Permit {
        self.ask(true, now_ms).expect("the gate admits a probe")
    }

    fn end(&mut self, permit: Permit, outcome: Outcome, hint_ms: Option<u64>, now_ms: u64) -> Settled {
        let evidence = Evidence { hint: hint_ms.map(Span::from_ms), scope: ParkScope::Provider };
        self.gate.settle(permit, outcome, evidence, MonoTime(now_ms), &self.rules)
    }

    /// A call that ends at once.
    fn now(&mut self, outcome: Outcome, now_ms: u64) -> Vec<GateEffect> {
        let permit = self.call(now_ms);
        self.end(permit, outcome, None, now_ms).effects
    }

    fn throttled(&mut self, hint_ms: Option<u64>, now_ms: u64) -> Vec<GateEffect> {
        let permit = self.call(now_ms);
        self.end(permit, Outcome::Throttled, hint_ms, now_ms).effects
    }

    fn timer(&mut self, now_ms: u64) -> Vec<GateEffect> {
        self.gate.timer(MonoTime(now_ms), &self.rules)
    }

    fn due(&self) -> Option<u64> {
        self.gate.due(&self.rules).map(MonoTime::ms)
    }

    fn admits(&self, now_ms: u64) -> bool {
        self.gate.admits(MonoTime(now_ms), &self.rules)
    }

    fn refusal(&self, now_ms: u64) -> Option<(RefusalWhy, Option<u64>)> {
        let refusal = self.gate.refusal(MonoTime(now_ms), &self.rules)?;
        Some((refusal.why, refusal.earliest.map(MonoTime::ms)))
    }

    fn wants_probe(&self, now_ms: u64) -> bool {
        self.gate.wants_probe(MonoTime(now_ms), &self.rules)
    }

    /// Opened by three failures at 0: OPEN until 120 s.
    fn open() -> Bench {
        let mut bench = Bench::new();
        (0..3).for_each(|_| drop(bench.now(Outcome::ProviderFault, 0)));
        bench
    }

    /// Half-open since 120 s.
    fn half_open() -> Bench {
        let mut bench = Bench::open();
        bench.timer(120_000);
        bench
    }

    /// A park that ended at 20 s, nothing answered yet.
    fn confirming() -> Bench {
        let mut bench = Bench::new();
        bench.throttled(Some(20_000), 0);
        bench.timer(20_000);
        bench
    }
}

fn opened(trips: u32, until_ms: u64, why: OpenWhy) -> GateEffect {
    GateEffect::BreakerOpened { trips, until: MonoTime(until_ms), why }
}

fn parked_until(effects: &[GateEffect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        GateEffect::ParkStarted { until, .. } => Some(until.ms()),
        GateEffect::BreakerOpened { .. }
        | GateEffect::BreakerHalfOpen { .. }
        | GateEffect::BreakerClosed
        | GateEffect::ParkEnded => None,
    })
}

const HALF_OPEN: GateEffect = GateEffect::BreakerHalfOpen { by_probe: false };

// --- Closed: what opens it ---

#[test]
fn three_failures_in_a_row_open_it_and_two_do_not() {
    // CB-001, CB-002
    let mut bench = Bench::new();
    assert_eq!(bench.now(Outcome::ProviderFault, 0), []);
    assert_eq!(bench.now(Outcome::Overloaded, 1), []);
    assert!(bench.gate.serves());
    assert_eq!(bench.now(Outcome::ProviderFault, 2), [opened(1, 120_002, OpenWhy::Consecutive)]);
    assert!(bench.gate.not_closed() && !bench.admits(2));
    assert_eq!(bench.refusal(2), Some((RefusalWhy::Open, Some(120_002))));
}

#[test]
fn a_success_between_failures_starts_the_row_again_and_neutral_results_do_not() {
    // CB-003
    let mut bench = Bench::new();
    for outcome in [Outcome::ProviderFault, Outcome::ProviderFault, Outcome::Success, Outcome::ProviderFault] {
        assert_eq!(bench.now(outcome, 0), []);
    }
    assert_eq!(bench.now(Outcome::CallersFault, 0), []);
    assert_eq!(bench.now(Outcome::ProviderFault, 0), []);
    assert_eq!(bench.now(Outcome::ProviderFault, 0).len(), 1);
}

/// `failed` of 20 attempts fail, none three in a row, the last one does. True if the breaker opens at the last.
fn opens_by_rate(failed: usize, total: usize, first_ms: u64, last_ms: u64) -> bool {
    let mut bench = Bench::new();
    let mut outcomes = vec![Outcome::Success; total - failed];
    for n in 0..failed - 1 {
        outcomes.insert(n * 2, Outcome::ProviderFault);
    }
    for outcome in outcomes {
        assert_eq!(bench.now(outcome, first_ms), []);
    }
    let effects = bench.now(Outcome::ProviderFault, last_ms);
    assert!(effects.is_empty() || effects == [opened(1, last_ms + 120_000, OpenWhy::Rate)]);
    !effects.is_empty()
}

#[test]
fn two_in_five_of_at_least_twenty_attempts_open_it() {
    assert!(opens_by_rate(8, 20, 0, 0));
    assert!(!opens_by_rate(7, 20, 0, 0));
    assert!(!opens_by_rate(8, 19, 0, 0), "19 attempts are too few");
    assert!(!opens_by_rate(8, 21, 0, 0));
}

#[test]
fn a_brown_out_of_a_quarter_is_carried_by_retries() {
    let mut bench = Bench::new();
    for n in 0..400 {
        let outcome = if n % 4 == 3 { Outcome::ProviderFault } else { Outcome::Success };
        assert_eq!(bench.now(outcome, n * 1_000), []);
    }
}

#[test]
fn attempts_exactly_five_minutes_old_count_no_more_for_the_rate() {
    assert!(opens_by_rate(8, 20, 0, 299_999));
    assert!(!opens_by_rate(8, 20, 0, 300_000));
}

#[test]
fn a_provider_that_stalls_every_other_call_opens() {
    let mut bench = Bench::new();
    let opened_at = (0..40).find(|n| {
        let outcome = if n % 2 == 0 { Outcome::Success } else { Outcome::ProviderFault };
        !bench.now(outcome, n * 1_000).is_empty()
    });
    assert_eq!(opened_at, Some(19));
}

#[test]
fn failures_of_a_poisonous_request_are_taken_back_and_an_open_breaker_stays_open() {
    let mut bench = Bench::new();
    bench.now(Outcome::ProviderFault, 0);
    bench.now(Outcome::ProviderFault, 0);
    bench.gate.forgive(&[1, 99]);
    assert_eq!(bench.now(Outcome::ProviderFault, 0), [], "two in a row are left");
    assert_eq!(bench.now(Outcome::ProviderFault, 0).len(), 1);
    bench.gate.forgive(&[2, 3, 4]);
    assert!(bench.gate.not_closed());
}

// --- Open and half-open ---

#[test]
fn open_becomes_half_open_by_the_timer_exactly_at_its_end_and_never_by_reading() {
    // CB-004 differs on purpose.
    let mut bench = Bench::open();
    assert_eq!(bench.due(), Some(120_000));
    assert_eq!(bench.timer(119_999), []);
    assert!(!bench.admits(500_000), "only the timer moves it");
    assert_eq!(bench.timer(120_000), [HALF_OPEN]);
    assert!(bench.admits(120_000));
}

#[test]
fn a_local_provider_opens_for_a_minute() {
    let mut bench = Bench::new();
    bench.rules = GateRules::new(&Rules::default(), true);
    bench.now(Outcome::ProviderFault, 0);
    bench.now(Outcome::ProviderFault, 0);
    assert_eq!(bench.now(Outcome::ProviderFault, 0), [opened(1, 60_000, OpenWhy::Consecutive)]);
}

#[test]
fn the_open_time_doubles_with_each_trip_up_to_half_an_hour_and_closing_resets_it() {
    // CB-006, CB-008, CB-009, CB-028
    let mut bench = Bench::open();
    let mut open_times = Vec::new();
    for _ in 0..6 {
        let at = bench.due().unwrap();
        bench.timer(at);
        bench.now(Outcome::ProviderFault, at);
        open_times.push((bench.due().unwrap() - at) / 1_000);
    }
    assert_eq!(open_times, [240, 480, 960, 1_800, 1_800, 1_800]);
    assert_eq!(bench.gate.trips(), 7);
    let at = bench.due().unwrap();
    bench.timer(at);
    for n in 0..3 {
        bench.now(Outcome::Success, at + n * 5_000);
    }
    assert!(bench.gate.serves());
    assert_eq!(bench.gate.trips(), 0);
    (0..2).for_each(|_| drop(bench.now(Outcome::ProviderFault, at)));
    assert_eq!(bench.now(Outcome::ProviderFault, at), [opened(1, at + 120_000, OpenWhy::Consecutive)]);
}

#[test]
fn it_closes_after_three_successes_at_least_five_seconds_apart() {
    // CB-005, CB-013
    let mut bench = Bench::half_open();
    assert_eq!(bench.now(Outcome::Success, 120_000), []);
    assert_eq!(bench.now(Outcome::Success, 124_999), [], "too close: proves nothing new");
    assert_eq!(bench.now(Outcome::Success, 125_000), []);
    assert_eq!(bench.now(Outcome::Success, 129_999), []);
    assert_eq!(bench.now(Outcome::Success, 130_000), [GateEffect::BreakerClosed]);
}

#[test]
fn half_open_admits_one_trial_at_a_time() {
    // CB-026 differs on purpose.
    let mut bench = Bench::half_open();
    let trial = bench.call(120_000);
    assert!(trial.is_trial() && trial.holds_slot());
    assert_eq!(trial.deadline(), Some(MonoTime(150_000)));
    assert_eq!(bench.refusal(120_001), Some((RefusalWhy::Busy, Some(125_001))));
    bench.end(trial, Outcome::Success, None, 121_000);
    let probe = bench.probe(121_000);
    assert_eq!(bench.refusal(121_001).map(|refusal| refusal.0), Some(RefusalWhy::BusyProbe));
    bench.end(probe, Outcome::Cancelled, None, 122_000);
    assert!(bench.admits(122_000));
}

#[test]
fn a_trial_that_is_not_streamed_has_two_minutes() {
    let mut bench = Bench::half_open();
    let ask = Ask { attempt: 9, probe: false, stream: false };
    let permit = bench.gate.admit(ask, MonoTime(120_000), &bench.rules).unwrap();
    assert_eq!(permit.deadline(), Some(MonoTime(240_000)));
}

#[test]
fn a_trial_without_a_first_token_at_its_deadline_has_failed_and_its_result_is_late() {
    let mut bench = Bench::half_open();
    let trial = bench.call(130_000);
    assert_eq!(bench.due(), Some(160_000));
    assert_eq!(bench.timer(159_999), []);
    assert_eq!(bench.timer(160_000), [opened(2, 400_000, OpenWhy::TrialFailed)]);
    let settled = bench.end(trial, Outcome::ProviderFault, None, 160_000);
    assert_eq!(settled, Settled { late: true, effects: Vec::new() });
}

#[test]
fn a_trial_is_judged_at_its_first_token_and_the_rest_of_the_stream_is_not() {
    let mut bench = Bench::half_open();
    for start_ms in [120_000, 125_000] {
        let mut trial = bench.call(start_ms);
        assert_eq!(bench.gate.first_token(&mut trial, MonoTime(start_ms), &bench.rules).effects, []);
        assert!(bench.admits(start_ms), "the slot is free");
        assert_eq!(bench.end(trial, Outcome::ProviderFault, None, start_ms + 1).effects, [], "cut later");
    }
    let mut third = bench.call(130_000);
    let settled = bench.gate.first_token(&mut third, MonoTime(130_000), &bench.rules);
    assert_eq!(settled, Settled { late: false, effects: vec![GateEffect::BreakerClosed] });
    assert_eq!(bench.gate.first_token(&mut third, MonoTime(130_001), &bench.rules).effects, []);
    assert_eq!(bench.end(third, Outcome::Success, None, 131_000), Settled::default());
}

#[test]
fn three_minutes_half_open_without_a_verdict_open_it_for_the_base_time_without_a_trip() {
    let mut bench = Bench::half_open();
    bench.now(Outcome::Success, 120_000);
    assert_eq!(bench.due(), Some(300_000));
    assert_eq!(bench.timer(299_999), []);
    assert_eq!(bench.timer(300_000), [opened(1, 420_000, OpenWhy::NoVerdict)]);
}

#[test]
fn a_throttled_or_quota_answer_to_a_trial_reopens_it_until_that_wait_is_over_without_a_trip() {
    for (outcome, hint_ms, wait_ms) in [
        (Outcome::Throttled, Some(45_000), 45_000),
        (Outcome::Throttled, None, 5_000),
        (Outcome::Quota, Some(3_600_000), 3_600_000),
        (Outcome::Quota, None, 14_400_000),
    ] {
        let mut bench = Bench::half_open();
        let trial = bench.call(130_000);
        let effects = bench.end(trial, outcome, hint_ms, 130_000).effects;
        assert_eq!(parked_until(&effects), Some(130_000 + wait_ms));
        assert_eq!(effects[1], opened(1, 130_000 + wait_ms, OpenWhy::TrialThrottled));
        assert_eq!(bench.timer(130_000 + wait_ms), [GateEffect::ParkEnded, HALF_OPEN]);
    }
}

#[test]
fn an_open_breaker_stays_open_while_the_entry_is_parked() {
    let mut bench = Bench::open();
    let order = ParkOrder {
        scope: ParkScope::Provider,
        why: ParkWhy::Throttled,
        hint: Some(Span::from_secs(300)),
        until: MonoTime(310_000),
        until_chain_down: MonoTime(310_000),
    };
    bench.gate.share_park(order, MonoTime(10_000));
    assert_eq!(bench.timer(120_000), []);
    assert_eq!((bench.due(), bench.refusal(0)), (Some(310_000), Some((RefusalWhy::Parked, Some(310_000)))));
    assert_eq!(bench.timer(310_000), [GateEffect::ParkEnded, HALF_OPEN]);
}

#[test]
fn every_phase_against_every_outcome() {
    for outcome in ALL_OUTCOMES {
        let counts = outcome.is_failure();
        let waits = outcome == Outcome::Throttled || outcome == Outcome::Quota;

        // Closed, two failures in a row: only a third failure opens it.
        let mut bench = Bench::new();
        (0..2).for_each(|_| drop(bench.now(Outcome::ProviderFault, 0)));
        bench.now(outcome, 0);
        assert_eq!(bench.gate.not_closed(), counts, "closed, {outcome:?}");
        assert_eq!(bench.gate.park_left(MonoTime(0)).is_some(), waits, "closed, {outcome:?}");

        // Half-open with one success: a failure trips, a wait reopens without a trip, the rest only frees the slot.
        let mut bench = Bench::half_open();
        bench.now(Outcome::Success, 120_000);
        bench.now(outcome, 125_000);
        let is_open = matches!(bench.gate.phase(), Phase::Open { .. });
        assert_eq!(is_open, counts || waits, "half-open, {outcome:?}");
        assert_eq!(bench.gate.trips(), if counts { 2 } else { 1 }, "half-open, {outcome:?}");
        assert_eq!(bench.admits(125_000), !is_open, "half-open, {outcome:?}: the slot is free");

        // Open, asked by a last-resort probe: only a success moves it.
        let mut bench = Bench::open();
        bench.gate.set_chain_down(true);
        let probe = bench.probe(10_000);
        let settled = bench.end(probe, outcome, None, 10_000);
        let is_half_open = matches!(bench.gate.phase(), Phase::HalfOpen { .. });
        assert_eq!(is_half_open, outcome == Outcome::Success, "open, {outcome:?}");
        assert_eq!(bench.gate.trips(), 1, "open, {outcome:?}");
        assert_eq!(parked_until(&settled.effects).is_some(), waits, "open, {outcome:?}");

        // Admitted before the trip: nothing moves; a wait is kept all the same.
        let mut bench = Bench::new();
        let early = bench.call(0);
        (0..3).for_each(|_| drop(bench.now(Outcome::ProviderFault, 0)));
        let before = bench.gate.phase();
        let settled = bench.end(early, outcome, None, 1);
        assert!(settled.late);
        assert_eq!((bench.gate.phase(), bench.gate.trips()), (before, 1), "late, {outcome:?}");
        assert_eq!(parked_until(&settled.effects).is_some(), waits, "late, {outcome:?}");
    }
}

#[test]
fn a_slot_taken_before_the_breaker_opened_is_no_trial_of_it() {
    let mut bench = Bench::new();
    let early: Vec<Permit> = (0..3).map(|_| bench.call(0)).collect();
    bench.throttled(Some(0), 1);
    bench.timer(1);
    let ask = Ask { attempt: 99, probe: false, stream: false };
    let confirmation = bench.gate.admit(ask, MonoTime(2), &bench.rules).unwrap();
    for permit in early {
        bench.end(permit, Outcome::ProviderFault, None, 3);
    }
    assert!(bench.gate.not_closed());
    bench.timer(120_003);
    assert!(bench.admits(120_003));
    assert_eq!(bench.timer(120_004), [], "its deadline at 120 002 concerns nobody");
    assert!(bench.end(confirmation, Outcome::ProviderFault, None, 120_005).late);
}

// --- Last resort ---

#[test]
fn while_a_chain_has_no_serving_entry_its_open_breakers_are_probed_and_a_success_is_the_first_of_three() {
    let mut bench = Bench::open();
    assert!(!bench.wants_probe(10_000));
    bench.gate.set_chain_down(true);
    assert!(bench.wants_probe(10_000) && !bench.admits(10_000), "probes only");
    let probe = bench.probe(10_000);
    assert!(!bench.wants_probe(10_001), "one at a time");
    let half_open = GateEffect::BreakerHalfOpen { by_probe: true };
    assert_eq!(bench.end(probe, Outcome::Success, None, 10_500).effects, [half_open]);
    assert_eq!(bench.now(Outcome::Success, 15_500), []);
    assert_eq!(bench.now(Outcome::Success, 20_500), [GateEffect::BreakerClosed]);
}

#[test]
fn a_last_resort_probe_that_fails_after_the_breaker_became_half_open_changes_nothing_still() {
    let mut bench = Bench::open();
    bench.gate.set_chain_down(true);
    let probe = bench.probe(110_000);
    bench.timer(120_000);
    assert!(!bench.admits(120_000), "it has the only slot");
    assert_eq!(bench.end(probe, Outcome::ProviderFault, None, 121_000).effects, []);
    assert!(bench.admits(121_000));
    assert_eq!(bench.gate.trips(), 1);
}

#[test]
fn a_last_resort_probe_out_of_time_only_frees_the_slot() {
    let mut bench = Bench::open();
    bench.gate.set_chain_down(true);
    let probe = bench.probe(95_000);
    bench.timer(120_000);
    assert_eq!(bench.timer(125_000), []);
    assert!(bench.admits(125_000));
    assert_eq!(bench.end(probe, Outcome::ProviderFault, None, 126_000).effects, []);
}
