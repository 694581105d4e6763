//! Rows of `deferred_work_queue`: put in, claim, give back, finish.
//!
//! Which item is next is decided by SQL order `(priority, deferred_at, id)`; which items may run at all is handed in.
//! Every write after a claim names the claim's token, so a late worker changes nothing.
//! **Source:** engine.md 4; storage.md B.4, D.1. DRAIN-1, LEASE-1.

use super::{StoreError, Tx, failed, mono, sql_ms};
use crate::base::{Axis, ItemStatus, MonoTime, Policy, Span, WallTime};
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;

/// A set of axes as bits, as the table holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct AxisSet(pub u8);

impl AxisSet {
    pub fn of(axes: &[Axis]) -> AxisSet {
        AxisSet(axes.iter().fold(0, |bits, axis| bits | 1 << Axis::ALL.iter().position(|a| a == axis).unwrap_or(0)))
    }
    pub fn contains(self, axis: Axis) -> bool {
        self.0 & AxisSet::of(&[axis]).0 != 0
    }
    pub fn axes(self) -> Vec<Axis> {
        Axis::ALL.into_iter().filter(|axis| self.contains(*axis)).collect()
    }
    /// Every set there is.
    pub fn all() -> impl Iterator<Item = AxisSet> {
        (0..16).map(AxisSet)
    }
}

/// What goes in.
#[derive(Clone, Debug)]
pub struct NewItem {
    pub work_type: String,
    pub call_site: String,
    pub priority: u8,
    /// JSON text.
    pub payload: String,
    pub depends_on: AxisSet,
    pub policy: Policy,
    /// For [`Policy::Ttl`] only.
    pub ttl: Option<Span>,
    pub reason: String,
    pub not_before: MonoTime,
    /// When it is stale: `deferred_at` + ttl or discard age.
    pub expires_at: Option<MonoTime>,
    pub attempts_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    pub id: u64,
    /// It is an older, unfinished item with the same content.
    pub merged: bool,
}

/// What a worker gets.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub id: u64,
    pub work_type: String,
    pub priority: u8,
    pub payload: String,
    pub policy: Policy,
    pub depends_on: AxisSet,
    pub deferred_at: MonoTime,
    pub expires_at: Option<MonoTime>,
    pub attempts: u32,
    pub attempts_max: u32,
    pub token: u64,
    /// Whether the row is what was put in.
    pub intact: bool,
}

fn content_hash(item: &NewItem) -> String {
    hash(&[&item.work_type, &item.payload])
}

fn row_hash(work_type: &str, payload: &str, depends_on: AxisSet, policy: Policy, deferred_at: MonoTime) -> String {
    hash(&[work_type, payload, &depends_on.0.to_string(), policy.name(), &deferred_at.0.to_string()])
}

fn hash(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().as_str()[..32].to_owned()
}

/// Puts an item in, or merges it into an unfinished one with the same content, keeping the better priority and the
/// later expiry.
pub fn insert(tx: &Tx, item: &NewItem, now: MonoTime, wall: WallTime) -> Result<Queued, StoreError> {
    let content = content_hash(item);
    let twin: Option<i64> = tx
        .prepare_cached(
            "SELECT id FROM deferred_work_queue WHERE work_type = ?1 AND content_hash = ?2 AND staleness_policy = ?3
             AND status IN ('scheduled', 'pending', 'leased')",
        )
        .and_then(|mut statement| {
            statement.query_row((&item.work_type, &content, item.policy.name()), |row| row.get(0)).optional()
        })
        .map_err(failed("looking for a twin"))?;
    if let Some(id) = twin {
        tx.prepare_cached(
            "UPDATE deferred_work_queue SET priority = min(priority, ?2),
                expires_at_ms = CASE WHEN expires_at_ms IS NULL OR ?3 IS NULL THEN NULL ELSE max(expires_at_ms, ?3) END
             WHERE id = ?1",
        )
        .and_then(|mut statement| statement.execute((id, item.priority, item.expires_at.map(sql_ms))))
        .map_err(failed("merging an item"))?;
        return Ok(Queued { id: id as u64, merged: true });
    }
    let status = if item.not_before > now { ItemStatus::Scheduled } else { ItemStatus::Pending };
    let id = tx
        .prepare_cached(
            "INSERT INTO deferred_work_queue (work_type, call_site, priority, payload, content_hash, row_hash, depends_on,
                staleness_policy, staleness_ttl_ms, deferred_at_ms, deferred_wall_ms, expires_at_ms, reason,
                not_before_ms, status, attempts_max)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )
        .and_then(|mut statement| {
            statement.insert(rusqlite::params![
                item.work_type,
                item.call_site,
                item.priority,
                item.payload,
                content,
                row_hash(&item.work_type, &item.payload, item.depends_on, item.policy, now),
                item.depends_on.0,
                item.policy.name(),
                item.ttl.map(|ttl| ttl.ms() as i64),
                sql_ms(now),
                wall.0,
                item.expires_at.map(sql_ms),
                item.reason,
                sql_ms(item.not_before),
                status.name(),
                item.attempts_max,
            ])
        })
        .map_err(failed("queueing an item"))?;
    Ok(Queued { id: id as u64, merged: false })
}

/// Makes items pending whose time has come, a bounded number at a time. Returns them.
pub fn promote(tx: &Tx, now: MonoTime) -> Result<Vec<u64>, StoreError> {
    let mut statement = tx
        .prepare_cached(
            "UPDATE deferred_work_queue SET status = 'pending' WHERE id IN
                (SELECT id FROM deferred_work_queue WHERE status = 'scheduled' AND not_before_ms <= ?1
                 ORDER BY not_before_ms LIMIT 500)
             RETURNING id",
        )
        .map_err(failed("preparing to promote items"))?;
    let rows = statement
        .query_map([sql_ms(now)], |row| row.get::<_, i64>(0).map(|id| id as u64))
        .map_err(failed("promoting scheduled items"))?;
    let mut ids: Vec<u64> = rows.collect::<Result<_, _>>().map_err(failed("promoting scheduled items"))?;
    ids.sort_unstable(); // RETURNING promises no order.
    Ok(ids)
}

/// The words about sessions are those of the index: without them it could not be used.
const NEXT: &str = "SELECT priority, deferred_at_ms, id FROM deferred_work_queue
     WHERE status = 'pending' AND work_type <> 'session' AND depends_on = ?1 AND priority <= ?2
     ORDER BY priority, deferred_at_ms, id LIMIT 1";

/// Leases the first pending item by (priority, deferred_at, id) among those whose axes are one of `runnable`, each with
/// the worst priority that may run. Sessions are left out: their waiters take them ([`lease`]).
pub fn claim(
    tx: &Tx,
    runnable: &[(AxisSet, u8)],
    owner: u64,
    lease_until: MonoTime,
) -> Result<Option<Claimed>, StoreError> {
    let mut best: Option<(u8, i64, i64)> = None;
    {
        let mut statement = tx.prepare_cached(NEXT).map_err(failed("preparing a claim"))?;
        for (axes, priority_max) in runnable {
            let found = statement
                .query_row((axes.0, priority_max), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()
                .map_err(failed("looking for the next item"))?;
            best = match (best, found) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }
    match best {
        Some((_, _, id)) => lease(tx, id as u64, owner, Some(lease_until)),
        None => Ok(None),
    }
}

/// Leases this item if it is pending. Without an end the lease is somebody's who ends it in every case: a session's.
pub fn lease(tx: &Tx, id: u64, owner: u64, lease_until: Option<MonoTime>) -> Result<Option<Claimed>, StoreError> {
    tx.prepare_cached(
        "UPDATE deferred_work_queue SET status = 'leased', lease_owner = ?2, lease_until_ms = ?3,
            claim_token = claim_token + 1
         WHERE id = ?1 AND status = 'pending'
         RETURNING id, work_type, priority, payload, row_hash, depends_on, staleness_policy, deferred_at_ms,
            expires_at_ms, attempts, attempts_max, claim_token",
    )
    .and_then(|mut statement| {
        // `query_one` steps the statement to its end, which a RETURNING write needs.
        let claimed = statement.query_one((id as i64, owner as i64, lease_until.map(sql_ms)), |row| {
            let work_type: String = row.get(1)?;
            let payload: String = row.get(3)?;
            let row_hash_stored: String = row.get(4)?;
            let depends_on = AxisSet(row.get(5)?);
            let policy = Policy::from_name(&row.get::<_, String>(6)?).unwrap_or(Policy::Drain);
            let deferred_at = mono(row.get(7)?);
            let intact = row_hash_stored == row_hash(&work_type, &payload, depends_on, policy, deferred_at);
            Ok(Claimed {
                id: row.get::<_, i64>(0)? as u64,
                work_type,
                priority: row.get(2)?,
                payload,
                policy,
                depends_on,
                deferred_at,
                expires_at: row.get::<_, Option<i64>>(8)?.map(mono),
                attempts: row.get(9)?,
                attempts_max: row.get(10)?,
                token: row.get::<_, i64>(11)? as u64,
                intact,
            })
        });
        claimed.optional()
    })
    .map_err(failed("claiming an item"))
}

/// Extends a lease. `false`: it is another worker's now.
pub fn renew(tx: &Tx, id: u64, token: u64, lease_until: MonoTime) -> Result<bool, StoreError> {
    guarded(
        tx,
        "UPDATE deferred_work_queue SET lease_until_ms = ?3 WHERE id = ?1 AND claim_token = ?2 AND status = 'leased'",
        (id as i64, token as i64, sql_ms(lease_until)),
        "renewing a lease",
    )
}

/// Gives an item back to its place in the order, not to run before `not_before`. `false`: the lease was lost.
pub fn release(
    tx: &Tx,
    id: u64,
    token: u64,
    attempts: u32,
    not_before: MonoTime,
    now: MonoTime,
    error: &str,
) -> Result<bool, StoreError> {
    let status = if not_before > now { ItemStatus::Scheduled } else { ItemStatus::Pending };
    guarded(
        tx,
        "UPDATE deferred_work_queue SET status = ?3, attempts = ?4, not_before_ms = ?5, last_error = ?6,
            lease_owner = NULL, lease_until_ms = NULL
         WHERE id = ?1 AND claim_token = ?2 AND status = 'leased'",
        (id as i64, token as i64, status.name(), attempts, sql_ms(not_before), error),
        "releasing an item",
    )
}

/// Ends a leased item. `false`: the lease was lost, nothing changed.
pub fn finish(
    tx: &Tx,
    id: u64,
    token: u64,
    status: ItemStatus,
    attempts: u32,
    now: MonoTime,
    error: Option<&str>,
) -> Result<bool, StoreError> {
    assert!(status.is_final(), "CONSERVE-1: an item ends in a final status, not {}", status.name());
    guarded(
        tx,
        "UPDATE deferred_work_queue SET status = ?3, attempts = ?4, finished_at_ms = ?5,
            last_error = coalesce(?6, last_error), lease_owner = NULL, lease_until_ms = NULL
         WHERE id = ?1 AND claim_token = ?2 AND status = 'leased'",
        (id as i64, token as i64, status.name(), attempts, sql_ms(now), error),
        "finishing an item",
    )
}

/// Ends an item that nobody has leased. `false`: it is not pending, nothing changed.
pub fn end_pending(tx: &Tx, id: u64, status: ItemStatus, now: MonoTime, why: &str) -> Result<bool, StoreError> {
    assert!(status.is_final(), "CONSERVE-1: an item ends in a final status, not {}", status.name());
    guarded(
        tx,
        "UPDATE deferred_work_queue SET status = ?2, finished_at_ms = ?3, last_error = ?4
         WHERE id = ?1 AND status = 'pending'",
        (id as i64, status.name(), sql_ms(now), why),
        "ending a pending item",
    )
}

/// Replaces the payload of a leased item by what its owner knows by now. `false`: the lease was lost.
pub fn rewrite(tx: &Tx, id: u64, token: u64, payload: &str) -> Result<bool, StoreError> {
    let kept: Option<(String, u8, String, i64)> = tx
        .prepare_cached(
            "SELECT work_type, depends_on, staleness_policy, deferred_at_ms FROM deferred_work_queue
             WHERE id = ?1 AND claim_token = ?2 AND status = 'leased'",
        )
        .and_then(|mut statement| {
            let kept = |row: &rusqlite::Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
            statement.query_row((id as i64, token as i64), kept).optional()
        })
        .map_err(failed("reading an item"))?;
    let Some((work_type, depends_on, policy, deferred_at)) = kept else { return Ok(false) };
    let policy = Policy::from_name(&policy).ok_or(StoreError::Corrupt { what: "policy", why: policy })?;
    let row_hash = row_hash(&work_type, payload, AxisSet(depends_on), policy, mono(deferred_at));
    guarded(
        tx,
        "UPDATE deferred_work_queue SET payload = ?2, content_hash = ?3, row_hash = ?4 WHERE id = ?1",
        (id as i64, payload, hash(&[&work_type, payload]), row_hash),
        "rewriting an item",
    )
}

fn guarded(tx: &Tx, sql: &str, params: impl rusqlite::Params, doing: &'static str) -> Result<bool, StoreError> {
    let changed = tx.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).map_err(failed(doing))?;
    assert!(changed <= 1, "LEASE-1: {doing} touched {changed} rows");
    Ok(changed == 1)
}

/// An item that a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    pub id: u64,
    pub was: ItemStatus,
    pub status: ItemStatus,
}

/// Ends unleased items that are too old, a bounded number at a time: those with policy ttl as expired, those with
/// policy discard as discarded.
pub fn sweep_stale(tx: &Tx, now: MonoTime) -> Result<Vec<Swept>, StoreError> {
    let mut swept = Vec::new();
    {
        let mut statement = tx
            .prepare_cached(
                "SELECT id, status, staleness_policy FROM deferred_work_queue
                 WHERE expires_at_ms IS NOT NULL AND status IN ('scheduled', 'pending') AND expires_at_ms <= ?1
                 ORDER BY expires_at_ms, id LIMIT 500",
            )
            .map_err(failed("preparing a sweep"))?;
        let mut rows = statement.query([sql_ms(now)]).map_err(failed("sweeping stale items"))?;
        while let Some(row) = rows.next().map_err(failed("sweeping stale items"))? {
            let read = |column| row.get::<_, String>(column).map_err(failed("reading a stale item"));
            let id: i64 = row.get(0).map_err(failed("reading a stale item"))?;
            let discard = read(2)? == Policy::Discard.name();
            let status = if discard { ItemStatus::Discarded } else { ItemStatus::Expired };
            swept.push(Swept { id: id as u64, was: status_named(&read(1)?)?, status });
        }
    }
    for Swept { id, status, .. } in &swept {
        tx.prepare_cached("UPDATE deferred_work_queue SET status = ?2, finished_at_ms = ?3 WHERE id = ?1")
            .and_then(|mut statement| statement.execute((*id as i64, status.name(), sql_ms(now))))
            .map_err(failed("ending a stale item"))?;
    }
    Ok(swept)
}

fn status_named(name: &str) -> Result<ItemStatus, StoreError> {
    ItemStatus::from_name(name).ok_or_else(|| StoreError::Corrupt { what: "status", why: name.to_owned() })
}

/// Frees every lease: of an older incarnation at boot. Returns the items. Sessions may go on running: theirs are kept.
pub fn free_leases(tx: &Tx) -> Result<Vec<u64>, StoreError> {
    let mut statement = tx
        .prepare_cached(
            "UPDATE deferred_work_queue SET status = 'pending', lease_owner = NULL, lease_until_ms = NULL
             WHERE status = 'leased' AND work_type <> 'session' RETURNING id",
        )
        .map_err(failed("preparing to free leases"))?;
    let rows =
        statement.query_map([], |row| row.get::<_, i64>(0).map(|id| id as u64)).map_err(failed("freeing leases"))?;
    let mut ids: Vec<u64> = rows.collect::<Result<_, _>>().map_err(failed("freeing leases"))?;
    ids.sort_unstable(); // RETURNING promises no order.
    Ok(ids)
}

/// A session's item that is not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionItem {
    pub id: u64,
    pub payload: String,
    pub deferred_at: MonoTime,
    /// The token of its lease, if it is leased.
    pub claim: Option<u64>,
}

/// Every session that waits or runs as an item, by number: read once at boot.
pub fn session_items(conn: &Connection) -> Result<Vec<SessionItem>, StoreError> {
    let mut statement = conn
        .prepare_cached(
            "SELECT id, payload, deferred_at_ms, CASE status WHEN 'leased' THEN claim_token END
             FROM deferred_work_queue WHERE work_type = 'session' AND status IN ('pending', 'leased') ORDER BY id",
        )
        .map_err(failed("looking for waiting sessions"))?;
    let rows = statement
        .query_map([], |row| {
            Ok(SessionItem {
                id: row.get::<_, i64>(0)? as u64,
                payload: row.get(1)?,
                deferred_at: mono(row.get(2)?),
                claim: row.get::<_, Option<i64>>(3)?.map(|claim| claim as u64),
            })
        })
        .map_err(failed("reading waiting sessions"))?;
    rows.collect::<Result<_, _>>().map_err(failed("reading waiting sessions"))
}

/// Dead letters that were work for a chat chain: all but messages and sessions.
pub fn llm_dead_letters(conn: &Connection) -> Result<u32, StoreError> {
    conn.prepare_cached(
        "SELECT count(*) FROM deferred_work_queue WHERE status = 'dead' AND work_type NOT IN ('outreach', 'session')",
    )
    .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
    .map_err(failed("counting dead letters"))
}

/// When the next scheduled item is due.
pub fn next_scheduled(conn: &Connection) -> Result<Option<MonoTime>, StoreError> {
    earliest(conn, "SELECT min(not_before_ms) FROM deferred_work_queue WHERE status = 'scheduled'")
}

/// When the next unleased item becomes stale.
pub fn next_expiry(conn: &Connection) -> Result<Option<MonoTime>, StoreError> {
    earliest(
        conn,
        "SELECT min(expires_at_ms) FROM deferred_work_queue
         WHERE expires_at_ms IS NOT NULL AND status IN ('scheduled', 'pending')",
    )
}

fn earliest(conn: &Connection, sql: &str) -> Result<Option<MonoTime>, StoreError> {
    conn.prepare_cached(sql)
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, Option<i64>>(0)))
        .map(|ms| ms.map(mono))
        .map_err(failed("looking for the next time"))
}

/// Items by status: read once at boot, kept by the engine from then on.
pub fn counts(conn: &Connection) -> Result<BTreeMap<ItemStatus, u64>, StoreError> {
    let mut statement = conn
        .prepare_cached("SELECT status, count(*) FROM deferred_work_queue GROUP BY status")
        .map_err(failed("counting items"))?;
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))
        .map_err(failed("counting items"))?;
    let mut counts: BTreeMap<ItemStatus, u64> = ItemStatus::ALL.into_iter().map(|status| (status, 0)).collect();
    for row in rows {
        let (status, count) = row.map_err(failed("counting items"))?;
        counts.insert(status_named(&status)?, count as u64);
    }
    Ok(counts)
}

/// The item that a caller's key led to, if it was seen since `after`.
pub fn seen_key(conn: &Connection, key: &str, after: MonoTime) -> Result<Option<u64>, StoreError> {
    conn.prepare_cached("SELECT id FROM seen_key WHERE key = ?1 AND seen_ms > ?2")
        .and_then(|mut statement| statement.query_row((key, sql_ms(after)), |row| row.get::<_, i64>(0)).optional())
        .map(|id| id.map(|id| id as u64))
        .map_err(failed("looking up a key"))
}

/// Remembers a caller's key and forgets the ones not seen since `before`.
pub fn remember_key(tx: &Tx, key: &str, id: u64, now: MonoTime, before: MonoTime) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO seen_key (key, id, seen_ms) VALUES (?1, ?2, ?3)
         ON CONFLICT (key) DO UPDATE SET id = excluded.id, seen_ms = excluded.seen_ms",
    )
    .and_then(|mut statement| statement.execute((key, id as i64, sql_ms(now))))
    .map_err(failed("remembering a key"))?;
    tx.prepare_cached("DELETE FROM seen_key WHERE key IN (SELECT key FROM seen_key WHERE seen_ms <= ?1 LIMIT 100)")
        .and_then(|mut statement| statement.execute([sql_ms(before)]))
        .map_err(failed("forgetting old keys"))?;
    Ok(())
}

#[cfg(test)]
mod tests;
