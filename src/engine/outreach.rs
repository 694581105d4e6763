//! Messages to people: sent once, or known to be in doubt.
//!
//! Intent row, send, history row. Whoever asks for the same key again is told what became of the first.
//! **Source:** engine.md 8 (outreach). IDEMPOTENT-1, IDEMPOTENT-3.

use super::Engine;
use super::api::{EngineError, Message, MessageReply};
use super::outbound::{Limits, Target, TransportError};
use crate::base::work::priority;
use crate::base::{MonoTime, Policy, Span};
use crate::event::Event;
use crate::store::outreach::{self, Known};
use crate::store::queue::{AxisSet, NewItem};
use crate::wire::HttpRequest;

/// Without an occasion, equal messages are duplicates for this long.
const DUPLICATE_FOR: Span = Span::from_hours(24);

const PARTS_MAX: u32 = 100;

/// What became of one try to deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Sent,
    Duplicate,
    Outdated,
    InDoubt,
    /// Surely not sent: it may be tried again.
    NotSent {
        why: String,
    },
}

/// The message's key: who, what for, when for, and what. Spaces and case of white space don't make a difference.
pub(super) fn key(message: &Message) -> String {
    let content = message.content.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut hasher = blake3::Hasher::new();
    for part in [&message.recipient, &message.purpose, message.occasion.as_ref().unwrap_or(&String::new()), &content] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().as_str()[..32].to_owned()
}

/// JSON for a receiver that knows by `key` whether it has had it before.
pub(super) fn post(path: String, key: &str, body: &serde_json::Value) -> HttpRequest {
    HttpRequest {
        method: "POST",
        path,
        headers: vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("idempotency-key".to_owned(), key.to_owned()),
            ("user-agent".to_owned(), crate::wire::request::USER_AGENT.to_owned()),
        ],
        body: body.to_string().into(),
    }
}

impl Engine {
    /// Sends a message, or says why it need not or cannot be sent now.
    ///
    /// **Errors:** an empty or oversized field, an unknown channel, or a disk that does not store the intent: then
    /// nothing was sent.
    pub async fn outreach(&self, message: Message) -> Result<MessageReply, EngineError> {
        self.check_message(&message)?;
        let key = key(&message);
        match self.deliver(&message, &key).await? {
            Delivery::Sent => Ok(MessageReply::Sent { key }),
            Delivery::Duplicate => Ok(MessageReply::Duplicate { key }),
            Delivery::Outdated => Ok(MessageReply::Outdated { key }),
            Delivery::InDoubt => Ok(MessageReply::InDoubt { key }),
            Delivery::NotSent { why } => {
                let now = self.0.ports.clock.mono();
                let item = NewItem {
                    work_type: "outreach".to_owned(),
                    call_site: "outreach".to_owned(),
                    priority: priority::URGENT_OUTREACH,
                    payload: serde_json::to_string(&message).expect("a message is plain JSON"),
                    depends_on: AxisSet::default(),
                    policy: Policy::Drain,
                    ttl: None,
                    reason: why,
                    not_before: now + crate::queue::rest_after_failure(1),
                    expires_at: None,
                    attempts_max: self.0.rules.queue.attempts_max,
                };
                let queued = self.enqueue(item, None)?;
                Ok(MessageReply::Deferred { key, id: queued.id })
            }
        }
    }

    pub(super) fn check_message(&self, message: &Message) -> Result<(), EngineError> {
        for (field, text) in
            [("recipient", &message.recipient), ("purpose", &message.purpose), ("content", &message.content)]
        {
            if text.trim().is_empty() {
                return Err(EngineError::Empty { field });
            }
        }
        if !(1..=PARTS_MAX).contains(&message.parts) {
            let given = u64::from(message.parts);
            return Err(EngineError::OutOfRange { field: "parts", must: "1 to 100", given });
        }
        self.channel_url(message).map(|_| ())
    }

    fn channel_url(&self, message: &Message) -> Result<&str, EngineError> {
        let channels = &self.0.rules.channels;
        let found = match &message.channel {
            Some(name) => channels.iter().find(|channel| channel.name == *name),
            None => channels.first(),
        };
        found.map(|channel| channel.url.as_str()).ok_or_else(|| EngineError::UnknownChannel {
            given: message.channel.clone().unwrap_or_default(),
            known: channels.iter().map(|channel| channel.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// One try. **Errors:** the disk's; then nothing was sent.
    pub(super) async fn deliver(&self, message: &Message, key: &str) -> Result<Delivery, EngineError> {
        let Some(first_part) = self.intend(message, key)? else {
            let known = self.known(key)?;
            let (recipient, purpose) = (message.recipient.clone(), message.purpose.clone());
            return Ok(match known {
                Known::InDoubt => Delivery::InDoubt,
                Known::New | Known::Intended { .. } | Known::Sent { .. } => {
                    let key = key.to_owned();
                    self.0.decide(|core, _| {
                        core.events.push(Event::OutreachDuplicate { key, recipient, purpose });
                    });
                    Delivery::Duplicate
                }
            });
        };
        if let (Some(topic), Some(state)) = (&message.topic, message.state) {
            let fresh = self
                .0
                .commit(|tx, _, _| outreach::advance_topic(tx, &message.recipient, topic, state))
                .map_err(EngineError::NotStored)?;
            if !fresh {
                self.0.sending.borrow_mut().remove(key);
                self.0.commit(|tx, _, _| outreach::forget_intent(tx, key)).map_err(EngineError::NotStored)?;
                return Ok(Delivery::Outdated);
            }
        }
        let url = self.channel_url(message)?.to_owned();
        let mut delivery = Delivery::Sent;
        for part in first_part..message.parts {
            delivery = self.send_part(&url, message, key, part).await;
            if delivery != Delivery::Sent {
                break;
            }
            if part + 1 < message.parts {
                self.0.commit(|tx, _, _| outreach::part_sent(tx, key, part + 1)).map_err(EngineError::NotStored)?;
            }
        }
        self.0.sending.borrow_mut().remove(key);
        self.conclude(message, key, &delivery)?;
        Ok(delivery)
    }

    /// Stores the intent and gives the first part to send; `None`: known already.
    fn intend(&self, message: &Message, key: &str) -> Result<Option<u32>, EngineError> {
        let first_part = match self.known(key)? {
            Known::Sent { at } if message.occasion.is_none() && self.is_old(at) => 0,
            Known::Sent { .. } | Known::InDoubt => return Ok(None),
            // Parts that arrived in an earlier try are not sent again; a try that is under way is not doubled.
            Known::Intended { .. } if self.0.sending.borrow().contains(key) => return Ok(None),
            Known::Intended { parts_sent } => parts_sent,
            Known::New => 0,
        };
        self.0.sending.borrow_mut().insert(key.to_owned());
        let stored = self.0.commit(|tx, now, events| {
            events.push(Event::OutreachIntended {
                key: key.to_owned(),
                recipient: message.recipient.clone(),
                purpose: message.purpose.clone(),
                occasion: message.occasion.clone(),
            });
            outreach::intend(tx, key, &message.recipient, &message.purpose, now)
        });
        if stored.is_err() {
            self.0.sending.borrow_mut().remove(key);
        }
        stored.map(|()| Some(first_part)).map_err(EngineError::NotStored)
    }

    fn is_old(&self, sent: MonoTime) -> bool {
        self.0.ports.clock.mono() >= sent + DUPLICATE_FOR
    }

    fn known(&self, key: &str) -> Result<Known, EngineError> {
        outreach::known(self.0.store.borrow().reader(), key).map_err(EngineError::NotStored)
    }

    pub(super) async fn send_part(&self, url: &str, message: &Message, key: &str, part: u32) -> Delivery {
        let (target, path) = match Target::parse_whole(url) {
            Ok(whole) => whole,
            Err(why) => return Delivery::NotSent { why: why.to_string() },
        };
        let body = serde_json::json!({
            "recipient": message.recipient, "purpose": message.purpose, "occasion": message.occasion,
            "topic": message.topic, "state": message.state, "content": message.content,
            "part": part, "parts": message.parts,
        });
        let request = post(path, &format!("{key}-{part}"), &body);
        let limits = Limits::of(&self.0.rules.call, false);
        match self.0.outbound.exchange(&target, &request, &limits).await {
            Ok(answer) if (200..300).contains(&answer.status) => Delivery::Sent,
            Ok(answer) => Delivery::NotSent { why: format!("the channel answered {}", answer.status) },
            Err(TransportError { written: true, .. }) => Delivery::InDoubt,
            Err(error) => Delivery::NotSent { why: error.to_string() },
        }
    }

    fn conclude(&self, message: &Message, key: &str, delivery: &Delivery) -> Result<(), EngineError> {
        let (recipient, purpose) = (message.recipient.clone(), message.purpose.clone());
        let key_text = key.to_owned();
        self.0
            .commit(|tx, now, events| match delivery {
                Delivery::Sent => {
                    let occasion = message.occasion.as_deref();
                    outreach::record(tx, key, &recipient, &purpose, occasion, now)?;
                    events.push(Event::OutreachSent {
                        key: key_text.clone(),
                        recipient: recipient.clone(),
                        purpose: purpose.clone(),
                    });
                    events.push(Event::OutreachRecorded { key: key_text, recipient, purpose });
                    Ok(())
                }
                Delivery::InDoubt => {
                    outreach::set_in_doubt(tx, key)?;
                    events.push(Event::OutreachInDoubt { key: key_text, recipient, purpose });
                    Ok(())
                }
                // The intent stays with the parts that arrived, for the next try; without any nothing is in doubt.
                Delivery::NotSent { .. } => outreach::forget_unsent(tx, key),
                Delivery::Duplicate | Delivery::Outdated => Ok(()),
            })
            .map_err(EngineError::NotStored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(content: &str) -> Message {
        Message {
            recipient: "ada".into(),
            purpose: "alert".into(),
            occasion: None,
            topic: None,
            state: None,
            content: content.into(),
            parts: 1,
            channel: None,
        }
    }

    #[test]
    fn a_key_is_the_whole_content_but_not_its_white_space() {
        assert_eq!(key(&message("a  b\n")), key(&message("a b")));
        let long = "x".repeat(5_000);
        assert_ne!(key(&message(&format!("{long}1"))), key(&message(&format!("{long}2"))));
        let on_monday = Message { occasion: Some("monday".into()), ..message("a b") };
        assert_ne!(key(&on_monday), key(&message("a b")));
    }
}
