//! The OpenAI dialect: chat completions and embeddings, whole and streamed. Many servers speak it, some carelessly.
//!
//! **Source:** protocols.md C.2, traps 23, 54 and 55.

use super::answer::{BodyFault, Content};
use super::error::ErrorBody;
use super::request::{ChatRequest, EmbedRequest, Role, json_bytes};
use super::stream::Progress;
use super::{Reading, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(super) const CHAT_PATH: &str = "/v1/chat/completions";
pub(super) const EMBED_PATH: &str = "/v1/embeddings";

pub(super) fn push_headers(headers: &mut Vec<(String, String)>, key: Option<&str>) {
    if let Some(key) = key {
        headers.push(("authorization".to_owned(), format!("Bearer {key}")));
    }
}

pub(super) fn chat_body(model: Option<&str>, chat: &ChatRequest) -> Vec<u8> {
    let system = chat.system.iter().map(|text| Said { role: "system", content: text });
    let messages = chat.messages.iter().map(|message| Said { role: role(message.role), content: &message.content });
    json_bytes(&ChatAsked {
        model,
        messages: system.chain(messages).collect(),
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

#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: &'a str,
}

fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    }
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
    content: Option<String>,
    refusal: Option<String>,
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
    if let Some(error) = embedded_error(parsed.error) {
        return Err(BodyFault::Error(error));
    }
    let choice = parsed.choices.into_iter().flatten().next().ok_or(BodyFault::Malformed("no choices[0]".into()))?;
    let message = choice.message.ok_or(BodyFault::Malformed("no choices[0].message".into()))?;
    // A model that declines says so in `refusal` instead.
    let text = message.content.or(message.refusal);
    let text = text.ok_or(BodyFault::Malformed("no choices[0].message.content".into()))?;
    let finish = choice.finish_reason.ok_or(BodyFault::Malformed("no choices[0].finish_reason".into()))?;
    Ok(Content::Chat { text, finish, usage: usage(parsed.usage.as_ref()) })
}

/// Vectors in the order of the inputs. Matched by `index`; by position only if none has one.
pub(super) fn embed_content(about: &Reading<'_>, body: &[u8]) -> Result<Content, BodyFault> {
    let parsed: EmbedBody = serde_json::from_slice(body).map_err(BodyFault::json)?;
    if let Some(error) = embedded_error(parsed.error) {
        return Err(BodyFault::Error(error));
    }
    let data = parsed.data.ok_or(BodyFault::Malformed("no data".into()))?;
    if data.len() != about.inputs {
        return Err(BodyFault::Malformed(format!("{} vectors for {} inputs", data.len(), about.inputs)));
    }
    let by_position = data.iter().all(|datum| datum.index.is_none());
    let mut slots: Vec<Option<Vec<f32>>> = vec![None; about.inputs];
    for (position, datum) in data.into_iter().enumerate() {
        let index = if by_position { Some(position) } else { datum.index };
        let index = index.ok_or(BodyFault::Malformed("a vector without index among others with one".into()))?;
        let slot = slots.get_mut(index).ok_or_else(|| BodyFault::Malformed(format!("index {index} of no input")))?;
        if slot.is_some() {
            return Err(BodyFault::Malformed(format!("index {index} twice")));
        }
        *slot = Some(datum.embedding.into_iter().map(|number| number as f32).collect());
    }
    // As many as inputs, none twice: so all are there.
    let vectors: Vec<Vec<f32>> = slots.into_iter().flatten().collect();
    check_vectors(about, &vectors)?;
    Ok(Content::Embed { vectors, usage: usage(parsed.usage.as_ref()) })
}

fn check_vectors(about: &Reading<'_>, vectors: &[Vec<f32>]) -> Result<(), BodyFault> {
    let expected = about.dims.map(|dims| dims as usize).or_else(|| vectors.first().map(Vec::len)).unwrap_or(0);
    for (index, vector) in vectors.iter().enumerate() {
        if vector.len() != expected || vector.is_empty() {
            let text = format!("vector {index} has {} dimensions, not {expected}", vector.len());
            return Err(BodyFault::Malformed(text));
        }
        if vector.iter().any(|number| !number.is_finite()) {
            return Err(BodyFault::Malformed(format!("vector {index} has a number that is not finite")));
        }
        if vector.iter().all(|number| *number == 0.0) {
            return Err(BodyFault::Malformed(format!("vector {index} is all zero")));
        }
    }
    Ok(())
}

/// One `data:` of a stream.
pub(super) fn stream_event(progress: &mut Progress, data: &str) -> Result<Option<String>, BodyFault> {
    if data.trim() == "[DONE]" {
        progress.is_done = true;
        return Ok(None);
    }
    let parsed: ChatBody = serde_json::from_str(data).map_err(BodyFault::json)?;
    if let Some(error) = embedded_error(parsed.error) {
        return Err(BodyFault::Error(error));
    }
    if parsed.usage.is_some() {
        progress.usage = usage(parsed.usage.as_ref());
    }
    // The chunk that carries the usage has no choices.
    let Some(choice) = parsed.choices.into_iter().flatten().next() else { return Ok(None) };
    if choice.finish_reason.is_some() {
        progress.finish = choice.finish_reason;
    }
    Ok(choice.delta.and_then(|delta| delta.content.or(delta.refusal)))
}

fn embedded_error(error: Option<Value>) -> Option<ErrorBody> {
    error.and_then(|error| ErrorBody::of_json(&json!({ "error": error })))
}

fn usage(value: Option<&Value>) -> Usage {
    let number = |name| value.and_then(|usage| usage.get(name)).and_then(Value::as_u64);
    Usage { input_tokens: number("prompt_tokens"), output_tokens: number("completion_tokens") }
}
