//! What a simulated server asks about each request before it answers, and what it may be told.
//!
//! The servers know nothing about faults: they ask a [`Judge`]. Whoever injects faults hands one in.
//! **Source:** scenario.md, "Fault kinds"; architecture.md, import table (faults know the servers, not the reverse).

use super::refusal::{Hint, Refusal};
use crate::scenario::{Allowance, Garbage};
use squall::base::Span;
use std::rc::Rc;

/// One request as a fault sees it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The provider or channel.
    pub host: &'a str,
    pub model: Option<&'a str>,
    pub kind: CallKind,
    /// The user's words in it, without the protocol around them.
    pub content: &'a str,
    /// What it counts against a token allowance.
    pub tokens: u64,
    pub now_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    Chat {
        stream: bool,
    },
    Embedding,
    /// The list of models.
    List,
    /// A message to a channel.
    Message,
    /// A Claude Code session signs in, or works.
    SignIn,
    Turn,
}

/// What happens to this request beside the server's own business.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    pub hit: Option<Injected>,
    /// The time to the first byte, own or injected answer.
    pub slow: Option<Pace>,
    /// A session's turn is refused by a usage limit, unless something else answers.
    pub limited: Option<Limited>,
    /// An allowance in place of the server's own, and the line of the fault that sets it.
    pub allowance: Option<(u32, Allowance)>,
}

/// A subscription's window that is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    pub window: String,
    /// What is said about its reset, from the start of the run.
    pub resets_ms: Option<u64>,
    /// Version of the wording, and the zone that some of them name.
    pub message: String,
    pub zone: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    Take(Span),
    Times(f64),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Injected {
    /// A bare status, with whatever body that status usually has.
    Status {
        status: u16,
        hint: Hint,
        body: Option<String>,
    },
    /// A refusal in the server's own dialect.
    Refusal {
        refusal: Refusal,
        hint: Hint,
        body: Option<String>,
    },
    /// One of the 429s of a storm.
    Storm {
        hint: Hint,
    },
    /// The server fails over this request's content.
    Poison,
    Hang,
    Cut(CutAt),
    StreamError {
        after_tokens: u32,
    },
    Garbage(Garbage),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutAt {
    Bytes(u64),
    BeforeFirstToken,
    /// Half of the body.
    Half,
}

impl Injected {
    /// The short word under which the history shows the answer.
    pub fn what(&self) -> &'static str {
        match self {
            Injected::Status { .. } | Injected::Refusal { .. } => "errors",
            Injected::Storm { .. } => "storm",
            Injected::Poison => "poison",
            Injected::Hang => "hang",
            Injected::Cut(_) => "cut",
            Injected::StreamError { .. } => "stream_error",
            Injected::Garbage(_) => "garbage",
        }
    }
}

pub type Judge = Rc<dyn Fn(&Call<'_>) -> Verdict>;

/// A judge that never interferes.
pub fn no_faults() -> Judge {
    Rc::new(|_| Verdict::default())
}
