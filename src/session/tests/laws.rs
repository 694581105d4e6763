//! What holds in every order of asks, ends, limits and time.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Start(SessionClass),
    /// The n-th of those that run.
    End(usize, SessionOutcome),
    Limit(usize, u8, Option<u64>),
    /// Milliseconds; owners say that they are alive.
    Pass(u64),
    /// They do not.
    Silence(u64),
    /// Nobody hears them.
    Sleep(u64),
    Hold(Level),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let class = prop::sample::select(SessionClass::ALL.to_vec());
    let outcome = prop::sample::select(vec![Done, Failed, Limited, NotStarted]);
    let level = prop::sample::select(vec![Level::Normal, Level::Throttled, Level::RateLimited, Level::Unavailable]);
    prop_oneof![
        6 => class.prop_map(Step::Start),
        4 => (0..4_usize, outcome).prop_map(|(n, outcome)| Step::End(n, outcome)),
        1 => (0..4_usize, 0..3_u8, prop::option::of(0..40_000_000_u64))
            .prop_map(|(n, window, reset)| Step::Limit(n, window, reset)),
        4 => (0..900_000_u64).prop_map(Step::Pass),
        1 => (0..90_000_u64).prop_map(Step::Silence),
        1 => (0..9_000_000_u64).prop_map(Step::Sleep),
        1 => level.prop_map(Step::Hold),
        1 => Just(Step::Restart),
    ]
}

fn nth(desk: &Desk, n: usize) -> Option<(u64, u64)> {
    desk.sessions.active().nth(n).map(|(session, run)| (session, run.token))
}

fn take(desk: &mut Desk, step: Step) {
    match step {
        Step::Start(class) => {
            if let Ok(trial) = desk.admits(class) {
                let condition = desk.condition();
                let patient = class != Foreground;
                assert!(!(patient && condition.hour_used_up), "{class:?} inside a used-up hour");
                assert!(!(patient && desk.sessions.limited_until().is_some()), "{class:?} inside a limit");
                assert!(
                    !(patient && condition.limited && !trial),
                    "{class:?} is no trial before the limit is proven gone"
                );
                assert!(trial || !condition.unavailable, "{class:?} is no trial while sessions are unavailable");
                assert!(!(trial && desk.sessions.trial_under_way()), "two trials at a time");
                desk.start(class);
            }
        }
        Step::End(n, outcome) => {
            if let Some(own) = nth(desk, n) {
                desk.end(own, outcome);
            }
        }
        Step::Limit(n, window, reset) => {
            if let Some(own) = nth(desk, n) {
                desk.limit(own, ["five_hour", "weekly", "unknown"][window as usize], reset.map(Span::from_ms));
                assert!(desk.condition().limited);
            }
        }
        Step::Pass(ms) => desk.pass(Span::from_ms(ms)),
        Step::Silence(ms) => desk.silence(Span::from_ms(ms)),
        Step::Sleep(ms) => {
            desk.now = desk.now + Span::from_ms(ms);
            desk.timer();
        }
        Step::Hold(level) => desk.held = level,
        Step::Restart => {
            let stored = serde_json::to_string(&desk.sessions).unwrap();
            desk.sessions = serde_json::from_str(&stored).unwrap();
            desk.sessions.restore(desk.now, &desk.rules);
            desk.timer();
        }
    }
}

proptest! {
    #[test]
    fn the_cap_the_reserve_the_budget_and_the_trials_hold_and_time_always_goes_on(
        steps in prop::collection::vec(step(), 1..200),
        jitter in prop::sample::select(vec![0.0, 0.25]),
    ) {
        let mut desk = Desk::with(SessionRules { jitter, ..SessionRules::default() });
        for step in steps {
            take(&mut desk, step);
            let active = desk.sessions.active().count();
            let others = desk.sessions.active().filter(|(_, run)| run.ask.class != Foreground).count();
            prop_assert!(active <= 4 && others <= 3);
            // A time that has passed would wake the engine without end.
            desk.timer();
            let due = desk.sessions.due(&desk.rules);
            prop_assert!(due.is_none_or(|due| due > desk.now), "{due:?} at {:?}", desk.now);
        }
        // Whatever it was, it ends: nothing runs, nothing fails, and three answers later all is well.
        desk.held = Level::Normal;
        let owners: Vec<_> = desk.sessions.active().map(|(session, run)| (session, run.token)).collect();
        for own in owners {
            desk.end(own, Done);
        }
        desk.pass(Span::from_days(36));
        for _ in 0..3 {
            desk.run(Background, Done);
        }
        prop_assert_eq!(desk.condition(), FINE);
    }
}
