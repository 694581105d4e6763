//! Messages to people: what is on its way, what has arrived, which state of a topic was told last.
//!
//! **Source:** engine.md 8. IDEMPOTENT-1, IDEMPOTENT-3.

use super::{StoreError, Tx, failed, mono, sql_ms};
use crate::base::MonoTime;
use rusqlite::{Connection, OptionalExtension};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Never heard of.
    New,
    /// Delivered, at this time.
    Sent { at: MonoTime },
    /// On its way, by this process.
    Intended { parts_sent: u32 },
    /// Nobody can say whether it arrived.
    InDoubt,
}

pub fn known(conn: &Connection, key: &str) -> Result<Known, StoreError> {
    let intent: Option<(u32, bool)> = conn
        .prepare_cached("SELECT parts_sent, in_doubt FROM outreach_intent WHERE key = ?1")
        .and_then(|mut statement| statement.query_row([key], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .map_err(failed("looking up an intent"))?;
    match intent {
        Some((_, true)) => return Ok(Known::InDoubt),
        Some((parts_sent, false)) => return Ok(Known::Intended { parts_sent }),
        None => {}
    }
    let sent: Option<i64> = conn
        .prepare_cached("SELECT sent_ms FROM outreach_history WHERE key = ?1")
        .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
        .map_err(failed("looking up a sent message"))?;
    Ok(sent.map_or(Known::New, |ms| Known::Sent { at: mono(ms) }))
}

pub fn intend(tx: &Tx, key: &str, recipient: &str, purpose: &str, now: MonoTime) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO outreach_intent (key, recipient, purpose, intended_ms) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (key) DO NOTHING",
    )
    .and_then(|mut statement| statement.execute((key, recipient, purpose, sql_ms(now))))
    .map_err(failed("storing an intent"))?;
    Ok(())
}

pub fn part_sent(tx: &Tx, key: &str, parts_sent: u32) -> Result<(), StoreError> {
    tx.prepare_cached("UPDATE outreach_intent SET parts_sent = ?2 WHERE key = ?1")
        .and_then(|mut statement| statement.execute((key, parts_sent)))
        .map_err(failed("storing a sent part"))?;
    Ok(())
}

/// The message arrived: the intent becomes history.
pub fn record(
    tx: &Tx,
    key: &str,
    recipient: &str,
    purpose: &str,
    occasion: Option<&str>,
    now: MonoTime,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO outreach_history (key, recipient, purpose, occasion, sent_ms) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (key) DO UPDATE SET sent_ms = excluded.sent_ms",
    )
    .and_then(|mut statement| statement.execute((key, recipient, purpose, occasion, sql_ms(now))))
    .map_err(failed("recording a sent message"))?;
    forget_intent(tx, key)
}

/// It was surely not sent: the key is free again.
pub fn forget_intent(tx: &Tx, key: &str) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM outreach_intent WHERE key = ?1")
        .and_then(|mut statement| statement.execute([key]))
        .map_err(failed("forgetting an intent"))?;
    Ok(())
}

/// As [`forget_intent`], unless a part of it arrived.
pub fn forget_unsent(tx: &Tx, key: &str) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM outreach_intent WHERE key = ?1 AND parts_sent = 0")
        .and_then(|mut statement| statement.execute([key]))
        .map_err(failed("forgetting an unsent intent"))?;
    Ok(())
}

pub fn set_in_doubt(tx: &Tx, key: &str) -> Result<(), StoreError> {
    tx.prepare_cached("UPDATE outreach_intent SET in_doubt = 1 WHERE key = ?1")
        .and_then(|mut statement| statement.execute([key]))
        .map_err(failed("marking an intent as in doubt"))?;
    Ok(())
}

/// At boot: intents that an older incarnation left open are in doubt. Returns (key, recipient, purpose).
pub fn doubt_open_intents(tx: &Tx) -> Result<Vec<(String, String, String)>, StoreError> {
    let mut statement = tx
        .prepare_cached("UPDATE outreach_intent SET in_doubt = 1 WHERE in_doubt = 0 RETURNING key, recipient, purpose")
        .map_err(failed("preparing to look at open intents"))?;
    let rows = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .map_err(failed("looking at open intents"))?;
    let mut open: Vec<(String, String, String)> =
        rows.collect::<Result<_, _>>().map_err(failed("looking at open intents"))?;
    open.sort();
    Ok(open)
}

/// Raises what was told last about (recipient, topic). `false`: a newer or equal state was told already.
pub fn advance_topic(tx: &Tx, recipient: &str, topic: &str, state: u64) -> Result<bool, StoreError> {
    tx.prepare_cached(
        "INSERT INTO outreach_topic (recipient, topic, state) VALUES (?1, ?2, ?3)
         ON CONFLICT (recipient, topic) DO UPDATE SET state = excluded.state WHERE excluded.state >= state",
    )
    .and_then(|mut statement| statement.execute((recipient, topic, state as i64)))
    .map(|changed| changed == 1)
    .map_err(failed("storing a topic's state"))
}
