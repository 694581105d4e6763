//! Faults about allowances: `storm`, `limit` and `session_limit`.
//!
//! A storm answers 429 to everything, with the wait that it names, or none if it names none. With a `capacity`, what
//! fits into it is let through (to the next fault, or to the server); each host has the capacity of its own. Who
//! comes back before a stated wait is over is counted by the server, storm or not. `limit` replaces the server's own
//! allowance (a full bucket at its first request) and draws nothing: `share` means nothing to it.
//! A session limit refuses every turn of a session while it lasts, and states the first of its resets that is still ahead.
//! **Source:** scenario.md, "limits".

use super::board::Armed;
use crate::provider::{Call, Hint, Injected, Limited, Meter};
use crate::scenario::FaultKind;

/// The storm's answer; `None` if the fault is no storm, or the request fits into its capacity.
pub fn storm(armed: &mut Armed, call: &Call<'_>) -> Option<Injected> {
    let FaultKind::Storm { retry_after, capacity } = &armed.acts else { return None };
    if let Some(capacity) = capacity {
        let meter = armed.capacity.entry(call.host.to_owned()).or_insert_with(|| Meter::new(*capacity, call.now_ms));
        if meter.admit(call.tokens, call.now_ms).is_ok() {
            return None;
        }
    }
    Some(Injected::Storm { hint: Hint::given(retry_after.as_ref(), Hint::None) })
}

/// What a session limit says now; `None` if the fault is none.
pub fn session(armed: &Armed, call: &Call<'_>) -> Option<Limited> {
    let FaultKind::SessionLimit(limit) = &armed.acts else { return None };
    let resets_ms = limit.resets.iter().map(|reset| reset.ms()).find(|reset| *reset > call.now_ms);
    let (window, message, zone) = (limit.window.clone(), limit.message.clone(), limit.zone.clone());
    Some(Limited { window, resets_ms, message, zone })
}
