//! Mistral's bodies and headers, where they are not OpenAI's.

use super::*;

fn mistral(status: u16, body: &str) -> Answer {
    read_as(&about(Api::Mistral), status, &[JSON], body)
}

#[test]
fn a_mistral_answer_is_read_as_one_of_openais_also_in_parts() {
    let answer = mistral(
        200,
        r#"{"id":"b5e1f2a0c4d3","object":"chat.completion","created":1755780000,"model":"mistral-small-latest",
        "choices":[{"index":0,"message":{"role":"assistant","tool_calls":null,"content":"Hello there."},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":16,"total_tokens":34,"completion_tokens":18}}"#,
    );
    let usage = Usage { input_tokens: Some(16), output_tokens: Some(18) };
    let expected = Content::Chat { text: "Hello there.".to_owned(), finish: "stop".to_owned(), usage };
    assert_eq!(answer.content, Some(expected));

    let parts = mistral(
        200,
        r#"{"choices":[{"message":{"role":"assistant","content":[
        {"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"text","text":"Hello"},{"type":"text","text":" there."}
        ]},"finish_reason":"length"}]}"#,
    );
    let Some(Content::Chat { text, .. }) = parts.content else { panic!("{parts:?}") };
    assert_eq!(text, "Hello there.");

    let failed = mistral(200, r#"{"choices":[{"message":{"content":"Hel"},"finish_reason":"error"}]}"#);
    assert_eq!(failed.outcome, Outcome::ProviderFault);

    let body = r#"{"id":"e1","object":"list","data":[{"object":"embedding","embedding":[0.5,0.5],"index":1},
        {"object":"embedding","embedding":[-0.0165863037,0.07012939],"index":0}],"model":"mistral-embed",
        "usage":{"prompt_tokens":15,"total_tokens":15,"completion_tokens":0}}"#;
    let answer = read_as(&Reading { api: Api::Mistral, ..embedding(2) }, 200, &[JSON], body);
    let Some(Content::Embed { vectors, .. }) = answer.content else { panic!("{}", answer.reason) };
    assert_eq!(vectors[1], [0.5, 0.5]);
}

#[test]
fn mistrals_errors_are_understood_in_all_their_shapes() {
    let own = |kind: &str, code: &str, message: &str| {
        format!(
            r#"{{"object":"error","message":"{message}","type":"{kind}","param":null,"code":"{code}","raw_status_code":429}}"#
        )
    };
    let capacity = own("service_tier_capacity_exceeded", "3505", "Service tier capacity exceeded for this model.");
    let too_long = own(
        "invalid_request_invalid_args",
        "3051",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    );
    let batch = own("invalid_request_prompt", "3210", "Too many inputs in request, split into more batches.");
    let cases = [
        (429, own("rate_limited", "1300", "Rate limit exceeded"), Outcome::Throttled, ParkScope::Provider),
        (429, r#"{"message":"Requests rate limit exceeded"}"#.to_owned(), Outcome::Throttled, ParkScope::Provider),
        (429, capacity.clone(), Outcome::Throttled, ParkScope::Model),
        (503, capacity, Outcome::Overloaded, ParkScope::Model),
        (400, own("invalid_model", "1500", "Invalid model: mistral-huge"), Outcome::Unfit, ParkScope::Model),
        (400, too_long, Outcome::Unfit, ParkScope::Model),
        (400, batch, Outcome::Unfit, ParkScope::Model),
        (401, r#"{"message":"Unauthorized","request_id":"933f"}"#.to_owned(), Outcome::BadKey, ParkScope::Model),
        (401, r#"{"detail":"Unauthorized"}"#.to_owned(), Outcome::BadKey, ParkScope::Model),
        (404, r#"{"message":"no Route matched with those values"}"#.to_owned(), Outcome::CallersFault, ParkScope::Model),
        (
            422,
            r#"{"object":"error","message":{"detail":[{"loc":["body","temperature"],"msg":"Input should be less than or equal to 1.5","type":"less_than_equal"}]},"type":"invalid_request_error","param":null,"code":null}"#.to_owned(),
            Outcome::CallersFault,
            ParkScope::Model,
        ),
        (500, own("internal_server_error", "1000", "Service unavailable."), Outcome::ProviderFault, ParkScope::Model),
    ];
    for (status, body, outcome, scope) in cases {
        let answer = mistral(status, &body);
        assert_eq!((answer.outcome, answer.scope, answer.hint), (outcome, scope, None), "{status} {body}");
    }
    let text = r#"{"detail":[{"type":"extra_forbidden","loc":["body","x"],"msg":"Extra inputs are not permitted"}]}"#;
    assert_eq!(mistral(422, text).reason, "422: Extra inputs are not permitted");
    // Inside of a 200 the status stands in the body.
    assert_eq!(mistral(200, &own("anything", "1", "Slow down")).outcome, Outcome::Throttled);
}

#[test]
fn a_month_that_is_used_up_at_mistral_is_a_quota_and_what_is_left_of_a_minute_is_no_wait() {
    let body = r#"{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}"#;
    let with = |month: &'static str| {
        let headers = [
            JSON,
            ("x-ratelimit-limit-tokens-minute", "500000"),
            ("x-ratelimit-remaining-tokens-minute", "0"),
            ("x-ratelimit-limit-tokens-month", "1000000000"),
            ("x-ratelimit-remaining-tokens-month", month),
            ("x-ratelimit-tokens-query-cost", "52"),
            ("x-ratelimit-limit-req-10-second", "60"),
            ("x-ratelimit-remaining-req-10-second", "0"),
            ("mistral-correlation-id", "0199"),
        ];
        let answer = read_as(&about(Api::Mistral), 429, &headers, body);
        (answer.outcome, answer.scope, answer.hint)
    };
    assert_eq!(with("999998798434"), (Outcome::Throttled, ParkScope::Provider, None));
    assert_eq!(with("52"), (Outcome::Throttled, ParkScope::Provider, None));
    for month in ["51", "0", "-7"] {
        assert_eq!(with(month), (Outcome::Quota, ParkScope::Account, None), "{month} left for 52");
    }
}
