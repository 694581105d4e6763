//! Reads what a `session_limit` says about its resets: lengths from its start, or times of the wall clock.
//!
//! A limit states its first reset until that has come, then the next one of `moves_to`, and so on: what was promised moves.
//! Once the last has come it states none. Without `lasts` it is over when the last has come.
//! **Source:** scenario.md (`session_limit`).

use super::dist::{DIST_POSITIVE, Dist, read_dist};
use super::types::{FaultKind, SessionLimit};
use crate::seed::Stream;
use squall::base::{Span, WallTime};
use squall::config::{Complaint, Key, Problems, Shape, Table};

pub const WINDOWS: [&str; 3] = ["five_hour", "weekly", "weekly_model"];

/// Wordings by the version in which they came, or by what is odd about them.
pub const WORDINGS: [&str; 10] = [
    "1.0.31",
    "1.0.105",
    "2.1",
    "2.1-session",
    "stream-json",
    "stream-json-ms",
    "no-reset",
    "daily",
    "silent-cap",
    "silent",
];
const WORDING: &str = "2.1";
const ZONE: &str = "UTC";

const RESET: Shape = Shape::Written {
    what: "a time such as \"14:10\" or \"2026-01-01T14:10:00Z\"",
    pattern: r"^\s*(\d{1,2}:\d{2}|\d{4}-\d{2}-\d{2}[Tt ].+)\s*$",
    check: check_time,
};
const MOVED: Shape = Shape::Written {
    what: "a duration from the fault's start, or a time such as \"14:10\"",
    pattern: r"\S",
    check: check_moved,
};
const ZONE_SHAPE: Shape =
    Shape::Written { what: "a time zone such as \"Asia/Shanghai\"", pattern: r"\S", check: check_zone };

pub const KEYS: &[Key] = &[
    Key::required("window", Shape::OneOf(&WINDOWS), "Which window is used up.").only(&["session_limit"]),
    Key::optional("resets_at", RESET, "", "When it says it resets: a time of day (UTC) or a moment.")
        .only(&["session_limit"]),
    Key::optional("resets_in", DIST_POSITIVE, "", "Or in how long after its start. Without either it states no reset.")
        .only(&["session_limit"]),
    Key::optional("message", Shape::OneOf(&WORDINGS), WORDING, "Version of the wording.").only(&["session_limit"]),
    Key::optional("zone", ZONE_SHAPE, ZONE, "The time zone that wordings with a zone name.").only(&["session_limit"]),
    Key::optional(
        "moves_to",
        Shape::OneOrList(&MOVED),
        "",
        "What it says when the stated reset has come and the limit is still there.",
    )
    .only(&["session_limit"]),
];

/// A stated reset, before anything is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Reset {
    /// After the fault's start.
    In(Dist),
    At(WallTime),
    /// The next time of this name after the start, UTC.
    TimeOfDay(Span),
}

impl Reset {
    /// From the start of the run. Never before the fault's own.
    fn draw(&self, starts_at: WallTime, at: Span, stream: &mut Stream) -> Span {
        match self {
            Reset::In(dist) => at + dist.sample(stream),
            Reset::At(wall) => Span::from_ms(u64::try_from(wall.0.saturating_sub(starts_at.0)).unwrap_or(0)).max(at),
            Reset::TimeOfDay(time) => {
                const DAY: i64 = 86_400_000;
                let now = (starts_at + at).0;
                let ahead = (i64::try_from(time.ms()).expect("less than a day") - now.rem_euclid(DAY)).rem_euclid(DAY);
                at + Span::from_ms(if ahead == 0 { DAY.unsigned_abs() } else { ahead.unsigned_abs() })
            }
        }
    }
}

/// The limit and its resets, which are drawn for each run.
pub fn read(table: &Table, problems: &mut Problems) -> Option<(FaultKind, Vec<Reset>)> {
    if table.has("resets_at") && table.has("resets_in") {
        let complaint = Complaint::new("`resets_at` and `resets_in` exclude each other");
        problems.add(table.key_span("resets_in"), complaint);
    }
    let first = table.text("resets_in").and_then(|text| read_dist(text).ok()).map(Reset::In);
    let first = first.or_else(|| table.text("resets_at").and_then(|text| read_time(text).ok()));
    if first.is_none() && table.has("moves_to") && !table.is_bad("resets_in") && !table.is_bad("resets_at") {
        let complaint = Complaint::new("`moves_to` moves a reset, and none is stated").help("say `resets_in`");
        problems.add(table.key_span("moves_to"), complaint);
    }
    let moved = table.texts("moves_to");
    let mut resets: Vec<Reset> = first.into_iter().collect();
    for text in &moved {
        let Ok(reset) = read_moved(text.value) else { continue };
        if let (Some(Reset::In(before)), Reset::In(after)) = (resets.last(), &reset)
            && after.median() <= before.median()
        {
            let message = format!("the reset moves to {after}, which is not later than {before}");
            problems.add(text.span.clone(), Complaint::new(message).help("each counts from the fault's start"));
        }
        resets.push(reset);
    }
    let limit = SessionLimit {
        window: table.text("window")?.to_owned(),
        resets: Vec::new(),
        message: table.text("message").unwrap_or(WORDING).to_owned(),
        zone: table.text("zone").unwrap_or(ZONE).trim().to_owned(),
    };
    Some((FaultKind::SessionLimit(limit), resets))
}

/// Draws the resets of a limit that begins at `at`; the last one, if there is one.
pub fn draw(kind: &mut FaultKind, of: &[Reset], starts_at: WallTime, at: Span, stream: &mut Stream) -> Option<Span> {
    let FaultKind::SessionLimit(limit) = kind else { return None };
    limit.resets = of.iter().map(|reset| reset.draw(starts_at, at, stream)).collect();
    limit.resets.last().copied()
}

fn check_time(text: &str) -> Result<(), Complaint> {
    read_time(text).map(drop)
}

fn read_time(text: &str) -> Result<Reset, Complaint> {
    let bad =
        || Complaint::new(format!("{text:?} is no time")).help("write \"14:10\" (UTC), or \"2026-01-01T14:10:00Z\"");
    let text = text.trim();
    let Some((hours, minutes)) = text.split_once(':').filter(|_| text.len() <= "23:59".len()) else {
        let moment: jiff::Timestamp = text.parse().map_err(|_| bad())?;
        return Ok(Reset::At(WallTime(moment.as_millisecond())));
    };
    let number = |text: &str, below: u64| text.parse::<u64>().ok().filter(|number| *number < below);
    let hours = number(hours, 24).ok_or_else(bad)?;
    let minutes = number(minutes, 60).filter(|_| minutes.len() == 2).ok_or_else(bad)?;
    Ok(Reset::TimeOfDay(Span::from_mins(hours * 60 + minutes)))
}

fn check_moved(text: &str) -> Result<(), Complaint> {
    read_moved(text).map(drop)
}

fn read_moved(text: &str) -> Result<Reset, Complaint> {
    match read_dist(text) {
        Ok(dist) => Ok(Reset::In(dist)),
        Err(_) => read_time(text).map_err(|complaint| complaint.help("or write a duration, such as \"8h\"")),
    }
}

fn check_zone(text: &str) -> Result<(), Complaint> {
    let known = jiff::tz::db().get(text.trim()).is_ok();
    known.then_some(()).ok_or_else(|| Complaint::new(format!("{text:?} is no time zone")).help("such as \"UTC\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    const SIX: WallTime = WallTime(1_767_247_200_000); // 2026-01-01T06:00:00Z

    fn drawn(text: &str, at: Span) -> Span {
        read_moved(text).unwrap().draw(SIX, at, &mut Seed::new(1).stream("test"))
    }

    #[test]
    fn a_reset_is_a_length_a_moment_or_the_next_time_of_day() {
        let hours = Span::from_hours;
        assert_eq!(drawn("2h", hours(1)), hours(3));
        assert_eq!(drawn("14:10", hours(1)), hours(8) + Span::from_mins(10));
        assert_eq!(drawn("6:30", hours(1)), hours(24) + Span::from_mins(30));
        assert_eq!(drawn("07:00", hours(1)), hours(25), "now is past");
        assert_eq!(drawn("2026-01-01T09:00:00Z", hours(1)), hours(3));
        assert_eq!(drawn("2025-01-01T09:00:00Z", hours(1)), hours(1), "never before its own start");
        for text in ["soon", "24:00", "7", "14:1", "", "2026-13-01T00:00:00Z"] {
            assert!(read_moved(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_last_reset_is_where_it_ends() {
        let limit = SessionLimit { window: "weekly".into(), resets: vec![], message: "2.1".into(), zone: "UTC".into() };
        let mut kind = FaultKind::SessionLimit(limit);
        let of = ["1h", "3h"].map(|text| read_moved(text).unwrap());
        let mut stream = Seed::new(1).stream("test");
        assert_eq!(draw(&mut kind, &of, SIX, Span::from_hours(1), &mut stream), Some(Span::from_hours(4)));
        assert_eq!(draw(&mut kind, &[], SIX, Span::from_hours(1), &mut stream), None);
        assert_eq!(draw(&mut FaultKind::Hang, &of, SIX, Span::ZERO, &mut stream), None);
    }
}
