//! All SQL of the engine: schema, migrations, prepared statements. Knows no rule: it stores what was decided.
//!
//! One connection, used inline by the engine's single thread in short transactions. Every statement is cached and every
//! `now` is bound: SQLite's own clock and randomness are never asked. [`Store::write`] is the only way to change
//! anything, so that state, work and trace of a decision are one transaction.
//! **Source:** architecture.md "How things flow"; storage.md 0, D.

pub mod clock;
pub mod journal;
pub mod memory;
pub mod outreach;
pub mod queue;
mod schema;
pub mod state;

use crate::base::MonoTime;
use rusqlite::Connection;

/// SQLite before this version could lose committed transactions when a checkpoint raced a log reset.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("sqlite failed while {doing}")]
    Sqlite {
        doing: &'static str,
        #[source]
        source: rusqlite::Error,
    },
    #[error("sqlite {found} is older than 3.51.3, which can lose committed transactions; rebuild with the bundled one")]
    SqliteTooOld { found: &'static str },
    #[error("the database was written by a newer squall (schema {found}, this one knows {known}); use that version")]
    NewerSchema { found: i64, known: i64 },
    #[error("stored {what} cannot be read back: {why}")]
    Corrupt { what: &'static str, why: String },
}

impl StoreError {
    /// Whether the disk refused, rather than the data being wrong.
    pub fn is_disk(&self) -> bool {
        match self {
            StoreError::Sqlite { .. } => true,
            StoreError::SqliteTooOld { .. } | StoreError::NewerSchema { .. } | StoreError::Corrupt { .. } => false,
        }
    }
}

/// Names what was being done, for [`StoreError::Sqlite`].
pub(crate) fn failed(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError {
    move |source| StoreError::Sqlite { doing, source }
}

/// A connection inside a transaction. Everything that changes the database is a function over this.
pub type Tx = Connection;

pub struct Store {
    conn: Connection,
    /// This process's number, counted from 1 over the database's life.
    pub incarnation: u64,
    /// Whether an earlier incarnation left state.
    pub resumed: bool,
}

impl Store {
    /// Prepares an opened connection: pragmas, migrations, the incarnation's number.
    ///
    /// **Errors:** all of [`StoreError`]; the database is as it was.
    pub fn new(mut conn: Connection) -> Result<Store, StoreError> {
        if rusqlite::version_number() < SQLITE_VERSION_MIN {
            return Err(StoreError::SqliteTooOld { found: rusqlite::version() });
        }
        conn.set_prepared_statement_cache_capacity(64);
        conn.busy_timeout(std::time::Duration::from_secs(5)).map_err(failed("setting the busy timeout"))?;
        schema::pragmas(&conn)?;
        schema::migrate(&mut conn)?;
        let before = state::number(&conn, "incarnation")?;
        let incarnation = before.unwrap_or(0) + 1;
        let mut store = Store { conn, incarnation, resumed: before.is_some() };
        store.write(|tx| state::set_number(tx, "incarnation", incarnation))?;
        Ok(store)
    }

    /// Runs `change` in one immediate transaction.
    ///
    /// **Errors:** what `change` gives, or the commit's own failure; then nothing of it is stored (a failed commit is
    /// an unknown outcome until the database is opened again: keys make a repetition harmless).
    pub fn write<T>(&mut self, change: impl FnOnce(&Tx) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.step("BEGIN IMMEDIATE", "starting a write")?;
        let result = change(&self.conn).and_then(|value| self.step("COMMIT", "committing").map(|()| value));
        // After many an error SQLite has rolled back by itself; a second ROLLBACK would hide the first error.
        if result.is_err() && !self.conn.is_autocommit() {
            self.step("ROLLBACK", "rolling back")?;
        }
        result
    }

    /// One of the statements around a transaction: cached like all others, parsed once.
    fn step(&self, sql: &'static str, doing: &'static str) -> Result<(), StoreError> {
        self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map_err(failed(doing))?;
        Ok(())
    }

    /// For reading only.
    pub fn reader(&self) -> &Connection {
        &self.conn
    }
}

/// A moment as SQL holds it.
pub(crate) fn sql_ms(at: MonoTime) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

/// A moment read from SQL.
pub(crate) fn mono(ms: i64) -> MonoTime {
    MonoTime(u64::try_from(ms).unwrap_or(0))
}
