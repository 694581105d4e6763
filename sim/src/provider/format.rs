//! Texts that servers write: times in three dialects, identifiers, filler words, gateway pages.
//!
//! Everything is a function of its arguments: the same request gets the same bytes in every run.

use squall::base::Span;
use std::fmt::Write;

/// As Go prints a duration: `"6ms"`, `"1.5s"`, `"6m0s"`, `"1h0m0s"`.
pub fn go_duration(span: Span) -> String {
    let ms = span.ms();
    if ms < 1_000 {
        return if ms == 0 { "0s".to_owned() } else { format!("{ms}ms") };
    }
    let (hours, minutes, rest) = (ms / 3_600_000, ms / 60_000 % 60, ms % 60_000);
    let mut text = String::new();
    if hours > 0 {
        write!(text, "{hours}h").expect("a String takes every write");
    }
    if hours > 0 || minutes > 0 {
        write!(text, "{minutes}m").expect("a String takes every write");
    }
    write!(text, "{}", rest / 1_000).expect("a String takes every write");
    if rest % 1_000 > 0 {
        let fraction = format!(".{:03}", rest % 1_000);
        text.push_str(fraction.trim_end_matches('0'));
    }
    text.push('s');
    text
}

/// `"2025-08-21T12:40:59Z"`; part seconds round up, so that the time is not too early.
pub fn rfc3339(wall_ms: i64) -> String {
    let seconds = wall_ms.div_euclid(1_000) + i64::from(wall_ms.rem_euclid(1_000) > 0);
    timestamp(seconds).to_string()
}

/// `"2025-08-21T12:40:59.385Z"`.
pub fn rfc3339_ms(wall_ms: i64) -> String {
    let seconds = timestamp(wall_ms.div_euclid(1_000)).strftime("%Y-%m-%dT%H:%M:%S");
    format!("{seconds}.{:03}Z", wall_ms.rem_euclid(1_000))
}

/// `"Wed, 08 Nov 2023 13:43:00 GMT"`; part seconds are cut off.
pub fn http_date(wall_ms: i64) -> String {
    timestamp(wall_ms.div_euclid(1_000)).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn timestamp(seconds: i64) -> jiff::Timestamp {
    let (min, max) = (jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
    jiff::Timestamp::from_second(seconds.clamp(min, max)).expect("clamped to what a timestamp holds")
}

/// Hex digits that look random and are the same in every run.
pub fn token(of: &str, number: u64, len: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(of.as_bytes());
    hasher.update(&number.to_le_bytes());
    let mut text = hasher.finalize().to_hex().to_string();
    text.truncate(len);
    text
}

const WORDS: [&str; 64] = [
    "harbour", "lantern", "meadow", "signal", "copper", "window", "orchard", "engine", "river", "ladder", "winter",
    "pencil", "anchor", "thread", "garden", "bridge", "candle", "market", "feather", "island", "mirror", "blanket",
    "compass", "valley", "hammer", "journal", "kettle", "marble", "needle", "ocean", "paper", "quarry", "ribbon",
    "saddle", "timber", "umbrella", "velvet", "wagon", "barrel", "cotton", "drawer", "evening", "fountain", "gravel",
    "hollow", "ivory", "jacket", "kernel", "lumber", "morning", "nickel", "onion", "pillow", "quiver", "rafter",
    "station", "tunnel", "upland", "village", "whistle", "yarrow", "zephyr", "acorn", "beacon",
];

/// Words without end that depend on `of` only.
pub fn words(of: &str) -> impl Iterator<Item = &'static str> {
    let mut bytes = blake3::Hasher::new().update(of.as_bytes()).finalize_xof();
    // By the block: the hash works out a whole block for each byte that is asked for alone.
    let mut block = [0; 64];
    let mut at = block.len();
    std::iter::from_fn(move || {
        if at == block.len() {
            bytes.fill(&mut block);
            at = 0;
        }
        at += 1;
        Some(WORDS[usize::from(block[at - 1]) % WORDS.len()])
    })
}

/// A chat model's answer: one token per word. Its length depends on the question, and `max_tokens` cuts it off (true).
pub fn reply(question: &str, max_tokens: Option<u32>) -> (Vec<&'static str>, bool) {
    let hash = blake3::hash(question.as_bytes());
    let own_len = 8 + u32::from(hash.as_bytes()[0] % 33);
    let len = max_tokens.map_or(own_len, |max| own_len.min(max));
    (words(question).take(len as usize).collect(), len < own_len)
}

/// About four characters to a token.
pub fn tokens_in(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4).max(1)
}

/// The page that a gateway in front of an API serves, `None` for a status that gateways do not answer with.
pub fn gateway_page(status: u16, server: &str) -> Option<String> {
    let reason = match status {
        413 => "Request Entity Too Large",
        502 => "Bad Gateway",
        503 => "Service Temporarily Unavailable",
        504 => "Gateway Time-out",
        520 => "Web server is returning an unknown error",
        521 => "Web server is down",
        522 => "Connection timed out",
        523 => "Origin is unreachable",
        524 => "A timeout occurred",
        _ => return None,
    };
    Some(format!(
        "<html>\r\n<head><title>{status} {reason}</title></head>\r\n<body>\r\n<center><h1>{status} {reason}</h1></center>\r\n\
         <hr><center>{server}</center>\r\n</body>\r\n</html>\r\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        let cases = [
            (0, "0s"),
            (6, "6ms"),
            (1_000, "1s"),
            (1_500, "1.5s"),
            (1_020, "1.02s"),
            (360_000, "6m0s"),
            (3_600_000, "1h0m0s"),
            (3_661_250, "1h1m1.25s"),
        ];
        for (ms, text) in cases {
            assert_eq!(go_duration(Span::from_ms(ms)), text);
        }
    }

    #[test]
    fn a_reset_is_never_named_too_early() {
        assert_eq!(rfc3339(1_755_780_058_001), "2025-08-21T12:40:59Z");
        assert_eq!(rfc3339(1_755_780_059_000), "2025-08-21T12:40:59Z");
    }

    #[test]
    fn a_reply_is_cut_off_at_its_allowance() {
        let (own, cut) = reply("how are you", None);
        assert!(!cut && (8..=40).contains(&own.len()));
        assert_eq!(reply("how are you", Some(3)), (own[..3].to_vec(), true));
        assert_eq!(reply("how are you", Some(4_000)), (own, false));
    }

    #[test]
    fn times_beyond_the_calendar_are_clamped() {
        assert!(http_date(i64::MAX).ends_with("GMT"));
        assert!(http_date(i64::MIN).ends_with("GMT"));
    }
}
