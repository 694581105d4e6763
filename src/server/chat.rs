//! `POST /v1/chat`.

use super::body::{Reply, events, json, problem, read, refusal};
use crate::base::{CallClass, CallOutcome};
use crate::engine::Engine;
use crate::engine::api::{ChatCall, ChatPiece, ChatReply};
use crate::wire::{ChatRequest, request::Message};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default = "foreground")]
    class: CallClass,
    chain: Option<String>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    queue: bool,
    max_tokens: Option<u32>,
    system: Option<String>,
    temperature: Option<f64>,
    messages: Vec<Message>,
}

fn foreground() -> CallClass {
    CallClass::Foreground
}

/// Where the caller sets no bound on the answer.
const MAX_TOKENS: u32 = 1024;

pub async fn chat(engine: &Engine, bytes: &[u8]) -> Reply {
    let asked: Asked = match read(bytes) {
        Ok(asked) => asked,
        Err(reply) => return *reply,
    };
    let call = ChatCall {
        class: asked.class,
        chain: asked.chain,
        queue: asked.queue,
        request: ChatRequest {
            system: asked.system,
            messages: asked.messages,
            max_tokens: asked.max_tokens.unwrap_or(MAX_TOKENS),
            stream: asked.stream,
            temperature: asked.temperature,
        },
    };
    match engine.chat(call).await {
        Ok(ChatReply::Done(done)) => json(StatusCode::OK, &done),
        Ok(ChatReply::Stream(pieces)) => stream(pieces),
        Ok(ChatReply::Deferred { id, merged }) => {
            json(StatusCode::ACCEPTED, &json!({ "outcome": CallOutcome::Deferred, "id": id, "merged": merged }))
        }
        Ok(ChatReply::Unavailable { outcome, attempts, earliest, error }) => {
            let earliest_ms = earliest.map(|wait| wait.ms());
            let body = json!({ "outcome": outcome, "attempts": attempts, "earliest_ms": earliest_ms, "error": error });
            let mut reply = json(StatusCode::SERVICE_UNAVAILABLE, &body);
            if let Some(wait) = earliest {
                reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.secs_ceil().max(1)));
            }
            reply
        }
        Ok(ChatReply::Rejected { status, error }) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
            json(status, &json!({ "outcome": CallOutcome::Failed, "error": error }))
        }
        Err(error) if error.is_temporary() => problem(StatusCode::INSUFFICIENT_STORAGE, &error.to_string()),
        Err(error) => refusal(&error),
    }
}

fn stream(mut pieces: mpsc::Receiver<ChatPiece>) -> Reply {
    let (sender, receiver) = mpsc::channel(16);
    spawn_local(async move {
        while let Some(piece) = pieces.recv().await {
            let text = match piece {
                ChatPiece::Text(text) => format!("data: {}\n\n", json!({ "text": text })),
                ChatPiece::End { outcome, entry, attempts } => format!(
                    "event: done\ndata: {}\n\n",
                    json!({ "outcome": outcome, "entry": entry, "attempts": attempts })
                ),
            };
            if sender.send(Bytes::from(text)).await.is_err() {
                return; // The client went away; dropping `pieces` tells the call.
            }
        }
    });
    events(receiver)
}
