//! `POST /v1/session/…`: what the wrapper of a Claude Code session says, and anybody else who runs one.
//!
//! | Route | Body | Answer |
//! |---|---|---|
//! | `ask` | `class`, `key?`, `label?` | 200 started, 202 waiting; 409: the session of this key runs |
//! | `wait` | `session` | 200 started, or 202 still waiting after 20 s; 409: it runs or is over |
//! | `alive` | `session`, `token` | 200 with the lease; 409: the slot was reclaimed |
//! | `limit` | `session`, `token`, `window`, `resets_in_ms?` | 200 |
//! | `end` | `session`, `token`, `outcome`, `progress?` | 200 `{state}`: `over`, or `waiting` for another run |
//! | `cancel` | `session` | 200; 409: it runs |
//!
//! Started: `{session, state, token, lease_s, progress?}`; waiting: `{session, state, item, reason}`. 404: no session
//! has this number.
//! **Source:** engine.md 6.

use super::body::{Reply, json, problem, read};
use crate::base::{SessionClass, SessionOutcome, Span};
use crate::engine::Engine;
use crate::engine::api::{SessionAsk, SessionError, SessionReply};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

const ROUTES: [&str; 6] = ["ask", "wait", "alive", "limit", "end", "cancel"];

fn verb(path: &str) -> Option<&str> {
    path.strip_prefix("/v1/session/")
}

pub fn is_route(path: &str) -> bool {
    verb(path).is_some_and(|verb| ROUTES.contains(&verb))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    class: SessionClass,
    key: Option<String>,
    label: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    session: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alive {
    session: u64,
    token: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limited {
    session: u64,
    token: u64,
    window: String,
    /// A reset that is over already is as good as none.
    resets_in_ms: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ended {
    session: u64,
    token: u64,
    outcome: Outcome,
    progress: Option<String>,
}

/// What an owner can say; that a session was lost is for the engine to find out.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Done,
    Failed,
    Limited,
    NotStarted,
}

pub async fn session(engine: &Engine, path: &str, bytes: &[u8]) -> Reply {
    let said = match verb(path) {
        Some("ask") => ask(engine, bytes),
        Some("wait") => match read::<Named>(bytes) {
            Ok(Named { session }) => Ok(engine.session_wait(session).await.map_or_else(|error| refusal(&error), place)),
            Err(reply) => Err(reply),
        },
        Some("alive") => alive(engine, bytes),
        Some("limit") => limit(engine, bytes),
        Some("end") => end(engine, bytes),
        _ => cancel(engine, bytes),
    };
    said.unwrap_or_else(|reply| *reply)
}

type Said = Result<Reply, Box<Reply>>;

fn ask(engine: &Engine, bytes: &[u8]) -> Said {
    let Asked { class, key, label } = read(bytes)?;
    let asked = engine.session_ask(SessionAsk { class, key, label });
    Ok(asked.map_or_else(|error| refusal(&error), place))
}

fn alive(engine: &Engine, bytes: &[u8]) -> Said {
    let Alive { session, token } = read(bytes)?;
    let lease = engine.session_alive(session, token).map_err(|error| Box::new(refusal(&error)))?;
    Ok(json(StatusCode::OK, &json!({ "lease_s": whole_seconds(lease) })))
}

fn limit(engine: &Engine, bytes: &[u8]) -> Said {
    let Limited { session, token, window, resets_in_ms } = read(bytes)?;
    let resets_in = resets_in_ms.map(|ms| Span::from_ms(u64::try_from(ms).unwrap_or(0)));
    engine.session_limit(session, token, &window, resets_in).map_err(|error| Box::new(refusal(&error)))?;
    Ok(json(StatusCode::OK, &json!({})))
}

fn end(engine: &Engine, bytes: &[u8]) -> Said {
    let Ended { session, token, outcome, progress } = read(bytes)?;
    let outcome = match outcome {
        Outcome::Done => SessionOutcome::Done,
        Outcome::Failed => SessionOutcome::Failed,
        Outcome::Limited => SessionOutcome::Limited,
        Outcome::NotStarted => SessionOutcome::NotStarted,
    };
    let waits = engine.session_end(session, token, outcome, progress).map_err(|error| Box::new(refusal(&error)))?;
    Ok(json(StatusCode::OK, &json!({ "state": if waits { "waiting" } else { "over" } })))
}

fn cancel(engine: &Engine, bytes: &[u8]) -> Said {
    let Named { session } = read(bytes)?;
    engine.session_cancel(session).map_err(|error| Box::new(refusal(&error)))?;
    Ok(json(StatusCode::OK, &json!({})))
}

fn place(reply: SessionReply) -> Reply {
    match reply {
        SessionReply::Started { session, token, lease, progress } => {
            let lease_s = whole_seconds(lease);
            let mut body = json!({ "session": session, "state": "started", "token": token, "lease_s": lease_s });
            if let Some(progress) = progress {
                body["progress"] = json!(progress);
            }
            json(StatusCode::OK, &body)
        }
        SessionReply::Waiting { session, item, reason } => json(
            StatusCode::ACCEPTED,
            &json!({ "session": session, "state": "waiting", "item": item, "reason": reason }),
        ),
    }
}

/// Rounded down: nobody is to count on more.
fn whole_seconds(lease: Span) -> u64 {
    lease.ms() / 1_000
}

fn refusal(error: &SessionError) -> Reply {
    let status = match error {
        SessionError::Unknown { .. } => StatusCode::NOT_FOUND,
        SessionError::Over { .. } | SessionError::Runs { .. } | SessionError::Gone { .. } => StatusCode::CONFLICT,
        SessionError::OtherClass { .. } | SessionError::Length { .. } => StatusCode::BAD_REQUEST,
        SessionError::NotStored(_) => StatusCode::INSUFFICIENT_STORAGE,
    };
    problem(status, &error.to_string())
}
