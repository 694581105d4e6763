//! The engine's HTTP interface: JSON in, JSON out, one route a verb.
//!
//! | Route | Does |
//! |---|---|
//! | `POST /v1/chat` | a chat call through a chain; `stream: true` answers as server-sent events |
//! | `POST /v1/defer` | hands in work that runs as soon as its axes serve |
//! | `POST /v1/outreach` | a message to a person, sent once |
//! | `POST /v1/session/ask`, `wait`, `alive`, `limit`, `end`, `cancel` | a slot for a Claude Code session |
//! | `POST /v1/remember`, `POST /v1/recall` | memory; a degraded recall says so in `advisory` |
//! | `GET /v1/status` | the status object, as in the status file |
//! | `GET /healthz` | 204 while the process lives |
//!
//! Errors are `{"error": "…"}`: 400 for a request that can never work, 503 with `Retry-After` for one that can later,
//! 507 when nothing could be stored.
//! **Source:** engine.md 2.4, 3.

mod body;
mod chat;
mod session;
mod work;

use crate::engine::Engine;
use crate::port::{Listener, Stream};
use body::{Reply, json, problem};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::rc::Rc;
use tokio::task::spawn_local;

/// Longest request body that is read.
const BODY_MAX: usize = 8 << 20;

/// Serves connections until the listener fails. Run inside a `LocalSet`.
pub async fn serve(engine: Engine, listener: Rc<dyn Listener>) -> std::io::Result<()> {
    loop {
        let stream = listener.accept().await?;
        spawn_local(connection(engine.clone(), stream));
    }
}

async fn connection(engine: Engine, stream: Box<dyn Stream>) {
    let service = service_fn(move |request| {
        let engine = engine.clone();
        async move { Ok::<_, Infallible>(route(&engine, request).await) }
    });
    // A connection that breaks is the client's affair: what it asked for has been settled by the dropped call.
    let _ = hyper::server::conn::http1::Builder::new()
        .auto_date_header(false) // It reads the machine's clock.
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn route(engine: &Engine, request: Request<Incoming>) -> Reply {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let allowed = match path {
        "/v1/chat" | "/v1/defer" | "/v1/outreach" | "/v1/remember" | "/v1/recall" => Method::POST,
        _ if session::is_route(path) => Method::POST,
        "/v1/status" | "/healthz" => Method::GET,
        _ => return problem(StatusCode::NOT_FOUND, &format!("no route {path}; see the README for the interface")),
    };
    if parts.method != allowed {
        return problem(StatusCode::METHOD_NOT_ALLOWED, &format!("{path} takes {allowed}"));
    }
    if allowed == Method::GET {
        return match path {
            "/v1/status" => json(StatusCode::OK, &engine.status()),
            _ => body::empty(StatusCode::NO_CONTENT),
        };
    }
    let bytes = match Limited::new(body, BODY_MAX).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(_) => {
            return problem(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body is cut off or over {BODY_MAX} bytes"));
        }
    };
    match path {
        "/v1/chat" => chat::chat(engine, &bytes).await,
        "/v1/defer" => work::defer(engine, &bytes),
        "/v1/outreach" => work::outreach(engine, &bytes).await,
        "/v1/remember" => work::remember(engine, &bytes),
        _ if session::is_route(path) => session::session(engine, path, &bytes).await,
        _ => work::recall(engine, &bytes).await,
    }
}
