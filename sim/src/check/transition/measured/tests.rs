use super::*;
use crate::check::testing::*;
use squall::base::{AxisLevels, Outcome};
use squall::event::OpenWhy;

const CLOUD: Axis = Axis::Cloud;
use Level::{Essential, Fallback, Normal, Reduced};

fn check() -> Measured {
    Measured::default()
}

/// A call during which alpha's breaker opens, up to its end at 1 s, at which levels are measured.
fn alpha_fails() -> Story {
    Story::new()
        .at(900, called(1))
        .at(900, sent("alpha", 1, 1))
        .at(1_000, ended("alpha", 1, 1, Outcome::ProviderFault))
        .at(1_000, opened("alpha", 1, 121_000, OpenWhy::Consecutive))
        .at(1_000, over(1, 1))
}

fn alpha_failed() -> Story {
    alpha_fails().at(1_000, measured(CLOUD, Fallback)).at(1_000, changed(CLOUD, Normal, Fallback))
}

#[test]
fn one_open_breaker_is_fallback_and_its_closing_is_normal_again() {
    let story = alpha_failed()
        .at(121_000, half_open("alpha", false))
        .at(135_000, closed("alpha"))
        .at(135_000, Event::ProbeRound { probes: 1 })
        .at(135_000, measured(CLOUD, Normal))
        .at(135_000, changed(CLOUD, Fallback, Normal))
        .at(140_000, over(2, 1));
    story.accepted(check());
}

#[test]
fn an_improvement_may_wait_for_the_end_of_a_probe_round_and_no_longer() {
    let closes_in_a_round = |story: Story| {
        story
            .at(121_000, half_open("alpha", false))
            .at(134_000, probed("alpha", 9))
            .at(135_000, closed("alpha"))
            .at(135_100, over(2, 1))
    };
    let round = Event::ProbeRound { probes: 1 };
    closes_in_a_round(alpha_failed())
        .at(136_000, round.clone())
        .at(136_000, measured(CLOUD, Normal))
        .at(136_000, changed(CLOUD, Fallback, Normal))
        .accepted(check());
    closes_in_a_round(alpha_failed()).at(136_000, round).at(140_000, over(3, 1)).rejected(check(), "measures FALLBACK");
}

#[test]
fn breakers_that_moved_between_the_attempts_of_a_call_are_measured_at_its_end() {
    Story::new()
        .at(0, called(1))
        .at(500, opened("alpha", 1, 120_500, OpenWhy::Consecutive))
        .at(900, opened("beta", 1, 120_900, OpenWhy::Consecutive))
        .at(1_000, over(1, 6))
        .at(1_000, measured(CLOUD, Reduced))
        .at(1_000, changed(CLOUD, Normal, Reduced))
        .accepted(check());
}

#[test]
fn an_open_breaker_that_is_not_measured_is_rejected() {
    alpha_fails().at(5_000, Event::Tick { caught_up: false }).rejected(check(), "measures NORMAL");
}

#[test]
fn a_level_too_many_is_rejected() {
    alpha_fails()
        .at(1_000, measured(CLOUD, Reduced))
        .at(1_000, changed(CLOUD, Normal, Reduced))
        .rejected(check(), "give FALLBACK");
}

#[test]
fn a_change_that_was_not_measured_is_rejected() {
    Story::new().at(5, changed(CLOUD, Normal, Fallback)).at(6, over(1, 1)).judge_rejects(
        check(),
        2,
        "went from NORMAL to FALLBACK while NORMAL was measured",
    );
}

#[test]
fn a_self_transition_and_a_wrong_predecessor_are_rejected() {
    alpha_failed().at(2_000, changed(CLOUD, Fallback, Fallback)).rejected(check(), "to itself");
    alpha_failed().at(2_000, changed(CLOUD, Reduced, Fallback)).rejected(check(), "while FALLBACK was applied");
}

#[test]
fn a_worse_measured_level_that_is_not_applied_is_rejected_even_in_a_hold() {
    alpha_fails().at(1_000, measured(CLOUD, Fallback)).rejected(check(), "although the worse FALLBACK");
    alpha_failed()
        .at(2_000, held(CLOUD, 602_000, false))
        .at(3_000, opened("beta", 1, 123_000, OpenWhy::Consecutive))
        .at(3_000, over(2, 1))
        .at(3_000, measured(CLOUD, Reduced))
        .rejected(check(), "although the worse REDUCED");
}

#[test]
fn a_better_level_waits_for_the_end_of_a_hold_and_for_nothing_else() {
    let better =
        |story: Story| story.at(9_000, closed("alpha")).at(9_000, over(3, 1)).at(9_000, measured(CLOUD, Normal));
    better(alpha_failed().at(2_000, held(CLOUD, 602_000, false))).accepted(check());
    better(alpha_failed()).rejected(check(), "no hold is in force");
    better(alpha_failed().at(2_000, held(CLOUD, 602_000, false)))
        .at(9_000, changed(CLOUD, Fallback, Normal))
        .rejected(check(), "inside a hold");
}

#[test]
fn a_chain_of_parked_entries_is_essential_and_stays_so_until_three_answers() {
    let story = alpha_failed()
        .at(2_000, parked("beta", 7_000, None))
        .at(2_000, parked("gamma", 7_000, None))
        .at(2_000, over(2, 2))
        .at(2_000, measured(CLOUD, Essential))
        .at(2_000, changed(CLOUD, Fallback, Essential))
        .at(7_000, unparked("beta"));
    let answered = |story: Story, times: u64| {
        (1..=times).fold(story, |story, i| {
            story.at(8_000 * i, sent("beta", 10 + i, i)).at(8_000 * i + 9, ended("beta", 10 + i, i, Outcome::Success))
        })
    };
    let better = |story: Story, t| {
        story.at(t, over(3, 1)).at(t, measured(CLOUD, Fallback)).at(t, changed(CLOUD, Essential, Fallback))
    };
    better(answered(story.clone(), 3), 24_009).accepted(check());
    better(answered(story, 2), 16_009).rejected(check(), "give ESSENTIAL");
}

#[test]
fn a_park_of_more_than_a_minute_counts_like_an_open_breaker_and_one_of_a_minute_does_not() {
    let measured_at = |until_ms| Story::new().at(0, parked("alpha", until_ms, Some(until_ms))).at(0, over(1, 1));
    measured_at(60_001).at(0, measured(CLOUD, Fallback)).at(0, changed(CLOUD, Normal, Fallback)).accepted(check());
    measured_at(60_000).accepted(check());
    measured_at(60_001).at(1, over(2, 1)).rejected(check(), "give FALLBACK");
}

#[test]
fn a_vector_store_that_is_out_queues_writes_and_an_embedding_chain_that_is_out_leaves_keywords() {
    Story::new()
        .at(9, opened("store", 1, 120_009, OpenWhy::Consecutive))
        .at(9, over(1, 1))
        .at(9, measured(Axis::Memory, Level::WriteQueued))
        .at(9, changed(Axis::Memory, Normal, Level::WriteQueued))
        .accepted(check());
    let story = Story::new()
        .at(9, opened("embed", 1, 120_009, OpenWhy::Consecutive))
        .at(9, over(1, 1))
        .at(9, measured(Axis::Embedding, Level::Unavailable))
        .at(9, changed(Axis::Embedding, Normal, Level::Unavailable));
    story.rejected(check(), "axis memory measures NORMAL");
    story
        .at(9, measured(Axis::Memory, Level::FtsOnly))
        .at(9, changed(Axis::Memory, Normal, Level::FtsOnly))
        .accepted(check());
}

#[test]
fn more_than_25_dead_letters_of_llm_work_are_essential() {
    let letter = |id, llm| Event::DeadAdded { id, llm, reason: "failed".into() };
    let other = || Story::new().at(0, letter(99, false));
    let story = |count| (0..count).fold(other(), |story, id| story.at(id, letter(id, true)));
    story(25).accepted(check());
    story(26).rejected(check(), "give ESSENTIAL");
    let settled = Event::DeferredFinished {
        id: 3,
        status: squall::base::ItemStatus::Done,
        was: squall::base::ItemStatus::Dead,
        reason: "replayed".into(),
    };
    let essential = story(25).at(91, letter(91, true)).at(91, measured(CLOUD, Essential));
    let essential = essential.at(91, changed(CLOUD, Normal, Essential));
    essential.accepted(check());
    essential.at(95, settled).rejected(check(), "give NORMAL");
}

#[test]
fn what_a_kill_may_have_undone_is_believed_either_way() {
    alpha_failed()
        .at(1_050, crate::history::World::EngineKilled { power_loss: false, point: None })
        .at(2_000, started(rules(), AxisLevels::NORMAL, true))
        .at(3_000, over(2, 1))
        .accepted(check());
}

#[test]
fn an_engine_that_was_not_seen_to_start_is_not_judged() {
    let nothing: [Event; 0] = [];
    Story::journal(rules()).all(5, nothing).unjudged(check());
}

#[test]
fn what_cc_measures_follows_from_its_sessions() {
    let limited = Event::SessionLimited { session: 1, window: "weekly".into(), resets_in_ms: None, until_ms: 900_000 };
    let started = |session| Event::SessionStarted {
        session,
        class: squall::base::SessionClass::Foreground,
        trial: false,
        item: None,
    };
    let told = Story::new()
        .at(5, started(1))
        .at(10, limited.clone())
        .at(10, measured(Axis::Cc, Level::RateLimited))
        .at(10, changed(Axis::Cc, Normal, Level::RateLimited));
    told.clone().at(20, over(1, 1)).accepted(check());
    Story::new()
        .at(5, started(1))
        .at(10, limited)
        .rejected(check(), "cc measures NORMAL, but its sessions give RATE_LIMITED");
    let better =
        told.at(900_000, measured(Axis::Cc, Normal)).at(900_000, changed(Axis::Cc, Level::RateLimited, Normal));
    better.at(900_000, Event::Tick { caught_up: false }).rejected(check(), "cc measures NORMAL");
}

#[test]
fn time_alone_frees_the_hour() {
    let started = |session| Event::SessionStarted {
        session,
        class: squall::base::SessionClass::Foreground,
        trial: false,
        item: None,
    };
    let ended = |session| Event::SessionEnded { session, outcome: squall::base::SessionOutcome::Done };
    let mut story = Story::new();
    for session in 1..=16 {
        story = story.at(session, started(session)).at(session, ended(session));
    }
    let full = story.at(16, measured(Axis::Cc, Level::Throttled)).at(16, changed(Axis::Cc, Normal, Level::Throttled));
    full.clone().at(3_600_004, over(1, 1)).accepted(check());
    full.at(3_600_005, over(1, 1)).rejected(check(), "cc measures THROTTLED, but its sessions give NORMAL");
}
