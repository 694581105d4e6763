//! What a client makes of the engine's answers: pure reading of bodies, no waiting.
//!
//! The client believes what it is told and adds nothing; a body that it cannot read says "unreadable" or counts as
//! a failure, it is never taken for a success.

use crate::history::outside::{AdvisoryForm, AdvisoryScope, SeenAdvisory, Severity};
use serde::Deserialize;
use serde_json::Value;
use squall::base::{Axis, AxisLevels, Level};
use std::borrow::Cow;

/// What a chat came to: outcome and when to come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    pub outcome: String,
    pub retry_after_ms: Option<u64>,
}

const OUTCOMES: [&str; 5] = ["ok", "truncated", "refused", "deferred", "failed"];

/// What a client reads of a chat's answer.
#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    outcome: Option<Cow<'a, str>>,
    earliest_ms: Option<u64>,
}

/// Reads a chat's answer. `whole`: the body came to its end.
pub fn chat(status: u16, headers: &[(String, String)], body: &[u8], whole: bool) -> Chat {
    let header =
        |name: &str| headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str());
    if header("content-type").is_some_and(|value| value.starts_with("text/event-stream")) {
        return Chat { outcome: streamed(&String::from_utf8_lossy(body)), retry_after_ms: None };
    }
    let said = if whole { serde_json::from_slice::<Said>(body).ok() } else { None };
    let said_outcome = said.as_ref().and_then(|said| said.outcome.as_deref());
    let outcome = said_outcome.filter(|outcome| OUTCOMES.contains(outcome)).unwrap_or("failed");
    let earliest = said.as_ref().and_then(|said| said.earliest_ms);
    let seconds = || header("retry-after").and_then(|value| value.trim().parse::<u64>().ok());
    let retry_after_ms =
        if status >= 400 { earliest.or_else(|| seconds().map(|s| s.saturating_mul(1_000))) } else { None };
    Chat { outcome: outcome.to_owned(), retry_after_ms }
}

/// A stream tells how it went in its last event. One that ends without it was cut: truncated if anything came.
fn streamed(body: &str) -> String {
    let mut any_text = false;
    for event in body.replace("\r\n", "\n").split("\n\n") {
        let field = |name: &str| {
            event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| value.trim_start())
        };
        let data = field("data").and_then(|data| serde_json::from_str::<Value>(data).ok());
        let text_of = |name: &str| data.as_ref().and_then(|data| data.get(name)).and_then(Value::as_str);
        if field("event") == Some("done") {
            let outcome = text_of("outcome").filter(|outcome| OUTCOMES.contains(outcome));
            return outcome.unwrap_or("failed").to_owned();
        }
        any_text |= text_of("text").is_some_and(|text| !text.is_empty());
    }
    if any_text { "truncated" } else { "failed" }.to_owned()
}

/// The advisory of a recall's answer. The form is judged by the imperative that only the full text has.
pub fn advisory(answer: &Value) -> Option<SeenAdvisory> {
    let advisory = answer.get("advisory").filter(|advisory| !advisory.is_null())?;
    let text = advisory.to_string();
    let field = |name: &str| advisory.get(name).and_then(Value::as_str);
    Some(SeenAdvisory {
        severity: if field("severity") == Some("hint") { Severity::Hint } else { Severity::Fault },
        form: if text.contains("Notify the user:") { AdvisoryForm::Full } else { AdvisoryForm::Short },
        scope: if field("advisory_scope") == Some("session") { AdvisoryScope::Session } else { AdvisoryScope::Process },
        chars: u32::try_from(text.chars().count()).unwrap_or(u32::MAX),
    })
}

/// The levels that a status object names; `None` if it lacks one or names one that the axis does not have.
pub fn levels(status: &[u8]) -> Option<AxisLevels> {
    let status: Value = serde_json::from_slice(status).ok()?;
    let state = status.get("state")?;
    let mut levels = AxisLevels::NORMAL;
    for axis in Axis::ALL {
        // A level stands there as its name, or as an object with more about the axis.
        let named = state.get(axis.name())?;
        let name = named.as_str().or_else(|| named.get("level").and_then(Value::as_str))?;
        let level = Level::from_name(name).filter(|level| axis.severity(*level).is_some())?;
        levels.set(axis, level);
    }
    Some(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event_stream() -> Vec<(String, String)> {
        vec![("content-type".into(), "text/event-stream".into())]
    }

    #[test]
    fn a_chat_is_what_its_answer_says() {
        let ok = br#"{"outcome":"ok","call":1,"entry":"openai","text":"hi","attempts":1}"#;
        assert_eq!(chat(200, &[], ok, true), Chat { outcome: "ok".into(), retry_after_ms: None });
        let refused = br#"{"outcome":"refused","earliest_ms":4500,"error":"nothing serves"}"#;
        let header = [("Retry-After".to_owned(), "5".to_owned())];
        assert_eq!(chat(503, &header, refused, true).retry_after_ms, Some(4_500));
        let unsaid = br#"{"outcome":"failed","earliest_ms":null,"error":"nothing serves"}"#;
        assert_eq!(chat(503, &header, unsaid, true).retry_after_ms, Some(5_000));
    }

    #[test]
    fn what_cannot_be_read_is_no_success() {
        assert_eq!(chat(200, &[], b"", true).outcome, "failed");
        assert_eq!(chat(200, &[], br#"{"outcome":"ok"}"#, false).outcome, "failed");
        assert_eq!(chat(200, &[], br#"{"outcome":"splendid"}"#, true).outcome, "failed");
    }

    #[test]
    fn a_stream_without_its_last_event_is_truncated_or_failed() {
        let of = |body: &str| chat(200, &event_stream(), body.as_bytes(), true).outcome;
        let done = "event: done\ndata: {\"outcome\":\"ok\",\"entry\":\"openai\",\"attempts\":1}\n\n";
        assert_eq!(of(&format!("data: {{\"text\":\"hi\"}}\n\n{done}")), "ok");
        assert_eq!(of("data: {\"text\":\"hi\"}\n\n"), "truncated");
        assert_eq!(of("data: {\"text\":\"hi\"}\n\nevent: do"), "truncated");
        assert_eq!(of(""), "failed");
    }

    #[test]
    fn an_advisory_is_full_if_it_asks_to_notify_the_user() {
        let full = serde_json::json!({"hits": [], "advisory": {
            "degraded": true, "severity": "fault", "advisory_scope": "session",
            "reason": "r", "evidence": "e", "runbook": "Notify the user: recall is degraded.",
        }});
        let seen = advisory(&full).unwrap();
        assert_eq!(
            (seen.severity, seen.form, seen.scope),
            (Severity::Fault, AdvisoryForm::Full, AdvisoryScope::Session)
        );
        let short = serde_json::json!({"advisory": {"severity": "hint", "advisory_scope": "process", "reason": "r"}});
        let seen = advisory(&short).unwrap();
        assert_eq!(
            (seen.severity, seen.form, seen.scope),
            (Severity::Hint, AdvisoryForm::Short, AdvisoryScope::Process)
        );
        assert_eq!(advisory(&serde_json::json!({"hits": []})), None);
        assert_eq!(advisory(&serde_json::json!({"hits": [], "advisory": null})), None);
    }

    #[test]
    fn a_status_must_name_every_axis_with_a_level_of_its_own() {
        let whole = br#"{"state":{"cloud":"FALLBACK","memory":"NORMAL","embedding":"QUEUED","cc":"NORMAL"}}"#;
        assert_eq!(levels(whole).unwrap().cloud, Level::Fallback);
        assert_eq!(levels(br#"{"state":{"cloud":"FALLBACK","memory":"NORMAL","cc":"NORMAL"}}"#), None);
        assert_eq!(
            levels(br#"{"state":{"cloud":"QUEUED","memory":"NORMAL","embedding":"QUEUED","cc":"NORMAL"}}"#),
            None
        );
        assert_eq!(levels(b"{\"state\":{\"clo"), None);
    }
}
