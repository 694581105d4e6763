//! The Ollama dialect, from the server's side: chat, whole and in lines of JSON, embeddings, and the list of models.
//!
//! No headers about limits, no wait ever stated, and one shape of error: `{"error":"…"}`. A request beyond the allowed
//! concurrency finds the queue full. A dead runner is a 400 to an embedding and a 500 to a chat. That the first request
//! after a pause waits for the model to load is the business of [`super::runner`].
//! **Source:** protocols.md C.4.

use super::answer::{Answer, Piece, TOKEN_EVERY};
use super::ask::{self, Ask, Flaw, Malformed};
use super::dialect::{Desk, Head, given_hint};
use super::format::{reply, rfc3339_ms, token, tokens_in};
use super::handle::CallKind;
use super::meter::Short;
use super::refusal::{Hint, Refusal};
use super::vectors;
use crate::scenario::Garbage;
use serde_json::{Value, json};
use squall::base::Span;

const CONTEXT_TOKENS: u64 = 8_192;
const TOO_LONG: &str = "the input length exceeds the context length";
const NOT_A_NUMBER: &str = "failed to encode response: json: unsupported value: NaN";

pub fn parse(head: &Head<'_>, body: &[u8], models: &[String]) -> Result<Ask, Malformed> {
    match (head.method, head.path) {
        ("GET", "/api/tags") => return Ok(Ask::List),
        ("POST", "/api/chat" | "/api/embed") => {}
        (_, "/api/chat" | "/api/embed" | "/api/tags") => {
            return Err(Malformed::new(405, "405 method not allowed", None));
        }
        _ => return Err(Malformed::new(404, "404 page not found", None)),
    }
    if body.is_empty() {
        return Err(Malformed::new(400, "missing request body", None));
    }
    let body: Value = serde_json::from_slice(body)
        .map_err(|_| Malformed::new(400, "invalid character looking for beginning of value", None))?;
    let embeds = head.path == "/api/embed";
    let model = ask::model(&body, models).map_err(|flaw| match flaw {
        Flaw::Missing(_) if embeds => Malformed::new(404, "model '' not found", Some("model")),
        Flaw::Missing(_) | Flaw::Invalid(_) => flawed(flaw),
    })?;
    if embeds {
        let inputs = match body.get("input") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(list)) if list.is_empty() => Vec::new(),
            Some(_) => ask::inputs(&body).map_err(|_| Malformed::new(400, "invalid input type", Some("input")))?,
        };
        let cuts = ask::flag(&body, "truncate").map_err(flawed)?.unwrap_or(true);
        if !cuts && inputs.iter().any(|input| tokens_in(input) > CONTEXT_TOKENS) {
            return Err(Malformed::new(400, TOO_LONG, Some("input")));
        }
        let dims = ask::count(body.get("dimensions")).ok_or_else(|| flawed(Flaw::Invalid("dimensions")))?;
        return Ok(Ask::Embed { model, inputs, dims: dims.filter(|dims| *dims > 0) });
    }
    let content = match body.get("messages") {
        Some(messages) => ask::messages_text(messages).ok_or_else(|| flawed(Flaw::Invalid("messages")))?,
        None => return Err(flawed(Flaw::Missing("messages"))),
    };
    let stream = ask::flag(&body, "stream").map_err(flawed)?.unwrap_or(true);
    let max_tokens = ask::count(body.pointer("/options/num_predict"))
        .ok_or_else(|| Malformed::new(400, "option \"num_predict\" must be of type integer", Some("options")))?;
    Ok(Ask::Chat { model, content, stream, max_tokens })
}

fn flawed(flaw: Flaw) -> Malformed {
    match flaw {
        Flaw::Missing(name) => Malformed::new(400, format!("{name} is required"), Some(name)),
        Flaw::Invalid(name) => {
            Malformed::new(400, format!("json: cannot unmarshal into Go struct field ChatRequest.{name}"), Some(name))
        }
    }
}

fn error(status: u16, message: &str) -> Answer {
    Answer::json(status, &json!({"error": message}))
}

pub fn malformed(malformed: &Malformed) -> Answer {
    match malformed.status {
        // What the router says by itself.
        404 | 405 if malformed.param.is_none() => {
            Answer::whole(malformed.status, "text/plain", malformed.message.clone())
        }
        status => error(status, &malformed.message),
    }
}

pub fn success(desk: &Desk<'_>, ask: &Ask, models: &[String], dims: usize, garbage: Option<Garbage>) -> Answer {
    match ask {
        Ask::Chat { content, stream, max_tokens, .. } => {
            let (words, cut_off) = reply(content, *max_tokens);
            let reason = if cut_off { "length" } else { "stop" };
            chat(desk, content, &words, reason, *stream)
        }
        // It can't write what is no number.
        Ask::Embed { .. } if garbage == Some(Garbage::Nan) => error(500, NOT_A_NUMBER),
        Ask::Embed { inputs, dims: asked, .. } => {
            let dims = asked.map_or(dims, |asked| asked as usize);
            let vectors = vectors::texts(inputs, dims, garbage).join(",");
            let tokens: u64 = inputs.iter().map(|input| tokens_in(input)).sum();
            let total = nanoseconds(desk.processing);
            let (model, load) = (Value::from(desk.model), nanoseconds(desk.loading));
            Answer::whole(
                200,
                "application/json; charset=utf-8",
                format!(
                    r#"{{"model":{model},"embeddings":[{vectors}],"total_duration":{total},"load_duration":{load},"prompt_eval_count":{tokens}}}"#
                ),
            )
        }
        Ask::List => {
            let own = if models.is_empty() { &[desk.provider.to_owned()][..] } else { models };
            let of = |name: &String| {
                json!({
                    "name": name,
                    "model": name,
                    "modified_at": "2026-08-21T08:00:00Z",
                    "size": 2_019_393_189_u64,
                    "digest": token(name, 0, 64),
                    "details": {"format": "gguf", "family": "sim", "parameter_size": "3.2B", "quantization_level": "Q4_K_M"},
                })
            };
            Answer::json(200, &json!({"models": own.iter().map(of).collect::<Vec<_>>()}))
        }
    }
}

fn nanoseconds(span: Span) -> u64 {
    span.ms().saturating_mul(1_000_000)
}

fn chat(desk: &Desk<'_>, content: &str, words: &[&str], reason: &str, stream: bool) -> Answer {
    let line = |text: &str, after: u64| {
        json!({
            "model": desk.model,
            "created_at": rfc3339_ms(desk.wall_ms.saturating_add_unsigned(TOKEN_EVERY.ms() * after)),
            "message": {"role": "assistant", "content": text},
            "done": false,
        })
    };
    let count = words.len() as u64;
    let last = |text: &str| {
        let mut last = line(text, count);
        let spoken = nanoseconds(TOKEN_EVERY).saturating_mul(count);
        let end = json!({
            "done": true,
            "done_reason": reason,
            "total_duration": nanoseconds(desk.processing).saturating_add(spoken),
            "load_duration": nanoseconds(desk.loading),
            "prompt_eval_count": tokens_in(content),
            "prompt_eval_duration": nanoseconds(desk.processing),
            "eval_count": count,
            "eval_duration": spoken,
        });
        for (name, value) in end.as_object().into_iter().flatten() {
            last[name] = value.clone();
        }
        last
    };
    if !stream {
        return Answer::json(200, &last(&words.join(" ")));
    }
    let mut said = 0;
    let tokens = Piece::tokens(words, |text| {
        said += 1;
        format!("{}\n", line(text, said - 1))
    });
    let mut pieces: Vec<Piece> = tokens.collect();
    pieces.push(Piece::plain(format!("{}\n", last(""))));
    Answer::lines(pieces)
}

pub fn refusal(desk: &Desk<'_>, refusal: Refusal, hint: &Hint) -> Answer {
    let refused = |status, message: &str| hinted(desk, error(status, message), hint);
    match refusal {
        Refusal::Overloaded => refused(503, "server busy, please try again.  maximum pending requests exceeded"),
        // The next ones come from the makers' own servers, which run the models named `…-cloud`.
        Refusal::RateLimited => refused(429, "too many concurrent requests"),
        Refusal::InsufficientQuota => refused(
            429,
            "you (sim) have reached your weekly usage limit, upgrade for higher limits: https://ollama.com/upgrade",
        ),
        Refusal::Auth => {
            let body = json!({"error": "unauthorized", "signin_url": "https://ollama.com/connect?name=sim"});
            hinted(desk, Answer::json(401, &body), hint)
        }
        Refusal::Permission => refused(403, "ollama cloud is disabled: remote inference is unavailable"),
        Refusal::ModelNotFound => match desk.kind {
            CallKind::Embedding => refused(404, &format!("model '{}' not found", desk.model)),
            CallKind::Chat { .. } | CallKind::List | CallKind::Message | CallKind::SignIn | CallKind::Turn => {
                refused(404, &format!("model {:?} not found, try pulling it first", desk.model))
            }
        },
        Refusal::ContextLength => refused(400, TOO_LONG),
        Refusal::InvalidRequest => match desk.kind {
            CallKind::Embedding => refused(400, "invalid input type"),
            CallKind::Chat { .. } | CallKind::List | CallKind::Message | CallKind::SignIn | CallKind::Turn => refused(
                400,
                "json: cannot unmarshal number into Go struct field ChatRequest.messages of type []api.Message",
            ),
        },
        Refusal::ServerError => refused(500, "an error was encountered while running the model: CUDA error"),
        Refusal::Timeout => refused(500, "timed out waiting for llama runner to start - progress 0.00 - "),
        Refusal::RunnerDead => match desk.kind {
            CallKind::Embedding => {
                refused(400, "do embedding request: Post \"http://127.0.0.1:38271/v1/embeddings\": EOF")
            }
            CallKind::Chat { .. } | CallKind::List | CallKind::Message | CallKind::SignIn | CallKind::Turn => {
                refused(500, "llama runner process no longer running: 2")
            }
        },
        Refusal::SlowDown | Refusal::SpendLimit | Refusal::Billing | Refusal::TooLarge => {
            unreachable!("a drill that asks Ollama for {refusal:?} was refused")
        }
    }
}

pub fn short(desk: &Desk<'_>, short: Short) -> Answer {
    match short {
        Short::Requests { .. } | Short::Tokens { .. } => refusal(desk, Refusal::RateLimited, &Hint::None),
        Short::Concurrent => refusal(desk, Refusal::Overloaded, &Hint::None),
    }
}

/// The request's content breaks the model: always the same text does.
pub fn poison(desk: &Desk<'_>) -> Answer {
    match desk.kind {
        CallKind::Embedding => error(500, NOT_A_NUMBER),
        CallKind::Chat { .. } | CallKind::List | CallKind::Message | CallKind::SignIn | CallKind::Turn => {
            refusal(desk, Refusal::ServerError, &Hint::None)
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
    match status {
        400 => refused(Refusal::InvalidRequest),
        401 => refused(Refusal::Auth),
        403 => refused(Refusal::Permission),
        404 => refused(Refusal::ModelNotFound),
        429 => refused(Refusal::RateLimited),
        499 => hinted(desk, error(499, "request canceled"), hint),
        500 => refused(Refusal::ServerError),
        502 => hinted(desk, error(502, "upstream unreachable"), hint),
        503 => refused(Refusal::Overloaded),
        _ => hinted(desk, error(status, "unexpected server status"), hint),
    }
}

pub fn stream_error() -> String {
    format!("{}\n", json!({"error": "an error was encountered while running the model: unexpected EOF"}))
}
