//! One attempt at one entry: admit, send, classify, settle.
//!
//! Whatever happens to the attempt, its permit is given back exactly once: a dropped [`Underway`] (the caller went away)
//! settles it as cancelled.
//! **Source:** engine.md 3 (one classification per result).

use super::Engine;
use super::outbound::{Limits, Target, TransportError};
use crate::base::rules::ProviderRule;
use crate::base::{EntryName, MonoTime, Outcome, Span};
use crate::breaker::{Ask, Evidence, Permit, Refusal};
use crate::event::ParkScope;
use crate::wire::{self, Answer, Content, Reading, Request};

/// What is asked of an entry.
pub(super) struct Order<'a> {
    /// `None`: a probe.
    pub call: Option<u64>,
    pub entry: &'a EntryName,
    pub request: &'a Request,
    /// Not the first of its call at this provider.
    pub retry: bool,
    /// When the wait for an answer to start ends, whatever the other limits say.
    pub deadline: MonoTime,
}

/// A permit in use. Dropped without [`Underway::settle`], it settles as cancelled.
pub(super) struct Underway {
    engine: Engine,
    entry: EntryName,
    call: Option<u64>,
    pub attempt: u64,
    permit: Option<Permit>,
}

impl Underway {
    pub fn settle(mut self, outcome: Outcome, evidence: Evidence) {
        self.finish(outcome, evidence);
    }

    fn finish(&mut self, outcome: Outcome, evidence: Evidence) {
        if let Some(permit) = self.permit.take() {
            let (entry, call) = (self.entry.clone(), self.call);
            self.engine.0.decide(|core, now| core.settle(&entry, permit, call, outcome, evidence, now));
        }
    }

    pub fn first_token(&mut self) {
        if let Some(permit) = &mut self.permit {
            let (entry, call) = (self.entry.clone(), self.call);
            self.engine.0.decide(|core, now| core.first_token(&entry, permit, call, now));
        }
    }

    /// A trial's end.
    pub fn trial_deadline(&self) -> Option<MonoTime> {
        self.permit.as_ref().and_then(Permit::deadline)
    }
}

/// An attempt that can be sent.
pub(super) struct Ready {
    pub underway: Underway,
    pub target: Target,
    pub http: wire::HttpRequest,
    pub limits: Limits,
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.finish(Outcome::Cancelled, Evidence::NONE);
    }
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub outcome: Outcome,
    pub hint: Option<Span>,
    /// The real error, for people; empty for a success.
    pub reason: String,
    /// The provider's status for the caller's own faults; 0 if there was none.
    pub status: u16,
    pub content: Option<Content>,
}

impl Ended {
    pub fn refused(refusal: &Refusal) -> Ended {
        Ended {
            outcome: Outcome::Refused,
            hint: None,
            reason: format!("refused here: {:?}", refusal.why),
            status: 0,
            content: None,
        }
    }

    pub fn of_answer(answer: Answer, status: u16) -> Ended {
        Ended { outcome: answer.outcome, hint: answer.hint, reason: answer.reason, status, content: answer.content }
    }

    pub fn of_transport(error: &TransportError) -> Ended {
        Ended { outcome: Outcome::ProviderFault, hint: None, reason: error.to_string(), status: 0, content: None }
    }
}

impl Engine {
    /// Asks the entry's gate.
    fn admit(&self, order: &Order) -> Result<Underway, Refusal> {
        let ask =
            Ask { attempt: self.next_attempt(), probe: order.call.is_none(), stream: order.request.is_streamed() };
        let permit = self.0.decide(|core, now| core.admit(order.entry, ask, order.call, order.retry, now))?;
        Ok(Underway {
            engine: self.clone(),
            entry: order.entry.clone(),
            call: order.call,
            attempt: ask.attempt,
            permit: Some(permit),
        })
    }

    /// Everything up to sending: an admitted attempt, where it goes, and how long it may take.
    ///
    /// **Errors:** refused by the gate, or this build can't put the request into the provider's words.
    pub(super) fn ready(&self, order: &Order) -> Result<Ready, Box<Ended>> {
        let underway = self.admit(order).map_err(|refusal| Box::new(Ended::refused(&refusal)))?;
        match self.prepare(order, underway.attempt) {
            Ok((target, http)) => {
                let trial = underway.trial_deadline();
                let limits = self.limits_until(order.deadline, trial, order.request.is_streamed());
                Ok(Ready { underway, target, http, limits })
            }
            Err(reason) => {
                underway.settle(Outcome::Unfit, Evidence::NONE);
                Err(Box::new(Ended { outcome: Outcome::Unfit, hint: None, reason, status: 0, content: None }))
            }
        }
    }

    /// One attempt that is answered whole.
    pub(super) async fn attempt(&self, order: &Order<'_>) -> Ended {
        let Ready { underway, target, http, limits } = match self.ready(order) {
            Ok(ready) => ready,
            Err(ended) => return *ended,
        };
        let (ended, evidence) = match self.0.outbound.exchange(&target, &http, &limits).await {
            Ok(answer) => {
                let read = self.read(order, |about| wire::read(about, answer.status, &answer.headers, &answer.body));
                let evidence = Evidence { hint: read.hint, scope: read.scope };
                (Ended::of_answer(read, answer.status), evidence)
            }
            Err(error) => (Ended::of_transport(&error), Evidence { hint: None, scope: ParkScope::Model }),
        };
        underway.settle(ended.outcome, evidence);
        ended
    }

    pub(super) fn provider_of(&self, entry: &EntryName) -> &ProviderRule {
        self.0.rules.provider(entry.provider()).expect("chains hold configured entries only")
    }

    /// Where to send what, in the provider's dialect. **Errors:** this build can't speak it.
    fn prepare(&self, order: &Order, attempt: u64) -> Result<(Target, wire::HttpRequest), String> {
        let provider = self.provider_of(order.entry);
        let target = Target::parse(&provider.base_url).map_err(|error| error.to_string())?;
        let key = self.0.keys.get(&provider.name).map(String::as_str);
        let probe = order.call.is_none();
        let http = wire::build(provider, order.entry.model(), order.request, key, attempt, probe)
            .map_err(|error| error.to_string())?;
        Ok((target, http))
    }

    /// Reads an answer with what is known about its provider.
    pub(super) fn read<T>(&self, order: &Order, read: impl FnOnce(&Reading) -> T) -> T {
        let provider = self.provider_of(order.entry);
        let inputs = match order.request {
            Request::Embed(embed) => embed.inputs.len(),
            Request::Chat(_) => 0,
        };
        let about = Reading {
            api: provider.api,
            use_: order.request.use_(),
            model: order.entry.model(),
            inputs,
            dims: provider.dims,
            key_worked: self.0.core.borrow().key_worked.contains(&provider.name),
            now: self.0.ports.clock.wall(),
        };
        read(&about)
    }

    /// The configured limits of an exchange, but the answer must start by `deadline`, and by the trial's.
    fn limits_until(&self, deadline: MonoTime, trial: Option<MonoTime>, stream: bool) -> Limits {
        let left = trial.map_or(deadline, |trial| trial.min(deadline)) - self.now();
        let limits = Limits::of(&self.0.rules.call, stream);
        Limits { connect: limits.connect.min(left), first_byte: limits.first_byte.min(left), ..limits }
    }
}
