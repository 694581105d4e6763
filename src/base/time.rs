//! Two clocks, two types, and the spans between their readings.
//!
//! [`MonoTime`] decides; [`WallTime`] is shown. No arithmetic turns one into the other.
//! **Source:** engine.md 1.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

/// Elapsed milliseconds since the engine's database was born; survives restarts and never goes back.
/// Every deadline, hold, window, lease and back-off is one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MonoTime(pub u64);

/// Unix milliseconds, UTC; for people, files and calendar items, never for a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallTime(pub i64);

/// A stretch of time in milliseconds. Written as `"90s"`, `"2m30s"`, `"1h"`, `"250ms"`, `"1d"` in files.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    pub const ZERO: Span = Span(0);
    pub const MAX: Span = Span(u64::MAX);

    pub const fn from_ms(ms: u64) -> Span {
        Span(ms)
    }
    pub const fn from_secs(s: u64) -> Span {
        Span(s * 1_000)
    }
    pub const fn from_mins(m: u64) -> Span {
        Span(m * 60_000)
    }
    pub const fn from_hours(h: u64) -> Span {
        Span(h * 3_600_000)
    }
    pub const fn from_days(d: u64) -> Span {
        Span(d * 86_400_000)
    }
    pub const fn ms(self) -> u64 {
        self.0
    }
    pub const fn secs_f64(self) -> f64 {
        self.0 as f64 / 1_000.0
    }
    /// Whole seconds, rounded up: what a `Retry-After` header can say without promising too early a time.
    pub const fn secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    pub fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
    /// Scaled by a factor that is not negative, rounded to the nearest millisecond, saturating.
    pub fn scale(self, factor: f64) -> Span {
        assert!(factor >= 0.0, "a span is scaled by a factor that is not negative, not {factor}");
        Span((self.0 as f64 * factor).round() as u64)
    }
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl Add<Span> for MonoTime {
    type Output = MonoTime;
    fn add(self, span: Span) -> MonoTime {
        MonoTime(self.0.saturating_add(span.0))
    }
}

impl Add<Span> for WallTime {
    type Output = WallTime;
    fn add(self, span: Span) -> WallTime {
        WallTime(self.0.saturating_add_unsigned(span.0))
    }
}

impl Sub for MonoTime {
    type Output = Span;
    /// Zero if `earlier` is in fact later.
    fn sub(self, earlier: MonoTime) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl MonoTime {
    pub const ZERO: MonoTime = MonoTime(0);
    pub const fn ms(self) -> u64 {
        self.0
    }
    /// A window of length `window` that ends now holds events with `t > now - window`.
    pub fn in_window(self, now: MonoTime, window: Span) -> bool {
        self <= now && self.0.saturating_add(window.0) > now.0
    }
}

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    #[error("a duration needs a number and a unit (ms, s, m, h, d), such as \"90s\" or \"2m30s\"")]
    Shape,
    #[error("unknown unit {unit:?}: use ms, s, m, h or d")]
    Unit { unit: String },
    #[error("the duration is too long to count in milliseconds")]
    TooLong,
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Span, SpanError> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(SpanError::Shape);
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(SpanError::Shape)?;
            if digits == 0 {
                return Err(SpanError::Shape);
            }
            let number: u64 = rest[..digits].parse().map_err(|_| SpanError::TooLong)?;
            rest = &rest[digits..];
            let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
            let unit = match &rest[..letters] {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                "" => return Err(SpanError::Shape),
                other => return Err(SpanError::Unit { unit: other.to_owned() }),
            };
            rest = &rest[letters..];
            total = number.checked_mul(unit).and_then(|ms| total.checked_add(ms)).ok_or(SpanError::TooLong)?;
        }
        Ok(Span(total))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut left = self.0;
        for (unit, ms) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
            if left >= ms {
                write!(f, "{}{unit}", left / ms)?;
                left %= ms;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_reads_back_what_it_prints() {
        for text in ["0s", "250ms", "90s", "2m30s", "1h", "15m", "1d2h", "35d"] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.to_string().parse::<Span>(), Ok(span), "{text}");
        }
        assert_eq!("90s".parse::<Span>().unwrap().to_string(), "1m30s");
    }

    #[test]
    fn a_span_without_a_unit_or_with_a_strange_one_is_refused() {
        assert_eq!("90".parse::<Span>(), Err(SpanError::Shape));
        assert_eq!("".parse::<Span>(), Err(SpanError::Shape));
        assert_eq!("s".parse::<Span>(), Err(SpanError::Shape));
        assert_eq!("-5s".parse::<Span>(), Err(SpanError::Shape));
        assert_eq!("5 s".parse::<Span>(), Err(SpanError::Shape));
        assert_eq!("3w".parse::<Span>(), Err(SpanError::Unit { unit: "w".into() }));
        assert_eq!("99999999999999999999s".parse::<Span>(), Err(SpanError::TooLong));
        assert_eq!("999999999999999d".parse::<Span>(), Err(SpanError::TooLong));
    }

    #[test]
    fn a_window_leaves_out_what_is_exactly_as_old_as_it_is_long() {
        let window = Span::from_mins(15);
        assert!(MonoTime(1).in_window(MonoTime(900_000), window));
        assert!(!MonoTime(0).in_window(MonoTime(900_000), window));
    }
}
