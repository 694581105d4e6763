//! Stated waits that were not kept, or kept by too many for too long.

use crate::bench::{Bench, Says, chat_rules, run};
use crate::{Row, row};
use squall::base::rules::{Api, ChainUse, SessionRules};
use squall::base::{CallClass, Level, MonoTime, Outcome, SessionClass, SessionOutcome, Span, WallTime};
use squall::engine::api::ChatReply;
use squall::session::{Applied, Ask, Place, Sessions, Statement, Want};
use squall::wire::{Reading, read};

fn wait(seconds: u64) -> Says {
    Says::error(429, "slow down").header("retry-after", &seconds.to_string())
}

/// The wait that a 429 states, asked at 0 s, in milliseconds.
fn stated(api: Api, headers: &[(&str, &str)], body: &str) -> Option<u64> {
    let about =
        Reading { api, use_: ChainUse::Chat, model: None, inputs: 0, dims: None, key_worked: true, now: WallTime(0) };
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    read(&about, 429, &headers, body.as_bytes()).hint.map(Span::ms)
}

fn start(sessions: &mut Sessions, at_s: u64, trial: bool) -> (u64, u64) {
    let session = sessions.number();
    let ask = Ask { class: SessionClass::Background, key: None, label: None, progress: None };
    let place = Place { session, ask, held: None, trial };
    (session, sessions.start(place, MonoTime(at_s * 1_000), &SessionRules::default()))
}

pub fn rows() -> Vec<Row> {
    vec![
        row("F024", "from no path is anybody asked before a stated wait is over", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                bench.says("a", wait(30));
                bench.call().await;
                bench.says("a", Says::hello());
                for _ in 0..40 {
                    bench.call().await;
                    bench.chat(CallClass::Background, None).await.expect("a legal call");
                    bench.pass(Span::from_secs(1)).await;
                }
                assert!(bench.asked_at_ms()[1] >= 30_000, "{:?}", bench.asked_at_ms());
            });
        }),
        row("F025", "a wait is understood in each of its shapes, whichever provider states it", || {
            for api in [Api::Openai, Api::Anthropic, Api::Mistral] {
                let said = |headers: &[(&str, &str)], body: &str| stated(api, headers, body);
                let plain = r#"{"error":{"message":"slow down"}}"#;
                assert_eq!(said(&[("retry-after", "20")], plain), Some(20_000), "{api:?}");
                assert_eq!(said(&[], r#"{"error":{"message":"try again in 94 ms"}}"#), Some(94), "{api:?}");
                let date =
                    [("date", "Thu, 01 Jan 1970 00:05:00 GMT"), ("retry-after", "Thu, 01 Jan 1970 00:05:45 GMT")];
                assert_eq!(said(&date, plain), Some(45_000), "{api:?}");
                for body in [
                    r#"{"error":{"message":"slow down","retry_after":43}}"#,
                    r#"{"error":{"message":"slow down","details":[{"reason":"x"},{"retryDelay":"43s"}]}}"#,
                    r#"{"error":{"message":"slow down"},"retry_after":43.0}"#,
                ] {
                    assert_eq!(said(&[], body), Some(43_000), "{api:?} {body}");
                }
            }
        }),
        row("F027", "a wait of an hour and a half is waited, by items that nobody sleeps through", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                bench.says("a", wait(5_400));
                let reply = bench.call().await;
                let earliest = Some(Span::from_secs(5_400));
                assert!(matches!(reply, ChatReply::Unavailable { earliest: told, .. } if told == earliest));
                for _ in 0..3 {
                    let reply = bench.chat(CallClass::Background, None).await.expect("a legal call");
                    assert!(matches!(reply, ChatReply::Deferred { .. }));
                }
                bench.says("a", Says::hello());
                bench.pass(Span::from_ms(5_399_999)).await;
                assert_eq!(bench.count("a"), 1);
                assert_eq!(bench.engine.status().deferred_work_count["leased"], 0);
                bench.pass(Span::from_mins(2)).await;
                assert_eq!(bench.engine.status().deferred_work_count["done"], 1, "they were the same call");
            });
        }),
        row("F029", "a model without capacity keeps no other model of its provider out", || {
            let mut rules = chat_rules(&["p"]);
            rules.providers[0].models = vec!["m1".to_owned(), "m2".to_owned()];
            rules.chains[0].entries = vec!["p/m1".to_owned(), "p/m2".to_owned()];
            run(rules, async |bench: &Bench| {
                bench.says("p", Says::error(429, "no capacity left for model `m1`").then(Says::hello()));
                for _ in 0..60 {
                    assert_eq!(bench.answered_by().await.as_deref(), Some("p/m2"));
                    bench.says("p", Says::hello());
                    bench.pass(Span::from_ms(50)).await;
                }
                let state = bench.engine.status().state;
                assert_eq!((state.cloud, state.cc), (Level::Normal, Level::Normal));
                assert_eq!(bench.outcomes("p/m1"), [Outcome::Throttled]);
            });
        }),
        row("F031", "a stated wait costs one attempt, not all of them before it is over", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                bench.says("a", Says::error(429, "Rate limit reached. Please try again in 17s."));
                bench.chat(CallClass::Background, None).await.expect("a legal call");
                bench.says("a", Says::hello());
                bench.pass(Span::from_mins(1)).await;
                assert_eq!(bench.engine.status().deferred_work_count["done"], 1);
                let asked = bench.asked_at_ms();
                assert!(asked[1] >= 17_000, "{asked:?}");
                assert_eq!(bench.outcomes("a")[..2], [Outcome::Throttled, Outcome::Success]);
            });
        }),
        row("F032", "one refusal removes nobody: each is asked again when its wait is over", || {
            run(chat_rules(&["a", "b", "c"]), async |bench: &Bench| {
                for host in ["a", "b", "c"] {
                    bench.says(host, Says::hello());
                }
                // At 0, 5 and 10 s the first that still serves refuses once; the next one answers, if there is one.
                for (host, next) in [("a", Some("b")), ("b", Some("c")), ("c", None)] {
                    bench.says(host, wait(20).then(Says::hello()));
                    assert_eq!(bench.answered_by().await.as_deref(), next);
                    bench.pass(Span::from_secs(5)).await;
                }
                // At 20 s the first is there again, at 25 s the second, at 30 s the third.
                for waiting in [2, 1, 0] {
                    bench.pass(Span::from_secs(5)).await;
                    assert_eq!(bench.answered_by().await.as_deref(), Some("a"));
                    assert_eq!(bench.engine.status().parks.len(), waiting);
                }
                let status = bench.engine.status();
                assert!(status.disabled.is_empty() && status.breakers.values().all(|row| row.phase == "closed"));
            });
        }),
        row(
            "F033",
            "a used-up window is over when it said, also for an engine that was away, and proven by three",
            || {
                let (rules, mut sessions) = (SessionRules::default(), Sessions::default());
                let (session, token) = start(&mut sessions, 0, false);
                let resets_in = Some(Span::from_secs(18_000));
                let statement = Statement { window: "five_hour", resets_in, jitter_unit: 0.0 };
                sessions.limit(session, token, statement, MonoTime(0), &rules).expect("it runs");
                sessions.end(session, token, SessionOutcome::Limited, MonoTime(0), &rules).expect("it runs");
                let stored = serde_json::to_string(&sessions).expect("stored");
                let mut sessions: Sessions = serde_json::from_str(&stored).expect("read");
                let now = MonoTime(20_000_000);
                sessions.restore(now, &rules);
                sessions.timer(now, &rules);
                let want = Want { class: SessionClass::Background, limited: true };
                let applied = Applied { level: Level::RateLimited, admits: false };
                for n in 0..3 {
                    assert!(sessions.condition(now, &rules).limited, "after {n}");
                    assert_eq!(sessions.admits(want, applied, now, &rules), Ok(true), "one alone, as a trial");
                    let (session, token) = start(&mut sessions, 20_000, true);
                    sessions.admits(want, applied, now, &rules).expect_err("one at a time");
                    sessions.end(session, token, SessionOutcome::Done, now, &rules).expect("it runs");
                }
                assert!(!sessions.condition(now, &rules).limited);
            },
        ),
    ]
}
