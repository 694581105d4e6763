//! The messages of the Claude Code command line, as data: what changes with its versions stands here and nowhere else.
//!
//! A row is a pattern over the [`normal`] form of a line, from its first letter; `*` stands for anything. The first row
//! that fits decides. The last resort ([`Meaning::Maybe`]) is for wordings that nobody has seen yet: a limit that was hit or
//! reached, and a reset whose time can be read.
//! **Source:** protocols.md C.3; the version is the first in which the wording was reported.

use super::Severity;

/// Rises with every change of the rows.
pub const TABLE_VERSION: u32 = 1;

pub const UNKNOWN: &str = "unknown";
pub const WEEKLY: &str = "weekly";
const FIVE_HOUR: &str = "five_hour";
const WEEKLY_MODEL: &str = "weekly_model";
const DAILY: &str = "daily";
const OVERAGE: &str = "overage";
const CREDIT: &str = "credit";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Limit {
        window: &'static str,
        severity: Severity,
    },
    /// A limit, if the time of its reset can be read.
    Maybe,
    /// Nothing can be asked before somebody signs in.
    SignIn,
}

struct Row {
    since: &'static str,
    pattern: &'static str,
    meaning: Meaning,
}

const fn limit(since: &'static str, pattern: &'static str, window: &'static str) -> Row {
    Row { since, pattern, meaning: Meaning::Limit { window, severity: Severity::Limit } }
}
const fn warning(since: &'static str, pattern: &'static str, window: &'static str) -> Row {
    Row { since, pattern, meaning: Meaning::Limit { window, severity: Severity::Warning } }
}
const fn sign_in(since: &'static str, pattern: &'static str) -> Row {
    Row { since, pattern, meaning: Meaning::SignIn }
}

const ROWS: &[Row] = &[
    // Still trying by itself: no limit yet.
    warning("1.0.31", "*retrying in *", UNKNOWN),
    warning("1.0.105", "approaching*weekly*limit*", WEEKLY),
    warning("1.0.105", "approaching*limit*", UNKNOWN),
    warning("2.1.0", "you've used *% of your session limit*", FIVE_HOUR),
    warning("2.1.0", "you've used *% of your weekly limit*", WEEKLY),
    warning("2.1.0", "you've used *% of your *limit*", UNKNOWN),
    warning("2.1.0", "*now using extra usage*", UNKNOWN),
    // The windows by name.
    limit("1.0.105", "5-hour limit reached*", FIVE_HOUR),
    limit("1.0.105", "five-hour limit reached*", FIVE_HOUR),
    limit("2.1.47", "you've hit your session limit*", FIVE_HOUR),
    limit("2.1.47", "you've reached your session limit*", FIVE_HOUR),
    limit("1.0.105", "session limit reached*", FIVE_HOUR),
    limit("1.0.105", "weekly limit reached*", WEEKLY),
    limit("2.1.0", "you've hit your weekly limit*", WEEKLY),
    limit("2.1.0", "you've reached your weekly limit*", WEEKLY),
    limit("1.0.105", "opus*limit reached*", WEEKLY_MODEL),
    limit("1.0.105", "sonnet*limit reached*", WEEKLY_MODEL),
    limit("2.1.0", "you've hit your opus*limit*", WEEKLY_MODEL),
    limit("2.1.0", "you've hit your sonnet*limit*", WEEKLY_MODEL),
    limit("2.1.0", "you've hit your daily limit*", DAILY),
    limit("1.0.105", "daily limit reached*", DAILY),
    limit("2.1.0", "you're out of extra usage*", OVERAGE),
    limit("2.1.0", "you've hit your *spend*limit*", OVERAGE),
    limit("1.0.31", "credit balance is too low*", CREDIT),
    // Those that don't say which.
    limit("1.0.31", "claude ai usage limit reached*", UNKNOWN),
    limit("1.0.31", "claude usage limit reached*", UNKNOWN),
    limit("1.0.31", "usage limit reached*", UNKNOWN),
    limit("2.1.0", "you've hit your usage limit*", UNKNOWN),
    limit("2.1.0", "you've hit your limit*", UNKNOWN),
    limit("2.1.0", "you've reached your usage limit*", UNKNOWN),
    limit("2.1.0", "you've reached your limit*", UNKNOWN),
    limit("2.1.0", "this request would exceed your account's rate limit*", UNKNOWN),
    limit("1.0.31", "api error: rate limit*", UNKNOWN),
    limit("1.0.31", "api error: 429*", UNKNOWN),
    limit("1.0.31", "api error (429*", UNKNOWN),
    limit("2.1.0", "api error: request rejected (429)*", UNKNOWN),
    // Signing in is another failure than running.
    sign_in("1.0.31", "invalid api key*"),
    sign_in("1.0.31", "*please run /login*"),
    sign_in("1.0.31", "not logged in*"),
    sign_in("1.0.31", "oauth token has expired*"),
    sign_in("1.0.31", "oauth token revoked*"),
    sign_in("2.1.0", "login expired*"),
    sign_in("2.1.0", "failed to authenticate*"),
    sign_in("1.0.31", "api error: 401*"),
    sign_in("1.0.31", "api error: 403*"),
];

/// The newest version of the command whose wording is known.
pub fn newest_version() -> &'static str {
    let numbers = |row: &Row| row.since.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>();
    ROWS.iter().max_by_key(|row| numbers(row)).map_or("", |row| row.since)
}

/// What a line in its [`normal`] form means, if it is a message.
pub fn meaning(words: &str) -> Option<Meaning> {
    let bare = words.strip_prefix("api error: ").unwrap_or(words);
    if let Some(row) = ROWS.iter().find(|row| fits(row.pattern, words) || fits(row.pattern, bare)) {
        return Some(row.meaning);
    }
    let limit = words.find("limit")?;
    let over =
        ["hit ", "reached", "exceeded", "used up", "ran out", "exhausted"].iter().any(|word| words.contains(word));
    (over && words[limit..].contains("reset")).then_some(Meaning::Maybe)
}

/// The window that a `rate_limit_event` calls so.
pub fn window_of_type(name: &str) -> &'static str {
    match name {
        "five_hour" => FIVE_HOUR,
        "seven_day" => WEEKLY,
        "overage" => OVERAGE,
        _ if name.starts_with("seven_day_") => WEEKLY_MODEL,
        _ => UNKNOWN,
    }
}

/// The window that an error of the API speaks about; `None`: the error is no limit. An overload is none.
pub fn window_of_error(kind: &str) -> Option<&'static str> {
    match kind {
        "rate_limit_error" => Some(UNKNOWN),
        "billing_error" => Some(CREDIT),
        "enforced_spend_limit_reached" => Some(OVERAGE),
        _ if kind.ends_with("daily_limit_reached") => Some(DAILY),
        _ if kind.ends_with("weekly_limit_reached") => Some(WEEKLY),
        _ if kind.ends_with("limit_reached") => Some(UNKNOWN),
        _ => None,
    }
}

pub fn is_sign_in_error(kind: &str) -> bool {
    matches!(kind, "authentication_error" | "permission_error" | "authentication_failed")
}

/// One form for all: without colours, decoration before the first letter and `Error:` in front; lower case, plain
/// apostrophes, single spaces.
pub fn normal(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // A colour: up to its final letter.
            if chars.peek() == Some(&'[') {
                for c in chars.by_ref() {
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                }
            }
            continue;
        }
        let c = match c {
            '\u{2019}' | '\u{2018}' | '`' => '\'',
            c if c.is_whitespace() || c.is_control() => ' ',
            c => c,
        };
        if c != ' ' || !plain.ends_with(' ') {
            plain.extend(c.to_lowercase());
        }
    }
    let words = plain.trim_start_matches(|c: char| !c.is_alphanumeric()).trim_end();
    words.strip_prefix("error: ").unwrap_or(words).to_owned()
}

/// Whether `words` is of the form of `pattern`, in which `*` stands for anything.
fn fits(pattern: &str, words: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = words.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_the_greatest_number_by_number() {
        assert_eq!(newest_version(), "2.1.47");
    }

    #[test]
    fn no_row_hides_a_later_one() {
        for (i, row) in ROWS.iter().enumerate() {
            let example = row.pattern.replace('*', " ");
            let first = ROWS
                .iter()
                .position(|row| fits(row.pattern, example.trim()))
                .or_else(|| ROWS.iter().position(|row| fits(row.pattern, &example)));
            assert_eq!(first, Some(i), "{:?} is hidden", row.pattern);
        }
    }

    #[test]
    fn a_pattern_is_read_from_the_first_letter_to_the_last() {
        assert!(fits("a*c", "abc") && fits("a*c", "ac") && fits("*b*", "abc") && fits("abc", "abc"));
        assert!(!fits("a*c", "abcd") && !fits("b*", "abc") && !fits("abc", "ab") && !fits("a*b*c", "acb"));
    }

    #[test]
    fn decoration_and_colours_are_no_part_of_a_message() {
        assert_eq!(normal("  ⎿  \u{1b}[31mYou\u{2019}ve  hit\tyour limit\u{1b}[0m "), "you've hit your limit");
        assert_eq!(normal("● API Error: 429 {}"), "api error: 429 {}");
        assert_eq!(normal("Error: usage limit reached"), "usage limit reached");
    }
}
