//! One entry's breaker: what opens it, for how long, what closes it, and what comes back after a restart.

use crate::bench::{Bench, chat_rules, run_on};
use crate::breaker::Breaker;
use crate::{Row, check, row};
use squall::adapter::DataDir;
use squall::base::rules::{Api, ChainUse};
use squall::base::{MonoTime, Span, WallTime};
use squall::breaker::circuit::open_time;
use squall::breaker::{Ask, Gate, GateEffect, Phase};
use squall::store::state;
use squall::wire::{Reading, read};
use std::path::Path;
use std::rc::Rc;

/// How many of the effects say that it closed.
fn closings(effects: &[GateEffect]) -> usize {
    effects.iter().filter(|effect| **effect == GateEffect::BreakerClosed).count()
}

/// An engine on a data directory after so many calls, each of which fails twice at `a`.
fn on_disk(calls: u32, then: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().expect("a directory");
    let disk = Rc::new(DataDir::take(dir.path()).expect("free"));
    run_on(disk, chat_rules(&["a", "b"]), async |bench: &Bench| {
        for _ in 0..calls {
            bench.call().await;
        }
        bench.pass(Span::from_secs(1)).await;
        then(dir.path());
    });
}

/// The breaker of `a` as somebody sees it who may only read.
fn read_only(dir: &Path) -> Gate {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = rusqlite::Connection::open_with_flags(dir.join("squall.db"), flags).expect("opened");
    state::load(&reader, "gate a").expect("read").expect("there")
}

pub fn rows() -> Vec<Row> {
    vec![
        row("CB-001", "a new breaker is closed, admits, and has no trip", || {
            let breaker = Breaker::new();
            assert!(breaker.is_closed() && breaker.admits(0));
            assert_eq!(breaker.gate.trips(), 0);
        }),
        row("CB-002", "two failures leave it closed, the third opens it", || {
            let mut breaker = Breaker::new();
            breaker.fail(0);
            breaker.fail(1);
            assert!(breaker.is_closed());
            breaker.fail(2);
            assert!(breaker.is_open() && !breaker.admits(2));
        }),
        row("CB-003", "a success clears the count", || {
            let mut breaker = Breaker::new();
            breaker.fail(0);
            breaker.fail(1);
            breaker.succeed(2);
            breaker.fail(3);
            breaker.fail(4);
            assert!(breaker.is_closed());
        }),
        // The timer does it; a reader at the same instant sees what the timer did.
        row("CB-004", "open for 10 s: half-open and available at exactly 10 s", || {
            let mut breaker = Breaker::open_for_10_s();
            assert_eq!(breaker.gate.due(&breaker.rules), Some(MonoTime(10_000)));
            breaker.timer(9);
            assert!(breaker.is_open());
            breaker.timer(10);
            assert!(breaker.is_half_open() && breaker.admits(10));
        }),
        row("CB-005", "closing after two successes: half-open after one, closed after the other", || {
            let mut breaker = Breaker::half_open(2);
            breaker.succeed(10);
            assert!(breaker.is_half_open());
            breaker.succeed(15);
            assert!(breaker.is_closed());
        }),
        row("CB-006", "a failure in half-open opens it at once: trip 2", || {
            let mut breaker = Breaker::half_open(3);
            assert_eq!(breaker.gate.trips(), 1);
            breaker.fail(10);
            assert!(breaker.is_open());
            assert_eq!(breaker.gate.trips(), 2);
        }),
        row("CB-007", "what counts as a failure counts whatever its kind: a refused good key, a broken answer", || {
            let about = |key_worked| Reading {
                api: Api::Openai,
                use_: ChainUse::Chat,
                model: None,
                inputs: 0,
                dims: None,
                key_worked,
                now: WallTime(0),
            };
            for (status, body) in [(401, "{\"error\":{\"message\":\"no\"}}"), (200, "{\"choices\":[{\"mess")] {
                let outcome = read(&about(true), status, &[], body.as_bytes()).outcome;
                let mut breaker = Breaker::opens_after(2);
                breaker.attempt(false, 0, outcome);
                assert!(breaker.is_closed());
                breaker.attempt(false, 1, outcome);
                assert!(breaker.is_open(), "{status}: {outcome:?}");
            }
        }),
        row("CB-008", "the second trip of base 10 s lasts 20 s", || {
            let mut breaker = Breaker::open_for_10_s();
            breaker.timer(10);
            breaker.fail(10);
            breaker.timer(20);
            assert!(breaker.is_open());
            breaker.timer(30);
            assert!(breaker.is_half_open());
        }),
        row("CB-009", "after 20 trips the open time of base 120 s is capped at 1800 s", || {
            let mut breaker = Breaker::new();
            breaker.trip(0);
            assert_eq!(breaker.fail_until(20).last(), Some(&1_800));
        }),
        row("CB-010", "closing takes the trip count back to 0", || {
            let mut breaker = Breaker::half_open(2);
            breaker.fail(10);
            breaker.timer(30);
            assert_eq!(breaker.gate.trips(), 2);
            breaker.succeed(30);
            breaker.succeed(35);
            assert!(breaker.is_closed());
            assert_eq!(breaker.gate.trips(), 0);
        }),
        row("CB-013", "three clean probes close a half-open breaker, one and two do not", || {
            let mut breaker = Breaker::half_open(3);
            breaker.probe(10);
            assert!(breaker.is_half_open());
            breaker.probe(20);
            assert!(breaker.is_half_open());
            breaker.probe(30);
            assert!(breaker.is_closed());
            assert_eq!(breaker.gate.trips(), 0);
        }),
        // But while a chain has no serving entry, probes of the last resort go out.
        row("CB-014", "open and its time not over: a probe is not even let through", || {
            let mut breaker = Breaker::open_for_10_s();
            let ask = Ask { attempt: 99, probe: true, stream: false };
            breaker.gate.admit(ask, MonoTime(5_000), &breaker.rules).expect_err("it is open");
            assert!(breaker.is_open());
        }),
        row("CB-015", "its recovery is told once, when it closes", || {
            let mut breaker = Breaker::half_open(2);
            assert_eq!(closings(&breaker.probe(10)), 0);
            assert_eq!(closings(&breaker.probe(20)), 1);
            assert_eq!(closings(&breaker.succeed(30)), 0);
        }),
        row("CB-016", "healed by probes it opens again by as many failures as ever", || {
            let mut breaker = Breaker::half_open(2);
            breaker.rules.breaker.failures_max = 2;
            breaker.probe(10);
            breaker.probe(20);
            breaker.fail(21);
            assert!(breaker.is_closed());
            breaker.fail(22);
            assert!(breaker.is_open());
        }),
        row("CB-018", "open with 90 trips, restarted: open with 3, so 480 s long at base 120 s", || {
            let mut breaker = Breaker::new();
            breaker.trip(0);
            breaker.fail_until(90);
            let now = breaker.gate.due(&breaker.rules).expect("open").ms() / 1_000 - 60;
            let breaker = breaker.restarted(now);
            assert!(breaker.is_open());
            assert_eq!(breaker.gate.trips(), 3);
            assert_eq!(open_time(breaker.gate.trips(), &breaker.rules), Span::from_secs(480));
        }),
        row("CB-019", "beside the owner a breaker opens in memory only, and the owner's file stays as it is", || {
            on_disk(1, |dir| {
                DataDir::take(dir).expect_err("the owner has it");
                let mut child = Breaker { gate: read_only(dir), ..Breaker::new() };
                for second in 2..7 {
                    if child.admits(second) {
                        child.fail(second);
                    }
                }
                assert!(child.is_open());
                assert_eq!(read_only(dir).phase(), Phase::Closed);
            });
        }),
        row("CB-020", "who only reads the owner's database reads OPEN", || {
            on_disk(2, |dir| assert!(matches!(read_only(dir).phase(), Phase::Open { .. })));
        }),
        row("CB-021", "after a trip the database holds OPEN and no temporary file is left", || {
            on_disk(2, |dir| {
                let names = dir.read_dir().expect("listed").map(|entry| entry.expect("an entry").file_name());
                let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
                names.sort();
                assert_eq!(names, ["squall.db", "squall.db-shm", "squall.db-wal", "squall.lock", "status.json"]);
                let status = std::fs::read_to_string(dir.join("status.json")).expect("there");
                assert!(status.contains("\"a\":{\"phase\":\"open\""), "{status}");
            });
        }),
        row("CB-022", "two trips come back as two", || {
            let mut breaker = Breaker::half_open(3);
            breaker.fail(10);
            assert_eq!(breaker.restarted(11).gate.trips(), 2);
        }),
        row("CB-028", "seven trips: 120, 240, 480, 960, 1800, 1800, 1800 s", || {
            let mut breaker = Breaker::new();
            breaker.trip(0);
            assert_eq!(breaker.fail_until(7), [120, 240, 480, 960, 1_800, 1_800, 1_800]);
        }),
    ]
}

#[test]
fn table() {
    check(&rows());
}
