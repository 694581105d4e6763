//! The task of the sessions: what time does to them, and whose turn it is.

use super::super::Engine;
use super::super::api::SessionReply;
use super::{item, want};
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
        let wall = self.0.ports.clock.wall();
        let lost = self.session_change(|engine, tx, sessions, now, events| {
            let mut lost = Vec::new();
            for happened in sessions.timer(now, &engine.0.rules.sessions) {
                match happened {
                    Happened::Answered { session } => events.push(Event::SessionAnswered { session }),
                    Happened::Lost { session, active } => {
                        events.push(Event::SessionEnded { session, outcome: SessionOutcome::Lost });
                        let (limited, reason) = (active.limited, "nothing was heard of it for too long");
                        let waiter = item::queue_again(tx, session, *active, limited, reason, now, wall, events)?;
                        lost.extend(waiter.map(|waiter| (session, waiter)));
                    }
                }
            }
            Ok(lost)
        })?;
        let mut core = self.0.core.borrow_mut();
        for (session, waiter) in lost {
            core.waiting.insert(session, waiter);
        }
        Ok(())
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
        let waiter = self.0.core.borrow().waiting.get(session).expect("only who waits is started").clone();
        let item = waiter.item();
        let reply = self.session_change(|engine, tx, sessions, now, events| {
            let Some(claimed) = queue::lease(tx, item, owner, None)? else {
                events.push(Event::LeaseLost { id: item });
                return Ok(None);
            };
            let (work_type, priority, claim) = (claimed.work_type, claimed.priority, claimed.token);
            events.push(Event::DeferredRun { id: item, work_type, priority, token: claim });
            if !claimed.intact {
                let reason = "the stored row is damaged".to_owned();
                queue::finish(tx, item, claim, ItemStatus::Dead, 0, now, Some(&reason))?;
                events.push(Event::DeferredFinished {
                    id: item,
                    status: ItemStatus::Dead,
                    was: ItemStatus::Leased,
                    reason: reason.clone(),
                });
                events.push(Event::DeadAdded { id: item, llm: false, reason });
                return Ok(None);
            }
            let rules = &engine.0.rules.sessions;
            let (class, progress) = (waiter.ask.class, waiter.ask.progress.clone());
            let held = Some(Held { item, claim, deferred_at: claimed.deferred_at });
            let token = sessions.start(Place { session, ask: waiter.ask, held, trial }, now, rules);
            events.push(Event::SessionStarted { session, class, trial, item: Some(item) });
            Ok(Some(SessionReply::Started { session, token, lease: rules.lease, progress }))
        })?;
        self.0.core.borrow_mut().waiting.remove(session);
        if reply.is_none() {
            self.0.polls.forget(session);
        }
        Ok(reply)
    }
}
