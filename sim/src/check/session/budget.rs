//! SESSION-1: who is started, and when.
//!
//! Every start is held against the model: the cap, the slot kept for foreground, limits and what follows them, the hour's
//! budget, UNAVAILABLE, the applied level. An answer must be one. Who waits is judged in [`waiting`](super::waiting), what
//! really runs in [`truth`](super::truth).
//! **Source:** engine.md 6.

use super::truth::Truth;
use super::waiting::Waiting;
use crate::check::setting::{Setting, Start};
use crate::check::{Check, Violation};
use crate::history::{Entry, Outside, What};
use crate::model::session::{Sessions, Slot};
use squall::base::{Axis, Level, SessionClass, SessionOutcome};
use squall::event::Event;

#[derive(Default)]
pub struct Budget {
    setting: Setting,
    sessions: Option<Sessions>,
    waiting: Waiting,
    truth: Truth,
    /// The level of `cc` that is applied.
    applied: Option<Level>,
    /// Answers of this instant: their session, entry, and when it was started.
    answers: Vec<(u64, u64, u64)>,
    /// Sessions that ended well in this instant.
    ended_well: Vec<u64>,
    now: u64,
    judged: u64,
}

impl Check for Budget {
    fn id(&self) -> &'static str {
        "SESSION-1"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if entry.t_ms != self.now {
            self.settle(out);
            self.time(entry, out);
            self.now = entry.t_ms;
        }
        if let Some(start) = self.setting.observe(entry) {
            self.start(&start);
            return;
        }
        if !self.setting.up {
            self.waiting.everyone_left();
        }
        match &entry.what {
            What::Engine(event) => self.engine(entry, event, out),
            What::Outside(Outside::SessionProcess { session: Some(session), running, .. }) => {
                let Some(sessions) = &self.sessions else { return };
                self.judged += 1;
                out.extend(self.truth.process(entry, *session, *running, sessions, &self.setting));
            }
            What::Outside(_) | What::World(_) => {}
        }
    }

    fn finish(&mut self, out: &mut Vec<Violation>) {
        self.settle(out);
    }

    fn judged(&self) -> u64 {
        self.judged
    }
}

impl Budget {
    fn start(&mut self, start: &Start) {
        let rules = &self.setting.rules().expect("a start brings its rules").sessions;
        match &mut self.sessions {
            Some(sessions) if !start.fresh => sessions.with_rules(rules),
            sessions => {
                *sessions = Some(Sessions::new(rules));
                self.waiting = Waiting::default();
            }
        }
        self.waiting.everyone_left();
        self.applied = Some(start.levels.cc);
    }

    /// Between two instants nothing happened: nothing may have been due.
    fn time(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        let Some(sessions) = &mut self.sessions else { return };
        if !self.setting.up {
            return;
        }
        out.extend(self.truth.overdue(entry.t_ms, sessions, &self.setting));
        let applied = self.applied.unwrap_or(Level::Normal);
        if let Some(violation) = self.waiting.overdue(entry.t_ms, sessions, applied) {
            out.push(violation);
        }
        sessions.now(entry.t_ms);
    }

    fn engine(&mut self, entry: &Entry, event: &Event, out: &mut Vec<Violation>) {
        let (now, n) = (entry.t_ms, entry.n);
        let Some(sessions) = &mut self.sessions else { return };
        self.waiting.observe(entry, event);
        if let Event::SessionStarted { session, class, trial, item } = event {
            self.judged += 1;
            let slot = Slot::new(*class, *trial, now, n);
            let unproven = sessions.is_unproven();
            let level = self.applied.unwrap_or(Level::Normal);
            let mut wrong = sessions.start(*session, slot, now);
            if !*trial && !unproven && !admits(level, *class) {
                wrong.push(format!("{} session {session} is started while cc is {level}", class.name()));
            }
            out.extend(wrong.into_iter().map(|what| Violation::new(now, [n], what)));
            out.extend(self.waiting.started(entry, *session, *class, *item));
            self.truth.started(*session, now);
        } else if let Event::SessionAnswered { session } = event {
            self.judged += 1;
            match sessions.slot(*session) {
                Some(slot) if slot.answered => {
                    out.push(Violation::new(now, [slot.n, n], format!("session {session} is answered twice")));
                }
                Some(slot) if slot.limited => {
                    out.push(Violation::new(
                        now,
                        [slot.n, n],
                        format!("session {session} is answered, and was limited"),
                    ));
                }
                Some(slot) => self.answers.push((*session, n, slot.started_ms)),
                None => out.push(Violation::new(now, [n], format!("session {session} is answered without a slot"))),
            }
            sessions.answer(*session);
        } else if let Event::SessionEnded { session, outcome } = event {
            self.judged += 1;
            if matches!(outcome, SessionOutcome::Done | SessionOutcome::Failed) {
                self.ended_well.push(*session);
            }
            match sessions.end(*session, *outcome, now) {
                None => out.push(Violation::new(now, [n], format!("session {session} ends without a slot"))),
                Some(slot) => {
                    let well = matches!(outcome, SessionOutcome::Done | SessionOutcome::Failed);
                    if well && !slot.answered && !slot.limited {
                        let what = format!("session {session} ended without a limit, and was not answered");
                        out.push(Violation::new(now, [slot.n, n], what));
                    }
                    out.extend(self.truth.ended(entry, *session, *outcome, &slot, &self.setting));
                }
            }
            self.waiting.ended(*session, *outcome);
        } else if let Event::SessionLimited { session, window, until_ms, .. } = event {
            sessions.limit(*session, window, *until_ms);
        } else if let Event::AxisChanged { axis: Axis::Cc, to, .. } = event {
            self.applied = Some(*to);
        }
    }

    /// The instant is over: its answers were some.
    fn settle(&mut self, out: &mut Vec<Violation>) {
        let Some(sessions) = &self.sessions else { return };
        let answered_after = sessions.rules().answered_after.ms();
        for (session, n, started_ms) in std::mem::take(&mut self.answers) {
            let ran = self.now - started_ms;
            if ran < answered_after && !self.ended_well.contains(&session) {
                let what = format!("session {session} is answered after {ran} ms, and has not ended");
                out.push(Violation::new(self.now, [n], what));
            }
        }
        self.ended_well.clear();
    }
}

/// Whether the level lets sessions of this class in.
pub(super) fn admits(level: Level, class: SessionClass) -> bool {
    match class {
        SessionClass::Foreground => level != Level::Unavailable,
        SessionClass::Reflection => matches!(level, Level::Normal | Level::Throttled),
        SessionClass::Background => level == Level::Normal,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
