//! Turns an answer into the one classification of engine.md 3, with the evidence for it.
//!
//! **Source:** engine.md 3 (table of outcomes), protocols.md C.1, C.2, C.4, C.5.

use super::error::{self, ErrorBody, Verdict};
use super::{Usage, anthropic, hint, ollama, openai};
use crate::base::rules::{Api, ChainUse};
use crate::base::{Outcome, Span, WallTime};
use crate::event::ParkScope;
use serde_json::{Value, json};

/// What the engine knows when an answer arrives.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    pub api: Api,
    pub use_: ChainUse,
    pub model: Option<&'a str>,
    /// How many inputs were sent for embedding.
    pub inputs: usize,
    /// How long every vector must be, where that is configured.
    pub dims: Option<u32>,
    /// Whether this key has ever been answered with a success.
    pub key_worked: bool,
    /// Against which a stated moment is read if the answer has no `Date` of its own.
    pub now: WallTime,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub outcome: Outcome,
    /// The wait that the provider asked for; never made up.
    pub hint: Option<Span>,
    /// The narrowest thing that the evidence speaks about.
    pub scope: ParkScope,
    /// The real error in one short line; empty for a success.
    pub reason: String,
    /// There if and only if the outcome is a success.
    pub content: Option<Content>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Chat {
        text: String,
        finish: String,
        usage: Usage,
    },
    /// One vector per input, in the order of the inputs.
    Embed {
        vectors: Vec<Vec<f32>>,
        usage: Usage,
    },
}

/// Why a 2xx is no success.
#[derive(Debug)]
pub(super) enum BodyFault {
    Malformed(String),
    /// A well-formed body that speaks of an error.
    Error(ErrorBody),
}

impl BodyFault {
    pub(super) fn json(error: serde_json::Error) -> BodyFault {
        BodyFault::Malformed(error.to_string())
    }

    /// Ends the reading of a body whose `error` speaks of one.
    pub(super) fn refuse_error(error: Option<Value>) -> Result<(), BodyFault> {
        let error = error.and_then(|error| ErrorBody::of_json(&json!({ "error": error })));
        error.map_or(Ok(()), |error| Err(BodyFault::Error(error)))
    }

    /// The answer that this body amounts to. Its head was a 2xx, so the key was taken.
    pub(super) fn into_answer(self, about: &Reading<'_>, headers: &[(String, String)]) -> Answer {
        match self {
            BodyFault::Malformed(what) => Answer::fault(&format!("malformed answer: {what}")),
            BodyFault::Error(error) => {
                let about = Reading { key_worked: true, ..*about };
                let reason = format!("inside a 200: {}", error.reason(error.implied_status()));
                Answer {
                    reason: error::one_line(&reason),
                    ..Answer::refusal(&about, error.implied_status(), headers, &error)
                }
            }
        }
    }
}

impl Answer {
    /// A provider fault without an answer that could be read: a transport error, or a body that makes no sense.
    pub fn fault(reason: &str) -> Answer {
        Answer {
            outcome: Outcome::ProviderFault,
            hint: None,
            scope: ParkScope::Model,
            reason: error::one_line(reason),
            content: None,
        }
    }

    fn refusal(about: &Reading<'_>, status: u16, headers: &[(String, String)], error: &ErrorBody) -> Answer {
        let Verdict { outcome, scope } = error::classify(about, status, headers, error);
        let hint = hint::read(about.now, outcome, headers, error);
        let reason = match super::header(headers, "location") {
            Some(location) if (300..400).contains(&status) => {
                // Where to, without what a query may carry.
                error::one_line(&format!("{status} redirected to {}", location.split('?').next().unwrap_or_default()))
            }
            Some(_) | None => error.reason(status),
        };
        Answer { outcome, hint, scope, reason, content: None }
    }
}

/// Reads a whole answer.
pub fn read(about: &Reading<'_>, status: u16, headers: &[(String, String)], body: &[u8]) -> Answer {
    if !(200..300).contains(&status) {
        return Answer::refusal(about, status, headers, &ErrorBody::parse(headers, body));
    }
    match content(about, body) {
        Ok(content) => Answer {
            outcome: Outcome::Success,
            hint: None,
            scope: ParkScope::Model,
            reason: String::new(),
            content: Some(content),
        },
        Err(BodyFault::Malformed(_)) if body.is_empty() => Answer::fault(&format!("{status} with an empty body")),
        Err(BodyFault::Malformed(_)) if ErrorBody::parse(headers, body).is_page => {
            Answer::fault(&ErrorBody::parse(headers, body).reason(status))
        }
        Err(fault) => fault.into_answer(about, headers),
    }
}

fn content(about: &Reading<'_>, body: &[u8]) -> Result<Content, BodyFault> {
    match (about.api, about.use_) {
        (Api::Openai | Api::Mistral, ChainUse::Chat) => openai::chat_content(body),
        (Api::Openai | Api::Mistral, ChainUse::Embedding) => openai::embed_content(about, body),
        (Api::Anthropic, ChainUse::Chat) => anthropic::chat_content(body),
        (Api::Ollama, ChainUse::Chat) => ollama::chat_content(body),
        (Api::Ollama, ChainUse::Embedding) => ollama::embed_content(about, body),
        (Api::Anthropic, ChainUse::Embedding) | (Api::Qdrant, ChainUse::Chat | ChainUse::Embedding) => {
            // `request::build` refuses these by type, so no such request can have been answered.
            panic!("WIRE-1: an answer in a dialect that no request can be built for: {:?} {:?}", about.api, about.use_)
        }
    }
}

#[cfg(test)]
mod tests;
