//! The simulated disk and the real one behave alike for whoever holds the port.

use rusqlite::Connection;
use squall::adapter::disk::DataDir;
use squall::base::Span;
use squall::port::Disk;
use squall_sim::adapter::SimDisk;
use squall_sim::history::Recorder;
use squall_sim::seed::Seed;
use squall_sim::world::simulate;
use std::path::Path;
use std::time::Duration;

/// What a user of the port sees, a line for each thing it did. `look` reads a file and lists all names, as an operator.
fn observe(disk: &dyn Disk, read: impl Fn(&str) -> Option<Vec<u8>>, names: impl Fn() -> Vec<String>) -> Vec<String> {
    let mut seen = Vec::new();
    let text =
        |conn: &Connection, sql: &str| match conn.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0)) {
            Ok(value) => format!("{sql}: {value:?}"),
            Err(error) => format!("{sql}: {error}"),
        };
    for bytes in [&b"one"[..], b"", b"three, and longer than before"] {
        seen.push(format!("replace: {:?}", disk.replace("status.json", bytes).map_err(|error| error.kind())));
        seen.push(format!("read: {:?}", read("status.json")));
    }
    seen.push(format!("absent: {:?}", read("other")));

    let a = disk.open().expect("opened");
    seen.push(text(&a, "PRAGMA journal_mode = WAL"));
    a.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4; CREATE TABLE t (n INTEGER, x TEXT)")
        .expect("made");
    let b = disk.open().expect("opened a second time");
    b.busy_timeout(Duration::ZERO).expect("set");
    a.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1, 'a')").expect("written");
    seen.push(text(&b, "SELECT count(*) FROM t"));
    seen.push(format!(
        "second writer: {:?}",
        b.execute("INSERT INTO t VALUES (2, 'b')", []).map_err(|e| e.sqlite_error_code())
    ));
    a.execute_batch("COMMIT").expect("committed");
    seen.push(text(&b, "SELECT count(*) FROM t"));
    // A reader's transaction does not see what comes after its beginning, and one that would write then is refused.
    b.execute_batch("BEGIN; SELECT * FROM t").expect("read");
    a.execute("INSERT INTO t VALUES (3, 'c')", []).expect("written");
    seen.push(text(&b, "SELECT count(*) FROM t"));
    seen.push(format!(
        "late writer: {:?}",
        b.execute("INSERT INTO t VALUES (4, 'd')", [])
            .map_err(|e| { e.sqlite_error().map(|error| error.extended_code) })
    ));
    b.execute_batch("ROLLBACK").expect("rolled back");
    for n in 10..40 {
        a.execute("INSERT INTO t VALUES (?1, ?2)", (n, "x".repeat(3_000))).expect("written");
    }
    seen.push(text(&a, "PRAGMA wal_checkpoint(TRUNCATE)"));
    seen.push(format!("log: {:?}", read("squall.db-wal").map(|log| log.len())));
    seen.push(text(&a, "PRAGMA integrity_check"));
    seen.push(text(&a, "PRAGMA page_count"));
    let bytes = read("squall.db").map(|db| db.len());
    seen.push(format!("database: {bytes:?}"));
    drop((a, b));
    // The last connection takes the log with it.
    seen.push(format!("names: {:?}", names()));
    seen.push(text(&disk.open().expect("opened again"), "SELECT sum(n) FROM t"));
    seen
}

fn on_the_machine() -> Vec<String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    if path.exists() {
        std::fs::remove_dir_all(&path).expect("what an earlier run left is removed");
    }
    let data = DataDir::take(&path).expect("free");
    let read = |name: &str| std::fs::read(path.join(name)).ok();
    let names = || {
        let entries = path.read_dir().expect("listed").map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name != "squall.lock"); // A simulated machine has one engine at a time anyway.
        names.sort();
        names
    };
    observe(&data, read, names)
}

fn in_the_simulation() -> Vec<String> {
    simulate(&Seed::new(1), async |world| {
        let host = world.add_host("engine", Span::ZERO);
        let disk = SimDisk::new(&host, Recorder::new(|| 0, Vec::new())).for_process();
        let names = || disk.volume().names().iter().map(ToString::to_string).collect();
        observe(&disk, |name| disk.read(name), names)
    })
}

#[test]
fn the_simulated_disk_does_what_the_real_one_does() {
    let real = on_the_machine();
    assert!(real.len() > 15);
    assert_eq!(real, in_the_simulation());
}
