//! A request as a server reads it: what is asked, or what is wrong with it.

use super::handle::CallKind;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    Chat {
        model: Option<String>,
        /// Everything the caller wrote, system text first, one message a line.
        content: String,
        stream: bool,
        max_tokens: Option<u32>,
    },
    Embed {
        model: Option<String>,
        inputs: Vec<String>,
        dims: Option<u32>,
    },
    /// The list of models.
    List,
}

/// Why a request cannot be answered, for the dialect to put into its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub status: u16,
    pub message: String,
    pub param: Option<&'static str>,
}

impl Malformed {
    pub fn new(status: u16, message: impl Into<String>, param: Option<&'static str>) -> Malformed {
        Malformed { status, message: message.into(), param }
    }
}

impl Ask {
    pub fn kind(&self) -> CallKind {
        match self {
            Ask::Chat { stream, .. } => CallKind::Chat { stream: *stream },
            Ask::Embed { .. } => CallKind::Embedding,
            Ask::List => CallKind::List,
        }
    }

    pub fn model(&self) -> Option<&str> {
        match self {
            Ask::Chat { model, .. } | Ask::Embed { model, .. } => model.as_deref(),
            Ask::List => None,
        }
    }

    pub fn content(&self) -> String {
        match self {
            Ask::Chat { content, .. } => content.clone(),
            Ask::Embed { inputs, .. } => inputs.join("\n"),
            Ask::List => String::new(),
        }
    }

    /// What it takes from a token allowance: what came in, and what may go out.
    pub fn tokens(&self) -> u64 {
        match self {
            Ask::Chat { content, max_tokens, .. } => {
                super::format::tokens_in(content) + u64::from(max_tokens.unwrap_or(0))
            }
            Ask::Embed { inputs, .. } => inputs.iter().map(|input| super::format::tokens_in(input)).sum(),
            Ask::List => 0,
        }
    }
}

/// The text of a message's `content`: plain, or a list of blocks of which the text ones count.
pub fn text_of(content: &Value) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let blocks = content.as_array()?;
    let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
    Some(texts.collect::<Vec<_>>().join("\n"))
}

/// All messages' texts, one a line. `None`: not a list of messages with role and content.
pub fn messages_text(messages: &Value) -> Option<String> {
    let messages = messages.as_array().filter(|list| !list.is_empty())?;
    let texts = messages.iter().map(|message| {
        message.get("role").and_then(Value::as_str)?;
        text_of(message.get("content")?)
    });
    Some(texts.collect::<Option<Vec<_>>>()?.join("\n"))
}

/// A field without which nothing goes, or a value that is none for its field: for the dialect to put into its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    Missing(&'static str),
    Invalid(&'static str),
}

/// The model that is asked for; a server that declares `models` must be told which.
pub fn model(body: &Value, models: &[String]) -> Result<Option<String>, Flaw> {
    match body.get("model") {
        Some(Value::String(model)) => Ok(Some(model.clone())),
        None | Some(Value::Null) if models.is_empty() => Ok(None),
        None | Some(Value::Null) => Err(Flaw::Missing("model")),
        Some(_) => Err(Flaw::Invalid("model")),
    }
}

/// The texts to embed: one, or a list with something in it.
pub fn inputs(body: &Value) -> Result<Vec<String>, Flaw> {
    match body.get("input") {
        None | Some(Value::Null) => Err(Flaw::Missing("input")),
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(list)) if !list.is_empty() => {
            let texts = list.iter().map(|text| text.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().ok_or(Flaw::Invalid("input"))
        }
        Some(_) => Err(Flaw::Invalid("input")),
    }
}

pub fn flag(body: &Value, name: &'static str) -> Result<Option<bool>, Flaw> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(Flaw::Invalid(name)),
    }
}

/// A count that is absent (`None` inside), or not a count (`None` outside).
pub fn count(value: Option<&Value>) -> Option<Option<u32>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_u64().and_then(|n| u32::try_from(n).ok()).map(Some),
    }
}
