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

/// Removes rows older than [`KEPT`] from the front, up to the first that is younger, a bounded number at a time.
///
/// The wall clock has no index: every row would pay for it, and the oldest rows are the first anyway.
pub fn prune(tx: &Tx, wall: WallTime) -> Result<(), StoreError> {
    let before = wall.0.saturating_sub(KEPT.ms() as i64);
    tx.prepare_cached(
        "DELETE FROM journal WHERE n < coalesce(
             (SELECT n FROM (SELECT n, wall_ms FROM journal ORDER BY n LIMIT 5000) WHERE wall_ms >= ?1 LIMIT 1),
             (SELECT min(n) + 5000 FROM journal))",
    )
    .and_then(|mut statement| statement.execute([before]))
    .map_err(failed("pruning the journal"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wall clocks of the rows that are left, in hours.
    fn left_of(hours: impl IntoIterator<Item = i64>, now: i64) -> Vec<i64> {
        let tx = Connection::open_in_memory().unwrap();
        tx.execute_batch(include_str!("schema/0001.sql")).unwrap();
        let hour = |hour: i64| WallTime(hour * 3_600_000);
        let line = |at| Line { at: MonoTime(0), wall: hour(at), json: String::new() };
        append(&tx, 1, &hours.into_iter().map(line).collect::<Vec<_>>()).unwrap();
        prune(&tx, hour(now)).unwrap();
        let mut rows = tx.prepare("SELECT wall_ms / 3600000 FROM journal ORDER BY n").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn rows_are_kept_for_thirty_days() {
        assert_eq!(left_of([0, 1, 2, 3], 30 * 24 + 2), [2, 3]);
        assert_eq!(left_of([0, 1, 2, 3], 0), [0, 1, 2, 3]);
        assert_eq!(left_of([], 30 * 24 + 2), [0; 0]);
    }

    #[test]
    fn a_row_from_a_clock_that_went_wrong_is_removed_when_it_is_old_itself() {
        assert_eq!(left_of([0, 9, 1, 2], 30 * 24 + 3), [9, 1, 2]);
        assert_eq!(left_of([0, 9, 1, 2], 30 * 24 + 10), [0; 0]);
    }

    #[test]
    fn pruning_takes_a_bounded_number_of_rows() {
        assert_eq!(left_of((0..5_010).map(|_| 0), 31 * 24), [0; 10]);
    }
}
