//! Which faults are active right now, and what they do to one request.
//!
//! Every active fault that a request concerns draws for itself, whatever the others do, from its own stream
//! `fault.LINE`: taking a fault out of a drill shifts the draws of no other. Of those that hit, the first in file
//! order answers; `slow` answers nothing, it sets the pace of whatever answers; `limit` changes the allowance.
//! Over 400 lines, most of them tests, and the small drill that they share with other files' tests.
//! **Source:** scenario.md, "Faults that overlap draw each for itself".

use super::{answers, limits, network};
use crate::provider::dialect::Dialect;
use crate::provider::{Call, Judge, Meter, Refusal, Verdict};
use crate::scenario::{Drill, Errors, Fault, FaultKind, Pick, Target};
use crate::seed::{Seed, Stream};
use crate::world::LinkRule;
use squall::base::rules::ChainUse;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Cheap to clone; all clones are the same board.
#[derive(Clone)]
pub struct Board(Rc<RefCell<Vec<Armed>>>);

/// One fault of the drill, ready to act.
pub struct Armed {
    pub fault: Fault,
    /// What it does while it is active: for a flap, what the flap is of.
    pub acts: FaultKind,
    /// Hosts, each with the models that are meant; `None`: all of it.
    pub reach: Vec<(String, Option<String>)>,
    pub stream: Stream,
    pub active: bool,
    /// Requests that it looked at, for `every_nth`.
    pub seen: u64,
    /// What a storm lets through, by host.
    pub capacity: BTreeMap<String, Meter>,
}

/// Why a drill's fault cannot be injected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    #[error("line {line}: a fault of the network hits the whole link, it has neither `share` nor `every_nth`")]
    PartOfALink { line: u32 },
    #[error("line {line}: {name:?} is no refusal of all whom it is aimed at")]
    Refusal { line: u32, name: String },
}

impl Board {
    /// All faults of the drill, none of them active.
    ///
    /// **Errors:** [`FaultError`], for a fault that would do something other than what is written.
    pub fn new(drill: &Drill, seed: &Seed) -> Result<Board, FaultError> {
        let armed = drill.faults.iter().map(|fault| Armed {
            acts: if let FaultKind::Flap { of, .. } = &fault.kind { (**of).clone() } else { fault.kind.clone() },
            reach: reach(drill, &fault.targets),
            stream: seed.stream(&format!("fault.{}", fault.line)),
            active: false,
            seen: 0,
            capacity: BTreeMap::new(),
            fault: fault.clone(),
        });
        let armed: Vec<Armed> = armed.collect();
        for armed in &armed {
            let line = armed.fault.line;
            if network::is_network(&armed.acts) && armed.fault.pick != Pick::All {
                return Err(FaultError::PartOfALink { line });
            }
            if let FaultKind::Errors(Errors { error: Some(name), .. }) = &armed.acts
                && !is_known(name, &armed.reach, drill)
            {
                return Err(FaultError::Refusal { line, name: name.clone() });
            }
        }
        Ok(Board(Rc::new(RefCell::new(armed))))
    }

    /// For the servers, who ask it about every request.
    pub fn judge(&self) -> Judge {
        let board = self.clone();
        Rc::new(move |call| board.verdict(call))
    }

    pub fn verdict(&self, call: &Call<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        for armed in self.0.borrow_mut().iter_mut().filter(|armed| armed.active && armed.concerns(call)) {
            if let FaultKind::Limit(allowance) = armed.acts {
                verdict.allowance.get_or_insert((armed.fault.line, allowance));
                continue;
            }
            if !answers::applies(&armed.acts, call) || !armed.picks() {
                continue;
            }
            if let Some(pace) = answers::pace(&armed.acts, &mut armed.stream) {
                verdict.slow.get_or_insert(pace);
                continue;
            }
            // Drawn and counted even if an earlier fault has answered already: each fault lives its own life.
            if let Some(limited) = limits::session(armed, call) {
                verdict.limited.get_or_insert(limited);
                continue;
            }
            let injected = limits::storm(armed, call).or_else(|| answers::inject(&armed.acts, &mut armed.stream));
            verdict.hit = verdict.hit.or(injected);
        }
        verdict
    }

    /// How many faults there are.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(super) fn with<T>(&self, index: usize, act: impl FnOnce(&mut Armed) -> T) -> T {
        act(&mut self.0.borrow_mut()[index])
    }

    /// Switches a fault on or off; the hosts whose links may have changed with it.
    pub(super) fn switch(&self, index: usize, on: bool) -> BTreeSet<String> {
        let mut faults = self.0.borrow_mut();
        let armed = &mut faults[index];
        assert!(armed.active != on, "fault of line {} is switched {on} twice", armed.fault.line);
        armed.active = on;
        if network::is_network(&armed.acts) {
            armed.reach.iter().map(|(host, _)| host.clone()).collect()
        } else {
            BTreeSet::new()
        }
    }

    /// The state of the link to `host` under everything that is active.
    pub(super) fn link(&self, host: &str) -> LinkRule {
        let faults = self.0.borrow();
        let active = faults.iter().filter(|armed| armed.active && armed.reach.iter().any(|(own, _)| own == host));
        network::combine(active.map(|armed| &armed.acts))
    }
}

impl Armed {
    fn concerns(&self, call: &Call<'_>) -> bool {
        self.reach
            .iter()
            .any(|(host, model)| host == call.host && model.as_deref().is_none_or(|model| call.model == Some(model)))
    }

    fn picks(&mut self) -> bool {
        self.seen += 1;
        match self.fault.pick {
            Pick::All => true,
            Pick::Share(share) => self.stream.chance(share),
            Pick::EveryNth(n) => n > 0 && self.seen.is_multiple_of(u64::from(n)),
        }
    }
}

/// Whether all these hosts have words for the refusal. Channels speak as OpenAI does.
fn is_known(name: &str, reach: &[(String, Option<String>)], drill: &Drill) -> bool {
    let Some(refusal) = Refusal::from_name(name) else { return false };
    reach.iter().all(|(host, _)| {
        let provider = drill.providers.iter().find(|provider| provider.name == *host);
        let dialect = provider.map_or(Some(Dialect::Openai), |provider| Dialect::of(provider.api));
        dialect.is_none_or(|dialect| dialect.knows(refusal))
    })
}

/// The hosts, and models on them, that the targets mean in this drill. "llm" and "embedding" mean whole providers,
/// also where a provider stands in chains of both kinds.
fn reach(drill: &Drill, targets: &[Target]) -> Vec<(String, Option<String>)> {
    let of_chains = |use_: ChainUse| {
        let chains = drill.rules.chains.iter().filter(move |chain| chain.use_ == use_);
        chains.flat_map(|chain| drill.rules.entries(chain)).map(|entry| entry.provider().to_owned())
    };
    let channels = || drill.channels.iter().map(|channel| channel.name.clone());
    let webhook = || {
        let is_webhook = |api| api == crate::scenario::ServerApi::Webhook;
        drill.providers.iter().filter(move |provider| is_webhook(provider.api)).map(|provider| provider.name.clone())
    };
    let mut reach = BTreeSet::new();
    for target in targets {
        match target {
            Target::Provider(name) | Target::Channel(name) => _ = reach.insert((name.clone(), None)),
            Target::Model { provider, model } => _ = reach.insert((provider.clone(), Some(model.clone()))),
            Target::Llm => reach.extend(of_chains(ChainUse::Chat).map(|name| (name, None))),
            Target::Embedding => reach.extend(of_chains(ChainUse::Embedding).map(|name| (name, None))),
            Target::Internet => {
                let remote = drill.providers.iter().filter(|provider| !provider.local);
                reach.extend(remote.map(|provider| (provider.name.clone(), None)));
                reach.extend(channels().map(|name| (name, None)));
            }
            Target::Webhook => reach.extend(webhook().map(|name| (name, None))),
            Target::Engine => {} // The machine's own: no request meets it.
        }
    }
    reach.into_iter().collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::provider::{CallKind, Hint, Injected};
    use crate::scenario::{Allowance, Garbage, Provider, ServerApi, Slow};
    use crate::scenario::{Channel, Dist};
    use squall::base::rules::{Api, ChainRule, ProviderRule};
    use squall::base::{Rules, Span, WallTime};

    pub fn fault(line: u32, kind: FaultKind, target: Target, pick: Pick) -> Fault {
        Fault {
            line,
            name: None,
            kind_text: "fault".into(),
            target_text: vec!["target".into()],
            kind,
            targets: vec![target],
            at: Span::ZERO,
            lasts: Span::from_mins(5),
            pick,
        }
    }

    /// Two cloud providers, a local one for embeddings, a channel.
    pub fn drill(faults: Vec<Fault>) -> Drill {
        let provider = |name: &str, local| Provider {
            line: 1,
            name: name.into(),
            api: ServerApi::Openai,
            latency: Dist::Fixed(Span::from_ms(100)),
            models: Vec::new(),
            limit: Allowance::default(),
            dims: Some(8),
            local,
            cold_start: None,
        };
        let rule = |name: &str, local| ProviderRule {
            name: name.into(),
            api: Api::Openai,
            base_url: format!("http://{name}:80"),
            key_env: String::new(),
            models: Vec::new(),
            local,
            enabled: true,
            dims: Some(8),
        };
        let chain = |name: &str, use_, entries: &[&str]| ChainRule {
            name: name.into(),
            use_,
            entries: entries.iter().map(|entry| (*entry).to_owned()).collect(),
            essential: true,
        };
        let rules = Rules {
            providers: vec![rule("openai", false), rule("other", false), rule("local", true)],
            chains: vec![
                chain("default", ChainUse::Chat, &["openai", "other"]),
                chain("vectors", ChainUse::Embedding, &["local"]),
            ],
            ..Rules::default()
        };
        Drill {
            file: "test.toml".into(),
            title: "test".into(),
            about: String::new(),
            source: Vec::new(),
            assumed: Vec::new(),
            starts_at: WallTime(1_699_450_980_000),
            duration: Span::from_mins(5),
            settle: Span::from_mins(1),
            seed: 1,
            require: Vec::new(),
            rules,
            providers: vec![provider("openai", false), provider("other", false), provider("local", true)],
            channels: vec![Channel { line: 2, name: "chat".into(), latency: Dist::Fixed(Span::from_ms(200)) }],
            loads: Vec::new(),
            faults,
            expects: Vec::new(),
        }
    }

    pub fn errors(status: &[u16]) -> FaultKind {
        FaultKind::Errors(Errors { status: status.to_vec(), error: None, retry_after: None, body: None })
    }

    fn board(faults: Vec<Fault>) -> Board {
        let board = Board::new(&drill(faults), &Seed::new(9)).unwrap();
        (0..board.len()).for_each(|index| _ = board.switch(index, true));
        board
    }

    fn call<'a>(host: &'a str, model: Option<&'a str>, content: &'a str) -> Call<'a> {
        Call { host, model, kind: CallKind::Chat { stream: false }, content, tokens: 1, now_ms: 0 }
    }

    fn openai() -> Target {
        Target::Provider("openai".into())
    }

    /// The statuses that 200 requests to openai get; 0: no fault answered.
    fn statuses(board: &Board) -> Vec<u16> {
        let status = |_| match board.verdict(&call("openai", None, "hi")).hit {
            Some(Injected::Status { status, .. }) => status,
            other => {
                assert_eq!(other, None);
                0
            }
        };
        (0..200).map(status).collect()
    }

    #[test]
    fn a_fault_never_shifts_the_draws_of_another() {
        let half = |line| fault(line, errors(&[501, 502, 503]), openai(), Pick::Share(0.5));
        let alone = statuses(&board(vec![half(31)]));
        // Behind another fault it answers only where that one does not, and then with the same draw.
        let both = statuses(&board(vec![fault(20, errors(&[599]), openai(), Pick::Share(0.3)), half(31)]));
        assert!(both.contains(&599) && both.contains(&502));
        for (alone, both) in alone.iter().zip(&both) {
            assert!(both == alone || *both == 599, "{alone} became {both}");
        }
        // In front of others it answers as if they were not there.
        let before = statuses(&board(vec![half(31), fault(40, errors(&[599]), openai(), Pick::All)]));
        for (alone, before) in alone.iter().zip(&before) {
            assert_eq!(*before, if *alone == 0 { 599 } else { *alone });
        }
    }

    #[test]
    fn a_share_is_met_and_every_nth_is_exact() {
        let hit = |pick| statuses(&board(vec![fault(5, errors(&[500]), openai(), pick)]));
        let shared = hit(Pick::Share(0.25)).iter().filter(|status| **status == 500).count();
        assert!((35..=65).contains(&shared), "{shared} of 200");
        let nth = hit(Pick::EveryNth(3));
        assert!(nth.iter().enumerate().all(|(i, status)| (*status == 500) == ((i + 1) % 3 == 0)));
    }

    #[test]
    fn a_fault_is_nothing_before_it_is_switched_on() {
        let board = Board::new(&drill(vec![fault(5, FaultKind::Hang, openai(), Pick::All)]), &Seed::new(9)).unwrap();
        assert_eq!(board.verdict(&call("openai", None, "hi")), Verdict::default());
        board.switch(0, true);
        assert_eq!(board.verdict(&call("openai", None, "hi")).hit, Some(Injected::Hang));
        board.switch(0, false);
        assert_eq!(board.verdict(&call("openai", None, "hi")), Verdict::default());
    }

    #[test]
    fn targets_mean_the_hosts_of_their_drill() {
        let hits = |target: Target| {
            let board = board(vec![fault(5, FaultKind::Hang, target, Pick::All)]);
            let hosts = ["openai", "other", "local", "chat"];
            hosts.into_iter().filter(|host| board.verdict(&call(host, None, "")).hit.is_some()).collect::<Vec<_>>()
        };
        assert_eq!(hits(Target::Llm), ["openai", "other"]);
        assert_eq!(hits(Target::Embedding), ["local"]);
        assert_eq!(hits(Target::Internet), ["openai", "other", "chat"]);
        assert_eq!(hits(Target::Channel("chat".into())), ["chat"]);
        assert_eq!(hits(Target::Provider("local".into())), ["local"]);
    }

    #[test]
    fn a_model_is_hit_alone() {
        let model = Target::Model { provider: "openai".into(), model: "gpt-4".into() };
        let board = board(vec![fault(5, FaultKind::Hang, model, Pick::All)]);
        assert!(board.verdict(&call("openai", Some("gpt-4"), "")).hit.is_some());
        assert!(board.verdict(&call("openai", Some("mini"), "")).hit.is_none());
        assert!(board.verdict(&call("openai", None, "")).hit.is_none());
    }

    #[test]
    fn faults_do_nothing_where_they_make_no_sense() {
        let board = board(vec![
            fault(5, FaultKind::Poison { text: "xyzzy".into() }, openai(), Pick::All),
            fault(6, FaultKind::StreamError { after_tokens: 1 }, openai(), Pick::All),
            fault(7, FaultKind::Garbage(Garbage::Nan), openai(), Pick::All),
        ]);
        let verdict = |kind, content| board.verdict(&Call { kind, ..call("openai", None, content) }).hit;
        assert_eq!(verdict(CallKind::Chat { stream: false }, "hi"), None);
        assert_eq!(verdict(CallKind::Chat { stream: false }, "say xyzzy"), Some(Injected::Poison));
        assert_eq!(verdict(CallKind::Chat { stream: true }, "hi"), Some(Injected::StreamError { after_tokens: 1 }));
        assert_eq!(verdict(CallKind::Embedding, "hi"), Some(Injected::Garbage(Garbage::Nan)));
    }

    #[test]
    fn a_slow_server_is_slow_with_whatever_it_answers() {
        let slow = FaultKind::Slow(Slow::Latency(Dist::Fixed(Span::from_secs(40))));
        let board = board(vec![fault(5, slow, openai(), Pick::All), fault(6, errors(&[500]), openai(), Pick::All)]);
        let verdict = board.verdict(&call("openai", None, "hi"));
        assert_eq!(verdict.slow, Some(crate::provider::Pace::Take(Span::from_secs(40))));
        assert!(matches!(verdict.hit, Some(Injected::Status { status: 500, .. })));
    }

    #[test]
    fn a_storm_lets_its_capacity_through() {
        let storm = FaultKind::Storm {
            retry_after: None,
            capacity: Some(Allowance { requests_per_minute: Some(10), ..Allowance::default() }),
        };
        let board = board(vec![fault(5, storm, Target::Llm, Pick::All)]);
        let hits = |host, now_ms| {
            let verdict = |_| board.verdict(&Call { now_ms, ..call(host, None, "hi") }).hit;
            (0..30).map(verdict).filter(Option::is_some).count()
        };
        assert_eq!(hits("openai", 0), 20);
        assert_eq!(hits("other", 0), 20, "each host has its own");
        assert_eq!(hits("openai", 30_000), 25);
        let verdict = board.verdict(&Call { now_ms: 30_000, ..call("openai", None, "hi") });
        assert_eq!(verdict.hit, Some(Injected::Storm { hint: Hint::None }));
    }

    #[test]
    fn a_limit_replaces_the_allowance_and_the_first_in_the_file_counts() {
        let limit = |n| FaultKind::Limit(Allowance { concurrent: Some(n), ..Allowance::default() });
        let board = board(vec![fault(5, limit(2), openai(), Pick::All), fault(6, limit(9), openai(), Pick::All)]);
        let verdict = board.verdict(&call("openai", None, "hi"));
        assert_eq!(verdict.allowance, Some((5, Allowance { concurrent: Some(2), ..Allowance::default() })));
        assert_eq!(verdict.hit, None);
    }

    #[test]
    fn a_link_is_healthy_again_when_its_last_fault_ends() {
        let faults = vec![
            fault(5, FaultKind::Refuse, Target::Internet, Pick::All),
            fault(6, FaultKind::Dns, openai(), Pick::All),
        ];
        let board = Board::new(&drill(faults), &Seed::new(9)).unwrap();
        assert_eq!(board.switch(0, true).into_iter().collect::<Vec<_>>(), ["chat", "openai", "other"]);
        board.switch(1, true);
        let rule = |refuse, dns| LinkRule { refuse, dns, ..LinkRule::default() };
        assert_eq!(board.link("openai"), rule(true, true));
        assert_eq!(board.link("other"), rule(true, false));
        board.switch(0, false);
        assert_eq!(board.link("openai"), rule(false, true));
        assert_eq!(board.link("other"), LinkRule::default());
    }

    #[test]
    fn a_fault_that_would_do_something_else_than_what_is_written_is_refused() {
        let of = |fault| Board::new(&drill(vec![fault]), &Seed::new(9)).err();
        let half = fault(5, FaultKind::Refuse, openai(), Pick::Share(0.5));
        assert_eq!(of(half), Some(FaultError::PartOfALink { line: 5 }));
        let named = |name: &str| Errors { status: Vec::new(), error: Some(name.into()), retry_after: None, body: None };
        for name in crate::scenario::vocabulary::REFUSALS {
            let wrong = (*name == "runner_dead").then(|| FaultError::Refusal { line: 5, name: (*name).into() });
            assert_eq!(of(fault(5, FaultKind::Errors(named(name)), openai(), Pick::All)), wrong, "{name}");
        }
        let unknown = fault(5, FaultKind::Errors(named("grumpy")), openai(), Pick::All);
        assert_eq!(of(unknown), Some(FaultError::Refusal { line: 5, name: "grumpy".into() }));
    }
}
