//! The Mistral dialect, from the server's side: chat, embeddings, the list of models, and refusals.
//!
//! What is left of ten seconds, a minute and a month stands on every answer; when it comes back stands nowhere, so no
//! refusal of its own states a wait. Errors are in one of three shapes: the API's, its gateway's (Kong) and its
//! validator's. **Source:** protocols.md C.5, C.2 (batch ceilings).

use super::answer::{Answer, Piece};
use super::ask::{self, Ask, Flaw, Malformed};
use super::dialect::{Desk, Head, given_hint};
use super::format::{gateway_page, reply, token, tokens_in};
use super::meter::{Short, Standing};
use super::openai;
use super::refusal::{Hint, Refusal};
use super::vectors;
use crate::scenario::Garbage;
use serde_json::{Value, json};

/// What the headers of an unlimited server report.
const NOMINAL_REQUESTS: u64 = 360;
const NOMINAL_TOKENS: u64 = 500_000;
const MONTH_TOKENS: u64 = 1_000_000_000;

const INPUTS_MAX: usize = 256;
const INPUT_TOKENS_MAX: u64 = 8_192;

pub fn parse(head: &Head<'_>, body: &[u8], models: &[String]) -> Result<Ask, Malformed> {
    match (head.method, head.path) {
        ("GET", "/v1/models") => return Ok(Ask::List),
        ("POST", "/v1/chat/completions" | "/v1/embeddings") => {}
        (_, "/v1/chat/completions" | "/v1/embeddings" | "/v1/models") => {
            return Err(Malformed::new(405, "Method Not Allowed", None));
        }
        _ => return Err(Malformed::new(404, "no Route matched with those values", None)),
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| Malformed::new(422, "JSON decode error", None))?;
    let model = ask::model(&body, models).map_err(flawed)?;
    if head.path == "/v1/embeddings" {
        let inputs = ask::inputs(&body).map_err(flawed)?;
        if inputs.len() > INPUTS_MAX {
            return Err(Malformed::new(400, "Too many inputs in request, split into more batches.", Some("input")));
        }
        if inputs.iter().any(|input| tokens_in(input) > INPUT_TOKENS_MAX) {
            return Err(Malformed::new(400, "Too many tokens overall, split into more batches.", Some("input")));
        }
        return Ok(Ask::Embed { model, inputs, dims: None });
    }
    let messages = body.get("messages").ok_or_else(|| flawed(Flaw::Missing("messages")))?;
    let content = ask::messages_text(messages).ok_or_else(|| flawed(Flaw::Invalid("messages")))?;
    let stream = ask::flag(&body, "stream").map_err(flawed)?.unwrap_or(false);
    let max_tokens = ask::count(body.get("max_tokens")).ok_or_else(|| flawed(Flaw::Invalid("max_tokens")))?;
    Ok(Ask::Chat { model, content, stream, max_tokens })
}

fn flawed(flaw: Flaw) -> Malformed {
    match flaw {
        Flaw::Missing(name) => Malformed::new(422, "Field required", Some(name)),
        Flaw::Invalid(name) => Malformed::new(422, "Input should be valid", Some(name)),
    }
}

fn error(status: u16, message: &str, kind: &str, code: &str) -> Answer {
    let body = json!({
        "object": "error", "message": message, "type": kind, "param": null, "code": code, "raw_status_code": status,
    });
    Answer::json(status, &body)
}

fn validation(message: &str, param: Option<&str>) -> Answer {
    let kind = if message == "Field required" { "missing" } else { "value_error" };
    let detail = json!([{"type": kind, "loc": ["body", param], "msg": message, "input": null}]);
    let body = json!({
        "object": "error",
        "message": {"detail": detail},
        "type": "invalid_request_error",
        "param": null,
        "code": null,
        "raw_status_code": 422,
    });
    Answer::json(422, &body)
}

fn gateway(status: u16, message: &str) -> Answer {
    Answer::json(status, &json!({"message": message}))
}

pub fn malformed(malformed: &Malformed) -> Answer {
    match malformed.status {
        404 => gateway(404, &malformed.message),
        422 => validation(&malformed.message, malformed.param),
        405 => Answer::json(405, &json!({"detail": malformed.message})),
        status => error(status, &malformed.message, "invalid_request_prompt", "3210"),
    }
}

pub fn success(desk: &Desk<'_>, ask: &Ask, models: &[String], dims: usize, garbage: Option<Garbage>) -> Answer {
    let answer = match ask {
        Ask::Chat { content, stream, max_tokens, .. } => {
            let (words, cut_off) = reply(content, *max_tokens);
            let finish = if cut_off { "length" } else { "stop" };
            let usage = usage(tokens_in(content), words.len() as u64);
            if *stream { chat_stream(desk, &words, finish, usage) } else { chat_whole(desk, &words, finish, usage) }
        }
        Ask::Embed { inputs, .. } => {
            let tokens = inputs.iter().map(|input| tokens_in(input)).sum();
            let id = token(desk.provider, desk.number, 32);
            let head = format!(r#""id":"{id}","#);
            vectors::indexed(desk.model, &head, inputs, dims, garbage, &usage(tokens, 0))
        }
        Ask::List => openai::list(desk, models),
    };
    limits(desk, answer, Left::AsItIs)
}

fn usage(prompt: u64, completion: u64) -> Value {
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

fn chat_whole(desk: &Desk<'_>, words: &[&str], finish: &str, usage: Value) -> Answer {
    Answer::json(
        200,
        &json!({
            "id": token(desk.provider, desk.number, 32),
            "object": "chat.completion",
            "created": desk.wall_ms.div_euclid(1_000),
            "model": desk.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "tool_calls": null, "content": words.join(" ")},
                "finish_reason": finish,
            }],
            "usage": usage,
        }),
    )
}

/// The last chunk brings the end, the usage and no text.
fn chat_stream(desk: &Desk<'_>, words: &[&str], finish: &str, usage: Value) -> Answer {
    let chunk = |delta: Value, end: Option<(&str, &Value)>| {
        let mut chunk = json!({
            "id": token(desk.provider, desk.number, 32),
            "object": "chat.completion.chunk",
            "created": desk.wall_ms.div_euclid(1_000),
            "model": desk.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": end.map(|(finish, _)| finish)}],
        });
        if let Some((_, usage)) = end {
            chunk["usage"] = usage.clone();
        }
        format!("data: {chunk}\n\n")
    };
    let mut pieces = vec![Piece::plain(chunk(json!({"role": "assistant", "content": ""}), None))];
    pieces.extend(Piece::tokens(words, |text| chunk(json!({"content": text}), None)));
    pieces.push(Piece::plain(chunk(json!({"content": ""}), Some((finish, &usage)))));
    pieces.push(Piece::plain("data: [DONE]\n\n".to_owned()));
    Answer::events(pieces)
}

pub fn refusal(desk: &Desk<'_>, refusal: Refusal, hint: &Hint) -> Answer {
    let capacity = |status| {
        let message = "Service tier capacity exceeded for this model.";
        error(status, message, "service_tier_capacity_exceeded", "3505")
    };
    let limited = || error(429, "Rate limit exceeded", "rate_limited", "1300");
    let (answer, left) = match refusal {
        Refusal::RateLimited => (limited(), Left::NoRequest),
        Refusal::SlowDown => (capacity(429), Left::AsItIs),
        Refusal::Overloaded => (capacity(503), Left::AsItIs),
        Refusal::InsufficientQuota => (limited(), Left::NoMonth),
        Refusal::SpendLimit => {
            let detail = "You have reached the spending limit of your workspace.";
            (Answer::json(402, &json!({"detail": detail})), Left::AsItIs)
        }
        Refusal::Billing => {
            let detail = "Inactive subscription or usage limit reached";
            (Answer::json(402, &json!({"detail": detail})), Left::AsItIs)
        }
        Refusal::Auth => (Answer::json(401, &json!({"detail": "Unauthorized"})), Left::AsItIs),
        Refusal::Permission => (gateway(403, "You cannot consume this service"), Left::AsItIs),
        Refusal::ModelNotFound => {
            (error(400, &format!("Invalid model: {}", desk.model), "invalid_model", "1500"), Left::AsItIs)
        }
        Refusal::ContextLength => {
            let message = "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length";
            (error(400, message, "invalid_request_invalid_args", "3051"), Left::AsItIs)
        }
        Refusal::InvalidRequest => {
            (validation("Input should be less than or equal to 1.5", Some("temperature")), Left::AsItIs)
        }
        Refusal::ServerError => (error(500, "Service unavailable.", "internal_server_error", "1000"), Left::AsItIs),
        Refusal::Timeout => (gateway(504, "The upstream server is timing out"), Left::AsItIs),
        Refusal::TooLarge => (gateway(413, "Request size limit exceeded"), Left::AsItIs),
        Refusal::RunnerDead => unreachable!("a drill that asks Mistral for {refusal:?} was refused"),
    };
    hinted(desk, limits(desk, answer, left), hint)
}

/// Neither way of being short is told apart in words, only by what is left.
pub fn short(desk: &Desk<'_>, short: Short) -> Answer {
    match short {
        Short::Requests { .. } | Short::Concurrent => refusal(desk, Refusal::RateLimited, &Hint::None),
        Short::Tokens { .. } => {
            let answer = error(429, "Rate limit exceeded", "rate_limited", "1300");
            limits(desk, answer, Left::AsItIs)
        }
    }
}

/// Only a wait that the drill gives is stated.
fn hinted(desk: &Desk<'_>, answer: Answer, hint: &Hint) -> Answer {
    match hint {
        Hint::None | Hint::Usual | Hint::Own(_) => answer,
        Hint::Given(retry_after) => given_hint(answer, retry_after, desk.wall_ms),
    }
}

pub fn status(desk: &Desk<'_>, status: u16, hint: &Hint) -> Answer {
    let refused = |refusal| self::refusal(desk, refusal, hint);
    let plain = |answer| hinted(desk, answer, hint);
    match status {
        400 => plain(error(400, "Bad request", "invalid_request_error", "3000")),
        401 => refused(Refusal::Auth),
        402 => refused(Refusal::Billing),
        403 => refused(Refusal::Permission),
        404 => plain(gateway(404, "no Route matched with those values")),
        413 => refused(Refusal::TooLarge),
        422 => refused(Refusal::InvalidRequest),
        429 => refused(Refusal::RateLimited),
        500 => refused(Refusal::ServerError),
        502 => plain(gateway(502, "An invalid response was received from the upstream server")),
        503 => plain(gateway(503, "failure to get a peer from the ring-balancer")),
        504 => refused(Refusal::Timeout),
        _ => match gateway_page(status, "cloudflare") {
            Some(page) => plain(Answer::html(status, page)),
            None if status >= 500 => plain(error(status, "Service unavailable.", "internal_server_error", "1000")),
            None => plain(error(status, "The request was not accepted.", "invalid_request_error", "3000")),
        },
    }
}

pub fn stream_error() -> String {
    let error = json!({
        "object": "error", "message": "Service unavailable.", "type": "internal_server_error", "param": null,
        "code": "1000", "raw_status_code": 500,
    });
    format!("data: {error}\n\n")
}

/// What the headers say is left.
#[derive(Clone, Copy)]
enum Left {
    AsItIs,
    NoRequest,
    NoMonth,
}

fn limits(desk: &Desk<'_>, answer: Answer, left: Left) -> Answer {
    let (limit, remaining) = desk.requests.map_or((NOMINAL_REQUESTS, NOMINAL_REQUESTS - 1), of);
    let (tokens, tokens_left) =
        desk.tokens.map_or((NOMINAL_TOKENS, NOMINAL_TOKENS - desk.cost.min(NOMINAL_TOKENS)), of);
    let in_10_s = limit.div_ceil(6);
    let (requests_left, month_left) = match left {
        Left::AsItIs => (remaining.min(in_10_s), MONTH_TOKENS / 2),
        Left::NoRequest => (0, MONTH_TOKENS / 2),
        Left::NoMonth => (remaining.min(in_10_s), 0),
    };
    let headers = [
        ("x-ratelimit-limit-req-10-second", in_10_s),
        ("x-ratelimit-remaining-req-10-second", requests_left),
        ("x-ratelimit-limit-tokens-minute", tokens),
        ("x-ratelimit-remaining-tokens-minute", tokens_left),
        ("x-ratelimit-limit-tokens-month", MONTH_TOKENS),
        ("x-ratelimit-remaining-tokens-month", month_left),
        ("x-ratelimit-tokens-query-cost", desk.cost),
    ];
    headers.into_iter().fold(answer, |answer, (name, number)| answer.header(name, number.to_string()))
}

fn of(standing: Standing) -> (u64, u64) {
    (standing.limit, standing.remaining)
}

pub fn signed(desk: &Desk<'_>, answer: Answer) -> Answer {
    answer
        .header("mistral-correlation-id", token(desk.provider, desk.number, 32))
        .header("x-kong-request-id", token(desk.model, desk.number, 32))
}
