//! Who is asked, how often, and what the caller gets.

use crate::bench::{Bench, Says, chat_rules, run};
use crate::{Row, check, row};
use squall::base::{CallClass, CallOutcome, Level, Outcome, Rules, Span};
use squall::engine::api::{ChatReply, Deferral, EngineError};

/// Two free providers, then one that costs.
fn three() -> Rules {
    chat_rules(&["free-1", "free-2", "paid-1"])
}

/// All answer at once.
fn all_well(bench: &Bench) {
    for host in ["free-1", "free-2", "paid-1"] {
        bench.says(host, Says::hello());
    }
}

fn all_fail(bench: &Bench, after_ms: u64) {
    for host in ["free-1", "free-2", "paid-1"] {
        bench.says(host, Says::status(503).after_ms(after_ms));
    }
}

pub fn rows() -> Vec<Row> {
    vec![
        row("RO-001", "the first provider answers: one call, nobody else is asked", || {
            run(three(), async |bench: &Bench| {
                all_well(bench);
                assert_eq!(bench.answered_by().await.as_deref(), Some("free-1"));
                assert_eq!(bench.asked(), ["free-1"]);
            });
        }),
        row("RO-002", "the first answers 503: the second is used, and the first is known to have failed", || {
            run(three(), async |bench: &Bench| {
                all_well(bench);
                bench.says("free-1", Says::status(503));
                assert_eq!(bench.answered_by().await.as_deref(), Some("free-2"));
                assert!(bench.outcomes("free-1").iter().all(|outcome| *outcome == Outcome::ProviderFault));
                assert_eq!((bench.outcomes("free-2"), bench.count("paid-1")), (vec![Outcome::Success], 0));
            });
        }),
        // A 408 is retried here as every provider's fault is; this one states a wait that no deadline allows.
        row(
            "RO-003",
            "408 with retries allowed but no time for one: asked once, one failure, the next is used",
            || {
                run(three(), async |bench: &Bench| {
                    all_well(bench);
                    bench.says("free-1", Says::status(408).header("retry-after", "120"));
                    assert_eq!(bench.answered_by().await.as_deref(), Some("free-2"));
                    assert_eq!((bench.asked(), bench.now().ms()), (vec!["free-1".to_owned(), "free-2".to_owned()], 0));
                    assert_eq!(bench.outcomes("free-1"), [Outcome::ProviderFault]);
                    assert_eq!((bench.phase("free-1"), bench.trips("free-1")), ("closed", 0));
                });
            },
        ),
        row("RO-004", "429: asked once, the next is used, no failure and no trip", || {
            run(three(), async |bench: &Bench| {
                all_well(bench);
                bench.says("free-1", Says::error(429, "slow down"));
                for _ in 0..5 {
                    assert_eq!(bench.answered_by().await.as_deref(), Some("free-2"));
                }
                assert_eq!(bench.outcomes("free-1"), [Outcome::Throttled]);
                assert_eq!((bench.phase("free-1"), bench.trips("free-1")), ("closed", 0));
            });
        }),
        row("RO-008", "a chain without a paid provider never pays, even when all of it fails", || {
            let mut rules = three();
            rules.chains[0].entries.pop();
            run(rules, async |bench: &Bench| {
                all_fail(bench, 0);
                bench.says("paid-1", Says::hello());
                assert!(matches!(bench.call().await, ChatReply::Unavailable { .. }));
                assert_eq!((bench.count("free-1"), bench.count("free-2"), bench.count("paid-1")), (2, 2, 0));
            });
        }),
        row("RO-013", "surplus work at REDUCED: nobody is asked, and it is known why", || {
            run(chat_rules(&["a", "b", "c"]), async |bench: &Bench| {
                bench.says("c", Says::hello());
                // Connections to a and b are refused: two calls open both breakers.
                bench.call().await;
                bench.call().await;
                assert_eq!(bench.engine.status().state.cloud, Level::Reduced);
                let before = bench.count("c");
                let surplus = Deferral {
                    work_type: "surplus".to_owned(),
                    priority: None,
                    policy: "drain".to_owned(),
                    ttl: None,
                    depends_on: None,
                    payload: r#"{"content":"brainstorm"}"#.to_owned(),
                    key: None,
                    reason: "an idea".to_owned(),
                };
                bench.engine.defer(surplus).expect("taken in");
                bench.pass(Span::from_secs(5)).await;
                let status = bench.engine.status();
                assert_eq!((bench.count("c"), status.deferred_work_count["pending"]), (before, 1));
                assert!(status.summary.contains("cloud is REDUCED"), "{}", status.summary);
            });
        }),
        row("RO-014", "an unknown chain is refused with words that can be told from a failure", || {
            run(three(), async |bench: &Bench| {
                all_well(bench);
                let refused =
                    bench.chat(CallClass::Foreground, Some("nope")).await.expect_err("there is no such chain");
                assert!(matches!(refused, EngineError::UnknownChain { .. }));
                assert!(refused.to_string().starts_with("no chat chain named \"nope\""), "{refused}");
                assert_eq!(bench.asked().len(), 0);
            });
        }),
        // A 404 that is the caller's fault ends the call; one about the model is the entry's matter.
        row(
            "RO-015",
            "404 for a model: the trace names the entry that was passed over, once; else it names none",
            || {
                run(three(), async |bench: &Bench| {
                    all_well(bench);
                    bench.call().await;
                    assert_eq!(bench.events("attempt.finished"), 1);
                    bench.says("free-1", Says::error(404, "The model `m` does not exist"));
                    assert_eq!(bench.answered_by().await.as_deref(), Some("free-2"));
                    assert_eq!(bench.outcomes("free-1"), [Outcome::Success, Outcome::Unfit]);
                    assert_eq!(bench.outcomes("free-2"), [Outcome::Success]);
                });
            },
        ),
        row("RO-016", "a deadline is a gate between providers: who comes after it is not asked", || {
            let mut rules = three();
            rules.call.deadline = Span::from_ms(150);
            run(rules, async |bench: &Bench| {
                all_fail(bench, 100);
                bench.call().await;
                assert_eq!(bench.asked(), ["free-1", "free-2"]);
            });
        }),
        row("RO-017", "with the deadline far away every provider is tried, at 10 s a call", || {
            run(three(), async |bench: &Bench| {
                all_fail(bench, 10_000);
                bench.call().await;
                assert_eq!(bench.asked(), ["free-1", "free-1", "free-2", "free-2", "paid-1", "paid-1"]);
            });
        }),
        row("RO-018", "a deadline ends the tries at one provider too: three calls of 100 ms in 250 ms", || {
            let mut rules = chat_rules(&["free-1"]);
            (rules.call.deadline, rules.call.attempts_foreground) = (Span::from_ms(250), 6);
            rules.retry.base = Span::ZERO;
            run(rules, async |bench: &Bench| {
                all_fail(bench, 100);
                bench.call().await;
                assert_eq!(bench.asked_at_ms(), [0, 100, 200]);
            });
        }),
        row("RO-019", "when all fail, work that may wait is kept as one item; a call that may not is not", || {
            run(three(), async |bench: &Bench| {
                all_fail(bench, 0);
                let items = |bench: &Bench| bench.engine.status().deferred_work_count.values().sum::<u64>();
                let foreground = bench.call().await;
                assert!(matches!(foreground, ChatReply::Unavailable { outcome: CallOutcome::Failed, .. }));
                assert_eq!(items(bench), 0);
                let background = bench.chat(CallClass::Background, None).await.expect("a legal call");
                assert!(matches!(background, ChatReply::Deferred { merged: false, .. }));
                assert_eq!(items(bench), 1);
            });
        }),
    ]
}

#[test]
fn table() {
    check(&rows());
}
