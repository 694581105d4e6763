//! The one number for old consumers.

use crate::{Row, check, row};
use squall::axis::{LegacyLevel, legacy};
use squall::base::{AxisLevels, Level};

fn cloud(level: Level) -> LegacyLevel {
    legacy(&AxisLevels { cloud: level, ..AxisLevels::NORMAL })
}

fn memory(level: Level) -> LegacyLevel {
    legacy(&AxisLevels { memory: level, ..AxisLevels::NORMAL })
}

pub fn rows() -> Vec<Row> {
    vec![
        row("LG-001", "all NORMAL is L0", || assert_eq!(cloud(Level::Normal), LegacyLevel::Normal)),
        row("LG-002", "cloud FALLBACK is L1", || assert_eq!(cloud(Level::Fallback), LegacyLevel::Fallback)),
        row("LG-003", "cloud REDUCED is L2", || assert_eq!(cloud(Level::Reduced), LegacyLevel::Reduced)),
        row("LG-004", "cloud ESSENTIAL is L3", || assert_eq!(cloud(Level::Essential), LegacyLevel::Essential)),
        row("LG-006", "memory FTS_ONLY with a cloud that is well is L4", || {
            assert_eq!(memory(Level::FtsOnly), LegacyLevel::MemoryImpaired);
        }),
        // A full temporary disk is no axis here; where it stops writes it is memory DOWN.
        row("LG-013", "memory DOWN is L4, whatever else the disk suffers from", || {
            assert_eq!((memory(Level::Down), memory(Level::Down).number()), (LegacyLevel::MemoryImpaired, 4));
        }),
    ]
}

#[test]
fn table() {
    check(&rows());
}
