//! Everything the engine knows and decides on, in memory: gates, axes, budgets, advisory. No I/O, no clock.
//!
//! Each method is one decision: it moves machines and appends to `events`, in order. [`Inner::decide`](super::Inner)
//! stamps and stores what came of it. What must survive a restart is saved with the next commit ([`Core::save`]).
//! **Source:** engine.md 2.1 (when levels are measured), 3, 10.

use crate::advisory::{Health, HealthChange, Told};
use crate::axis::{self, Axes, AxisEffect, Facts, History, Measured};
use crate::base::rules::{ChainUse, ProviderRule};
use crate::base::{Axis, AxisLevels, EntryName, ItemStatus, Level, MonoTime, Outcome, Rules, WallTime};
use crate::breaker::{Ask, Evidence, Gate, GateEffect, GateRules, Permit, Refusal};
use crate::chain::{PoisonWatch, RetryBudget};
use crate::event::{Event, HealthState, ParkScope};
use crate::notice::Notices;
use crate::session::{Sessions, Waiting};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Poison calls remembered: far more than can be in flight.
const POISONED_MAX: usize = 256;

/// One entry: its gate, and what it is asked for.
pub struct Entry {
    pub gate: Gate,
    pub rules: GateRules,
    pub provider: ProviderRule,
    /// Of the first chain it stands in; what a probe asks for.
    pub use_: ChainUse,
    /// Its breaker moves the cloud axis.
    pub counted: bool,
}

/// A chain with its entries resolved.
pub struct Chain {
    pub use_: ChainUse,
    pub name: String,
    /// ESSENTIAL looks at it.
    pub essential: bool,
    pub entries: Vec<EntryName>,
}

/// One stretch of an axis below its baseline.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Episode {
    pub axis: Axis,
    pub cause: String,
    pub failing_since: MonoTime,
    /// Breakers that opened during it.
    pub trips: u32,
}

/// What a decision leads to beside its events.
#[derive(Clone, Copy, Debug, Default)]
pub struct FollowUps {
    /// The next machine deadline is another one.
    pub timer: bool,
    /// Some entry may want a probe.
    pub probe: bool,
    /// A slot may be free.
    pub gate: bool,
    /// Applied levels or holds changed.
    pub levels: bool,
    /// Somebody has to be told something.
    pub people: bool,
}

pub struct Core {
    pub rules: Rc<Rules>,
    pub entries: BTreeMap<EntryName, Entry>,
    pub chains: Vec<Chain>,
    pub axes: Axes,
    pub history: History,
    pub measured: Measured,
    pub baseline: AxisLevels,
    pub episodes: BTreeMap<Axis, Episode>,
    pub sessions: Sessions,
    pub waiting: Waiting,
    pub budget: RetryBudget,
    pub poison: PoisonWatch,
    pub health: Health,
    pub told: Told,
    /// What people are told, and about what.
    pub notices: Notices,
    /// The last transition that the webhook is done with; `None`: there is no webhook.
    pub posted: Option<u64>,
    /// Providers that answered with a success at least once: a 401 of theirs is their fault.
    pub key_worked: BTreeSet<String>,
    pub bad_keys: BTreeSet<String>,
    /// Deferred items by status; kept from the events of commits.
    pub counts: BTreeMap<ItemStatus, u64>,
    pub llm_dead_letters: u32,
    /// How often in a row an unfinished item was given back: what its rest grows with.
    pub rests: BTreeMap<u64, u32>,
    /// The call of an item's last run that was not answered: a verdict on it may come later than the run's end.
    pub unanswered: BTreeMap<u64, u64>,
    /// The newest calls that were found to be poison.
    pub poisoned: VecDeque<u64>,
    /// The last real error of an embedding call: the evidence when the next one is refused here.
    pub embedding_error: Option<String>,
    pub wall: WallTime,
    pub events: Vec<Event>,
    /// Some chain had no serving entry when last looked at.
    pub chains_down: bool,
    /// A probe round is under way: what it closes is one improvement, at its end.
    pub in_round: bool,
    pub(super) follows: FollowUps,
    pub(super) told_due: Option<MonoTime>,
    pub(super) dirty: Dirty,
}

/// What the next commit has to save.
#[derive(Clone, Debug, Default)]
pub(super) struct Dirty {
    pub axes: bool,
    pub keys: bool,
    pub advisory: bool,
    pub sessions: bool,
    pub people: bool,
    pub entries: BTreeSet<EntryName>,
}

impl Core {
    pub fn levels(&self) -> AxisLevels {
        self.axes.levels()
    }

    pub fn follow_ups(&mut self) -> FollowUps {
        let due = self.due();
        if due != self.told_due {
            self.told_due = due;
            self.follows.timer = true;
        }
        std::mem::take(&mut self.follows)
    }

    /// The next machine deadline.
    pub fn due(&self) -> Option<MonoTime> {
        let gates = self.entries.values().filter_map(|entry| entry.gate.due(&entry.rules));
        let axes = Axis::ALL.into_iter().filter_map(|axis| self.axes.get(axis).due());
        gates.chain(axes).chain(self.notices.due()).min()
    }

    /// Does what is due: breakers, trials, parks, holds; then measures.
    pub fn timer(&mut self, now: MonoTime) {
        // What was told is over: whatever comes next is news to the timer.
        self.told_due = None;
        let due: Vec<EntryName> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.gate.due(&entry.rules).is_some_and(|due| due <= now))
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            let entry = self.entries.get_mut(&name).expect("the name was just read from there");
            let effects = entry.gate.timer(now, &entry.rules);
            self.gate_moved(&name, &effects, now);
        }
        self.measure(now);
        self.notices_due(now);
    }

    /// Asks an entry's gate for an attempt, and notes that it is sent.
    pub fn admit(
        &mut self,
        name: &EntryName,
        ask: Ask,
        call: Option<u64>,
        retry: bool,
        now: MonoTime,
    ) -> Result<Permit, Refusal> {
        let entry = self.entries.get_mut(name).expect("chains hold configured entries only");
        let permit = entry.gate.admit(ask, now, &entry.rules)?;
        if call.is_some() && retry {
            self.budget.record_retry(name.provider(), now);
        } else if call.is_some() {
            self.budget.record_call(name.provider(), now);
        }
        self.events.push(Event::AttemptSent {
            call,
            entry: name.clone(),
            attempt: ask.attempt,
            probe: ask.probe,
            trial: permit.is_trial(),
            retry,
        });
        Ok(permit)
    }

    /// The first token of a streamed attempt came.
    pub fn first_token(&mut self, name: &EntryName, permit: &mut Permit, call: Option<u64>, now: MonoTime) {
        let entry = self.entries.get_mut(name).expect("a permit names a configured entry");
        let settled = entry.gate.first_token(permit, now, &entry.rules);
        let attempt = permit.attempt();
        self.events.push(Event::AttemptFirstToken { call, entry: name.clone(), attempt });
        self.gate_moved(name, &settled.effects, now);
        self.key_works(name.provider());
        self.measure(now);
    }

    /// An attempt ended.
    pub fn settle(
        &mut self,
        name: &EntryName,
        permit: Permit,
        call: Option<u64>,
        outcome: Outcome,
        evidence: Evidence,
        now: MonoTime,
    ) {
        let attempt = permit.attempt();
        let probe = permit.is_probe();
        let entry = self.entries.get_mut(name).expect("a permit names a configured entry");
        let host = entry.provider.base_url.clone();
        let settled = entry.gate.settle(permit, outcome, evidence, now, &entry.rules);
        self.events.push(Event::AttemptFinished {
            call,
            entry: name.clone(),
            attempt,
            probe,
            outcome,
            hint_ms: evidence.hint.map(|hint| hint.ms()),
            late: settled.late,
        });
        self.follows.gate = true;
        // A success of an entry that serves anyway need not survive a restart: it would be a write per call.
        if outcome != Outcome::Success || !self.entries.get(name).is_some_and(|entry| entry.gate.serves()) {
            self.dirty.entries.insert(name.clone());
        }
        self.gate_moved(name, &settled.effects, now);
        match outcome {
            Outcome::Success => {
                self.key_works(name.provider());
                let blamed = self.poison.answered(call, &host, now);
                for blame in blamed {
                    self.blame(blame);
                }
            }
            Outcome::ProviderFault => {
                if let Some(call) = call {
                    self.poison.failed(call, &host, name, attempt, now);
                }
            }
            Outcome::BadKey => self.disable(name.provider(), "the key was refused and never worked"),
            Outcome::Overloaded
            | Outcome::Throttled
            | Outcome::Quota
            | Outcome::CallersFault
            | Outcome::Unfit
            | Outcome::Refused
            | Outcome::Cancelled => {}
        }
    }

    fn blame(&mut self, blame: crate::chain::Blame) {
        let mut entries: Vec<EntryName> = Vec::new();
        for (name, attempt) in &blame.failures {
            if let Some(entry) = self.entries.get_mut(name) {
                entry.gate.forgive(&[*attempt]);
                self.dirty.entries.insert(name.clone());
            }
            if !entries.contains(name) {
                entries.push(name.clone());
            }
        }
        self.poisoned.push_back(blame.call);
        if self.poisoned.len() > POISONED_MAX {
            self.poisoned.pop_front();
        }
        self.events.push(Event::CallPoison { call: blame.call, entries });
    }

    fn key_works(&mut self, provider: &str) {
        if !self.key_worked.contains(provider) {
            self.key_worked.insert(provider.to_owned());
            self.dirty.keys = true;
        }
    }

    fn disable(&mut self, provider: &str, why: &str) {
        if !self.bad_keys.insert(provider.to_owned()) {
            return;
        }
        for (name, entry) in &mut self.entries {
            if name.provider() == provider {
                entry.gate.set_enabled(false);
            }
        }
        self.events.push(Event::ProviderDisabled { provider: provider.to_owned(), why: why.to_owned() });
        self.look_at_chains();
    }

    /// Takes note of what an entry's gate did: events, siblings of a wider park, chains without a serving entry.
    pub(super) fn gate_moved(&mut self, name: &EntryName, effects: &[GateEffect], now: MonoTime) {
        if effects.is_empty() {
            // Without an effect a gate may still have come to serve: the third answer after a park.
            self.look_at_chains();
            return;
        }
        self.dirty.entries.insert(name.clone());
        self.follows.gate = true;
        self.follows.probe = true;
        for effect in effects {
            self.events.push(effect.event(name));
            match effect {
                GateEffect::ParkStarted { order, .. } if order.scope != ParkScope::Model => {
                    for sibling in self.siblings(name, order.scope) {
                        let entry = self.entries.get_mut(&sibling).expect("siblings are configured entries");
                        let shared = entry.gate.share_park(*order, now);
                        for effect in shared {
                            self.events.push(effect.event(&sibling));
                        }
                        self.dirty.entries.insert(sibling);
                    }
                }
                GateEffect::BreakerOpened { trips, why, .. } => {
                    self.tell_of_trip(name, *why, now);
                    for episode in self.episodes.values_mut().filter(|_| *trips > 0) {
                        episode.trips += 1;
                    }
                }
                GateEffect::BreakerClosed => self.tell_of_closing(name),
                GateEffect::BreakerHalfOpen { .. } | GateEffect::ParkStarted { .. } | GateEffect::ParkEnded => {}
            }
        }
        self.look_at_chains();
    }

    /// The other entries that a park of this scope speaks about.
    fn siblings(&self, name: &EntryName, scope: ParkScope) -> Vec<EntryName> {
        let key = self.entries.get(name).map_or("", |entry| entry.provider.key_env.as_str());
        self.entries
            .iter()
            .filter(|(other, _)| *other != name)
            .filter(|(other, entry)| match scope {
                ParkScope::Model => false,
                ParkScope::Provider => other.provider() == name.provider(),
                ParkScope::Account => {
                    other.provider() == name.provider() || (!key.is_empty() && entry.provider.key_env == key)
                }
            })
            .map(|(other, _)| other.clone())
            .collect()
    }

    /// Tells each gate whether some chain of its entry has no serving entry.
    pub(super) fn look_at_chains(&mut self) {
        let down: BTreeSet<EntryName> = self
            .chains
            .iter()
            .filter(|chain| !self.chain_serves(chain))
            .flat_map(|chain| chain.entries.iter().cloned())
            .collect();
        if down.is_empty() && !self.chains_down {
            return;
        }
        self.chains_down = !down.is_empty();
        for (name, entry) in &mut self.entries {
            entry.gate.set_chain_down(down.contains(name));
        }
        self.follows.probe = true;
    }

    pub fn chain_serves(&self, chain: &Chain) -> bool {
        chain.entries.iter().any(|name| self.entries.get(name).is_some_and(|entry| entry.gate.serves()))
    }

    fn facts(&self, now: MonoTime) -> Facts {
        let cc = self.sessions.condition(now, &self.rules.sessions);
        let gate = |name: &EntryName| self.entries.get(name).map(|entry| &entry.gate);
        let counted = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.counted)
            .map(|(name, entry)| axis::measure::CountedEntry {
                entry: name.clone(),
                bad_key: self.bad_keys.contains(name.provider()),
                not_closed: entry.gate.not_closed(),
                parked_long: entry.gate.parked_long(),
            })
            .collect();
        let essential = self
            .chains
            .iter()
            .filter(|chain| chain.essential)
            .map(|chain| axis::measure::EssentialChain { chain: chain.name.clone(), serves: self.chain_serves(chain) })
            .collect();
        let embedding: Vec<&Gate> = self
            .chains
            .iter()
            .filter(|chain| chain.use_ == ChainUse::Embedding)
            .flat_map(|chain| chain.entries.iter().filter_map(gate))
            .collect();
        Facts {
            cloud: axis::measure::CloudFacts {
                counted,
                essential,
                dead_letters: self.llm_dead_letters,
                dead_letters_max: self.rules.cloud.dead_letters_max,
            },
            memory: axis::measure::MemoryFacts { writable: true, vector_store_not_closed: false },
            embedding: axis::measure::EmbeddingFacts {
                configured: !embedding.is_empty(),
                serves: embedding.iter().any(|gate| gate.serves()),
                breaker_not_closed: embedding.iter().any(|gate| gate.not_closed()),
                backlog_waiting: false,
            },
            cc: axis::measure::CcFacts {
                failing: cc.failing,
                unavailable_unconfirmed: cc.unavailable,
                limited: cc.limited,
                hour_used_up: cc.hour_used_up,
                throttled: cc.throttled,
            },
        }
    }

    /// Measures every axis and applies what follows. Called at the end of a call and at its first token, of a probe
    /// round, of a recall, of a deferred item, of a session event, and when a timer fires; never between the attempts of a call. An
    /// improvement that is seen inside a probe round waits for the round's end.
    pub fn measure(&mut self, now: MonoTime) {
        let mut measured = axis::measure(&self.facts(now));
        for axis in Axis::ALL {
            let level = measured.levels.get(axis);
            let before = self.measured.levels.get(axis);
            if self.in_round && axis.worse(before, level) {
                measured.levels.set(axis, before);
                continue;
            }
            if level != before {
                self.events.push(Event::AxisMeasured { axis, level });
            }
            let effects = self.axes.get_mut(axis).report(axis, level, now, &self.rules.flap);
            for effect in effects {
                self.axis_moved(axis, &effect, measured.cause(axis), now);
            }
        }
        self.measured = measured;
    }

    fn axis_moved(&mut self, axis: Axis, effect: &AxisEffect, cause: &str, now: MonoTime) {
        self.history.record(axis, effect, now, self.wall, cause);
        self.dirty.axes = true;
        self.follows.levels = true;
        match *effect {
            AxisEffect::Changed { was, to, measured } => {
                let legacy = axis::legacy(&self.levels()).number();
                self.tell_of_level(axis, to, cause, now);
                let cause = cause.to_owned();
                self.events.push(Event::AxisChanged { axis, was, to, measured, legacy, cause });
                self.look_at_episode(axis, to, now);
            }
            AxisEffect::Suppressed { was, to } => {
                self.events.push(Event::AxisSuppressed { axis, was, to, cause: cause.to_owned() });
            }
            AxisEffect::HoldStarted { until, restarted } => {
                self.events.push(Event::HoldStarted { axis, until_ms: until.ms(), restarted });
            }
            AxisEffect::HoldEnded => self.events.push(Event::HoldEnded { axis }),
        }
    }

    fn look_at_episode(&mut self, axis: Axis, level: Level, now: MonoTime) {
        if !axis.worse(level, self.baseline.get(axis)) {
            self.episodes.remove(&axis);
        } else if !self.episodes.contains_key(&axis) {
            let cause = match self.history.applied().next_back() {
                Some(newest) => newest.cause.clone(),
                None => String::new(),
            };
            // Most begin with a breaker that opened just before.
            self.episodes.insert(axis, Episode { axis, cause, failing_since: now, trips: 1 });
        }
    }

    /// Notes how the dense path's health moved.
    pub fn health_changed(&mut self, change: HealthChange) {
        if change.was == HealthState::Fault && change.state != HealthState::Fault {
            self.told.rearm();
        }
        self.dirty.advisory = true;
        self.events.push(Event::AdvisoryState { state: change.state, evidence: change.evidence });
    }

    /// Keeps the counts of deferred items from a committed event.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event moves an item")]
    pub fn count(&mut self, event: &Event) {
        let mut shift = |from: Option<ItemStatus>, to: ItemStatus| {
            if let Some(from) = from {
                let count = self.counts.entry(from).or_default();
                *count = count.checked_sub(1).expect("CONSERVE-1: an item left a status that held none");
            }
            *self.counts.entry(to).or_default() += 1;
        };
        let leased = Some(ItemStatus::Leased);
        match event {
            Event::DeferredQueued { merged: false, not_before_ms, .. } => match not_before_ms {
                Some(_) => shift(None, ItemStatus::Scheduled),
                None => shift(None, ItemStatus::Pending),
            },
            Event::DeferredReady { .. } => shift(Some(ItemStatus::Scheduled), ItemStatus::Pending),
            Event::DeferredRun { .. } => shift(Some(ItemStatus::Pending), ItemStatus::Leased),
            Event::DeferredReleased { not_before_ms: Some(_), .. } => shift(leased, ItemStatus::Scheduled),
            Event::DeferredReleased { not_before_ms: None, .. } => shift(leased, ItemStatus::Pending),
            Event::DeferredFinished { status, was, .. } => shift(Some(*was), *status),
            Event::DeadAdded { llm: true, .. } => self.llm_dead_letters += 1,
            _ => {}
        }
    }
}
