//! A session as a deferred item: what is stored of one that waits, and how it comes back after a restart.
//!
//! Its item stays leased as long as the session runs; the lease has no end of its own, the session's decides.

use super::super::Engine;
use super::Change;
use crate::base::{Axis, ItemStatus, MonoTime, Policy, SessionOutcome};
use crate::event::Event;
use crate::queue::SESSION;
use crate::session::{Active, Ask, Held, Sessions, Waiter, Waiting};
use crate::store::queue::{self, AxisSet, NewItem, Queued};
use crate::store::{StoreError, state};
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

impl Change<'_> {
    /// A session waits from now on. Gives the number of its item.
    pub(super) fn queue(&mut self, session: u64, ask: Ask, limited: bool, reason: &str) -> Result<u64, StoreError> {
        let (class, policy, depends_on) = (ask.class, Policy::Drain, vec![Axis::Cc]);
        let new = NewItem {
            work_type: SESSION.to_owned(),
            call_site: "session".to_owned(),
            priority: class.priority(),
            payload: payload(session, &ask, limited),
            depends_on: AxisSet::of(&depends_on),
            policy,
            ttl: None,
            reason: reason.to_owned(),
            not_before: MonoTime::ZERO,
            expires_at: None,
            attempts_max: ATTEMPTS_MAX,
        };
        let Queued { id: item, merged } = queue::insert(self.tx, &new, self.now, self.wall)?;
        assert!(!merged, "SESSION-1: session {session} waits as the item of another");
        let priority = new.priority;
        self.events.push(Event::DeferredQueued {
            id: item,
            work_type: new.work_type,
            priority,
            policy,
            depends_on,
            merged,
            reason: reason.to_owned(),
            ttl_ms: None,
            not_before_ms: None,
        });
        self.waits(session, Waiter::new(ask, (priority, self.now, item), limited), reason);
        Ok(item)
    }

    /// A run did not finish its session: it waits again, at its old place if it had one. `false`: its slot was lost by
    /// somebody who never waited; there is nobody to wait for.
    pub(super) fn queue_again(&mut self, session: u64, active: Active, reason: &str) -> Result<bool, StoreError> {
        let Active { ask, held, limited, .. } = active;
        let Some(held) = held else {
            if limited {
                self.queue(session, ask, limited, reason)?;
            }
            return Ok(limited);
        };
        let Held { item: id, claim, .. } = held;
        let kept = queue::rewrite(self.tx, id, claim, &payload(session, &ask, limited))?
            && queue::release(self.tx, id, claim, 0, self.now, self.now, reason)?;
        if !kept {
            self.events.push(Event::LeaseLost { id });
            return Ok(false);
        }
        let reason_text = reason.to_owned();
        self.events.push(Event::DeferredReleased { id, not_before_ms: None, attempts: 0, reason: reason_text });
        let rank = held.rank(ask.class);
        self.waits(session, Waiter::new(ask, rank, limited), reason);
        Ok(true)
    }

    fn waits(&mut self, session: u64, waiter: Waiter, reason: &str) {
        let (class, item, reason) = (waiter.ask.class, waiter.item(), reason.to_owned());
        self.events.push(Event::SessionDeferred { session, class, item, reason });
        self.waiting.push((session, Some(waiter)));
    }

    /// A session is over: whoever waited for it has been told.
    pub(super) fn finish(&mut self, held: Held, outcome: SessionOutcome) -> Result<(), StoreError> {
        let why = match outcome {
            SessionOutcome::NotStarted => Some("it could not be started, and its caller knows"),
            SessionOutcome::Failed => Some("its command failed, and its caller knows"),
            SessionOutcome::Done | SessionOutcome::Limited | SessionOutcome::Lost => None,
        };
        self.finish_leased(held.item, held.claim, ItemStatus::Done, why)
    }

    pub(super) fn finish_leased(
        &mut self,
        id: u64,
        claim: u64,
        status: ItemStatus,
        why: Option<&str>,
    ) -> Result<(), StoreError> {
        if queue::finish(self.tx, id, claim, status, 0, self.now, why)? {
            self.ended(id, status, ItemStatus::Leased, why.unwrap_or_default());
        } else {
            self.events.push(Event::LeaseLost { id });
        }
        Ok(())
    }

    /// Ends the item of a session that waits.
    pub(super) fn end_waiting(&mut self, id: u64, status: ItemStatus, why: &str) -> Result<(), StoreError> {
        if queue::end_pending(self.tx, id, status, self.now, why)? {
            self.ended(id, status, ItemStatus::Pending, why);
        }
        Ok(())
    }

    fn ended(&mut self, id: u64, status: ItemStatus, was: ItemStatus, why: &str) {
        self.events.push(Event::DeferredFinished { id, status, was, reason: why.to_owned() });
        if status == ItemStatus::Dead {
            self.events.push(Event::DeadAdded { id, llm: false, reason: why.to_owned() });
        }
    }
}

impl Engine {
    /// Ends the items of sessions that nobody can make out any more.
    pub(in super::super) fn bury_damaged_sessions(&self) -> Result<(), StoreError> {
        let damaged: Vec<(u64, String)> = queue::session_items(self.0.store.borrow().reader())?
            .into_iter()
            .filter_map(|item| Some((item.id, read(&item.payload).err()?)))
            .collect();
        if damaged.is_empty() {
            return Ok(());
        }
        self.session_change(|change| {
            for (id, why) in &damaged {
                change.end_waiting(*id, ItemStatus::Dead, &format!("the stored row is damaged: {why}"))?;
            }
            Ok(())
        })
    }
}

fn read(payload: &str) -> Result<Payload, String> {
    serde_json::from_str(payload).map_err(|error| error.to_string())
}

/// What an earlier incarnation left: the machine, and those that wait. An item that cannot be read is left to
/// [`Engine::bury_damaged_sessions`].
pub fn restore(conn: &Connection) -> Result<(Sessions, Waiting), StoreError> {
    let sessions: Sessions = state::load(conn, STATE)?.unwrap_or_default();
    let mut waiting = Waiting::default();
    for item in queue::session_items(conn)? {
        if let (None, Ok(payload)) = (item.claim, read(&item.payload)) {
            let rank = (payload.ask.class.priority(), item.deferred_at, item.id);
            waiting.insert(payload.session, Waiter::new(payload.ask, rank, payload.limited));
        }
    }
    Ok((sessions, waiting))
}
