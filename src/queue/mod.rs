//! Deferred work: what may be put in, when it is stale, and how long it rests after a failure.
//!
//! Pure rules; the rows are the store's, the running is the engine's.
//! **Source:** engine.md 4.

use crate::base::work::priority;
use crate::base::{Axis, MonoTime, Policy, Span};

/// What the engine's own consumers can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consumer {
    /// A background call to a chat chain, made from the payload.
    Llm,
    /// A message to a person over a channel.
    Outreach,
}

/// A kind of work that something consumes. A work type that is not in the table is refused on entry: it would wait
/// for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkType {
    pub name: &'static str,
    pub consumer: Consumer,
    /// Where none is asked for.
    pub priority: u8,
    /// Where none are asked for.
    pub depends_on: &'static [Axis],
}

pub const WORK_TYPES: &[WorkType] = &[
    WorkType { name: "llm_call", consumer: Consumer::Llm, priority: priority::SCHEDULED, depends_on: &[Axis::Cloud] },
    WorkType {
        name: "reflection",
        consumer: Consumer::Llm,
        priority: priority::REFLECTION,
        depends_on: &[Axis::Cloud],
    },
    WorkType { name: "scheduled", consumer: Consumer::Llm, priority: priority::SCHEDULED, depends_on: &[Axis::Cloud] },
    WorkType {
        name: "memory_ops",
        consumer: Consumer::Llm,
        priority: priority::MEMORY_OPS,
        depends_on: &[Axis::Cloud],
    },
    WorkType {
        name: "outreach_draft",
        consumer: Consumer::Llm,
        priority: priority::OUTREACH_DRAFT,
        depends_on: &[Axis::Cloud],
    },
    WorkType {
        name: "morning_report",
        consumer: Consumer::Llm,
        priority: priority::MORNING_REPORT,
        depends_on: &[Axis::Cloud],
    },
    WorkType { name: "surplus", consumer: Consumer::Llm, priority: priority::SURPLUS, depends_on: &[Axis::Cloud] },
    WorkType { name: "outreach", consumer: Consumer::Outreach, priority: priority::URGENT_OUTREACH, depends_on: &[] },
];

/// The work type of a session that waits for a slot. Nothing here consumes it: whoever waits for the session does.
pub const SESSION: &str = "session";

pub fn work_type(name: &str) -> Option<&'static WorkType> {
    WORK_TYPES.iter().find(|work| work.name == name)
}

/// Why a piece of work is not taken in. Nothing was stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeferError {
    #[error("nothing consumes work_type {given:?}; there are: {known}")]
    UnknownWorkType { given: String, known: String },
    #[error("work_type {SESSION:?} cannot be put in by hand: somebody has to wait for it; use POST /v1/session/ask")]
    Session,
    #[error("priority {given} is outside {}..={}", priority::MIN, priority::MAX)]
    Priority { given: i64 },
    #[error("unknown policy {given:?}; use drain, refresh, discard or ttl")]
    UnknownPolicy { given: String },
    #[error("policy ttl needs a ttl, such as \"4h\"")]
    MissingTtl,
    #[error("a ttl goes with policy ttl only, not with {policy:?}")]
    UnwantedTtl { policy: &'static str },
    #[error("bad ttl {given:?}: {why}")]
    BadTtl { given: String, why: String },
    #[error("unknown axis {given:?} in depends_on; use cloud, memory, embedding or cc")]
    UnknownAxis { given: String },
    #[error("policy refresh needs a registered producer for work_type {work_type:?}, and there is none")]
    NoProducer { work_type: &'static str },
}

/// As a caller asks for it: text and numbers as they came.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    pub work_type: &'a str,
    pub priority: Option<i64>,
    pub policy: &'a str,
    pub ttl: Option<&'a str>,
    pub depends_on: Option<&'a [String]>,
}

/// The same, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    pub work: &'static WorkType,
    pub priority: u8,
    pub policy: Policy,
    pub ttl: Option<Span>,
    pub depends_on: Vec<Axis>,
}

pub fn admit(asked: &Asked) -> Result<Admitted, DeferError> {
    if asked.work_type == SESSION {
        return Err(DeferError::Session);
    }
    let work = work_type(asked.work_type).ok_or_else(|| DeferError::UnknownWorkType {
        given: asked.work_type.to_owned(),
        known: WORK_TYPES.iter().map(|work| work.name).collect::<Vec<_>>().join(", "),
    })?;
    let priority = match asked.priority {
        None => work.priority,
        Some(given) => u8::try_from(given)
            .ok()
            .filter(|p| (priority::MIN..=priority::MAX).contains(p))
            .ok_or(DeferError::Priority { given })?,
    };
    let policy =
        Policy::from_name(asked.policy).ok_or_else(|| DeferError::UnknownPolicy { given: asked.policy.to_owned() })?;
    let ttl = match (policy, asked.ttl) {
        (Policy::Ttl, Some(given)) => Some(
            given
                .parse::<Span>()
                .map_err(|why| DeferError::BadTtl { given: given.to_owned(), why: why.to_string() })?,
        ),
        (Policy::Ttl, None) => return Err(DeferError::MissingTtl),
        (Policy::Drain | Policy::Refresh | Policy::Discard, Some(_)) => {
            return Err(DeferError::UnwantedTtl { policy: policy.name() });
        }
        (Policy::Drain | Policy::Refresh | Policy::Discard, None) => None,
    };
    if policy == Policy::Refresh {
        return Err(DeferError::NoProducer { work_type: work.name });
    }
    let depends_on = match asked.depends_on {
        None => work.depends_on.to_vec(),
        Some(names) => {
            let mut axes = Vec::new();
            for name in names {
                let axis = Axis::from_name(name).ok_or_else(|| DeferError::UnknownAxis { given: name.clone() })?;
                if !axes.contains(&axis) {
                    axes.push(axis);
                }
            }
            axes.sort();
            axes
        }
    };
    Ok(Admitted { work, priority, policy, ttl, depends_on })
}

/// From when on the item is stale; `None`: never.
pub fn expires_at(policy: Policy, ttl: Option<Span>, discard_after: Span, deferred_at: MonoTime) -> Option<MonoTime> {
    match policy {
        Policy::Drain | Policy::Refresh => None,
        Policy::Discard => Some(deferred_at + discard_after),
        Policy::Ttl => ttl.map(|ttl| deferred_at + ttl),
    }
}

/// How long an item rests after its n-th failure (from 1): 30 s, doubling, at most 10 min.
pub fn rest_after_failure(failures: u32) -> Span {
    let doublings = failures.saturating_sub(1).min(10);
    Span::from_ms((30_000u64 << doublings).min(600_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(work_type: &'static str, policy: &'static str) -> Asked<'static> {
        Asked { work_type, policy, ..Asked::default() }
    }

    #[test]
    fn defaults_come_from_the_work_type() {
        let admitted = admit(&asked("surplus", "drain")).unwrap();
        assert_eq!((admitted.priority, admitted.depends_on), (80, vec![Axis::Cloud]));
    }

    #[test]
    fn illegal_values_are_refused_with_the_value_in_the_text() {
        let refused = |asked: Asked| admit(&asked).unwrap_err().to_string();
        assert!(refused(asked("nap", "drain")).contains("\"nap\""));
        assert!(refused(asked("session", "drain")).contains("/v1/session/ask"));
        assert!(refused(asked("surplus", "later")).contains("\"later\""));
        assert!(refused(asked("surplus", "ttl")).contains("needs a ttl"));
        for priority in [9, 101, -1, 300] {
            assert!(refused(Asked { priority: Some(priority), ..asked("surplus", "drain") }).contains("outside"));
        }
        assert!(refused(Asked { ttl: Some("-5s"), ..asked("surplus", "ttl") }).contains("\"-5s\""));
        assert!(refused(Asked { ttl: Some("5s"), ..asked("surplus", "drain") }).contains("drain"));
        let axes = ["clod".to_owned()];
        assert!(refused(Asked { depends_on: Some(&axes), ..asked("surplus", "drain") }).contains("\"clod\""));
        assert_eq!(admit(&asked("surplus", "refresh")), Err(DeferError::NoProducer { work_type: "surplus" }));
    }

    #[test]
    fn a_failing_item_rests_longer_each_time_up_to_ten_minutes() {
        let rests: Vec<u64> = (1..=7).map(|n| rest_after_failure(n).ms() / 1000).collect();
        assert_eq!(rests, [30, 60, 120, 240, 480, 600, 600]);
    }
}
