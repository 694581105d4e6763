//! A call: a walk through a chain, from the first entry that admits to an answer or to none.
//!
//! **Source:** engine.md 3 (chain), 2.4 (what a level sheds).

use super::api::{ChatCall, ChatDone, ChatReply, EngineError};
use super::attempt::{Ended, Order};
use super::stream::Started;
use super::{Engine, perform};
use crate::axis::shed;
use crate::base::rules::{ChainRule, ChainUse};
use crate::base::work::priority;
use crate::base::{CallClass, CallOutcome, EntryName, MonoTime, Outcome, Policy};
use crate::chain::{EntryView, Step, Walk};
use crate::event::Event;
use crate::store::queue::{AxisSet, NewItem};
use crate::wire::{Content, Request};

/// How a walk ended.
#[derive(Debug)]
pub(super) enum Walked {
    Answered {
        call: u64,
        entry: EntryName,
        text: String,
        attempts: u32,
    },
    Streaming {
        started: Box<Started>,
        attempts: u32,
    },
    /// Nothing could be asked, or everything that could be failed.
    Unavailable {
        call: u64,
        outcome: CallOutcome,
        attempts: u32,
        earliest: Option<MonoTime>,
        error: String,
    },
    /// The request's own fault.
    Rejected {
        status: u16,
        error: String,
    },
}

/// A call under way. Dropped before [`Running::finish`], it ends as cancelled.
pub(super) struct Running {
    engine: Engine,
    pub call: u64,
    is_over: bool,
    pub attempts: u32,
}

impl Running {
    pub fn finish(mut self, outcome: CallOutcome, entry: Option<EntryName>, earliest: Option<MonoTime>) {
        self.end(outcome, entry, earliest);
    }

    fn end(&mut self, outcome: CallOutcome, entry: Option<EntryName>, earliest: Option<MonoTime>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let (call, attempts) = (self.call, self.attempts);
        self.engine.0.decide(|core, now| {
            let earliest_ms = earliest.map(|at| at.ms());
            core.events.push(Event::CallFinished { call, outcome, entry, attempts, earliest_ms });
            core.measure(now);
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(CallOutcome::Cancelled, None, None);
    }
}

impl Engine {
    /// A chat call for a caller.
    ///
    /// **Errors:** an unknown chain, an empty request, or a queue that cannot store; nothing was asked of anyone.
    pub async fn chat(&self, call: ChatCall) -> Result<ChatReply, EngineError> {
        let chain = self.chain(ChainUse::Chat, call.chain.as_deref())?.clone();
        if call.request.messages.is_empty() {
            return Err(EngineError::Empty { field: "messages" });
        }
        if call.request.max_tokens == 0 {
            return Err(EngineError::OutOfRange { field: "max_tokens", must: "at least 1", given: 0 });
        }
        let background = call.class == CallClass::Background;
        let levels = self.0.core.borrow().levels();
        if background && shed::sheds(levels.cloud, priority::SCHEDULED) {
            return self.queue_chat(&chain, call, format!("cloud is {}", levels.cloud));
        }
        let request = Request::Chat(call.request.clone());
        match self.walk(&chain, call.class, &request).await {
            Walked::Answered { call, entry, text, attempts } => {
                Ok(ChatReply::Done(ChatDone { outcome: CallOutcome::Ok, call, entry, text, attempts }))
            }
            Walked::Streaming { started, attempts } => Ok(ChatReply::Stream(self.pump(*started, attempts))),
            Walked::Unavailable { error, .. } if background || call.queue => self.queue_chat(&chain, call, error),
            Walked::Unavailable { outcome, attempts, earliest, error, .. } => {
                let earliest = earliest.map(|at| at - self.now());
                Ok(ChatReply::Unavailable { outcome, attempts, earliest, error })
            }
            Walked::Rejected { status, error } => Ok(ChatReply::Rejected { status, error }),
        }
    }

    /// The chain of that name, or without one the chain named `default`, or the only one.
    pub(super) fn chain(&self, use_: ChainUse, name: Option<&str>) -> Result<&ChainRule, EngineError> {
        let mut chains = self.0.rules.chains.iter().filter(|chain| chain.use_ == use_);
        let found = match name {
            Some(name) => chains.find(|chain| chain.name == name),
            None => {
                let all: Vec<&ChainRule> = chains.collect();
                all.iter().copied().find(|chain| chain.name == "default").or(match all.as_slice() {
                    [only] => Some(*only),
                    _ => None,
                })
            }
        };
        found.ok_or_else(|| EngineError::UnknownChain {
            use_: match use_ {
                ChainUse::Chat => "chat",
                ChainUse::Embedding => "embedding",
            },
            given: name.unwrap_or("default").to_owned(),
            known: self
                .0
                .rules
                .chains
                .iter()
                .filter(|chain| chain.use_ == use_)
                .map(|chain| chain.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    fn queue_chat(&self, chain: &ChainRule, call: ChatCall, reason: String) -> Result<ChatReply, EngineError> {
        let priority = match call.class {
            CallClass::Foreground => priority::FOREGROUND,
            CallClass::Background => priority::SCHEDULED,
        };
        let payload = perform::LlmPayload::of(chain.name.clone(), &call.request);
        let item = NewItem {
            work_type: "llm_call".to_owned(),
            call_site: "chat".to_owned(),
            priority,
            payload: serde_json::to_string(&payload).expect("a payload is plain JSON"),
            depends_on: AxisSet::of(&[crate::base::Axis::Cloud]),
            policy: Policy::Drain,
            ttl: None,
            reason,
            not_before: MonoTime::ZERO,
            expires_at: None,
            attempts_max: self.0.rules.queue.attempts_max,
        };
        let queued = self.enqueue(item, None)?;
        Ok(ChatReply::Deferred { id: queued.id, merged: queued.merged })
    }

    /// Walks a chain with a request.
    pub(super) async fn walk(&self, chain: &ChainRule, class: CallClass, request: &Request) -> Walked {
        let entries = self.0.rules.entries(chain);
        let started = self.now();
        let mut walk = Walk::new(class, entries.clone(), started, &self.0.rules.call, &self.0.rules.retry);
        let call = self.next_call();
        let mut running = Running { engine: self.clone(), call, is_over: false, attempts: 0 };
        let stream = request.is_streamed();
        let name = chain.name.clone();
        self.0.decide(|core, _| core.events.push(Event::CallStarted { call, chain: name, class, stream }));

        let mut last_error = String::new();
        loop {
            let views = self.views(&entries);
            let (index, retry) = match walk.next(self.now(), &views) {
                Step::Try { index, retry } => (index, retry),
                Step::Wait { until, .. } => {
                    self.0.ports.clock.sleep_until(until).await;
                    continue;
                }
                Step::AwaitProbe { until, .. } => {
                    tokio::select! {
                        biased;
                        () = self.0.wake.gate.notified() => {}
                        () = self.0.ports.clock.sleep_until(until) => {}
                    }
                    continue;
                }
                Step::Exhausted { earliest } => {
                    let (outcome, attempts) = (walk.outcome(), walk.attempts());
                    let error = if last_error.is_empty() {
                        format!("no entry of chain {:?} can be asked now", chain.name)
                    } else {
                        last_error
                    };
                    running.finish(outcome, None, earliest);
                    return Walked::Unavailable { call, outcome, attempts, earliest, error };
                }
                Step::Ended => unreachable!("the walk is left when an attempt ends it"),
            };
            let entry = &entries[index];
            if retry && !self.retry_allowed(entry) {
                walk.settled(index, Outcome::Refused, None, self.now(), 0.0);
                continue;
            }
            running.attempts = walk.attempts();
            let order = Order { call: Some(call), entry, request, retry, deadline: walk.deadline() };
            let ended = if stream {
                match self.attempt_stream(&order).await {
                    Ok(mut opened) => {
                        walk.answer_started();
                        running.attempts = walk.attempts();
                        opened.running = Some(running);
                        return Walked::Streaming { attempts: walk.attempts(), started: Box::new(opened) };
                    }
                    Err(ended) => ended,
                }
            } else {
                self.attempt(&order).await
            };
            walk.settled(index, ended.outcome, ended.hint, self.now(), self.jitter());
            running.attempts = walk.attempts();
            let Ended { outcome, reason, status, content, .. } = ended;
            match (outcome, content) {
                (Outcome::Success, Some(Content::Chat { text, .. })) => {
                    let attempts = walk.attempts();
                    running.finish(CallOutcome::Ok, Some(entry.clone()), None);
                    return Walked::Answered { call, entry: entry.clone(), text, attempts };
                }
                (Outcome::CallersFault, _) => {
                    running.finish(CallOutcome::Failed, Some(entry.clone()), None);
                    return Walked::Rejected { status, error: reason };
                }
                (Outcome::Refused, _) => {}
                _ => last_error = format!("{entry}: {reason}"),
            }
        }
    }

    fn retry_allowed(&self, entry: &EntryName) -> bool {
        self.0.core.borrow().budget.allows(entry.provider(), self.now(), &self.0.rules.retry)
    }

    fn views(&self, entries: &[EntryName]) -> Vec<EntryView> {
        let core = self.0.core.borrow();
        let now = self.now();
        entries
            .iter()
            .map(|name| {
                let entry = core.entries.get(name).expect("chains hold configured entries only");
                match entry.gate.refusal(now, &entry.rules) {
                    None => EntryView { admits: true, earliest: None, probe_in_slot: false },
                    Some(refusal) => EntryView {
                        admits: false,
                        earliest: refusal.earliest,
                        probe_in_slot: refusal.why == crate::breaker::RefusalWhy::BusyProbe,
                    },
                }
            })
            .collect()
    }
}
