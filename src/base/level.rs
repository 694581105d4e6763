//! The four axes and their levels, best first.
//!
//! **Source:** engine.md 2 (table of axes), 2.3 (legacy level).

use serde::{Deserialize, Serialize};
use std::fmt;

/// One independent measure of health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    Cloud,
    Memory,
    Embedding,
    Cc,
}

/// A level of some axis. Names are unique but for `NORMAL` and `UNAVAILABLE`; which ones an axis has, and their
/// order, is [`Axis::levels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Level {
    Normal,
    Fallback,
    Reduced,
    Essential,
    Offline,
    FtsOnly,
    WriteQueued,
    Down,
    Queued,
    Unavailable,
    Throttled,
    RateLimited,
}

impl Axis {
    pub const ALL: [Axis; 4] = [Axis::Cloud, Axis::Memory, Axis::Embedding, Axis::Cc];

    pub const fn name(self) -> &'static str {
        match self {
            Axis::Cloud => "cloud",
            Axis::Memory => "memory",
            Axis::Embedding => "embedding",
            Axis::Cc => "cc",
        }
    }

    pub fn from_name(name: &str) -> Option<Axis> {
        Axis::ALL.into_iter().find(|axis| axis.name() == name)
    }

    /// This axis's levels, best first.
    pub const fn levels(self) -> &'static [Level] {
        match self {
            Axis::Cloud => &[Level::Normal, Level::Fallback, Level::Reduced, Level::Essential, Level::Offline],
            Axis::Memory => &[Level::Normal, Level::FtsOnly, Level::WriteQueued, Level::Down],
            Axis::Embedding => &[Level::Normal, Level::Queued, Level::Unavailable],
            Axis::Cc => &[Level::Normal, Level::Throttled, Level::RateLimited, Level::Unavailable],
        }
    }

    /// How bad `level` is on this axis: 0 is best. `None` if the axis has no such level.
    pub fn severity(self, level: Level) -> Option<usize> {
        self.levels().iter().position(|own| *own == level)
    }

    /// Whether `a` is worse than `b` on this axis.
    pub fn worse(self, a: Level, b: Level) -> bool {
        let rank = |level| self.severity(level).unwrap_or_else(|| panic!("axis {self} has no level {level}"));
        rank(a) > rank(b)
    }
}

impl Level {
    pub const ALL: [Level; 12] = [
        Level::Normal,
        Level::Fallback,
        Level::Reduced,
        Level::Essential,
        Level::Offline,
        Level::FtsOnly,
        Level::WriteQueued,
        Level::Down,
        Level::Queued,
        Level::Unavailable,
        Level::Throttled,
        Level::RateLimited,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Level::Normal => "NORMAL",
            Level::Fallback => "FALLBACK",
            Level::Reduced => "REDUCED",
            Level::Essential => "ESSENTIAL",
            Level::Offline => "OFFLINE",
            Level::FtsOnly => "FTS_ONLY",
            Level::WriteQueued => "WRITE_QUEUED",
            Level::Down => "DOWN",
            Level::Queued => "QUEUED",
            Level::Unavailable => "UNAVAILABLE",
            Level::Throttled => "THROTTLED",
            Level::RateLimited => "RATE_LIMITED",
        }
    }

    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One level for each axis: the composite state, or what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisLevels {
    pub cloud: Level,
    pub memory: Level,
    pub embedding: Level,
    pub cc: Level,
}

impl AxisLevels {
    pub const NORMAL: AxisLevels =
        AxisLevels { cloud: Level::Normal, memory: Level::Normal, embedding: Level::Normal, cc: Level::Normal };

    pub fn get(&self, axis: Axis) -> Level {
        match axis {
            Axis::Cloud => self.cloud,
            Axis::Memory => self.memory,
            Axis::Embedding => self.embedding,
            Axis::Cc => self.cc,
        }
    }

    pub fn set(&mut self, axis: Axis, level: Level) {
        assert!(axis.severity(level).is_some(), "axis {axis} has no level {level}");
        match axis {
            Axis::Cloud => self.cloud = level,
            Axis::Memory => self.memory = level,
            Axis::Embedding => self.embedding = level,
            Axis::Cc => self.cc = level,
        }
    }

    pub fn is_degraded(&self) -> bool {
        let AxisLevels { cloud, memory, embedding, cc } = self; // A new axis stops the build here.
        [cloud, memory, embedding, cc].into_iter().any(|level| *level != Level::Normal)
    }
}
