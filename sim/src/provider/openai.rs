//! The OpenAI dialect, from the server's side: chat completions, embeddings, the list of models, and refusals.
//!
//! Resets are durations here (`x-ratelimit-reset-requests: 6m0s`), unlike at Anthropic. A request beyond the allowed
//! concurrency gets a 429 that says nothing about waiting. Over 400 lines, as the words of the refusals stand here.
//! **Source:** protocols.md C.2.

use super::answer::{Answer, Piece};
use super::ask::{self, Ask, Flaw, Malformed};
use super::dialect::{Desk, Head, given_hint};
use super::format::{gateway_page, go_duration, reply, token, tokens_in};
use super::meter::{Short, Standing};
use super::refusal::{Hint, OWN_WAIT, Refusal};
use super::vectors;
use crate::scenario::Garbage;
use serde::Serialize;
use serde_json::{Value, json};
use squall::base::Span;

/// What the headers of an unlimited server report.
const NOMINAL_REQUESTS: u64 = 10_000;
const NOMINAL_TOKENS: u64 = 2_000_000;
const INPUTS_MAX: usize = 2_048;

pub fn has_key(head: &Head<'_>) -> bool {
    head.header("authorization").and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|key| !key.is_empty())
}

pub fn parse(head: &Head<'_>, body: &[u8], models: &[String]) -> Result<Ask, Malformed> {
    let wrong_method = || {
        Malformed::new(
            405,
            format!(
                "Not allowed to {} on {} (HINT: Perhaps you meant to make a POST request?)",
                head.method, head.path
            ),
            None,
        )
    };
    match (head.method, head.path) {
        ("GET", "/v1/models") => return Ok(Ask::List),
        ("POST", "/v1/chat/completions" | "/v1/embeddings") => {}
        (_, "/v1/chat/completions" | "/v1/embeddings" | "/v1/models") => return Err(wrong_method()),
        _ => return Err(Malformed::new(404, format!("Invalid URL ({} {})", head.method, head.path), None)),
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| {
        Malformed::new(400, "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)", None)
    })?;
    let missing =
        |name: &'static str| Malformed::new(400, format!("Missing required parameter: '{name}'."), Some(name));
    let invalid = |name: &'static str| Malformed::new(400, format!("Invalid type for '{name}'."), Some(name));
    let model = ask::model(&body, models).map_err(|flaw| match flaw {
        Flaw::Missing(_) => Malformed::new(400, "you must provide a model parameter", None),
        Flaw::Invalid(name) => invalid(name),
    })?;
    if head.path == "/v1/embeddings" {
        let inputs = ask::inputs(&body).ok().filter(|inputs| inputs.len() <= INPUTS_MAX).ok_or_else(|| {
            let message =
                "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference.";
            if body.get("input").is_none() { missing("input") } else { Malformed::new(400, message, None) }
        })?;
        match body.get("encoding_format").map(Value::as_str) {
            None | Some(Some("float")) => {}
            Some(_) => {
                return Err(Malformed::new(
                    400,
                    "This server writes vectors as 'float' only.",
                    Some("encoding_format"),
                ));
            }
        }
        let dims = ask::count(body.get("dimensions")).ok_or_else(|| invalid("dimensions"))?;
        if dims == Some(0) {
            return Err(Malformed::new(400, "0 is less than the minimum of 1 - 'dimensions'", Some("dimensions")));
        }
        return Ok(Ask::Embed { model, inputs, dims });
    }
    let messages = body.get("messages").ok_or_else(|| missing("messages"))?;
    let content = ask::messages_text(messages).ok_or_else(|| invalid("messages"))?;
    let stream = ask::flag(&body, "stream").map_err(|_| invalid("stream"))?.unwrap_or(false);
    let max_tokens = ask::count(body.get("max_completion_tokens").or_else(|| body.get("max_tokens")))
        .ok_or_else(|| invalid("max_tokens"))?;
    if max_tokens == Some(0) {
        return Err(Malformed::new(400, "Invalid 'max_tokens': integer below minimum value.", Some("max_tokens")));
    }
    Ok(Ask::Chat { model, content, stream, max_tokens })
}

fn error(status: u16, message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Answer {
    Answer::json(status, &json!({"error": {"message": message, "type": kind, "param": param, "code": code}}))
}

pub fn malformed(malformed: &Malformed) -> Answer {
    error(malformed.status, &malformed.message, "invalid_request_error", malformed.param, None)
}

pub fn success(desk: &Desk<'_>, ask: &Ask, models: &[String], dims: usize, garbage: Option<Garbage>) -> Answer {
    let answer = match ask {
        Ask::Chat { content, stream, max_tokens, .. } => {
            let (words, cut_off) = reply(content, *max_tokens);
            let finish = if cut_off { "length" } else { "stop" };
            if *stream { chat_stream(desk, &words, finish) } else { chat_whole(desk, content, &words, finish) }
        }
        Ask::Embed { inputs, dims: asked, .. } => {
            let dims = asked.map_or(dims, |asked| asked as usize);
            let tokens: u64 = inputs.iter().map(|input| tokens_in(input)).sum();
            let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
            vectors::indexed(desk.model, "", inputs, dims, garbage, &usage)
        }
        Ask::List => list(desk, models),
    };
    limits(desk, answer, true)
}

pub fn list(desk: &Desk<'_>, models: &[String]) -> Answer {
    let own = if models.is_empty() { &[desk.provider.to_owned()][..] } else { models };
    let data: Vec<Value> = own
        .iter()
        .map(|id| json!({"id": id, "object": "model", "created": 1_686_935_002, "owned_by": "system"}))
        .collect();
    Answer::json(200, &json!({"object": "list", "data": data}))
}

fn chat_id(desk: &Desk<'_>) -> String {
    format!("chatcmpl-{}", token(desk.provider, desk.number, 29))
}

/// Structs and no `Value`: most of what simulated servers write is this.
#[derive(Serialize)]
struct Completion<'a> {
    id: String,
    object: &'static str,
    created: i64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    usage: Usage,
    system_fingerprint: String,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: Message,
    logprobs: Option<()>,
    finish_reason: &'a str,
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: String,
    refusal: Option<String>,
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

fn chat_whole(desk: &Desk<'_>, content: &str, words: &[&str], finish: &str) -> Answer {
    let (prompt_tokens, completion_tokens) = (tokens_in(content), words.len() as u64);
    let message = Message { role: "assistant", content: words.join(" "), refusal: None };
    let completion = Completion {
        id: chat_id(desk),
        object: "chat.completion",
        created: desk.wall_ms.div_euclid(1_000),
        model: desk.model,
        choices: [Choice { index: 0, message, logprobs: None, finish_reason: finish }],
        usage: Usage { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
        system_fingerprint: format!("fp_{}", token(desk.model, 0, 10)),
    };
    Answer::json(200, &completion)
}

fn chat_stream(desk: &Desk<'_>, words: &[&str], finish: &str) -> Answer {
    let chunk = |delta: Value, finish: Option<&str>| {
        let chunk = json!({
            "id": chat_id(desk),
            "object": "chat.completion.chunk",
            "created": desk.wall_ms.div_euclid(1_000),
            "model": desk.model,
            "system_fingerprint": format!("fp_{}", token(desk.model, 0, 10)),
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
        });
        format!("data: {chunk}\n\n")
    };
    let mut pieces = vec![Piece::plain(chunk(json!({"role": "assistant", "content": "", "refusal": null}), None))];
    pieces.extend(Piece::tokens(words, |text| chunk(json!({"content": text}), None)));
    pieces.push(Piece::plain(chunk(json!({}), Some(finish))));
    pieces.push(Piece::plain("data: [DONE]\n\n".to_owned()));
    Answer::events(pieces)
}

pub fn refusal(desk: &Desk<'_>, refusal: Refusal, hint: &Hint) -> Answer {
    let model = desk.model;
    match refusal {
        Refusal::RateLimited => {
            let hint = match hint {
                Hint::Usual => &Hint::Own(OWN_WAIT),
                Hint::None | Hint::Own(_) | Hint::Given(_) => hint,
            };
            let limit = desk.requests.map_or(NOMINAL_REQUESTS, |standing| standing.limit);
            let said = format!(
                "Rate limit reached for {model} in organization org-sim on requests per min (RPM): Limit {limit}, Used {limit}, Requested 1."
            );
            rate_limited(desk, &said, "requests", hint)
        }
        Refusal::Overloaded => hinted(
            desk,
            error(503, "The engine is currently overloaded, please try again later.", "server_error", None, None),
            hint,
        ),
        Refusal::SlowDown => hinted(
            desk,
            error(
                429,
                "We're receiving too many requests from your organization. Please slow down: keep a consistent rate for at least 15 minutes and then increase it gradually.",
                "rate_limit_error",
                None,
                Some("slow_down"),
            ),
            hint,
        ),
        Refusal::InsufficientQuota => hinted(
            desk,
            error(
                429,
                "You exceeded your current quota, please check your plan and billing details. For more information on this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors.",
                "insufficient_quota",
                None,
                Some("insufficient_quota"),
            ),
            hint,
        ),
        Refusal::SpendLimit => hinted(
            desk,
            error(
                429,
                "You exceeded your current quota: the spend limit of this project has been reached.",
                "insufficient_quota",
                None,
                Some("insufficient_quota"),
            ),
            hint,
        ),
        Refusal::Billing => hinted(
            desk,
            error(
                429,
                "Your credit balance is exhausted. Please add credits to continue.",
                "insufficient_quota",
                None,
                Some("credit_balance_exhausted"),
            ),
            hint,
        ),
        Refusal::Auth => hinted(
            desk,
            error(
                401,
                "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys.",
                "invalid_request_error",
                None,
                Some("invalid_api_key"),
            ),
            hint,
        ),
        Refusal::Permission => hinted(
            desk,
            error(
                403,
                &format!("Project `proj-sim` does not have access to model `{model}`"),
                "invalid_request_error",
                None,
                None,
            ),
            hint,
        ),
        Refusal::ModelNotFound => hinted(
            desk,
            error(
                404,
                &format!("The model `{model}` does not exist or you do not have access to it."),
                "invalid_request_error",
                None,
                Some("model_not_found"),
            ),
            hint,
        ),
        Refusal::ContextLength => hinted(
            desk,
            error(
                400,
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. Please reduce the length of the messages.",
                "invalid_request_error",
                Some("messages"),
                Some("context_length_exceeded"),
            ),
            hint,
        ),
        Refusal::InvalidRequest => hinted(
            desk,
            error(
                400,
                "Invalid value: 'narrator'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
                "invalid_request_error",
                Some("messages[0].role"),
                Some("invalid_value"),
            ),
            hint,
        ),
        Refusal::ServerError => hinted(
            desk,
            error(
                500,
                "The server had an error while processing your request. Sorry about that!",
                "server_error",
                None,
                None,
            ),
            hint,
        ),
        Refusal::Timeout => status(desk, 504, hint),
        Refusal::RunnerDead => unreachable!("a drill that asks OpenAI for {refusal:?} was refused"),
        Refusal::TooLarge => hinted(
            desk,
            error(413, "The request payload is too large.", "invalid_request_error", None, Some("payload_too_large")),
            hint,
        ),
    }
}

pub fn short(desk: &Desk<'_>, short: Short) -> Answer {
    let model = desk.model;
    let limit = |standing: Option<Standing>| standing.map_or(0, |standing| standing.limit);
    match short {
        Short::Requests { wait } => {
            let limit = limit(desk.requests);
            let said = format!(
                "Rate limit reached for {model} in organization org-sim on requests per min (RPM): Limit {limit}, Used {limit}, Requested 1."
            );
            rate_limited(desk, &said, "requests", &Hint::Own(wait))
        }
        Short::Tokens { wait } => {
            let (limit, left) = (limit(desk.tokens), desk.tokens.map_or(0, |standing| standing.remaining));
            let said = format!(
                "Rate limit reached for {model} in organization org-sim on tokens per min (TPM): Limit {limit}, Used {}.",
                limit - left
            );
            rate_limited(desk, &said, "tokens", &Hint::Own(wait))
        }
        Short::Concurrent => {
            let said = "Too many requests of this organization are being processed at the same time.";
            rate_limited(desk, said, "requests", &Hint::None)
        }
    }
}

/// A 429 with a rate reason: `what` is "requests" or "tokens".
fn rate_limited(desk: &Desk<'_>, said: &str, what: &str, hint: &Hint) -> Answer {
    let message = match hint {
        Hint::Own(wait) => format!(
            "{said} Please try again in {}. Visit https://platform.openai.com/account/rate-limits to learn more.",
            go_duration(*wait)
        ),
        Hint::None | Hint::Usual | Hint::Given(_) => {
            format!("{said} Visit https://platform.openai.com/account/rate-limits to learn more.")
        }
    };
    hinted(desk, error(429, &message, what, None, Some("rate_limit_exceeded")), hint)
}

/// The headers that say how long to wait.
fn hinted(desk: &Desk<'_>, answer: Answer, hint: &Hint) -> Answer {
    match hint {
        Hint::None | Hint::Usual => answer,
        Hint::Given(retry_after) => given_hint(answer, retry_after, desk.wall_ms),
        Hint::Own(wait) => {
            let mut answer = answer
                .header("retry-after", wait.secs_ceil().to_string())
                .header("retry-after-ms", wait.ms().to_string())
                .header("x-ratelimit-reset-requests", go_duration(*wait))
                .header("x-ratelimit-reset-tokens", go_duration(*wait));
            answer.wait_ms = Some(wait.ms());
            limits(desk, answer, false)
        }
    }
}

pub fn status(desk: &Desk<'_>, status: u16, hint: &Hint) -> Answer {
    if let Some(page) = gateway_page(status, "cloudflare") {
        return hinted(desk, Answer::html(status, page), hint);
    }
    let refused = |refusal| self::refusal(desk, refusal, hint);
    match status {
        400 => refused(Refusal::InvalidRequest),
        401 => refused(Refusal::Auth),
        403 => refused(Refusal::Permission),
        404 => refused(Refusal::ModelNotFound),
        429 => refused(Refusal::RateLimited),
        500 => refused(Refusal::ServerError),
        501.. => hinted(
            desk,
            error(status, "The server had an error while processing your request.", "server_error", None, None),
            hint,
        ),
        _ => hinted(desk, error(status, "The request was not accepted.", "invalid_request_error", None, None), hint),
    }
}

pub fn stream_error() -> String {
    let error = json!({"error": {
        "message": "The server had an error while processing your request. Sorry about that!",
        "type": "server_error", "param": null, "code": null,
    }});
    format!("data: {error}\n\n")
}

/// How the allowance stands; `resets`: also when it is full again.
fn limits(desk: &Desk<'_>, mut answer: Answer, resets: bool) -> Answer {
    let nominal = |limit: u64| Standing { limit, remaining: limit - 1, reset: Span::from_ms(6) };
    let standings = [
        ("requests", desk.requests.unwrap_or_else(|| nominal(NOMINAL_REQUESTS))),
        ("tokens", desk.tokens.unwrap_or_else(|| nominal(NOMINAL_TOKENS))),
    ];
    for (what, standing) in standings {
        answer = answer
            .header(&format!("x-ratelimit-limit-{what}"), standing.limit.to_string())
            .header(&format!("x-ratelimit-remaining-{what}"), standing.remaining.to_string());
        if resets {
            answer = answer.header(&format!("x-ratelimit-reset-{what}"), go_duration(standing.reset));
        }
    }
    answer
}

pub fn signed(desk: &Desk<'_>, answer: Answer) -> Answer {
    answer
        .header("x-request-id", format!("req_{}", token(desk.provider, desk.number, 32)))
        .header("openai-organization", "org-sim")
        .header("openai-version", "2020-10-01")
        .header("openai-processing-ms", desk.processing.ms().to_string())
}
