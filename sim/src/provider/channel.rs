//! Where outreach is delivered: a server that takes a message as JSON and says yes.
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
use crate::scenario::Channel;
use crate::seed::{Seed, Stream};
use crate::world::World;
use crate::world::http::{Body, Reply, Request};
use serde_json::{Value, json};
use squall::base::{Span, WallTime};
use std::cell::RefCell;
use std::rc::Rc;

pub struct ChannelServer {
    pub(super) channel: Channel,
    pub(super) starts_at: WallTime,
    pub(super) world: World,
    pub(super) judge: Judge,
    pub(super) recorder: Recorder,
    pub(super) exchanges: Exchanges,
    pub(super) latency: RefCell<Stream>,
}

/// The stream of a channel's latencies.
pub fn latency_stream(channel: &Channel, seed: &Seed) -> Stream {
    seed.stream(&format!("channel.{}.latency", channel.name))
}

impl ChannelServer {
    pub async fn handle(self: Rc<Self>, request: Request) -> Reply {
        let arrived_ms = self.world.now_ms();
        let message: Option<Value> = serde_json::from_slice(&request.body).ok();
        let field = |name: &str| message.as_ref().and_then(|message| message.get(name));
        let text = |name: &str| field(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let content = text("content");

        let verdict = (self.judge)(&Call {
            host: &self.channel.name,
            model: None,
            kind: CallKind::Message,
            content: &content,
            tokens: 0,
            now_ms: arrived_ms,
        });
        let own = self.channel.latency.sample(&mut self.latency.borrow_mut());
        let latency = match verdict.slow {
            Some(Pace::Take(span)) => span,
            Some(Pace::Times(factor)) => own.scale(factor),
            None => own,
        };
        let well_formed = request.method == "POST" && field("recipient").is_some() && field("content").is_some();
        let own_status = if well_formed { 200 } else { 400 };
        let status = match &verdict.hit {
            Some(Injected::Hang) => 0,
            Some(injected) => refused_status(injected).unwrap_or(own_status),
            None => own_status,
        };
        let part = field("part").and_then(Value::as_u64).and_then(|part| u32::try_from(part).ok()).unwrap_or(0);
        // Each part is a request with a key of its own, made of the message's and the part's number.
        let key = request.header("idempotency-key");
        let key = key.map(|key| key.strip_suffix(&format!("-{part}")).unwrap_or(key).to_owned());
        self.exchanges.count();
        self.recorder.outside(Outside::ChannelRequest {
            channel: self.channel.name.clone(),
            key,
            recipient: text("recipient"),
            purpose: text("purpose"),
            part,
            status,
            content: blake3::hash(content.as_bytes()).to_hex()[..16].to_owned(),
        });
        if status == 0 {
            return Reply { status: 200, headers: Vec::new(), body: Body::Never };
        }
        self.world.sleep(latency).await;

        let answer = match status {
            200 => Answer::json(200, &json!({"ok": true})),
            400 if !well_formed => Answer::json(400, &json!({"error": "a message has a recipient and content"})),
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

/// Channels have no dialect of their own: a named refusal has the status that OpenAI gives it.
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
