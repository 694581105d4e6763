//! Histories by hand: each rule of the budget once kept and once broken.

use super::*;
use crate::check::drain::tests::queued;
use crate::check::testing::*;
use crate::history::World;
use squall::base::{ItemStatus, SessionClass::*};

fn check() -> Budget {
    Budget::default()
}

fn started(session: u64, class: SessionClass) -> Event {
    Event::SessionStarted { session, class, trial: false, item: None }
}

fn tried(session: u64, class: SessionClass) -> Event {
    Event::SessionStarted { session, class, trial: true, item: None }
}

fn as_item(session: u64, class: SessionClass, item: u64) -> Event {
    Event::SessionStarted { session, class, trial: false, item: Some(item) }
}

fn ended(session: u64, outcome: SessionOutcome) -> Event {
    Event::SessionEnded { session, outcome }
}

fn answered(session: u64) -> Event {
    Event::SessionAnswered { session }
}

fn limited(session: u64, until_ms: u64) -> Event {
    Event::SessionLimited { session, window: "five_hour".into(), resets_in_ms: None, until_ms }
}

fn waiter(session: u64, present: bool) -> Event {
    Event::SessionWaiter { session, present }
}

fn process(session: u64, running: bool) -> Outside {
    Outside::SessionProcess { client: "c".into(), session: Some(session), class: Background, running, limit: None }
}

/// A session waits as the item of the same number, and somebody waits for it.
fn waits(story: Story, at: u64, session: u64, class: SessionClass) -> Story {
    let deferred = Event::SessionDeferred { session, class, item: session, reason: "no slot".into() };
    let item = Event::DeferredFinished {
        id: session + 1_000,
        status: ItemStatus::Discarded,
        was: ItemStatus::Pending,
        reason: "other".into(),
    };
    story
        .at(at, queued(session, class.priority(), &[Axis::Cc]))
        .at(at, deferred)
        .at(at, waiter(session, true))
        .at(at, item)
}

fn run(story: Story, session: u64, class: SessionClass, from: u64, to: u64) -> Story {
    story.at(from, started(session, class)).at(to, answered(session)).at(to, ended(session, SessionOutcome::Done))
}

/// A limit that ended session 1 at 10 and is over at 1,000,000.
fn after_a_limit() -> Story {
    Story::new()
        .at(5, started(1, Background))
        .at(10, limited(1, 1_000_000))
        .at(10, measured(Axis::Cc, Level::RateLimited))
        .at(10, changed(Axis::Cc, Level::Normal, Level::RateLimited))
        .at(10, ended(1, SessionOutcome::Limited))
}

#[test]
fn four_at_a_time_and_one_slot_for_foreground() {
    let three = (1..=3).fold(Story::new(), |story, i| story.at(i, started(i, Background)));
    three.clone().at(9, started(4, Foreground)).accepted(check());
    three.clone().at(9, started(4, Reflection)).rejected(check(), "takes one of the 1 slots kept for foreground");
    three
        .clone()
        .at(9, started(4, Foreground))
        .at(9, started(5, Foreground))
        .rejected(check(), "5 sessions are active");
    let freed = three.at(70_000, answered(2)).at(70_000, ended(2, SessionOutcome::Done));
    freed.at(70_000, started(4, Reflection)).accepted(check());
}

#[test]
fn slots_outlive_the_engine() {
    let killed = (1..=3)
        .fold(Story::new(), |story, i| story.at(i, started(i, Background)))
        .at(50, World::EngineKilled { power_loss: false, point: None })
        .at(60, crate::check::testing::started(rules(), squall::base::AxisLevels::NORMAL, true));
    killed.clone().at(70, started(4, Background)).rejected(check(), "kept for foreground");
    killed.at(70, started(4, Foreground)).accepted(check());
}

#[test]
fn inside_a_limit_only_foreground_is_started() {
    after_a_limit().at(500, started(2, Foreground)).accepted(check());
    let (_, wrong) = after_a_limit().at(500, started(2, Reflection)).judge(check());
    assert!(wrong.iter().any(|wrong| wrong.what.contains("limit is in force until 1000000 ms")), "{wrong:?}");
    let (_, wrong) = after_a_limit().at(500, tried(2, Background)).judge(check());
    assert!(wrong.iter().any(|wrong| wrong.what.contains("limit is in force")), "{wrong:?}");
}

#[test]
fn the_newest_statement_of_a_window_wins() {
    let earlier = after_a_limit().at(100, started(2, Foreground)).at(110, limited(2, 2_000));
    earlier.clone().at(2_000, tried(3, Background)).accepted(check());
    earlier.at(1_999, tried(3, Background)).rejected(check(), "until 2000 ms");
}

#[test]
fn after_a_reset_one_at_a_time_until_three_were_answered() {
    let one = after_a_limit().at(1_000_000, tried(2, Background));
    one.clone().at(1_000_001, tried(3, Background)).rejected(check(), "while the trial 2 is not answered");
    let two = one.at(1_060_000, answered(2)).at(1_060_000, tried(3, Background)).at(1_120_000, answered(3));
    two.clone().at(1_120_001, started(4, Background)).judge_rejects(check(), 2, "after 2 of 3 answers");
    let three = two.at(1_120_001, started(4, Foreground)).at(1_180_001, answered(4));
    let normal = three
        .at(1_180_001, measured(Axis::Cc, Level::Normal))
        .at(1_180_001, changed(Axis::Cc, Level::RateLimited, Level::Normal));
    normal.at(1_180_002, started(5, Background)).accepted(check());
}

#[test]
fn an_answer_is_an_end_without_a_limit_or_a_minute_without_one() {
    Story::new().at(0, started(1, Background)).at(60_000, answered(1)).accepted(check());
    Story::new().at(0, started(1, Background)).at(59_999, answered(1)).rejected(check(), "after 59999 ms");
    run(Story::new(), 1, Background, 0, 5).accepted(check());
    let silent = Story::new().at(0, started(1, Background)).at(5, ended(1, SessionOutcome::Failed));
    silent.rejected(check(), "was not answered");
    let limited = after_a_limit().at(11, started(2, Foreground)).at(12, limited(2, 500)).at(60_011, answered(2));
    limited.rejected(check(), "is answered, and was limited");
    Story::new().at(5, ended(1, SessionOutcome::Done)).rejected(check(), "ends without a slot");
}

fn hour(count: u64) -> Story {
    (1..=count).fold(Story::new(), |story, i| run(story, i, Foreground, i, i))
}

#[test]
fn the_hour_bounds_all_but_foreground() {
    hour(15).at(90, started(99, Background)).accepted(check());
    hour(16).at(90, started(99, Background)).rejected(check(), "while throttled (16 starts in the hour)");
    hour(19).at(90, started(99, Reflection)).accepted(check());
    hour(20).at(90, started(99, Reflection)).rejected(check(), "with 20 starts in the hour");
    hour(20).at(90, started(99, Foreground)).accepted(check());
    hour(20).at(3_600_000, started(99, Reflection)).rejected(check(), "with 20 starts");
    hour(20).at(3_600_001, started(99, Reflection)).accepted(check());
}

#[test]
fn while_unavailable_one_is_tried_a_minute() {
    let failed = (1..=3)
        .fold(Story::new(), |story, i| story.at(i, started(i, Foreground)).at(i, ended(i, SessionOutcome::NotStarted)));
    let failed = failed
        .at(3, measured(Axis::Cc, Level::Unavailable))
        .at(3, changed(Axis::Cc, Level::Normal, Level::Unavailable));
    let tried_once = failed.clone().at(10, tried(4, Background)).at(20, ended(4, SessionOutcome::NotStarted));
    tried_once.clone().at(60_010, tried(5, Background)).accepted(check());
    tried_once.at(60_009, tried(5, Background)).rejected(check(), "59999 ms after the last one while UNAVAILABLE");
    failed.at(10, started(4, Foreground)).rejected(check(), "not tried, though starts fail");
}

#[test]
fn the_applied_level_holds_back_too() {
    let held = Story::new()
        .at(1, measured(Axis::Cc, Level::Throttled))
        .at(1, changed(Axis::Cc, Level::Normal, Level::Throttled));
    held.clone().at(2, started(1, Background)).rejected(check(), "while cc is THROTTLED");
    held.at(2, started(1, Reflection)).accepted(check());
}

#[test]
fn who_waits_is_not_overtaken() {
    let full = (1..=3).fold(Story::new(), |story, i| story.at(i, started(i, Background)));
    let two = waits(waits(full, 10, 11, Background), 20, 12, Reflection);
    let free = two.at(100, answered(1)).at(100, ended(1, SessionOutcome::Done));
    let late = Event::SessionStarted { session: 11, class: Background, trial: false, item: Some(11) };
    free.clone().at(100, as_item(12, Reflection, 12)).accepted(check());
    free.clone().at(100, late.clone()).rejected(check(), "is started before session 12 (30, 20, 12)");
    free.clone().at(100, started(13, Background)).rejected(check(), "is started before");
    free.clone().at(100, started(13, Foreground)).accepted(check());
    free.at(100, waiter(12, false)).at(100, late).accepted(check());
}

#[test]
fn nobody_waits_who_could_start() {
    let full = (1..=3).fold(Story::new(), |story, i| story.at(i, started(i, Background)));
    let waiting = waits(full, 10, 11, Background);
    waiting.clone().at(900_000, World::Healed).accepted(check());
    let freed = waiting.at(70_000, answered(1)).at(70_000, ended(1, SessionOutcome::Done));
    freed.clone().at(75_000, as_item(11, Background, 11)).accepted(check());
    freed.clone().at(80_000, World::Healed).rejected(check(), "could start since 70000 ms");
    freed.at(71_000, waiter(11, false)).at(80_000, World::Healed).accepted(check());
    // A reset is nobody's event.
    let limited = waits(after_a_limit(), 20, 11, Background);
    limited.clone().at(1_005_000, World::Healed).accepted(check());
    limited.at(1_010_000, World::Healed).rejected(check(), "could start since 1000000 ms");
}

#[test]
fn no_session_runs_without_a_slot_and_no_slot_is_held_by_nobody() {
    let runs = Story::new().at(0, started(1, Background)).at(10, process(1, true));
    let ends = runs.clone().at(50, process(1, false));
    ends.clone().at(60, answered(1)).at(60, ended(1, SessionOutcome::Done)).at(90_000, World::Healed).accepted(check());
    ends.clone().at(60_050, ended(1, SessionOutcome::Lost)).accepted(check());
    ends.at(61_051, World::Healed).rejected(check(), "nothing of it runs since 50 ms");
    runs.clone().at(40, answered(1)).at(40, ended(1, SessionOutcome::Done)).rejected(check(), "is free while it runs");
    runs.at(60_010, ended(1, SessionOutcome::Lost)).rejected(check(), "is reclaimed while it runs");
    Story::new().at(10, process(1, true)).rejected(check(), "runs without a slot");
    let died = Story::new().at(0, started(1, Background)).at(1, started(2, Background)).at(10, process(1, true));
    died.at(62_000, World::Healed).rejected(check(), "session 2 still holds a slot");
}

#[test]
fn an_engine_that_was_down_may_take_a_slot_back() {
    let back = crate::check::testing::started(rules(), squall::base::AxisLevels::NORMAL, true);
    Story::new()
        .at(0, started(1, Background))
        .at(10, process(1, true))
        .at(20, World::EngineKilled { power_loss: false, point: None })
        .at(90_000, back)
        .at(90_001, ended(1, SessionOutcome::Lost))
        .accepted(check());
}

#[test]
fn without_sessions_there_is_nothing_to_judge() {
    Story::new().at(10, World::Healed).unjudged(check());
}
