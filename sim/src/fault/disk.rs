//! Faults of the engine's disk: `disk_full`, `disk_error`, `disk_slow`, `disk_lying_sync`, `disk_corrupt`, `lock_held`,
//! `reader_held`, `corrupt_row`.
//!
//! Most are the volume's own ([`crate::disk`]). A foreign reader is a real connection with an open transaction; a
//! damaged row waits for the engine's next start. The engine must lose nothing that it acknowledged under any of them
//! but a lying sync with a power loss, which no program can survive. Out of the model: damage to what was synced.
//! **Source:** scenario.md, "disk"; storage.md B.

use crate::adapter::SimDisk;
use crate::scenario::DiskFault;
use crate::seed::Stream;
use rusqlite::Connection;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What other processes of the engine's machine do to its disk.
pub struct DiskFaults {
    disk: SimDisk,
    /// By line.
    readers: RefCell<BTreeMap<u32, Connection>>,
    damages: RefCell<Vec<Damage>>,
}

/// A row that will be another one at the engine's next start.
struct Damage {
    line: u32,
    table: String,
    field: String,
    value: Value,
}

/// A row could not be damaged as the drill says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {table}.{field} cannot be given that value: {why}")]
pub struct DamageError {
    pub line: u32,
    pub table: String,
    pub field: String,
    pub why: String,
}

impl DiskFaults {
    pub fn new(disk: SimDisk) -> DiskFaults {
        DiskFaults { disk, readers: RefCell::default(), damages: RefCell::default() }
    }

    /// `until_ms`: when the fault will be over.
    pub fn begin(&self, line: u32, fault: &DiskFault, until_ms: u64, stream: Stream) {
        match fault {
            DiskFault::Full { .. }
            | DiskFault::Error { .. }
            | DiskFault::Slow { .. }
            | DiskFault::LyingSync
            | DiskFault::Corrupt
            | DiskFault::LockHeld => self.disk.volume().ail(line, fault.clone(), until_ms, stream),
            DiskFault::ReaderHeld => {
                let reader = self.read().unwrap_or_else(|error| panic!("line {line}: nothing to read: {error}"));
                self.readers.borrow_mut().insert(line, reader);
            }
            DiskFault::CorruptRow { table, field, value } => {
                let (table, field, value) = (table.clone(), field.clone(), value.clone());
                self.damages.borrow_mut().push(Damage { line, table, field, value });
            }
        }
    }

    pub fn end(&self, line: u32, fault: &DiskFault) {
        match fault {
            DiskFault::Full { .. }
            | DiskFault::Error { .. }
            | DiskFault::Slow { .. }
            | DiskFault::LyingSync
            | DiskFault::Corrupt
            | DiskFault::LockHeld => self.disk.volume().heal(line),
            DiskFault::ReaderHeld => drop(self.readers.borrow_mut().remove(&line)),
            // What is damaged stays so.
            DiskFault::CorruptRow { .. } => {}
        }
    }

    /// Between two incarnations of the engine.
    ///
    /// **Errors:** a row that is not there, or that cannot have this value.
    pub fn damage_rows(&self) -> Result<(), DamageError> {
        for Damage { line, table, field, value } in self.damages.take() {
            self.disk.damage(&table, &field, &value).map_err(|error| {
                let empty = error == rusqlite::Error::QueryReturnedNoRows;
                let why = if empty { "the table is empty".to_owned() } else { error.to_string() };
                DamageError { line, table, field, why }
            })?;
        }
        Ok(())
    }

    fn read(&self) -> rusqlite::Result<Connection> {
        let reader = self.disk.look()?;
        reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
        Ok(reader)
    }
}
