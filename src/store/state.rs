//! Numbers and machines that come back after a restart.

use super::{StoreError, Tx, failed};
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub fn number(conn: &Connection, name: &str) -> Result<Option<u64>, StoreError> {
    text(conn, name)?
        .map(|value| {
            value.parse().map_err(|_| StoreError::Corrupt { what: "number", why: format!("{name} = {value:?}") })
        })
        .transpose()
}

pub fn set_number(tx: &Tx, name: &str, value: u64) -> Result<(), StoreError> {
    set_text(tx, name, &value.to_string())
}

/// A machine's state. **Errors:** [`StoreError::Corrupt`] if the stored JSON is not one.
pub fn load<T: DeserializeOwned>(conn: &Connection, name: &str) -> Result<Option<T>, StoreError> {
    text(conn, name)?
        .map(|value| {
            serde_json::from_str(&value)
                .map_err(|error| StoreError::Corrupt { what: "state", why: format!("{name}: {error}") })
        })
        .transpose()
}

pub fn save(tx: &Tx, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
    let json = serde_json::to_string(value).expect("machines have no keys or numbers that JSON lacks");
    set_text(tx, name, &json)
}

fn text(conn: &Connection, name: &str) -> Result<Option<String>, StoreError> {
    conn.prepare_cached("SELECT value FROM state WHERE name = ?1")
        .and_then(|mut statement| statement.query_row([name], |row| row.get(0)).optional())
        .map_err(failed("reading state"))
}

fn set_text(tx: &Tx, name: &str, value: &str) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO state (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .and_then(|mut statement| statement.execute((name, value)))
    .map_err(failed("storing state"))?;
    Ok(())
}
