//! The one-number level of old consumers. For display only: what is shed is decided on the axes.
//!
//! **Source:** engine.md 2.3; TRANSITION-4.

use crate::base::{AxisLevels, Level};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LegacyLevel {
    Normal = 0,
    Fallback = 1,
    Reduced = 2,
    Essential = 3,
    MemoryImpaired = 4,
    LocalComputeDown = 5,
}

impl LegacyLevel {
    pub const fn number(self) -> u8 {
        self as u8
    }

    pub const fn name(self) -> &'static str {
        match self {
            LegacyLevel::Normal => "NORMAL",
            LegacyLevel::Fallback => "FALLBACK",
            LegacyLevel::Reduced => "REDUCED",
            LegacyLevel::Essential => "ESSENTIAL",
            LegacyLevel::MemoryImpaired => "MEMORY_IMPAIRED",
            LegacyLevel::LocalComputeDown => "LOCAL_COMPUTE_DOWN",
        }
    }
}

/// The number that stands for four axes. `cc` has no part in it.
pub fn legacy(levels: &AxisLevels) -> LegacyLevel {
    let AxisLevels { cloud, memory, embedding, cc: _ } = *levels; // A new axis stops the build here.
    let mut level = match cloud {
        Level::Normal => LegacyLevel::Normal,
        Level::Fallback => LegacyLevel::Fallback,
        Level::Reduced => LegacyLevel::Reduced,
        Level::Essential | Level::Offline => LegacyLevel::Essential,
        Level::FtsOnly
        | Level::WriteQueued
        | Level::Down
        | Level::Queued
        | Level::Unavailable
        | Level::Throttled
        | Level::RateLimited => panic!("TRANSITION-4: cloud has no level {cloud}"),
    };
    if memory != Level::Normal {
        level = level.max(LegacyLevel::MemoryImpaired);
    }
    if embedding != Level::Normal {
        level = level.max(LegacyLevel::LocalComputeDown);
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Axis;

    #[test]
    fn the_cloud_level_gives_the_number_when_the_rest_is_normal() {
        // LG-001 to LG-004
        for (cloud, number) in
            [(Level::Normal, 0), (Level::Fallback, 1), (Level::Reduced, 2), (Level::Essential, 3), (Level::Offline, 3)]
        {
            assert_eq!(legacy(&AxisLevels { cloud, ..AxisLevels::NORMAL }).number(), number, "{cloud}");
        }
    }

    #[test]
    fn every_combination_is_at_least_4_for_memory_and_at_least_5_for_embedding_and_blind_to_cc() {
        // LG-006, LG-012
        for cloud in Axis::Cloud.levels() {
            for memory in Axis::Memory.levels() {
                for embedding in Axis::Embedding.levels() {
                    for cc in Axis::Cc.levels() {
                        let levels = AxisLevels { cloud: *cloud, memory: *memory, embedding: *embedding, cc: *cc };
                        let from_cloud = legacy(&AxisLevels { cloud: *cloud, ..AxisLevels::NORMAL }).number();
                        let expected = match (*memory, *embedding) {
                            (Level::Normal, Level::Normal) => from_cloud,
                            (_, Level::Normal) => 4,
                            (_, _) => 5,
                        };
                        assert_eq!(legacy(&levels).number(), expected, "{levels:?}");
                    }
                }
            }
        }
    }
}
