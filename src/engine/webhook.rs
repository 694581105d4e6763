//! The webhook: each applied transition as JSON, in order, one request at a time.
//!
//! What waits to be posted is nothing but the axes' own history behind the last posted number: it survives a restart
//! for the price of that number. What falls out of the history before its turn came (200 transitions later) is
//! undelivered. A try is over when the head of the answer came: 2xx means that the receiver took it.
//! **Source:** engine.md 8 (webhook). NOTIFY-1.

use super::core::Core;
use super::outbound::{Limits, Target};
use super::{Engine, outreach};
use crate::axis::history::Transition;
use crate::base::Span;
use crate::event::Event;
use crate::notice::UndeliveredKind;
use crate::wire::HttpRequest;
use serde_json::{Value, json};

/// Version of what is posted.
pub const SCHEMA: u32 = 1;

/// A receiver that has not begun to answer by then has not taken it.
const ANSWER: Span = Span::from_secs(10);

/// What became of a request and its repetitions.
pub(super) struct Posted {
    pub tries: u32,
    pub failure: Option<String>,
}

impl Core {
    /// The next transition to post; without a body it is gone from the history.
    fn next_post(&self) -> Option<(u64, Option<Transition>)> {
        let number = self.posted? + 1;
        (number <= self.history.applied_count()).then(|| (number, self.history.numbered(number).cloned()))
    }
}

impl Engine {
    pub(super) async fn post_transitions(self) {
        loop {
            let next = self.0.core.borrow().next_post();
            let Some((number, transition)) = next else {
                self.0.wake.webhook.notified().await;
                continue;
            };
            let (posted, what) = match transition {
                Some(transition) => {
                    // Of two databases that post to one receiver, none counts as the other does.
                    let key = format!("transition {number} {}", transition.wall.0);
                    let what = format!("{} from {} to {}", transition.axis, transition.was, transition.to);
                    (self.post(&key, &body(number, &transition)).await, what)
                }
                None => {
                    let why = "too many came after it before its turn came".to_owned();
                    (Posted { tries: 0, failure: Some(why) }, format!("transition {number} came"))
                }
            };
            self.conclude_post(number, posted, what);
        }
    }

    fn conclude_post(&self, number: u64, posted: Posted, what: String) {
        let Posted { tries, failure } = posted;
        let failed = failure.is_some();
        if let Some(why) = failure.clone() {
            self.0.ports.notify.line(&format!("squalld: the webhook was not told that {what}: {why}"));
            self.list_undelivered(UndeliveredKind::Transition, format!("transition {number}"), what, why);
        }
        self.0.decide(|core, _| {
            core.posted = Some(number);
            core.dirty.people = true;
            core.events.push(match failure {
                None => Event::WebhookDelivered { transition: number, tries },
                Some(why) => Event::WebhookUndelivered { transition: number, tries, why },
            });
        });
        self.0.flush();
        if failed {
            self.0.write_status("webhook");
        }
    }

    /// Posts under one idempotency key until the receiver takes it, or all tries are used up.
    pub(super) async fn post(&self, key: &str, body: &Value) -> Posted {
        let _alone = self.0.posting.lock().await;
        let rules = &self.0.rules.notify;
        let (target, path) = match Target::parse_whole(&rules.webhook_url) {
            Ok(whole) => whole,
            Err(error) => return Posted { tries: 0, failure: Some(error.to_string()) },
        };
        let key = blake3::hash(key.as_bytes()).to_hex()[..32].to_owned();
        let request = outreach::post(path, &key, body);
        let mut wait = rules.backoff;
        let mut tries = 1;
        loop {
            match self.try_post(&target, &request).await {
                Ok(()) => return Posted { tries, failure: None },
                Err(why) if tries >= rules.tries => return Posted { tries, failure: Some(why) },
                Err(_) => self.0.ports.clock.sleep_until(self.now() + wait).await,
            }
            tries += 1;
            wait = wait + wait;
        }
    }

    async fn try_post(&self, target: &Target, request: &HttpRequest) -> Result<(), String> {
        let call = &self.0.rules.call;
        let limits =
            Limits { first_byte: ANSWER, chunk: ANSWER, total: call.connect + ANSWER, ..Limits::of(call, false) };
        let mut answer = self.0.outbound.open(target, request, &limits).await.map_err(|error| error.to_string())?;
        if !(200..300).contains(&answer.status) {
            return Err(format!("it answered {}", answer.status));
        }
        // What it says beside its status is nobody's business; a body that was read leaves the connection usable.
        let _ = answer.collect().await;
        Ok(())
    }
}

fn body(number: u64, transition: &Transition) -> Value {
    json!({
        "schema": SCHEMA, "kind": "transition", "transition": number,
        "axis": transition.axis, "was": transition.was, "to": transition.to, "cause": transition.cause,
        "at": super::status::utc(transition.wall), "at_ms": transition.at.ms(),
    })
}
