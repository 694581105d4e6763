//! What the agent remembers, and keyword search over it (SQLite FTS5).

use super::{StoreError, Tx, failed, sql_ms};
use crate::base::{MonoTime, WallTime};
use rusqlite::Connection;

/// One memory that matches a query. `score` is BM25, higher is better.
#[derive(Clone, Debug)]
pub struct Hit {
    pub memory: u64,
    pub content: String,
    pub score: f64,
}

pub fn insert(tx: &Tx, content: &str, now: MonoTime, wall: WallTime) -> Result<u64, StoreError> {
    tx.prepare_cached("INSERT INTO memory (content, stored_ms, stored_wall_ms) VALUES (?1, ?2, ?3)")
        .and_then(|mut statement| statement.insert((content, sql_ms(now), wall.0)))
        .map(|id| id as u64)
        .map_err(failed("storing a memory"))
}

/// The best `limit` memories that have any of the query's words.
///
/// Words are quoted one by one, so that nothing in a query is FTS5 syntax. A query without words finds nothing.
pub fn search(conn: &Connection, query: &str, limit: u32) -> Result<Vec<Hit>, StoreError> {
    let words: Vec<String> = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(64)
        .map(|word| format!("\"{word}\""))
        .collect();
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = conn
        .prepare_cached(
            "SELECT memory.id, memory.content, -bm25(memory_text) FROM memory_text
             JOIN memory ON memory.id = memory_text.rowid
             WHERE memory_text MATCH ?1 ORDER BY bm25(memory_text), memory.id LIMIT ?2",
        )
        .map_err(failed("preparing a search"))?;
    let rows = statement
        .query_map((words.join(" OR "), limit), |row| {
            Ok(Hit { memory: row.get::<_, i64>(0)? as u64, content: row.get(1)?, score: row.get(2)? })
        })
        .map_err(failed("searching"))?;
    rows.collect::<Result<_, _>>().map_err(failed("reading a hit"))
}
