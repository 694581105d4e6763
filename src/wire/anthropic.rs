//! The Anthropic dialect: messages, whole and streamed.
//!
//! **Source:** protocols.md C.1, traps 20 and 23.

use super::Usage;
use super::answer::{BodyFault, Content};
use super::error::ErrorBody;
use super::request::{ChatRequest, body_naming};
use super::stream::Progress;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const CHAT_PATH: &str = "/v1/messages";
const VERSION: &str = "2023-06-01";

pub(super) fn push_headers(headers: &mut Vec<(String, String)>, key: Option<&str>) {
    headers.push(("anthropic-version".to_owned(), VERSION.to_owned()));
    if let Some(key) = key {
        headers.push(("x-api-key".to_owned(), key.to_owned()));
    }
}

pub(super) fn chat_body(model: Option<&str>, chat: &ChatRequest) -> Vec<u8> {
    let messages = chat.messages.iter().map(|message| json!({ "role": message.role, "content": message.content }));
    let mut body = body_naming(model);
    body.insert("max_tokens".to_owned(), json!(chat.max_tokens));
    if let Some(system) = &chat.system {
        body.insert("system".to_owned(), json!(system));
    }
    body.insert("messages".to_owned(), messages.collect());
    if let Some(temperature) = chat.temperature {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if chat.stream {
        body.insert("stream".to_owned(), json!(true));
    }
    Value::Object(body).to_string().into_bytes()
}

#[derive(Deserialize)]
struct MessageBody {
    content: Option<Vec<Block>>,
    stop_reason: Option<String>,
    usage: Option<Value>,
}

/// Blocks of other types than text (thinking, tool use) carry none.
#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

pub(super) fn chat_content(body: &[u8]) -> Result<Content, BodyFault> {
    let value: Value = serde_json::from_slice(body).map_err(BodyFault::json)?;
    if let Some(error) = ErrorBody::of_json(&value) {
        return Err(BodyFault::Error(error));
    }
    let parsed: MessageBody = serde_json::from_value(value).map_err(BodyFault::json)?;
    let blocks = parsed.content.ok_or(BodyFault::Malformed("no content".into()))?;
    let finish = parsed.stop_reason.ok_or(BodyFault::Malformed("no stop_reason".into()))?;
    let mut text = String::new();
    for block in blocks.into_iter().filter(|block| block.kind == "text") {
        text.push_str(&block.text.ok_or(BodyFault::Malformed("a text block without text".into()))?);
    }
    let mut usage = Usage::default();
    add_usage(&mut usage, parsed.usage.as_ref());
    Ok(Content::Chat { text, finish, usage })
}

/// One event of a stream. Its type stands in the data too; the `event:` line only repeats it.
pub(super) fn stream_event(progress: &mut Progress, data: &str) -> Result<Option<String>, BodyFault> {
    let event: Value = serde_json::from_str(data).map_err(BodyFault::json)?;
    if let Some(error) = ErrorBody::of_json(&event) {
        return Err(BodyFault::Error(error));
    }
    let text_at = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    match event.get("type").and_then(Value::as_str) {
        Some("message_start") => add_usage(&mut progress.usage, event.pointer("/message/usage")),
        Some("content_block_start") => return Ok(text_at("/content_block/text").filter(|text| !text.is_empty())),
        Some("content_block_delta") => return Ok(text_at("/delta/text")),
        Some("message_delta") => {
            add_usage(&mut progress.usage, event.get("usage"));
            if let Some(finish) = text_at("/delta/stop_reason") {
                progress.finish = Some(finish);
            }
        }
        Some("message_stop") => progress.is_done = true,
        // `ping`, `content_block_stop`, and whatever is added later: the API asks clients to pass over unknown types.
        Some(_) => {}
        None => return Err(BodyFault::Malformed("a stream event without type".into())),
    }
    Ok(None)
}

fn add_usage(usage: &mut Usage, value: Option<&Value>) {
    let number = |name| value.and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    usage.input_tokens = number("input_tokens").or(usage.input_tokens);
    usage.output_tokens = number("output_tokens").or(usage.output_tokens);
}
