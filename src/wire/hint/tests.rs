use super::*;
use proptest::prelude::*;

/// 2026-11-30T12:00:00Z.
const NOON: WallTime = WallTime(1_796_040_000_000);

fn saying(message: &str) -> ErrorBody {
    ErrorBody { message: message.to_owned(), ..ErrorBody::default() }
}

fn of(outcome: Outcome, headers: &[(&str, &str)], message: &str) -> Option<u64> {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    read(NOON, outcome, &headers, &saying(message)).map(Span::ms)
}

fn throttled(headers: &[(&str, &str)]) -> Option<u64> {
    of(Outcome::Throttled, headers, "")
}

fn says(message: &str) -> Option<u64> {
    of(Outcome::Throttled, &[], message)
}

#[test]
fn a_field_of_the_body_is_read_before_its_text_and_after_the_headers() {
    let of = |headers: &[(&str, &str)], body: &str| {
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        read(NOON, Outcome::Throttled, &headers, &ErrorBody::parse(&headers, body.as_bytes())).map(Span::ms)
    };
    let text = r#""message":"try again in 9s""#;
    assert_eq!(of(&[], &format!(r#"{{"error":{{{text},"retry_after":"1.5"}}}}"#)), Some(1_500));
    assert_eq!(of(&[], &format!(r#"{{"error":{{{text},"retry_after_ms":250,"retry_after":7}}}}"#)), Some(250));
    let details = r#""details":[{"reason":"RATE"},{"retryDelay":"43s"}]"#;
    assert_eq!(of(&[], &format!(r#"{{"error":{{{text},{details}}}}}"#)), Some(43_000));
    assert_eq!(of(&[], &format!(r#"{{"error":{{{text}}},"retry_after":4}}"#)), Some(4_000), "beside the error");
    assert_eq!(of(&[], &format!(r#"{{{text},"retry_after":-3}}"#)), Some(0), "in the past");
    assert_eq!(of(&[], &format!(r#"{{"error":{{{text},"retry_after":"soon"}}}}"#)), Some(9_000), "unreadable");
    assert_eq!(of(&[("retry-after", "2")], &format!(r#"{{"error":{{{text},"retry_after":7}}}}"#)), Some(2_000));
}

#[test]
fn retry_after_is_seconds_with_fractions_or_a_date() {
    assert_eq!(throttled(&[("retry-after", "17")]), Some(17_000));
    assert_eq!(throttled(&[("Retry-After", " 0.25 ")]), Some(250));
    assert_eq!(throttled(&[("retry-after", "0.0001")]), Some(1), "never earlier than asked");
    assert_eq!(throttled(&[("retry-after", "0")]), Some(0));
    assert_eq!(throttled(&[("retry-after", "Mon, 30 Nov 2026 12:01:30 GMT")]), Some(90_000));
}

#[test]
fn a_wait_that_is_negative_or_over_is_zero() {
    assert_eq!(throttled(&[("retry-after", "-60")]), Some(0));
    assert_eq!(throttled(&[("retry-after-ms", "-1")]), Some(0));
    assert_eq!(throttled(&[("retry-after", "Mon, 30 Nov 2026 11:59:00 GMT")]), Some(0));
    assert_eq!(throttled(&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "-5s")]), Some(0));
    assert_eq!(
        throttled(&[
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-11-30T11:00:00Z"),
        ]),
        Some(0)
    );
}

#[test]
fn what_cannot_be_read_is_no_hint_and_nothing_is_made_up() {
    for text in ["soon", "", "NaN", "inf", "1e3", "5-3", "5s", "0x10", "Mon, 30 Nov 2026", "--5", "1,000"] {
        assert_eq!(throttled(&[("retry-after", text)]), None, "{text:?}");
        assert_eq!(throttled(&[("retry-after-ms", text)]), None, "{text:?}");
    }
    for text in ["60", "1.5", "s", "5x", "5 s", "2026-11-30T12:00:10Z", "1h-5m"] {
        assert_eq!(throttled(&[("x-ratelimit-reset-requests", text)]), None, "{text:?}");
    }
    assert_eq!(throttled(&[]), None);
}

#[test]
fn a_date_is_read_against_the_answers_own() {
    let at = ("retry-after", "Mon, 30 Nov 2026 12:01:30 GMT");
    assert_eq!(throttled(&[at, ("date", "Mon, 30 Nov 2026 12:01:00 GMT")]), Some(30_000));
    assert_eq!(throttled(&[at, ("date", "yesterday")]), Some(90_000), "else against our clock");
}

#[test]
fn the_more_exact_header_wins_and_an_unreadable_one_gives_way() {
    assert_eq!(throttled(&[("retry-after", "2"), ("retry-after-ms", "1500.5")]), Some(1_501));
    assert_eq!(throttled(&[("retry-after", "2"), ("retry-after-ms", "?")]), Some(2_000));
    let used_up = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "1m0s")];
    assert_eq!(throttled(&[used_up[0], used_up[1], ("retry-after", "2")]), Some(2_000));
    assert_eq!(of(Outcome::Throttled, &used_up, "Please try again in 6s."), Some(60_000));
    let left = [("x-ratelimit-remaining-requests", "7"), ("x-ratelimit-reset-requests", "1m0s")];
    assert_eq!(of(Outcome::Throttled, &left, "Please try again in 6s."), Some(6_000));
}

#[test]
fn a_reset_at_openai_is_a_duration_and_the_used_up_budget_counts() {
    for (text, ms) in [("1s", 1_000), ("6m0s", 360_000), ("20ms", 20), ("1h30m", 5_400_000), ("7.66s", 7_660), ("0", 0)]
    {
        assert_eq!(throttled(&[("x-ratelimit-reset-tokens", text)]), Some(ms), "{text}");
    }
    let both = |requests: &'static str, tokens: &'static str| {
        throttled(&[
            ("x-ratelimit-remaining-requests", requests),
            ("x-ratelimit-reset-requests", "6m0s"),
            ("x-ratelimit-remaining-tokens", tokens),
            ("x-ratelimit-reset-tokens", "20ms"),
        ])
    };
    assert_eq!(both("4999", "0"), Some(20));
    assert_eq!(both("0", "149984"), Some(360_000));
    assert_eq!(both("0", "0"), Some(360_000));
    assert_eq!(both("4999", "120"), Some(360_000), "nothing shows as used up: the longer one");
}

#[test]
fn a_reset_of_any_budget_is_read_and_counts_if_that_budget_is_used_up() {
    let budgets = |minute: &'static str| {
        throttled(&[
            ("X-RateLimit-Remaining-Tokens-Minute", minute),
            ("X-RateLimit-Reset-Tokens-Minute", "12s"),
            ("x-ratelimit-remaining-requests", "7"),
            ("x-ratelimit-reset-requests", "1m0s"),
        ])
    };
    assert_eq!(budgets("0"), Some(12_000));
    assert_eq!(budgets("5"), Some(60_000));
}

#[test]
fn mistral_names_what_is_left_and_mostly_no_reset() {
    let left = [
        ("x-ratelimit-limit-tokens-minute", "500000"),
        ("x-ratelimit-remaining-tokens-minute", "0"),
        ("x-ratelimit-remaining-tokens-month", "999"),
        ("x-ratelimit-tokens-query-cost", "52"),
        ("x-ratelimit-limit-req-10-second", "60"),
        ("x-ratelimit-remaining-req-10-second", "0"),
    ];
    assert_eq!(throttled(&left), None, "ten seconds are a window, not a wait");
    let by_size = |left: &'static str, cost: &'static str| {
        throttled(&[
            ("ratelimitbysize-limit", "500000"),
            ("ratelimitbysize-remaining", left),
            ("ratelimitbysize-query-cost", cost),
            ("ratelimitbysize-reset", "37"),
        ])
    };
    assert_eq!(by_size("0", "52"), Some(37_000));
    assert_eq!(by_size("51", "52"), Some(37_000));
    assert_eq!(by_size("499948", "52"), None, "this budget is not why");
}

#[test]
fn a_reset_at_anthropic_is_a_moment_and_only_a_used_up_budget_counts() {
    let budget = |remaining: &'static str| {
        throttled(&[
            ("date", "Mon, 30 Nov 2026 12:00:10 GMT"),
            ("anthropic-ratelimit-requests-remaining", "999"),
            ("anthropic-ratelimit-requests-reset", "2026-11-30T12:59:59Z"),
            ("anthropic-ratelimit-input-tokens-remaining", remaining),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-30T12:00:55Z"),
        ])
    };
    assert_eq!(budget("0"), Some(45_000));
    assert_eq!(budget("1000"), None);
}

#[test]
fn rate_budgets_explain_neither_a_quota_nor_a_fault() {
    let headers = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "1s")];
    assert_eq!(of(Outcome::Quota, &headers, ""), None);
    assert_eq!(of(Outcome::ProviderFault, &headers, ""), None);
    assert_eq!(of(Outcome::Overloaded, &[("retry-after", "3")], ""), Some(3_000));
    assert_eq!(of(Outcome::CallersFault, &[("retry-after", "3")], ""), None);
    assert_eq!(of(Outcome::Quota, &[("anthropic-ratelimit-unified-reset", "1796043600")], ""), Some(3_600_000));
    assert_eq!(of(Outcome::Quota, &[("anthropic-ratelimit-unified-reset", "1796043600000")], ""), None, "not seconds");
}

#[test]
fn a_wait_in_the_text_is_found() {
    let text = "Rate limit reached for gpt-4 in organization org-x on tokens per min (TPM): Limit 90000, Used 89990, \
                Requested 19. Please try again in 6ms. Visit https://platform.openai.com/account/rate-limits to learn more.";
    assert_eq!(says(text), Some(6));
    assert_eq!(says("Please retry after 20 seconds."), Some(20_000));
    assert_eq!(says("try again in 1m30.5s"), Some(90_500));
    assert_eq!(says("Try again in 1 minute 30 seconds, please"), Some(90_000));
    assert_eq!(says("please try again in a while. Or retry in 2 hours"), Some(7_200_000));
    assert_eq!(says("retry after 20"), None, "of what?");
    assert_eq!(says("Please try again later."), None);
    let spent = "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.";
    assert_eq!(of(Outcome::Quota, &[], spent), Some(12 * 3_600_000));
}

#[test]
fn a_wait_too_long_to_count_is_the_longest_there_is() {
    let nines = "9".repeat(500);
    assert_eq!(throttled(&[("retry-after", &nines)]), Some(u64::MAX));
    assert_eq!(throttled(&[("retry-after-ms", "99999999999999999999999")]), Some(u64::MAX));
    assert_eq!(throttled(&[("x-ratelimit-reset-tokens", &format!("{nines}h{nines}h"))]), Some(u64::MAX));
    assert_eq!(says(&format!("try again in {nines} days")), Some(u64::MAX));
    assert_eq!(throttled(&[("retry-after", "Wed, 01 Jan 9000 00:00:00 GMT")]), Some(220_049_352_000_000));
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,60}",
        "[-+0-9.:a-zµ ]{0,40}",
        "(try again in|retry after|regain access on) [-0-9.]{0,30}( at |s|ms| minutes|m0s|.{0,5}){0,3}",
        Just("try again in 9".to_owned() + &"9".repeat(400) + "d"),
    ]
}

proptest! {
    #[test]
    fn no_header_and_no_text_can_make_the_parser_panic(
        values in prop::collection::vec(any_text(), 12),
        message in any_text(),
        now in any::<i64>(),
    ) {
        let names = [
            "date", "retry-after-ms", "retry-after",
            "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens",
            "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset",
            "anthropic-ratelimit-unified-reset", "anthropic-ratelimit-requests-reset", "x-ratelimit-remaining-tokens",
            "location",
        ];
        let headers: Vec<(String, String)> = names.iter().map(|name| (*name).to_owned()).zip(values).collect();
        for outcome in [Outcome::Throttled, Outcome::Quota, Outcome::Overloaded, Outcome::ProviderFault] {
            read(WallTime(now), outcome, &headers, &saying(&message));
        }
        for (name, value) in &headers {
            read(WallTime(now), Outcome::Throttled, &[(name.clone(), value.clone())], &saying(""));
        }
    }

    #[test]
    fn seconds_are_read_as_they_were_written(ms in 0_u64..10_000_000_000) {
        let text = format!("{}.{:03}", ms / 1_000, ms % 1_000);
        prop_assert_eq!(throttled(&[("retry-after", &text)]), Some(ms));
    }
}
