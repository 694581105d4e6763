//! What running a deferred item means: one consumer per kind of work, and how its run ended.
//!
//! **Source:** engine.md 4 (consumers, attempts).

use super::Engine;
use super::api::{EngineError, Message as OutreachMessage};
use super::call::Walked;
use super::outreach::{self, Delivery};
use crate::base::rules::ChainUse;
use crate::base::{CallClass, CallOutcome, MonoTime};
use crate::queue::{self as rules, Consumer, DeferError};
use crate::store::queue::Claimed;
use crate::wire::Request;
use crate::wire::request::{ChatRequest, Message, Role};
use serde::{Deserialize, Serialize};

/// What a work type for a chat chain carries.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LlmPayload {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chain: Option<String>,
    /// One user message; or `messages`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

impl LlmPayload {
    pub fn of(chain: String, request: &ChatRequest) -> LlmPayload {
        LlmPayload {
            chain: Some(chain),
            content: None,
            messages: request.messages.clone(),
            system: request.system.clone(),
            max_tokens: Some(request.max_tokens),
            temperature: request.temperature,
        }
    }

    pub fn chain(&self) -> Option<&str> {
        self.chain.as_deref()
    }

    pub fn request(&self) -> ChatRequest {
        let mut messages = self.messages.clone();
        messages.extend(self.content.iter().map(|content| Message { role: Role::User, content: content.clone() }));
        ChatRequest {
            system: self.system.clone(),
            messages,
            max_tokens: self.max_tokens.unwrap_or(1024),
            stream: false,
            temperature: self.temperature,
        }
    }
}

/// How one run of an item ended.
pub(super) enum Ran {
    Done,
    /// The effect may have happened; it is not tried again.
    InDoubt,
    /// Not its own fault: it waits, and the run does not count.
    Refused {
        earliest: Option<MonoTime>,
        why: String,
    },
    /// Those who were asked failed: the run does not count, but it is not repeated at once, for the item may be to blame.
    Unserved {
        earliest: Option<MonoTime>,
        why: String,
    },
    /// Its own fault: the run counts.
    Failed {
        why: String,
    },
    /// It can never work.
    Hopeless {
        why: String,
    },
}

impl Engine {
    /// Whether the request of the item's last run was found to be poison after that run had ended: as many attempts.
    pub(super) fn late_verdict(&self, id: u64) -> u32 {
        let mut core = self.0.core.borrow_mut();
        let call = core.unanswered.remove(&id);
        u32::from(call.is_some_and(|call| core.poisoned.contains(&call)))
    }

    pub(super) async fn perform(&self, claimed: &Claimed) -> Ran {
        let Some(work) = rules::work_type(&claimed.work_type) else {
            let known = String::new();
            let given = claimed.work_type.clone();
            return Ran::Hopeless { why: DeferError::UnknownWorkType { given, known }.to_string() };
        };
        match work.consumer {
            Consumer::Llm => {
                let payload: LlmPayload = match serde_json::from_str(&claimed.payload) {
                    Ok(payload) => payload,
                    Err(error) => return Ran::Hopeless { why: error.to_string() },
                };
                let chain = match self.chain(ChainUse::Chat, payload.chain()) {
                    Ok(chain) => chain.clone(),
                    Err(error) => return Ran::Hopeless { why: error.to_string() },
                };
                let request = Request::Chat(payload.request());
                match self.walk(&chain, CallClass::Background, &request).await {
                    Walked::Answered { .. } | Walked::Streaming { .. } => Ran::Done,
                    Walked::Unavailable { outcome: CallOutcome::Refused, earliest, error, .. } => {
                        Ran::Refused { earliest, why: error }
                    }
                    Walked::Unavailable { call, earliest, error, .. } => {
                        let mut core = self.0.core.borrow_mut();
                        if core.poisoned.contains(&call) {
                            return Ran::Failed { why: error };
                        }
                        core.unanswered.insert(claimed.id, call);
                        Ran::Unserved { earliest, why: error }
                    }
                    Walked::Rejected { error, .. } => Ran::Failed { why: error },
                }
            }
            Consumer::Outreach => {
                let message: OutreachMessage = match serde_json::from_str(&claimed.payload) {
                    Ok(message) => message,
                    Err(error) => return Ran::Hopeless { why: error.to_string() },
                };
                let key = outreach::key(&message);
                match self.deliver(&message, &key).await {
                    Ok(Delivery::Sent | Delivery::Duplicate | Delivery::Outdated) => Ran::Done,
                    Ok(Delivery::InDoubt) => Ran::InDoubt,
                    Ok(Delivery::NotSent { why }) => Ran::Refused { earliest: None, why },
                    Err(EngineError::NotStored(error)) => Ran::Refused { earliest: None, why: error.to_string() },
                    Err(error) => Ran::Hopeless { why: error.to_string() },
                }
            }
        }
    }
}
