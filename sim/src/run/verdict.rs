//! The verdict of a run: what `verdict.json` and `--format json` say, key by key.
//!
//! Nothing in it depends on the machine: no wall-clock time, no paths but the scenario's as the user named it, numbers
//! printed the same way everywhere. What differs from run to run stands in [`Timing`] and is written beside it.
//! **Units:** `*_s` are simulated seconds since the start of the run; `*_ms` simulated milliseconds.
//! **Source:** harness.md "A run".

use serde::{Deserialize, Serialize};
use squall::base::{Axis, Level};
use std::collections::BTreeMap;

/// Version of this structure.
pub const SCHEMA: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub schema: u32,
    /// The scenario file as the user named it, with `/` separators.
    pub scenario: String,
    pub title: String,
    pub seed: u64,
    pub version: String,
    pub verdict: Ruling,
    /// Why it is inconclusive, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inconclusive: Vec<String>,
    pub simulated_s: f64,
    pub history: HistoryFacts,
    pub invariants: Vec<Invariant>,
    pub expectations: Vec<Judged>,
    /// Interesting things that happened, with how often. What isn't here did not happen.
    pub sometimes: BTreeMap<String, u64>,
    pub metrics: BTreeMap<String, Value>,
    /// Deferred work by what became of it.
    pub ledger: BTreeMap<String, u64>,
    pub axes: AxisTracks,
    /// One command that does this run again.
    pub repro: String,
}

/// Ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    Held,
    /// It did not converge in time, or a required invariant had nothing to judge.
    Inconclusive,
    Broken,
}

impl Ruling {
    pub const fn name(self) -> &'static str {
        match self {
            Ruling::Held => "held",
            Ruling::Inconclusive => "inconclusive",
            Ruling::Broken => "broken",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryFacts {
    pub events: u64,
    /// Blake3 of the bytes of `history.jsonl`.
    pub hash: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Invariant {
    pub id: String,
    /// How many times it had something to judge. Zero is "saw nothing", never "held".
    pub judged: u64,
    pub violations: Vec<Breach>,
    /// Violations beyond those that are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One violation of an invariant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Breach {
    pub at_s: f64,
    pub what: String,
    /// The lines of the history (`n`) that show it.
    pub events: Vec<u64>,
    /// The line, in the scenario file, of the fault that was last started before it.
    pub fault_line: Option<u32>,
}

/// One expectation of the scenario file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    pub line: u32,
    pub text: String,
    pub held: bool,
    pub seen: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Count(u64),
    Real(f64),
}

impl Value {
    /// A ratio, or a number of seconds: six digits after the point are what anyone can use, and they print the same
    /// everywhere.
    pub fn real(value: f64) -> Value {
        Value::Real((value * 1e6).round() / 1e6)
    }
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Count(count) => count as f64,
            Value::Real(real) => real,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Count(count) => write!(f, "{count}"),
            Value::Real(real) => write!(f, "{real}"),
        }
    }
}

/// From `at_s` on, the axis was at this level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    pub at_s: f64,
    pub level: Level,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AxisTracks {
    pub cloud: Vec<Moment>,
    pub memory: Vec<Moment>,
    pub embedding: Vec<Moment>,
    pub cc: Vec<Moment>,
}

impl AxisTracks {
    pub fn get(&self, axis: Axis) -> &Vec<Moment> {
        match axis {
            Axis::Cloud => &self.cloud,
            Axis::Memory => &self.memory,
            Axis::Embedding => &self.embedding,
            Axis::Cc => &self.cc,
        }
    }
    pub fn get_mut(&mut self, axis: Axis) -> &mut Vec<Moment> {
        match axis {
            Axis::Cloud => &mut self.cloud,
            Axis::Memory => &mut self.memory,
            Axis::Embedding => &mut self.embedding,
            Axis::Cc => &mut self.cc,
        }
    }
}

/// Simulated milliseconds as seconds.
pub fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

/// Facts about the machine's work on a run; they differ each time, so they are no part of the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    pub wall_s: f64,
    /// Simulated seconds per second of the machine.
    pub ratio: f64,
    /// HTTP exchanges on the simulated network.
    pub exchanges: u64,
    pub exchanges_per_s: f64,
    /// Whether this run was done twice and compared (DETERMINE-1).
    pub verified: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_prints_without_a_point_and_a_ratio_with_six_digits_at_most() {
        assert_eq!(serde_json::to_string(&Value::Count(40)).unwrap(), "40");
        assert_eq!(serde_json::to_string(&Value::real(2.0 / 3.0)).unwrap(), "0.666667");
        assert_eq!(serde_json::to_string(&Value::real(1.0)).unwrap(), "1.0");
    }

    #[test]
    fn broken_is_worse_than_inconclusive_and_that_is_worse_than_held() {
        assert!(Ruling::Broken > Ruling::Inconclusive && Ruling::Inconclusive > Ruling::Held);
    }
}
