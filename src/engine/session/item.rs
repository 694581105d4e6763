//! A session as a deferred item: what is stored of one that waits, and how it comes back after a restart.
//!
//! Its item stays leased as long as the session runs; the lease has no end of its own, the session's decides.

use crate::base::{Axis, ItemStatus, MonoTime, Policy, SessionOutcome, WallTime};
use crate::event::Event;
use crate::queue::SESSION;
use crate::session::{Active, Ask, Held, Sessions, Waiter, Waiting};
use crate::store::queue::{self, AxisSet, NewItem};
use crate::store::{StoreError, Tx, state};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

/// The machine's row among the stored states.
pub const STATE: &str = "sessions";

/// Of a session's runs none is its own failure, so that no number of them makes it a dead letter.
const ATTEMPTS_MAX: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Payload {
    session: u64,
    #[serde(flatten)]
    ask: Ask,
    /// A limit ended its last run.
    #[serde(default)]
    limited: bool,
}

fn payload(session: u64, ask: &Ask, limited: bool) -> String {
    let payload = Payload { session, ask: ask.clone(), limited };
    serde_json::to_string(&payload).expect("a payload has no keys or numbers that JSON lacks")
}

/// Stores a session that waits from now on.
#[expect(clippy::too_many_arguments, reason = "what is stored, when, and the events that say so")]
pub fn queue(
    tx: &Tx,
    session: u64,
    ask: Ask,
    limited: bool,
    reason: &str,
    now: MonoTime,
    wall: WallTime,
    events: &mut Vec<Event>,
) -> Result<Waiter, StoreError> {
    let (class, priority, depends_on, policy) = (ask.class, ask.class.priority(), vec![Axis::Cc], Policy::Drain);
    let item = NewItem {
        work_type: SESSION.to_owned(),
        call_site: "session".to_owned(),
        priority,
        payload: payload(session, &ask, limited),
        depends_on: AxisSet::of(&depends_on),
        policy,
        ttl: None,
        reason: reason.to_owned(),
        not_before: MonoTime::ZERO,
        expires_at: None,
        attempts_max: ATTEMPTS_MAX,
    };
    let queued = queue::insert(tx, &item, now, wall)?;
    assert!(!queued.merged, "SESSION-1: session {session} waits as the item of another");
    let (id, reason) = (queued.id, reason.to_owned());
    events.push(Event::DeferredQueued {
        id,
        work_type: item.work_type,
        priority,
        policy,
        depends_on,
        merged: false,
        reason: reason.clone(),
        ttl_ms: None,
        not_before_ms: None,
    });
    events.push(Event::SessionDeferred { session, class, item: id, reason });
    Ok(Waiter::new(ask, (priority, now, id), limited))
}

/// Stores that a run did not finish its session: it waits again, at its old place if it had one. A slot that was lost by
/// somebody who never waited is given up for good: `None`.
#[expect(clippy::too_many_arguments, reason = "what is stored, when, and the events that say so")]
pub fn queue_again(
    tx: &Tx,
    session: u64,
    active: Active,
    limited: bool,
    reason: &str,
    now: MonoTime,
    wall: WallTime,
    events: &mut Vec<Event>,
) -> Result<Option<Waiter>, StoreError> {
    let Active { ask, held, .. } = active;
    let Some(held) = held else {
        return if limited { queue(tx, session, ask, true, reason, now, wall, events).map(Some) } else { Ok(None) };
    };
    let Held { item: id, claim, .. } = held;
    let kept = queue::rewrite(tx, id, claim, &payload(session, &ask, limited))?
        && queue::release(tx, id, claim, 0, now, now, reason)?;
    if !kept {
        events.push(Event::LeaseLost { id });
        return Ok(None);
    }
    let (class, reason) = (ask.class, reason.to_owned());
    events.push(Event::DeferredReleased { id, not_before_ms: None, attempts: 0, reason: reason.clone() });
    events.push(Event::SessionDeferred { session, class, item: id, reason });
    let rank = held.rank(class);
    Ok(Some(Waiter::new(ask, rank, limited)))
}

/// Stores that a session is over: whoever waited for it has been told.
pub fn finish(
    tx: &Tx,
    held: Held,
    outcome: SessionOutcome,
    now: MonoTime,
    events: &mut Vec<Event>,
) -> Result<(), StoreError> {
    let id = held.item;
    let why = match outcome {
        SessionOutcome::NotStarted => Some("it could not be started, and its caller knows"),
        SessionOutcome::Failed => Some("its command failed, and its caller knows"),
        SessionOutcome::Done | SessionOutcome::Limited | SessionOutcome::Lost => None,
    };
    let kept = queue::finish(tx, id, held.claim, ItemStatus::Done, 0, now, why)?;
    events.push(if kept {
        let reason = why.unwrap_or_default().to_owned();
        Event::DeferredFinished { id, status: ItemStatus::Done, was: ItemStatus::Leased, reason }
    } else {
        Event::LeaseLost { id }
    });
    Ok(())
}

pub fn ended_pending(id: u64, status: ItemStatus, reason: &str) -> Event {
    Event::DeferredFinished { id, status, was: ItemStatus::Pending, reason: reason.to_owned() }
}

/// What an earlier incarnation left: the machine, and those that wait. An item that cannot be read is left to
/// [`bury_damaged`].
pub fn restore(conn: &Connection) -> Result<(Sessions, Waiting), StoreError> {
    let sessions: Sessions = state::load(conn, STATE)?.unwrap_or_default();
    let mut waiting = Waiting::default();
    for item in queue::session_items(conn)? {
        if let (None, Ok(payload)) = (item.claim, serde_json::from_str::<Payload>(&item.payload)) {
            let rank = (payload.ask.class.priority(), item.deferred_at, item.id);
            waiting.insert(payload.session, Waiter::new(payload.ask, rank, payload.limited));
        }
    }
    Ok((sessions, waiting))
}

/// Ends the items of sessions that nobody can make out any more.
pub fn bury_damaged(tx: &Tx, now: MonoTime, events: &mut Vec<Event>) -> Result<(), StoreError> {
    for item in queue::session_items(tx)? {
        let Err(error) = serde_json::from_str::<Payload>(&item.payload) else { continue };
        let reason = format!("the stored row is damaged: {error}");
        if queue::end_pending(tx, item.id, ItemStatus::Dead, now, &reason)? {
            events.push(ended_pending(item.id, ItemStatus::Dead, &reason));
            events.push(Event::DeadAdded { id: item.id, llm: false, reason });
        }
    }
    Ok(())
}
