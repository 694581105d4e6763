//! Memory: storing text, finding it again, and admitting when that works worse than it should.
//!
//! Keyword search over everything stored. The query's embedding is asked for at each recall: on its success or failure
//! the health of the dense path is measured, and the advisory built.
//! **Source:** engine.md 10. ADVISORY-1, ADVISORY-2.

use super::Engine;
use super::api::{EngineError, RecallHit, RecallReply};
use super::attempt::{Ended, Order};
use crate::advisory::{Advisory, Audience, DeclaredKey, Pending, RecallReport, Situation, health, scrub, text};
use crate::base::rules::{ChainRule, ChainUse};
use crate::base::{Outcome, Span};
use crate::event::{DenseResult, Event, HealthState, Severity};
use crate::store::memory;
use crate::wire::{EmbedRequest, Request};

const HITS_MAX: u32 = 10;

/// A park at most this long counts as one failed recall, a longer one as a refusal.
const SHORT_PARK: Span = Span::from_secs(60);

impl Engine {
    /// Stores a text. **Errors:** an empty text, or a disk that does not store.
    pub fn remember(&self, content: &str) -> Result<u64, EngineError> {
        if content.trim().is_empty() {
            return Err(EngineError::Empty { field: "content" });
        }
        let wall = self.0.ports.clock.wall();
        self.0.commit(|tx, now, _| memory::insert(tx, content, now, wall)).map_err(EngineError::NotStored)
    }

    /// Finds what was stored. `client`: a key that the caller declares for itself.
    ///
    /// **Errors:** an empty query, or a database that can't be read.
    pub async fn recall(&self, query: &str, client: Option<&str>) -> Result<RecallReply, EngineError> {
        if query.trim().is_empty() {
            return Err(EngineError::Empty { field: "query" });
        }
        let recall = self.next_recall();
        let started = self.now();
        let (dense, evidence) = self.dense(query).await;
        let reason = if dense == DenseResult::Off { health::Reason::Off } else { health::Reason::Embedding };
        let chars_max = self.0.rules.advisory.evidence_chars_max;
        let evidence = evidence.map(|evidence| scrub::scrub(&evidence, chars_max));
        let report = RecallReport { started, dense, reason, evidence };
        let audience = Audience { shared: true, key: client.and_then(DeclaredKey::new) };
        let pending = self.0.decide(|core, now| {
            core.events.push(Event::RecallFinished { recall, dense, started_ms: started.ms() });
            if let Some(change) = core.health.report(report, now, &core.rules.advisory) {
                core.health_changed(change);
            }
            core.measure(now);
            let severity = match core.health.state() {
                HealthState::Unknown | HealthState::Healthy => return None,
                HealthState::Hint => Severity::Hint,
                HealthState::Fault => Severity::Fault,
            };
            core.rules.advisory.enabled.then(|| core.told.pending(severity, &audience))
        });
        let hits = memory::search(self.0.store.borrow().reader(), query, HITS_MAX)
            .map_err(EngineError::NotStored)?
            .into_iter()
            .map(|hit| RecallHit { memory: hit.memory, content: hit.content, score: hit.score })
            .collect();
        let advisory = pending.map(|pending| self.give(recall, &pending, audience.key));
        Ok(RecallReply { hits, advisory })
    }

    /// Builds the advisory and records that it was given.
    fn give(&self, recall: u64, pending: &Pending, key: Option<DeclaredKey>) -> Advisory {
        let entry =
            self.chain(ChainUse::Embedding, None).ok().and_then(|chain| self.0.rules.entries(chain).into_iter().next());
        let provider = entry.as_ref().and_then(|entry| self.0.rules.provider(entry.provider()));
        let endpoint = provider.map(|provider| provider.base_url.clone()).unwrap_or_default();
        let model = entry.as_ref().and_then(|entry| entry.model()).unwrap_or_default().to_owned();
        self.0.decide(|core, _| {
            let reason = core.health.reason().unwrap_or(health::Reason::Embedding);
            let evidence = core.health.evidence().map(str::to_owned);
            let situation = Situation { reason, evidence, endpoint, model };
            let text = text::advisory(pending.severity, pending.form, pending.scope, &situation);
            let rules = core.rules.clone();
            core.told.delivered(pending, &rules.advisory);
            core.dirty.advisory = true;
            core.events.push(Event::AdvisoryGiven {
                recall,
                severity: pending.severity,
                form: pending.form,
                scope: pending.scope,
                client: key.map(|key| key.as_str().to_owned()),
            });
            text
        })
    }

    /// Asks for the query's embedding: one attempt at the first entry that admits.
    async fn dense(&self, query: &str) -> (DenseResult, Option<String>) {
        let Ok(chain) = self.chain(ChainUse::Embedding, None) else { return (DenseResult::Off, None) };
        let now = self.now();
        let (admitting, park_left) = {
            let core = self.0.core.borrow();
            let entries = self.0.rules.entries(chain);
            let gates = || entries.iter().filter_map(|name| core.entries.get(name).map(|entry| (name, entry)));
            let admitting =
                gates().find(|(_, entry)| entry.gate.admits(now, &entry.rules)).map(|(name, _)| name.clone());
            // Refused only by parks: the shortest one is what the caller waits for.
            let parked_only = gates().all(|(_, entry)| !entry.gate.not_closed());
            let left = gates().filter_map(|(_, entry)| entry.gate.park_left(now)).min();
            (admitting, left.filter(|_| parked_only))
        };
        let Some(entry) = admitting else {
            let short = park_left.is_some_and(|left| left <= SHORT_PARK);
            let dense = if short { DenseResult::RefusedShortly } else { DenseResult::RefusedLocally };
            return (dense, self.last_embedding_error(chain));
        };
        let request = Request::Embed(EmbedRequest { inputs: vec![query.to_owned()] });
        let deadline = now + self.0.rules.recall.timeout;
        let call = self.next_call();
        let order = Order { call: Some(call), entry: &entry, request: &request, retry: false, deadline };
        let ended = tokio::select! {
            biased;
            ended = self.attempt(&order) => ended,
            // The attempt is dropped and settles as cancelled: a slow answer is not the provider's refusal.
            () = self.0.ports.clock.sleep_until(deadline) => Ended {
                outcome: Outcome::ProviderFault,
                hint: None,
                reason: format!("no embedding within {}", self.0.rules.recall.timeout),
                status: 0,
                content: None,
            },
        };
        match ended.outcome {
            Outcome::Success => (DenseResult::Ok, None),
            Outcome::Refused => (DenseResult::RefusedLocally, self.last_embedding_error(chain)),
            Outcome::ProviderFault
            | Outcome::Overloaded
            | Outcome::Throttled
            | Outcome::Quota
            | Outcome::BadKey
            | Outcome::CallersFault
            | Outcome::Unfit
            | Outcome::Cancelled => {
                let evidence = format!("{entry}: {}", ended.reason);
                self.0.core.borrow_mut().embedding_error = Some(evidence.clone());
                (DenseResult::Failed, Some(evidence))
            }
        }
    }

    /// The real error that led to a refusal, as far as it was seen.
    fn last_embedding_error(&self, chain: &ChainRule) -> Option<String> {
        let core = self.0.core.borrow();
        core.embedding_error.clone().or_else(|| Some(format!("no entry of chain {:?} admits a call", chain.name)))
    }
}
