//! The trace, as rows: what the engine decided, in the order it decided it.
//!
//! **Source:** engine.md 11.

use super::{StoreError, Tx, failed, mono, sql_ms};
use crate::base::{MonoTime, Span, WallTime};
use rusqlite::{Connection, OptionalExtension};

/// An event that waits for the next commit.
#[derive(Clone, Debug)]
pub struct Line {
    pub at: MonoTime,
    pub wall: WallTime,
    pub json: String,
}

/// How long a row is kept.
pub const KEPT: Span = Span::from_days(30);

pub fn append(tx: &Tx, incarnation: u64, lines: &[Line]) -> Result<(), StoreError> {
    let mut statement = tx
        .prepare_cached("INSERT INTO journal (incarnation, at_ms, wall_ms, event) VALUES (?1, ?2, ?3, ?4)")
        .map_err(failed("preparing the journal"))?;
    for line in lines {
        statement
            .execute((incarnation as i64, sql_ms(line.at), line.wall.0, line.json.as_str()))
            .map_err(failed("writing the journal"))?;
    }
    Ok(())
}

/// When the newest row was written, on both clocks.
pub fn newest(conn: &Connection) -> Result<Option<(MonoTime, WallTime)>, StoreError> {
    conn.prepare_cached("SELECT at_ms, wall_ms FROM journal ORDER BY n DESC LIMIT 1")
        .and_then(|mut statement| {
            statement.query_row([], |row| Ok((mono(row.get(0)?), WallTime(row.get(1)?)))).optional()
        })
        .map_err(failed("reading the newest journal row"))
}

/// Removes rows older than [`KEPT`], a bounded number at a time.
pub fn prune(tx: &Tx, wall: WallTime) -> Result<(), StoreError> {
    let before = wall.0.saturating_sub(KEPT.ms() as i64);
    tx.prepare_cached("DELETE FROM journal WHERE n IN (SELECT n FROM journal WHERE wall_ms < ?1 LIMIT 5000)")
        .and_then(|mut statement| statement.execute([before]))
        .map_err(failed("pruning the journal"))?;
    Ok(())
}
