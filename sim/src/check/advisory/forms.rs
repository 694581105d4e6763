//! ADVISORY-2: who gets the full text and who the short one.
//!
//! Judged on what the engine gave (by declared key) and on what each client saw (by declared key, else by connection).
//! A client that lost an answer on the way is not judged by what it saw: the engine can't know.

use crate::check::setting::Setting;
use crate::check::{Check, Violation};
use crate::history::{Entry, Outside, What};
use squall::event::{AdvisoryForm, AdvisoryScope, Event, HealthState, Severity};
use std::collections::BTreeMap;

/// Two recalls of one client may both be decided before the first is delivered.
const OVERLAP_MS: u64 = 1_000;

/// An answer of the outage before may arrive this long after the next began.
const TRAVEL_MS: u64 = 1_000;

/// Clients that are remembered per outage.
const CLIENTS_MAX: usize = 10_000;

#[derive(Default)]
pub struct Forms {
    setting: Setting,
    fault: Outage,
    /// A hint is full once per process or key, whatever comes between.
    hinted: BTreeMap<Option<String>, u64>,
    judged: u64,
}

/// What clients got since the fault began.
#[derive(Default)]
struct Outage {
    on: bool,
    since_ms: u64,
    /// Full texts that the engine gave, by declared key.
    given: BTreeMap<Option<String>, u64>,
    /// Clients that saw a full text.
    seen: BTreeMap<String, Client>,
}

#[derive(Clone, Copy, Default)]
struct Client {
    full: bool,
    lost: bool,
}

impl Check for Forms {
    fn id(&self) -> &'static str {
        "ADVISORY-2"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if self.setting.observe(entry).is_some() {
            self.fault = Outage { since_ms: entry.t_ms, ..Outage::default() };
            self.hinted.clear();
            return;
        }
        if let What::Engine(Event::AdvisoryState { state, .. }) = &entry.what {
            let on = *state == HealthState::Fault;
            if on && !self.fault.on {
                self.fault = Outage { on, since_ms: entry.t_ms, ..Outage::default() };
            }
            self.fault.on = on;
        } else if let What::Engine(Event::AdvisoryGiven { severity, form, scope, client, .. }) = &entry.what {
            let wrong = self.given(entry.t_ms, *severity, *form, *scope, client);
            out.extend(wrong.map(|wrong| Violation::new(entry.t_ms, [entry.n], wrong)));
        } else if let What::Outside(Outside::RecallAnswered { client, key, status, advisory, .. }) = &entry.what {
            let who = key.as_ref().unwrap_or(client);
            if *status == 0 {
                self.fault.client(who, |client| client.lost = true);
                return;
            }
            let Some(seen) = advisory.as_ref().filter(|seen| seen.severity == Severity::Fault) else { return };
            self.judged += 1;
            let shared = key.is_none() && seen.scope == AdvisoryScope::Process;
            if seen.form == AdvisoryForm::Full {
                self.fault.client(who, |client| client.full = true);
                return;
            }
            let known = self.fault.seen.get(who).copied().unwrap_or_default();
            let late = entry.t_ms <= self.fault.since_ms + TRAVEL_MS || self.fault.seen.len() >= CLIENTS_MAX;
            let wrong = if shared {
                "without a key, from a process that others share: expected the full text every time"
            } else if !known.full && !known.lost && !late {
                "of a text that it never got"
            } else {
                return;
            };
            out.push(Violation::new(entry.t_ms, [entry.n], format!("{who} got a short reminder {wrong}")));
        }
    }

    fn finish(&mut self, _: &mut Vec<Violation>) {}

    fn judged(&self) -> u64 {
        self.judged
    }
}

impl Outage {
    fn client(&mut self, who: &str, change: impl FnOnce(&mut Client)) {
        if let Some(client) = self.seen.get_mut(who) {
            change(client);
        } else if self.seen.len() < CLIENTS_MAX {
            change(self.seen.entry(who.to_owned()).or_default());
        }
    }
}

impl Forms {
    fn given(
        &mut self,
        now: u64,
        severity: Severity,
        form: AdvisoryForm,
        scope: AdvisoryScope,
        client: &Option<String>,
    ) -> Option<String> {
        let keys_max = self.setting.rules()?.advisory.keys_max as usize;
        self.judged += 1;
        let shared = client.is_none() && scope == AdvisoryScope::Process;
        let full = match severity {
            Severity::Fault if shared => {
                let short = form == AdvisoryForm::Short;
                let says = "a shared process gave a short reminder without a key, expected the full text every time";
                return short.then(|| says.to_owned());
            }
            Severity::Fault => &mut self.fault.given,
            Severity::Hint => &mut self.hinted,
        };
        let who = client.as_deref().unwrap_or("the process");
        let before = full.get(client).copied();
        match form {
            AdvisoryForm::Full => {
                // Keys beyond the maximum push others out, which then get everything again.
                let forgotten = full.len() > keys_max;
                if full.len() <= CLIENTS_MAX {
                    full.insert(client.clone(), now);
                }
                let again = before.filter(|before| !forgotten && now > before + OVERLAP_MS);
                again
                    .map(|before| format!("{who} was given the full {severity:?} text again, it had it at {before} ms"))
            }
            AdvisoryForm::Short => {
                let unknown = before.is_none() && full.len() <= CLIENTS_MAX;
                unknown.then(|| format!("{who} was given a short {severity:?} reminder of a text it never got"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::*;
    use crate::history::outside::SeenAdvisory;
    use AdvisoryForm::{Full, Short};
    use AdvisoryScope::{Process, Session};

    fn check() -> Forms {
        Forms::default()
    }

    fn fault() -> Story {
        Story::new().at(0, Event::AdvisoryState { state: HealthState::Fault, evidence: None })
    }

    fn given(severity: Severity, form: AdvisoryForm, scope: AdvisoryScope, client: Option<&str>) -> Event {
        Event::AdvisoryGiven { recall: 1, severity, form, scope, client: client.map(str::to_owned) }
    }

    fn seen(client: &str, key: Option<&str>, form: AdvisoryForm, scope: AdvisoryScope) -> Outside {
        let severity = Severity::Fault;
        Outside::RecallAnswered {
            load: 1,
            client: client.into(),
            key: key.map(str::to_owned),
            status: 200,
            hits: 0,
            advisory: Some(SeenAdvisory { severity, form, scope, chars: 1 }),
        }
    }

    #[test]
    fn a_declared_key_gets_the_full_text_once_and_then_reminders() {
        let first = fault().at(9_000, given(Severity::Fault, Full, Session, Some("a")));
        first.clone().at(20_000, given(Severity::Fault, Short, Session, Some("a"))).accepted(check());
        first
            .clone()
            .at(20_000, given(Severity::Fault, Full, Session, Some("a")))
            .rejected(check(), "full Fault text again");
        first.at(20_000, given(Severity::Fault, Short, Session, Some("b"))).rejected(check(), "b was given a short");
    }

    #[test]
    fn a_new_outage_begins_with_the_full_text() {
        let story = fault()
            .at(9_000, given(Severity::Fault, Full, Session, Some("a")))
            .at(20_000, Event::AdvisoryState { state: HealthState::Healthy, evidence: None })
            .at(30_000, Event::AdvisoryState { state: HealthState::Fault, evidence: None });
        story.clone().at(30_000, given(Severity::Fault, Full, Session, Some("a"))).accepted(check());
        story.at(30_000, given(Severity::Fault, Short, Session, Some("a"))).rejected(check(), "never got");
    }

    #[test]
    fn a_shared_process_without_a_key_gives_the_full_text_every_time() {
        let first = fault().at(9_000, given(Severity::Fault, Full, Process, None));
        first.clone().at(20_000, given(Severity::Fault, Full, Process, None)).accepted(check());
        first.at(20_000, given(Severity::Fault, Short, Process, None)).rejected(check(), "full text every time");
        fault().at(9_000, seen("c", None, Short, Process)).rejected(check(), "full text every time");
    }

    #[test]
    fn a_client_that_saw_no_full_text_gets_no_reminder_unless_an_answer_was_lost() {
        fault()
            .at(9_000, seen("c", Some("k"), Full, Session))
            .at(9_900, seen("d", Some("k"), Short, Session))
            .accepted(check());
        fault().at(9_000, seen("c", Some("k"), Short, Session)).rejected(check(), "k got a short reminder of a text");
        let lost = Outside::RecallAnswered {
            load: 1,
            client: "c".into(),
            key: Some("k".into()),
            status: 0,
            hits: 0,
            advisory: None,
        };
        fault().at(8_000, lost).at(9_000, seen("c", Some("k"), Short, Session)).accepted(check());
    }

    #[test]
    fn a_hint_is_full_once_and_then_short_in_every_process() {
        let first = Story::new().at(1, given(Severity::Hint, Full, Process, None));
        first.clone().at(9_000, given(Severity::Hint, Short, Process, None)).accepted(check());
        first.at(9_000, given(Severity::Hint, Full, Process, None)).rejected(check(), "full Hint text again");
        Story::new().at(1, given(Severity::Hint, Short, Process, None)).rejected(check(), "never got");
    }
}
