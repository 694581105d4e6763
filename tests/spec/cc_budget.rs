//! How many Claude Code sessions may start, and who waits when they may not.

use crate::bench::{Bench, chat_rules, run};
use crate::{Row, check, row};
use squall::base::{Level, Rules, SessionClass, SessionOutcome, Span};
use squall::engine::api::{Deferral, SessionAsk, SessionReply};

fn ask(bench: &Bench, class: SessionClass, key: Option<&str>) -> SessionReply {
    let asked = SessionAsk { class, key: key.map(str::to_owned), label: None };
    bench.engine.session_ask(asked).expect("a legal ask")
}

/// Foreground sessions, one after the other, each done at once.
fn use_up(bench: &Bench, sessions: u32) {
    for n in 1..=sessions {
        let SessionReply::Started { session, token, .. } = ask(bench, SessionClass::Foreground, None) else {
            panic!("foreground session {n} was not started");
        };
        bench.engine.session_end(session, token, SessionOutcome::Done, None).expect("it ran");
    }
}

/// Starts in the hour, the budget, and the level, after so many sessions.
fn after(sessions: u32, rules: Rules, then: impl Fn(usize, u32, Level)) {
    run(rules, async |bench: &Bench| {
        use_up(bench, sessions);
        let status = bench.engine.status();
        then(status.sessions.starts_in_hour, status.sessions.budget, status.state.cc);
    });
}

pub fn rows() -> Vec<Row> {
    vec![
        row("CC-001", "5 of 20 in the hour: a quarter, NORMAL", || {
            after(5, Rules::default(), |starts, budget, cc| assert_eq!((starts, budget, cc), (5, 20, Level::Normal)));
        }),
        row("CC-002", "16 of 20: exactly 80 % is THROTTLED", || {
            after(15, Rules::default(), |_, _, cc| assert_eq!(cc, Level::Normal));
            after(16, Rules::default(), |_, _, cc| assert_eq!(cc, Level::Throttled));
        }),
        row("CC-003", "20 of 20: RATE_LIMITED", || {
            after(20, Rules::default(), |starts, budget, cc| {
                assert_eq!((starts, budget, cc), (20, 20, Level::RateLimited));
            });
        }),
        row("CC-004", "20 sessions three hours old count for nothing: NORMAL", || {
            run(Rules::default(), async |bench: &Bench| {
                use_up(bench, 20);
                bench.pass(Span::from_hours(3)).await;
                let status = bench.engine.status();
                assert_eq!((status.sessions.starts_in_hour, status.state.cc), (0, Level::Normal));
            });
        }),
        row("CC-009", "30 of 20: foreground is never refused by the budget", || {
            after(30, Rules::default(), |starts, _, cc| assert_eq!((starts, cc), (30, Level::RateLimited)));
        }),
        // A session waits without a ttl: its waiter decides how long. Work that a caller defers for cc may have one.
        row("CC-011", "a reflection beyond the budget is refused with the reason and deferred once", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                use_up(bench, 20);
                let SessionReply::Waiting { item, reason, .. } = ask(bench, SessionClass::Reflection, Some("deep"))
                else {
                    panic!("it was started");
                };
                assert!(reason.contains("budget"), "{reason}");
                let SessionReply::Waiting { item: again, .. } = ask(bench, SessionClass::Reflection, Some("deep"))
                else {
                    panic!("it was started");
                };
                let pending = |bench: &Bench| bench.engine.status().deferred_work_count["pending"];
                assert_eq!((item, pending(bench)), (again, 1));
                let reflection = Deferral {
                    work_type: "reflection".to_owned(),
                    priority: Some(40),
                    policy: "ttl".to_owned(),
                    ttl: Some("4h".to_owned()),
                    depends_on: Some(vec!["cc".to_owned()]),
                    payload: r#"{"content":"think"}"#.to_owned(),
                    key: None,
                    reason: "throttled".to_owned(),
                };
                bench.engine.defer(reflection).expect("taken in");
                bench.pass(Span::from_secs(5)).await;
                assert_eq!((pending(bench), bench.events("deferred.run")), (2, 0));
            });
        }),
        row("CC-012", "a budget of 0 starts an hour is none: NORMAL", || {
            let mut rules = Rules::default();
            rules.sessions.starts_per_hour = 0;
            after(40, rules, |starts, _, cc| assert_eq!((starts, cc), (40, Level::Normal)));
        }),
    ]
}

#[test]
fn table() {
    check(&rows());
}
