//! Times that were measured on the wrong clock.

use crate::bench::{Bench, Says, chat_rules, run};
use crate::{Row, row};
use squall::base::rules::SessionRules;
use squall::base::{MonoTime, SessionClass, Span};
use squall::engine::api::Deferral;
use squall::session::{Ask, Place, Sessions};

const HOUR_MS: i64 = 3_600_000;

pub fn rows() -> Vec<Row> {
    vec![
        row("F116", "a wait of a minute lasts a minute, whatever the wall clock is set to in it", || {
            for step_ms in [-3 * HOUR_MS, 3 * HOUR_MS] {
                run(chat_rules(&["a"]), async |bench: &Bench| {
                    bench.says("a", Says::error(429, "slow down").header("retry-after", "60"));
                    bench.call().await;
                    bench.says("a", Says::hello());
                    bench.pass(Span::from_secs(10)).await;
                    bench.step_wall(step_ms);
                    let left = bench.engine.status().parks["a"].left_ms;
                    assert_eq!(left, 50_000);
                    bench.pass(Span::from_ms(49_999)).await;
                    assert_eq!(bench.answered_by().await, None);
                    bench.pass(Span::from_ms(1)).await;
                    assert_eq!(bench.answered_by().await.as_deref(), Some("a"));
                });
            }
        }),
        row(
            "F117",
            "after a sleep one round of probes goes out, not all that were missed; a wall step stops none",
            || {
                run(chat_rules(&["a"]), async |bench: &Bench| {
                    bench.says("a", Says::status(503));
                    bench.call().await;
                    bench.call().await;
                    bench.pass(Span::from_secs(25)).await;
                    let before = bench.count("a");
                    bench.suspend(Span::from_mins(10));
                    bench.pass(Span::from_ms(9_999)).await;
                    assert_eq!(bench.count("a") - before, 2, "{:?}", bench.asked_ms("a"));
                    bench.step_wall(-HOUR_MS);
                    bench.pass(Span::from_secs(20)).await;
                    assert_eq!(bench.count("a") - before, 4, "{:?}", bench.asked_ms("a"));
                });
            },
        ),
        row("F121", "a ttl of an hour is an hour, also in the night in which the clocks go back", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                bench.call().await;
                bench.call().await;
                let item = Deferral {
                    work_type: "llm_call".to_owned(),
                    priority: None,
                    policy: "ttl".to_owned(),
                    ttl: Some("1h".to_owned()),
                    depends_on: None,
                    payload: r#"{"content":"later"}"#.to_owned(),
                    key: None,
                    reason: "a test".to_owned(),
                };
                let deferred_at = bench.now();
                bench.engine.defer(item).expect("taken in");
                bench.pass(Span::from_mins(30)).await;
                bench.step_wall(-HOUR_MS);
                let alive = |bench: &Bench| {
                    let count = &bench.engine.status().deferred_work_count;
                    count["pending"] + count["scheduled"] + count["leased"]
                };
                bench.pass((deferred_at + Span::from_secs(3_599)) - bench.now()).await;
                assert_eq!((alive(bench), bench.engine.status().deferred_work_count["expired"]), (1, 0));
                // Swept within a minute.
                bench.pass(Span::from_secs(61)).await;
                assert_eq!((alive(bench), bench.engine.status().deferred_work_count["expired"]), (0, 1));
            });
        }),
        row("F122", "every sign of life counts, also two in the same second", || {
            let (rules, mut sessions) = (SessionRules::default(), Sessions::default());
            let session = sessions.number();
            let ask = Ask { class: SessionClass::Background, key: None, label: None, progress: None };
            let place = Place { session, ask, held: None, trial: false };
            let token = sessions.start(place, MonoTime(0), &rules);
            let mut now = 10_100;
            for next in [10_900, 35_900, 60_900, 85_900, 110_900] {
                sessions.alive(session, token, MonoTime(now), &rules).expect("it lives");
                let lease_until = sessions.get(session).map(|active| active.lease_until);
                assert_eq!(lease_until, Some(MonoTime(now + rules.lease.ms())));
                now = next;
                sessions.timer(MonoTime(now), &rules);
                assert!(sessions.get(session).is_some(), "declared dead at {now}");
            }
        }),
    ]
}
