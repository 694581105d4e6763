//! What came of an attempt and of a call: one classification per result.
//!
//! **Source:** engine.md 3 (table of outcomes).

use serde::{Deserialize, Serialize};

/// What one attempt at one entry came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// 2xx with a complete, valid body.
    Success,
    /// Refused, reset, DNS, timeout, 408, 409, 425, 3xx, 5xx, malformed or cut body, 401/403 on a key that worked.
    ProviderFault,
    /// 529, or a queue that is full: all customers wait.
    Overloaded,
    /// 429 with a rate reason.
    Throttled,
    /// Out of quota, spend limit, subscription window.
    Quota,
    /// 401/403 on a key that never worked.
    BadKey,
    /// 400, 404, 413, 422 and other 4xx: another entry would say the same.
    CallersFault,
    /// Model not found, context too long: this entry can't, another may.
    Unfit,
    /// Never sent: breaker, park or budget said no.
    Refused,
    /// The caller went away.
    Cancelled,
}

impl Outcome {
    /// Whether it counts against the entry's breaker.
    pub fn is_failure(self) -> bool {
        match self {
            Outcome::ProviderFault | Outcome::Overloaded => true,
            Outcome::Success
            | Outcome::Throttled
            | Outcome::Quota
            | Outcome::BadKey
            | Outcome::CallersFault
            | Outcome::Unfit
            | Outcome::Refused
            | Outcome::Cancelled => false,
        }
    }

    /// Whether the next entry of the chain may be asked.
    pub fn goes_on(self) -> bool {
        match self {
            Outcome::ProviderFault
            | Outcome::Overloaded
            | Outcome::Throttled
            | Outcome::Quota
            | Outcome::BadKey
            | Outcome::Unfit
            | Outcome::Refused => true,
            Outcome::Success | Outcome::CallersFault | Outcome::Cancelled => false,
        }
    }
}

/// What a call came to, as its caller learns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    Ok,
    /// A stream that ended early: what came is returned and marked.
    Truncated,
    /// Nothing could be asked now: breakers, parks or level.
    Refused,
    /// Handed to the queue.
    Deferred,
    /// Asked, and every permitted attempt failed, or it was the request's own fault.
    Failed,
    /// The caller went away.
    Cancelled,
}
