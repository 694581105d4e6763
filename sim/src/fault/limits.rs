//! Faults about allowances: `storm` and `limit`.
//!
//! A storm answers 429 to everything, with the wait that it names, or none if it names none. With a `capacity`, what
//! fits into it is let through (to the next fault, or to the server); each host has the capacity of its own. Who
//! comes back before a stated wait is over is counted by the server, storm or not. `limit` replaces the server's own
//! allowance (a full bucket at its first request) and draws nothing: `share` means nothing to it.
//! **Source:** scenario.md, "limits".

use super::board::Armed;
use crate::provider::{Call, Hint, Injected, Meter};
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
