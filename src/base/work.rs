//! Kinds of calls and of deferred work.
//!
//! **Source:** engine.md 3 (classes), 4 (priorities, policies, status).

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallClass {
    Foreground,
    Background,
}

/// What a Claude Code session is for: who may be refused one, and in which order they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionClass {
    Foreground,
    Reflection,
    Background,
}

impl SessionClass {
    pub const ALL: [SessionClass; 3] = [SessionClass::Foreground, SessionClass::Reflection, SessionClass::Background];
    pub const fn name(self) -> &'static str {
        match self {
            SessionClass::Foreground => "foreground",
            SessionClass::Reflection => "reflection",
            SessionClass::Background => "background",
        }
    }
    /// As what a refused one waits.
    pub const fn priority(self) -> u8 {
        match self {
            SessionClass::Foreground => priority::FOREGROUND,
            SessionClass::Reflection => priority::REFLECTION,
            SessionClass::Background => priority::SCHEDULED,
        }
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionOutcome {
    /// Exit code 0.
    Done,
    /// Another exit code, no limit.
    Failed,
    /// A limit ended it: no failed attempt.
    Limited,
    /// The command could not be started, or was refused at sign-in.
    NotStarted,
    /// Nobody reported for longer than its lease: the slot was reclaimed.
    Lost,
}

/// Priorities of deferred work, smaller first. Any whole number in 10..=100 is allowed; these have names.
pub mod priority {
    pub const FOREGROUND: u8 = 10;
    pub const URGENT_OUTREACH: u8 = 20;
    pub const REFLECTION: u8 = 30;
    pub const SCHEDULED: u8 = 40;
    pub const MEMORY_OPS: u8 = 50;
    pub const OUTREACH_DRAFT: u8 = 60;
    pub const MORNING_REPORT: u8 = 70;
    pub const SURPLUS: u8 = 80;
    pub const MIN: u8 = 10;
    pub const MAX: u8 = 100;
    pub const NAMED: [(&str, u8); 8] = [
        ("FOREGROUND", FOREGROUND),
        ("URGENT_OUTREACH", URGENT_OUTREACH),
        ("REFLECTION", REFLECTION),
        ("SCHEDULED", SCHEDULED),
        ("MEMORY_OPS", MEMORY_OPS),
        ("OUTREACH_DRAFT", OUTREACH_DRAFT),
        ("MORNING_REPORT", MORNING_REPORT),
        ("SURPLUS", SURPLUS),
    ];
}

/// When a deferred item is too old to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    Drain,
    Refresh,
    Discard,
    Ttl,
}

impl Policy {
    pub const ALL: [Policy; 4] = [Policy::Drain, Policy::Refresh, Policy::Discard, Policy::Ttl];
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Drain => "drain",
            Policy::Refresh => "refresh",
            Policy::Discard => "discard",
            Policy::Ttl => "ttl",
        }
    }
    pub fn from_name(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    Scheduled,
    Pending,
    Leased,
    Done,
    Expired,
    Discarded,
    Refreshed,
    Dead,
    InDoubt,
}

impl ItemStatus {
    pub const ALL: [ItemStatus; 9] = [
        ItemStatus::Scheduled,
        ItemStatus::Pending,
        ItemStatus::Leased,
        ItemStatus::Done,
        ItemStatus::Expired,
        ItemStatus::Discarded,
        ItemStatus::Refreshed,
        ItemStatus::Dead,
        ItemStatus::InDoubt,
    ];
    pub const fn name(self) -> &'static str {
        match self {
            ItemStatus::Scheduled => "scheduled",
            ItemStatus::Pending => "pending",
            ItemStatus::Leased => "leased",
            ItemStatus::Done => "done",
            ItemStatus::Expired => "expired",
            ItemStatus::Discarded => "discarded",
            ItemStatus::Refreshed => "refreshed",
            ItemStatus::Dead => "dead",
            ItemStatus::InDoubt => "in_doubt",
        }
    }
    pub fn from_name(name: &str) -> Option<ItemStatus> {
        ItemStatus::ALL.into_iter().find(|status| status.name() == name)
    }
    pub fn is_final(self) -> bool {
        match self {
            ItemStatus::Scheduled | ItemStatus::Pending | ItemStatus::Leased => false,
            ItemStatus::Done
            | ItemStatus::Expired
            | ItemStatus::Discarded
            | ItemStatus::Refreshed
            | ItemStatus::Dead
            | ItemStatus::InDoubt => true,
        }
    }
}
