//! What an error says: its fields, whatever the dialect, and what it means.
//!
//! Providers of one dialect differ in details (gateways answer with pages, compatible servers leave fields out), so the
//! fields are read leniently and the meaning is taken from the most telling of them: code, then type, then wording.
//! Wordings are data ([`QUOTA_WORDS`] and its siblings); a new one is a new line there.
//! **Source:** engine.md 3 (table of outcomes), protocols.md C.1, C.2, C.4, C.5.

use super::{Reading, hint, mistral, ollama};
use crate::base::rules::Api;
use crate::base::{Outcome, Span};
use crate::event::ParkScope;
use serde_json::Value;

/// A reason is one short line.
pub const REASON_CHARS_MAX: usize = 300;
/// How much of a text that is no JSON is looked at.
const TEXT_BYTES_MAX: usize = 4_096;

/// The telling parts of an error answer; empty where the provider left them out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorBody {
    /// `error.type`.
    pub kind: String,
    /// `error.code`, or `error.details.error_code`.
    pub code: String,
    pub message: String,
    /// The status that the body itself names.
    pub raw_status: Option<u16>,
    /// A wait in a field of its own.
    pub wait: Option<Span>,
    /// An HTML page: a gateway's word, not the API's.
    pub is_page: bool,
}

/// What an error means for the entry that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub outcome: Outcome,
    pub scope: ParkScope,
}

/// Codes and types that say "no money", by whatever status.
const QUOTA_CODES: [&str; 7] = [
    "insufficient_quota",
    "credit_balance_exhausted",
    "enforced_spend_limit_reached",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "grace_daily_limit_reached",
];

/// Wordings that say the same, in lower case. The last ones are a subscription's windows.
const QUOTA_WORDS: [&str; 15] = [
    "exceeded your current quota",
    "credit balance is too low",
    "insufficient credit",
    "insufficient balance",
    "out of credits",
    "spend limit",
    "spending limit",
    "api usage limit",
    "billing hard limit",
    "usage limit reached",
    "your hourly usage limit",
    "your session usage limit",
    "your weekly usage limit",
    "your monthly usage limit",
    "would exceed your account's rate limit",
];

const MODEL_CODES: [&str; 4] = ["model_not_found", "model_decommissioned", "model_not_available", "invalid_model"];

const CONTEXT_CODES: [&str; 2] = ["context_length_exceeded", "string_above_max_length"];
/// The last one is a batch of texts that is too large.
const CONTEXT_WORDS: [&str; 6] = [
    "maximum context length",
    "context window",
    "exceed context limit",
    "exceeds the context length",
    "prompt is too long",
    "split into more batches",
];

/// The model is at its limit for everybody of a class of customers.
const CAPACITY_CODES: [&str; 1] = ["service_tier_capacity_exceeded"];
const CAPACITY_WORDS: [&str; 1] = ["service tier capacity exceeded"];

impl ErrorBody {
    /// Reads an error answer's body.
    pub fn parse(headers: &[(String, String)], body: &[u8]) -> ErrorBody {
        if let Ok(value) = serde_json::from_slice::<Value>(body) {
            let error = ErrorBody::of_json(&value).unwrap_or_else(|| ErrorBody::bare(&value));
            // Gateways put it beside the error that they hand on.
            return ErrorBody { wait: error.wait.or_else(|| hint::in_fields(&value)), ..error };
        }
        let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_BYTES_MAX)]);
        let says_html = super::header(headers, "content-type").is_some_and(|kind| kind.contains("text/html"));
        if says_html || text.trim_start().starts_with('<') {
            return ErrorBody { message: page_title(&text), is_page: true, ..ErrorBody::default() };
        }
        ErrorBody { message: text.trim().to_owned(), ..ErrorBody::default() }
    }

    /// The error in a JSON body of any known shape; `None` if the body speaks of none.
    pub fn of_json(body: &Value) -> Option<ErrorBody> {
        // {"error": {…}} at OpenAI and Anthropic, {"error": "…"} at Ollama, {"object": "error", …} at Mistral.
        let error = match body.get("error") {
            Some(Value::Null) | None if body.get("object").and_then(Value::as_str) == Some("error") => body,
            Some(Value::Null) | None => return None,
            Some(Value::String(message)) => {
                return Some(ErrorBody { message: message.clone(), ..ErrorBody::default() });
            }
            Some(error) => error,
        };
        let text = |value: Option<&Value>| match value {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => String::new(),
        };
        let details_code = text(error.pointer("/details/error_code"));
        let code = if details_code.is_empty() { text(error.get("code")) } else { details_code };
        let raw_status = error.get("raw_status_code").and_then(Value::as_u64);
        Some(ErrorBody {
            kind: text(error.get("type")),
            code,
            message: error.get("message").map(words).unwrap_or_default(),
            raw_status: raw_status.and_then(|status| u16::try_from(status).ok()),
            wait: hint::in_fields(error),
            is_page: false,
        })
    }

    /// What gateways and validators write, who mark it by the status alone: `{"message":…}`, `{"detail":…}`.
    fn bare(body: &Value) -> ErrorBody {
        let message = body.get("message").or_else(|| body.get("detail")).map(words).unwrap_or_default();
        ErrorBody { message, ..ErrorBody::default() }
    }

    /// One short line for people: status, kind or code, message. Keys that a provider repeats are masked.
    pub fn reason(&self, status: u16) -> String {
        let label = if self.is_page {
            "a page"
        } else if self.code.is_empty() || self.code == self.kind {
            &self.kind
        } else {
            &self.code
        };
        let mut line = status.to_string();
        if !label.is_empty() {
            line.push(' ');
            line.push_str(label);
        }
        if !self.message.is_empty() {
            line.push_str(": ");
            line.push_str(&self.message);
        }
        one_line(&line)
    }

    /// The status under which the API would have sent this error: for errors inside a 200.
    pub fn implied_status(&self) -> u16 {
        let numeric = self.code.parse::<u16>().ok().filter(|code| (400..=599).contains(code));
        let word = |text: &str| match text {
            "overloaded_error" => Some(529),
            "rate_limit_error" | "rate_limit_exceeded" | "rate_limited" | "slow_down" | "requests" | "tokens" => {
                Some(429)
            }
            code if QUOTA_CODES.contains(&code) || CAPACITY_CODES.contains(&code) => Some(429),
            code if MODEL_CODES.contains(&code) => Some(404),
            "authentication_error" | "invalid_api_key" => Some(401),
            "permission_error" => Some(403),
            "not_found_error" => Some(404),
            "conflict_error" => Some(409),
            "request_too_large" => Some(413),
            "invalid_request_error" => Some(400),
            "timeout_error" => Some(504),
            "api_error" | "server_error" => Some(500),
            _ => None,
        };
        let raw = self.raw_status.filter(|status| (400..=599).contains(status));
        let named = numeric.or(raw).or_else(|| word(&self.code)).or_else(|| word(&self.kind));
        named.unwrap_or(if self.is_unfit(404) { 404 } else { 500 })
    }

    fn has_code(&self, codes: &[&str]) -> bool {
        codes.iter().any(|code| *code == self.code || *code == self.kind)
    }

    pub(super) fn says(&self, words: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        words.iter().any(|word| message.contains(word))
    }

    fn is_capacity(&self) -> bool {
        self.has_code(&CAPACITY_CODES) || self.says(&CAPACITY_WORDS)
    }

    fn is_quota(&self) -> bool {
        self.has_code(&QUOTA_CODES) || self.says(&QUOTA_WORDS)
    }

    /// The request does not fit this entry's model; another's may take it.
    fn is_unfit(&self, status: u16) -> bool {
        if self.has_code(&MODEL_CODES) || self.has_code(&CONTEXT_CODES) || self.says(&CONTEXT_WORDS) {
            return true;
        }
        // "model: claude-2" and "The model `gpt-9` does not exist or you do not have access to it."
        status == 404
            && self.message.to_lowercase().contains("model")
            && (self.kind == "not_found_error" || self.says(&["does not exist", "not found", "not exist"]))
    }
}

/// The text in a message that may be a list of complaints.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Array(list) => list.iter().map(words).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; "),
        Value::Object(fields) => {
            ["detail", "msg", "message"].iter().find_map(|name| fields.get(*name)).map(words).unwrap_or_default()
        }
        Value::Null | Value::Bool(_) => String::new(),
    }
}

/// What an answer other than a success means.
pub fn classify(about: &Reading<'_>, status: u16, headers: &[(String, String)], error: &ErrorBody) -> Verdict {
    let outcome = outcome(about, status, headers, error);
    let scope = match outcome {
        Outcome::Quota => ParkScope::Account,
        Outcome::Throttled => throttle_scope(about, error),
        Outcome::Success
        | Outcome::ProviderFault
        | Outcome::Overloaded
        | Outcome::BadKey
        | Outcome::CallersFault
        | Outcome::Unfit
        | Outcome::Refused
        | Outcome::Cancelled => ParkScope::Model,
    };
    Verdict { outcome, scope }
}

fn outcome(about: &Reading<'_>, status: u16, headers: &[(String, String)], error: &ErrorBody) -> Outcome {
    match status {
        400 | 402 | 403 | 429 if error.is_quota() => Outcome::Quota,
        402 => Outcome::Quota,
        429 if about.api == Api::Mistral && mistral::is_month_used_up(headers) => Outcome::Quota,
        429 if error.says(&["request too large for"]) => Outcome::Unfit, // Over the limit by itself: no wait helps.
        429 => Outcome::Throttled,
        // A page is a gateway's word: it neither knows the key nor the model.
        401 | 403 | 404 if error.is_page => Outcome::ProviderFault,
        400..=499 if error.is_unfit(status) => Outcome::Unfit,
        500 if error.says(&CONTEXT_WORDS) => Outcome::Unfit, // As older servers of open models say it.
        _ => {
            let own = if about.api == Api::Ollama { ollama::outcome(about.use_, status, error) } else { None };
            own.unwrap_or_else(|| by_status(about, status, error))
        }
    }
}

fn by_status(about: &Reading<'_>, status: u16, error: &ErrorBody) -> Outcome {
    match status {
        401 | 403 if about.key_worked => Outcome::ProviderFault,
        401 | 403 => Outcome::BadKey,
        408 | 409 | 425 => Outcome::ProviderFault,
        400..=499 => Outcome::CallersFault,
        529 => Outcome::Overloaded,
        500..=599 if error.has_code(&["overloaded_error"]) || error.is_capacity() => Outcome::Overloaded,
        500..=599 if error.has_code(&["slow_down"]) => Outcome::Throttled,
        // 5xx and 3xx (an API does not redirect: trap 59), and whatever is no HTTP status.
        _ => Outcome::ProviderFault,
    }
}

/// Limits at OpenAI are counted per model, at Anthropic for all of a class of models together; a page speaks for the
/// whole front door.
fn throttle_scope(about: &Reading<'_>, error: &ErrorBody) -> ParkScope {
    let names_model = about.model.is_some_and(|model| !model.is_empty() && error.message.contains(model));
    match about.api {
        _ if error.is_page => ParkScope::Provider,
        _ if names_model || error.is_capacity() => ParkScope::Model,
        Api::Openai => ParkScope::Model,
        Api::Anthropic | Api::Mistral | Api::Ollama | Api::Qdrant => ParkScope::Provider,
    }
}

fn page_title(text: &str) -> String {
    let lower = text.to_ascii_lowercase(); // As long as `text`, byte for byte.
    let title = lower.find("<title").and_then(|at| {
        let start = at + lower[at..].find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        text.get(start..end)
    });
    title.unwrap_or("no title").trim().to_owned()
}

/// One line of at most [`REASON_CHARS_MAX`] characters, secret keys masked.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        match word.find("sk-") {
            Some(at) => {
                line.push_str(&word[..at]);
                line.push_str("sk-…");
            }
            None => line.push_str(word),
        }
    }
    if line.chars().count() > REASON_CHARS_MAX {
        line = line.chars().take(REASON_CHARS_MAX - 1).collect();
        line.push('…');
    }
    line
}
