//! Breakers that stayed shut for ever, opened for the wrong reason, or stopped breaking.

use crate::bench::{Bench, Says, chat_rules, run};
use crate::breaker::Breaker;
use crate::{Row, row};
use squall::base::{Level, Outcome, Span};
use squall::breaker::{GateEffect, Phase, RefusalWhy};

/// Open since 0 s for 30 s.
fn open_for_30_s() -> Breaker {
    let mut breaker = Breaker::new();
    breaker.rules.open = Span::from_secs(30);
    breaker.trip(0);
    breaker
}

pub fn rows() -> Vec<Row> {
    vec![
        row("F001", "a trial that never settles has failed at its deadline, and the next one comes by itself", || {
            let mut breaker = open_for_30_s();
            breaker.timer(30);
            let lost = breaker.send(32).expect("a trial");
            assert_eq!(breaker.due_s(), Some(62));
            breaker.timer(62);
            assert!(breaker.is_open());
            // The second trip doubles the open time: the next trial may go out at 122 s.
            assert_eq!(breaker.due_s(), Some(122));
            breaker.timer(122);
            for seconds in [160, 220, 280] {
                breaker.succeed(seconds);
            }
            assert!(breaker.is_closed());
            assert_eq!(breaker.end(lost, Outcome::ProviderFault, None, 500), [], "whatever it says in the end");
        }),
        row("F002", "a trial that its caller cancels gives its slot back and proves nothing", || {
            let mut breaker = open_for_30_s();
            breaker.timer(30);
            let trial = breaker.send(31).expect("a trial");
            assert!(breaker.send(31).is_none());
            assert_eq!(breaker.end(trial, Outcome::Cancelled, None, 32), []);
            assert!(breaker.send(33).is_some_and(|next| next.is_trial()));
        }),
        row("F003", "three successes close it for everybody at once: breaker, cloud and status agree", || {
            run(chat_rules(&["a", "b"]), async |bench: &Bench| {
                bench.says("b", Says::hello());
                let agree = |bench: &Bench| {
                    let status = bench.engine.status();
                    let level = if status.breakers["a"].phase == "closed" { Level::Normal } else { Level::Fallback };
                    assert_eq!((status.state.cloud, status.breakers["a"].serves), (level, level == Level::Normal));
                    level
                };
                bench.call().await;
                bench.call().await;
                assert_eq!(agree(bench), Level::Fallback);
                bench.says("a", Says::hello());
                bench.pass(Span::from_secs(120)).await;
                // Five seconds apart: the third one closes it.
                for expected in [Level::Fallback, Level::Fallback, Level::Normal] {
                    assert_eq!(bench.answered_by().await.as_deref(), Some("a"));
                    assert_eq!(agree(bench), expected);
                    bench.pass(Span::from_secs(5)).await;
                }
            });
        }),
        row("F004", "requests that are too long for the model say nothing about its health", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                let too_long = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens";
                bench.says("a", Says::error(400, too_long));
                for _ in 0..5 {
                    bench.call().await;
                    bench.pass(Span::from_secs(1)).await;
                }
                bench.says("a", Says::hello());
                assert_eq!(bench.answered_by().await.as_deref(), Some("a"));
                assert_eq!((bench.phase("a"), bench.count("a"), bench.events("axis.changed")), ("closed", 6, 0));
            });
        }),
        row("F006", "answers of calls from before the trip neither close it nor shorten its time", || {
            let mut breaker = Breaker::new();
            let early: Vec<_> = (0..2).map(|_| breaker.send(0).expect("a call")).collect();
            breaker.trip(10);
            for (permit, outcome) in early.into_iter().zip([Outcome::CallersFault, Outcome::Success]) {
                assert_eq!(breaker.end(permit, outcome, None, 11), []);
            }
            assert_eq!((breaker.due_s(), breaker.gate.trips()), (Some(130), 1));
        }),
        row(
            "F009",
            "of fifty callers at a half-open breaker one goes through, and a hanging one does not keep it so",
            || {
                let mut breaker = open_for_30_s();
                breaker.timer(30);
                let through: Vec<_> = (0..50).filter_map(|_| breaker.send(30)).collect();
                assert_eq!(through.len(), 1);
                assert_eq!(
                    breaker.gate.refusal(squall::base::MonoTime(30_000), &breaker.rules).map(|refusal| refusal.why),
                    Some(RefusalWhy::Busy)
                );
                breaker.timer(60);
                assert!(breaker.is_open());
            },
        ),
        row(
            "F010",
            "the only entry of its kind opens like any other: a dead one is asked three times a minute",
            || {
                run(chat_rules(&["a", "b"]), async |bench: &Bench| {
                    bench.says("b", Says::hello());
                    for _ in 0..12 {
                        assert_eq!(bench.answered_by().await.as_deref(), Some("b"));
                        bench.pass(Span::from_secs(5)).await;
                    }
                    assert_eq!((bench.count("a"), bench.count("b")), (3, 12));
                });
            },
        ),
        row("F011", "failures that come late do not move the end of the open time, and old ones weigh nothing", || {
            let mut breaker = Breaker::new();
            breaker.rules.open = Span::from_secs(5);
            let early: Vec<_> = (0..5).map(|_| breaker.send(0).expect("a call")).collect();
            breaker.trip(0);
            let mut late = early.into_iter();
            for seconds in [1, 2, 3, 4] {
                breaker.end(late.next().expect("one more"), Outcome::ProviderFault, None, seconds);
                assert_eq!(breaker.due_s(), Some(5));
            }
            breaker.timer(5);
            assert!(breaker.is_half_open());
            breaker.end(late.next().expect("one more"), Outcome::ProviderFault, None, 6);
            assert!(breaker.is_half_open());
            for seconds in [10, 15, 20] {
                breaker.succeed(seconds);
            }
            assert!(breaker.is_closed());
            // Two failures among a thousand successes: no ratio over a lifetime, no row of three.
            (0..1_000).for_each(|n| drop(breaker.succeed(21 + n)));
            breaker.fail(1_022);
            breaker.fail(1_023);
            assert!(breaker.is_closed());
        }),
        row("F012", "a failure of another kind leaves count, end and trips as they belong together", || {
            let mut breaker = Breaker::new();
            let refused = breaker.send(0).expect("a call");
            breaker.trip(2);
            let before = (breaker.gate.phase(), breaker.gate.trips());
            assert!(matches!(before.0, Phase::Open { .. }));
            let effects: Vec<GateEffect> = breaker.end(refused, Outcome::Overloaded, None, 5);
            assert_eq!((effects, (breaker.gate.phase(), breaker.gate.trips())), (vec![], before));
        }),
    ]
}
