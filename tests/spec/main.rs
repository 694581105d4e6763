//! What the two systems before this one were seen to do, row by row, against the production machines.
//!
//! A *case* is one observed behaviour: given, when, then, under an id. Where the design wants the same, the case is a row
//! of its area's table; where the design wants something else, it stands in `conflicts.toml` with the sentence that says
//! so. No case is in both, none in neither: [`register`] counts them.
//! **Source:** engine.md 2, 3, 6.

mod backoff;
mod bench;
mod cc_budget;
mod circuit_breaker;
mod degradation;
mod error_category;
mod flapping;
mod legacy_mapping;
mod rate_gate;
mod register;
mod router;
mod state_machine;
mod system_degradation;

use std::panic::catch_unwind;

/// One case: its id, what it says, and the proof.
pub struct Row {
    pub id: &'static str,
    pub case: &'static str,
    check: fn(),
}

pub fn row(id: &'static str, case: &'static str, check: fn()) -> Row {
    Row { id, case, check }
}

/// Checks every row, and names all that do not hold.
pub fn check(rows: &[Row]) {
    let broken: Vec<String> = rows
        .iter()
        .filter(|row| catch_unwind(row.check).is_err())
        .map(|row| format!("{}: {}", row.id, row.case))
        .collect();
    assert!(broken.is_empty(), "{} of {} rows do not hold:\n{}", broken.len(), rows.len(), broken.join("\n"));
}
