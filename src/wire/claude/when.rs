//! When a limit says it resets: moments, lengths and wall-clock times of some zone, all turned into a length once,
//! against the time of the line that says it.
//!
//! A time of day is the next one; in an hour that a change of clocks repeats, the first that is still ahead; in one that
//! it skips, the same length after it. Nobody's clock is exact and texts name whole minutes, so a time that is over by
//! [`PAST_MAX_S`] or less is over, not tomorrow's. A date without a year is the nearest that makes sense: over, if it has
//! just been; next year's, if it is long past. What cannot be read is no reset, and nothing is made up.
//! **Source:** engine.md 1 (a stated absolute time), protocols.md C.3.

use crate::base::{Span, WallTime};
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, ToSpan};
use serde_json::Value;

/// A time of day that was this recently is not meant for tomorrow.
const PAST_MAX_S: i64 = 120;
/// A date without a year that is past by more than this is meant for next year.
const DATE_PAST_DAYS_MAX: i64 = 180;
/// No window is longer; a moment further away is a misreading.
const AHEAD_MAX_DAYS: i64 = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    pub span: Span,
    /// It names a day.
    pub dated: bool,
}

/// A moment as a number: seconds, or milliseconds, since 1970.
pub fn epoch(value: &Value, now: WallTime) -> Option<Span> {
    let number = match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|number| number as i64))?,
        Value::String(text) => match text.trim().parse::<i64>() {
            Ok(number) => number,
            Err(_) => return moment(text.trim(), now),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    epoch_number(number, now)
}

fn epoch_number(number: i64, now: WallTime) -> Option<Span> {
    // Ten digits are seconds until 2286, thirteen are milliseconds; anything else is no moment of our times.
    let ms = match number {
        1_000_000_000..=9_999_999_999 => number * 1_000,
        1_000_000_000_000..=9_999_999_999_999 => number,
        _ => return None,
    };
    until(ms, now)
}

/// The reset that a text in its normal form states.
pub fn in_text(words: &str, now: WallTime, local: &TimeZone) -> Option<Reset> {
    // "usage limit reached|1750708800"
    if let Some((_, after)) = words.split_once('|') {
        let digits = after.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        if let Some(span) = digits.parse().ok().and_then(|number| epoch_number(number, now)) {
            return Some(Reset { span, dated: false });
        }
    }
    words.match_indices("reset").find_map(|(at, word)| stated(&words[at + word.len()..], now, local))
}

/// What follows on "reset": "s 7pm (asia/shanghai)", "s apr 23 at 4pm", "s in 2h 15m".
fn stated(after: &str, now: WallTime, local: &TimeZone) -> Option<Reset> {
    let after = after.strip_prefix('s').unwrap_or(after);
    // Not "reseller" or "resetting".
    let after = after.strip_prefix([' ', ':'])?.trim_start();
    let after = after.strip_prefix("at ").or_else(|| after.strip_prefix("on ")).unwrap_or(after);
    if let Some(length) = after.strip_prefix("in ") {
        return Some(Reset { span: length_of(length)?, dated: false });
    }
    let first = after.split(' ').next().unwrap_or_default();
    if let Some(span) = moment(first.trim_end_matches(['.', ',', ')']), now) {
        return Some(Reset { span, dated: false });
    }
    let mut words = Words::new(after);
    let day = words.day();
    words.skip(&["at", ","]);
    let time = match words.time() {
        Some(time) => time,
        // "resets Apr 23": its first minute. Without a day there must be a time.
        None if day.is_some() => Time::midnight(),
        None => return None,
    };
    let zone = words.zone().unwrap_or_else(|| local.clone());
    let span = next(day, time, &zone, now)?;
    let dated = matches!(day, Some(Day::Date { .. } | Day::Weekday(_)));
    Some(Reset { span, dated })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    Today,
    Tomorrow,
    Weekday(Weekday),
    Date { year: Option<i16>, month: i8, day: i8 },
}

fn next(day: Option<Day>, time: Time, zone: &TimeZone, now: WallTime) -> Option<Span> {
    let here = Timestamp::from_millisecond(now.0).ok()?.to_zoned_datetime(zone.clone());
    let today = here.date();
    let ahead = |ms: &i64| *ms >= now.0.saturating_sub(PAST_MAX_S * 1_000);
    let plus = |days: i64| today.checked_add(days.days()).ok();
    // The first of the day's moments of this name that is still ahead, or was but now.
    let on = |date: Date| {
        let at = zone.to_ambiguous_timestamp(DateTime::from_parts(date, time));
        let skipped = matches!(at.offset(), AmbiguousOffset::Gap { .. });
        let first = at.earlier().ok()?.as_millisecond();
        let second = at.later().ok()?.as_millisecond();
        Some(if skipped || !ahead(&first) { second } else { first })
    };
    match day {
        None => [0, 1].into_iter().filter_map(|days| on(plus(days)?)).find(ahead).and_then(|ms| until(ms, now)),
        Some(Day::Today) => until(on(today)?, now),
        Some(Day::Tomorrow) => until(on(plus(1)?)?, now),
        Some(Day::Weekday(weekday)) => {
            let days = i64::from(today.weekday().until(weekday));
            [days, days + 7].into_iter().filter_map(|days| on(plus(days)?)).find(ahead).and_then(|ms| until(ms, now))
        }
        Some(Day::Date { year: Some(year), month, day }) => until(on(Date::new(year, month, day).ok()?)?, now),
        Some(Day::Date { year: None, month, day }) => {
            let of = |year: i16| Date::new(year, month, day).ok().and_then(on);
            let this = of(today.year());
            let long_past = now.0.saturating_sub(DATE_PAST_DAYS_MAX * 86_400_000);
            // Neither did the 29th of February have to be this year.
            match this.filter(|ms| *ms >= long_past) {
                Some(ms) => until(ms, now),
                None => until(of(today.year().checked_add(1)?)?, now),
            }
        }
    }
}

fn until(ms: i64, now: WallTime) -> Option<Span> {
    let ahead = ms.saturating_sub(now.0).max(0);
    (ahead <= AHEAD_MAX_DAYS * 86_400_000).then(|| Span::from_ms(ahead.unsigned_abs()))
}

/// An RFC 3339 moment.
fn moment(text: &str, now: WallTime) -> Option<Span> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) || text.len() < "2026-01-01t00:00z".len() {
        return None;
    }
    let at: Timestamp = text.to_ascii_uppercase().parse().ok()?;
    until(at.as_millisecond(), now)
}

/// "2h 15m", "3 hours", "5 days 2 hours".
fn length_of(text: &str) -> Option<Span> {
    let mut total: Option<u64> = None;
    let mut rest = text.trim_start();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(number) = rest[..digits].parse::<u64>() else { break };
        let unit = rest[digits..].trim_start();
        let letters = unit.bytes().take_while(u8::is_ascii_alphabetic).count();
        let ms = match &unit[..letters] {
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000,
            "d" | "day" | "days" => 86_400_000,
            _ => break,
        };
        total = Some(total.unwrap_or(0).saturating_add(number.saturating_mul(ms)));
        rest = unit[letters..].trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    let most = Span::from_days(AHEAD_MAX_DAYS.unsigned_abs());
    total.map(Span::from_ms).filter(|span| *span <= most)
}

/// The words of a text, commas on their own.
struct Words<'a> {
    left: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Words<'a> {
        let mut left = Vec::new();
        for word in text.split(' ').filter(|word| !word.is_empty()).take(12) {
            let bare = word.trim_end_matches(',');
            left.push(bare);
            if bare.len() < word.len() {
                left.push(",");
            }
        }
        left.reverse();
        Words { left }
    }

    fn peek(&self) -> Option<&'a str> {
        self.left.last().copied()
    }

    fn skip(&mut self, words: &[&str]) {
        while self.peek().is_some_and(|word| words.contains(&word)) {
            self.left.pop();
        }
    }

    /// Takes the next word if `read` can.
    fn take<T>(&mut self, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let value = read(self.peek()?)?;
        self.left.pop();
        Some(value)
    }

    fn day(&mut self) -> Option<Day> {
        if let Some(day) = self.take(|word| match word {
            "today" => Some(Day::Today),
            "tomorrow" => Some(Day::Tomorrow),
            _ => None,
        }) {
            return Some(day);
        }
        let weekday = self.take(weekday);
        self.skip(&[","]);
        // "apr 23", "23 apr", each perhaps with a year.
        let date = match self.take(month) {
            Some(month) => self.take(day_of_month).map(|day| (month, day)),
            None => {
                let two =
                    (self.left.len() >= 2).then(|| (self.left[self.left.len() - 1], self.left[self.left.len() - 2]));
                two.and_then(|(first, second)| Some((month(second)?, day_of_month(first)?))).inspect(|_| {
                    self.left.truncate(self.left.len() - 2);
                })
            }
        };
        let Some((month, day)) = date else { return weekday.map(Day::Weekday) };
        self.skip(&[","]);
        let year = self.take(|word| word.parse::<i16>().ok().filter(|year| (2020..=2100).contains(year)));
        Some(Day::Date { year, month, day })
    }

    /// "7pm", "4:10am", "14:10", "4 pm".
    fn time(&mut self) -> Option<Time> {
        let word = self.peek()?.trim_end_matches('.');
        let digits = word.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b':').count();
        let (number, mut half) = word.split_at(digits);
        let mut taken = 1;
        if half.is_empty() && self.left.len() >= 2 {
            let second = self.left[self.left.len() - 2].trim_end_matches('.');
            if matches!(second, "am" | "pm" | "a.m" | "p.m") {
                (half, taken) = (second, 2);
            }
        }
        let (hour, minute) = match number.split_once(':') {
            Some((hour, minute)) => (hour, Some(minute)),
            None => (number, None),
        };
        let parse = |text: &str| text.parse::<i8>().ok().filter(|_| (1..=2).contains(&text.len()));
        let (hour, minute_of) = (parse(hour)?, minute.map_or(Some(0), parse)?);
        let hour = match half {
            "am" | "a.m" if (1..=12).contains(&hour) => hour % 12,
            "pm" | "p.m" if (1..=12).contains(&hour) => hour % 12 + 12,
            // A bare number is no time of day.
            "" if minute.is_some() => hour,
            _ => return None,
        };
        let time = Time::new(hour, minute_of, 0, 0).ok()?;
        self.left.truncate(self.left.len() - taken);
        Some(time)
    }

    /// "(asia/shanghai)", "utc", "(utc+8)".
    fn zone(&mut self) -> Option<TimeZone> {
        self.take(|word| {
            let name = word.trim_start_matches('(').trim_end_matches(['.', ')']);
            zone(name).filter(|_| word.starts_with('(') || matches!(name, "utc" | "gmt"))
        })
    }
}

fn zone(name: &str) -> Option<TimeZone> {
    if let Some(sign) = name.strip_prefix("utc").or_else(|| name.strip_prefix("gmt")) {
        if sign.is_empty() {
            return Some(TimeZone::UTC);
        }
        let hours: i8 = sign.parse().ok()?;
        return Offset::from_hours(hours).ok().map(TimeZone::fixed);
    }
    // Names of zones are found whatever their case.
    jiff::tz::db().get(name).ok()
}

fn weekday(word: &str) -> Option<Weekday> {
    Some(match word {
        "mon" | "monday" => Weekday::Monday,
        "tue" | "tues" | "tuesday" => Weekday::Tuesday,
        "wed" | "wednesday" => Weekday::Wednesday,
        "thu" | "thurs" | "thursday" => Weekday::Thursday,
        "fri" | "friday" => Weekday::Friday,
        "sat" | "saturday" => Weekday::Saturday,
        "sun" | "sunday" => Weekday::Sunday,
        _ => return None,
    })
}

fn month(word: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let word = word.trim_end_matches('.');
    let at = MONTHS
        .iter()
        .position(|month| word.len() >= 3 && (month.starts_with(word) || word == "sept" && *month == "september"))?;
    i8::try_from(at + 1).ok()
}

fn day_of_month(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    matches!(&word[digits.len()..], "" | "st" | "nd" | "rd" | "th").then_some(())?;
    digits.parse().ok().filter(|day| (1..=31).contains(day))
}
