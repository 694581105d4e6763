//! Deferred work, messages and memory.

use super::body::{Reply, json, read, refusal};
use crate::engine::Engine;
use crate::engine::api::{Deferral, Message};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeferAsked {
    work_type: String,
    priority: Option<i64>,
    policy: String,
    ttl: Option<String>,
    depends_on: Option<Vec<String>>,
    payload: serde_json::Value,
    key: Option<String>,
    #[serde(default)]
    reason: String,
}

pub fn defer(engine: &Engine, bytes: &[u8]) -> Reply {
    let asked: DeferAsked = match read(bytes) {
        Ok(asked) => asked,
        Err(reply) => return *reply,
    };
    let deferral = Deferral {
        work_type: asked.work_type,
        priority: asked.priority,
        policy: asked.policy,
        ttl: asked.ttl,
        depends_on: asked.depends_on,
        payload: asked.payload.to_string(),
        key: asked.key,
        reason: if asked.reason.is_empty() { "asked for".to_owned() } else { asked.reason },
    };
    match engine.defer(deferral) {
        Ok(queued) => json(StatusCode::OK, &json!({ "id": queued.id, "merged": queued.merged })),
        Err(error) => refusal(&error),
    }
}

pub async fn outreach(engine: &Engine, bytes: &[u8]) -> Reply {
    let message: Message = match read(bytes) {
        Ok(message) => message,
        Err(reply) => return *reply,
    };
    match engine.outreach(message).await {
        Ok(reply) => json(StatusCode::OK, &reply),
        Err(error) => refusal(&error),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RememberAsked {
    content: String,
}

pub fn remember(engine: &Engine, bytes: &[u8]) -> Reply {
    let asked: RememberAsked = match read(bytes) {
        Ok(asked) => asked,
        Err(reply) => return *reply,
    };
    match engine.remember(&asked.content) {
        Ok(memory) => json(StatusCode::OK, &json!({ "memory": memory })),
        Err(error) => refusal(&error),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecallAsked {
    query: String,
    client: Option<String>,
}

pub async fn recall(engine: &Engine, bytes: &[u8]) -> Reply {
    let asked: RecallAsked = match read(bytes) {
        Ok(asked) => asked,
        Err(reply) => return *reply,
    };
    match engine.recall(&asked.query, asked.client.as_deref()).await {
        Ok(reply) => json(StatusCode::OK, &reply),
        Err(error) => refusal(&error),
    }
}
