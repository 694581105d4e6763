//! What really runs against who holds a slot: no session runs without one, no slot is held by nobody.
//!
//! The processes' own word is in simulated runs only; in a production journal there is nothing to hold against.

use crate::check::Violation;
use crate::check::setting::Setting;
use crate::history::Entry;
use crate::model::session::{Sessions, Slot};
use squall::base::SessionOutcome;
use std::collections::{BTreeMap, BTreeSet};

/// The engine may take so long to act on what it knows.
const SLACK_MS: u64 = 1_000;

#[derive(Default)]
pub struct Truth {
    /// Since when each session that holds a slot does not run: it has not begun, or has ended.
    idle: BTreeMap<u64, u64>,
    /// Begun, and not ended: when.
    running: BTreeMap<u64, u64>,
    /// Those that have been told already.
    told: BTreeSet<u64>,
    spoken: bool,
}

impl Truth {
    pub fn started(&mut self, session: u64, now: u64) {
        self.idle.insert(session, now);
        self.told.remove(&session);
    }

    pub fn process(
        &mut self,
        entry: &Entry,
        session: u64,
        running: bool,
        sessions: &Sessions,
        setting: &Setting,
    ) -> Option<Violation> {
        self.spoken = true;
        if !running {
            self.running.remove(&session);
            if sessions.slot(session).is_some() {
                self.idle.insert(session, entry.t_ms);
            }
            return None;
        }
        self.idle.remove(&session);
        self.running.insert(session, entry.t_ms);
        // A slot that was given just before the engine died may have been reclaimed since.
        (setting.up && sessions.slot(session).is_none())
            .then(|| Violation::new(entry.t_ms, [entry.n], format!("session {session} runs without a slot")))
    }

    pub fn ended(
        &mut self,
        entry: &Entry,
        session: u64,
        outcome: SessionOutcome,
        slot: &Slot,
        setting: &Setting,
    ) -> Option<Violation> {
        self.idle.remove(&session);
        let since = *self.running.get(&session)?;
        // Nobody can say that he is alive to an engine that is down.
        let lease = setting.rules().map_or(0, |rules| rules.sessions.lease.ms());
        let heard = setting.started_ms() + lease < entry.t_ms || setting.started_ms() <= since;
        let what = match outcome {
            SessionOutcome::Lost if !heard => return None,
            SessionOutcome::Lost => {
                format!("the slot of session {session} is reclaimed while it runs, since {since} ms")
            }
            SessionOutcome::Done | SessionOutcome::Failed | SessionOutcome::Limited | SessionOutcome::NotStarted => {
                format!("the slot of session {session} is free while it runs, since {since} ms")
            }
        };
        Some(Violation::new(entry.t_ms, [slot.n, entry.n], what))
    }

    /// Slots that somebody still holds who is long gone.
    pub fn overdue(&mut self, now: u64, sessions: &Sessions, setting: &Setting) -> Vec<Violation> {
        if !self.spoken {
            return Vec::new();
        }
        let mut out = Vec::new();
        for (session, idle_ms) in &self.idle {
            let Some(slot) = sessions.slot(*session) else { continue };
            let due = (*idle_ms).max(setting.started_ms()) + sessions.rules().lease.ms() + SLACK_MS;
            if due < now && self.told.insert(*session) {
                let what = format!(
                    "session {session} still holds a slot at {now} ms, and nothing of it runs since {idle_ms} ms"
                );
                out.push(Violation::new(now, [slot.n], what));
            }
        }
        out
    }
}
