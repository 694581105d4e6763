//! What is Mistral's own.

use super::*;
use Dialect::Mistral;

fn number(answer: &Answer, name: &str) -> u64 {
    header(answer, name).unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

#[test]
fn a_chat_and_its_stream_read_as_documented() {
    let whole = Mistral.success(&desk("m"), &ask(false, Some(2)), &[], 8, None);
    let body = json(&whole);
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    assert_eq!(body["usage"]["total_tokens"], body["usage"]["prompt_tokens"].as_u64().unwrap() + 2);
    assert_eq!(number(&whole, "x-ratelimit-limit-req-10-second"), 10);
    assert_eq!(number(&whole, "x-ratelimit-remaining-req-10-second"), 10);
    assert!(number(&whole, "x-ratelimit-remaining-tokens-month") > 0);
    assert!(header(&whole, "mistral-correlation-id").is_some() && hints(&whole).is_empty());

    let text = json(&Mistral.success(&desk("m"), &ask(false, None), &[], 8, None));
    let text = text["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let answer = Mistral.success(&desk("m"), &ask(true, None), &[], 8, None);
    let seen = events(&answer);
    assert_eq!(seen.last().unwrap().1, "[DONE]");
    let chunks: Vec<Value> =
        seen[..seen.len() - 1].iter().map(|(_, data)| serde_json::from_str(data).unwrap()).collect();
    let said = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(said.collect::<String>(), text);
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(last["usage"]["completion_tokens"], text.split(' ').count());
}

#[test]
fn embeddings_have_an_index_and_batches_a_limit() {
    let body = |inputs: usize| serde_json::json!({"model": "m", "input": vec!["a"; inputs]}).to_string();
    let Ok(asked) = parse(Mistral, "/v1/embeddings", &body(256)) else { panic!("256 are taken") };
    let answer = json(&Mistral.success(&desk("m"), &asked, &[], 8, None));
    assert_eq!((&answer["object"], &answer["data"][255]["index"]), (&Value::from("list"), &Value::from(255)));
    let many = parse(Mistral, "/v1/embeddings", &body(257)).unwrap_err();
    let answer = Mistral.malformed(&desk("m"), &many);
    assert_eq!((answer.status, &json(&answer)["code"]), (400, &Value::from("3210")));
    let long = serde_json::json!({"model": "m", "input": ["x".repeat(40_000)]}).to_string();
    assert_eq!(
        parse(Mistral, "/v1/embeddings", &long).unwrap_err().message,
        "Too many tokens overall, split into more batches."
    );
}

#[test]
fn every_refusal_has_its_status_and_shape() {
    // Status, and the code of the API's own errors, or "message" and "detail" for gateway and validator.
    let expected = [
        (Refusal::Overloaded, 503, "3505"),
        (Refusal::RateLimited, 429, "1300"),
        (Refusal::SlowDown, 429, "3505"),
        (Refusal::InsufficientQuota, 429, "1300"),
        (Refusal::SpendLimit, 402, "detail"),
        (Refusal::Billing, 402, "detail"),
        (Refusal::Auth, 401, "detail"),
        (Refusal::Permission, 403, "message"),
        (Refusal::ModelNotFound, 400, "1500"),
        (Refusal::ContextLength, 400, "3051"),
        (Refusal::InvalidRequest, 422, "null"),
        (Refusal::ServerError, 500, "1000"),
        (Refusal::Timeout, 504, "message"),
        (Refusal::TooLarge, 413, "message"),
    ];
    for (refusal, status, shape) in expected {
        let answer = Mistral.refusal(&desk("m"), refusal, &Hint::Usual);
        let body = json(&answer);
        let seen = match (&body["object"], &body["code"]) {
            (Value::String(object), Value::String(code)) if object == "error" => code.clone(),
            (Value::String(object), Value::Null) if object == "error" => "null".to_owned(),
            _ => body.as_object().unwrap().keys().next().unwrap().clone(),
        };
        assert_eq!((answer.status, seen.as_str()), (status, shape), "{refusal:?}");
        assert_eq!((answer.wait_ms, hints(&answer)), (None, Vec::new()), "{refusal:?}");
    }
}

#[test]
fn a_limit_is_told_by_what_is_left_and_by_no_wait() {
    let requests = Mistral.short(&desk("m"), Short::Requests { wait: Span::from_secs(3) });
    assert_eq!((requests.status, requests.wait_ms, hints(&requests)), (429, None, Vec::new()));
    assert_eq!(number(&requests, "x-ratelimit-remaining-req-10-second"), 0);
    let desk = Desk { tokens: Some(Standing { limit: 500, remaining: 7, reset: Span::from_secs(50) }), ..desk("m") };
    let tokens = Mistral.short(&desk, Short::Tokens { wait: Span::from_secs(3) });
    assert_eq!(number(&tokens, "x-ratelimit-remaining-tokens-minute"), 7);
    let month = Mistral.refusal(&desk, Refusal::InsufficientQuota, &Hint::Usual);
    assert_eq!(number(&month, "x-ratelimit-remaining-tokens-month"), 0);
}

#[test]
fn malformed_requests_are_the_validators() {
    let of = |path: &str, body: &str| parse(Mistral, path, body).unwrap_err();
    let missing = Mistral.malformed(&desk("m"), &of("/v1/chat/completions", r#"{"model":"m"}"#));
    assert_eq!(json(&missing)["message"]["detail"][0]["loc"], serde_json::json!(["body", "messages"]));
    assert_eq!(of("/v1/chat/completions", r#"{"messages":[]}"#).param, Some("model"));
    assert_eq!(of("/v1/chat/completions", "{").status, 422);
    assert_eq!(of("/v1/embeddings", r#"{"model":"m","input":[]}"#).status, 422);
    assert_eq!(of("/v1/chat", "{}").status, 404);
    assert_eq!(of("/v1/models", "{}").status, 405);
}
