//! What differs between the APIs that simulated servers speak, dispatched to one file per dialect.
//!
//! A dialect turns a request into an [`Ask`] and words into an [`Answer`]; it decides nothing.
//! **Source:** protocols.md C.1, C.2, C.4, C.5.

use super::answer::Answer;
use super::ask::{Ask, Malformed};
use super::handle::CallKind;
use super::meter::{Short, Standing};
use super::refusal::{Hint, Refusal};
use super::{anthropic, mistral, ollama, openai};
use crate::scenario::{Garbage, ServerApi};
use squall::base::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Openai,
    Anthropic,
    Mistral,
    Ollama,
}

/// What a server knows when it writes an answer.
#[derive(Clone, Debug)]
pub struct Desk<'a> {
    pub provider: &'a str,
    /// As asked for; a server without declared models may be asked for none.
    pub model: &'a str,
    pub kind: CallKind,
    /// Tokens that it takes.
    pub cost: u64,
    /// This request is the server's n-th.
    pub number: u64,
    /// The simulated wall clock, Unix milliseconds.
    pub wall_ms: i64,
    pub processing: Span,
    /// The part of it for which the model was not there yet.
    pub loading: Span,
    pub requests: Option<Standing>,
    pub tokens: Option<Standing>,
}

impl<'a> Desk<'a> {
    /// Of a chat that a server without limits answers at once, at the beginning of time.
    pub fn idle(provider: &'a str, model: &'a str) -> Desk<'a> {
        Desk {
            provider,
            model,
            kind: CallKind::Chat { stream: false },
            cost: 0,
            number: 1,
            wall_ms: 0,
            processing: Span::ZERO,
            loading: Span::ZERO,
            requests: None,
            tokens: None,
        }
    }
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
            ServerApi::Mistral => Some(Dialect::Mistral),
            ServerApi::Ollama => Some(Dialect::Ollama),
            ServerApi::Qdrant | ServerApi::Webhook | ServerApi::ClaudeCode => None,
        }
    }

    /// Reads a request. `models`: as declared; where there are any, a request must name one.
    ///
    /// **Errors:** [`Malformed`], for [`Dialect::malformed`] to word.
    pub fn parse(self, head: &Head<'_>, body: &[u8], models: &[String]) -> Result<Ask, Malformed> {
        match self {
            Dialect::Openai => openai::parse(head, body, models),
            Dialect::Anthropic => anthropic::parse(head, body, models),
            Dialect::Mistral => mistral::parse(head, body, models),
            Dialect::Ollama => ollama::parse(head, body, models),
        }
    }

    /// Whether the request carries a key where this API looks for it.
    pub fn has_key(self, head: &Head<'_>) -> bool {
        match self {
            Dialect::Openai | Dialect::Mistral | Dialect::Ollama => openai::has_key(head),
            Dialect::Anthropic => anthropic::has_key(head),
        }
    }

    pub fn malformed(self, desk: &Desk<'_>, malformed: &Malformed) -> Answer {
        self.signed(
            desk,
            match self {
                Dialect::Openai => openai::malformed(malformed),
                Dialect::Anthropic => anthropic::malformed(desk, malformed),
                Dialect::Mistral => mistral::malformed(malformed),
                Dialect::Ollama => ollama::malformed(malformed),
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
                Dialect::Mistral => mistral::success(desk, ask, models, dims, garbage),
                Dialect::Ollama => ollama::success(desk, ask, models, dims, garbage),
            },
        )
    }

    pub fn refusal(self, desk: &Desk<'_>, refusal: Refusal, hint: &Hint) -> Answer {
        self.signed(
            desk,
            match self {
                Dialect::Openai => openai::refusal(desk, refusal, hint),
                Dialect::Anthropic => anthropic::refusal(desk, refusal, hint),
                Dialect::Mistral => mistral::refusal(desk, refusal, hint),
                Dialect::Ollama => ollama::refusal(desk, refusal, hint),
            },
        )
    }

    /// Whether the API has words for it; to ask for any other is a bug.
    pub fn knows(self, refusal: Refusal) -> bool {
        match refusal {
            Refusal::RunnerDead => self == Dialect::Ollama,
            Refusal::SlowDown | Refusal::SpendLimit | Refusal::Billing | Refusal::TooLarge => self != Dialect::Ollama,
            Refusal::Overloaded
            | Refusal::RateLimited
            | Refusal::InsufficientQuota
            | Refusal::Auth
            | Refusal::Permission
            | Refusal::ModelNotFound
            | Refusal::ContextLength
            | Refusal::InvalidRequest
            | Refusal::ServerError
            | Refusal::Timeout => true,
        }
    }

    /// The failure of a server that this request's content breaks.
    pub fn poison(self, desk: &Desk<'_>) -> Answer {
        match self {
            Dialect::Openai | Dialect::Anthropic | Dialect::Mistral => {
                self.refusal(desk, Refusal::ServerError, &Hint::None)
            }
            Dialect::Ollama => self.signed(desk, ollama::poison(desk)),
        }
    }

    /// The server's own allowance is spent.
    pub fn short(self, desk: &Desk<'_>, short: Short) -> Answer {
        self.signed(
            desk,
            match self {
                Dialect::Openai => openai::short(desk, short),
                Dialect::Anthropic => anthropic::short(desk, short),
                Dialect::Mistral => mistral::short(desk, short),
                Dialect::Ollama => ollama::short(desk, short),
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
                Dialect::Mistral => mistral::status(desk, status, hint),
                Dialect::Ollama => ollama::status(desk, status, hint),
            },
        )
    }

    /// The event that ends a stream which fails under way.
    pub fn stream_error(self) -> String {
        match self {
            Dialect::Openai => openai::stream_error(),
            Dialect::Anthropic => anthropic::stream_error(),
            Dialect::Mistral => mistral::stream_error(),
            Dialect::Ollama => ollama::stream_error(),
        }
    }

    /// What every answer carries.
    fn signed(self, desk: &Desk<'_>, answer: Answer) -> Answer {
        let answer = answer.header("date", super::format::http_date(desk.wall_ms));
        match self {
            Dialect::Openai => openai::signed(desk, answer),
            Dialect::Anthropic => anthropic::signed(desk, answer),
            Dialect::Mistral => mistral::signed(desk, answer),
            Dialect::Ollama => answer,
        }
    }
}

/// A `retry-after` header in place of every other hint, and the wait it states.
pub fn given_hint(mut answer: Answer, retry_after: &crate::scenario::RetryAfter, wall_ms: i64) -> Answer {
    answer.wait_ms = Hint::wait_ms(retry_after, wall_ms);
    answer.header("retry-after", Hint::header(retry_after, wall_ms))
}
