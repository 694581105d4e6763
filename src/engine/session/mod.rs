//! Claude Code sessions: asked for, waited for, run by their owners, ended.
//!
//! Everything that changes the machine is one transaction with its rows and events ([`Engine::session_change`]); then the
//! levels are measured. One task ([`turn`]) does what time does, and starts those that wait.
//! **Source:** engine.md 6. SESSION-1.

mod item;
mod poll;
mod turn;

pub(super) use item::{STATE, bury_damaged, restore};
pub(super) use poll::Polls;

use super::Engine;
use super::api::{SessionAsk, SessionError, SessionReply};
use crate::axis::shed;
use crate::base::{ItemStatus, MonoTime, SessionClass, SessionOutcome, Span};
use crate::event::Event;
use crate::session::{Applied, Ask, Gone, Place, Rank, Refused, Sessions, Waiter, Want};
use crate::store::{StoreError, Tx, queue, state};

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
        let wall = self.0.ports.clock.wall();
        let (reply, waiter) = self.session_change(|engine, tx, sessions, now, events| {
            let session = sessions.number();
            events.push(Event::SessionAsked { session, class });
            match may {
                Ok(trial) => {
                    let rules = &engine.0.rules.sessions;
                    let token = sessions.start(Place { session, ask, held: None, trial }, now, rules);
                    events.push(Event::SessionStarted { session, class, trial, item: None });
                    Ok((SessionReply::Started { session, token, lease: rules.lease, progress: None }, None))
                }
                Err(Refused(reason)) => {
                    let waiter = item::queue(tx, session, ask, false, &reason, now, wall, events)?;
                    Ok((SessionReply::Waiting { session, item: waiter.item(), reason }, Some((session, waiter))))
                }
            }
        })?;
        if let Some((session, waiter)) = waiter {
            self.0.core.borrow_mut().waiting.insert(session, waiter);
        }
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
                Some(started) => return Ok(Some(started)),
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
        let jitter = self.jitter();
        self.session_change(|engine, _, sessions, now, events| {
            let rules = &engine.0.rules.sessions;
            let until = sessions.limit(session, token, window, resets_in, jitter, now, rules);
            if let Ok(until) = until {
                events.push(limited(session, window, resets_in, until));
            }
            Ok(until.map(|_| ()))
        })?
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
        let jitter = self.jitter();
        let wall = self.0.ports.clock.wall();
        let waiter = self
            .session_change(|engine, tx, sessions, now, events| {
                let rules = &engine.0.rules.sessions;
                let unsaid = sessions.get(session).is_some_and(|active| !active.limited);
                if outcome == SessionOutcome::Limited && unsaid {
                    match sessions.limit(session, token, UNKNOWN_WINDOW, None, jitter, now, rules) {
                        Ok(until) => events.push(limited(session, UNKNOWN_WINDOW, None, until)),
                        Err(Gone) => return Ok(Err(Gone)),
                    }
                }
                let Ok(mut ended) = sessions.end(session, token, outcome, now, rules) else { return Ok(Err(Gone)) };
                if ended.answered {
                    events.push(Event::SessionAnswered { session });
                }
                events.push(Event::SessionEnded { session, outcome });
                ended.active.ask.progress = progress.or(ended.active.ask.progress);
                if outcome == SessionOutcome::Limited {
                    let reason = "a limit ended it";
                    return item::queue_again(tx, session, ended.active, true, reason, now, wall, events).map(Ok);
                }
                if let Some(held) = ended.active.held {
                    item::finish(tx, held, outcome, now, events)?;
                }
                Ok(Ok(None))
            })?
            .map_err(|Gone| self.gone(session))?;
        let waits = waiter.is_some();
        if let Some(waiter) = waiter {
            self.0.core.borrow_mut().waiting.insert(session, waiter);
        }
        Ok(waits)
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
        self.session_change(|_, tx, _, now, events| {
            let reason = "cancelled by the caller";
            if queue::end_pending(tx, item, ItemStatus::Discarded, now, reason)? {
                events.push(item::ended_pending(item, ItemStatus::Discarded, reason));
            }
            Ok(())
        })?;
        self.0.core.borrow_mut().waiting.remove(session);
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
    fn session_change<R>(
        &self,
        change: impl FnOnce(&Engine, &Tx, &mut Sessions, MonoTime, &mut Vec<Event>) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let mut sessions = self.0.core.borrow().sessions.clone();
        let result = self.0.commit(|tx, now, events| {
            let result = change(self, tx, &mut sessions, now, events)?;
            state::save(tx, STATE, &sessions)?;
            Ok(result)
        })?;
        self.0.decide(|core, now| {
            core.sessions = sessions;
            core.measure(now);
        });
        self.0.wake.sessions.notify_one();
        Ok(result)
    }
}

fn want(waiter: &Waiter) -> Want {
    Want { class: waiter.ask.class, limited: waiter.limited }
}

fn limited(session: u64, window: &str, resets_in: Option<Span>, until: MonoTime) -> Event {
    let (window, resets_in_ms) = (window.to_owned(), resets_in.map(Span::ms));
    Event::SessionLimited { session, window, resets_in_ms, until_ms: until.ms() }
}

fn check_length(field: &'static str, max: usize, text: Option<&str>) -> Result<(), SessionError> {
    match text.map(str::len) {
        Some(given) if given == 0 || given > max => Err(SessionError::Length { field, max, given }),
        Some(_) | None => Ok(()),
    }
}
