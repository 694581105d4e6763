//! The OpenAI dialect: chat completions and embeddings, whole and streamed. Many servers speak it, some carelessly;
//! Mistral's requests and successes are the same.
//!
//! **Source:** protocols.md C.2, traps 23, 54 and 55.

use super::answer::{BodyFault, Content};
use super::error::ErrorBody;
use super::request::{ChatRequest, EmbedRequest, Said, json_bytes, with_system_first};
use super::stream::Progress;
use super::vectors::{self, Placed};
use super::{Reading, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) const CHAT_PATH: &str = "/v1/chat/completions";
pub(super) const EMBED_PATH: &str = "/v1/embeddings";
/// More inputs at once are refused.
pub(super) const INPUTS_MAX: usize = 2_048;

pub(super) fn push_headers(headers: &mut Vec<(String, String)>, key: Option<&str>) {
    if let Some(key) = key {
        headers.push(("authorization".to_owned(), format!("Bearer {key}")));
    }
}

pub(super) fn chat_body(model: Option<&str>, chat: &ChatRequest) -> Vec<u8> {
    json_bytes(&ChatAsked {
        model,
        messages: with_system_first(chat),
        max_tokens: chat.max_tokens,
        temperature: chat.temperature,
        stream: chat.stream,
    })
}

#[derive(Serialize)]
struct ChatAsked<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    messages: Vec<Said<'a>>,
    /// The newer `max_completion_tokens` is unknown to most compatible servers.
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
}

pub(super) fn embed_body(model: Option<&str>, embed: &EmbedRequest) -> Vec<u8> {
    json_bytes(&EmbedAsked { model, input: &embed.inputs })
}

#[derive(Serialize)]
struct EmbedAsked<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    input: &'a [String],
}

#[derive(Deserialize)]
struct ChatBody {
    error: Option<Value>,
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<ChoiceMessage>,
    delta: Option<ChoiceMessage>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ChoiceMessage {
    content: Option<Text>,
    refusal: Option<String>,
}

/// Plain, or in parts, of which those that are thought and not said have no text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

impl ChoiceMessage {
    /// A model that declines says so in `refusal` instead.
    fn text(self) -> Option<String> {
        match self.content {
            Some(Text::Plain(text)) => Some(text),
            Some(Text::Parts(parts)) => Some(parts.into_iter().filter_map(|part| part.text).collect()),
            None => self.refusal,
        }
    }
}

#[derive(Deserialize)]
struct EmbedBody {
    error: Option<Value>,
    data: Option<Vec<Datum>>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Datum {
    index: Option<usize>,
    embedding: Vec<f64>,
}

pub(super) fn chat_content(body: &[u8]) -> Result<Content, BodyFault> {
    let parsed: ChatBody = serde_json::from_slice(body).map_err(BodyFault::json)?;
    BodyFault::refuse_error(parsed.error)?;
    let choice = parsed.choices.into_iter().flatten().next().ok_or_else(|| missing(body, "no choices[0]"))?;
    let message = choice.message.ok_or(BodyFault::Malformed("no choices[0].message".into()))?;
    let text = message.text().ok_or(BodyFault::Malformed("no choices[0].message.content".into()))?;
    let finish = choice.finish_reason.ok_or(BodyFault::Malformed("no choices[0].finish_reason".into()))?;
    refuse_failure(&finish)?;
    Ok(Content::Chat { text, finish, usage: usage(parsed.usage.as_ref()) })
}

pub(super) fn embed_content(about: &Reading<'_>, body: &[u8]) -> Result<Content, BodyFault> {
    let parsed: EmbedBody = serde_json::from_slice(body).map_err(BodyFault::json)?;
    BodyFault::refuse_error(parsed.error)?;
    let data = parsed.data.ok_or_else(|| missing(body, "no data"))?;
    let placed = data.into_iter().map(|datum| Placed { index: datum.index, numbers: datum.embedding });
    let vectors = vectors::in_order(about, placed.collect())?;
    Ok(Content::Embed { vectors, usage: usage(parsed.usage.as_ref()) })
}

/// One `data:` of a stream.
pub(super) fn stream_event(progress: &mut Progress, data: &str) -> Result<Option<String>, BodyFault> {
    if data.trim() == "[DONE]" {
        progress.is_done = true;
        return Ok(None);
    }
    let parsed: ChatBody = serde_json::from_str(data).map_err(BodyFault::json)?;
    BodyFault::refuse_error(parsed.error)?;
    if parsed.usage.is_some() {
        progress.usage = usage(parsed.usage.as_ref());
    }
    let Some(choice) = parsed.choices.into_iter().flatten().next() else {
        // The chunk that carries the usage has no choices.
        let fault = missing(data.as_bytes(), "no choices");
        return if let BodyFault::Error(_) = fault { Err(fault) } else { Ok(None) };
    };
    if let Some(finish) = choice.finish_reason {
        refuse_failure(&finish)?;
        progress.finish = Some(finish);
    }
    Ok(choice.delta.and_then(ChoiceMessage::text))
}

/// What is missing, or the error that stands there instead: Mistral's is the body itself.
fn missing(body: &[u8], what: &str) -> BodyFault {
    let error = serde_json::from_slice(body).ok().and_then(|value| ErrorBody::of_json(&value));
    error.map_or_else(|| BodyFault::Malformed(what.to_owned()), BodyFault::Error)
}

/// At Mistral and OpenRouter an answer may end with the word that it failed.
fn refuse_failure(finish: &str) -> Result<(), BodyFault> {
    if finish == "error" {
        return Err(BodyFault::Malformed("the answer ended with finish_reason error".into()));
    }
    Ok(())
}

fn usage(value: Option<&Value>) -> Usage {
    let number = |name| value.and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    Usage { input_tokens: number("prompt_tokens"), output_tokens: number("completion_tokens") }
}
