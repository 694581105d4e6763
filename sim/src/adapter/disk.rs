//! The engine's data directory on a simulated disk; it outlives the engine's process.
//!
//! The database is SQLite's, on a [`Volume`] through a VFS of the simulation's own; small files are replaced as the real
//! adapter does it: a temporary file, written, synced, renamed, the directory synced. What a kill and a power loss
//! leave, and what else can be wrong, is the volume's business. The harness looks at the database as another process
//! would, past every fault. **Source:** architecture.md, "The five seams"; storage.md 0.

use crate::disk::{self, DiskCode, Refusal, User, Vfs, Volume};
use crate::history::outside::SeenStatus;
use crate::history::{Outside, Recorder};
use crate::world::Host;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde::Deserialize;
use serde_json::Value;
use squall::base::AxisLevels;
use squall::port::Disk;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

/// The file whose replacements the history tells.
pub const STATUS_FILE: &str = "status.json";
/// The engine's database.
const DATABASE: &str = "squall.db";

/// The disk of the engine's machine. Cheap to clone; all clones are one disk.
#[derive(Clone)]
pub struct SimDisk {
    recorder: Recorder,
    vfs: Vfs,
    /// Whose view this is.
    user: User,
}

/// A host as its disk sees it.
struct Machine(Host);

impl disk::Machine for Machine {
    fn now_ms(&self) -> u64 {
        self.0.world().now_ms()
    }
    fn block_until_ms(&self, at_ms: u64) {
        self.0.block_until_ms(at_ms);
    }
}

impl SimDisk {
    /// An empty disk in `host`. Replacements of [`STATUS_FILE`] are told to `recorder`.
    pub fn new(host: &Host, recorder: Recorder) -> SimDisk {
        let vfs = Vfs::new(Volume::new(Machine(host.clone())));
        SimDisk { recorder, vfs, user: User::Outside }
    }

    /// The disk as the process sees it that is started now; it sees nothing any more once it is killed.
    pub fn for_process(&self) -> SimDisk {
        SimDisk { user: self.volume().process(), ..self.clone() }
    }

    pub fn volume(&self) -> &Volume {
        self.vfs.volume()
    }

    /// The bytes of a small file, for the harness.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.volume().read_all(name)
    }

    /// A connection of another process. It leaves the log alone when it is closed.
    pub fn look(&self) -> rusqlite::Result<Connection> {
        let conn = self.vfs.connect(DATABASE, User::Outside)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(conn)
    }

    /// The newest incarnation's events in the journal, without its first `skipped`, as JSON in their order.
    pub fn journaled(&self, skipped: u64) -> rusqlite::Result<Vec<String>> {
        let conn = self.look()?;
        let mut rows = conn.prepare(
            "SELECT event FROM journal WHERE incarnation = (SELECT max(incarnation) FROM journal)
             ORDER BY n LIMIT -1 OFFSET ?1",
        )?;
        rows.query_map([i64::try_from(skipped).unwrap_or(i64::MAX)], |row| row.get(0))?.collect()
    }

    /// Gives a field of the newest row of a table another value, past every constraint but the column's type.
    ///
    /// **Errors:** SQLite's, or that there is no such row.
    pub fn damage(&self, table: &str, field: &str, value: &Value) -> rusqlite::Result<()> {
        let conn = self.look()?;
        conn.pragma_update(None, "ignore_check_constraints", true)?;
        let key: Vec<String> = conn
            .prepare("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk")?
            .query_map([table], |row| row.get::<_, String>(0).map(|name| quoted(&name)))?
            .collect::<Result<_, _>>()?;
        let key = if key.is_empty() { vec!["rowid".to_owned()] } else { key };
        let newest = key.iter().map(|name| format!("{name} DESC")).collect::<Vec<_>>().join(", ");
        let (key, table, field) = (key.join(", "), quoted(table), quoted(field));
        let sql = format!(
            "UPDATE {table} SET {field} = json_extract(?1, '$') WHERE ({key}) = (SELECT {key} FROM {table} ORDER BY {newest} LIMIT 1)"
        );
        match conn.execute(&sql, [value.to_string()])? {
            0 => Err(rusqlite::Error::QueryReturnedNoRows),
            _ => Ok(()),
        }
    }
}

/// A name in SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Disk for SimDisk {
    fn open(&self) -> Result<Connection, rusqlite::Error> {
        self.vfs.connect(DATABASE, self.user)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let volume = self.volume();
        let new = format!(".{name}.new");
        let write = || {
            let file = volume.open(Some(&new), true, self.user)?;
            let written = volume
                .truncate(&file, 0)
                .and_then(|()| volume.write(&file, 0, bytes))
                .and_then(|()| volume.sync(&file))
                .and_then(|()| volume.rename(&new, name, self.user));
            volume.close(&file);
            written
        };
        if let Err(refusal) = write() {
            // As the real one does it; a process that was killed removes nothing.
            let _ = volume.delete(&new, self.user);
            return Err(refused(refusal));
        }
        volume.sync_dir(self.user).map_err(refused)?;
        if name == STATUS_FILE {
            self.recorder.outside(Outside::StatusFile { seen: Box::new(seen(bytes)) });
        }
        Ok(())
    }
}

/// As the standard library tells it, without a number that differs between systems.
fn refused(refusal: Refusal) -> io::Error {
    io::Error::from(match refusal {
        Refusal::Disk(DiskCode::Full) => io::ErrorKind::StorageFull,
        Refusal::Disk(DiskCode::Busy) => io::ErrorKind::ResourceBusy,
        Refusal::Disk(DiskCode::Readonly) => io::ErrorKind::ReadOnlyFilesystem,
        Refusal::Disk(DiskCode::Ioerr) | Refusal::Dead => io::ErrorKind::Other,
        Refusal::NotFound => io::ErrorKind::NotFound,
    })
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
    use crate::disk::DiskFault;
    use crate::history::{Entry, Sink, What};
    use crate::seed::Seed;
    use crate::world::simulate;
    use squall::base::{Level, Span};
    use std::cell::RefCell;
    use std::rc::Rc;

    #[derive(Default)]
    struct Seen(Vec<SeenStatus>);
    impl Sink for Seen {
        fn entry(&mut self, entry: &Entry, line: &str) {
            assert!(!line.contains("squall-0x"), "the VFS's name is in the history: {line}");
            let What::Outside(Outside::StatusFile { seen }) = &entry.what else { panic!("{entry:?}") };
            self.0.push(SeenStatus::clone(seen));
        }
    }

    /// A process sees its disk; it is used inside of a simulation, for its machine's time.
    fn on_disk(act: impl FnOnce(&SimDisk)) -> Vec<SeenStatus> {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let recorder = Recorder::new(|| 0, vec![seen.clone()]);
        simulate(&Seed::new(1), async |world| {
            act(&SimDisk::new(&world.add_host("engine", Span::ZERO), recorder).for_process());
        });
        seen.take().0
    }

    #[test]
    fn what_was_committed_outlives_a_kill_and_what_was_not_does_not() {
        on_disk(|disk| {
            let engine = disk.open().unwrap();
            engine
                .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1); BEGIN; INSERT INTO t VALUES (2)")
                .unwrap();
            disk.volume().kill();
            assert!(disk.replace("other", b"x").is_err() && disk.open().is_err());
            drop(engine);
            let next = disk.for_process();
            let count: u32 = next.open().unwrap().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!((count, next.read("other")), (1, None));
        });
    }

    #[test]
    fn a_full_disk_keeps_the_old_file_and_room_for_the_next() {
        let seen = on_disk(|disk| {
            disk.replace(STATUS_FILE, b"{}").unwrap();
            let full = DiskFault::Full { free: Some(100), grow: 0 };
            disk.volume().ail(1, full, u64::MAX, Seed::new(1).stream("fault.1"));
            let error = disk.replace(STATUS_FILE, &[b'x'; 200]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert_eq!(disk.read(STATUS_FILE).as_deref(), Some(&b"{}"[..]));
            assert_eq!(disk.volume().free(), 100);
        });
        assert_eq!(seen.len(), 1, "what was not written is not told");
    }

    #[test]
    fn a_row_is_damaged_whatever_its_key() {
        on_disk(|disk| {
            disk.open()
                .unwrap()
                .execute_batch(
                    "PRAGMA journal_mode = WAL;
                 CREATE TABLE a (x INTEGER CHECK (x < 10)) STRICT; INSERT INTO a VALUES (1), (2);
                 CREATE TABLE b (k TEXT, l TEXT, v TEXT, PRIMARY KEY (k, l)) STRICT, WITHOUT ROWID;
                 INSERT INTO b VALUES ('p', 'q', 'one'), ('p', 'r', 'two');",
                )
                .unwrap();
            disk.damage("a", "x", &Value::from(99)).unwrap();
            disk.damage("b", "v", &Value::from("{")).unwrap();
            let text = |sql: &str| disk.look().unwrap().query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
            assert_eq!(text("SELECT group_concat(x) FROM a"), "1,99");
            assert_eq!(text("SELECT group_concat(v) FROM b"), "one,{");
            assert!(
                disk.damage("a", "x", &Value::from("text")).is_err() && disk.damage("c", "x", &Value::from(1)).is_err()
            );
        });
    }

    #[test]
    fn the_history_tells_what_a_reader_of_the_status_file_sees() {
        let file = br#"{"schema": 1, "state": {"cloud": "FALLBACK", "memory": "NORMAL", "embedding": "NORMAL", "cc": "NORMAL"},
            "degradation_level": 1, "holds": {"cloud": 812400},
            "history": [{"axis": "cloud", "was": "REDUCED", "to": "NORMAL", "at": 1},
                        {"axis": "cloud", "was": "NORMAL", "to": "FALLBACK", "at": 2}],
            "suppressed_count": 7, "deferred_work_count": {"pending": 3, "done": 40},
            "breakers": {"openai": {"phase": "open"}, "anthropic": {"phase": "closed"}}}"#;
        let seen = on_disk(|disk| {
            disk.replace(STATUS_FILE, file).unwrap();
            disk.replace("other", b"x").unwrap();
            assert_eq!(disk.read(STATUS_FILE).as_deref(), Some(&file[..]));
        });
        let [seen] = &seen[..] else { panic!("{} entries", seen.len()) };
        assert_eq!(seen.state, Some(AxisLevels { cloud: Level::Fallback, ..AxisLevels::NORMAL }));
        assert_eq!(seen.holds, BTreeMap::from([("cloud".to_owned(), 812_400)]));
        assert_eq!(seen.newest, Some(("cloud".into(), "NORMAL".into(), "FALLBACK".into())));
        assert_eq!((seen.history_len, seen.suppressed, seen.degradation_level), (Some(2), Some(7), Some(1)));
        assert_eq!(seen.deferred["pending"], 3);
        assert_eq!(seen.not_closed, ["openai"]);
    }

    #[test]
    fn a_torn_status_file_is_seen_as_one_that_does_not_parse() {
        let seen = on_disk(|disk| disk.replace(STATUS_FILE, br#"{"schema": 1, "sta"#).unwrap());
        assert!(!seen[0].parses);
    }
}
