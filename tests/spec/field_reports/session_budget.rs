//! Sessions that died together, started in vain, or were stopped by the wrong number.

use crate::bench::{Bench, chat_rules, run};
use crate::{Row, row};
use squall::base::{Level, SessionClass, SessionOutcome, Span};
use squall::engine::api::{SessionAsk, SessionReply};

fn ask(bench: &Bench, class: SessionClass) -> SessionReply {
    bench.engine.session_ask(SessionAsk { class, key: None, label: None }).expect("a legal ask")
}

fn run_one(bench: &Bench, class: SessionClass, outcome: SessionOutcome) {
    let SessionReply::Started { session, token, .. } = ask(bench, class) else { panic!("it was not started") };
    bench.engine.session_end(session, token, outcome, None).expect("it ran");
}

pub fn rows() -> Vec<Row> {
    vec![
        row("F038", "phases that succeed use up the budget of the hour, not the guard against failures", || {
            let mut rules = chat_rules(&["a"]);
            rules.sessions.starts_per_hour = 4;
            rules.sessions.throttle_at = 1.0;
            run(rules, async |bench: &Bench| {
                for _ in 0..4 {
                    run_one(bench, SessionClass::Reflection, SessionOutcome::Done);
                }
                assert_eq!(bench.engine.status().state.cc, Level::RateLimited);
                let SessionReply::Waiting { reason, .. } = ask(bench, SessionClass::Reflection) else {
                    panic!("it was started")
                };
                assert!(reason.contains("budget"), "{reason}");
                bench.pass(Span::from_mins(2)).await;
                assert_eq!((bench.events("session.deferred"), bench.events("session.limited")), (1, 0));
            });
            // Failures of their own work are not failed starts either: three of those in a row are the guard.
            run(chat_rules(&["a"]), async |bench: &Bench| {
                for _ in 0..4 {
                    run_one(bench, SessionClass::Background, SessionOutcome::Failed);
                }
                assert_eq!(bench.engine.status().state.cc, Level::Normal);
                for _ in 0..3 {
                    run_one(bench, SessionClass::Background, SessionOutcome::NotStarted);
                }
                assert_eq!(bench.engine.status().state.cc, Level::Unavailable);
            });
        }),
        row("F039", "starts that fail are repeated a minute apart, as long as it takes, and told about once", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                let (mut starts, mut ran_at) = (0, None);
                while ran_at.is_none() {
                    if let SessionReply::Started { session, token, .. } = ask(bench, SessionClass::Foreground) {
                        starts += 1;
                        let up = bench.now().ms() >= 180_000;
                        let outcome = if up { SessionOutcome::Done } else { SessionOutcome::NotStarted };
                        bench.engine.session_end(session, token, outcome, None).expect("it ran");
                        ran_at = up.then(|| bench.now().ms());
                    }
                    bench.pass(Span::from_secs(1)).await;
                }
                assert!(starts < 10, "{starts} starts");
                assert!(ran_at <= Some(240_000), "started at {ran_at:?}");
                assert_eq!(bench.events("notice.sent") + bench.events("notice.undelivered"), 1);
            });
        }),
    ]
}
