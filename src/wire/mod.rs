//! The dialects that providers speak: what a request looks like, what an answer means, how long it asks to wait.
//!
//! Pure: bytes and headers in, values out. No clock, no socket, no key store; `now` and the key are arguments.
//! One dialect is one file ([`openai`], [`anthropic`], [`mistral`], [`ollama`]); the other files are the doors the engine
//! uses and dispatch by [`Api`](crate::base::rules::Api). What a dialect can't say is refused by type ([`BuildError`]).
//! **Source:** engine.md 3, protocols.md C.1, C.2, C.4, C.5.

pub mod answer;
mod anthropic;
pub mod claude;
pub mod error;
pub mod hint;
mod mistral;
pub mod ndjson;
mod ollama;
mod openai;
pub mod request;
pub mod sse;
pub mod stream;
mod vectors;

pub use answer::{Answer, Content, Reading, read};
pub use request::{ChatRequest, EmbedRequest, HttpRequest, Message, Request, Role, build};
pub use stream::{StreamItem, StreamReader};

use crate::base::rules::{Api, ChainUse};

/// No such request can be built in the provider's dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("api {:?} cannot be used for {use_:?} chains", .api.name())]
    Unsupported { api: Api, use_: ChainUse },
    #[error("{inputs} texts are more than the {max} that api {:?} embeds at once", .api.name())]
    TooManyInputs { api: Api, inputs: usize, max: usize },
}

/// What a completed request cost, as far as the provider said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
}

/// The first value of a header, whatever the case of its name.
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}
