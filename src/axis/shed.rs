//! What the applied levels mean for background work.
//!
//! Foreground calls are admitted by breakers and parks only, never by level; asking for them here is a bug of the caller.
//! **Source:** engine.md 2.4; DRAIN-2.

use crate::base::work::priority;
use crate::base::{Axis, AxisLevels, Level};

/// Whether an applied cloud level defers background LLM work of this priority. Deferred, not dropped.
///
/// Priorities between two named ones go with the more urgent one: what REDUCED sheds starts at MORNING_REPORT (70), what
/// ESSENTIAL sheds at REFLECTION (30). Work that a caller queued as FOREGROUND (10) is never shed.
pub fn sheds(cloud: Level, item_priority: u8) -> bool {
    match cloud {
        Level::Normal | Level::Fallback => false,
        Level::Reduced => item_priority >= priority::MORNING_REPORT,
        Level::Essential => item_priority >= priority::REFLECTION,
        Level::Offline => item_priority > priority::FOREGROUND,
        Level::FtsOnly
        | Level::WriteQueued
        | Level::Down
        | Level::Queued
        | Level::Unavailable
        | Level::Throttled
        | Level::RateLimited => panic!("TRANSITION-1: cloud has no level {cloud}"),
    }
}

/// Whether an applied `cc` level admits a session of this priority: 10 is foreground, up to 30 reflection, the rest
/// background. The one trial a minute of UNAVAILABLE and the one at a time of a confirmation are the session machine's.
pub fn cc_admits(cc: Level, item_priority: u8) -> bool {
    match cc {
        Level::Normal => true,
        Level::Throttled => item_priority <= priority::REFLECTION,
        Level::RateLimited => item_priority <= priority::FOREGROUND,
        Level::Unavailable => false,
        Level::Fallback
        | Level::Reduced
        | Level::Essential
        | Level::Offline
        | Level::FtsOnly
        | Level::WriteQueued
        | Level::Down
        | Level::Queued => panic!("TRANSITION-1: cc has no level {cc}"),
    }
}

/// Whether one axis serves an item of this priority. `cc_trial`: the session machine would admit one as a trial now.
pub fn axis_serves(levels: &AxisLevels, axis: Axis, item_priority: u8, cc_trial: bool) -> bool {
    match axis {
        Axis::Cloud => !sheds(levels.cloud, item_priority),
        Axis::Memory => levels.memory != Level::Down,
        Axis::Embedding => levels.embedding != Level::Unavailable,
        Axis::Cc => cc_admits(levels.cc, item_priority) || cc_trial,
    }
}

/// Whether every axis that the item depends on serves it. An item without axes is always served.
pub fn item_served(levels: &AxisLevels, depends_on: &[Axis], item_priority: u8, cc_trial: bool) -> bool {
    depends_on.iter().all(|axis| axis_serves(levels, *axis, item_priority, cc_trial))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cloud_level_sheds_its_priorities_and_those_of_the_levels_before() {
        use Level::{Essential, Fallback, Normal, Offline, Reduced};
        for (name, item_priority, first) in [
            ("FOREGROUND", 10, None),
            ("URGENT_OUTREACH", 20, Some(Offline)),
            ("REFLECTION", 30, Some(Essential)),
            ("SCHEDULED", 40, Some(Essential)),
            ("MEMORY_OPS", 50, Some(Essential)),
            ("OUTREACH_DRAFT", 60, Some(Essential)),
            ("MORNING_REPORT", 70, Some(Reduced)),
            ("SURPLUS", 80, Some(Reduced)),
        ] {
            assert!(priority::NAMED.contains(&(name, item_priority)));
            for cloud in [Normal, Fallback, Reduced, Essential, Offline] {
                let expected = first.is_some_and(|first| !Axis::Cloud.worse(first, cloud));
                assert_eq!(sheds(cloud, item_priority), expected, "{name} at {cloud}");
            }
        }
    }

    #[test]
    fn a_worse_level_never_serves_what_a_better_one_does_not() {
        for axis in Axis::ALL {
            for item_priority in priority::MIN..=priority::MAX {
                let serves = |level: &Level| {
                    let mut levels = AxisLevels::NORMAL;
                    levels.set(axis, *level);
                    axis_serves(&levels, axis, item_priority, false)
                };
                let served: Vec<bool> = axis.levels().iter().map(serves).collect();
                assert!(served[0], "{axis} serves everything at its best");
                assert!(served.is_sorted_by(|better, worse| better >= worse), "{axis} {item_priority}: {served:?}");
            }
        }
    }

    #[test]
    fn cc_admits_by_class_and_a_trial_passes_where_the_level_does_not() {
        for (cc, admitted) in [
            (Level::Normal, &[10, 30, 40][..]),
            (Level::Throttled, &[10, 30]),
            (Level::RateLimited, &[10]),
            (Level::Unavailable, &[]),
        ] {
            for item_priority in [10, 30, 40] {
                assert_eq!(cc_admits(cc, item_priority), admitted.contains(&item_priority), "{cc} {item_priority}");
            }
            let levels = AxisLevels { cc, ..AxisLevels::NORMAL };
            assert!(item_served(&levels, &[Axis::Cc], 40, true));
        }
    }

    #[test]
    fn an_item_is_served_when_every_axis_it_depends_on_serves() {
        let levels = AxisLevels { embedding: Level::Unavailable, memory: Level::WriteQueued, ..AxisLevels::NORMAL };
        assert!(item_served(&levels, &[Axis::Cloud, Axis::Memory], 50, false));
        assert!(!item_served(&levels, &[Axis::Cloud, Axis::Embedding], 50, false));
        assert!(item_served(&levels, &[], 50, false));
        assert!(!item_served(&AxisLevels { memory: Level::Down, ..levels }, &[Axis::Memory], 50, false));
        assert!(item_served(&AxisLevels { embedding: Level::Queued, ..levels }, &[Axis::Embedding], 50, false));
    }
}
