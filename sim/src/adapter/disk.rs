//! The engine's data directory, in memory; it outlives the engine's process.
//!
//! The database lives in SQLite's own in-memory file system (`memdb`), shared by name within the process and kept by
//! a connection of ours: the engine's connections lock and roll back as on a file, but there is no log file, so
//! nothing here can be lost or torn (a power loss is a kill). Small files are replaced at once.
//!
//! **Source:** architecture.md, "The five seams".

use crate::history::outside::SeenStatus;
use crate::history::{Outside, Recorder};
use rusqlite::{Connection, OpenFlags};
use serde::Deserialize;
use squall::base::AxisLevels;
use squall::port::Disk;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file whose replacements the history tells.
pub const STATUS_FILE: &str = "status.json";

/// Cheap to clone; all clones are one disk.
#[derive(Clone)]
pub struct SimDisk(Rc<Inner>);

struct Inner {
    recorder: Recorder,
    /// SQLite's name for the database: another in each run of the process, so it is shown nowhere.
    uri: String,
    /// Keeps the database while the engine has no connection.
    _keeper: Connection,
    files: RefCell<BTreeMap<String, Vec<u8>>>,
}

impl SimDisk {
    /// An empty disk. Replacements of [`STATUS_FILE`] are told to `recorder`.
    pub fn new(recorder: Recorder) -> SimDisk {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let uri = format!("file:/squall-{}?vfs=memdb", NEXT.fetch_add(1, Ordering::Relaxed));
        let keeper = connect(&uri).expect("a database in memory needs nothing but memory");
        SimDisk(Rc::new(Inner { recorder, uri, _keeper: keeper, files: RefCell::default() }))
    }

    /// The bytes of a small file, for the harness.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.0.files.borrow().get(name).cloned()
    }
}

impl Disk for SimDisk {
    fn open(&self) -> Result<Connection, rusqlite::Error> {
        connect(&self.0.uri)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.0.files.borrow_mut().insert(name.to_owned(), bytes.to_owned());
        if name == STATUS_FILE {
            self.0.recorder.outside(Outside::StatusFile { seen: Box::new(seen(bytes)) });
        }
        Ok(())
    }
}

fn connect(uri: &str) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri, flags)
}

/// The status file as an operator's script reads it: the fields that it knows, without the engine's own types.
#[derive(Default, Deserialize)]
#[serde(default)]
struct File<'a> {
    state: Option<AxisLevels>,
    degradation_level: Option<u8>,
    holds: BTreeMap<String, u64>,
    #[serde(borrow)]
    history: Option<Vec<Transition<'a>>>,
    suppressed_count: Option<u64>,
    deferred_work_count: BTreeMap<String, u64>,
    #[serde(borrow)]
    breakers: BTreeMap<Cow<'a, str>, Breaker<'a>>,
    undelivered_notices: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Deserialize)]
struct Transition<'a> {
    #[serde(borrow)]
    axis: Cow<'a, str>,
    #[serde(borrow)]
    was: Cow<'a, str>,
    #[serde(borrow)]
    to: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Breaker<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
}

/// A file whose fields are not what a script expects is one that it cannot parse.
fn seen(bytes: &[u8]) -> SeenStatus {
    let (parses, file) = match serde_json::from_slice::<File<'_>>(bytes) {
        Ok(file) => (true, file),
        Err(_) => (false, File::default()),
    };
    let text = |text: &Cow<'_, str>| text.clone().into_owned();
    let newest = file.history.as_ref().and_then(|history| history.last());
    SeenStatus {
        parses,
        state: file.state,
        degradation_level: file.degradation_level,
        holds: file.holds,
        history_len: file.history.as_ref().map(|history| history.len() as u64),
        newest: newest.map(|newest| (text(&newest.axis), text(&newest.was), text(&newest.to))),
        suppressed: file.suppressed_count,
        deferred: file.deferred_work_count,
        not_closed: file
            .breakers
            .iter()
            .filter(|(_, breaker)| breaker.phase != "closed")
            .map(|(entry, _)| text(entry))
            .collect(),
        undelivered_notices: file.undelivered_notices.map(|list| list.len() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Entry, Sink, What};
    use squall::base::Level;

    #[derive(Default)]
    struct Seen(Vec<SeenStatus>);
    impl Sink for Seen {
        fn entry(&mut self, entry: &Entry, line: &str) {
            assert!(!line.contains("memdb"), "the database's name is in the history: {line}");
            let What::Outside(Outside::StatusFile { seen }) = &entry.what else { panic!("{entry:?}") };
            self.0.push(SeenStatus::clone(seen));
        }
    }

    fn disk() -> (SimDisk, Rc<RefCell<Seen>>) {
        let seen = Rc::new(RefCell::new(Seen::default()));
        (SimDisk::new(Recorder::new(|| 0, vec![seen.clone()])), seen)
    }

    #[test]
    fn what_was_committed_outlives_every_connection_and_what_was_not_does_not() {
        let (disk, _) = disk();
        let engine = disk.open().unwrap();
        engine.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1); BEGIN; INSERT INTO t VALUES (2);").unwrap();
        drop(engine); // A kill.
        let count: u32 = disk.open().unwrap().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn a_second_connection_sees_commits_and_waits_for_the_writer() {
        let (disk, _) = disk();
        let (a, b) = (disk.open().unwrap(), disk.open().unwrap());
        b.busy_timeout(std::time::Duration::ZERO).unwrap();
        a.execute_batch("CREATE TABLE t (x); BEGIN IMMEDIATE; INSERT INTO t VALUES (1);").unwrap();
        let busy = b.execute("INSERT INTO t VALUES (2)", []).unwrap_err();
        assert_eq!(busy.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
        a.execute_batch("COMMIT").unwrap();
        b.execute("INSERT INTO t VALUES (2)", []).unwrap();
        assert_eq!(a.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, u32>(0)), Ok(2));
    }

    #[test]
    fn two_disks_are_two_databases() {
        let ((a, _), (b, _)) = (disk(), disk());
        a.open().unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        b.open().unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    }

    #[test]
    fn the_history_tells_what_a_reader_of_the_status_file_sees() {
        let (disk, seen) = disk();
        let file = br#"{"schema": 1, "state": {"cloud": "FALLBACK", "memory": "NORMAL", "embedding": "NORMAL", "cc": "NORMAL"},
            "degradation_level": 1, "holds": {"cloud": 812400},
            "history": [{"axis": "cloud", "was": "REDUCED", "to": "NORMAL", "at": 1},
                        {"axis": "cloud", "was": "NORMAL", "to": "FALLBACK", "at": 2}],
            "suppressed_count": 7, "deferred_work_count": {"pending": 3, "done": 40},
            "breakers": {"openai": {"phase": "open"}, "anthropic": {"phase": "closed"}}}"#;
        disk.replace(STATUS_FILE, file).unwrap();
        disk.replace("other", b"x").unwrap();
        assert_eq!(disk.read(STATUS_FILE).as_deref(), Some(&file[..]));
        let seen = seen.borrow();
        let [seen] = &seen.0[..] else { panic!("{} entries", seen.0.len()) };
        assert_eq!(seen.state, Some(AxisLevels { cloud: Level::Fallback, ..AxisLevels::NORMAL }));
        assert_eq!(seen.holds, BTreeMap::from([("cloud".to_owned(), 812_400)]));
        assert_eq!(seen.newest, Some(("cloud".into(), "NORMAL".into(), "FALLBACK".into())));
        assert_eq!((seen.history_len, seen.suppressed, seen.degradation_level), (Some(2), Some(7), Some(1)));
        assert_eq!(seen.deferred["pending"], 3);
        assert_eq!(seen.not_closed, ["openai"]);
    }

    #[test]
    fn a_torn_status_file_is_seen_as_one_that_does_not_parse() {
        let (disk, seen) = disk();
        disk.replace(STATUS_FILE, br#"{"schema": 1, "sta"#).unwrap();
        assert!(!seen.borrow().0[0].parses);
    }
}
