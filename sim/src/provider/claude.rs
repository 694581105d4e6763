//! Where simulated Claude Code sessions sign in and work.
//!
//! The command's own way of talking to its maker is not public, so this is a small one of ours: `POST /sign-in`, then
//! `POST /turn` for each step of the work. What counts is what the command prints about the answers, and that is the
//! session's business. A usage limit refuses turns, not signing in; faults answer as elsewhere.
//! **Source:** scenario.md (api "claude-code", `session_limit`), protocols.md C.3.

use super::answer::Answer;
use super::handle::{Call, CallKind, Injected, Judge, Pace};
use super::inbox::refused_status;
use super::{Exchanges, Limited};
use crate::scenario::Provider;
use crate::seed::Stream;
use crate::world::World;
use crate::world::http::{Body, Reply, Request};
use serde_json::json;
use std::cell::RefCell;
use std::rc::Rc;

pub struct ClaudeServer {
    pub(super) provider: Provider,
    pub(super) world: World,
    pub(super) judge: Judge,
    pub(super) exchanges: Exchanges,
    pub(super) latency: RefCell<Stream>,
}

impl ClaudeServer {
    pub async fn handle(self: Rc<Self>, request: Request) -> Reply {
        let kind = if request.path == "/sign-in" { CallKind::SignIn } else { CallKind::Turn };
        let call =
            Call { host: &self.provider.name, model: None, kind, content: "", tokens: 0, now_ms: self.world.now_ms() };
        let verdict = (self.judge)(&call);
        let own = self.provider.latency.sample(&mut self.latency.borrow_mut());
        let latency = match verdict.slow {
            Some(Pace::Take(span)) => span,
            Some(Pace::Times(factor)) => own.scale(factor),
            None => own,
        };
        self.exchanges.count();
        if let Some(Injected::Hang) = verdict.hit {
            return Reply { status: 200, headers: Vec::new(), body: Body::Never };
        }
        self.world.sleep(latency).await;
        let answer = match (verdict.hit.as_ref().and_then(refused_status), verdict.limited) {
            (Some(status), _) => Answer::json(status, &json!({"error": "not accepted"})),
            (None, Some(limited)) => Answer::json(429, &refused(&limited)),
            (None, None) => Answer::json(200, &json!({"ok": true})),
        };
        answer.into_reply()
    }
}

fn refused(limited: &Limited) -> serde_json::Value {
    let Limited { window, resets_ms, message, zone } = limited;
    json!({"window": window, "resets_ms": resets_ms, "message": message, "zone": zone})
}
