//! A server that takes a message as JSON and says yes: what channels and the webhook's receiver have in common.
//!
//! It does not look whether it has had a message before: telling people twice is what the drills are to find.
//! A message is recorded when it arrives, with the status that it will be answered: one whose sender dies meanwhile
//! was delivered all the same. Faults answer as elsewhere, with `{"error": …}` as the body.

use super::Exchanges;
use super::answer::Answer;
use super::dialect::{Desk, Dialect, given_hint};
use super::handle::{Call, CallKind, Injected, Judge, Pace};
use super::refusal::{Hint, Refusal};
use crate::history::{Outside, Recorder};
use crate::scenario::Dist;
use crate::seed::Stream;
use crate::world::World;
use crate::world::http::{Body, Reply, Request};
use serde_json::{Value, json};
use squall::base::{Span, WallTime};
use std::cell::RefCell;
use std::rc::Rc;

/// What makes a message of this kind, and how the history shows it.
pub trait Paper {
    /// What the message must have.
    const FIELDS: &'static [&'static str];
    /// Its words, as faults look at them.
    const WORDS: &'static str;
    fn record(&self, name: &str, request: &Request, message: &Message, status: u16) -> Outside;
}

/// What was sent, if it is JSON.
pub struct Message(Option<Value>);

impl Message {
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.0.as_ref().and_then(|message| message.get(name))
    }
    /// Empty without one.
    pub fn text(&self, name: &str) -> String {
        self.field(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
    pub fn number(&self, name: &str) -> Option<u64> {
        self.field(name).and_then(Value::as_u64)
    }
}

pub struct Inbox<P> {
    pub(super) name: String,
    pub(super) latency: Dist,
    pub(super) stream: RefCell<Stream>,
    pub(super) paper: P,
    pub(super) starts_at: WallTime,
    pub(super) world: World,
    pub(super) judge: Judge,
    pub(super) recorder: Recorder,
    pub(super) exchanges: Exchanges,
}

impl<P: Paper> Inbox<P> {
    pub async fn handle(self: Rc<Self>, request: Request) -> Reply {
        let message = Message(serde_json::from_slice(&request.body).ok());
        let content = message.text(P::WORDS);
        let verdict = (self.judge)(&Call {
            host: &self.name,
            model: None,
            kind: CallKind::Message,
            content: &content,
            tokens: 0,
            now_ms: self.world.now_ms(),
        });
        let own = self.latency.sample(&mut self.stream.borrow_mut());
        let latency = match verdict.slow {
            Some(Pace::Take(span)) => span,
            Some(Pace::Times(factor)) => own.scale(factor),
            None => own,
        };
        let well_formed = request.method == "POST" && P::FIELDS.iter().all(|field| message.field(field).is_some());
        let own_status = if well_formed { 200 } else { 400 };
        let status = match &verdict.hit {
            Some(Injected::Hang) => 0,
            Some(injected) => refused_status(injected).unwrap_or(own_status),
            None => own_status,
        };
        self.exchanges.count();
        self.recorder.outside(self.paper.record(&self.name, &request, &message, status));
        if status == 0 {
            return Reply { status: 200, headers: Vec::new(), body: Body::Never };
        }
        self.world.sleep(latency).await;

        let answer = match status {
            200 => Answer::json(200, &json!({"ok": true})),
            400 if !well_formed => {
                Answer::json(400, &json!({"error": format!("a message has {}", P::FIELDS.join(" and "))}))
            }
            status => Answer::json(status, &json!({"error": "not accepted"})),
        };
        let wall_ms = (self.starts_at + Span::from_ms(self.world.now_ms())).0;
        match verdict.hit {
            Some(injected) => spoil(answer, injected, wall_ms).into_reply(),
            None => answer.into_reply(),
        }
    }
}

/// The status with which a fault keeps a message out; `None` if it lets it in and spoils the answer.
pub(super) fn refused_status(injected: &Injected) -> Option<u16> {
    match injected {
        Injected::Status { status, .. } => Some(*status),
        Injected::Refusal { refusal, .. } => Some(status_of(*refusal)),
        Injected::Storm { .. } => Some(429),
        Injected::Poison => Some(500),
        Injected::Hang | Injected::Cut(_) | Injected::StreamError { .. } | Injected::Garbage(_) => None,
    }
}

/// There is no dialect of its own: a named refusal has the status that OpenAI gives it.
fn status_of(refusal: Refusal) -> u16 {
    Dialect::Openai.refusal(&Desk::idle("", ""), refusal, &Hint::None).status
}

fn spoil(answer: Answer, injected: Injected, wall_ms: i64) -> Answer {
    let hinted = |answer: Answer, hint: Hint| match hint {
        Hint::Given(retry_after) => given_hint(answer, &retry_after, wall_ms),
        Hint::Own(wait) => answer.header("retry-after", wait.secs_ceil().to_string()),
        Hint::None | Hint::Usual => answer,
    };
    match injected {
        Injected::Status { hint, body, .. } | Injected::Refusal { hint, body, .. } => {
            let answer = hinted(answer, hint);
            match body {
                Some(body) => answer.with_body(&body),
                None => answer,
            }
        }
        Injected::Storm { hint } => hinted(answer, hint),
        Injected::Cut(at) => answer.cut(at),
        Injected::Garbage(garbage) => answer.spoil(garbage),
        Injected::Poison | Injected::Hang | Injected::StreamError { .. } => answer,
    }
}
