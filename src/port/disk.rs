//! The data directory: one SQLite database and a few small files.

use std::io;

pub trait Disk {
    /// Opens (creating it if need be) the engine's database. Pragmas and schema are the store's business.
    fn open(&self) -> Result<rusqlite::Connection, rusqlite::Error>;
    /// Replaces a small file so that a reader sees either the old bytes or the new ones: temporary file, sync, rename.
    ///
    /// **Errors:** the system's; the old file stays.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
}
