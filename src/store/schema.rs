//! Pragmas, tables and migrations.
//!
//! A migration is one SQL text, run in one transaction with the number it leads to (`user_version` is transactional).
//! **Source:** storage.md D.1, D.3, D.5.

use super::{StoreError, failed};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior};

const MIGRATIONS: &[&str] = &[include_str!("schema/0001.sql"), include_str!("schema/0002_sessions.sql")];

pub fn pragmas(conn: &Connection) -> Result<(), StoreError> {
    conn.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA foreign_keys = ON;
         PRAGMA temp_store = MEMORY;
         PRAGMA wal_autocheckpoint = 500;",
    )
    .map_err(failed("setting pragmas"))?;
    // A statement keeps its plan whatever is bound to it. Else SQLite prepares many of them anew at each use, those
    // inside full-text search too, in the hope of a better plan for the new values.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(failed("fixing query plans"))?;
    Ok(())
}

pub fn migrate(conn: &mut Connection) -> Result<(), StoreError> {
    let known = MIGRATIONS.len() as i64;
    loop {
        let tx =
            conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed("starting a migration"))?;
        let found: i64 = tx
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(failed("reading the schema's version"))?;
        if found > known {
            return Err(StoreError::NewerSchema { found, known });
        }
        let Some(step) = MIGRATIONS.get(found as usize) else { return Ok(()) };
        tx.execute_batch(step).map_err(failed("migrating the schema"))?;
        tx.pragma_update(None, "user_version", found + 1).map_err(failed("storing the schema's version"))?;
        tx.commit().map_err(failed("committing a migration"))?;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Store, StoreError};
    use rusqlite::Connection;

    #[test]
    fn a_newer_schema_is_refused_and_left_alone() {
        let conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "user_version", 999).unwrap();
        assert!(matches!(Store::new(conn), Err(StoreError::NewerSchema { found: 999, .. })));
    }

    #[test]
    fn incarnations_count_up_over_the_life_of_the_database() {
        let uri = "file:schema_incarnations?mode=memory&cache=shared";
        let anchor = Connection::open(uri).unwrap();
        let first = Store::new(Connection::open(uri).unwrap()).unwrap();
        assert_eq!((first.incarnation, first.resumed), (1, false));
        drop(first);
        let second = Store::new(Connection::open(uri).unwrap()).unwrap();
        assert_eq!((second.incarnation, second.resumed), (2, true));
        drop(anchor);
    }
}
