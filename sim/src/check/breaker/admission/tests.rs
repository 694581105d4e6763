use super::*;
use crate::check::testing::*;
use squall::base::Outcome;
use squall::event::OpenWhy::{Consecutive, NoVerdict, Rate, TrialFailed, TrialThrottled};

fn check() -> Admissions {
    Admissions::default()
}

fn attempt(story: Story, t: u64, entry: &str, number: u64, outcome: Outcome) -> Story {
    story.at(t, sent(entry, number, number)).at(t, ended(entry, number, number, outcome))
}

fn failures(count: u64) -> Story {
    (1..=count).fold(Story::new(), |story, i| attempt(story, i, "alpha", i, Outcome::ProviderFault))
}

/// Opened at 3 ms, half-open at 120 003 ms.
fn open() -> Story {
    failures(3).at(3, opened("alpha", 1, 120_003, Consecutive))
}

fn half() -> Story {
    open().at(120_003, half_open("alpha", false))
}

#[test]
fn a_breaker_opens_at_the_third_failure_in_a_row_and_comes_back_by_trials() {
    let mut story = half();
    for (i, t) in [130_000, 140_000, 150_000].into_iter().enumerate() {
        story = story
            .at(t, probed("alpha", 10 + i as u64))
            .at(t + 5, probe_ended("alpha", 10 + i as u64, Outcome::Success));
    }
    story.at(150_005, closed("alpha")).at(200_000, Event::ProbeRound { probes: 0 }).accepted(check());
}

#[test]
fn an_attempt_to_an_open_breaker_is_rejected() {
    open().at(4, sent("alpha", 9, 9)).rejected(check(), "whose breaker is open until 120003 ms");
}

#[test]
fn a_probe_of_an_open_breaker_needs_a_chain_without_a_serving_entry() {
    open().at(10_000, probed("alpha", 9)).rejected(check(), "an entry that serves");
    open()
        .at(5, parked("beta", 90_000, None))
        .at(5, parked("gamma", 90_000, None))
        .at(10_000, probed("alpha", 9))
        .at(10_100, probe_ended("alpha", 9, Outcome::Success))
        .at(10_100, half_open("alpha", true))
        .accepted(check());
}

#[test]
fn opening_at_the_second_failure_is_rejected() {
    failures(2)
        .at(2, opened("alpha", 1, 120_002, Consecutive))
        .rejected(check(), "after 2 failures in a row, expected 3");
}

#[test]
fn staying_closed_after_the_third_failure_is_rejected() {
    failures(3).at(4, over(1, 3)).rejected(check(), "stays closed after 3 failures");
}

#[test]
fn a_success_between_failures_begins_the_row_anew() {
    let story = attempt(failures(2), 3, "alpha", 3, Outcome::Success);
    attempt(story, 4, "alpha", 4, Outcome::ProviderFault)
        .at(4, opened("alpha", 1, 120_004, Consecutive))
        .rejected(check(), "after 1 failures");
}

#[test]
fn eight_failures_of_twenty_open_by_rate_and_seven_do_not() {
    let story = |failing: &[u64]| {
        (1..=20).fold(Story::new(), |story, i| {
            let outcome = if failing.contains(&i) { Outcome::ProviderFault } else { Outcome::Success };
            attempt(story, i, "alpha", i, outcome)
        })
    };
    let (seven, eight) = (story(&[5, 6, 10, 11, 15, 16, 20]), story(&[3, 5, 6, 10, 11, 15, 16, 20]));
    seven.accepted(check());
    seven.at(20, opened("alpha", 1, 120_020, Rate)).rejected(check(), "for its rate");
    eight.rejected(check(), "by its rate");
    eight.at(20, opened("alpha", 1, 120_020, Rate)).accepted(check());
}

#[test]
fn the_open_time_doubles_with_each_trip_and_a_wrong_one_is_rejected() {
    let failed = half().at(130_000, probed("alpha", 9)).at(130_010, probe_ended("alpha", 9, Outcome::ProviderFault));
    failed.clone().at(130_010, opened("alpha", 2, 370_010, TrialFailed)).accepted(check());
    failed.clone().at(130_010, opened("alpha", 2, 250_010, TrialFailed)).rejected(check(), "expected 370010 ms");
    failed.clone().at(130_010, opened("alpha", 1, 250_010, TrialFailed)).rejected(check(), "with 1 trips, expected 2");
    failed.at(130_011, over(1, 1)).rejected(check(), "stays half-open after a failed trial");
}

#[test]
fn a_second_trial_beside_the_first_is_rejected() {
    half()
        .at(130_000, probed("alpha", 8))
        .at(130_001, sent("alpha", 9, 9))
        .rejected(check(), "while trial 8 is under way");
}

#[test]
fn a_trial_that_outlives_its_deadline_is_rejected() {
    let streamed =
        Event::CallStarted { call: 9, chain: "chat".into(), class: squall::base::CallClass::Foreground, stream: true };
    let trial = half().at(130_000, streamed).at(130_000, sent("alpha", 9, 9));
    let token = Event::AttemptFirstToken { call: Some(9), entry: name("alpha"), attempt: 9 };
    trial.clone().at(160_000, token.clone()).accepted(check());
    trial.at(160_001, token).rejected(check(), "not judged at its deadline, 160000 ms");
    let plain = half().at(130_000, called(9)).at(130_000, sent("alpha", 9, 9));
    plain.clone().at(250_000, ended("alpha", 9, 9, Outcome::Success)).accepted(check());
    plain.at(250_001, ended("alpha", 9, 9, Outcome::Success)).rejected(check(), "not judged");
}

#[test]
fn half_open_lasts_three_minutes_and_then_opens_for_the_base_time_without_a_trip() {
    half().at(300_003, opened("alpha", 1, 420_003, NoVerdict)).accepted(check());
    half().at(300_002, opened("alpha", 1, 420_002, NoVerdict)).rejected(check(), "for want of a verdict");
    half().at(300_003, opened("alpha", 2, 540_003, NoVerdict)).rejected(check(), "with 2 trips, expected 1");
    half().at(300_004, over(1, 1)).rejected(check(), "its longest time");
}

#[test]
fn half_open_before_the_time_is_rejected() {
    open().at(120_002, half_open("alpha", false)).rejected(check(), "1 ms before its time");
    open().at(120_004, half_open("alpha", false)).rejected(check(), "1 ms after its time");
}

#[test]
fn a_breaker_may_wait_for_the_end_of_a_longer_park() {
    let parked = open().at(9, parked("alpha", 150_000, Some(149_991))).at(150_000, unparked("alpha"));
    parked.clone().at(150_000, half_open("alpha", false)).accepted(check());
    parked.at(150_001, half_open("alpha", false)).rejected(check(), "after its time");
}

#[test]
fn a_probe_under_way_when_its_breaker_becomes_half_open_may_be_its_trial() {
    let story = open()
        .at(5, parked("beta", 90_000, None))
        .at(5, parked("gamma", 90_000, None))
        .at(120_000, probed("alpha", 9))
        .at(120_003, half_open("alpha", false))
        .at(120_900, probe_ended("alpha", 9, Outcome::Throttled));
    story.accepted(check());
    story.at(120_900, opened("alpha", 1, 125_900, TrialThrottled)).accepted(check());
}

#[test]
fn a_trial_that_is_not_judged_at_its_deadline_has_failed_and_before_it_has_not() {
    let trial = half().at(130_000, called(9)).at(130_000, sent("alpha", 9, 9));
    trial
        .clone()
        .at(250_000, opened("alpha", 2, 490_000, TrialFailed))
        .at(250_022, ended("alpha", 9, 9, Outcome::ProviderFault))
        .accepted(check());
    trial.at(249_999, opened("alpha", 2, 489_999, TrialFailed)).rejected(check(), "without a failed trial");
}

#[test]
fn a_late_result_that_moves_a_breaker_is_rejected() {
    let before = || Story::new().at(0, sent("alpha", 90, 90));
    let story = (1..=3).fold(before(), |story, i| attempt(story, i, "alpha", i, Outcome::ProviderFault));
    let story = story.at(3, opened("alpha", 1, 120_003, Consecutive)).at(120_003, half_open("alpha", false));
    let late = |outcome| story.clone().at(120_500, ended("alpha", 90, 90, outcome));
    late(Outcome::Success).accepted(check());
    late(Outcome::Success).at(120_500, closed("alpha")).rejected(check(), "without a trial's success");
    late(Outcome::ProviderFault)
        .at(120_500, opened("alpha", 2, 360_500, TrialFailed))
        .rejected(check(), "without a failed trial");
    late(Outcome::Throttled).at(120_500, opened("alpha", 1, 125_500, TrialThrottled)).rejected(check(), "told to wait");
}

#[test]
fn a_breaker_that_closes_or_opens_out_of_turn_is_rejected() {
    open().at(9, closed("alpha")).rejected(check(), "closed while it was open");
    open().at(9, opened("alpha", 2, 240_009, Consecutive)).rejected(check(), "while it was open");
    Story::new().at(9, half_open("alpha", false)).rejected(check(), "while it was closed");
}

#[test]
fn a_poisoned_request_takes_its_failures_back() {
    let poison = Event::CallPoison { call: 2, entries: vec![name("alpha")] };
    let story = attempt(failures(2).at(3, poison), 4, "alpha", 3, Outcome::ProviderFault);
    story.accepted(check());
    story.at(4, opened("alpha", 1, 120_004, Consecutive)).rejected(check(), "after 2 failures");
}

#[test]
fn open_breakers_come_back_open_after_a_restart() {
    let back = open()
        .at(50_000, World::EngineKilled { power_loss: false, point: None })
        .at(60_000, started(rules(), squall::base::AxisLevels::NORMAL, true));
    back.clone()
        .at(60_000, opened("alpha", 1, 120_003, OpenWhy::Restored))
        .at(120_003, half_open("alpha", false))
        .accepted(check());
    back.at(60_001, sent("alpha", 1, 1)).rejected(check(), "whose breaker is open");
}
