//! The Anthropic dialect, from the server's side: messages, the list of models, and refusals.
//!
//! Resets are moments here (RFC 3339), unlike at OpenAI. A request beyond the allowed concurrency is answered
//! "overloaded" (529). **Source:** protocols.md C.1.

use super::answer::{Answer, Piece};
use super::ask::{self, Ask, Flaw, Malformed};
use super::dialect::{Desk, Head, given_hint};
use super::format::{gateway_page, reply, rfc3339, token, tokens_in};
use super::meter::{Short, Standing};
use super::refusal::{Hint, OWN_WAIT, Refusal};
use serde::Serialize;
use serde_json::{Value, json};
use squall::base::Span;

/// What the headers of an unlimited server report.
const NOMINAL_REQUESTS: u64 = 4_000;
const NOMINAL_TOKENS: u64 = 480_000;

pub fn has_key(head: &Head<'_>) -> bool {
    head.header("x-api-key").is_some_and(|key| !key.is_empty())
}

pub fn parse(head: &Head<'_>, body: &[u8], models: &[String]) -> Result<Ask, Malformed> {
    match (head.method, head.path) {
        ("GET", "/v1/models") | ("POST", "/v1/messages") => {}
        (_, "/v1/models" | "/v1/messages") => return Err(Malformed::new(405, "Method Not Allowed", None)),
        _ => return Err(Malformed::new(404, "Not Found", None)),
    }
    if head.header("anthropic-version").is_none() {
        return Err(Malformed::new(400, "anthropic-version: header is required", None));
    }
    if head.path == "/v1/models" {
        return Ok(Ask::List);
    }
    let body: Value = serde_json::from_slice(body)
        .map_err(|_| Malformed::new(400, "The request body is not valid JSON: expected value", None))?;
    let missing = |name: &'static str| Malformed::new(400, format!("{name}: Field required"), Some(name));
    let invalid = |name: &'static str| Malformed::new(400, format!("{name}: Input should be valid"), Some(name));
    let flawed = |flaw| match flaw {
        Flaw::Missing(name) => missing(name),
        Flaw::Invalid(name) => invalid(name),
    };
    let model = ask::model(&body, models).map_err(flawed)?;
    let max_tokens = ask::count(body.get("max_tokens")).ok_or_else(|| invalid("max_tokens"))?;
    match max_tokens {
        None => return Err(missing("max_tokens")),
        Some(0) => {
            return Err(Malformed::new(
                400,
                "max_tokens: Input should be greater than or equal to 1",
                Some("max_tokens"),
            ));
        }
        Some(_) => {}
    }
    let messages = body.get("messages").ok_or_else(|| missing("messages"))?;
    let mut content = ask::messages_text(messages).ok_or_else(|| invalid("messages"))?;
    if let Some(system) = body.get("system") {
        let system = ask::text_of(system).ok_or_else(|| invalid("system"))?;
        content = format!("{system}\n{content}");
    }
    let stream = ask::flag(&body, "stream").map_err(flawed)?.unwrap_or(false);
    Ok(Ask::Chat { model, content, stream, max_tokens })
}

fn request_id(desk: &Desk<'_>) -> String {
    format!("req_011C{}", token(desk.provider, desk.number, 20))
}

fn error(desk: &Desk<'_>, status: u16, kind: &str, message: &str) -> Answer {
    let body = json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id(desk)});
    Answer::json(status, &body)
}

pub fn malformed(desk: &Desk<'_>, malformed: &Malformed) -> Answer {
    let kind = if malformed.status == 404 { "not_found_error" } else { "invalid_request_error" };
    error(desk, malformed.status, kind, &malformed.message)
}

pub fn success(desk: &Desk<'_>, ask: &Ask, models: &[String]) -> Answer {
    let answer = match ask {
        Ask::Chat { content, stream, max_tokens, .. } => {
            let (words, cut_off) = reply(content, *max_tokens);
            let stop = if cut_off { "max_tokens" } else { "end_turn" };
            if *stream {
                message_stream(desk, content, &words, stop)
            } else {
                message_whole(desk, content, &words, stop)
            }
        }
        // This API has no embeddings: parsing lets none through.
        Ask::Embed { .. } => return malformed(desk, &Malformed::new(404, "Not Found", None)),
        Ask::List => {
            let own = if models.is_empty() { &[desk.provider.to_owned()][..] } else { models };
            let data: Vec<Value> = own
                .iter()
                .map(|id| json!({"type": "model", "id": id, "display_name": id, "created_at": "2025-02-19T00:00:00Z"}))
                .collect();
            Answer::json(200, &json!({"data": data, "has_more": false, "first_id": own.first(), "last_id": own.last()}))
        }
    };
    limits(desk, answer)
}

/// A struct and no `Value`: most of what simulated servers write is this.
#[derive(Serialize)]
struct Message<'a> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Block>,
    stop_reason: Option<&'a str>,
    stop_sequence: Option<&'a str>,
    usage: Usage,
}

#[derive(Serialize)]
struct Block {
    #[serde(rename = "type")]
    kind: &'static str,
    text: String,
}

#[derive(Serialize)]
struct Usage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: usize,
}

fn message<'a>(
    desk: &Desk<'a>,
    content: Vec<Block>,
    stop_reason: Option<&'a str>,
    input_tokens: u64,
    output_tokens: usize,
) -> Message<'a> {
    Message {
        id: format!("msg_01{}", token(desk.provider, desk.number, 22)),
        kind: "message",
        role: "assistant",
        model: desk.model,
        content,
        stop_reason,
        stop_sequence: None,
        usage: Usage { input_tokens, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens },
    }
}

fn message_whole(desk: &Desk<'_>, content: &str, words: &[&str], stop: &str) -> Answer {
    let blocks = vec![Block { kind: "text", text: words.join(" ") }];
    Answer::json(200, &message(desk, blocks, Some(stop), tokens_in(content), words.len()))
}

fn message_stream(desk: &Desk<'_>, content: &str, words: &[&str], stop: &str) -> Answer {
    let event = |name: &str, data: Value| format!("event: {name}\ndata: {data}\n\n");
    let start = message(desk, Vec::new(), None, tokens_in(content), 1);
    let mut pieces = vec![
        Piece::plain(event("message_start", json!({"type": "message_start", "message": start}))),
        Piece::plain(event(
            "content_block_start",
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        )),
        Piece::plain(event("ping", json!({"type": "ping"}))),
    ];
    pieces.extend(Piece::tokens(words, |text| {
        let delta = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
        event("content_block_delta", delta)
    }));
    pieces.push(Piece::plain(event("content_block_stop", json!({"type": "content_block_stop", "index": 0}))));
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": words.len()}});
    pieces.push(Piece::plain(event("message_delta", delta)));
    pieces.push(Piece::plain(event("message_stop", json!({"type": "message_stop"}))));
    Answer::events(pieces)
}

pub fn refusal(desk: &Desk<'_>, refusal: Refusal, hint: &Hint) -> Answer {
    let refused = |status, kind, message: &str| hinted(desk, error(desk, status, kind, message), hint);
    match refusal {
        Refusal::RateLimited => rate_limited(
            desk,
            "This request would exceed your organization's rate limit. Please try again later.",
            hint,
        ),
        Refusal::SlowDown => rate_limited(
            desk,
            "This request would exceed your organization's maximum usage increase rate (acceleration limit). Please scale up your usage more gradually.",
            hint,
        ),
        Refusal::Overloaded => refused(529, "overloaded_error", "Overloaded"),
        Refusal::InsufficientQuota => {
            let body = json!({
                "type": "error",
                "error": {
                    "type": "rate_limit_error",
                    "message": "Your organization has reached its monthly spend limit.",
                    "details": {"error_code": "enforced_spend_limit_reached"},
                },
                "request_id": request_id(desk),
            });
            hinted(desk, Answer::json(429, &body), hint)
        }
        Refusal::SpendLimit => refused(400, "invalid_request_error", "Your usage reached a spend limit you set."),
        Refusal::Billing => {
            refused(402, "billing_error", "There is a problem with your billing or payment information.")
        }
        Refusal::Auth => refused(401, "authentication_error", "invalid x-api-key"),
        Refusal::Permission => {
            refused(403, "permission_error", "Your API key does not have permission to use the specified resource.")
        }
        Refusal::ModelNotFound => refused(404, "not_found_error", &format!("model: {}", desk.model)),
        Refusal::ContextLength => {
            refused(400, "invalid_request_error", "prompt is too long: 209001 tokens > 200000 maximum")
        }
        Refusal::InvalidRequest => {
            refused(400, "invalid_request_error", "messages.0.role: Input should be 'user' or 'assistant'")
        }
        Refusal::ServerError => refused(500, "api_error", "Internal server error"),
        Refusal::Timeout => refused(504, "timeout_error", "Request timed out."),
        Refusal::TooLarge => refused(413, "request_too_large", "Request exceeds the maximum size"),
        Refusal::RunnerDead => unreachable!("a drill that asks Anthropic for {refusal:?} was refused"),
    }
}

pub fn short(desk: &Desk<'_>, short: Short) -> Answer {
    match short {
        Short::Requests { wait } => rate_limited(
            desk,
            &format!(
                "This request would exceed your organization's rate limit of {} requests per minute.",
                desk.requests.map_or(0, |standing| standing.limit)
            ),
            &Hint::Own(wait),
        ),
        Short::Tokens { wait } => rate_limited(
            desk,
            &format!(
                "This request would exceed your organization's rate limit of {} tokens per minute.",
                desk.tokens.map_or(0, |standing| standing.limit)
            ),
            &Hint::Own(wait),
        ),
        Short::Concurrent => refusal(desk, Refusal::Overloaded, &Hint::None),
    }
}

fn rate_limited(desk: &Desk<'_>, message: &str, hint: &Hint) -> Answer {
    let hint = match hint {
        Hint::Usual => &Hint::Own(OWN_WAIT),
        Hint::None | Hint::Own(_) | Hint::Given(_) => hint,
    };
    hinted(desk, error(desk, 429, "rate_limit_error", message), hint)
}

/// The headers that say how long to wait.
fn hinted(desk: &Desk<'_>, answer: Answer, hint: &Hint) -> Answer {
    match hint {
        Hint::None | Hint::Usual => answer,
        Hint::Given(retry_after) => given_hint(answer, retry_after, desk.wall_ms),
        Hint::Own(wait) => {
            let reset = rfc3339(desk.wall_ms.saturating_add_unsigned(wait.ms()));
            let mut answer = answer
                .header("retry-after", wait.secs_ceil().to_string())
                .header(
                    "anthropic-ratelimit-requests-limit",
                    desk.requests.map_or(NOMINAL_REQUESTS, |s| s.limit).to_string(),
                )
                .header("anthropic-ratelimit-requests-remaining", "0")
                .header("anthropic-ratelimit-requests-reset", reset);
            answer.wait_ms = Some(wait.ms());
            answer
        }
    }
}

pub fn status(desk: &Desk<'_>, status: u16, hint: &Hint) -> Answer {
    if let Some(page) = gateway_page(status, "cloudflare") {
        return hinted(desk, Answer::html(status, page), hint);
    }
    let refused = |refusal| self::refusal(desk, refusal, hint);
    let plain = |kind, message| hinted(desk, error(desk, status, kind, message), hint);
    match status {
        400 => refused(Refusal::InvalidRequest),
        401 => refused(Refusal::Auth),
        402 => refused(Refusal::Billing),
        403 => refused(Refusal::Permission),
        404 => refused(Refusal::ModelNotFound),
        409 => plain("conflict_error", "The request conflicts with the state of the resource."),
        429 => refused(Refusal::RateLimited),
        500 => refused(Refusal::ServerError),
        529 => refused(Refusal::Overloaded),
        501.. => plain("api_error", "Internal server error"),
        _ => plain("invalid_request_error", "The request was not accepted."),
    }
}

pub fn stream_error() -> String {
    let data = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    format!("event: error\ndata: {data}\n\n")
}

const LIMIT_HEADERS: [[&str; 3]; 4] = [
    [
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ],
    ["anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"],
    [
        "anthropic-ratelimit-input-tokens-limit",
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ],
    [
        "anthropic-ratelimit-output-tokens-limit",
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ],
];

/// How the allowance stands and when it is full again.
fn limits(desk: &Desk<'_>, mut answer: Answer) -> Answer {
    let nominal = |limit: u64| Standing { limit, remaining: limit - 1, reset: Span::ZERO };
    let requests = desk.requests.unwrap_or_else(|| nominal(NOMINAL_REQUESTS));
    let tokens = desk.tokens.unwrap_or_else(|| nominal(NOMINAL_TOKENS));
    for ([limit, remaining, reset], standing) in LIMIT_HEADERS.into_iter().zip([requests, tokens, tokens, tokens]) {
        answer = answer
            .header(limit, standing.limit.to_string())
            .header(remaining, standing.remaining.to_string())
            .header(reset, rfc3339(desk.wall_ms.saturating_add_unsigned(standing.reset.ms())));
    }
    answer
}

pub fn signed(desk: &Desk<'_>, answer: Answer) -> Answer {
    answer
        .header("request-id", request_id(desk))
        .header("anthropic-organization-id", "5c1f0000-0000-4000-8000-000000000001")
        .header("cf-ray", format!("{}-SIM", token(desk.provider, desk.number, 16)))
}
