//! Those who wait for a slot: in their order, and not a moment longer than they have to.
//!
//! Only who has a present waiter counts: the engine says when one comes and goes (`session.waiter`). An item without one
//! keeps its place and blocks nobody.

use super::budget::admits;
use crate::check::Violation;
use crate::history::Entry;
use crate::model::ledger::Rank;
use crate::model::session::Sessions;
use squall::base::{Level, SessionClass, SessionOutcome};
use squall::event::Event;
use std::collections::{BTreeMap, BTreeSet};

/// The engine may take so long to act on what it knows.
const SLACK_MS: u64 = 1_000;

#[derive(Default)]
pub struct Waiting {
    /// When each item was deferred, and its priority; until it is finished.
    items: BTreeMap<u64, (u8, u64)>,
    waits: BTreeMap<u64, Waits>,
    /// Sessions whose last run a limit ended.
    limited: BTreeSet<u64>,
    /// When something of all this moved last.
    moved_ms: u64,
    told: bool,
}

struct Waits {
    class: SessionClass,
    rank: Rank,
    present: bool,
    n: u64,
}

impl Waiting {
    /// The engine is down: nobody can wait.
    pub fn everyone_left(&mut self) {
        self.waits.values_mut().for_each(|waits| waits.present = false);
    }

    pub fn observe(&mut self, entry: &Entry, event: &Event) {
        if let Event::DeferredQueued { id, priority, merged: false, .. } = event {
            self.items.insert(*id, (*priority, entry.t_ms));
        } else if let Event::DeferredFinished { id, .. } = event {
            self.items.remove(id);
            self.waits.retain(|_, waits| waits.rank.2 != *id);
        } else if let Event::SessionDeferred { session, class, item, .. } = event {
            let (priority, at_ms) = self.items.get(item).copied().unwrap_or((class.priority(), entry.t_ms));
            let present = self.waits.get(session).is_some_and(|waits| waits.present);
            let rank = (priority, at_ms, *item);
            self.waits.insert(*session, Waits { class: *class, rank, present, n: entry.n });
        } else if let Event::SessionWaiter { session, present } = event {
            if let Some(waits) = self.waits.get_mut(session) {
                waits.present = *present;
            }
        } else {
            // What else moves the budget.
            let moves = matches!(
                event,
                Event::SessionStarted { .. }
                    | Event::SessionEnded { .. }
                    | Event::SessionAnswered { .. }
                    | Event::SessionLimited { .. }
                    | Event::AxisChanged { .. }
            );
            if !moves {
                return;
            }
        }
        self.moved_ms = entry.t_ms;
        self.told = false;
    }

    pub fn ended(&mut self, session: u64, outcome: SessionOutcome) {
        if outcome == SessionOutcome::Limited {
            self.limited.insert(session);
        } else {
            self.limited.remove(&session);
        }
    }

    /// Nobody who waits is overtaken: who comes earlier in the queue has at least the same rights.
    pub fn started(
        &mut self,
        entry: &Entry,
        session: u64,
        class: SessionClass,
        item: Option<u64>,
    ) -> Option<Violation> {
        let own = self.waits.remove(&session).map(|waits| waits.rank);
        let kept = item.and_then(|item| Some((self.items.get(&item)?, item)));
        let kept = kept.map(|((priority, at_ms), item)| (*priority, *at_ms, item));
        let rank = own.or(kept).unwrap_or((class.priority(), entry.t_ms, u64::MAX));
        // A limit holds back who was ended by one, even in foreground.
        let ahead = |other: &Waits, number: &u64| {
            other.present && other.rank < rank && !(self.limited.contains(number) && class == SessionClass::Foreground)
        };
        let (other, waits) = self.waits.iter().find(|(number, waits)| ahead(waits, number))?;
        let what =
            format!("session {session} {rank:?} is started before session {other} {:?}, which waits", waits.rank);
        Some(Violation::new(entry.t_ms, [waits.n, entry.n], what))
    }

    /// Somebody could have been started before `now`, and was not.
    pub fn overdue(&mut self, now: u64, sessions: &Sessions, applied: Level) -> Option<Violation> {
        if self.told {
            return None;
        }
        // A waiter counts as present between two polls, and a slot is given into a poll only.
        let grace = sessions.rules().waiter_grace.ms();
        let (session, waits, at_ms) =
            self.waits.iter().filter(|(_, waits)| waits.present).find_map(|(session, waits)| {
                let limited = self.limited.contains(session);
                let at_ms = sessions.opens_at(waits.class, limited, self.moved_ms)?;
                // While a trouble is being proven gone the level stays, and one at a time is let in.
                let proving = sessions.is_unproven() || sessions.confirming(at_ms).is_some();
                let fits = proving || admits(applied, waits.class);
                (fits && at_ms + grace + SLACK_MS < now).then_some((*session, waits, at_ms))
            })?;
        self.told = true;
        let class = waits.class.name();
        let what = format!("{class} session {session} still waits at {now} ms though it could start since {at_ms} ms");
        Some(Violation::new(now, [waits.n], what))
    }
}
