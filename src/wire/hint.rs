//! How long a provider asks to wait: one parser for all the ways of saying it.
//!
//! The first of these that can be read wins:
//! 1. `retry-after-ms` (milliseconds, fractions allowed);
//! 2. `retry-after` (seconds, fractions allowed, or an HTTP date);
//! 3. for rate limits: the reset of a budget that the headers show as used up (`x-ratelimit-reset-*` are durations,
//!    `anthropic-ratelimit-*-reset` are moments, Mistral's `ratelimitbysize-reset` is seconds); for quotas:
//!    `anthropic-ratelimit-unified-reset`;
//! 4. a field of the error's body: `retry_after_ms`, `retry_after` (seconds), `retryDelay` (a duration) among its details;
//! 5. the error's text ("Please try again in 6ms", "retry after 20 seconds", "regain access on 2026-12-01 at 00:00 UTC");
//! 6. for rate limits: the longer of `x-ratelimit-reset-*` although no budget shows as used up.
//!
//! A wait that is over or negative is 0. What cannot be read is skipped, and nothing is made up: no line of this file adds,
//! caps or rounds down a wait. Caps are the park's business; a wait too long to count is [`Span::MAX`].
//! Moments are read against the answer's own `Date`, so that our clock need not agree with the provider's.
//! **Source:** engine.md 1 and 3 ("Wait hints"), protocols.md C.1, C.2, C.5.

use super::error::ErrorBody;
use super::header;
use crate::base::{Outcome, Span, WallTime};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use serde_json::Value;

/// Budgets in the `anthropic-ratelimit-{budget}-{remaining,reset}` headers.
const ANTHROPIC_BUDGETS: [&str; 4] = ["requests", "tokens", "input-tokens", "output-tokens"];
/// Before the budget's name (`requests`, `tokens`, at compatible servers others) in a header with a duration.
const RESET: &str = "x-ratelimit-reset-";
/// How much of an error's text is searched.
const TEXT_BYTES_MAX: usize = 4_096;

/// The wait that the answer asks for. `now` is used where the answer has no readable `Date`.
pub fn read(now: WallTime, outcome: Outcome, headers: &[(String, String)], error: &ErrorBody) -> Option<Span> {
    let in_body = |now| error.wait.or_else(|| in_text(&error.message, now));
    let now = header(headers, "date").and_then(http_date).unwrap_or(now);
    let retry_after = || {
        let in_ms = header(headers, "retry-after-ms").and_then(|text| decimal(text, 1.0));
        in_ms.or_else(|| header(headers, "retry-after").and_then(|text| seconds_or_date(text, now)))
    };
    match outcome {
        Outcome::Throttled => retry_after()
            .or_else(|| used_up_reset(headers, now))
            .or_else(|| in_body(now))
            .or_else(|| resets(headers).map(|(_, span)| span).max()),
        Outcome::Quota => retry_after()
            .or_else(|| header(headers, "anthropic-ratelimit-unified-reset").and_then(moment).map(|at| until(at, now)))
            .or_else(|| in_body(now)),
        // The rate budgets on these answers explain nothing.
        Outcome::ProviderFault | Outcome::Overloaded => retry_after().or_else(|| in_body(now)),
        Outcome::Success
        | Outcome::BadKey
        | Outcome::CallersFault
        | Outcome::Unfit
        | Outcome::Refused
        | Outcome::Cancelled => None,
    }
}

/// A wait in a field of its own, of an error or of the body around it.
pub(super) fn in_fields(object: &Value) -> Option<Span> {
    let text = |value: &Value| match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let field = |name: &str, unit_ms: f64| object.get(name).and_then(text).and_then(|text| decimal(&text, unit_ms));
    let details = || object.get("details").and_then(Value::as_array).into_iter().flatten();
    let delay = || details().find_map(|detail| go_duration(detail.get("retryDelay")?.as_str()?));
    field("retry_after_ms", 1.0).or_else(|| field("retry_after", 1_000.0)).or_else(delay)
}

/// The longest reset among the budgets whose `remaining` is 0.
fn used_up_reset(headers: &[(String, String)], now: WallTime) -> Option<Span> {
    let used_up = |name: &str| header(headers, name).is_some_and(|text| text.trim() == "0");
    let durations =
        resets(headers).filter(|(budget, _)| used_up(&format!("x-ratelimit-remaining-{budget}"))).map(|(_, span)| span);
    let anthropic = ANTHROPIC_BUDGETS
        .iter()
        .filter(|budget| used_up(&format!("anthropic-ratelimit-{budget}-remaining")))
        .filter_map(|budget| header(headers, &format!("anthropic-ratelimit-{budget}-reset")).and_then(moment))
        .map(|at| until(at, now));
    durations.chain(anthropic).chain(mistral_reset(headers)).max()
}

/// Every budget with a reset that is a duration.
fn resets(headers: &[(String, String)]) -> impl Iterator<Item = (String, Span)> {
    headers.iter().filter_map(|(name, value)| {
        let name = name.to_ascii_lowercase();
        Some((name.strip_prefix(RESET)?.to_owned(), go_duration(value)?))
    })
}

/// Mistral's budget of tokens: used up for this request if less is left than it takes.
fn mistral_reset(headers: &[(String, String)]) -> Option<Span> {
    let number = |name: &str| header(headers, name).and_then(|text| text.trim().parse::<u64>().ok());
    let cost = number("ratelimitbysize-query-cost").unwrap_or(0).max(1);
    number("ratelimitbysize-remaining").filter(|left| *left < cost)?;
    header(headers, "ratelimitbysize-reset").and_then(|text| decimal(text, 1_000.0))
}

fn seconds_or_date(text: &str, now: WallTime) -> Option<Span> {
    decimal(text, 1_000.0).or_else(|| http_date(text).map(|at| until(at, now)))
}

/// A decimal number of units of `unit_ms` milliseconds, rounded up. Below zero is zero.
fn decimal(text: &str, unit_ms: f64) -> Option<Span> {
    let text = text.trim();
    // No exponents, no "inf": nobody means them, and a wait of 1e9 would be a long one.
    if !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+')) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    // Float to integer saturates: below zero gives 0, too large gives the largest. The nudge keeps 0.006 s at 6 ms.
    Some(Span::from_ms((number * unit_ms - 1e-6).ceil() as u64))
}

fn until(at: WallTime, now: WallTime) -> Span {
    Span::from_ms(u64::try_from(at.0.saturating_sub(now.0)).unwrap_or(0))
}

fn http_date(text: &str) -> Option<WallTime> {
    let parsed = DateTimeParser::new().parse_timestamp(text.trim()).ok()?;
    Some(WallTime(parsed.as_millisecond()))
}

/// An RFC 3339 moment, or whole seconds since 1970 as the subscription's headers have them.
fn moment(text: &str) -> Option<WallTime> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Fewer digits are no moment of our times, more are no seconds.
        let seconds: i64 = if text.len() == 10 { text.parse().ok()? } else { return None };
        return Some(WallTime(seconds.saturating_mul(1_000)));
    }
    let parsed: Timestamp = text.parse().ok()?;
    Some(WallTime(parsed.as_millisecond()))
}

/// A duration as Go prints it: `6m0s`, `20ms`, `1.5s`, `1h0m0s`; also with days. Rounded up, below zero is zero.
fn go_duration(text: &str) -> Option<Span> {
    let (negative, mut rest) = match text.trim().strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.trim()),
    };
    if rest == "0" {
        return Some(Span::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total_ms = 0.0;
    while !rest.is_empty() {
        let (ms, after) = number_and_unit(rest, 0)?;
        total_ms += ms;
        rest = after;
    }
    let total = Span::from_ms((total_ms - 1e-6).ceil() as u64);
    Some(if negative { Span::ZERO } else { total })
}

/// Reads "1.5s", or with `spaces_max` > 0 "20 seconds": milliseconds, and what follows.
fn number_and_unit(text: &str, spaces_max: usize) -> Option<(f64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..digits].parse().ok()?;
    let unit_at = text[digits..].trim_start_matches(' ');
    if text.len() - digits - unit_at.len() > spaces_max {
        return None;
    }
    let letters = unit_at.find(|c: char| !c.is_alphabetic()).unwrap_or(unit_at.len());
    let unit_ms = match &unit_at[..letters] {
        "ns" => 1e-6,
        "us" | "µs" | "μs" => 1e-3,
        "ms" | "millisecond" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1e3,
        "m" | "min" | "mins" | "minute" | "minutes" => 6e4,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3.6e6,
        "d" | "day" | "days" => 8.64e7,
        _ => return None,
    };
    Some((number * unit_ms, &unit_at[letters..]))
}

/// A wait stated in an error's text.
fn in_text(message: &str, now: WallTime) -> Option<Span> {
    let mut end = message.len().min(TEXT_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let text = message[..end].to_ascii_lowercase();
    for phrase in ["try again in ", "retry in ", "retry after ", "try again after "] {
        for (at, _) in text.match_indices(phrase) {
            if let Some(span) = span_of_text(&text[at + phrase.len()..]) {
                return Some(span);
            }
        }
    }
    // "You will regain access on 2026-12-01 at 00:00 UTC."
    let (_, rest) = text.split_once("regain access on ")?;
    let (date, rest) = rest.split_once(" at ")?;
    let (time, _) = rest.split_once(" utc")?;
    let at: Timestamp = format!("{date}t{time}:00z").to_ascii_uppercase().parse().ok()?;
    Some(until(WallTime(at.as_millisecond()), now))
}

/// The duration with which a text begins: `6m0s.`, `20 seconds`, `1 minute 30 seconds`.
fn span_of_text(text: &str) -> Option<Span> {
    let mut rest = text;
    let mut total_ms = None;
    while let Some((ms, after)) = number_and_unit(rest, 1) {
        total_ms = Some(total_ms.unwrap_or(0.0) + ms);
        rest = after.trim_start_matches(' ');
    }
    total_ms.map(|ms: f64| Span::from_ms((ms - 1e-6).ceil() as u64))
}

#[cfg(test)]
mod tests;
