//! Bodies and headers as the providers really send them, and what each comes to.

use super::*;
use proptest::prelude::*;

mod mistral;
mod ollama;

const JSON: (&str, &str) = ("content-type", "application/json");
const HTML: (&str, &str) = ("content-type", "text/html; charset=UTF-8");

fn about(api: Api) -> Reading<'static> {
    let model = match api {
        Api::Anthropic => "claude-sonnet-4-6",
        Api::Mistral => "mistral-small-latest",
        Api::Ollama => "llama3.2",
        Api::Openai | Api::Qdrant => "gpt-4",
    };
    let use_ = ChainUse::Chat;
    Reading {
        api,
        use_,
        model: Some(model),
        inputs: 0,
        dims: None,
        key_worked: false,
        now: WallTime(1_796_040_000_000),
    }
}

fn embedding(inputs: usize) -> Reading<'static> {
    Reading { use_: ChainUse::Embedding, model: Some("text-embedding-3-small"), inputs, ..about(Api::Openai) }
}

fn read_as(about: &Reading<'_>, status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let answer = read(about, status, &headers, body.as_bytes());
    assert_eq!(answer.content.is_some(), answer.outcome == Outcome::Success, "{answer:?}");
    assert_eq!(answer.reason.is_empty(), answer.outcome == Outcome::Success, "{answer:?}");
    answer
}

fn openai(status: u16, body: &str) -> Answer {
    read_as(&about(Api::Openai), status, &[JSON], body)
}

fn anthropic(status: u16, body: &str) -> Answer {
    read_as(&about(Api::Anthropic), status, &[JSON], body)
}

fn anthropic_error(status: u16, kind: &str, message: &str) -> Answer {
    let body = format!(
        r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_011CSHoEeqs5C35K2UUqR7Fy"}}"#
    );
    anthropic(status, &body)
}

fn openai_error(status: u16, kind: &str, code: &str, message: &str) -> Answer {
    openai(status, &format!(r#"{{"error":{{"message":"{message}","type":"{kind}","param":null,"code":"{code}"}}}}"#))
}

#[test]
fn an_openai_chat_answer_is_a_success_when_complete() {
    let answer = openai(
        200,
        r#"{"id":"chatcml-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion","created":1741570283,"model":"gpt-4-0613",
        "choices":[{"index":0,"message":{"role":"assistant","content":"Hello there.","refusal":null,"annotations":[]},
        "logprobs":null,"finish_reason":"stop"}],
        "usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29},"service_tier":"default"}"#,
    );
    let usage = Usage { input_tokens: Some(19), output_tokens: Some(10) };
    let expected = Content::Chat { text: "Hello there.".to_owned(), finish: "stop".to_owned(), usage };
    assert_eq!(answer.content, Some(expected));
    assert_eq!(answer.hint, None);
}

#[test]
fn an_anthropic_chat_answer_is_a_success_when_complete() {
    let answer = anthropic(
        200,
        r#"{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"claude-sonnet-4-6",
        "content":[{"type":"thinking","thinking":"Hm.","signature":"x"},{"type":"text","text":"Hello"},{"type":"text","text":" there."}],
        "stop_reason":"end_turn","stop_sequence":null,
        "usage":{"input_tokens":12,"cache_creation_input_tokens":0,"output_tokens":6,"service_tier":"standard"}}"#,
    );
    let usage = Usage { input_tokens: Some(12), output_tokens: Some(6) };
    let expected = Content::Chat { text: "Hello there.".to_owned(), finish: "end_turn".to_owned(), usage };
    assert_eq!(answer.content, Some(expected));
}

#[test]
fn a_200_without_a_complete_valid_body_is_the_providers_fault() {
    let openai_bodies = [
        ("", "200 with an empty body"),
        ("{}", "malformed answer: no choices[0]"),
        (r#"{"choices":[]}"#, "malformed answer: no choices[0]"),
        (r#"{"choices":[{"finish_reason":"stop"}]}"#, "malformed answer: no choices[0].message"),
        (
            r#"{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}"#,
            "malformed answer: no choices[0].message.content",
        ),
        (
            r#"{"choices":[{"message":{"content":"half"},"finish_reason":null}]}"#,
            "malformed answer: no choices[0].finish_reason",
        ),
        (
            r#"{"choices":[{"message":{"content":"ha"#,
            "malformed answer: EOF while parsing a string at line 1 column 37",
        ),
    ];
    for (body, reason) in openai_bodies {
        let answer = openai(200, body);
        assert_eq!((answer.outcome, answer.reason.as_str()), (Outcome::ProviderFault, reason), "{body}");
    }
    for body in [
        "",
        "null",
        r#"{"type":"message","stop_reason":"end_turn"}"#,
        r#"{"type":"message","content":[{"type":"text","text":"half"}],"stop_reason":null}"#,
        r#"{"type":"message","content":[{"type":"text"}],"stop_reason":"end_turn"}"#,
    ] {
        assert_eq!(anthropic(200, body).outcome, Outcome::ProviderFault, "{body}");
    }
    let page = "<!DOCTYPE html>\n<html><head><title>Just a\n moment...</title></head></html>";
    for api in [Api::Openai, Api::Anthropic, Api::Mistral, Api::Ollama] {
        let answer = read_as(&about(api), 200, &[HTML], page);
        assert_eq!((answer.outcome, answer.reason.as_str()), (Outcome::ProviderFault, "200 a page: Just a moment..."));
    }
}

#[test]
fn vectors_are_matched_to_inputs_by_their_index() {
    let body = r#"{"object":"list","data":[
        {"object":"embedding","index":1,"embedding":[0.5,-0.5]},
        {"object":"embedding","index":0,"embedding":[0.0023064255,-0.009327292]}
        ],"model":"text-embedding-3-small","usage":{"prompt_tokens":8,"total_tokens":8}}"#;
    let answer = read_as(&embedding(2), 200, &[JSON], body);
    let usage = Usage { input_tokens: Some(8), output_tokens: None };
    let vectors = vec![vec![0.002_306_425_5, -0.009_327_292], vec![0.5, -0.5]];
    assert_eq!(answer.content, Some(Content::Embed { vectors, usage }));

    let bare = r#"{"data":[{"embedding":[1,0]},{"embedding":[0,1]}]}"#;
    let answer = read_as(&embedding(2), 200, &[JSON], bare);
    let vectors = vec![vec![1.0, 0.0], vec![0.0, 1.0]];
    assert_eq!(
        answer.content,
        Some(Content::Embed { vectors, usage: Usage::default() }),
        "by position if none has one"
    );
}

#[test]
fn vectors_that_are_missing_strange_or_of_no_use_are_the_providers_fault() {
    let cases = [
        (r#"{"data":[{"index":0,"embedding":[1,0]}]}"#, "1 vectors for 2 inputs"),
        (
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1]},{"index":2,"embedding":[1]}]}"#,
            "3 vectors for 2 inputs",
        ),
        (r#"{"data":[{"index":0,"embedding":[1,0]},{"index":0,"embedding":[0,1]}]}"#, "index 0 twice"),
        (r#"{"data":[{"index":0,"embedding":[1,0]},{"index":2,"embedding":[0,1]}]}"#, "index 2 of no input"),
        (
            r#"{"data":[{"index":0,"embedding":[1,0]},{"embedding":[0,1]}]}"#,
            "a vector without index among others with one",
        ),
        (r#"{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[1]}]}"#, "vector 1 has 1 dimensions, not 2"),
        (r#"{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}"#, "vector 0 has 0 dimensions, not 0"),
        (r#"{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[0,0.0]}]}"#, "vector 1 is all zero"),
        (
            r#"{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[1e300,0]}]}"#,
            "vector 1 has a number that is not finite",
        ),
        (r#"{"object":"list"}"#, "no data"),
    ];
    for (body, reason) in cases {
        let answer = read_as(&embedding(2), 200, &[JSON], body);
        assert_eq!(answer.outcome, Outcome::ProviderFault, "{body}");
        assert_eq!(answer.reason, format!("malformed answer: {reason}"));
    }
    let nan = r#"{"data":[{"index":0,"embedding":[NaN,0]},{"index":1,"embedding":[1,0]}]}"#;
    assert_eq!(read_as(&embedding(2), 200, &[JSON], nan).outcome, Outcome::ProviderFault);
    let two = r#"{"data":[{"index":0,"embedding":[1,0]}]}"#;
    let configured = Reading { dims: Some(768), ..embedding(1) };
    assert_eq!(read_as(&configured, 200, &[JSON], two).reason, "malformed answer: vector 0 has 2 dimensions, not 768");
}

#[test]
fn a_rate_limit_throttles_in_the_scope_of_its_evidence() {
    let text = "Rate limit reached for gpt-4 in organization org-AbC on tokens per min (TPM): Limit 10000, Used 9990, \
                Requested 30. Please try again in 120ms. Visit https://platform.openai.com/account/rate-limits to learn more.";
    let answer = openai_error(429, "tokens", "rate_limit_exceeded", text);
    assert_eq!((answer.outcome, answer.scope), (Outcome::Throttled, ParkScope::Model));
    assert_eq!(answer.hint, Some(Span::from_ms(120)));
    assert!(answer.reason.starts_with("429 rate_limit_exceeded: Rate limit reached for gpt-4 in"), "{}", answer.reason);

    let answer = read_as(
        &about(Api::Anthropic),
        429,
        &[
            JSON,
            ("date", "Thu, 21 Aug 2025 12:40:40 GMT"),
            ("anthropic-ratelimit-requests-limit", "1000"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2025-08-21T12:40:59Z"),
            ("request-id", "req_1"),
        ],
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 50,000 input tokens per minute."}}"#,
    );
    assert_eq!((answer.outcome, answer.scope), (Outcome::Throttled, ParkScope::Provider));
    assert_eq!(answer.hint, Some(Span::from_secs(19)));

    let named = "This request would exceed the rate limit for claude-sonnet-4-6 of 50 requests per minute.";
    assert_eq!(anthropic_error(429, "rate_limit_error", named).scope, ParkScope::Model);
    let page = read_as(&about(Api::Openai), 429, &[HTML], "<html><title>Error 1015</title></html>");
    assert_eq!((page.outcome, page.scope), (Outcome::Throttled, ParkScope::Provider));
    assert_eq!(openai(429, "").outcome, Outcome::Throttled, "a bare 429 speaks of the rate");
    for status in [429, 503] {
        assert_eq!(openai_error(status, "rate_limit_error", "slow_down", "Slow down.").outcome, Outcome::Throttled);
    }
}

#[test]
fn out_of_money_is_a_quota_whatever_the_status() {
    let text = "You exceeded your current quota, please check your plan and billing details. For more information on this \
                error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors.";
    let spent = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Limit reached.","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    let answers = [
        openai_error(429, "insufficient_quota", "insufficient_quota", text),
        openai_error(429, "billing_error", "credit_balance_exhausted", "No credit."),
        openai_error(400, "invalid_request_error", "billing_hard_limit_reached", "Billing hard limit has been reached"),
        openai(402, ""),
        openai_error(403, "forbidden", "", "Insufficient credits. Add more to go on."),
        anthropic(429, spent),
        anthropic_error(402, "billing_error", "There is an issue with your billing."),
        anthropic_error(
            429,
            "rate_limit_error",
            "This request would exceed your account's rate limit. Please try again later.",
        ),
        anthropic_error(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
        anthropic_error(400, "invalid_request_error", "Your usage reached a spend limit you set."),
    ];
    for answer in answers {
        assert_eq!((answer.outcome, answer.scope), (Outcome::Quota, ParkScope::Account), "{answer:?}");
        assert_eq!(answer.hint, None, "none was stated: {answer:?}");
    }
    let stated = anthropic_error(
        400,
        "invalid_request_error",
        "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
    );
    assert_eq!((stated.outcome, stated.hint), (Outcome::Quota, Some(Span::from_hours(12))));
}

#[test]
fn a_refused_key_is_bad_only_if_it_never_worked() {
    let key =
        "Incorrect API key provided: sk-abc********xyz. You can find your API key at https://platform.openai.com.";
    let never = openai_error(401, "invalid_request_error", "invalid_api_key", key);
    assert_eq!(never.outcome, Outcome::BadKey);
    assert!(!never.reason.contains("abc"), "{}", never.reason);
    assert_eq!(anthropic_error(401, "authentication_error", "invalid x-api-key").outcome, Outcome::BadKey);
    assert_eq!(anthropic_error(403, "permission_error", "Your API key may not do this.").outcome, Outcome::BadKey);
    let body = r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
    let worked = Reading { key_worked: true, ..about(Api::Anthropic) };
    assert_eq!(read_as(&worked, 401, &[JSON], body).outcome, Outcome::ProviderFault);
    let page = read_as(&about(Api::Anthropic), 403, &[HTML], "<html><title>Attention Required! | Cloudflare</title>");
    assert_eq!(page.outcome, Outcome::ProviderFault, "a gateway does not know the key");
}

#[test]
fn what_this_entry_cannot_do_another_may() {
    let answers = [
        openai_error(
            404,
            "invalid_request_error",
            "model_not_found",
            "The model `gpt-9` does not exist or you do not have access to it.",
        ),
        openai_error(
            403,
            "invalid_request_error",
            "model_not_found",
            "Project `p` does not have access to model `gpt-9`",
        ),
        openai_error(
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "This model's maximum context length is 8192 tokens.",
        ),
        openai_error(
            429,
            "tokens",
            "rate_limit_exceeded",
            "Request too large for gpt-4 in organization org-x on tokens per min (TPM): Limit 10000, Requested 12000.",
        ),
        openai(404, r#"{"error":"model 'x' not found"}"#),
        anthropic_error(404, "not_found_error", "model: claude-2"),
        anthropic_error(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        anthropic_error(
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000",
        ),
    ];
    for answer in answers {
        assert_eq!((answer.outcome, answer.hint), (Outcome::Unfit, None), "{answer:?}");
    }
}

#[test]
fn what_is_wrong_with_the_request_is_the_callers_fault() {
    for answer in [
        openai_error(400, "invalid_request_error", "", "Invalid value for 'temperature'."),
        openai_error(404, "invalid_request_error", "", "Unknown request URL: POST /v1/chat/completion."),
        openai(404, ""),
        openai(422, ""),
        anthropic_error(400, "invalid_request_error", "messages: at least one message is required"),
        anthropic_error(413, "request_too_large", "Request exceeds the maximum size"),
        read_as(&about(Api::Anthropic), 413, &[HTML], "<html><title>413 Request Entity Too Large</title></html>"),
        openai(418, "short and stout"),
    ] {
        assert_eq!(answer.outcome, Outcome::CallersFault, "{answer:?}");
    }
}

#[test]
fn what_the_provider_gets_wrong_is_its_fault() {
    for status in [301, 302, 307, 408, 409, 425, 500, 502, 503, 504, 520, 599] {
        for api in [Api::Openai, Api::Anthropic, Api::Mistral, Api::Ollama] {
            assert_eq!(read_as(&about(api), status, &[], "").outcome, Outcome::ProviderFault, "{status}");
            let page = format!("<html>\r\n<head><title>{status} Bad Gateway</title></head>");
            let answer = read_as(&about(api), status, &[HTML, ("retry-after", "7")], &page);
            assert_eq!((answer.outcome, answer.hint), (Outcome::ProviderFault, Some(Span::from_secs(7))), "{status}");
            assert_eq!(answer.reason, format!("{status} a page: {status} Bad Gateway"));
        }
    }
    let error = openai_error(503, "server_error", "", "The server is currently overloaded with other requests.");
    assert_eq!(error.outcome, Outcome::ProviderFault);
    let moved = read_as(&about(Api::Openai), 301, &[("location", "https://new.example/v1?key=secret")], "");
    assert_eq!(moved.reason, "301 redirected to https://new.example/v1");
}

#[test]
fn an_overload_is_one_also_without_a_body_and_its_hint_is_kept() {
    let answer = anthropic_error(529, "overloaded_error", "Overloaded");
    assert_eq!((answer.outcome, answer.hint), (Outcome::Overloaded, None));
    assert_eq!(answer.reason, "529 overloaded_error: Overloaded");
    let answer = read_as(&about(Api::Anthropic), 529, &[("retry-after", "3")], "");
    assert_eq!((answer.outcome, answer.hint), (Outcome::Overloaded, Some(Span::from_secs(3))));
    assert_eq!(anthropic_error(500, "overloaded_error", "Overloaded").outcome, Outcome::Overloaded);
}

#[test]
fn an_error_in_the_body_of_a_200_means_what_its_status_would() {
    let cases = [
        (r#"{"error":{"message":"Provider returned error","code":429}}"#, Outcome::Throttled),
        (r#"{"error":{"message":"x","type":"server_error","code":null},"choices":null}"#, Outcome::ProviderFault),
        (r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#, Outcome::Quota),
        (
            r#"{"error":{"message":"x","code":"context_length_exceeded","type":"invalid_request_error"}}"#,
            Outcome::Unfit,
        ),
        (r#"{"error":{"message":"x","code":401}}"#, Outcome::ProviderFault), // The 200 had taken the key.
        (r#"{"error":"something"}"#, Outcome::ProviderFault),
    ];
    for (body, outcome) in cases {
        let answer = openai(200, body);
        assert_eq!(answer.outcome, outcome, "{body}");
        assert!(answer.reason.starts_with("inside a 200: "), "{}", answer.reason);
    }
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(anthropic(200, body).outcome, Outcome::Overloaded);
}

#[test]
fn a_reason_is_one_short_line() {
    let answer = openai_error(500, "server_error", "", &"long\\n words ".repeat(200));
    assert!(answer.reason.starts_with("500 server_error: long words long words "));
    assert_eq!(answer.reason.chars().count(), error::REASON_CHARS_MAX);
    assert!(!answer.reason.contains('\n'));
}

proptest! {
    #[test]
    fn no_answer_can_make_the_reader_panic(
        status in 100_u16..1_000,
        kind in prop_oneof![Just("application/json"), Just("text/html"), Just("")],
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "[<>a-zA-ZİŞ&/ ]{0,80}".prop_map(String::into_bytes),
            r#"\{"(error|data|choices|content|type|message|embeddings|detail|object)":(\{"(message|type|code)":("[^"\\]{0,20}"|[0-9]{1,6}|null)\}|\[[0-9,]{0,5}\]|null|".?")\}"#
                .prop_map(String::into_bytes),
        ],
    ) {
        let headers = [("content-type".to_owned(), kind.to_owned())];
        let chats = [Api::Openai, Api::Anthropic, Api::Mistral, Api::Ollama].map(about);
        let embeddings = [Api::Openai, Api::Mistral, Api::Ollama].map(|api| Reading { api, ..embedding(1) });
        for about in chats.into_iter().chain(embeddings) {
            let answer = read(&about, status, &headers, &body);
            prop_assert_eq!(answer.content.is_some(), answer.outcome == Outcome::Success);
        }
    }
}
