//! Claude Code sessions: asked for, waited for, run by their owners, ended.
//!
//! Everything that changes the machine is one transaction with its rows and events ([`Engine::session_change`]); then the
//! levels are measured. One task ([`turn`]) does what time does, and starts those that wait.
//! **Source:** engine.md 6. SESSION-1.

mod item;
mod poll;
mod turn;

pub(super) use item::{STATE, restore};
pub(super) use poll::Polls;

use super::Engine;
use super::api::{SessionAsk, SessionError, SessionReply};
use crate::axis::shed;
use crate::base::rules::SessionRules;
use crate::base::{ItemStatus, MonoTime, SessionClass, SessionOutcome, Span, WallTime};
use crate::event::Event;
use crate::session::{Applied, Ask, Ended, Gone, Place, Rank, Refused, Sessions, Statement, Waiter, Want};
use crate::store::{StoreError, Tx, state};

/// The window of a limit that was only learned from how a session ended.
const UNKNOWN_WINDOW: &str = "unknown";
const KEY_BYTES_MAX: usize = 256;
const WINDOW_BYTES_MAX: usize = 64;
const PROGRESS_BYTES_MAX: usize = 16 << 10;

impl Engine {
    /// A slot now, or a place in the queue.
    ///
    /// **Errors:** the key's session runs or has another class, an illegal text, or a disk that does not store.
    pub fn session_ask(&self, asked: SessionAsk) -> Result<SessionReply, SessionError> {
        let SessionAsk { class, key, label } = asked;
        for (field, text) in [("key", &key), ("label", &label)] {
            check_length(field, KEY_BYTES_MAX, text.as_deref())?;
        }
        if let Some(key) = &key
            && let Some(reply) = self.ask_again(key, class)?
        {
            return Ok(reply);
        }
        let ask = Ask { class, key, label, progress: None };
        // Whoever waits with this priority was here before.
        let rank = (class.priority(), MonoTime(u64::MAX), u64::MAX);
        let may = self.may_start(Want { class, limited: false }, rank);
        let rules = &self.0.rules.sessions;
        let reply = self.session_change(|change| {
            let session = change.sessions.number();
            change.events.push(Event::SessionAsked { session, class });
            match may {
                Ok(trial) => {
                    let token = change.sessions.start(Place { session, ask, held: None, trial }, change.now, rules);
                    change.events.push(Event::SessionStarted { session, class, trial, item: None });
                    Ok(SessionReply::Started { session, token, lease: rules.lease, progress: None })
                }
                Err(Refused(reason)) => {
                    let item = change.queue(session, ask, false, &reason)?;
                    Ok(SessionReply::Waiting { session, item, reason })
                }
            }
        })?;
        Ok(reply)
    }

    /// The session that a key names already.
    fn ask_again(&self, key: &str, class: SessionClass) -> Result<Option<SessionReply>, SessionError> {
        let (session, waiter) = {
            let core = self.0.core.borrow();
            if let Some(session) = core.sessions.by_key(key) {
                return Err(SessionError::Runs { session });
            }
            let Some(session) = core.waiting.by_key(key) else { return Ok(None) };
            (session, core.waiting.get(session).expect("a key names a session that waits").clone())
        };
        if waiter.ask.class != class {
            let class = waiter.ask.class;
            return Err(SessionError::OtherClass { key: key.to_owned(), session, class });
        }
        let reason = match self.may_start(want(&waiter), waiter.rank) {
            Ok(trial) => match self.start_waiting(session, trial)? {
                Some(started) => {
                    // Whoever else waits for it has waited in vain.
                    self.0.polls.forget(session);
                    return Ok(Some(started));
                }
                None => return Err(SessionError::Over { session }),
            },
            Err(Refused(reason)) => reason,
        };
        Ok(Some(SessionReply::Waiting { session, item: waiter.item(), reason }))
    }

    /// Whether the one at this place in the queue may start now: it is admitted, and nobody before it is.
    fn may_start(&self, want: Want, rank: Rank) -> Result<bool, Refused> {
        let trial = self.admits(want)?;
        let core = self.0.core.borrow();
        let before = core.waiting.present().take_while(|(_, waiter)| waiter.rank < rank);
        for (_, waiter) in before {
            if self.admits(self::want(waiter)).is_ok() {
                return Err(Refused("sessions that were asked for before go first".to_owned()));
            }
        }
        Ok(trial)
    }

    fn admits(&self, want: Want) -> Result<bool, Refused> {
        let core = self.0.core.borrow();
        let level = core.levels().cc;
        let applied = Applied { level, admits: shed::cc_admits(level, want.class.priority()) };
        core.sessions.admits(want, applied, self.now(), &core.rules.sessions)
    }

    /// The owner of a session is there. Gives how long the slot is kept from now on.
    ///
    /// **Errors:** the slot was reclaimed.
    pub fn session_alive(&self, session: u64, token: u64) -> Result<Span, SessionError> {
        let renewed = self.0.decide(|core, now| {
            core.dirty.sessions = true;
            let rules = core.rules.clone();
            core.sessions.alive(session, token, now, &rules.sessions)
        });
        renewed.map_err(|Gone| self.gone(session))?;
        self.0.wake.flush.notify_one();
        Ok(self.0.rules.sessions.lease)
    }

    /// A session met a limit.
    ///
    /// **Errors:** the slot was reclaimed, an illegal window, or a disk that does not store.
    pub fn session_limit(
        &self,
        session: u64,
        token: u64,
        window: &str,
        resets_in: Option<Span>,
    ) -> Result<(), SessionError> {
        check_length("window", WINDOW_BYTES_MAX, Some(window))?;
        let rules = &self.0.rules.sessions;
        let statement = Statement { window, resets_in, jitter_unit: self.jitter() };
        self.session_change(|change| Ok(change.limit(session, token, statement, rules)))?
            .map_err(|Gone| self.gone(session))
    }

    /// A session ended. `true`: it waits for another run.
    ///
    /// **Errors:** the slot was reclaimed, an illegal text, or a disk that does not store.
    pub fn session_end(
        &self,
        session: u64,
        token: u64,
        outcome: SessionOutcome,
        progress: Option<String>,
    ) -> Result<bool, SessionError> {
        check_length("progress", PROGRESS_BYTES_MAX, progress.as_deref())?;
        let rules = &self.0.rules.sessions;
        let unsaid = Statement { window: UNKNOWN_WINDOW, resets_in: None, jitter_unit: self.jitter() };
        self.session_change(|change| {
            let Some(active) = change.sessions.get(session).filter(|active| active.token == token) else {
                return Ok(Err(Gone));
            };
            if outcome == SessionOutcome::Limited && !active.limited {
                change.limit(session, token, unsaid, rules).expect("the token was just compared");
            }
            let ended = change.sessions.end(session, token, outcome, change.now, rules);
            let Ended { mut active, answered } = ended.expect("the token was just compared");
            if answered {
                change.events.push(Event::SessionAnswered { session });
            }
            change.events.push(Event::SessionEnded { session, outcome });
            active.ask.progress = progress.or(active.ask.progress);
            if outcome == SessionOutcome::Limited {
                return change.queue_again(session, active, "a limit ended it").map(Ok);
            }
            if let Some(held) = active.held {
                change.finish(held, outcome)?;
            }
            Ok(Ok(false))
        })?
        .map_err(|Gone| self.gone(session))
    }

    /// Whoever asked no longer wants it.
    ///
    /// **Errors:** it runs, was never asked for, or a disk that does not store.
    pub fn session_cancel(&self, session: u64) -> Result<(), SessionError> {
        let item = match self.waiting_or(session) {
            Ok(item) => item,
            Err(SessionError::Over { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.session_change(|change| {
            change.end_waiting(item, ItemStatus::Discarded, "cancelled by the caller")?;
            change.waiting.push((session, None));
            Ok(())
        })?;
        self.0.polls.forget(session);
        Ok(())
    }

    /// The item of a session that waits. **Errors:** it does not wait.
    fn waiting_or(&self, session: u64) -> Result<u64, SessionError> {
        let core = self.0.core.borrow();
        match core.waiting.get(session) {
            Some(waiter) => Ok(waiter.item()),
            None if core.sessions.get(session).is_some() => Err(SessionError::Runs { session }),
            None if core.sessions.was_asked(session) => Err(SessionError::Over { session }),
            None => Err(SessionError::Unknown { session }),
        }
    }

    fn gone(&self, session: u64) -> SessionError {
        if self.0.core.borrow().sessions.was_asked(session) {
            SessionError::Gone { session }
        } else {
            SessionError::Unknown { session }
        }
    }

    /// One session event: the machine, its rows and its events in one transaction; then the levels are measured.
    ///
    /// **Errors:** the disk's; nothing changed.
    fn session_change<R>(&self, decision: impl FnOnce(&mut Change) -> Result<R, StoreError>) -> Result<R, StoreError> {
        let sessions = self.0.core.borrow().sessions.clone();
        let wall = self.0.ports.clock.wall();
        let (result, sessions, waiting) = self.0.commit(|tx, now, events| {
            let mut change = Change { tx, now, wall, sessions, events, waiting: Vec::new() };
            let result = decision(&mut change)?;
            let Change { sessions, waiting, .. } = change;
            state::save(tx, STATE, &sessions)?;
            Ok((result, sessions, waiting))
        })?;
        self.0.decide(|core, now| {
            core.sessions = sessions;
            for (session, waiter) in waiting {
                core.waiting.remove(session);
                if let Some(waiter) = waiter {
                    core.waiting.insert(session, waiter);
                }
            }
            core.measure(now);
        });
        self.0.wake.sessions.notify_one();
        Ok(result)
    }
}

/// A session event on its way into the database. What is not stored did not happen.
struct Change<'a> {
    tx: &'a Tx,
    now: MonoTime,
    wall: WallTime,
    sessions: Sessions,
    events: &'a mut Vec<Event>,
    /// Who waits from now on, and who no longer does.
    waiting: Vec<(u64, Option<Waiter>)>,
}

impl Change<'_> {
    fn limit(&mut self, session: u64, token: u64, statement: Statement, rules: &SessionRules) -> Result<(), Gone> {
        let until = self.sessions.limit(session, token, statement, self.now, rules)?;
        let (window, resets_in_ms) = (statement.window.to_owned(), statement.resets_in.map(Span::ms));
        self.events.push(Event::SessionLimited { session, window, resets_in_ms, until_ms: until.ms() });
        Ok(())
    }
}

fn want(waiter: &Waiter) -> Want {
    Want { class: waiter.ask.class, limited: waiter.limited }
}

fn check_length(field: &'static str, max: usize, text: Option<&str>) -> Result<(), SessionError> {
    match text.map(str::len) {
        Some(given) if given == 0 || given > max => Err(SessionError::Length { field, max, given }),
        Some(_) | None => Ok(()),
    }
}
