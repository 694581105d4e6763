//! What differs between the APIs that simulated servers speak, dispatched to one file per dialect.
//!
//! A dialect turns a request into an [`Ask`] and words into an [`Answer`]; it decides nothing.
//! **Source:** protocols.md C.1, C.2.

use super::answer::Answer;
use super::ask::{Ask, Malformed};
use super::meter::{Short, Standing};
use super::refusal::{Hint, Refusal};
use super::{anthropic, openai};
use crate::scenario::{Garbage, ServerApi};
use squall::base::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Openai,
    Anthropic,
}

/// What a server knows when it writes an answer.
#[derive(Clone, Debug)]
pub struct Desk<'a> {
    pub provider: &'a str,
    /// As asked for; a server without declared models may be asked for none.
    pub model: &'a str,
    /// This request is the server's n-th.
    pub number: u64,
    /// The simulated wall clock, Unix milliseconds.
    pub wall_ms: i64,
    pub processing: Span,
    pub requests: Option<Standing>,
    pub tokens: Option<Standing>,
}

/// A request's line and headers.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    pub method: &'a str,
    /// Without a query.
    pub path: &'a str,
    pub headers: &'a [(String, String)],
}

impl Head<'_> {
    /// The first value of a header; `name` in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl Dialect {
    /// `None`: no server of this kind is simulated here.
    pub fn of(api: ServerApi) -> Option<Dialect> {
        match api {
            ServerApi::Openai => Some(Dialect::Openai),
            ServerApi::Anthropic => Some(Dialect::Anthropic),
            ServerApi::Mistral | ServerApi::Ollama | ServerApi::Qdrant | ServerApi::Webhook | ServerApi::ClaudeCode => {
                None
            }
        }
    }

    /// Reads a request. `models`: as declared; where there are any, a request must name one.
    ///
    /// **Errors:** [`Malformed`], for [`Dialect::malformed`] to word.
    pub fn parse(self, head: &Head<'_>, body: &[u8], models: &[String]) -> Result<Ask, Malformed> {
        match self {
            Dialect::Openai => openai::parse(head, body, models),
            Dialect::Anthropic => anthropic::parse(head, body, models),
        }
    }

    /// Whether the request carries a key where this API looks for it.
    pub fn has_key(self, head: &Head<'_>) -> bool {
        match self {
            Dialect::Openai => openai::has_key(head),
            Dialect::Anthropic => anthropic::has_key(head),
        }
    }

    pub fn malformed(self, desk: &Desk<'_>, malformed: &Malformed) -> Answer {
        self.signed(
            desk,
            match self {
                Dialect::Openai => openai::malformed(malformed),
                Dialect::Anthropic => anthropic::malformed(desk, malformed),
            },
        )
    }

    /// A success. `dims`: of the server's vectors.
    pub fn success(
        self,
        desk: &Desk<'_>,
        ask: &Ask,
        models: &[String],
        dims: usize,
        garbage: Option<Garbage>,
    ) -> Answer {
        self.signed(
            desk,
            match self {
                Dialect::Openai => openai::success(desk, ask, models, dims, garbage),
                Dialect::Anthropic => anthropic::success(desk, ask, models),
            },
        )
    }

    pub fn refusal(self, desk: &Desk<'_>, refusal: Refusal, hint: &Hint) -> Answer {
        self.signed(
            desk,
            match self {
                Dialect::Openai => openai::refusal(desk, refusal, hint),
                Dialect::Anthropic => anthropic::refusal(desk, refusal, hint),
            },
        )
    }

    /// The server's own allowance is spent.
    pub fn short(self, desk: &Desk<'_>, short: Short) -> Answer {
        self.signed(
            desk,
            match self {
                Dialect::Openai => openai::short(desk, short),
                Dialect::Anthropic => anthropic::short(desk, short),
            },
        )
    }

    /// A bare status with the body it usually has: gateways answer 413 and 502 to 504 with a page, the rest is JSON.
    pub fn status(self, desk: &Desk<'_>, status: u16, hint: &Hint) -> Answer {
        let hint = match hint {
            Hint::Usual => &Hint::None, // A bare status says nothing of its own about waiting.
            Hint::None | Hint::Own(_) | Hint::Given(_) => hint,
        };
        self.signed(
            desk,
            match self {
                Dialect::Openai => openai::status(desk, status, hint),
                Dialect::Anthropic => anthropic::status(desk, status, hint),
            },
        )
    }

    /// The event that ends a stream which fails under way.
    pub fn stream_error(self) -> String {
        match self {
            Dialect::Openai => openai::stream_error(),
            Dialect::Anthropic => anthropic::stream_error(),
        }
    }

    /// What every answer carries.
    fn signed(self, desk: &Desk<'_>, answer: Answer) -> Answer {
        let answer = answer.header("date", super::format::http_date(desk.wall_ms));
        match self {
            Dialect::Openai => openai::signed(desk, answer),
            Dialect::Anthropic => anthropic::signed(desk, answer),
        }
    }
}

/// A `retry-after` header in place of every other hint, and the wait it states.
pub fn given_hint(mut answer: Answer, retry_after: &crate::scenario::RetryAfter, wall_ms: i64) -> Answer {
    answer.wait_ms = Hint::wait_ms(retry_after, wall_ms);
    answer.header("retry-after", Hint::header(retry_after, wall_ms))
}
