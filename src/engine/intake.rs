//! Deferred work on its way in: what can never run is refused here, the rest is stored before anybody hears of it.
//!
//! **Source:** engine.md 4 (columns, idempotency keys).

use super::Engine;
use super::api::{Deferral, EngineError, Message};
use super::perform::LlmPayload;
use crate::base::rules::ChainUse;
use crate::base::{MonoTime, Span};
use crate::event::Event;
use crate::queue::{self as rules, Asked, Consumer};
use crate::store::queue::{self, AxisSet, NewItem, Queued};

/// How long a caller's idempotency key is remembered.
const KEY_FOR: Span = Span::from_hours(24);

impl Engine {
    /// Takes work in.
    ///
    /// **Errors:** an illegal value, a payload its consumer can't run, or a disk that does not store; nothing was taken in.
    pub fn defer(&self, deferral: Deferral) -> Result<Queued, EngineError> {
        let admitted = rules::admit(&Asked {
            work_type: &deferral.work_type,
            priority: deferral.priority,
            policy: &deferral.policy,
            ttl: deferral.ttl.as_deref(),
            depends_on: deferral.depends_on.as_deref(),
        })?;
        self.check_payload(admitted.work, &deferral.payload)?;
        let now = self.now();
        let item = NewItem {
            work_type: admitted.work.name.to_owned(),
            call_site: "defer".to_owned(),
            priority: admitted.priority,
            payload: deferral.payload,
            depends_on: AxisSet::of(&admitted.depends_on),
            policy: admitted.policy,
            ttl: admitted.ttl,
            reason: deferral.reason,
            not_before: MonoTime::ZERO,
            expires_at: rules::expires_at(admitted.policy, admitted.ttl, self.0.rules.queue.discard_after, now),
            attempts_max: self.0.rules.queue.attempts_max,
        };
        self.enqueue(item, deferral.key.as_deref())
    }

    /// What can't be run is refused on entry, not found out in the middle of the night.
    fn check_payload(&self, work: &'static rules::WorkType, payload: &str) -> Result<(), EngineError> {
        let bad = |why: String| EngineError::Payload { work_type: work.name, why };
        match work.consumer {
            Consumer::Llm => {
                let payload: LlmPayload = serde_json::from_str(payload).map_err(|error| bad(error.to_string()))?;
                if payload.request().messages.is_empty() {
                    return Err(bad("it needs content or messages".to_owned()));
                }
                self.chain(ChainUse::Chat, payload.chain()).map(|_| ())
            }
            Consumer::Outreach => {
                let message: Message = serde_json::from_str(payload).map_err(|error| bad(error.to_string()))?;
                self.check_message(&message)
            }
        }
    }

    /// Stores an item and says so. A key that was seen in the last 24 h gives the item it led to.
    pub(super) fn enqueue(&self, item: NewItem, key: Option<&str>) -> Result<Queued, EngineError> {
        let wall = self.0.ports.clock.wall();
        self.0
            .commit(|tx, now, events| {
                let seen_after = MonoTime(now.ms().saturating_sub(KEY_FOR.ms()));
                if let Some(key) = key
                    && let Some(id) = queue::seen_key(tx, key, seen_after)?
                {
                    return Ok(Queued { id, merged: true });
                }
                let queued = queue::insert(tx, &item, now, wall)?;
                if let Some(key) = key {
                    queue::remember_key(tx, key, queued.id, now, seen_after)?;
                }
                events.push(Event::DeferredQueued {
                    id: queued.id,
                    work_type: item.work_type.clone(),
                    priority: item.priority,
                    policy: item.policy,
                    depends_on: item.depends_on.axes(),
                    merged: queued.merged,
                    reason: item.reason.clone(),
                    ttl_ms: item.ttl.map(Span::ms),
                    not_before_ms: (item.not_before > now).then_some(item.not_before.ms()),
                });
                Ok(queued)
            })
            .inspect(|_| self.0.wake.queue.notify_one())
            .map_err(EngineError::NotStored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::DeferError;

    #[test]
    fn a_policy_without_a_producer_is_refused() {
        let refused = rules::admit(&Asked { work_type: "surplus", policy: "refresh", ..Asked::default() });
        assert!(matches!(refused, Err(DeferError::NoProducer { .. })));
    }
}
