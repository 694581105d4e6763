//! Answers: JSON, problems, and streams of server-sent events.

use crate::engine::api::EngineError;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

pub type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

pub fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    let bytes = serde_json::to_vec(value).expect("answers have no keys or numbers that JSON lacks");
    whole(status, "application/json", bytes.into())
}

pub fn empty(status: StatusCode) -> Reply {
    whole(status, "text/plain", Bytes::new())
}

fn whole(status: StatusCode, kind: &'static str, bytes: Bytes) -> Reply {
    Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(Full::new(bytes).boxed_unsync())
        .expect("the parts of an answer are valid")
}

pub fn problem(status: StatusCode, error: &str) -> Reply {
    json(status, &serde_json::json!({ "error": error }))
}

/// What a failed request of the engine looks like from outside.
pub fn refusal(error: &EngineError) -> Reply {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    let status = if error.is_temporary() { StatusCode::INSUFFICIENT_STORAGE } else { StatusCode::BAD_REQUEST };
    problem(status, &text)
}

/// Reads a request's JSON. **Errors:** the answer to give: 400, with where and what.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Box<Reply>> {
    serde_json::from_slice(bytes)
        .map_err(|error| Box::new(problem(StatusCode::BAD_REQUEST, &format!("the body cannot be read: {error}"))))
}

/// Server-sent events from a channel; ends when the sender does.
pub fn events(receiver: mpsc::Receiver<Bytes>) -> Reply {
    Response::builder()
        .status(StatusCode::OK)
        .header("content-type", "text/event-stream")
        .header("cache-control", "no-store")
        .body(Channel(receiver).boxed_unsync())
        .expect("the parts of an answer are valid")
}

struct Channel(mpsc::Receiver<Bytes>);

impl Body for Channel {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
