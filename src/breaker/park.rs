//! A park: the entry was told to wait, and after the wait it has to prove itself.
//!
//! Length = the stated wait, else our own back-off; from the second refusal in a row the larger of both. When it ends, one
//! call at a time passes until three have answered. While a chain of the entry has no serving entry, the park ends with the
//! stated wait (own back-off capped at 30 s). A longer deadline always wins over a shorter one.
//! Invariant: LIMIT-1. **Source:** engine.md 3 (park).

use crate::base::rules::ParkRules;
use crate::base::{MonoTime, Span};
use crate::event::{ParkScope, ParkWhy};
use serde::{Deserialize, Serialize};

/// A park longer than this counts for the cloud axis until the entry serves again.
pub const LONG: Span = Span::from_secs(60);
/// Our own back-off at most, while a chain has no serving entry.
pub const BACKOFF_CHAIN_DOWN_MAX: Span = Span::from_secs(30);
/// How often a quota park without a stated reset is probed, while a chain has no serving entry.
pub const QUOTA_PROBE_EVERY: Span = Span::from_mins(5);

/// A decided park, ready to be applied to every entry in its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkOrder {
    pub scope: ParkScope,
    pub why: ParkWhy,
    /// The wait that the answer stated, capped.
    pub hint: Option<Span>,
    pub until: MonoTime,
    /// Where it ends while a chain has no serving entry.
    pub until_chain_down: MonoTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InForce {
    since: MonoTime,
    until: MonoTime,
    until_chain_down: MonoTime,
    why: ParkWhy,
    /// Somebody stated when it ends.
    stated: bool,
    /// The last refusal or probe inside it.
    asked_at: MonoTime,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Park {
    in_force: Option<InForce>,
    /// After a park: answers in a row so far.
    confirming: Option<u32>,
    /// When the last refusal came in. What was admitted before it says nothing about what came after.
    refused_at: Option<MonoTime>,
    refusals_in_row: u32,
    /// Steps of our own back-off used so far.
    backoffs: u32,
    /// Its park exceeded [`LONG`] and it has not served since.
    long: bool,
}

impl Park {
    pub fn is_in_force(&self) -> bool {
        self.in_force.is_some()
    }

    /// When the park in force ends.
    pub fn end(&self, chain_down: bool) -> Option<MonoTime> {
        self.in_force.map(|park| if chain_down { park.until_chain_down } else { park.until })
    }

    pub fn why(&self) -> Option<ParkWhy> {
        self.in_force.map(|park| park.why)
    }

    /// A park is over, and the answers that prove it are not complete.
    pub fn is_confirming(&self) -> bool {
        self.in_force.is_none() && self.confirming.is_some()
    }

    pub fn is_long(&self) -> bool {
        self.long
    }

    /// A quota park without a stated reset whose last question is long enough ago.
    pub fn wants_quota_probe(&self, now: MonoTime) -> bool {
        self.in_force
            .is_some_and(|park| park.why == ParkWhy::Quota && !park.stated && now - park.asked_at >= QUOTA_PROBE_EVERY)
    }

    /// What a throttled or quota answer to an attempt admitted at `admitted` asks for.
    ///
    /// An attempt that was under way when the last refusal came in belongs to the same refusal: a burst of five calls that
    /// are all refused is one refusal in a row, not five.
    pub fn refused(
        &mut self,
        why: ParkWhy,
        hint: Option<Span>,
        scope: ParkScope,
        admitted: MonoTime,
        now: MonoTime,
        rules: &ParkRules,
    ) -> ParkOrder {
        let same_refusal = self.refused_at.is_some_and(|at| admitted <= at);
        if !same_refusal {
            self.refusals_in_row = self.refusals_in_row.saturating_add(1);
        }
        let hint = hint.map(|hint| hint.min(hint_max(why, rules)));
        let backoff_needed = self.refusals_in_row >= 2 || (why == ParkWhy::Throttled && hint.is_none());
        let backoff = if backoff_needed {
            if !same_refusal || self.backoffs == 0 {
                self.backoffs = self.backoffs.saturating_add(1);
            }
            own_backoff(self.backoffs, rules)
        } else {
            Span::ZERO
        };
        let (length, length_chain_down) = match (why, hint) {
            (ParkWhy::Throttled | ParkWhy::Quota, Some(hint)) => (hint.max(backoff), hint),
            (ParkWhy::Throttled, None) => (backoff, backoff.min(BACKOFF_CHAIN_DOWN_MAX)),
            // It does not end early; it is probed instead.
            (ParkWhy::Quota, None) => (rules.quota.max(backoff), rules.quota.max(backoff)),
        };
        ParkOrder { scope, why, hint, until: now + length, until_chain_down: now + length_chain_down }
    }

    /// Applies an order, of this entry or of a sibling in its scope, and says when the park ends now.
    ///
    /// What is ordered while a chain has no serving entry keeps that end when the chain serves again: after an outage of
    /// everything the second entry is not kept out by the steps its back-off climbed in it.
    pub fn apply(&mut self, order: ParkOrder, chain_down: bool, now: MonoTime) -> MonoTime {
        let ordered = InForce {
            since: now,
            until: if chain_down { order.until_chain_down } else { order.until },
            until_chain_down: order.until_chain_down,
            why: order.why,
            stated: order.hint.is_some(),
            asked_at: now,
        };
        let park = match self.in_force {
            None => ordered,
            Some(earlier) => {
                let longer = if ordered.until >= earlier.until { ordered } else { earlier };
                InForce {
                    since: earlier.since,
                    until: earlier.until.max(ordered.until),
                    until_chain_down: earlier.until_chain_down.max(ordered.until_chain_down),
                    asked_at: now,
                    ..longer
                }
            }
        };
        self.in_force = Some(park);
        self.confirming = None;
        self.refused_at = Some(now);
        self.long |= park.until - park.since > LONG;
        park.until
    }

    /// Ends the park if it is over at `now`; true if it did.
    pub fn timer(&mut self, now: MonoTime, chain_down: bool, rules: &ParkRules) -> bool {
        match self.end(chain_down) {
            Some(end) if now >= end => {
                self.end_park(rules);
                true
            }
            Some(_) | None => false,
        }
    }

    /// A question inside a quota park goes out.
    pub fn asked(&mut self, now: MonoTime) {
        if let Some(park) = &mut self.in_force {
            park.asked_at = now;
        }
    }

    /// An attempt admitted at `admitted` was answered well. `single`: it had the slot. True if that ended a park.
    pub fn answered(&mut self, admitted: MonoTime, single: bool, rules: &ParkRules) -> bool {
        if self.refused_at.is_some_and(|at| admitted <= at) {
            return false;
        }
        self.refusals_in_row = 0;
        self.backoffs = 0;
        // Admitted after the last refusal and inside the park: only a probe of a quota park without a reset can be.
        let ended = self.in_force.is_some();
        if ended {
            self.end_park(rules);
        }
        if single && let Some(answers) = self.confirming {
            self.confirming = Some(answers + 1);
            self.check_confirmed(rules);
        }
        ended
    }

    /// The attempt that had the slot failed: the answers have to come in a row.
    pub fn failed(&mut self, admitted: MonoTime) {
        if self.confirming.is_some() && self.refused_at.is_none_or(|at| admitted > at) {
            self.confirming = Some(0);
        }
    }

    /// After a restart: a stored deadline later than now + its maximum is clamped.
    pub fn restore(&mut self, now: MonoTime, rules: &ParkRules) {
        if let Some(park) = &mut self.in_force {
            let latest = now + hint_max(park.why, rules).max(rules.max);
            park.until = park.until.min(latest);
            park.until_chain_down = park.until_chain_down.min(latest);
            park.since = park.since.min(now);
            park.asked_at = park.asked_at.min(now);
        }
        self.refused_at = self.refused_at.map(|at| at.min(now));
    }

    fn end_park(&mut self, rules: &ParkRules) {
        self.in_force = None;
        self.confirming = Some(0);
        self.check_confirmed(rules);
    }

    fn check_confirmed(&mut self, rules: &ParkRules) {
        if self.confirming.is_some_and(|answers| answers >= rules.confirmations) {
            self.confirming = None;
            self.long = false;
        }
    }
}

/// Step number `step` (from 1) of our own back-off.
fn own_backoff(step: u32, rules: &ParkRules) -> Span {
    let doublings = 1_u64.checked_shl(step.saturating_sub(1)).unwrap_or(u64::MAX);
    Span::from_ms(rules.base.ms().saturating_mul(doublings)).min(rules.max)
}

fn hint_max(why: ParkWhy, rules: &ParkRules) -> Span {
    match why {
        ParkWhy::Throttled => rules.hint_max,
        ParkWhy::Quota => rules.quota_max,
    }
}
