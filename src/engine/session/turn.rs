//! The task of the sessions: what time does to them, and whose turn it is.

use super::super::Engine;
use super::super::api::SessionReply;
use super::want;
use crate::base::{ItemStatus, MonoTime, SessionOutcome, Span};
use crate::event::Event;
use crate::session::{Happened, Held, Place};
use crate::store::{StoreError, queue};
use tokio::task::spawn_local;

/// A disk that refused gets this long.
const REST: Span = Span::from_secs(1);

impl Engine {
    pub(in super::super) fn spawn_sessions(&self) {
        spawn_local(self.clone().session_turns());
    }

    async fn session_turns(self) {
        loop {
            match self.session_turn() {
                Ok(()) => {
                    let due = self.sessions_due();
                    self.sleep_or(due, &self.0.wake.sessions).await;
                }
                // Told by `commit`.
                Err(_) => self.0.ports.clock.sleep_until(self.now() + REST).await,
            }
        }
    }

    fn sessions_due(&self) -> Option<MonoTime> {
        let core = self.0.core.borrow();
        core.sessions.due(&core.rules.sessions).into_iter().chain(core.waiting.due()).min()
    }

    fn session_turn(&self) -> Result<(), StoreError> {
        self.waiters_gone();
        if self.0.core.borrow().sessions.due(&self.0.rules.sessions).is_some_and(|due| due <= self.now()) {
            self.session_time()?;
        }
        while let Some((session, trial)) = self.next_start() {
            if let Some(started) = self.start_waiting(session, trial)? {
                self.0.polls.tell(session, &started);
            }
        }
        Ok(())
    }

    fn waiters_gone(&self) {
        self.0.decide(|core, now| {
            for session in core.waiting.timer(now) {
                core.events.push(Event::SessionWaiter { session, present: false });
            }
        });
    }

    /// Answers, limits that are over, and slots of owners that nothing was heard of.
    fn session_time(&self) -> Result<(), StoreError> {
        self.session_change(|change| {
            for happened in change.sessions.timer(change.now, &self.0.rules.sessions) {
                match happened {
                    Happened::Answered { session } => change.events.push(Event::SessionAnswered { session }),
                    Happened::Lost { session, active } => {
                        change.events.push(Event::SessionEnded { session, outcome: SessionOutcome::Lost });
                        change.queue_again(session, *active, "nothing was heard of it for too long")?;
                    }
                }
            }
            Ok(())
        })
    }

    /// The first that may start and is being waited for this moment. One whose waiter is between two polls keeps its turn.
    fn next_start(&self) -> Option<(u64, bool)> {
        let core = self.0.core.borrow();
        let admitted = |(session, waiter)| self.admits(want(waiter)).ok().map(|trial| (session, waiter, trial));
        let (session, waiter, trial) = core.waiting.present().find_map(admitted)?;
        waiter.is_polled().then_some((session, trial))
    }

    /// Gives a slot to a session that waits. `None`: its item cannot be run, and the session is over.
    pub(super) fn start_waiting(&self, session: u64, trial: bool) -> Result<Option<SessionReply>, StoreError> {
        let owner = self.0.store.borrow().incarnation;
        let rules = &self.0.rules.sessions;
        let waiter = self.0.core.borrow().waiting.get(session).expect("only who waits is started").clone();
        let (item, class, progress) = (waiter.item(), waiter.ask.class, waiter.ask.progress.clone());
        let reply = self.session_change(|change| {
            change.waiting.push((session, None));
            let Some(claimed) = queue::lease(change.tx, item, owner, None)? else {
                change.events.push(Event::LeaseLost { id: item });
                return Ok(None);
            };
            let (work_type, priority, claim) = (claimed.work_type, claimed.priority, claimed.token);
            change.events.push(Event::DeferredRun { id: item, work_type, priority, token: claim });
            if !claimed.intact {
                change.finish_leased(item, claim, ItemStatus::Dead, Some("the stored row is damaged"))?;
                return Ok(None);
            }
            let held = Some(Held { item, claim, deferred_at: claimed.deferred_at });
            let token = change.sessions.start(Place { session, ask: waiter.ask, held, trial }, change.now, rules);
            change.events.push(Event::SessionStarted { session, class, trial, item: Some(item) });
            Ok(Some(SessionReply::Started { session, token, lease: rules.lease, progress }))
        })?;
        if reply.is_none() {
            self.0.polls.forget(session);
        }
        Ok(reply)
    }
}
