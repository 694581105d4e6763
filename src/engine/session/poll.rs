//! Long polls: whoever waits for a session is its item's consumer.

use super::super::Engine;
use super::super::api::{SessionError, SessionReply};
use super::want;
use crate::base::Span;
use crate::event::Event;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// A poll is answered after this long at the latest: no proxy on the way gives up before.
const LONGEST: Span = Span::from_secs(20);

/// The open polls, by session and by the order in which they came.
#[derive(Default)]
pub struct Polls {
    open: RefCell<BTreeMap<(u64, u64), oneshot::Sender<SessionReply>>>,
    newest: Cell<u64>,
}

impl Polls {
    fn open(&self, session: u64) -> (u64, oneshot::Receiver<SessionReply>) {
        let number = self.newest.get() + 1;
        self.newest.set(number);
        let (tell, told) = oneshot::channel();
        self.open.borrow_mut().insert((session, number), tell);
        (number, told)
    }

    /// The oldest poll gets the slot; the others learn that the session waits no longer.
    pub fn tell(&self, session: u64, reply: &SessionReply) {
        for tell in self.take(session) {
            if tell.send(reply.clone()).is_ok() {
                return;
            }
        }
    }

    /// The session waits no longer.
    pub fn forget(&self, session: u64) {
        drop(self.take(session));
    }

    fn take(&self, session: u64) -> Vec<oneshot::Sender<SessionReply>> {
        let mut open = self.open.borrow_mut();
        let mut later = open.split_off(&(session, 0));
        let mut others = later.split_off(&(session + 1, 0));
        open.append(&mut others);
        later.into_values().collect()
    }
}

/// An open poll; closed when dropped, whatever became of the one who polls.
struct Poll<'a> {
    engine: &'a Engine,
    session: u64,
    number: u64,
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        let inner = &self.engine.0;
        inner.polls.open.borrow_mut().remove(&(self.session, self.number));
        let grace = inner.rules.sessions.waiter_grace;
        inner.core.borrow_mut().waiting.poll_closed(self.session, self.engine.now(), grace);
        inner.wake.sessions.notify_one();
    }
}

impl Engine {
    /// Waits until the session has a slot, at most 20 s.
    ///
    /// **Errors:** it does not wait, or no longer.
    pub async fn session_wait(&self, session: u64) -> Result<SessionReply, SessionError> {
        self.waiting_or(session)?;
        let (number, told) = self.0.polls.open(session);
        let _poll = Poll { engine: self, session, number };
        self.0.decide(|core, _| {
            if core.waiting.poll_opened(session) {
                core.events.push(Event::SessionWaiter { session, present: true });
            }
        });
        self.0.wake.sessions.notify_one();
        let until = self.now() + LONGEST;
        tokio::select! {
            biased;
            told = told => if let Ok(started) = told { return Ok(started) },
            () = self.0.ports.clock.sleep_until(until) => {}
        }
        let item = self.waiting_or(session)?;
        let place = self.0.core.borrow().waiting.get(session).map(|waiter| (want(waiter), waiter.rank));
        let refused = place.and_then(|(want, rank)| self.may_start(want, rank).err());
        let reason = refused.map_or_else(|| "it is about to start".to_owned(), |refused| refused.0);
        Ok(SessionReply::Waiting { session, item, reason })
    }
}
