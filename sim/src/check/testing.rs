//! Hand-written histories for the tests of checks.

use super::{Check, Violation};
use crate::history::{Entry, Outside, What, World};
use squall::base::rules::{Api, ChainRule, ChainUse, ProviderRule};
use squall::base::{Axis, AxisLevels, CallClass, CallOutcome, EntryName, Level, Outcome, Rules};
use squall::event::{Event, OpenWhy, ParkScope, ParkWhy, SCHEMA};

pub trait IntoWhat {
    fn into_what(self) -> What;
}
impl IntoWhat for Event {
    fn into_what(self) -> What {
        What::Engine(self)
    }
}
impl IntoWhat for Outside {
    fn into_what(self) -> What {
        What::Outside(self)
    }
}
impl IntoWhat for World {
    fn into_what(self) -> What {
        What::World(self)
    }
}

/// A history in the making; begins with the start of the run and of an engine with [`rules`], at 0.
#[derive(Clone)]
pub struct Story(Vec<Entry>);

impl Story {
    pub fn new() -> Story {
        Story::with(rules())
    }

    pub fn with(rules: Rules) -> Story {
        let begin = World::RunStarted {
            schema: 1,
            title: "a test".into(),
            seed: 1,
            duration_ms: 3_600_000,
            settle_ms: 600_000,
        };
        Story(Vec::new()).at(0, begin).at(0, started(rules, AxisLevels::NORMAL, false))
    }

    /// A production journal: only the engine speaks.
    pub fn journal(rules: Rules) -> Story {
        Story(Vec::new()).at(0, started(rules, AxisLevels::NORMAL, false))
    }

    pub fn at(mut self, t_ms: u64, what: impl IntoWhat) -> Story {
        assert!(self.0.last().is_none_or(|last| last.t_ms <= t_ms), "a story is told in order, not back to {t_ms}");
        self.0.push(Entry { n: self.0.len() as u64, t_ms, what: what.into_what() });
        self
    }

    pub fn all<W: IntoWhat>(self, t_ms: u64, events: impl IntoIterator<Item = W>) -> Story {
        events.into_iter().fold(self, |story, what| story.at(t_ms, what))
    }

    /// How often there was something to judge, and what was wrong.
    pub fn judge(&self, mut check: impl Check) -> (u64, Vec<Violation>) {
        let mut out = Vec::new();
        for entry in &self.0 {
            check.observe(entry, &mut out);
        }
        check.finish(&mut out);
        (check.judged(), out)
    }

    #[track_caller]
    pub fn accepted(&self, check: impl Check) {
        let (judged, violations) = self.judge(check);
        assert_eq!(violations, [], "expected to be accepted");
        assert!(judged > 0, "saw nothing");
    }

    /// So many violations, the first of which says `part`.
    #[track_caller]
    pub fn judge_rejects(&self, check: impl Check, count: usize, part: &str) {
        let (_, violations) = self.judge(check);
        assert_eq!(violations.len(), count, "{violations:#?}");
        assert!(violations[0].what.contains(part), "{:?} does not say {part:?}", violations[0].what);
    }

    /// Exactly one violation, whose sentence contains `part`.
    #[track_caller]
    pub fn rejected(&self, check: impl Check, part: &str) {
        let (judged, violations) = self.judge(check);
        assert!(judged > 0, "saw nothing");
        assert_eq!(violations.len(), 1, "expected one violation: {violations:#?}");
        assert!(violations[0].what.contains(part), "{:?} does not say {part:?}", violations[0].what);
    }

    #[track_caller]
    pub fn unjudged(&self, check: impl Check) {
        assert_eq!(self.judge(check), (0, Vec::new()));
    }
}

pub fn started(rules: Rules, levels: AxisLevels, resumed: bool) -> Event {
    let rules = Box::new(rules);
    Event::EngineStarted { schema: SCHEMA, incarnation: 1, resumed, version: "test".into(), levels, rules }
}

/// Chat over alpha, beta and gamma; embeddings at embed; vectors in store.
pub fn rules() -> Rules {
    let provider = |name: &str, api| ProviderRule {
        name: name.into(),
        api,
        base_url: format!("http://{name}"),
        key_env: String::new(),
        models: vec![],
        local: false,
        enabled: true,
        dims: None,
    };
    let chain = |name: &str, use_, entries: &[&str]| ChainRule {
        name: name.into(),
        use_,
        entries: entries.iter().map(|entry| (*entry).to_owned()).collect(),
        essential: false,
    };
    Rules {
        providers: vec![
            provider("alpha", Api::Openai),
            provider("beta", Api::Anthropic),
            provider("gamma", Api::Mistral),
            provider("embed", Api::Openai),
            provider("store", Api::Qdrant),
        ],
        chains: vec![
            chain("chat", ChainUse::Chat, &["alpha", "beta", "gamma"]),
            chain("embedding", ChainUse::Embedding, &["embed"]),
        ],
        ..Rules::default()
    }
}

pub fn name(entry: &str) -> EntryName {
    EntryName::new(entry)
}

pub fn called(call: u64) -> Event {
    Event::CallStarted { call, chain: "chat".into(), class: CallClass::Foreground, stream: false }
}

pub fn over(call: u64, attempts: u32) -> Event {
    Event::CallFinished { call, outcome: CallOutcome::Ok, entry: None, attempts, earliest_ms: None }
}

pub fn sent(entry: &str, attempt: u64, call: u64) -> Event {
    Event::AttemptSent { call: Some(call), entry: name(entry), attempt, probe: false, trial: false, retry: false }
}

pub fn probed(entry: &str, attempt: u64) -> Event {
    Event::AttemptSent { call: None, entry: name(entry), attempt, probe: true, trial: true, retry: false }
}

pub fn ended(entry: &str, attempt: u64, call: u64, outcome: Outcome) -> Event {
    finished(entry, attempt, Some(call), outcome)
}

pub fn probe_ended(entry: &str, attempt: u64, outcome: Outcome) -> Event {
    finished(entry, attempt, None, outcome)
}

fn finished(entry: &str, attempt: u64, call: Option<u64>, outcome: Outcome) -> Event {
    let probe = call.is_none();
    Event::AttemptFinished { call, entry: name(entry), attempt, probe, outcome, hint_ms: None, late: false }
}

pub fn opened(entry: &str, trips: u32, until_ms: u64, why: OpenWhy) -> Event {
    Event::BreakerOpened { entry: name(entry), trips, until_ms, why }
}

pub fn half_open(entry: &str, by_probe: bool) -> Event {
    Event::BreakerHalfOpen { entry: name(entry), by_probe }
}

pub fn closed(entry: &str) -> Event {
    Event::BreakerClosed { entry: name(entry) }
}

pub fn parked(entry: &str, until_ms: u64, hint_ms: Option<u64>) -> Event {
    let (scope, why) = (ParkScope::Model, ParkWhy::Throttled);
    Event::ParkStarted { entry: name(entry), scope, until_ms, hint_ms, why }
}

pub fn unparked(entry: &str) -> Event {
    Event::ParkEnded { entry: name(entry) }
}

pub fn measured(axis: Axis, level: Level) -> Event {
    Event::AxisMeasured { axis, level }
}

/// With the legacy level of a system in which only `axis` moves.
pub fn changed(axis: Axis, was: Level, to: Level) -> Event {
    let mut levels = AxisLevels::NORMAL;
    levels.set(axis, to);
    let legacy = crate::model::legacy::legacy(&levels);
    Event::AxisChanged { axis, was, to, measured: to, legacy, cause: "test".into() }
}

pub fn suppressed(axis: Axis, was: Level, to: Level) -> Event {
    Event::AxisSuppressed { axis, was, to, cause: "test".into() }
}

pub fn held(axis: Axis, until_ms: u64, restarted: bool) -> Event {
    Event::HoldStarted { axis, until_ms, restarted }
}

pub fn released(axis: Axis) -> Event {
    Event::HoldEnded { axis }
}
