//! The advisory's words: a runbook for whoever reads the recall, in full once and as a reminder after.
//!
//! The texts stand in `runbook/*.txt`; slots are `{name}`, filled in one pass, so that braces in an error's text come
//! through as they are. Fault and hint are different texts: one asks for a repair, the other describes a choice.
//! **Source:** engine.md 10.

use super::health::Reason;
use super::switch;
use crate::event::{AdvisoryForm, AdvisoryScope, Severity};
use serde::{Deserialize, Serialize};

const FAULT_FULL: &str = include_str!("runbook/fault_full.txt");
const FAULT_SHORT: &str = include_str!("runbook/fault_short.txt");
const HINT_FULL: &str = include_str!("runbook/hint_full.txt");
const HINT_SHORT: &str = include_str!("runbook/hint_short.txt");

/// What fills the slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situation {
    pub reason: Reason,
    /// Scrubbed.
    pub evidence: Option<String>,
    /// `http://host:port` of the embedding provider or the vector store; empty if embeddings are off.
    pub endpoint: String,
    /// The embedding model; empty if embeddings are off.
    pub model: String,
}

/// The one sibling field of a recall's response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advisory {
    pub degraded: bool,
    pub severity: Severity,
    pub reason: String,
    pub evidence: Option<String>,
    pub runbook: String,
    pub advisory_scope: AdvisoryScope,
}

pub fn advisory(severity: Severity, form: AdvisoryForm, scope: AdvisoryScope, situation: &Situation) -> Advisory {
    let template = match (severity, form) {
        (Severity::Fault, AdvisoryForm::Full) => FAULT_FULL,
        (Severity::Fault, AdvisoryForm::Short) => FAULT_SHORT,
        (Severity::Hint, AdvisoryForm::Full) => HINT_FULL,
        (Severity::Hint, AdvisoryForm::Short) => HINT_SHORT,
    };
    Advisory {
        degraded: true,
        severity,
        reason: failing(situation.reason).to_owned(),
        evidence: situation.evidence.clone(),
        runbook: fill(template.trim_end(), |slot| value(slot, situation)),
        advisory_scope: scope,
    }
}

fn failing(reason: Reason) -> &'static str {
    match reason {
        Reason::Embedding => "the query could not be embedded",
        Reason::VectorSearch => "the vector store could not be searched",
        Reason::Off => "embeddings are off by configuration",
    }
}

fn value(slot: &str, situation: &Situation) -> Option<String> {
    let Situation { reason, evidence, endpoint, model } = situation;
    let (service, failing_plain) = match reason {
        Reason::Embedding => ("the embedding service", "the embedding service does not answer"),
        Reason::VectorSearch => ("the vector store", "the vector store does not answer"),
        Reason::Off => ("the embedding service", "search by meaning is not set up"),
    };
    let text = match slot {
        "failing" => failing(*reason).to_owned(),
        "failing_plain" => failing_plain.to_owned(),
        "service" => service.to_owned(),
        "evidence" => evidence.clone().unwrap_or_else(|| match reason {
            Reason::Embedding | Reason::VectorSearch => "refused without asking, after earlier failures".to_owned(),
            Reason::Off => "no embedding chain is configured".to_owned(),
        }),
        "endpoint" => endpoint.clone(),
        "port_check" => match endpoint.rsplit_once(':') {
            Some((_, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
                format!("ss -ltn | grep :{port}")
            }
            Some(_) | None => "ss -ltn".to_owned(),
        },
        "curl" => format!("curl -sS -m 5 {endpoint}"),
        "model_check" => match reason {
            Reason::Embedding => format!("Is the model {model} present there (Ollama: ollama list)?"),
            Reason::VectorSearch | Reason::Off => "Is its collection present, its disk not full?".to_owned(),
        },
        "variable" => switch::VARIABLES[0].to_owned(),
        _ => return None,
    };
    Some(text)
}

/// Fills `{slot}`s in one pass. What is no slot stays as it is.
fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let filled = rest[open..]
            .find('}')
            .and_then(|close| value(&rest[open + 1..open + close]).map(|text| (text, open + close + 1)));
        match filled {
            Some((text, after)) => {
                out.push_str(&text);
                rest = &rest[after..];
            }
            None => {
                out.push('{');
                rest = &rest[open + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn situation(reason: Reason) -> Situation {
        Situation {
            reason,
            evidence: Some("connect refused {\"x\": {evidence}}".to_owned()),
            endpoint: "http://127.0.0.1:11434".to_owned(),
            model: "nomic-embed-text".to_owned(),
        }
    }

    fn runbook(severity: Severity, form: AdvisoryForm, reason: Reason) -> String {
        advisory(severity, form, AdvisoryScope::Session, &situation(reason)).runbook
    }

    const ALL: [(Severity, Reason); 3] =
        [(Severity::Fault, Reason::Embedding), (Severity::Fault, Reason::VectorSearch), (Severity::Hint, Reason::Off)];

    #[test]
    fn the_full_text_is_about_1000_characters_and_tells_what_to_say() {
        for (severity, reason) in ALL {
            let text = runbook(severity, AdvisoryForm::Full, reason);
            let len = text.chars().count();
            assert!((900..=1_250).contains(&len), "{severity:?} {reason:?}: {len}\n{text}");
            for part in ["Measured: connect refused", "Impact:", "Check", "curl", "Repair:", "best effort"] {
                assert!(text.contains(part), "{part} is missing:\n{text}");
            }
            assert_eq!(text.matches("Notify the user:").count(), 1);
            assert!(text.contains("SQUALL_DEGRADED_ADVISORY"));
        }
    }

    #[test]
    fn the_short_text_is_about_100_characters_and_asks_for_nothing() {
        for (severity, reason) in ALL {
            let text = runbook(severity, AdvisoryForm::Short, reason);
            let len = text.chars().count();
            assert!((80..=150).contains(&len), "{severity:?} {reason:?}: {len}\n{text}");
            assert!(!text.contains("Notify"), "{text}");
        }
    }

    #[test]
    fn every_slot_of_every_text_is_filled() {
        for template in [FAULT_FULL, FAULT_SHORT, HINT_FULL, HINT_SHORT] {
            let text = fill(template, |slot| value(slot, &situation(Reason::Embedding)).map(|_| String::new()));
            assert!(!text.contains('{') && !text.contains('}'), "{text}");
        }
    }

    #[test]
    fn braces_in_the_evidence_come_through() {
        // AD-020
        let text = runbook(Severity::Fault, AdvisoryForm::Full, Reason::Embedding);
        assert!(text.contains("connect refused {\"x\": {evidence}}"), "{text}");
    }

    #[test]
    fn a_fault_names_its_own_reason_and_a_hint_is_no_fault() {
        let embedding = runbook(Severity::Fault, AdvisoryForm::Full, Reason::Embedding);
        let search = runbook(Severity::Fault, AdvisoryForm::Full, Reason::VectorSearch);
        let hint = runbook(Severity::Hint, AdvisoryForm::Full, Reason::Off);
        assert!(embedding.contains("embedded") && embedding.contains("ss -ltn | grep :11434"));
        assert!(search.contains("the vector store could not be searched"));
        assert!(hint.contains("a choice, not an outage"));
        assert!(embedding != search && embedding != hint);
    }

    #[test]
    fn the_field_has_the_six_names_that_clients_read() {
        let field =
            advisory(Severity::Fault, AdvisoryForm::Short, AdvisoryScope::Process, &situation(Reason::Embedding));
        let json = serde_json::to_value(field).unwrap();
        let names: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(names, ["degraded", "severity", "reason", "evidence", "runbook", "advisory_scope"]);
        assert_eq!((&json["severity"], &json["advisory_scope"]), (&"fault".into(), &"process".into()));
    }
}
