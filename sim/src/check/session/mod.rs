//! SESSION-1: the session budget, judged against a model of our own and against what really ran.

mod budget;
mod truth;
mod waiting;

pub use budget::Budget;

use crate::history::Entry;
use crate::model::session::{Sessions, Slot};
use squall::event::Event;

/// Tells the model what an event says about sessions, whether right or wrong; `true` if it says anything.
pub fn follow(sessions: &mut Sessions, entry: &Entry, event: &Event) -> bool {
    let (now, n) = (entry.t_ms, entry.n);
    if let Event::SessionStarted { session, class, trial, .. } = event {
        sessions.start(*session, Slot::new(*class, *trial, now, n), now);
    } else if let Event::SessionAnswered { session } = event {
        sessions.answer(*session);
    } else if let Event::SessionEnded { session, outcome } = event {
        sessions.end(*session, *outcome, now);
    } else if let Event::SessionLimited { session, window, until_ms, .. } = event {
        sessions.limit(*session, window, *until_ms);
    } else {
        return false;
    }
    true
}
