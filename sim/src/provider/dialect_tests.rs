//! What servers write and read, in each dialect, against the APIs' documentation.

use super::answer::Answer;
use super::ask::{Ask, Malformed};
use super::dialect::{Desk, Dialect, Head};
use super::meter::{Short, Standing};
use super::refusal::{Hint, OWN_WAIT, Refusal};
use crate::scenario::Garbage;
use crate::scenario::RetryAfter;
use serde_json::Value;
use squall::base::Span;

mod mistral;
mod ollama;

const ALL: [Dialect; 4] = [Dialect::Openai, Dialect::Anthropic, Dialect::Mistral, Dialect::Ollama];
const WALL_MS: i64 = 1_699_450_980_000;

fn desk(model: &str) -> Desk<'_> {
    Desk {
        wall_ms: WALL_MS,
        processing: Span::from_ms(900),
        requests: Some(Standing { limit: 60, remaining: 59, reset: Span::from_secs(1) }),
        ..Desk::idle("sim", model)
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body()).unwrap_or_else(|error| panic!("{error}: {}", answer.body()))
}

fn ask(stream: bool, max_tokens: Option<u32>) -> Ask {
    Ask::Chat { model: Some("m".into()), content: "hello there".into(), stream, max_tokens }
}

fn parse(dialect: Dialect, path: &str, body: &str) -> Result<Ask, Malformed> {
    let headers = [("anthropic-version".to_owned(), "2023-06-01".to_owned())];
    dialect.parse(&Head { method: "POST", path, headers: &headers }, body.as_bytes(), &["m".to_owned()])
}

/// The events of a stream, as (name, data).
fn events(answer: &Answer) -> Vec<(Option<String>, String)> {
    let body = answer.body();
    let event = |text: &str| {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        (field("event: "), field("data: ").expect("every event has data"))
    };
    body.split_terminator("\n\n").map(event).collect()
}

#[test]
fn an_openai_chat_reads_as_documented() {
    let answer = Dialect::Openai.success(&desk("m"), &ask(false, Some(2)), &[], 8, None);
    let body = json(&answer);
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["choices"][0]["message"]["role"], "assistant");
    assert_eq!(body["choices"][0]["message"]["content"].as_str().unwrap().split(' ').count(), 2);
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    assert_eq!(body["usage"]["completion_tokens"], 2);
    assert_eq!(header(&answer, "x-ratelimit-remaining-requests"), Some("59"));
    assert_eq!(header(&answer, "x-ratelimit-reset-requests"), Some("1s"));
    assert_eq!(header(&answer, "openai-processing-ms"), Some("900"));
    assert!(header(&answer, "x-request-id").unwrap().starts_with("req_"));
    assert_eq!(header(&answer, "date"), Some("Wed, 08 Nov 2023 13:43:00 GMT"));
}

#[test]
fn an_anthropic_message_reads_as_documented() {
    let answer = Dialect::Anthropic.success(&desk("m"), &ask(false, None), &[], 8, None);
    let body = json(&answer);
    assert_eq!((&body["type"], &body["role"]), (&Value::from("message"), &Value::from("assistant")));
    assert_eq!(body["content"][0]["type"], "text");
    assert_eq!(body["stop_reason"], "end_turn");
    let words = body["content"][0]["text"].as_str().unwrap().split(' ').count();
    assert_eq!(body["usage"]["output_tokens"], words);
    assert_eq!(header(&answer, "anthropic-ratelimit-requests-reset"), Some("2023-11-08T13:43:01Z"));
    assert!(header(&answer, "request-id").unwrap().starts_with("req_011C"));
}

#[test]
fn both_streams_bring_one_token_a_piece_and_say_that_they_are_over() {
    let whole = Dialect::Openai.success(&desk("m"), &ask(false, None), &[], 8, None);
    let text = json(&whole)["choices"][0]["message"]["content"].as_str().unwrap().to_owned();

    let answer = Dialect::Openai.success(&desk("m"), &ask(true, None), &[], 8, None);
    let seen = events(&answer);
    let chunks: Vec<Value> =
        seen[..seen.len() - 1].iter().map(|(_, data)| serde_json::from_str(data).unwrap()).collect();
    let said = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(said.collect::<String>(), text);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
    assert_eq!(seen.last().unwrap().1, "[DONE]");
    assert_eq!(answer.pieces.iter().filter(|piece| piece.token).count(), text.split(' ').count());

    let answer = Dialect::Anthropic.success(&desk("m"), &ask(true, None), &[], 8, None);
    let seen: Vec<(String, Value)> =
        events(&answer).into_iter().map(|(name, data)| (name.unwrap(), serde_json::from_str(&data).unwrap())).collect();
    assert!(seen.iter().all(|(name, data)| data["type"] == name.as_str()));
    let said = seen.iter().filter_map(|(_, data)| data["delta"]["text"].as_str());
    assert_eq!(said.collect::<String>(), text);
    let mut names: Vec<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    let expected = [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, expected);
}

#[test]
fn embeddings_come_in_order_with_the_dimensions_that_were_asked_for() {
    let inputs = vec!["a".to_owned(), "b".to_owned()];
    let of = |dims| Ask::Embed { model: Some("m".into()), inputs: inputs.clone(), dims };
    for (asked, len) in [(None, 8), (Some(4), 4)] {
        let body = json(&Dialect::Openai.success(&desk("m"), &of(asked), &[], 8, None));
        for (index, input) in inputs.iter().enumerate() {
            assert_eq!(body["data"][index]["index"], index);
            assert_eq!(body["data"][index]["embedding"].as_array().unwrap().len(), len, "{input}");
        }
    }
    let nan = Dialect::Openai.success(&desk("m"), &of(None), &[], 8, Some(Garbage::Nan));
    assert!(nan.status == 200 && serde_json::from_str::<Value>(&nan.body()).is_err());
}

#[test]
fn every_refusal_has_its_status_and_words_in_each_dialect() {
    // Status, then type (and code) of the body; "" is a gateway's page.
    let expected = [
        (Refusal::Overloaded, 503, "server_error", 529, "overloaded_error"),
        (Refusal::RateLimited, 429, "requests rate_limit_exceeded", 429, "rate_limit_error"),
        (Refusal::SlowDown, 429, "rate_limit_error slow_down", 429, "rate_limit_error"),
        (Refusal::InsufficientQuota, 429, "insufficient_quota insufficient_quota", 429, "rate_limit_error"),
        (Refusal::SpendLimit, 429, "insufficient_quota insufficient_quota", 400, "invalid_request_error"),
        (Refusal::Billing, 429, "insufficient_quota credit_balance_exhausted", 402, "billing_error"),
        (Refusal::Auth, 401, "invalid_request_error invalid_api_key", 401, "authentication_error"),
        (Refusal::Permission, 403, "invalid_request_error", 403, "permission_error"),
        (Refusal::ModelNotFound, 404, "invalid_request_error model_not_found", 404, "not_found_error"),
        (Refusal::ContextLength, 400, "invalid_request_error context_length_exceeded", 400, "invalid_request_error"),
        (Refusal::InvalidRequest, 400, "invalid_request_error invalid_value", 400, "invalid_request_error"),
        (Refusal::ServerError, 500, "server_error", 500, "api_error"),
        (Refusal::Timeout, 504, "", 504, "timeout_error"),
        (Refusal::TooLarge, 413, "invalid_request_error payload_too_large", 413, "request_too_large"),
    ];
    let known: Vec<Refusal> = Refusal::ALL.into_iter().filter(|refusal| Dialect::Openai.knows(*refusal)).collect();
    assert_eq!(expected.map(|row| row.0).to_vec(), known);
    let words = |answer: &Answer| {
        let body: Value = serde_json::from_str(&answer.body()).unwrap_or_default();
        let field = |name: &str| body["error"][name].as_str().map(str::to_owned);
        [field("type"), field("code")].into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    for (refusal, status, openai, anthropic_status, anthropic) in expected {
        let answer = Dialect::Openai.refusal(&desk("m"), refusal, &Hint::Usual);
        assert_eq!((answer.status, words(&answer).as_str()), (status, openai), "{refusal:?}");
        let answer = Dialect::Anthropic.refusal(&desk("m"), refusal, &Hint::Usual);
        assert_eq!((answer.status, words(&answer).as_str()), (anthropic_status, anthropic), "{refusal:?}");
    }
}

/// Everything in an answer that a reader could take for a wait.
fn hints(answer: &Answer) -> Vec<String> {
    let is_hint = |name: &str| name.starts_with("retry-after") || name.contains("-reset");
    let mut hints: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| is_hint(name))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    if answer.body().contains("try again in") {
        hints.push("body".into());
    }
    hints
}

#[test]
fn a_rate_limit_states_its_wait_in_every_way_of_its_dialect() {
    let openai = Dialect::Openai.short(&desk("m"), Short::Requests { wait: Span::from_ms(1_500) });
    assert_eq!(openai.wait_ms, Some(1_500));
    let expected = [
        "retry-after: 2",
        "retry-after-ms: 1500",
        "x-ratelimit-reset-requests: 1.5s",
        "x-ratelimit-reset-tokens: 1.5s",
        "body",
    ];
    assert_eq!(hints(&openai), expected);
    let anthropic = Dialect::Anthropic.short(&desk("m"), Short::Tokens { wait: Span::from_ms(1_500) });
    let expected = ["retry-after: 2", "anthropic-ratelimit-requests-reset: 2023-11-08T13:43:02Z"];
    assert_eq!(hints(&anthropic), expected);
    let usual = Dialect::Openai.refusal(&desk("m"), Refusal::RateLimited, &Hint::Usual);
    assert_eq!(usual.wait_ms, Some(OWN_WAIT.ms()));
}

#[test]
fn a_given_wait_is_the_only_one_in_its_answer() {
    let given = Hint::Given(RetryAfter::Seconds(Span::from_secs(7)));
    for dialect in ALL {
        for answer in [
            dialect.refusal(&desk("m"), Refusal::RateLimited, &given),
            dialect.refusal(&desk("m"), Refusal::Overloaded, &given),
            dialect.status(&desk("m"), 429, &given),
            dialect.status(&desk("m"), 503, &given),
        ] {
            assert_eq!(hints(&answer), ["retry-after: 7"], "{dialect:?} {}", answer.status);
            assert_eq!(answer.wait_ms, Some(7_000));
        }
        for status in [429, 500, 502, 503, 529] {
            let bare = dialect.status(&desk("m"), status, &Hint::Usual);
            assert_eq!((bare.status, hints(&bare), bare.wait_ms), (status, Vec::new(), None));
        }
    }
}

#[test]
fn gateways_answer_with_pages_and_applications_with_json() {
    for dialect in [Dialect::Openai, Dialect::Anthropic] {
        for status in [502, 503, 504] {
            let answer = dialect.status(&desk("m"), status, &Hint::None);
            assert!(answer.status == status && answer.body().starts_with("<html>"), "{dialect:?} {status}");
        }
        for status in [400, 401, 402, 403, 404, 408, 409, 418, 422, 429, 500, 529, 599] {
            let answer = dialect.status(&desk("m"), status, &Hint::None);
            assert!(answer.status == status && json(&answer)["error"].is_object(), "{dialect:?} {status}");
        }
    }
}

#[test]
fn requests_are_read_as_documented_and_refused_when_malformed() {
    let chat = r#"{"model":"m","max_tokens":5,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let expected = Ask::Chat { model: Some("m".into()), content: "hi".into(), stream: true, max_tokens: Some(5) };
    assert_eq!(parse(Dialect::Openai, "/v1/chat/completions", chat), Ok(expected.clone()));
    assert_eq!(parse(Dialect::Anthropic, "/v1/messages", chat), Ok(expected));
    let embed = r#"{"model":"m","input":["a","b"],"encoding_format":"float"}"#;
    let expected = Ask::Embed { model: Some("m".into()), inputs: vec!["a".into(), "b".into()], dims: None };
    assert_eq!(parse(Dialect::Openai, "/v1/embeddings", embed), Ok(expected));

    for (path, body, status) in [
        ("/v1/chat/completions", "{", 400),
        ("/v1/chat/completions", r#"{"messages":[{"role":"user","content":"hi"}]}"#, 400),
        ("/v1/chat/completions", r#"{"model":"m"}"#, 400),
        ("/v1/chat/completions", r#"{"model":"m","messages":[]}"#, 400),
        ("/v1/chat/completions", r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":-1}"#, 400),
        ("/v1/embeddings", r#"{"model":"m","input":[]}"#, 400),
        ("/v1/embeddings", r#"{"model":"m","input":[7]}"#, 400),
        ("/v2/chat", chat, 404),
        ("/v1/models", chat, 405),
    ] {
        assert_eq!(parse(Dialect::Openai, path, body).unwrap_err().status, status, "{path} {body}");
    }
    let without_max = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(parse(Dialect::Anthropic, "/v1/messages", without_max).unwrap_err().status, 400);
    let unversioned = Head { method: "POST", path: "/v1/messages", headers: &[] };
    assert_eq!(Dialect::Anthropic.parse(&unversioned, chat.as_bytes(), &[]).unwrap_err().status, 400);
}

#[test]
fn a_request_may_leave_out_the_model_only_where_none_is_declared() {
    let chat = br#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let head = Head { method: "POST", path: "/v1/chat/completions", headers: &[] };
    assert_eq!(Dialect::Openai.parse(&head, chat, &[]).unwrap().model(), None);
    assert!(Dialect::Openai.parse(&head, chat, &["m".to_owned()]).is_err());
}

#[test]
fn the_list_of_models_names_those_declared() {
    let models = ["gpt-4".to_owned(), "mini".to_owned()];
    for dialect in ALL {
        let body = json(&dialect.success(&desk("m"), &Ask::List, &models, 8, None));
        let second = if dialect == Dialect::Ollama { &body["models"][1]["name"] } else { &body["data"][1]["id"] };
        assert_eq!(second, "mini", "{dialect:?}");
    }
}

#[test]
fn an_error_inside_a_stream_is_in_the_dialects_own_form() {
    assert!(Dialect::Anthropic.stream_error().starts_with("event: error\ndata: {\"type\":\"error\""));
    assert!(Dialect::Openai.stream_error().starts_with("data: {\"error\":"));
    assert!(Dialect::Mistral.stream_error().starts_with("data: {\"object\":\"error\""));
    let line = Dialect::Ollama.stream_error();
    assert!(line.starts_with("{\"error\":") && line.ends_with("}\n"), "{line}");
}

/// The reader of drills and the servers must agree on what each can say.
#[test]
fn a_drill_may_ask_for_exactly_the_refusals_that_a_dialect_knows() {
    use crate::scenario::{ServerApi, vocabulary};
    let mut names: Vec<&str> = vocabulary::REFUSALS.to_vec();
    names.sort_unstable();
    let mut known = Refusal::ALL.map(Refusal::name).to_vec();
    known.sort_unstable();
    assert_eq!(names, known);
    for api in [ServerApi::Openai, ServerApi::Anthropic, ServerApi::Mistral, ServerApi::Ollama] {
        let dialect = Dialect::of(api).unwrap();
        for refusal in Refusal::ALL {
            assert_eq!(vocabulary::has_refusal(api, refusal.name()), dialect.knows(refusal), "{api:?} {refusal:?}");
            if dialect.knows(refusal) {
                assert!(dialect.refusal(&desk("m"), refusal, &Hint::Usual).status >= 400);
            }
        }
    }
}

#[test]
fn a_bare_status_has_a_body_in_every_dialect() {
    for dialect in ALL {
        for status in 300..600 {
            let answer = dialect.status(&desk("m"), status, &Hint::None);
            assert!(answer.status == status && !answer.body().is_empty(), "{dialect:?} {status}");
        }
    }
}
