//! The Ollama dialect: chat, whole and in lines of JSON, and embeddings.
//!
//! Its statuses say less than others': a full queue is a 503 of its own wording, and what goes wrong in the process that
//! runs the model comes back from `/api/embed` as a 400. Which 400 is whose fault is told by the wording.
//! **Source:** protocols.md C.4, trap 58; engine.md 3 (overloaded; "400, but see Ollama").

use super::Usage;
use super::answer::{BodyFault, Content, Reading};
use super::error::ErrorBody;
use super::request::{ChatRequest, EmbedRequest, Said, json_bytes, with_system_first};
use super::stream::Progress;
use super::vectors::{self, Placed};
use crate::base::Outcome;
use crate::base::rules::ChainUse;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) const CHAT_PATH: &str = "/api/chat";
pub(super) const EMBED_PATH: &str = "/api/embed";

/// What its queue says when it is full.
const QUEUE_WORDS: [&str; 2] = ["maximum pending requests exceeded", "server busy"];

/// A 400 of `/api/embed` that speaks of the request. Every other one is an error of the runner, passed on as it came.
const REQUEST_WORDS: [&str; 8] = [
    "missing request body",
    "invalid input type",
    "invalid character",
    "cannot unmarshal",
    "is required",
    "invalid option",
    "must be of type",
    "invalid duration",
];

/// A 400 of `/api/chat` that speaks of the runner.
const RUNNER_WORDS: [&str; 10] = [
    "llama runner",
    "runner process",
    "no longer running",
    "http://127.0.0.1",
    "connection refused",
    "connection reset",
    "broken pipe",
    "eof",
    "out of memory",
    "timed out waiting",
];

/// This model can't do what was asked; another may.
const INCAPABLE_WORDS: [&str; 2] = ["does not support", "not supported by"];

/// `done_reason` of an answer that only loaded or unloaded the model.
const NO_ANSWER: [&str; 2] = ["load", "unload"];

pub(super) fn chat_body(model: Option<&str>, chat: &ChatRequest) -> Vec<u8> {
    let options = Options { num_predict: chat.max_tokens, temperature: chat.temperature };
    json_bytes(&ChatAsked { model, messages: with_system_first(chat), options, stream: chat.stream })
}

#[derive(Serialize)]
struct ChatAsked<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    messages: Vec<Said<'a>>,
    options: Options,
    /// It streams unless it is told not to.
    stream: bool,
}

#[derive(Serialize)]
struct Options {
    num_predict: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

pub(super) fn embed_body(model: Option<&str>, embed: &EmbedRequest) -> Vec<u8> {
    json_bytes(&EmbedAsked { model, input: &embed.inputs, truncate: false })
}

#[derive(Serialize)]
struct EmbedAsked<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    input: &'a [String],
    /// Else it cuts a long text off and says nothing; the other APIs refuse it.
    truncate: bool,
}

/// A whole chat answer, or one line of a stream.
#[derive(Deserialize)]
struct ChatLine {
    error: Option<Value>,
    message: Option<LineMessage>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
}

#[derive(Deserialize)]
struct LineMessage {
    content: Option<String>,
}

#[derive(Deserialize)]
struct EmbedBody {
    error: Option<Value>,
    embeddings: Option<Vec<Vec<f64>>>,
    prompt_eval_count: Option<u64>,
}

impl ChatLine {
    /// How it ended; older servers give no reason.
    fn finish(&self) -> Result<String, BodyFault> {
        let reason = self.done_reason.as_deref().unwrap_or("stop");
        if NO_ANSWER.contains(&reason) {
            return Err(BodyFault::Malformed(format!("the model was only {reason}ed")));
        }
        Ok(reason.to_owned())
    }

    fn usage(&self) -> Usage {
        Usage { input_tokens: self.prompt_eval_count, output_tokens: self.eval_count }
    }
}

pub(super) fn chat_content(body: &[u8]) -> Result<Content, BodyFault> {
    let mut line: ChatLine = serde_json::from_slice(body).map_err(BodyFault::json)?;
    BodyFault::refuse_error(line.error.take())?;
    if !line.done {
        return Err(BodyFault::Malformed("not done".into()));
    }
    let (finish, usage) = (line.finish()?, line.usage());
    let text = line.message.and_then(|message| message.content);
    let text = text.ok_or(BodyFault::Malformed("no message.content".into()))?;
    Ok(Content::Chat { text, finish, usage })
}

pub(super) fn embed_content(about: &Reading<'_>, body: &[u8]) -> Result<Content, BodyFault> {
    let parsed: EmbedBody = serde_json::from_slice(body).map_err(BodyFault::json)?;
    BodyFault::refuse_error(parsed.error)?;
    let embeddings = parsed.embeddings.ok_or(BodyFault::Malformed("no embeddings".into()))?;
    let placed = embeddings.into_iter().map(|numbers| Placed { index: None, numbers });
    let vectors = vectors::in_order(about, placed.collect())?;
    Ok(Content::Embed { vectors, usage: Usage { input_tokens: parsed.prompt_eval_count, output_tokens: None } })
}

/// One line of a stream. What a model thinks before it speaks stands in a field of its own and is passed over.
pub(super) fn stream_line(progress: &mut Progress, line: &str) -> Result<Option<String>, BodyFault> {
    let mut line: ChatLine = serde_json::from_str(line)
        .map_err(|error| BodyFault::Malformed(format!("no line of an answer: {error}: {line}")))?;
    BodyFault::refuse_error(line.error.take())?;
    if line.done {
        progress.finish = Some(line.finish()?);
        progress.usage = line.usage();
        progress.is_done = true;
    }
    Ok(line.message.and_then(|message| message.content))
}

/// What an answer means here beyond what its status says everywhere; `None`: nothing else.
pub(super) fn outcome(use_: ChainUse, status: u16, error: &ErrorBody) -> Option<Outcome> {
    match status {
        500..=599 if error.says(&QUEUE_WORDS) => Some(Outcome::Overloaded),
        // Somebody's request was given up while the model was loading, and not ours: we are here to read this.
        499 => Some(Outcome::ProviderFault),
        400 if error.says(&INCAPABLE_WORDS) => Some(Outcome::Unfit),
        400 => match use_ {
            ChainUse::Embedding => (!error.says(&REQUEST_WORDS)).then_some(Outcome::ProviderFault),
            ChainUse::Chat => error.says(&RUNNER_WORDS).then_some(Outcome::ProviderFault),
        },
        _ => None,
    }
}
