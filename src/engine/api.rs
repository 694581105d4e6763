//! What the engine can be asked, and what it answers: the interface of [`Engine`](super::Engine) to its servers.
//!
//! **Source:** engine.md 3 (calls), 4 (deferral), 6 (sessions), 8 (outreach), 10 (recall).

use crate::advisory::Advisory;
use crate::base::{CallClass, CallOutcome, EntryName, SessionClass, Span};
use crate::store::StoreError;
use crate::wire::ChatRequest;
use serde::Serialize;
use tokio::sync::mpsc;

/// A chat call.
#[derive(Clone, Debug)]
pub struct ChatCall {
    pub class: CallClass,
    /// `None`: the chain named `default`, or the only one.
    pub chain: Option<String>,
    /// A foreground caller that would rather be queued than refused. Background calls always are.
    pub queue: bool,
    pub request: ChatRequest,
}

#[derive(Debug)]
pub enum ChatReply {
    Done(ChatDone),
    /// Text as it comes; the last piece is [`ChatPiece::End`].
    Stream(mpsc::Receiver<ChatPiece>),
    Deferred {
        id: u64,
        merged: bool,
    },
    /// No entry could be asked, or all that could be failed.
    Unavailable {
        outcome: CallOutcome,
        attempts: u32,
        earliest: Option<Span>,
        error: String,
    },
    /// The request's own fault: as the provider said it.
    Rejected {
        status: u16,
        error: String,
    },
}

#[derive(Clone, Debug, Serialize)]
pub struct ChatDone {
    pub outcome: CallOutcome,
    pub call: u64,
    pub entry: EntryName,
    pub text: String,
    pub attempts: u32,
}

#[derive(Clone, Debug)]
pub enum ChatPiece {
    Text(String),
    End { outcome: CallOutcome, entry: EntryName, attempts: u32 },
}

/// Work to be done later. Text and numbers as the caller gave them; see [`crate::queue::admit`].
#[derive(Clone, Debug)]
pub struct Deferral {
    pub work_type: String,
    pub priority: Option<i64>,
    pub policy: String,
    pub ttl: Option<String>,
    pub depends_on: Option<Vec<String>>,
    /// JSON text.
    pub payload: String,
    /// Remembered for 24 h: the same key again gives the same item.
    pub key: Option<String>,
    pub reason: String,
}

/// A message to a person.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    pub recipient: String,
    pub purpose: String,
    /// With one, the message is sent once for ever; without, once in 24 h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occasion: Option<String>,
    /// With a state: an older state of a topic is never sent after a newer one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<u64>,
    pub content: String,
    #[serde(default = "one")]
    pub parts: u32,
    /// `None`: the first channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

fn one() -> u32 {
    1
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum MessageReply {
    Sent {
        key: String,
    },
    Duplicate {
        key: String,
    },
    /// A newer state of the topic was told already.
    Outdated {
        key: String,
    },
    InDoubt {
        key: String,
    },
    /// Not sent yet: it will be tried again.
    Deferred {
        key: String,
        id: u64,
    },
}

#[derive(Clone, Debug, Serialize)]
pub struct RecallReply {
    pub hits: Vec<RecallHit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advisory: Option<Advisory>,
}

#[derive(Clone, Debug, Serialize)]
pub struct RecallHit {
    pub memory: u64,
    pub content: String,
    pub score: f64,
}

/// A slot for a Claude Code session.
#[derive(Clone, Debug)]
pub struct SessionAsk {
    pub class: SessionClass,
    /// The same key names the same session as long as it waits or runs.
    pub key: Option<String>,
    pub label: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionReply {
    /// It holds a slot until its lease ends. `progress`: how far an earlier run of it came.
    Started {
        session: u64,
        token: u64,
        lease: Span,
        progress: Option<String>,
    },
    Waiting {
        session: u64,
        item: u64,
        reason: String,
    },
}

/// Why a word about a session changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("there is no session {session}")]
    Unknown { session: u64 },
    #[error("session {session} is over")]
    Over { session: u64 },
    #[error("session {session} runs already")]
    Runs { session: u64 },
    #[error("session {session} holds no slot under this token: it ended, or nothing was heard of it for too long")]
    Gone { session: u64 },
    #[error("the key {key:?} names session {session}, which is {}", class.name())]
    OtherClass { key: String, session: u64, class: SessionClass },
    #[error("{field} must have 1 to {max} bytes, not {given}")]
    Length { field: &'static str, max: usize, given: usize },
    #[error("not stored: {0}")]
    NotStored(#[from] StoreError),
}

/// Why a request changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Defer(#[from] crate::queue::DeferError),
    #[error("no {use_} chain named {given:?}; there are: {known}")]
    UnknownChain { use_: &'static str, given: String, known: String },
    #[error("no channel named {given:?}; there are: {known}")]
    UnknownChannel { given: String, known: String },
    #[error("{field} must not be empty")]
    Empty { field: &'static str },
    #[error("{field} must be {must}, not {given}")]
    OutOfRange { field: &'static str, must: &'static str, given: u64 },
    #[error("payload of work_type {work_type:?} cannot be run: {why}")]
    Payload { work_type: &'static str, why: String },
    #[error("the key {key:?} was used for another item's content less than 24 h ago")]
    KeyReused { key: String },
    #[error("not stored: {0}")]
    NotStored(#[source] StoreError),
}

impl EngineError {
    /// Whether the caller may send the same request again later.
    pub fn is_temporary(&self) -> bool {
        match self {
            EngineError::NotStored(_) => true,
            EngineError::Defer(_)
            | EngineError::UnknownChain { .. }
            | EngineError::UnknownChannel { .. }
            | EngineError::Empty { .. }
            | EngineError::OutOfRange { .. }
            | EngineError::Payload { .. }
            | EngineError::KeyReused { .. } => false,
        }
    }
}
