//! The old single number, from the levels of the axes.

use squall::base::{AxisLevels, Level};

/// engine.md 2.3: start from cloud, any trouble of memory raises it to 4, any of embedding to 5.
pub fn legacy(levels: &AxisLevels) -> u8 {
    let from_cloud = match levels.cloud {
        Level::Normal => 0,
        Level::Fallback => 1,
        Level::Reduced => 2,
        Level::Essential
        | Level::Offline
        | Level::FtsOnly
        | Level::WriteQueued
        | Level::Down
        | Level::Queued
        | Level::Unavailable
        | Level::Throttled
        | Level::RateLimited => 3,
    };
    if levels.embedding != Level::Normal {
        5
    } else if levels.memory != Level::Normal {
        4
    } else {
        from_cloud
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedding_outranks_memory_and_memory_outranks_cloud() {
        let mut levels = AxisLevels::NORMAL;
        assert_eq!(legacy(&levels), 0);
        levels.cloud = Level::Offline;
        assert_eq!(legacy(&levels), 3);
        levels.memory = Level::FtsOnly;
        assert_eq!(legacy(&levels), 4);
        levels.embedding = Level::Queued;
        assert_eq!(legacy(&levels), 5);
        assert_eq!(legacy(&AxisLevels { cc: Level::Unavailable, ..AxisLevels::NORMAL }), 0);
    }
}
