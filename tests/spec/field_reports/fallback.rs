//! Fallbacks that were burned, forgotten, replayed, or kept away.

use crate::bench::{Bench, Says, add_local_embedding, chat_rules, run};
use crate::breaker::Breaker;
use crate::{Row, row};
use squall::base::{CallOutcome, Level, Outcome, Span};
use squall::engine::api::ChatReply;

/// Told to wait for so long.
fn wait(seconds: u64) -> Says {
    Says::error(429, "slow down").header("retry-after", &seconds.to_string())
}

pub fn rows() -> Vec<Row> {
    vec![
        row(
            "F014",
            "an entry that could not be used uses nothing up: the third one is there for the next trouble",
            || {
                run(chat_rules(&["a", "b", "c"]), async |bench: &Bench| {
                    bench.says("a", Says::status(504));
                    bench.says("b", Says::error(401, "you did not provide a key"));
                    bench.says("c", Says::hello());
                    assert_eq!(bench.answered_by().await.as_deref(), Some("c"));
                    bench.says("a", Says::hello());
                    bench.pass(Span::from_secs(60)).await;
                    assert_eq!(bench.answered_by().await.as_deref(), Some("a"));
                    bench.says("a", wait(30));
                    bench.pass(Span::from_secs(60)).await;
                    assert_eq!(bench.answered_by().await.as_deref(), Some("c"));
                    assert_eq!(bench.count("b"), 1);
                });
            },
        ),
        row("F016", "the fallback has tries of its own", || {
            run(chat_rules(&["a", "b"]), async |bench: &Bench| {
                bench.says("a", Says::status(503));
                bench.says("b", Says::status(504).then(Says::hello()));
                assert_eq!(bench.answered_by().await.as_deref(), Some("b"));
                assert_eq!(bench.asked(), ["a", "a", "b", "b"]);
            });
        }),
        row("F018", "a fallback that fails opens like the first, and its open time goes on over a restart", || {
            run(chat_rules(&["a", "b"]), async |bench: &Bench| {
                for _ in 0..6 {
                    bench.call().await;
                }
                assert_eq!((bench.count("a"), bench.count("b")), (3, 3));
                assert_eq!((bench.phase("a"), bench.phase("b")), ("open", "open"));
                assert_eq!(bench.engine.status().state.cloud, Level::Offline);
            });
            let mut breaker = Breaker::new();
            breaker.rules.open = Span::from_secs(60);
            breaker.trip(0);
            let mut breaker = breaker.restarted(20);
            assert_eq!(breaker.due_s(), Some(60), "40 s are left");
            breaker.timer(60);
            assert!(breaker.is_half_open());
        }),
        // In the foreground a caller is told when it can work; it waits in the queue only if it asks for that.
        row(
            "F019",
            "with everybody told to wait the caller learns the first end, and nobody is asked before it",
            || {
                run(chat_rules(&["a", "b", "c"]), async |bench: &Bench| {
                    for (host, seconds) in [("a", 60), ("b", 45), ("c", 90)] {
                        bench.says(host, wait(seconds));
                    }
                    bench.call().await;
                    for host in ["a", "b", "c"] {
                        bench.says(host, Says::hello());
                    }
                    bench.pass(Span::from_secs(10)).await;
                    let ChatReply::Unavailable { outcome, earliest, .. } = bench.call().await else {
                        panic!("somebody was asked");
                    };
                    assert_eq!((outcome, earliest), (CallOutcome::Refused, Some(Span::from_secs(35))));
                    assert_eq!(bench.engine.status().state.cloud, Level::Essential);
                    bench.pass(Span::from_ms(34_999)).await;
                    assert_eq!(bench.asked().len(), 3);
                    bench.pass(Span::from_ms(1)).await;
                    assert_eq!(bench.answered_by().await.as_deref(), Some("b"));
                });
            },
        ),
        row("F020", "an open time that is long over does not keep the first entry out after a restart", || {
            let mut breaker = Breaker::new();
            breaker.rules.open = Span::from_secs(30);
            breaker.trip(0);
            let mut breaker = breaker.restarted(6_000);
            breaker.timer(6_000);
            assert!(breaker.admits(6_010) && breaker.send(6_010).is_some());
            // Failures from before count in no row and no window of now.
            let mut fresh = Breaker::new();
            fresh.fail(0);
            fresh.fail(0);
            fresh.attempt(false, 6_000, Outcome::Success);
            fresh.fail(6_001);
            fresh.fail(6_002);
            assert!(fresh.is_closed());
        }),
        row("F023", "whatever keeps an embedding from coming, the words are still searched, and soon", || {
            let mut rules = chat_rules(&["a"]);
            add_local_embedding(&mut rules, &["local"]);
            run(rules, async |bench: &Bench| {
                bench.engine.remember("the kettle is blue").expect("stored");
                // Refused connections, then a host that is silent for a minute.
                for hangs in [false, true] {
                    if hangs {
                        bench.pass(Span::from_mins(5)).await;
                        bench.says("local", Says::status(200).after_ms(60_000));
                    }
                    for _ in 0..4 {
                        let asked = bench.now();
                        let reply = bench.engine.recall("kettle", None).await.expect("found");
                        assert_eq!(reply.hits.len(), 1);
                        assert!(bench.now() - asked <= Span::from_secs(3), "{:?}", bench.now() - asked);
                    }
                    assert_eq!(bench.engine.status().state.embedding, Level::Unavailable);
                }
            });
        }),
    ]
}
