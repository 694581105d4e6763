//! One simulated provider: reads a request, asks what is wrong with the world today, waits, answers.
//!
//! The order is fixed: what a fault answers comes first, then what the request itself lacks (key, form, model), then
//! the server's own allowance, then the answer. A refused request takes nothing from the allowance. The time to the
//! first byte is drawn for every request from `provider.NAME.latency`, whatever becomes of it, so that a fault never
//! shifts the latencies of other requests. **Source:** scenario.md; protocols.md C.1, C.2, C.4, C.5.

use super::Exchanges;
use super::answer::Answer;
use super::ask::{Ask, Malformed};
use super::dialect::{Desk, Dialect, Head};
use super::handle::{Call, CallKind, Injected, Judge, Pace};
use super::meter::{Meter, Short};
use super::refusal::{Hint, Refusal};
use super::runner::Runner;
use super::waits::Waits;
use crate::history::{Outside, Recorder};
use crate::scenario::Provider;
use crate::seed::{Seed, Stream};
use crate::world::World;
use crate::world::http::{Body, Reply, Request};
use squall::base::{EntryName, Span, WallTime};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Dimensions of the vectors of a provider that declares none.
const DIMS: u32 = 1_536;

pub struct Server {
    pub(super) provider: Provider,
    pub(super) dialect: Dialect,
    /// Whether callers need a key.
    pub(super) keyed: bool,
    /// The path in front of the API's own.
    pub(super) prefix: String,
    /// From the moment an answer is sent, until nobody can still be on the way who has not read it.
    pub(super) grace: Span,
    pub(super) starts_at: WallTime,
    pub(super) world: World,
    pub(super) judge: Judge,
    pub(super) recorder: Recorder,
    pub(super) exchanges: Exchanges,
    pub(super) state: RefCell<State>,
}

pub struct State {
    latency: Stream,
    requests: u64,
    own: Meter,
    /// Allowances that faults put in place of the server's own, by the fault's line.
    imposed: BTreeMap<u32, Meter>,
    waits: Waits,
    /// Of servers that load their models when they are asked for.
    runner: Option<Runner>,
}

impl State {
    pub fn new(provider: &Provider, seed: &Seed) -> State {
        State {
            latency: seed.stream(&format!("provider.{}.latency", provider.name)),
            requests: 0,
            own: Meter::new(provider.limit, 0),
            imposed: BTreeMap::new(),
            waits: Waits::default(),
            runner: provider
                .cold_start
                .map(|dist| Runner::new(dist, seed.stream(&format!("provider.{}.cold_start", provider.name)))),
        }
    }

    fn meter(&mut self, imposed: Option<u32>) -> &mut Meter {
        match imposed {
            Some(line) => self.imposed.get_mut(&line).expect("made when the request was judged"),
            None => &mut self.own,
        }
    }
}

/// What a request will be answered, decided when it arrives.
enum Plan {
    Injected(Injected),
    NoKey,
    Malformed(Malformed),
    UnknownModel,
    Short(Short),
    /// `flaw`: how a fault spoils it.
    Success {
        ask: Ask,
        flaw: Option<Injected>,
    },
}

impl Server {
    /// Answers one request.
    pub async fn handle(self: Rc<Self>, request: Request) -> Reply {
        let arrived_ms = self.world.now_ms();
        let path = request.path.split('?').next().unwrap_or_default();
        let path = path.strip_prefix(self.prefix.as_str()).unwrap_or(path);
        let head = Head { method: &request.method, path, headers: &request.headers };
        let asked = self.dialect.parse(&head, &request.body, &self.provider.models);
        let model = asked.as_ref().ok().and_then(Ask::model).unwrap_or_default().to_owned();
        let declared = !self.provider.models.is_empty() && !model.is_empty();
        let entry = EntryName::of(&self.provider.name, declared.then_some(model.as_str()));
        let client_request = head.header("x-client-request-id").and_then(|id| id.trim().parse::<u64>().ok());
        let kind = asked.as_ref().map_or(CallKind::Chat { stream: false }, Ask::kind);

        let early = self.state.borrow_mut().waits.early(&entry, arrived_ms);
        self.recorder.outside(Outside::ProviderRequest {
            entry: entry.clone(),
            probe: head.header("user-agent").is_some_and(|agent| agent.contains("probe")),
            early,
            request: client_request,
            stream: kind == CallKind::Chat { stream: true },
        });

        let content = asked.as_ref().map(Ask::content).unwrap_or_default();
        let tokens = asked.as_ref().map_or(0, Ask::tokens);
        let verdict = (self.judge)(&Call {
            host: &self.provider.name,
            model: declared.then_some(model.as_str()),
            kind,
            content: &content,
            tokens,
            now_ms: arrived_ms,
        });

        // What this request is answered is settled now; the server's state is free again while it works on it.
        let (latency, imposed, plan, desk) = {
            let state = &mut *self.state.borrow_mut();
            state.requests += 1;
            let own = self.provider.latency.sample(&mut state.latency);
            let latency = match verdict.slow {
                Some(Pace::Take(span)) => span,
                Some(Pace::Times(factor)) => own.scale(factor),
                None => own,
            };
            let imposed = verdict.allowance.map(|(line, allowance)| {
                state.imposed.entry(line).or_insert_with(|| Meter::new(allowance, arrived_ms));
                line
            });
            let number = state.requests;
            let meter = state.meter(imposed);
            let plan = self.plan(&head, asked, verdict.hit, tokens, meter, arrived_ms);
            let loading = match (&mut state.runner, &plan) {
                (Some(runner), Plan::Success { ask, .. }) if *ask != Ask::List => {
                    runner.wait(&model, arrived_ms, latency)
                }
                (Some(runner), Plan::Injected(Injected::Refusal { refusal: Refusal::RunnerDead, .. })) => {
                    runner.lose(&model);
                    Span::ZERO
                }
                (Some(_) | None, _) => Span::ZERO,
            };
            let latency = latency + loading;
            let meter = state.meter(imposed);
            if let Plan::Success { .. } = plan {
                meter.busy(arrived_ms + latency.ms());
            }
            let (requests, left) = meter.standing();
            let desk = Desk {
                provider: &self.provider.name,
                model: if model.is_empty() { &self.provider.name } else { &model },
                kind,
                cost: tokens,
                number,
                wall_ms: (self.starts_at + Span::from_ms(arrived_ms + latency.ms())).0,
                processing: latency,
                loading,
                requests,
                tokens: left,
            };
            (latency, imposed, plan, desk)
        };

        if let Plan::Injected(Injected::Hang) = plan {
            self.answered(entry, client_request, 0, "hang", None);
            return Reply { status: 200, headers: Vec::new(), body: Body::Never };
        }
        self.world.sleep(latency).await;

        let now_ms = self.world.now_ms();
        let (what, about_the_account, answer) = self.write(&desk, plan);
        if answer.streamed {
            self.state.borrow_mut().meter(imposed).busy(now_ms + answer.duration().ms());
        }
        if let (429, Some(wait_ms)) = (answer.status, answer.wait_ms) {
            let scope = (!about_the_account).then(|| entry.clone());
            self.state.borrow_mut().waits.state(scope, now_ms + self.grace.ms(), now_ms + wait_ms);
        }
        self.answered(entry, client_request, answer.status, what, answer.wait_ms);
        answer.into_reply()
    }

    fn plan(
        &self,
        head: &Head<'_>,
        asked: Result<Ask, Malformed>,
        hit: Option<Injected>,
        tokens: u64,
        meter: &mut Meter,
        now_ms: u64,
    ) -> Plan {
        let flaw = match hit {
            Some(
                injected @ (Injected::Status { .. }
                | Injected::Refusal { .. }
                | Injected::Storm { .. }
                | Injected::Poison
                | Injected::Hang),
            ) => return Plan::Injected(injected),
            Some(flaw @ (Injected::Cut(_) | Injected::StreamError { .. } | Injected::Garbage(_))) => Some(flaw),
            None => None,
        };
        if self.keyed && !self.dialect.has_key(head) {
            return Plan::NoKey;
        }
        let ask = match asked {
            Ok(ask) => ask,
            Err(malformed) => return Plan::Malformed(malformed),
        };
        let known = |model: &str| self.provider.models.iter().any(|own| own == model);
        if !self.provider.models.is_empty() && ask.model().is_some_and(|model| !known(model)) {
            return Plan::UnknownModel;
        }
        if ask != Ask::List
            && let Err(short) = meter.admit(tokens, now_ms)
        {
            return Plan::Short(short);
        }
        Plan::Success { ask, flaw }
    }

    /// The answer, the word for it in the history, and whether it speaks about the whole account.
    fn write(&self, desk: &Desk<'_>, plan: Plan) -> (&'static str, bool, Answer) {
        let with_body = |answer: Answer, body: Option<String>| match body {
            Some(body) => answer.with_body(&body),
            None => answer,
        };
        match plan {
            Plan::Injected(injected) => {
                let what = injected.what();
                match injected {
                    Injected::Status { status, hint, body } => {
                        (what, false, with_body(self.dialect.status(desk, status, &hint), body))
                    }
                    Injected::Refusal { refusal, hint, body } => {
                        let answer = self.dialect.refusal(desk, refusal, &hint);
                        (what, refusal.is_about_the_account(), with_body(answer, body))
                    }
                    Injected::Storm { hint } => (what, false, self.dialect.refusal(desk, Refusal::RateLimited, &hint)),
                    Injected::Poison => (what, false, self.dialect.poison(desk)),
                    Injected::Hang | Injected::Cut(_) | Injected::StreamError { .. } | Injected::Garbage(_) => {
                        unreachable!("a hang is never written, and a flaw stands beside a success")
                    }
                }
            }
            Plan::NoKey => ("no_key", false, self.dialect.refusal(desk, Refusal::Auth, &Hint::None)),
            Plan::Malformed(malformed) => ("malformed", false, self.dialect.malformed(desk, &malformed)),
            Plan::UnknownModel => {
                ("unknown_model", false, self.dialect.refusal(desk, Refusal::ModelNotFound, &Hint::None))
            }
            Plan::Short(short) => ("limit", false, self.dialect.short(desk, short)),
            Plan::Success { ask, flaw } => {
                let dims = self.provider.dims.unwrap_or(DIMS) as usize;
                let garbage = match flaw {
                    Some(Injected::Garbage(garbage)) => Some(garbage),
                    Some(
                        Injected::Status { .. }
                        | Injected::Refusal { .. }
                        | Injected::Storm { .. }
                        | Injected::Poison
                        | Injected::Hang
                        | Injected::Cut(_)
                        | Injected::StreamError { .. },
                    )
                    | None => None,
                };
                let answer = self.dialect.success(desk, &ask, &self.provider.models, dims, garbage);
                let what = flaw.as_ref().map_or("ok", Injected::what);
                let answer = match flaw {
                    Some(Injected::Cut(at)) => answer.cut(at),
                    Some(Injected::StreamError { after_tokens }) => {
                        answer.fail_after(after_tokens, self.dialect.stream_error())
                    }
                    Some(Injected::Garbage(garbage)) => answer.spoil(garbage),
                    Some(
                        Injected::Status { .. }
                        | Injected::Refusal { .. }
                        | Injected::Storm { .. }
                        | Injected::Poison
                        | Injected::Hang,
                    )
                    | None => answer,
                };
                (what, false, answer)
            }
        }
    }

    fn answered(&self, entry: EntryName, request: Option<u64>, status: u16, what: &str, wait_ms: Option<u64>) {
        self.exchanges.count();
        self.recorder.outside(Outside::ProviderAnswered { entry, request, status, what: what.to_owned(), wait_ms });
    }
}
