//! The machine at its edges, and what holds whatever happens to it.

use super::*;
use crate::base::rules::SessionRules;
use crate::base::{Level, MonoTime, SessionClass, SessionOutcome, Span};
use SessionClass::{Background, Foreground, Reflection};
use SessionOutcome::{Done, Failed, Limited, NotStarted};

const S: fn(u64) -> Span = Span::from_secs;

fn just_before(span: Span) -> Span {
    span.saturating_sub(Span::from_ms(1))
}

/// The machine with a hand on the clock, as the engine uses it: time first, then what is asked.
struct Desk {
    sessions: Sessions,
    rules: SessionRules,
    now: MonoTime,
    /// What a hold keeps the level at, if one is in force.
    held: Level,
    happened: Vec<Happened>,
}

impl Desk {
    fn new() -> Desk {
        Desk::with(SessionRules { jitter: 0.0, ..SessionRules::default() })
    }

    fn with(rules: SessionRules) -> Desk {
        let sessions = Sessions::default();
        Desk { sessions, rules, now: MonoTime(1_000_000), held: Level::Normal, happened: Vec::new() }
    }

    /// Lets time pass, stopping wherever the machine wants to be woken. Owners say that they are alive.
    fn pass(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            let owners: Vec<(u64, u64)> = self.sessions.active().map(|(session, run)| (session, run.token)).collect();
            for (session, token) in owners {
                self.sessions.alive(session, token, self.now, &self.rules).unwrap();
            }
            let left = end - self.now;
            // With nobody to be heard there is nothing to stop for.
            self.silence(if self.sessions.active().count() > 0 { left.min(S(20)) } else { left });
        }
    }

    /// As [`Desk::pass`], and nobody says a word.
    fn silence(&mut self, span: Span) {
        let end = self.now + span;
        while let Some(due) = self.sessions.due(&self.rules).filter(|due| *due <= end) {
            assert!(due > self.now, "woken at {due:?} again, it is {:?}", self.now);
            self.now = due;
            self.timer();
        }
        self.now = end;
        self.timer();
    }

    fn timer(&mut self) {
        self.happened.extend(self.sessions.timer(self.now, &self.rules));
    }

    fn want(&self, want: Want) -> Result<bool, String> {
        let admits = match want.class {
            Foreground => self.held != Level::Unavailable,
            Reflection => ![Level::RateLimited, Level::Unavailable].contains(&self.held),
            Background => self.held == Level::Normal,
        };
        let applied = Applied { level: self.held, admits };
        self.sessions.admits(want, applied, self.now, &self.rules).map_err(|Refused(why)| why)
    }

    fn admits(&self, class: SessionClass) -> Result<bool, String> {
        self.want(Want { class, limited: false })
    }

    fn start(&mut self, class: SessionClass) -> (u64, u64) {
        let trial = self.admits(class).unwrap_or_else(|why| panic!("{class:?}: {why}"));
        let session = self.sessions.number();
        let ask = Ask { class, key: None, label: None, progress: None };
        let token = self.sessions.start(Place { session, ask, held: None, trial }, self.now, &self.rules);
        (session, token)
    }

    fn end(&mut self, (session, token): (u64, u64), outcome: SessionOutcome) -> bool {
        self.sessions.end(session, token, outcome, self.now, &self.rules).unwrap().answered
    }

    fn limit(&mut self, (session, token): (u64, u64), window: &str, resets_in: Option<Span>) -> Span {
        let statement = Statement { window, resets_in, jitter_unit: 0.0 };
        self.sessions.limit(session, token, statement, self.now, &self.rules).unwrap() - self.now
    }

    /// A session that meets this limit and ends by it.
    fn run_into(&mut self, class: SessionClass, window: &str, resets_in: Option<Span>) -> Span {
        let own = self.start(class);
        let length = self.limit(own, window, resets_in);
        self.end(own, Limited);
        length
    }

    fn run(&mut self, class: SessionClass, outcome: SessionOutcome) {
        let own = self.start(class);
        self.end(own, outcome);
    }

    fn condition(&self) -> Condition {
        self.sessions.condition(self.now, &self.rules)
    }
}

const FINE: Condition =
    Condition { failing: false, unavailable: false, limited: false, hour_used_up: false, throttled: false };

#[test]
fn one_slot_is_kept_for_foreground_and_foreground_may_take_them_all() {
    let mut desk = Desk::new();
    for _ in 0..3 {
        desk.start(Background);
    }
    assert!(desk.admits(Reflection).unwrap_err().contains("kept for foreground"));
    let fourth = desk.start(Foreground);
    assert!(desk.admits(Foreground).unwrap_err().contains("every slot"));
    desk.end(fourth, Done);
    let mut desk = Desk::new();
    for _ in 0..4 {
        desk.start(Foreground);
    }
    assert_eq!(desk.sessions.active().count(), 4);
}

#[test]
fn throttled_from_four_fifths_of_the_hour_until_it_falls_below_three_fifths() {
    let mut desk = Desk::new();
    for n in 1..=16 {
        assert!(!desk.condition().throttled, "{n}");
        desk.run(Reflection, Done);
        desk.pass(S(60));
    }
    assert_eq!(desk.condition(), Condition { throttled: true, ..FINE });
    assert!(desk.admits(Background).is_err() && desk.admits(Reflection).is_ok() && desk.admits(Foreground).is_ok());
    // Started at minutes 0..15; it is minute 16. The fifth leaves at minute 64 and 11 are left.
    desk.pass(just_before(S(48 * 60)));
    assert_eq!(desk.sessions.starts_in_hour(desk.now), 12);
    assert!(desk.condition().throttled);
    desk.pass(Span::from_ms(1));
    assert_eq!(desk.condition(), FINE);
    desk.start(Background);
}

#[test]
fn a_used_up_hour_refuses_all_but_foreground_and_ends_by_itself() {
    let mut desk = Desk::new();
    for _ in 0..20 {
        desk.run(Foreground, Done);
        desk.pass(S(1));
    }
    assert_eq!(desk.condition(), Condition { hour_used_up: true, throttled: true, ..FINE });
    assert!(desk.admits(Reflection).unwrap_err().contains("used up"));
    for _ in 0..10 {
        desk.run(Foreground, Done);
    }
    // 20 starts a second apart, 10 at once: the budget is free again when the eleventh of the first ones leaves.
    desk.pass(just_before(S(3_600 - 20 + 10)));
    assert!(desk.condition().hour_used_up);
    desk.pass(Span::from_ms(1));
    assert_eq!(desk.condition(), Condition { throttled: true, ..FINE });
    assert_eq!(desk.admits(Reflection), Ok(false), "a used-up hour needs no confirmation");
}

#[test]
fn no_budget_is_no_limit() {
    let mut desk = Desk::with(SessionRules { starts_per_hour: 0, ..SessionRules::default() });
    for _ in 0..200 {
        desk.run(Background, Done);
    }
    assert_eq!(desk.condition(), FINE);
    assert_eq!(desk.sessions.starts_in_hour(desk.now), 200);
}

#[test]
fn a_limit_admits_foreground_only_until_its_reset_and_then_one_at_a_time_until_three_were_answered() {
    let mut desk = Desk::new();
    desk.run_into(Background, "five_hour", Some(S(600)));
    assert_eq!(desk.condition(), Condition { limited: true, ..FINE });
    assert!(desk.admits(Reflection).unwrap_err().contains("five_hour"));
    assert_eq!(desk.admits(Foreground), Ok(false));
    desk.pass(just_before(S(600)));
    assert!(desk.admits(Background).is_err());
    desk.pass(Span::from_ms(1));
    for answered in 0..3 {
        assert!(desk.condition().limited && desk.sessions.is_confirming(), "{answered} were answered");
        assert_eq!(desk.admits(Reflection), Ok(true));
        let trial = desk.start(Background);
        assert!(desk.admits(Reflection).unwrap_err().contains("being tried"));
        assert_eq!(desk.admits(Foreground), Ok(false), "RATE_LIMITED still admits foreground");
        desk.end(trial, Done);
    }
    assert_eq!(desk.condition(), FINE);
    assert_eq!(desk.admits(Background), Ok(false));
}

#[test]
fn sixty_seconds_without_a_limit_are_an_answer_and_what_started_inside_the_limit_proves_nothing() {
    let mut desk = Desk::new();
    let first = desk.start(Background);
    desk.limit(first, "five_hour", Some(S(100)));
    desk.end(first, Limited);
    desk.pass(S(90));
    let inside = desk.start(Foreground);
    desk.pass(S(10));
    let trial = desk.start(Reflection);
    desk.pass(S(50));
    assert_eq!(desk.happened, [Happened::Answered { session: inside.0 }]);
    assert!(desk.admits(Background).is_err(), "the trial is not answered yet");
    desk.pass(S(10));
    assert_eq!(desk.happened.last(), Some(&Happened::Answered { session: trial.0 }));
    assert_eq!(desk.admits(Background), Ok(true), "the slot of the trial is taken, its turn is over");
    assert!(!desk.end(trial, Failed), "it was answered already");
    desk.run(Background, Failed);
    assert!(desk.condition().limited);
    desk.run(Background, Done);
    assert_eq!(desk.condition(), FINE);
}

#[test]
fn the_newest_statement_for_a_window_wins_earlier_or_later() {
    let mut desk = Desk::new();
    let own = desk.start(Background);
    desk.limit(own, "five_hour", Some(S(6_720)));
    desk.limit(own, "weekly", Some(S(60)));
    assert_eq!(desk.sessions.limited_until(), Some(desk.now + S(6_720)));
    desk.limit(own, "five_hour", Some(S(300)));
    assert_eq!(desk.sessions.limited_until(), Some(desk.now + S(300)));
    desk.limit(own, "five_hour", Some(S(28_920)));
    assert_eq!(desk.sessions.limited_until(), Some(desk.now + S(28_920)));
    assert_eq!(desk.sessions.limits_seen(), 1, "one session met a limit");
    assert_eq!(desk.limit(own, "five_hour", Some(Span::from_days(400))), Span::from_days(35));
}

#[test]
fn a_reset_that_rolls_forward_costs_one_trial_for_each_wait() {
    let mut desk = Desk::new();
    desk.run_into(Background, "five_hour", Some(S(6_720)));
    for reset in [28_920 - 6_720, 46_000 - 28_920] {
        let left = desk.sessions.limited_until().unwrap() - desk.now;
        desk.pass(left);
        assert_eq!(desk.admits(Background), Ok(true));
        desk.run_into(Background, "five_hour", Some(S(reset)));
        assert!(desk.admits(Background).is_err());
    }
    let left = desk.sessions.limited_until().unwrap() - desk.now;
    desk.pass(left);
    for _ in 0..3 {
        assert!(desk.condition().limited);
        desk.run(Background, Done);
    }
    assert_eq!(desk.condition(), FINE);
}

#[test]
fn without_a_reset_the_wait_doubles_up_to_half_an_hour_and_starts_over_when_sessions_work() {
    let mut desk = Desk::new();
    let mut waits = Vec::new();
    for _ in 0..8 {
        let wait = desk.run_into(Background, "unknown", None);
        waits.push(wait.ms() / 1_000);
        desk.pass(wait);
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1_800, 1_800]);
    for _ in 0..3 {
        desk.run(Background, Done);
    }
    assert_eq!(desk.run_into(Background, "unknown", Some(Span::ZERO)), S(30), "a reset that is over is none");
}

#[test]
fn limits_that_hit_sessions_of_the_same_time_are_one_step_of_the_back_off() {
    let mut desk = Desk::new();
    let all: Vec<_> = (0..3).map(|_| desk.start(Background)).collect();
    desk.pass(S(1));
    assert_eq!(desk.limit(all[0], "unknown", None), S(30));
    desk.pass(S(2));
    assert_eq!(desk.limit(all[1], "unknown", None), S(28), "it says nothing new");
    assert_eq!(desk.limit(all[2], "weekly", None), S(30), "another window waits as long");
    desk.pass(S(1));
    assert_eq!(desk.run_into(Foreground, "unknown", None), S(60), "one that started after it is the second in a row");
}

#[test]
fn a_statement_without_a_reset_leaves_the_stated_one_and_our_own_wait_is_stretched_upward_only() {
    let mut desk = Desk::with(SessionRules::default());
    let own = desk.start(Background);
    desk.limit(own, "five_hour", Some(S(600)));
    assert_eq!(desk.limit(own, "five_hour", None), S(600));
    for (jitter_unit, ms) in [(0.0, 30_000), (0.5, 33_750), (1.0, 37_500)] {
        let mut limits = super::limits::Limits::default();
        let statement = Statement { window: "unknown", resets_in: None, jitter_unit };
        let until = limits.stated(statement, MonoTime(0), MonoTime(5), &SessionRules::default());
        assert_eq!(until, MonoTime(5 + ms));
    }
}

#[test]
fn a_session_that_a_limit_ended_waits_for_its_reset_even_if_it_is_foreground() {
    let mut desk = Desk::new();
    desk.run_into(Foreground, "five_hour", Some(S(600)));
    let again = Want { class: Foreground, limited: true };
    assert!(desk.want(again).is_err());
    desk.pass(S(600));
    assert_eq!(desk.want(again), Ok(true));
}

#[test]
fn three_failed_starts_in_a_row_are_unavailable_and_then_one_trial_a_minute() {
    let mut desk = Desk::new();
    desk.run(Background, NotStarted);
    desk.run(Background, NotStarted);
    desk.run(Background, Done);
    for n in 0..3 {
        assert!(!desk.condition().failing, "{n}");
        desk.run(Background, NotStarted);
    }
    assert_eq!(desk.condition(), Condition { failing: true, unavailable: true, ..FINE });
    for _ in 0..3 {
        assert_eq!(desk.admits(Foreground), Ok(true));
        desk.run(Foreground, NotStarted);
        assert!(desk.admits(Foreground).unwrap_err().contains("tried soon"));
        desk.pass(just_before(S(60)));
        assert!(desk.admits(Foreground).is_err());
        desk.pass(Span::from_ms(1));
    }
    desk.run(Foreground, Done);
    assert_eq!(desk.condition(), Condition { unavailable: true, ..FINE });
    let trial = desk.start(Background);
    assert!(desk.admits(Foreground).is_err(), "one at a time");
    desk.end(trial, NotStarted);
    assert!(desk.condition().failing, "the answers have to come in a row");
    desk.pass(S(60));
    for _ in 0..3 {
        assert!(desk.condition().unavailable);
        desk.run(Background, Done);
    }
    assert_eq!(desk.condition(), FINE);
}

#[test]
fn an_old_session_that_is_answered_does_not_break_a_row_of_failed_starts() {
    let mut desk = Desk::new();
    let old = desk.start(Foreground);
    desk.pass(S(10));
    desk.run(Background, NotStarted);
    desk.run(Background, NotStarted);
    desk.end(old, Done);
    desk.run(Background, NotStarted);
    assert!(desk.condition().failing);
}

#[test]
fn a_hold_at_unavailable_still_tries_one_a_minute() {
    let mut desk = Desk::new();
    desk.held = Level::Unavailable;
    assert_eq!(desk.admits(Foreground), Ok(true));
    desk.run(Foreground, Done);
    assert!(desk.admits(Foreground).is_err());
    desk.pass(S(60));
    assert_eq!(desk.admits(Background), Ok(true));
    desk.held = Level::RateLimited;
    assert!(desk.admits(Background).unwrap_err().contains("held at RATE_LIMITED"));
}

#[test]
fn starts_that_fail_give_their_slots_back_and_a_dead_owner_loses_his() {
    let mut desk = Desk::new();
    let four: Vec<_> = (0..4).map(|_| desk.start(Foreground)).collect();
    for own in four {
        desk.end(own, NotStarted);
    }
    assert_eq!(desk.sessions.active().count(), 0);
    let (session, token) = desk.start(Background);
    let rules = desk.rules.clone();
    desk.silence(S(20));
    desk.sessions.alive(session, token, desk.now, &rules).unwrap();
    desk.silence(just_before(S(60)));
    assert_eq!(desk.sessions.active().count(), 1);
    desk.silence(Span::from_ms(1));
    assert!(matches!(desk.happened.last(), Some(Happened::Lost { .. })));
    assert_eq!(desk.sessions.alive(session, token, desk.now, &rules), Err(Gone));
    assert_eq!(desk.sessions.end(session, token, Done, desk.now, &rules), Err(Gone));
}

#[test]
fn a_lease_that_ends_with_the_minute_is_lost_not_answered() {
    let mut desk = Desk::new();
    let (session, _) = desk.start(Background);
    desk.now = desk.now + S(60);
    desk.timer();
    assert!(matches!(&desk.happened[..], [Happened::Lost { session: lost, .. }] if *lost == session));
}

#[test]
fn a_machine_that_slept_through_its_leases_listens_again_before_it_gives_a_slot_away() {
    let mut desk = Desk::new();
    let (session, _) = desk.start(Background);
    desk.now = desk.now + S(3_600);
    desk.timer();
    assert_eq!(desk.happened, [Happened::Answered { session }]);
    desk.silence(S(60));
    assert!(matches!(desk.happened.last(), Some(Happened::Lost { .. })));
}

#[test]
fn another_run_of_a_session_has_another_token() {
    let mut desk = Desk::new();
    let (session, first) = desk.start(Background);
    desk.end((session, first), Done);
    let ask = Ask { class: Background, key: None, label: None, progress: None };
    let second = desk.sessions.start(Place { session, ask, held: None, trial: false }, desk.now, &desk.rules);
    assert_ne!(first, second);
    assert_eq!(desk.sessions.alive(session, first, desk.now, &desk.rules), Err(Gone));
}

#[test]
fn after_a_restart_no_stored_deadline_is_later_than_it_may_be() {
    let mut desk = Desk::new();
    desk.now = MonoTime(500 * 86_400_000);
    desk.run_into(Background, "weekly", Some(Span::from_days(30)));
    desk.run_into(Foreground, "unknown", None);
    desk.start(Foreground);
    let stored = serde_json::to_string(&desk.sessions).unwrap();
    let mut back: Sessions = serde_json::from_str(&stored).unwrap();
    assert_eq!(back, desk.sessions);
    let earlier = MonoTime(86_400_000);
    back.restore(earlier, &desk.rules);
    assert_eq!(back.limited_until(), Some(earlier + Span::from_days(35)));
    assert_eq!(back.starts_in_hour(earlier), 3);
    assert_eq!(back.due(&desk.rules), Some(earlier + S(60)));
    let mut back: Sessions = serde_json::from_str(&stored).unwrap();
    let later = desk.now + Span::from_days(1);
    back.restore(later, &desk.rules);
    assert_eq!(back.limited_until(), Some(later + Span::from_days(29)), "a limit goes on while nobody runs");
    assert_eq!(back.starts_in_hour(later), 0);
    assert_eq!(back.get(3).unwrap().lease_until, later + S(60), "nobody could say that he is alive");
}

fn waiter(class: SessionClass, at: u64, item: u64) -> Waiter {
    let ask = Ask { class, key: Some(format!("key {item}")), label: None, progress: None };
    Waiter::new(ask, (class.priority(), MonoTime(at), item), false)
}

#[test]
fn those_with_a_waiter_stand_in_the_order_of_the_queue() {
    let mut waiting = Waiting::default();
    for (session, class, at) in [(1, Background, 10), (2, Background, 5), (3, Reflection, 20), (4, Foreground, 30)] {
        waiting.insert(session, waiter(class, at, session + 100));
    }
    assert_eq!(waiting.present().count(), 0);
    for session in [1, 2, 3] {
        assert!(waiting.poll_opened(session));
    }
    assert_eq!(waiting.present().map(|(session, _)| session).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!((waiting.len(), waiting.by_key("key 104")), (4, Some(4)));
    waiting.remove(3);
    assert_eq!(waiting.present().map(|(session, _)| session).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(waiting.by_key("key 103"), None);
}

#[test]
fn a_waiter_is_present_while_a_poll_is_open_and_a_moment_after_it() {
    let mut waiting = Waiting::default();
    waiting.insert(1, waiter(Background, 0, 1));
    let grace = S(5);
    assert!(waiting.poll_opened(1));
    assert!(!waiting.poll_opened(1), "a second poll brings nobody new");
    waiting.poll_closed(1, MonoTime(1_000), grace);
    assert!(waiting.get(1).unwrap().is_polled());
    assert_eq!(waiting.due(), None);
    waiting.poll_closed(1, MonoTime(2_000), grace);
    assert!(!waiting.get(1).unwrap().is_polled());
    assert_eq!(waiting.due(), Some(MonoTime(7_000)));
    assert!(!waiting.poll_opened(1), "he was still there");
    waiting.poll_closed(1, MonoTime(3_000), grace);
    assert_eq!(waiting.timer(MonoTime(7_999)), [0_u64; 0]);
    assert_eq!(waiting.timer(MonoTime(8_000)), [1]);
    assert_eq!((waiting.due(), waiting.present().count(), waiting.len()), (None, 0, 1));
    assert!(waiting.poll_opened(1), "he came back");
}

mod laws;
