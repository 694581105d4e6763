//! Elapsed time over restarts and reboots: what the clock adapter has to start from.
//!
//! Within one boot of the machine the elapsed time is the boot clock's, less a constant offset. Over a reboot the time
//! off is the wall clock's difference, clamped to 0..30 days: the only use of the wall clock in a decision.
//! **Source:** engine.md 1.

use super::{StoreError, failed, state};
use crate::base::{MonoTime, Span, WallTime};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

const OFF_MAX: Span = Span::from_days(30);

/// What one process left about its boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Anchor {
    boot_id: String,
    /// Boot clock less elapsed time, in milliseconds; negative after a reboot.
    offset_ms: i64,
}

/// Elapsed time at this moment, from what earlier processes left; 0 in a new database. Stores the boot's anchor.
///
/// **Units:** `boottime_ms` is the boot clock's reading now.
pub fn resume(conn: &mut Connection, boot_id: &str, boottime_ms: u64, wall: WallTime) -> Result<MonoTime, StoreError> {
    super::schema::migrate(conn)?;
    let tx = conn.transaction().map_err(failed("reading the clock"))?;
    let anchor: Option<Anchor> = state::load(&tx, "boot_anchor")?;
    // The newest journal row says how far time had come, and when that was.
    let newest = super::journal::newest(&tx)?;
    let saved = newest.map_or(MonoTime::ZERO, |(at, _)| at);
    let now = match anchor {
        Some(anchor) if anchor.boot_id == boot_id => {
            let elapsed = i64::try_from(boottime_ms).unwrap_or(i64::MAX).saturating_sub(anchor.offset_ms);
            MonoTime(u64::try_from(elapsed).unwrap_or(0)).max(saved)
        }
        Some(_) => {
            let off = newest.map_or(0, |(_, then)| wall.0.saturating_sub(then.0));
            saved + Span::from_ms(u64::try_from(off).unwrap_or(0)).min(OFF_MAX)
        }
        None => saved,
    };
    let offset_ms = i64::try_from(boottime_ms).unwrap_or(i64::MAX).saturating_sub_unsigned(now.ms());
    state::save(&tx, "boot_anchor", &Anchor { boot_id: boot_id.to_owned(), offset_ms })?;
    tx.commit().map_err(failed("storing the clock"))?;
    Ok(now)
}

#[cfg(test)]
mod tests {
    use super::super::journal::{self, Line};
    use super::*;

    const DAY: u64 = 86_400_000;

    #[test]
    fn time_goes_on_over_a_restart_whatever_the_wall_clock_says() {
        let mut conn = Connection::open_in_memory().unwrap();
        assert_eq!(resume(&mut conn, "boot a", 5_000, WallTime(1_000)).unwrap(), MonoTime(0));
        assert_eq!(resume(&mut conn, "boot a", 65_000, WallTime(-9_000_000)).unwrap(), MonoTime(60_000));
        assert_eq!(resume(&mut conn, "boot a", 66_000, WallTime(9_000_000_000)).unwrap(), MonoTime(61_000));
    }

    #[test]
    fn over_a_reboot_the_time_off_is_the_wall_clocks_within_thirty_days() {
        let start = |off: i64| {
            let mut conn = Connection::open_in_memory().unwrap();
            resume(&mut conn, "boot a", 5_000, WallTime(0)).unwrap();
            let tx = conn.transaction().unwrap();
            let line = Line { at: MonoTime(60_000), wall: WallTime(60_000), json: "{}".into() };
            journal::append(&tx, 1, &[line]).unwrap();
            tx.commit().unwrap();
            resume(&mut conn, "boot b", 10, WallTime(60_000 + off)).unwrap()
        };
        assert_eq!(start(3_000), MonoTime(63_000));
        assert_eq!(start(-7_200_000), MonoTime(60_000), "a clock that went back counts as no time");
        assert_eq!(start(400 * DAY as i64), MonoTime(60_000 + 30 * DAY));
    }
}
