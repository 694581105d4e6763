//! Turns what the engine wants into the HTTP request of a provider's dialect.
//!
//! **Source:** protocols.md C.1, C.2, C.4, C.5; engine.md 3 ("a probe is the smallest real request, never a list endpoint").

use super::{BuildError, anthropic, mistral, ollama, openai};
use crate::base::rules::{Api, ChainUse, ProviderRule};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// How the engine names itself, and how a probe is told from traffic.
pub const USER_AGENT: &str = "squall/0.1";
pub const USER_AGENT_PROBE: &str = "squall/0.1 (probe)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    pub messages: Vec<Message>,
    pub max_tokens: u32,
    #[serde(default)]
    pub stream: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbedRequest {
    pub inputs: Vec<String>,
}

/// What is asked of an entry, in no dialect yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Chat(ChatRequest),
    Embed(EmbedRequest),
}

impl Request {
    /// The smallest real request of that kind.
    pub fn probe(use_: ChainUse) -> Request {
        match use_ {
            ChainUse::Chat => Request::Chat(ChatRequest {
                system: None,
                messages: vec![Message { role: Role::User, content: "ping".to_owned() }],
                max_tokens: 1,
                stream: false,
                temperature: None,
            }),
            ChainUse::Embedding => Request::Embed(EmbedRequest { inputs: vec!["ping".to_owned()] }),
        }
    }

    pub fn use_(&self) -> ChainUse {
        match self {
            Request::Chat(_) => ChainUse::Chat,
            Request::Embed(_) => ChainUse::Embedding,
        }
    }

    pub fn is_streamed(&self) -> bool {
        match self {
            Request::Chat(chat) => chat.stream,
            Request::Embed(_) => false,
        }
    }
}

/// An HTTP request, ready for any transport. Neither `host` nor `content-length` is among the headers: they belong
/// to the transport, which knows the target and the framing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    pub method: &'static str,
    /// Starts with `/`; the target's prefix goes before it.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// One message of a dialect where the system text is a message too.
#[derive(Serialize)]
pub(super) struct Said<'a> {
    role: &'static str,
    content: &'a str,
}

/// The messages of such a dialect: the system text is the first of them.
pub(super) fn with_system_first(chat: &ChatRequest) -> Vec<Said<'_>> {
    let role = |role| match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let system = chat.system.iter().map(|text| Said { role: "system", content: text });
    let messages = chat.messages.iter().map(|message| Said { role: role(message.role), content: &message.content });
    system.chain(messages).collect()
}

/// How many texts the API takes in one embedding request; `None`: no number is known.
pub fn inputs_max(api: Api) -> Option<usize> {
    match api {
        Api::Openai => Some(openai::INPUTS_MAX),
        Api::Mistral => Some(mistral::INPUTS_MAX),
        Api::Anthropic | Api::Ollama | Api::Qdrant => None,
    }
}

/// Builds the request in the provider's dialect.
///
/// Without a `model` the body names none: a server with a single model knows which one is meant.
/// **Errors:** [`BuildError`] if no such request can be built in the dialect.
pub fn build(
    provider: &ProviderRule,
    model: Option<&str>,
    request: &Request,
    key: Option<&str>,
    client_request_id: u64,
    probe: bool,
) -> Result<HttpRequest, BuildError> {
    let api = provider.api;
    if let (Request::Embed(embed), Some(max)) = (request, inputs_max(api))
        && embed.inputs.len() > max
    {
        return Err(BuildError::TooManyInputs { api, inputs: embed.inputs.len(), max });
    }
    let (path, body) = match (api, request) {
        (Api::Openai | Api::Mistral, Request::Chat(chat)) => (openai::CHAT_PATH, openai::chat_body(model, chat)),
        (Api::Openai | Api::Mistral, Request::Embed(embed)) => (openai::EMBED_PATH, openai::embed_body(model, embed)),
        (Api::Anthropic, Request::Chat(chat)) => (anthropic::CHAT_PATH, anthropic::chat_body(model, chat)),
        (Api::Ollama, Request::Chat(chat)) => (ollama::CHAT_PATH, ollama::chat_body(model, chat)),
        (Api::Ollama, Request::Embed(embed)) => (ollama::EMBED_PATH, ollama::embed_body(model, embed)),
        (Api::Anthropic, Request::Embed(_)) | (Api::Qdrant, Request::Chat(_) | Request::Embed(_)) => {
            return Err(BuildError::Unsupported { api, use_: request.use_() });
        }
    };
    let accept = match api {
        _ if !request.is_streamed() => "application/json",
        Api::Ollama => "application/x-ndjson",
        Api::Openai | Api::Anthropic | Api::Mistral | Api::Qdrant => "text/event-stream",
    };
    let agent = if probe { USER_AGENT_PROBE } else { USER_AGENT };
    let mut headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("accept".to_owned(), accept.to_owned()),
        ("user-agent".to_owned(), agent.to_owned()),
        ("x-client-request-id".to_owned(), client_request_id.to_string()),
    ];
    match api {
        Api::Anthropic => anthropic::push_headers(&mut headers, key),
        Api::Openai | Api::Mistral | Api::Ollama | Api::Qdrant => openai::push_headers(&mut headers, key),
    }
    Ok(HttpRequest { method: "POST", path: path.to_owned(), headers, body: Bytes::from(body) })
}

/// A body straight from its struct, as its dialect declares it.
pub(super) fn json_bytes(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("requests have no keys or numbers that JSON lacks")
}

#[cfg(test)]
mod tests;
