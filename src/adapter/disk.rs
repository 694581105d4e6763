//! The data directory: `squall.db`, small files replaced whole, and `squall.lock`, which keeps a second engine out.
//!
//! **Source:** engine.md 4 (`squall.lock`), 8 (status file).

use crate::port::Disk;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const DATABASE: &str = "squall.db";
const LOCK: &str = "squall.lock";

#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("another engine runs on {}", .dir.display())]
    InUse { dir: PathBuf },
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

/// A data directory that is ours for as long as this value lives.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// The system frees the lock with the descriptor, also when the process is killed.
    _lock: File,
}

impl DataDir {
    /// Takes the directory, making it if need be.
    ///
    /// **Errors:** [`DiskError::InUse`] if another process has it.
    pub fn take(path: &Path) -> Result<DataDir, DiskError> {
        let io_error = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| DiskError::Io { doing, path, source }
        };
        std::fs::create_dir_all(path).map_err(io_error("make the directory", path))?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(io_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => Ok(DataDir { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(DiskError::InUse { dir: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(io_error("lock", &lock_path)(source)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Disk for DataDir {
    fn open(&self) -> Result<rusqlite::Connection, rusqlite::Error> {
        rusqlite::Connection::open(self.path.join(DATABASE))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        assert!(
            !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']),
            "DISK-1: a file of the data directory has a plain name, not {name:?}"
        );
        let new = self.path.join(format!(".{name}.new"));
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&new, self.path.join(name))
        };
        if let Err(error) = write() {
            // On a full disk the half-written file must not stay and take room. If it cannot go, the first error tells more.
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }
        // The rename itself must survive a power loss.
        File::open(&self.path)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_engine_is_refused_until_the_first_is_gone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("deep/data");
        let first = DataDir::take(&path).expect("free");
        assert!(matches!(DataDir::take(&path), Err(DiskError::InUse { .. })));
        drop(first);
        DataDir::take(&path).expect("free again");
    }

    #[test]
    fn a_replaced_file_holds_the_new_bytes_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = DataDir::take(dir.path()).expect("free");
        data.replace("status.json", b"{\"n\":1}").expect("written");
        data.replace("status.json", b"{\"n\":2}").expect("replaced");
        assert_eq!(std::fs::read(dir.path().join("status.json")).expect("there"), b"{\"n\":2}");
        let mut names: Vec<_> =
            dir.path().read_dir().expect("listed").map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        assert_eq!(names, ["squall.lock", "status.json"]);
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = DataDir::take(dir.path()).expect("free");
        data.replace("status.json", b"old").expect("written");
        // A directory where the temporary file would go: it cannot be created.
        std::fs::create_dir(dir.path().join(".status.json.new")).expect("made");
        data.replace("status.json", b"new").expect_err("there is no way to write it");
        assert_eq!(std::fs::read(dir.path().join("status.json")).expect("there"), b"old");
    }

    #[test]
    fn the_database_is_kept_in_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = DataDir::take(dir.path()).expect("free");
        data.open().expect("opened").execute_batch("CREATE TABLE t (a)").expect("made");
        let count: i64 = data
            .open()
            .expect("opened again")
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 't'", [], |row| row.get(0))
            .expect("counted");
        assert_eq!(count, 1);
    }
}
