//! What the wrapper says to the daemon, and what it makes of the answers.
//!
//! A daemon that cannot be reached, or that cannot store anything just now, is *away*: the same is said again, ever
//! less often. Every question can be asked twice: the daemon knows the work by its key and the slot by its token.
//! **Source:** README "Sessions"; engine.md 6.

use super::Order;
use crate::base::{MonoTime, SessionOutcome, Span};
use crate::engine::outbound::{Limits, Outbound, Target, TargetError};
use crate::port::{Clock, Net};
use crate::wire::HttpRequest;
use serde_json::{Map, Value, json};
use std::rc::Rc;

/// Between two tries, twice as long each time.
const BACKOFF: Span = Span::from_ms(500);
const BACKOFF_MAX: Span = Span::from_secs(15);
/// The daemon answers a wait after 20 s at the latest, everything else at once.
const WAIT_ANSWERS_IN: Span = Span::from_secs(30);
const ANSWERS_IN: Span = Span::from_secs(10);
const CONNECTS_IN: Span = Span::from_secs(5);
const BODY_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DaemonError {
    #[error("no daemon answers: {why}")]
    Away { why: String },
    #[error("the daemon does not take this: {why}")]
    Refused { why: String },
}

/// A slot of the budget. The token names this holding of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub session: u64,
    pub token: Value,
    pub lease: Span,
    /// How far an earlier run of the work came.
    pub progress: Option<String>,
}

pub(super) enum Asked {
    Started(Slot),
    Waiting { session: u64, reason: String },
    Runs,
}

pub(super) enum Waited {
    Started(Slot),
    Waiting {
        reason: String,
    },
    /// The daemon knows no such session.
    Unknown,
    /// It runs elsewhere, or was called off.
    Over(String),
}

/// Whether a slot is still ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Ours,
    Gone,
}

/// A daemon at its address.
#[derive(Clone)]
pub struct Daemon {
    outbound: Outbound,
    clock: Rc<dyn Clock>,
    target: Target,
}

struct Answer {
    status: u16,
    body: Value,
}

impl Answer {
    fn text(&self, name: &str) -> Option<String> {
        self.body.get(name).and_then(Value::as_str).map(str::to_owned)
    }

    fn why(&self) -> String {
        self.text("error").or_else(|| self.text("reason")).unwrap_or_else(|| format!("it answers {}", self.status))
    }

    fn session(&self) -> Option<u64> {
        self.body.get("session").and_then(Value::as_u64)
    }

    fn slot(&self) -> Option<Slot> {
        let lease_s = self.body.get("lease_s").and_then(Value::as_u64).filter(|lease_s| *lease_s > 0)?;
        let token = self.body.get("token").filter(|token| !token.is_null())?.clone();
        let lease = Span::from_secs(lease_s);
        Some(Slot { session: self.session()?, token, lease, progress: self.text("progress") })
    }

    /// An answer that is none of those we know: not worth asking again.
    fn strange(&self, path: &str) -> DaemonError {
        DaemonError::Refused { why: format!("{path}: {} {}", self.status, self.why()) }
    }
}

impl Daemon {
    /// `url`: such as `http://127.0.0.1:7878`.
    ///
    /// **Errors:** it is no base URL.
    pub fn new(url: &str, net: Rc<dyn Net>, clock: Rc<dyn Clock>) -> Result<Daemon, TargetError> {
        let target = Target::parse(url)?;
        Ok(Daemon { outbound: Outbound::new(net, clock.clone()), clock, target })
    }

    /// Asks for a slot until `until`.
    ///
    /// **Errors:** [`DaemonError::Away`] after that; [`DaemonError::Refused`] at once.
    pub(super) async fn ask(&self, order: &Order, until: MonoTime) -> Result<Asked, DaemonError> {
        let mut body = json!({ "class": order.class.name(), "key": order.key });
        if let Some(label) = &order.label {
            body["label"] = json!(label);
        }
        const PATH: &str = "/v1/session/ask";
        let answer = self.insist(PATH, &body, ANSWERS_IN, until).await?;
        match answer.status {
            200 => answer.slot().map(Asked::Started),
            202 => answer.session().map(|session| Asked::Waiting {
                session,
                reason: answer.text("reason").unwrap_or_else(|| "no slot is free".to_owned()),
            }),
            409 => Some(Asked::Runs),
            _ => None,
        }
        .ok_or_else(|| answer.strange(PATH))
    }

    /// One long poll; while the daemon is away, as many tries as it takes.
    pub(super) async fn wait(&self, session: u64) -> Waited {
        let body = json!({ "session": session });
        let answer = self.insist("/v1/session/wait", &body, WAIT_ANSWERS_IN, MonoTime(u64::MAX)).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Waited::Over(error.to_string()),
        };
        match answer.status {
            200 => answer.slot().map(Waited::Started),
            202 => {
                Some(Waited::Waiting { reason: answer.text("reason").unwrap_or_else(|| "no slot is free".to_owned()) })
            }
            404 => Some(Waited::Unknown),
            409 => Some(Waited::Over(answer.why())),
            _ => None,
        }
        .unwrap_or_else(|| Waited::Over(answer.strange("/v1/session/wait").to_string()))
    }

    /// **Errors:** it was not taken.
    pub(super) async fn cancel(&self, session: u64) -> Result<(), DaemonError> {
        let answer = self.once("/v1/session/cancel", &json!({ "session": session }), ANSWERS_IN).await?;
        if answer.status == 200 { Ok(()) } else { Err(answer.strange("/v1/session/cancel")) }
    }

    /// **Errors:** [`DaemonError::Away`].
    pub(super) async fn alive(&self, slot: &Slot) -> Result<Held, DaemonError> {
        self.tell("/v1/session/alive", slot, Map::new()).await
    }

    /// **Errors:** [`DaemonError::Away`].
    pub(super) async fn limit(&self, slot: &Slot, window: &str, resets_in: Option<Span>) -> Result<Held, DaemonError> {
        let mut fields = Map::new();
        fields.insert("window".to_owned(), json!(window));
        if let Some(resets_in) = resets_in {
            fields.insert("resets_in_ms".to_owned(), json!(resets_in.ms()));
        }
        self.tell("/v1/session/limit", slot, fields).await
    }

    /// **Errors:** [`DaemonError::Away`].
    pub(super) async fn end(
        &self,
        slot: &Slot,
        outcome: SessionOutcome,
        progress: Option<&str>,
    ) -> Result<Held, DaemonError> {
        let mut fields = Map::new();
        fields.insert("outcome".to_owned(), json!(outcome));
        if let Some(progress) = progress {
            fields.insert("progress".to_owned(), json!(progress));
        }
        self.tell("/v1/session/end", slot, fields).await
    }

    /// Says something about a slot, once.
    async fn tell(&self, path: &str, slot: &Slot, mut fields: Map<String, Value>) -> Result<Held, DaemonError> {
        fields.insert("session".to_owned(), json!(slot.session));
        fields.insert("token".to_owned(), slot.token.clone());
        let answer = self.once(path, &Value::Object(fields), ANSWERS_IN).await?;
        match answer.status {
            200 => Ok(Held::Ours),
            // Reclaimed, or the daemon has another database: nobody knows of our slot.
            404 | 409 => Ok(Held::Gone),
            _ => Err(answer.strange(path)),
        }
    }

    /// Asks until it is answered.
    async fn insist(&self, path: &str, body: &Value, answers_in: Span, until: MonoTime) -> Result<Answer, DaemonError> {
        let mut backoff = Backoff::default();
        loop {
            match self.once(path, body, answers_in).await {
                Err(DaemonError::Away { why }) => {
                    let again_at = self.clock.mono() + backoff.next();
                    if again_at > until {
                        return Err(DaemonError::Away { why });
                    }
                    self.clock.sleep_until(again_at).await;
                }
                answered => return answered,
            }
        }
    }

    async fn once(&self, path: &str, body: &Value, answers_in: Span) -> Result<Answer, DaemonError> {
        let request = HttpRequest {
            method: "POST",
            path: path.to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: body.to_string().into(),
        };
        let limits = Limits {
            connect: CONNECTS_IN,
            first_byte: answers_in,
            chunk: ANSWERS_IN,
            total: CONNECTS_IN + answers_in + ANSWERS_IN,
            body_bytes_max: BODY_BYTES_MAX,
        };
        let away = |why| DaemonError::Away { why };
        let answer = self.outbound.exchange(&self.target, &request, &limits).await;
        let answer = answer.map_err(|error| away(error.to_string()))?;
        let body = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        let answer = Answer { status: answer.status, body };
        // It is there, and cannot store anything: the same as being away.
        if answer.status >= 500 { Err(away(answer.why())) } else { Ok(answer) }
    }
}

/// Ever longer waits.
pub(super) struct Backoff(Span);

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff(BACKOFF)
    }
}

impl Backoff {
    pub fn next(&mut self) -> Span {
        let wait = self.0;
        self.0 = self.0.scale(2.0).min(BACKOFF_MAX);
        wait
    }
}
