//! What did not reach anybody, as the status file lists it.
//!
//! **Source:** engine.md 8 (undelivered notices).

use crate::base::{MonoTime, WallTime};
use serde::{Deserialize, Serialize};

/// So many are listed; older ones make room.
pub const LISTED_MAX: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndeliveredKind {
    /// A notice that no channel and no webhook took.
    Notice,
    /// A transition that the webhook did not take.
    Transition,
}

/// `wall` is for people only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undelivered {
    pub kind: UndeliveredKind,
    /// Names it: a notice's occasion, or `transition N`.
    pub key: String,
    pub at: MonoTime,
    pub wall: WallTime,
    pub what: String,
    pub why: String,
}
