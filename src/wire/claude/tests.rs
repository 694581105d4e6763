use super::*;
use proptest::prelude::*;

/// 2026-03-10T12:00:00Z.
const NOON: WallTime = WallTime(1_773_144_000_000);
const HOUR_S: u64 = 3_600;

fn at(text: &str) -> WallTime {
    WallTime(text.parse::<jiff::Timestamp>().expect("a moment").as_millisecond())
}

fn zone(name: &str) -> TimeZone {
    jiff::tz::db().get(name).expect("the bundled database has it")
}

fn said_at(line: &str, now: WallTime) -> Vec<Statement> {
    Reader::new(TimeZone::UTC).line(line, now)
}

/// Window and seconds to the reset of the one limit that a line states.
#[track_caller]
fn limit_at(line: &str, now: WallTime) -> (String, Option<u64>) {
    let said = said_at(line, now);
    let [Statement { window, resets_in, severity: Severity::Limit }] = said.as_slice() else {
        panic!("{line}: {said:?}")
    };
    (window.clone(), resets_in.map(|span| span.ms() / 1_000))
}

#[track_caller]
fn limit(line: &str) -> (String, Option<u64>) {
    limit_at(line, NOON)
}

fn named(window: &str, seconds: u64) -> (String, Option<u64>) {
    (window.to_owned(), Some(seconds))
}

#[test]
fn every_reported_wording_is_a_limit() {
    assert_eq!(limit("Claude AI usage limit reached|1773151200"), named("unknown", 2 * HOUR_S));
    assert_eq!(limit("5-hour limit reached ∙ resets 2am"), named("five_hour", 14 * HOUR_S));
    assert_eq!(limit("You've hit your limit · resets 7pm (Asia/Shanghai)"), named("unknown", 23 * HOUR_S));
    assert_eq!(limit("You've hit your session limit · resets 4:10am"), named("five_hour", 16 * HOUR_S + 600));
    assert_eq!(limit("weekly limit reached ∙ resets Mar 12, 10am"), named("weekly", 46 * HOUR_S));
    assert_eq!(limit("Weekly limit reached"), ("weekly".into(), None));
    assert_eq!(limit("You've hit your Opus limit · resets Mar 12 at 10am (UTC)"), named("weekly_model", 46 * HOUR_S));
    assert_eq!(limit("API Error: Claude AI usage limit reached|1773147600"), named("unknown", HOUR_S));
    assert_eq!(
        limit(r#"API Error: 429 {"error_type":"grace_daily_limit_reached","message":"x"}"#),
        ("daily".into(), None)
    );
    assert_eq!(limit(r#"{"error_type":"grace_daily_limit_reached"}"#), ("daily".into(), None));
    let own = r#"API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit. Please try again later."}}"#;
    assert_eq!(limit(own), ("unknown".into(), None));
    assert_eq!(limit("You're out of extra usage · resets 3pm"), named("overage", 3 * HOUR_S));
}

#[test]
fn a_limit_with_a_date_and_no_name_is_the_weekly_one() {
    let now = at("2026-04-21T12:00:00Z");
    // Recife has no summer time: 16:00 there is 19:00 UTC.
    assert_eq!(
        limit_at("You've hit your limit · resets Apr 23 at 4pm (America/Recife)", now),
        named("weekly", 55 * HOUR_S)
    );
}

#[test]
fn a_wording_that_nobody_knows_is_a_limit_if_its_reset_can_be_read() {
    assert_eq!(limit("You've hit your sonic limit · resets 3pm"), named("unknown", 3 * HOUR_S));
    assert_eq!(limit("Your plan's limit was reached, resets in 2h 15m."), named("unknown", 2 * HOUR_S + 900));
    assert_eq!(
        limit("The fortnightly limit is exhausted and resets on Mar 20 at 12:00 UTC"),
        named("weekly", 240 * HOUR_S)
    );
    for line in ["The hit counter has a limit and is reset by the operator.", "I raised the limit; it resets at 5pm."] {
        assert_eq!(said_at(line, NOON), [], "{line}");
    }
}

#[test]
fn what_the_model_writes_is_no_limit() {
    for line in [
        "429 errors mean that the rate limit was hit.",
        "Rate limited clients should wait until the limit resets.",
        "The function returns \"5-hour limit reached\" when you call it.",
        r#"{"type":"assistant","message":{"model":"claude-opus-4","content":[{"type":"text","text":"You've hit your limit · resets 7pm"}]}}"#,
        r#"{"type":"user","message":{"content":"weekly limit reached"}}"#,
        r#"{"type":"result","is_error":false,"result":"First:\nYou've hit your limit · resets 7pm\nis what it says."}"#,
        r#"{"limit":"reached","resets":"7pm"}"#,
        r#"API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
    ] {
        assert_eq!(said_at(line, NOON), [], "{line}");
    }
}

#[test]
fn an_approaching_limit_is_a_warning() {
    for (line, window) in [
        ("Approaching usage limit · resets at 7pm", "unknown"),
        ("You've used 85% of your weekly limit · resets Mar 12 at 10am", "weekly"),
        ("You've used 91% of your session limit", "five_hour"),
        ("You're now using extra usage · Your session limit resets 4pm", "unknown"),
        ("API Error (429 rate limited) · Retrying in 5 seconds… (attempt 3/10)", "unknown"),
    ] {
        let said = said_at(line, NOON);
        assert_eq!(said.len(), 1, "{line}");
        assert_eq!((said[0].severity, said[0].window.as_str()), (Severity::Warning, window), "{line}");
    }
}

fn event(info: &str) -> String {
    format!(r#"{{"type":"rate_limit_event","rate_limit_info":{info},"uuid":"u","session_id":"s"}}"#)
}

#[test]
fn of_events_only_a_rejection_is_a_limit() {
    for (status, severity) in [("allowed", Severity::Information), ("allowed_warning", Severity::Warning)] {
        let line = event(&format!(r#"{{"status":"{status}","resetsAt":1773151200,"rateLimitType":"five_hour"}}"#));
        let said = said_at(&line, NOON);
        assert_eq!(said[0].severity, severity);
        let mut reader = Reader::new(TimeZone::UTC);
        reader.line(&line, NOON);
        assert_eq!(reader.outcome(0), SessionOutcome::Done);
    }
    let rejected =
        |at: &str, of: &str| event(&format!(r#"{{"status":"rejected","resetsAt":{at},"rateLimitType":"{of}"}}"#));
    assert_eq!(limit(&rejected("1773151200", "five_hour")), named("five_hour", 2 * HOUR_S), "seconds");
    assert_eq!(limit(&rejected("1773151200000", "seven_day")), named("weekly", 2 * HOUR_S), "milliseconds");
    assert_eq!(limit(&rejected("1773151200.5", "seven_day_opus")), named("weekly_model", 2 * HOUR_S));
    assert_eq!(limit(&rejected("1773140400", "overage")), named("overage", 0), "over already");
    for nonsense in ["0", "-5", "17", "null", "\"soon\"", "1e300", "true"] {
        assert_eq!(limit(&rejected(nonsense, "five_hour")), ("five_hour".into(), None), "{nonsense}");
    }
}

#[test]
fn paid_usage_beyond_a_rejection_is_no_limit() {
    let line =
        event(r#"{"status":"rejected","rateLimitType":"five_hour","overageStatus":"allowed","isUsingOverage":true}"#);
    assert_eq!(said_at(&line, NOON)[0].severity, Severity::Warning);
}

#[test]
fn every_rejected_window_of_an_event_is_a_limit() {
    let line = event(
        r#"{"status":"rejected","resetsAt":1773151200,"rateLimitType":"five_hour","unifiedWindows":{
            "five_hour":{"status":"rejected","resetsAt":1773151200,"utilization":1.0},
            "seven_day":{"status":"rejected","resetsAt":1773316800000,"utilization":1.0,"surpassedThreshold":1.0},
            "seven_day_opus":{"status":"allowed_warning","resetsAt":1773316800}}}"#,
    );
    let said: Vec<_> = said_at(&line.replace('\n', " "), NOON)
        .into_iter()
        .map(|statement| (statement.window, statement.resets_in.map(|span| span.ms() / 1_000), statement.severity))
        .collect();
    let expected = [
        ("five_hour".to_owned(), Some(2 * HOUR_S), Severity::Limit),
        ("weekly".to_owned(), Some(48 * HOUR_S), Severity::Limit),
    ];
    assert_eq!(said, expected);
}

#[test]
fn a_text_without_a_window_speaks_of_the_rejected_one() {
    let mut reader = Reader::new(TimeZone::UTC);
    reader.line(&event(r#"{"status":"rejected","resetsAt":1773151200,"rateLimitType":"seven_day"}"#), NOON);
    let said = reader.line(r#"{"type":"result","is_error":true,"result":"You've hit your limit · resets 2pm"}"#, NOON);
    assert_eq!((said[0].window.as_str(), said[0].resets_in), ("weekly", Some(Span::from_hours(2))));
}

#[test]
fn a_run_is_limited_if_a_limit_was_its_last_word() {
    let outcome = |lines: &[&str], exit| {
        let mut reader = Reader::new(TimeZone::UTC);
        for line in lines {
            reader.line(line, NOON);
        }
        reader.outcome(exit)
    };
    let rejected = event(r#"{"status":"rejected","resetsAt":1773151200,"rateLimitType":"five_hour"}"#);
    let empty = r#"{"type":"result","subtype":"success","is_error":false,"result":""}"#;
    let good = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;
    let says = r#"{"type":"assistant","message":{"model":"claude-opus-4","content":[{"type":"text","text":"hi"}]}}"#;
    assert_eq!(outcome(&[&rejected, empty], 0), SessionOutcome::Limited, "a silent cap");
    assert_eq!(outcome(&[empty], 0), SessionOutcome::Done, "nothing was asked of it");
    assert_eq!(outcome(&[&rejected, says, good], 0), SessionOutcome::Done, "it waited for the reset itself");
    assert_eq!(outcome(&[says, good, &rejected], 0), SessionOutcome::Done, "it was done by then");
    assert_eq!(outcome(&[says, &rejected], 1), SessionOutcome::Limited);
    assert_eq!(outcome(&[says, &rejected], 137), SessionOutcome::Limited);
    assert_eq!(outcome(&["You've hit your limit · resets 7pm"], 0), SessionOutcome::Limited);
    assert_eq!(outcome(&["Segmentation fault"], 139), SessionOutcome::Failed);
    assert_eq!(outcome(&[], 0), SessionOutcome::Done);
}

#[test]
fn a_run_that_could_not_sign_in_was_not_started() {
    let outcome = |lines: &[&str], exit| {
        let mut reader = Reader::new(TimeZone::UTC);
        for line in lines {
            assert_eq!(reader.line(line, NOON), [], "{line}");
        }
        reader.outcome(exit)
    };
    for line in [
        "Invalid API key · Please run /login",
        "OAuth token has expired · Please run /login",
        "Not logged in · Please run /login",
        r#"API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"OAuth token revoked"}}"#,
        r#"{"type":"result","is_error":true,"result":"Failed to authenticate. API Error: 401"}"#,
        r#"{"type":"assistant","error":"authentication_failed","message":{"model":"<synthetic>","content":[]}}"#,
        r#"{"type":"auth_status","isAuthenticating":false,"error":"expired"}"#,
    ] {
        assert_eq!(outcome(&[line], 1), SessionOutcome::NotStarted, "{line}");
    }
    let says = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]}}"#;
    assert_eq!(outcome(&[says, "API Error: 401 x"], 1), SessionOutcome::Failed, "it had run by then");
}

#[test]
fn the_sessions_own_name_is_its_progress() {
    let mut reader = Reader::new(TimeZone::UTC);
    assert_eq!(reader.progress(), None);
    reader.line(r#"{"type":"system","subtype":"init","session_id":"8f3a"}"#, NOON);
    assert_eq!(reader.progress(), Some("8f3a"));
}

fn resets_at(text: &str, now: &str, local: &str) -> Option<u64> {
    let said = Reader::new(zone(local)).line(&format!("You've hit your limit · resets {text}"), at(now));
    said[0].resets_in.map(|span| span.ms() / 1_000)
}

#[test]
fn a_time_that_is_past_is_tomorrows() {
    assert_eq!(resets_at("7pm", "2026-03-10T12:00:00Z", "UTC"), Some(7 * HOUR_S));
    assert_eq!(resets_at("7am", "2026-03-10T12:00:00Z", "UTC"), Some(19 * HOUR_S));
    assert_eq!(resets_at("12am", "2026-03-10T12:00:00Z", "UTC"), Some(12 * HOUR_S));
    assert_eq!(resets_at("12pm", "2026-03-10T12:00:00Z", "UTC"), Some(0));
    assert_eq!(resets_at("12pm", "2026-03-10T12:00:30Z", "UTC"), Some(0), "clocks differ by seconds");
    assert_eq!(resets_at("12pm", "2026-03-10T12:03:00Z", "UTC"), Some(24 * HOUR_S - 180));
    assert_eq!(resets_at("14:10", "2026-03-10T12:00:00Z", "UTC"), Some(2 * HOUR_S + 600));
    assert_eq!(resets_at("4 p.m.", "2026-03-10T12:00:00Z", "UTC"), Some(4 * HOUR_S));
    assert_eq!(resets_at("today at 4pm", "2026-03-10T12:00:00Z", "UTC"), Some(4 * HOUR_S));
    assert_eq!(resets_at("tomorrow at 4pm", "2026-03-10T12:00:00Z", "UTC"), Some(28 * HOUR_S));
    assert_eq!(resets_at("2026-03-10T15:00:00Z", "2026-03-10T12:00:00Z", "UTC"), Some(3 * HOUR_S));
}

#[test]
fn a_time_without_a_zone_is_local_and_one_with_it_is_not() {
    // 12:00 UTC is 20:00 in Shanghai and 8:00 in New York (summer time since the 8th).
    assert_eq!(resets_at("9pm", "2026-03-10T12:00:00Z", "Asia/Shanghai"), Some(HOUR_S));
    assert_eq!(resets_at("9am", "2026-03-10T12:00:00Z", "America/New_York"), Some(HOUR_S));
    assert_eq!(resets_at("9pm (Asia/Shanghai)", "2026-03-10T12:00:00Z", "America/New_York"), Some(HOUR_S));
    assert_eq!(resets_at("1pm UTC", "2026-03-10T12:00:00Z", "America/New_York"), Some(HOUR_S));
    assert_eq!(resets_at("9pm (UTC+8)", "2026-03-10T12:00:00Z", "UTC"), Some(HOUR_S));
    assert_eq!(resets_at("9pm (Nowhere/City)", "2026-03-10T12:00:00Z", "UTC"), Some(9 * HOUR_S), "an unknown zone");
}

#[test]
fn a_change_of_clocks_moves_no_reset() {
    // New York, 2026-03-08: 2am becomes 3am. 8am is 12:00 UTC then, and was 13:00 UTC the day before.
    assert_eq!(resets_at("8am", "2026-03-08T05:00:00Z", "America/New_York"), Some(7 * HOUR_S));
    // 2:30am does not exist: as long after the change.
    assert_eq!(resets_at("2:30am", "2026-03-08T06:00:00Z", "America/New_York"), Some(HOUR_S + 1_800));
    // 2026-11-01: 1am to 2am comes twice (05:00 and 06:00 UTC).
    assert_eq!(resets_at("1:30am", "2026-11-01T05:00:00Z", "America/New_York"), Some(1_800));
    assert_eq!(resets_at("1:30am", "2026-11-01T05:50:00Z", "America/New_York"), Some(2_400), "the second time");
    assert_eq!(resets_at("1:30am", "2026-11-01T06:50:00Z", "America/New_York"), Some(24 * HOUR_S - 1_200));
}

#[test]
fn a_date_is_the_nearest_that_makes_sense() {
    assert_eq!(resets_at("Mar 12 at 10am", "2026-03-10T12:00:00Z", "UTC"), Some(46 * HOUR_S));
    assert_eq!(resets_at("March 12, 10am", "2026-03-10T12:00:00Z", "UTC"), Some(46 * HOUR_S));
    assert_eq!(resets_at("12 Mar 10:00", "2026-03-10T12:00:00Z", "UTC"), Some(46 * HOUR_S));
    assert_eq!(resets_at("Mar 12", "2026-03-10T12:00:00Z", "UTC"), Some(36 * HOUR_S));
    assert_eq!(resets_at("Mar 12, 2026 at 10am", "2026-03-10T12:00:00Z", "UTC"), Some(46 * HOUR_S));
    assert_eq!(resets_at("Mar 9 at 10am", "2026-03-10T12:00:00Z", "UTC"), Some(0), "over");
    assert_eq!(resets_at("Jan 2 at 9am", "2026-12-30T09:00:00Z", "UTC"), Some(72 * HOUR_S), "next year's");
    assert_eq!(resets_at("Thu 10am", "2026-03-10T12:00:00Z", "UTC"), Some(46 * HOUR_S));
    assert_eq!(resets_at("Tuesday at 10am", "2026-03-10T12:00:00Z", "UTC"), Some(7 * 24 * HOUR_S - 2 * HOUR_S));
}

#[test]
fn what_is_no_time_is_no_reset() {
    for text in ["soon", "25pm", "13:99", "7", "Feb 30 at 4pm", "in a while", "in 9999 days", "every 60 seconds", ""] {
        assert_eq!(resets_at(text, "2026-03-10T12:00:00Z", "UTC"), None, "{text}");
    }
}

#[test]
fn lines_too_long_to_be_a_message_are_none() {
    assert_eq!(said_at(&format!("You've hit your limit {}", "x".repeat(500)), NOON), []);
    assert_eq!(TABLE_VERSION, 1);
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(lines in proptest::collection::vec(".{0,120}", 0..4), ms in any::<i64>()) {
        let mut reader = Reader::new(zone("America/New_York"));
        for line in &lines {
            reader.line(line, WallTime(ms));
        }
        reader.outcome(0);
    }

    #[test]
    fn no_reset_makes_it_panic(
        text in "(resets|reset at|resets in) ?([A-Za-z]{0,9}|[0-9:]{0,6}(am|pm)?|[0-9]{0,20}[hmd]?|[ ,.|()/+-]){0,8}",
        ms in any::<i64>(),
    ) {
        said_at(&format!("You've hit your limit · {text}"), WallTime(ms));
        said_at(&format!("Claude AI usage limit reached|{text}"), WallTime(ms));
    }

    #[test]
    fn no_event_makes_it_panic(status in "[a-z_]{0,10}", resets in any::<i64>(), of in "[a-z_]{0,12}") {
        let line = event(&format!(
            r#"{{"status":"{status}","resetsAt":{resets},"rateLimitType":"{of}","unifiedWindows":{{"{of}":{resets}}}}}"#
        ));
        said_at(&line, NOON);
    }
}
