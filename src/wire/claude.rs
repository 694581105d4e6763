//! What the Claude Code command line says about its limits: lines of output in, statements out.
//!
//! The command prints text for people or, with `--output-format stream-json`, one JSON object a line; both are read, and
//! neither is ever changed. What a text means is data ([`table`]), when a limit ends is read once, against the time of the
//! line that says so ([`when`]), and comes out as a length.
//!
//! - Only `status: "rejected"` of a `rate_limit_event` is a limit; `allowed` and `allowed_warning` are information, and so
//!   is a rejection that paid extra usage carries.
//! - What the model writes is never searched: in JSON only the command's own words count (errors, `<synthetic>` messages);
//!   in text a line must be one of the known messages from its beginning, or the catch-all's.
//! - A *silent cap* is a run that ends well and empty after a rejection: [`Reader::outcome`] calls it limited.
//! - A text without a window that follows a rejection speaks of the rejected window.
//!
//! **Source:** engine.md 6, protocols.md C.3 and trap 60.

mod table;
mod when;

pub use table::{TABLE_VERSION, newest_version};

use crate::base::{SessionOutcome, Span, WallTime};
use jiff::tz::TimeZone;
use serde_json::Value;
use table::{Meaning, UNKNOWN};

/// Longer lines are no message of the command's own.
const TEXT_CHARS_MAX: usize = 400;
/// Longer lines are not even looked at as JSON.
const LINE_BYTES_MAX: usize = 4 << 20;

/// How much a statement matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is wrong.
    Information,
    /// A limit is near, or something else carries on beyond it.
    Warning,
    /// A limit is in force.
    Limit,
}

/// One statement about one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// `"five_hour"`, `"weekly"`, `"weekly_model"`, `"daily"`, `"overage"`, `"credit"`, or `"unknown"`.
    pub window: String,
    /// From the line's own time; `None`: it does not say.
    pub resets_in: Option<Span>,
    pub severity: Severity,
}

/// Reads the output of one run, line by line.
pub struct Reader {
    /// Of times that name no zone.
    local: TimeZone,
    /// The window of the newest rejection.
    rejected: Option<String>,
    /// A limit was stated, and nothing was answered since.
    limited: bool,
    signed_out: bool,
    /// The model has said something.
    answered: bool,
    /// The newest result was a good one with something in it.
    good: bool,
    session: Option<String>,
}

impl Reader {
    /// `local`: the zone of times that name none.
    pub fn new(local: TimeZone) -> Reader {
        Reader { local, rejected: None, limited: false, signed_out: false, answered: false, good: false, session: None }
    }

    /// What a line says, in its order. `now`: when the line came.
    pub fn line(&mut self, line: &str, now: WallTime) -> Vec<Statement> {
        let line = line.trim();
        if line.is_empty() || line.len() > LINE_BYTES_MAX {
            return Vec::new();
        }
        if line.starts_with('{')
            && let Ok(object @ Value::Object(_)) = serde_json::from_str::<Value>(line)
        {
            return self.object(&object, now);
        }
        self.text(line, now).into_iter().collect()
    }

    /// How the run went, once it has ended with `exit`.
    pub fn outcome(&self, exit: i32) -> SessionOutcome {
        let well = exit == 0;
        if self.limited && !(well && self.good) {
            SessionOutcome::Limited
        } else if !well && self.signed_out && !self.answered {
            SessionOutcome::NotStarted
        } else if well {
            SessionOutcome::Done
        } else {
            SessionOutcome::Failed
        }
    }

    /// The command's own name for what it did, by which it can be resumed.
    pub fn progress(&self) -> Option<&str> {
        self.session.as_deref()
    }

    fn object(&mut self, object: &Value, now: WallTime) -> Vec<Statement> {
        let field = |name: &str| object.get(name).and_then(Value::as_str);
        if let Some(session) = field("session_id").filter(|session| !session.is_empty() && session.len() <= 128) {
            self.session = Some(session.to_owned());
        }
        match field("type") {
            Some("rate_limit_event") => self.event(object.get("rate_limit_info").unwrap_or(&Value::Null), now),
            Some("result") => self.result(object, now),
            Some("assistant") => self.assistant(object, now),
            Some("auth_status") => {
                self.signed_out |= object.get("error").is_some_and(|error| !error.is_null());
                Vec::new()
            }
            // What the user and the tools say, and what the command says about its set-up.
            Some("user" | "system" | "stream_event" | "control_request" | "control_response") => Vec::new(),
            Some(_) | None => self.error(object, now).into_iter().collect(),
        }
    }

    /// A `rate_limit_event`. Later versions list every window; those that are rejected are statements of their own.
    fn event(&mut self, info: &Value, now: WallTime) -> Vec<Statement> {
        let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
        let paid = info.get("isUsingOverage").and_then(Value::as_bool).unwrap_or(false);
        let severity = |status: Option<String>| match status.as_deref() {
            Some("rejected") if paid => Severity::Warning,
            Some("rejected") => Severity::Limit,
            Some("allowed_warning") => Severity::Warning,
            Some(_) | None => Severity::Information,
        };
        let resets_in = |of: &Value| of.get("resetsAt").and_then(|at| when::epoch(at, now));
        let own = text(info, "rateLimitType");
        let window = own.as_deref().map_or(UNKNOWN, table::window_of_type);
        let mut said = vec![Statement {
            window: window.to_owned(),
            resets_in: resets_in(info),
            severity: severity(text(info, "status")),
        }];
        for (name, of) in info.get("unifiedWindows").and_then(Value::as_object).into_iter().flatten() {
            let statement = Statement {
                window: table::window_of_type(name).to_owned(),
                resets_in: resets_in(of),
                severity: severity(text(of, "status")),
            };
            match said.iter_mut().find(|other| other.window == statement.window) {
                Some(other) => {
                    other.severity = other.severity.max(statement.severity);
                    other.resets_in = other.resets_in.or(statement.resets_in);
                }
                None if statement.severity == Severity::Limit => said.push(statement),
                None => {}
            }
        }
        // An event without a window of its own is explained by the windows it lists.
        if said.len() > 1 && said[0].window == UNKNOWN {
            said.remove(0);
        }
        if let Some(limit) = said.iter().find(|statement| statement.severity == Severity::Limit) {
            self.rejected = Some(limit.window.clone());
            self.limited = true;
        }
        said
    }

    fn result(&mut self, object: &Value, now: WallTime) -> Vec<Statement> {
        let text = object.get("result").and_then(Value::as_str).unwrap_or_default();
        let failed = object.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        let said = self.own_words(text, now, failed);
        self.good = false;
        if failed || !said.is_empty() {
            return said;
        }
        if text.trim().is_empty() {
            self.limited |= self.rejected.is_some();
        } else {
            self.answer();
            self.good = true;
            self.rejected = None;
        }
        said
    }

    fn assistant(&mut self, object: &Value, now: WallTime) -> Vec<Statement> {
        let message = object.get("message").unwrap_or(&Value::Null);
        let content = message.get("content").and_then(Value::as_array);
        let error = object.get("error").and_then(Value::as_str);
        let synthetic = message.get("model").and_then(Value::as_str) == Some("<synthetic>")
            || object.get("isApiErrorMessage").and_then(Value::as_bool) == Some(true);
        if !synthetic && error.is_none() {
            if content.is_some_and(|parts| !parts.is_empty()) {
                self.answer();
            }
            return Vec::new();
        }
        let texts = content.into_iter().flatten().filter_map(|part| part.get("text").and_then(Value::as_str));
        let mut said: Vec<Statement> = texts.flat_map(|text| self.own_words(text, now, true)).collect();
        match error {
            Some("rate_limit") if said.is_empty() => said.extend(self.state(UNKNOWN, None, Severity::Limit)),
            Some("authentication_failed") => self.signed_out = true,
            Some(_) | None => {}
        }
        said
    }

    /// Text that the command wrote itself if `certain`; else it may be the model's, and is a message only as a whole.
    fn own_words(&mut self, text: &str, now: WallTime, certain: bool) -> Vec<Statement> {
        if !certain && text.trim().lines().count() > 1 {
            return Vec::new();
        }
        text.lines().filter_map(|line| self.text(line, now)).collect()
    }

    fn text(&mut self, line: &str, now: WallTime) -> Option<Statement> {
        // "API Error: 429 {…}": the object says more than the number.
        if let Some(at) = line.find('{')
            && let Ok(object @ Value::Object(_)) = serde_json::from_str::<Value>(&line[at..])
            && let Some(statement) = self.error(&object, now)
        {
            return Some(statement);
        }
        if line.chars().count() > TEXT_CHARS_MAX {
            return None;
        }
        let words = table::normal(line);
        match table::meaning(&words)? {
            Meaning::SignIn => {
                self.signed_out = true;
                None
            }
            Meaning::Limit { window, severity } => {
                let reset = when::in_text(&words, now, &self.local);
                // Only the weekly windows reset on another day than today or tomorrow.
                let dated = reset.as_ref().is_some_and(|reset| reset.dated);
                let window = if window == UNKNOWN && dated { table::WEEKLY } else { window };
                self.state(window, reset.map(|reset| reset.span), severity)
            }
            // Anything may have a limit that resets: without a time that can be read it is no message.
            Meaning::Maybe => {
                let reset = when::in_text(&words, now, &self.local)?;
                let window = if reset.dated { table::WEEKLY } else { UNKNOWN };
                self.state(window, Some(reset.span), Severity::Limit)
            }
        }
    }

    /// An error of the API, bare or inside of a text.
    fn error(&mut self, object: &Value, now: WallTime) -> Option<Statement> {
        let inner = object.get("error").unwrap_or(&Value::Null);
        let kind = [object.get("error_type"), inner.get("error_type"), inner.get("type"), inner.get("code")];
        let kind = kind.into_iter().flatten().find_map(Value::as_str)?;
        if table::is_sign_in_error(kind) {
            self.signed_out = true;
            return None;
        }
        let window = table::window_of_error(kind)?;
        let message = [inner.get("message"), object.get("message")].into_iter().flatten().find_map(Value::as_str);
        let at = [object.get("resetsAt"), inner.get("resetsAt"), object.get("resets_at"), inner.get("resets_at")];
        let at = at.into_iter().flatten().find_map(|at| when::epoch(at, now));
        let words = message.map(table::normal).unwrap_or_default();
        let named = match table::meaning(&words) {
            Some(Meaning::Limit { window, .. }) if window != UNKNOWN => window,
            Some(Meaning::Limit { .. } | Meaning::Maybe | Meaning::SignIn) | None => window,
        };
        let in_words = || when::in_text(&words, now, &self.local).map(|reset| reset.span);
        let resets_in = at.or_else(in_words);
        self.state(named, resets_in, Severity::Limit)
    }

    fn state(&mut self, window: &str, resets_in: Option<Span>, severity: Severity) -> Option<Statement> {
        let window = match &self.rejected {
            Some(rejected) if window == UNKNOWN => rejected.clone(),
            Some(_) | None => window.to_owned(),
        };
        self.limited |= severity == Severity::Limit;
        Some(Statement { window, resets_in, severity })
    }

    fn answer(&mut self) {
        self.answered = true;
        self.limited = false;
    }
}

#[cfg(test)]
mod tests;
