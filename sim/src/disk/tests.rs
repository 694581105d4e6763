//! SQLite on a simulated disk: what survives what.

use super::*;
use crate::scenario::{DiskCode, DiskFault, DiskOp, DiskPick, Dist};
use crate::seed::Seed;
use rusqlite::{Connection, ErrorCode};
use squall::base::Span;
use std::cell::Cell;
use std::rc::Rc;

const DB: &str = "test.db";

/// A machine whose time stands still, but for its disk.
#[derive(Clone, Default)]
struct Still {
    now_ms: Rc<Cell<u64>>,
    blocked_ms: Rc<Cell<u64>>,
}

impl Machine for Still {
    fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }
    fn block_until_ms(&self, at_ms: u64) {
        self.blocked_ms.set(at_ms);
    }
}

fn disk() -> Vfs {
    Vfs::new(Volume::new(Still::default()))
}

/// As the engine opens its database, with a log that is checkpointed often.
fn connect(disk: &Vfs) -> Connection {
    try_connect(disk).expect("a healthy disk")
}

fn try_connect(disk: &Vfs) -> rusqlite::Result<Connection> {
    let conn = disk.connect(DB, disk.volume().process())?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;
         PRAGMA wal_autocheckpoint = 8;
         CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, text TEXT NOT NULL);
         CREATE TABLE IF NOT EXISTS u (n INTEGER PRIMARY KEY) STRICT;
         CREATE INDEX IF NOT EXISTS t_text ON t (text);",
    )?;
    Ok(conn)
}

/// Row `n` of both tables, in one transaction; it fills most of a page.
fn insert(conn: &Connection, n: u64) -> rusqlite::Result<()> {
    let text = format!("{n} {}", "x".repeat(1_500));
    let result = conn.execute_batch("BEGIN IMMEDIATE").and_then(|()| {
        conn.execute("INSERT INTO t VALUES (?1, ?2)", (n as i64, text))?;
        conn.execute("INSERT INTO u VALUES (?1)", [n as i64])?;
        conn.execute_batch("COMMIT")
    });
    if result.is_err() && !conn.is_autocommit() {
        // The first error says more.
        let _ = conn.execute_batch("ROLLBACK");
    }
    result
}

/// The rows that are there: 1 to this number in both tables, or the database is not sound.
fn rows(conn: &Connection) -> Result<u64, String> {
    let text = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, String>(0)).map_err(|error| error.to_string());
    let number = |sql: &str| {
        conn.query_row(sql, [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs)).map_err(|error| error.to_string())
    };
    let check = text("PRAGMA integrity_check")?;
    let (t, u) = (number("SELECT count(*) FROM t")?, number("SELECT count(*) FROM u")?);
    let last = number("SELECT coalesce(max(n), 0) FROM t")?;
    match check == "ok" && t == u && t == last {
        true => Ok(t),
        false => Err(format!("{check}; {t} and {u} rows up to {last}")),
    }
}

fn code(error: &rusqlite::Error) -> i32 {
    error.sqlite_error().map_or(0, |error| error.extended_code)
}

fn ail(disk: &Vfs, line: u32, fault: DiskFault) {
    disk.volume().ail(line, fault, u64::MAX, Seed::new(7).stream(&format!("fault.{line}")));
}

#[test]
fn a_kill_loses_no_commit_and_a_dead_process_reaches_nothing() {
    let disk = disk();
    let conn = connect(&disk);
    (1..=20).for_each(|n| insert(&conn, n).unwrap());
    conn.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (21, 'never')").unwrap();
    disk.volume().kill();
    let error = conn.execute_batch("COMMIT").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure), "{error}");
    let next = connect(&disk);
    assert_eq!(rows(&next), Ok(20));
    drop(conn); // The old one's end disturbs nobody: neither its locks nor the log are the new one's.
    insert(&next, 21).unwrap();
    assert_eq!(rows(&next), Ok(21));
}

#[test]
fn two_connections_see_each_others_commits_and_wait_for_the_writer() {
    let disk = disk();
    let (a, b) = (connect(&disk), connect(&disk));
    b.busy_timeout(std::time::Duration::from_millis(500)).unwrap();
    a.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1, 'a'); INSERT INTO u VALUES (1)").unwrap();
    assert_eq!(insert(&b, 2).unwrap_err().sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    assert!((500..700).contains(&disk.volume().now_ms()), "the wait took {} ms", disk.volume().now_ms());
    assert_eq!(rows(&b), Ok(0));
    a.execute_batch("COMMIT").unwrap();
    insert(&b, 2).unwrap();
    assert_eq!(rows(&a), Ok(2));
}

#[test]
fn a_connection_may_outlive_everything_else() {
    let disk = disk();
    let conn = connect(&disk);
    drop(disk);
    insert(&conn, 1).unwrap();
    assert_eq!(rows(&conn), Ok(1));
}

#[test]
fn a_connection_on_another_thread_gets_errors() {
    let disk = disk();
    let conn = connect(&disk);
    insert(&conn, 1).unwrap();
    let (refused, conn) = elsewhere(move || {
        let refused = conn.execute_batch("DELETE FROM t").is_err();
        (refused, conn)
    });
    assert!(refused);
    assert_eq!(rows(&conn), Ok(1));
}

/// Runs something on a thread of its own.
fn elsewhere<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    #[expect(clippy::disallowed_methods, reason = "the test is about what happens on another thread")]
    let thread = std::thread::spawn(what);
    thread.join().expect("it does not panic")
}

/// What a run of the small workload acknowledged before it ended, and whether it was ended by a step's hook.
fn workload(disk: &Vfs, rows: u64) -> u64 {
    let Ok(conn) = try_connect(disk) else { return 0 };
    (1..=rows).take_while(|n| insert(&conn, *n).is_ok()).count() as u64
}

/// Cuts the power or kills at each step of the workload, and hands the disk and what was acknowledged to `judge`.
fn at_each_step(seed: u64, power: bool, fault: Option<DiskFault>, mut judge: impl FnMut(u64, &Vfs, u64)) {
    let steps = {
        let disk = disk();
        assert_eq!(workload(&disk, 12), 12);
        disk.volume().steps()
    };
    assert!(steps > 60, "the workload has only {steps} steps");
    for step in 1..=steps {
        let disk = disk();
        if let Some(fault) = &fault {
            ail(&disk, 1, fault.clone());
        }
        let volume = disk.volume().clone();
        let mut stream = Seed::new(seed).stream(&format!("loss.{step}"));
        let edge = if (step + seed).is_multiple_of(2) { Edge::Before } else { Edge::After };
        disk.volume().at_step(step, edge, move || match power {
            true => volume.lose_power(&mut stream),
            false => volume.kill(),
        });
        let acknowledged = workload(&disk, 12);
        disk.volume().heal(1);
        judge(step, &disk, acknowledged);
    }
}

#[test]
fn nothing_acknowledged_is_lost_at_any_crash_point() {
    let mut uncertain = 0;
    for (power, noise) in [(false, false), (true, false), (true, true)] {
        for seed in 0..if power { 4 } else { 1 } {
            at_each_step(seed, power, noise.then_some(DiskFault::Corrupt), |step, disk, acknowledged| {
                let conn = connect(disk);
                let there = rows(&conn).unwrap_or_else(|error| panic!("step {step}, seed {seed}: {error}"));
                // One more may be there: its commit was under way.
                assert!((acknowledged..=acknowledged + 1).contains(&there), "step {step}, seed {seed}: {there}");
                uncertain += u64::from(there > acknowledged);
                insert(&conn, there + 1).expect("and it goes on");
            });
        }
    }
    assert!(uncertain > 0, "no commit was cut off after it was durable: the steps are not where they should be");
}

#[test]
fn without_syncs_a_power_loss_loses_what_was_acknowledged_and_tears_the_rest() {
    let (mut lost, mut sound, mut broken) = (0, 0, 0);
    for seed in 0..2 {
        at_each_step(seed, true, Some(DiskFault::LyingSync), |_, disk, acknowledged| {
            let there = try_connect(disk).map_err(|error| error.to_string()).and_then(|conn| rows(&conn));
            match there {
                Ok(there) => {
                    sound += 1;
                    lost += u64::from(there < acknowledged);
                }
                Err(_) => broken += 1,
            }
        });
    }
    assert!(lost > 20 && sound > 20 && broken > 20, "{lost} lost, {sound} sound, {broken} broken");
}

#[test]
fn a_full_disk_says_so_at_the_write_that_does_not_fit_and_the_database_stays_sound() {
    let disk = disk();
    let conn = connect(&disk);
    insert(&conn, 1).unwrap();
    ail(&disk, 1, DiskFault::Full { free: Some(40_000), grow: 0 });
    let acknowledged = (2..100).take_while(|n| insert(&conn, *n).is_ok()).count() as u64 + 1;
    let error = insert(&conn, acknowledged + 1).unwrap_err();
    assert_eq!(code(&error), rusqlite::ffi::SQLITE_FULL, "{error}");
    assert!((2..60).contains(&acknowledged), "{acknowledged}");
    assert_eq!(rows(&conn), Ok(acknowledged));
    disk.volume().heal(1);
    insert(&conn, acknowledged + 1).unwrap();
    assert_eq!(rows(&conn), Ok(acknowledged + 1));
}

#[test]
fn each_code_is_what_sqlite_reports_and_the_nth_write_is_the_one_that_fails() {
    use rusqlite::ffi::{SQLITE_BUSY, SQLITE_FULL, SQLITE_IOERR_FSYNC, SQLITE_IOERR_WRITE, SQLITE_READONLY};
    let cases = [
        (DiskOp::Write, DiskCode::Full, SQLITE_FULL),
        (DiskOp::Write, DiskCode::Ioerr, SQLITE_IOERR_WRITE),
        (DiskOp::Write, DiskCode::Busy, SQLITE_BUSY),
        (DiskOp::Write, DiskCode::Readonly, SQLITE_READONLY),
        (DiskOp::Sync, DiskCode::Ioerr, SQLITE_IOERR_FSYNC),
    ];
    for (op, fails, expected) in cases {
        for nth in 1..=3 {
            let disk = disk();
            let conn = connect(&disk);
            insert(&conn, 1).unwrap();
            ail(&disk, 1, DiskFault::Error { op, code: fails, pick: DiskPick::Nth(nth) });
            let (mut next, mut refused) = (2, Vec::new());
            while next < 12 {
                match insert(&conn, next) {
                    Ok(()) => next += 1,
                    Err(error) => refused.push(code(&error)),
                }
            }
            // A fault on the way of a checkpoint is nobody's error: the log still has everything.
            assert!(refused.is_empty() || refused == [expected], "{op:?} {nth}: {refused:?}");
            assert!(nth > 1 || refused == [expected], "{op:?}: the first one was swallowed");
            assert_eq!(rows(&conn), Ok(11));
        }
    }
}

#[test]
fn a_database_survives_an_error_at_any_operation() {
    for op in [DiskOp::Read, DiskOp::Write, DiskOp::Sync] {
        for nth in 1..80 {
            let disk = disk();
            ail(&disk, 1, DiskFault::Error { op, code: DiskCode::Ioerr, pick: DiskPick::Nth(nth) });
            let acknowledged = workload(&disk, 6);
            disk.volume().heal(1);
            disk.volume().kill();
            let there = rows(&connect(&disk)).unwrap_or_else(|error| panic!("{op:?} {nth}: {error}"));
            assert!((acknowledged..=acknowledged + 1).contains(&there), "{op:?} {nth}: {there} of {acknowledged}");
        }
    }
}

#[test]
fn a_foreign_writer_is_waited_for_until_it_goes() {
    let disk = disk();
    let conn = connect(&disk);
    conn.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    disk.volume().ail(1, DiskFault::LockHeld, 2_000, Seed::new(1).stream("fault.1"));
    insert(&conn, 1).unwrap();
    assert!((2_000..2_200).contains(&disk.volume().now_ms()), "{}", disk.volume().now_ms());
    disk.volume().heal(1);
    ail(&disk, 1, DiskFault::LockHeld);
    assert_eq!(insert(&conn, 2).unwrap_err().sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    assert_eq!(rows(&conn), Ok(1), "reading goes on");
}

#[test]
fn a_foreign_reader_keeps_the_log_from_being_used_again() {
    let log_len = |pinned: bool| {
        let disk = disk();
        let conn = connect(&disk);
        insert(&conn, 1).unwrap();
        let reader = pinned.then(|| {
            let reader = disk.connect(DB, User::Outside).unwrap();
            reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
            reader
        });
        (2..60).for_each(|n| insert(&conn, n).unwrap());
        disk.volume().kill(); // Another process: the engine's end is not its own.
        let conn = connect(&disk);
        (60..70).for_each(|n| insert(&conn, n).unwrap());
        drop(reader);
        disk.volume().read_all("test.db-wal").unwrap().len()
    };
    assert!(log_len(true) > 5 * log_len(false), "{} against {}", log_len(true), log_len(false));
}

#[test]
fn a_slow_disk_blocks_the_process_for_each_sync() {
    let machine = Still::default();
    let disk = Vfs::new(Volume::new(machine.clone()));
    let conn = connect(&disk);
    insert(&conn, 1).unwrap();
    assert_eq!(machine.blocked_ms.get(), 0);
    ail(&disk, 1, DiskFault::Slow { op: DiskOp::Sync, latency: Dist::Fixed(Span::from_ms(20)) });
    (2..=4).for_each(|n| insert(&conn, n).unwrap());
    let blocked = machine.blocked_ms.get();
    assert!(blocked >= 60 && blocked.is_multiple_of(20), "{blocked}");
    assert_eq!(disk.volume().now_ms(), blocked);
}

#[test]
fn a_small_file_is_old_or_new_after_a_power_loss_if_it_was_synced_before_it_was_renamed() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..60 {
        for synced in [true, false] {
            let volume = Volume::new(Still::default());
            let user = volume.process();
            let put = |name: &str, byte: u8, synced: bool| {
                let file = volume.open(Some(name), true, user).unwrap();
                volume.write(&file, 0, &[byte; 2_000]).unwrap();
                if synced {
                    volume.sync(&file).unwrap();
                }
                volume.close(&file);
            };
            put("status", 1, true);
            put("new", 2, synced);
            volume.rename("new", "status", user).unwrap();
            volume.lose_power(&mut Seed::new(seed).stream("loss"));
            let left = volume.read_all("status").expect("one of them is there");
            let what = if left == [1; 2_000] {
                "old"
            } else if left == [2; 2_000] {
                "new"
            } else {
                "torn"
            };
            assert!(!synced || what != "torn", "seed {seed}");
            seen.insert((synced, what));
        }
    }
    let all = [(false, "new"), (false, "old"), (false, "torn"), (true, "new"), (true, "old")];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn a_synced_directory_keeps_its_names() {
    for seed in 0..20 {
        let volume = Volume::new(Still::default());
        let user = volume.process();
        let file = volume.open(Some("a"), true, user).unwrap();
        volume.rename("a", "b", user).unwrap();
        volume.sync_dir(user).unwrap();
        volume.close(&file);
        volume.lose_power(&mut Seed::new(seed).stream("loss"));
        assert_eq!(volume.names().iter().map(|name| &**name).collect::<Vec<_>>(), ["b"]);
    }
}

/// Everything that a run of the workload with trouble and a crash leaves behind, but for the log: SQLite salts that.
fn run(seed: u64) -> (Vec<volume::Logged>, Vec<u8>, Result<u64, String>) {
    let disk = disk();
    disk.volume().keep_log();
    let stream = Seed::new(seed).stream("fault.1");
    let error = DiskFault::Error { op: DiskOp::Write, code: DiskCode::Ioerr, pick: DiskPick::Share(0.02) };
    disk.volume().ail(1, error, u64::MAX, stream);
    let conn = try_connect(&disk);
    if let Ok(conn) = &conn {
        // Refused or not: both are part of what must be the same.
        (1..40).for_each(|n| _ = insert(conn, n));
    }
    disk.volume().lose_power(&mut Seed::new(seed).stream("loss"));
    disk.volume().heal(1);
    let next = connect(&disk);
    let there = next
        .query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs))
        .map_err(|error| error.to_string());
    next.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    (disk.volume().log(), disk.volume().read_all(DB).unwrap(), there)
}

#[test]
fn the_same_seed_leaves_the_same_bytes_also_beside_other_simulations() {
    let alone: Vec<_> = (0..4).map(run).collect();
    assert_eq!(alone, (0..4).map(run).collect::<Vec<_>>());
    assert_ne!(alone[0].0, alone[1].0);
    #[expect(clippy::disallowed_methods, reason = "simulations run beside each other on threads of their own")]
    let threads: Vec<_> = (0..4).map(|seed| std::thread::spawn(move || run(seed))).collect();
    let beside: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect();
    assert_eq!(alone, beside);
}

#[test]
fn the_log_names_file_step_place_and_length() {
    let disk = disk();
    let conn = connect(&disk);
    conn.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    disk.volume().keep_log();
    insert(&conn, 1).unwrap();
    let log = disk.volume().log();
    assert!(log.iter().all(|one| one.file == "test.db-wal"), "{log:#?}");
    assert!(log.iter().any(|one| one.step == volume::Step::Write && one.len == 4_096));
    assert_eq!(log.last().map(|one| one.step), Some(volume::Step::Sync));
}
