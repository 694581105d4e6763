//! The judges: each reads a history, and nothing else, and says where an invariant was broken.
//!
//! A check has its own small model ([`crate::model`]) and never calls the engine. It must be able to say no (each has a
//! rejected history among its tests) and must have seen something: [`Check::judged`] counts, and zero is "saw nothing",
//! never "held". The same checks read a production journal; where the outside's or the world's word is missing, the
//! parts that need it judge nothing.
//!
//! **Limits:** checks keep windows and what is still open, never the history; [`Panel`] keeps [`VIOLATIONS_MAX`]
//! violations per check and counts the rest.
//! **Source:** harness.md "Histories and checks"; style.md 10.

pub mod advisory;
pub mod breaker;
mod circuits;
pub mod converge;
pub mod drain;
mod feed;
pub mod idempotent;
pub mod limit;
pub mod notify;
mod panel;
pub mod session;
mod setting;
#[cfg(test)]
mod testing;
pub mod transition;

pub use panel::{Judgement, Panel};

use crate::history::Entry;
use serde::Serialize;

/// So many violations are kept per check; more are counted.
pub const VIOLATIONS_MAX: usize = 20;

/// One invariant, judged over one history.
pub trait Check {
    /// Such as `"TRANSITION-1"`; one of [`ALL_IDS`].
    fn id(&self) -> &'static str;
    /// Reads the next entry; entries come in the order of their numbers.
    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>);
    /// After the last entry.
    fn finish(&mut self, out: &mut Vec<Violation>);
    /// How many times there was something to judge.
    fn judged(&self) -> u64;
}

/// One place where an invariant does not hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    pub at_ms: u64,
    /// A sentence with what was expected and what was seen.
    pub what: String,
    /// Numbers of the entries that led to it, in order.
    pub events: Vec<u64>,
    /// Where the fault that was active then stands in the scenario; filled in by [`Panel`].
    pub fault_line: Option<u32>,
    /// Not shown to be wrong, but not shown to be right in the time given.
    pub inconclusive: bool,
}

impl Violation {
    pub fn new(at_ms: u64, events: impl Into<Vec<u64>>, what: impl Into<String>) -> Violation {
        Violation { at_ms, what: what.into(), events: events.into(), fault_line: None, inconclusive: false }
    }
}

/// An invariant as it is explained to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub id: &'static str,
    pub rule: &'static str,
    pub source: &'static str,
}

/// Every invariant that a check here judges.
pub const ALL_IDS: &[About] = &[
    About {
        id: "TRANSITION-1",
        rule: "Every level change is one that the measured level explains: worse at once, better never inside a hold, \
               no self-transition; the measured level is the one that breakers, parks and disabled providers give.",
        source: "engine.md 2.1, 2.2",
    },
    About {
        id: "TRANSITION-2",
        rule: "An axis improves only on evidence: a breaker closes after 3 spaced successes in a row, a park is over \
               after 3 answers in a row.",
        source: "engine.md 2.1 \"Improving needs evidence\", 3",
    },
    About {
        id: "TRANSITION-3",
        rule: "Since the last hold, the 4th counted change within the window starts a hold; inside it only worsenings, \
               each restarting it; it ends exactly its length after its last start, the window is empty then, and the \
               axis takes its measured level.",
        source: "engine.md 2.2",
    },
    About {
        id: "TRANSITION-4",
        rule: "The legacy level equals the mapping of the axes at every instant.",
        source: "engine.md 2.3",
    },
    About {
        id: "BREAKER-1",
        rule: "Nothing is sent to an entry whose breaker is open (probe rounds of a chain without a serving entry \
               apart); one trial at a time in half-open, within its deadline; half-open lasts at most its maximum; a \
               breaker opens exactly by its rules, for its time; late results change nothing.",
        source: "engine.md 3",
    },
    About {
        id: "BREAKER-2",
        rule: "Neutral outcomes move no closed breaker; a throttled or quota answer to a trial reopens the breaker \
               without a trip; other neutral answers to a trial only free its slot.",
        source: "engine.md 3",
    },
    About {
        id: "LIMIT-1",
        rule: "Nothing is sent, in the scope of its park, after an answer that stated a wait and before the smaller of \
               that wait and its cap is over.",
        source: "engine.md 3 \"Wait hints\", \"Park\"",
    },
    About {
        id: "LIMIT-2",
        rule: "Requests on the wire are the attempts of the trace, one each; attempts per call, entry and item stay \
               within their limits, retries within their budget.",
        source: "engine.md 3 \"Chain\", 4",
    },
    About {
        id: "SESSION-1",
        rule: "Active sessions are starts minus ends, within the cap, across kills, and are those that really run; the \
               kept slot is never held by another class; the hour's budget, limits and failed starts hold back whom they \
               should, and after them one is tried at a time until 3 were answered; who waits is neither overtaken nor \
               kept waiting.",
        source: "engine.md 6",
    },
    About {
        id: "DRAIN-1",
        rule: "Of two items that could run at the same moment the one with the smaller (priority, deferred at, id) \
               runs first.",
        source: "engine.md 4",
    },
    About {
        id: "IDEMPOTENT-1",
        rule: "Each outreach key is delivered at most once (with an occasion for ever, without one within 24 h) unless \
               shown in doubt; a history row implies a delivery.",
        source: "engine.md 8",
    },
    About {
        id: "ADVISORY-1",
        rule: "Healthy or unknown: no advisory. One failed recall: none; the second in a row: a fault; one refused \
               locally: a fault at once; only a recall's success clears it.",
        source: "engine.md 10",
    },
    About {
        id: "ADVISORY-2",
        rule: "No client gets a short reminder of a text it never got; a shared process without a key says everything \
               every time; a hint is full once, then short.",
        source: "engine.md 10",
    },
    About {
        id: "NOTIFY-1",
        rule: "The status file parses at every instant, is current after every transition (or a failure says why \
               not), counts what the ledger counts, and is renewed at least every heartbeat. Notices: one for each \
               worse level of an episode and one at its end if there was one, those of one moment together, none for \
               nothing. The webhook: each applied transition in order, few enough tries, delivered or said not to be.",
        source: "engine.md 8 \"Status file\", \"Webhook\", \"Notices\"",
    },
    About {
        id: "CONVERGE-1",
        rule: "After healing every axis is at its baseline and the queues are empty or explained, within the settle \
               time; if not, it says what waits for what.",
        source: "harness.md \"Histories and checks\"",
    },
];

/// One of each, for one history.
pub fn all() -> Vec<Box<dyn Check>> {
    vec![
        Box::new(transition::Measured::default()),
        Box::new(transition::Evidence::default()),
        Box::new(transition::Flaps::default()),
        Box::new(transition::Legacy::default()),
        Box::new(breaker::Admissions::default()),
        Box::new(breaker::Neutrals::default()),
        Box::new(limit::Waits::default()),
        Box::new(limit::Attempts::default()),
        Box::new(session::Budget::default()),
        Box::new(drain::Order::default()),
        Box::new(idempotent::Outreach::default()),
        Box::new(advisory::States::default()),
        Box::new(advisory::Forms::default()),
        Box::new(notify::Notified::default()),
        Box::new(converge::Converged::default()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_invariant_that_is_explained_is_judged_and_the_other_way_round() {
        let judged: Vec<_> = all().iter().map(|check| check.id()).collect();
        let explained: Vec<_> = ALL_IDS.iter().map(|about| about.id).collect();
        assert_eq!(judged, explained);
    }
}
