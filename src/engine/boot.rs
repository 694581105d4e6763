//! Starting: what an earlier incarnation left is brought back, what it left open is settled.
//!
//! **Source:** engine.md 1 (what persists), 3 (breakers after a restart), 4 (leases of an older incarnation), 8 (in doubt).

use super::core::{Chain, Core, Dirty, Entry, Episode, FollowUps};
use super::outbound::Outbound;
use super::{Engine, Ids, Inner, Wake};
use crate::advisory::{Health, Told};
use crate::axis::{self, Axes, History};
use crate::base::rules::ChainUse;
use crate::base::{Axis, EntryName, Rules};
use crate::breaker::{Gate, GateRules};
use crate::chain::{PoisonWatch, RetryBudget};
use crate::event::{Event, SCHEMA};
use crate::port::Ports;
use crate::store::{Store, StoreError, Tx, outreach, queue, state};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error("the database cannot be opened")]
    Open(#[source] rusqlite::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot listen on {addr}")]
    Listen {
        addr: String,
        #[source]
        source: std::io::Error,
    },
}

impl Engine {
    /// Opens the database, restores the machines and starts the engine's tasks. Run inside a `LocalSet`.
    ///
    /// **Errors:** a database that can't be opened or read; nothing runs.
    pub fn boot(ports: Ports, rules: Rules, keys: BTreeMap<String, String>) -> Result<Engine, BootError> {
        let rules = Rc::new(rules);
        let conn = ports.disk.open().map_err(BootError::Open)?;
        let store = Store::new(conn)?;
        let now = ports.clock.mono();
        let core = Core::restore(&store, rules.clone(), &ports)?;
        let engine = Engine(Rc::new(Inner {
            outbound: Outbound::new(ports.net.clone(), ports.clock.clone()),
            ids: Ids::new(store.incarnation),
            status_written: Cell::new(now),
            core: RefCell::new(core),
            store: RefCell::new(store),
            ports,
            rules,
            keys,
            waiting: RefCell::default(),
            gap: Cell::new(0),
            wake: Wake::default(),
            sending: RefCell::default(),
            polls: super::session::Polls::default(),
            posting: tokio::sync::Mutex::default(),
        }));
        engine.started()?;
        engine.spawn_timers();
        engine.spawn_probes();
        engine.spawn_consumer();
        engine.spawn_sessions();
        engine.spawn_people();
        Ok(engine)
    }

    /// Says that this incarnation ends, and stores what waits.
    pub fn stop(&self, reason: &str) {
        let incarnation = self.0.store.borrow().incarnation;
        let reason = reason.to_owned();
        self.0.decide(|core, _| core.events.push(Event::EngineStopped { incarnation, reason }));
        self.0.write_status("stop");
        self.0.flush();
    }

    fn started(&self) -> Result<(), BootError> {
        let (incarnation, resumed) = {
            let store = self.0.store.borrow();
            (store.incarnation, store.resumed)
        };
        let rules = Box::new(Rules::clone(&self.0.rules));
        self.0.decide(|core, now| {
            core.events.push(Event::EngineStarted {
                schema: SCHEMA,
                incarnation,
                resumed,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                levels: core.levels(),
                rules,
            });
            core.restored(now);
            core.measure(now);
        });
        self.0.commit(|tx, _, events| {
            for id in queue::free_leases(tx)? {
                let reason = "its worker is gone".to_owned();
                events.push(Event::DeferredReleased { id, not_before_ms: None, attempts: 0, reason });
            }
            for (key, recipient, purpose) in outreach::doubt_open_intents(tx)? {
                events.push(Event::OutreachInDoubt { key, recipient, purpose });
            }
            Ok(())
        })?;
        self.bury_damaged_sessions()?;
        self.0.write_status("start");
        Ok(())
    }
}

impl Core {
    fn restore(store: &Store, rules: Rc<Rules>, ports: &Ports) -> Result<Core, StoreError> {
        let conn = store.reader();
        let now = ports.clock.mono();
        let essential_chains: Vec<String> =
            axis::measure::essential_chains(&rules).into_iter().map(|rule| rule.name.clone()).collect();
        let mut chains = Vec::new();
        let mut entries: BTreeMap<EntryName, Entry> = BTreeMap::new();
        for rule in &rules.chains {
            let names = rules.entries(rule);
            for name in &names {
                if entries.contains_key(name) {
                    continue;
                }
                let provider = rules.provider(name.provider()).expect("the configuration was checked").clone();
                let mut gate: Gate = state::load(conn, &gate_key(name))?.unwrap_or_else(Gate::new);
                gate.set_enabled(provider.enabled);
                let gate_rules = GateRules::new(&rules, provider.local);
                let counted = rules.counted_for_cloud(name);
                entries.insert(name.clone(), Entry { gate, rules: gate_rules, provider, use_: rule.use_, counted });
            }
            let essential = essential_chains.contains(&rule.name);
            chains.push(Chain { name: rule.name.clone(), use_: rule.use_, essential, entries: names });
        }
        let embeddings = chains.iter().any(|chain| chain.use_ == ChainUse::Embedding);
        let baseline = axis::measure::baseline(embeddings);
        let axes: Axes = state::load(conn, "axes")?.unwrap_or_else(|| Axes::new(baseline, now));
        let history: History = state::load(conn, "history")?.unwrap_or_default();
        let episodes: Vec<Episode> = state::load(conn, "episodes")?.unwrap_or_default();
        let bad_keys: BTreeSet<String> = BTreeSet::new(); // A restart is the way to try a new key.
        let (health, _) = Health::new(embeddings);
        let mut told: Told = state::load(conn, "told")?.unwrap_or_default();
        told.restarted();
        let counts = queue::counts(conn)?;
        let (sessions, waiting) = super::session::restore(conn)?;
        let measured = axis::Measured {
            levels: axes.measured(),
            cloud: String::new(),
            memory: String::new(),
            embedding: String::new(),
            cc: String::new(),
        };
        Ok(Core {
            entries,
            chains,
            axes,
            history,
            measured,
            baseline,
            episodes: episodes.into_iter().map(|episode| (episode.axis, episode)).collect(),
            sessions,
            waiting,
            budget: RetryBudget::default(),
            poison: PoisonWatch::default(),
            health,
            told,
            notices: state::load(conn, "notices")?.unwrap_or_default(),
            posted: state::load(conn, "posted")?.unwrap_or_default(),
            key_worked: state::load(conn, "key_worked")?.unwrap_or_default(),
            bad_keys,
            counts,
            llm_dead_letters: queue::llm_dead_letters(conn)?,
            rests: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            poisoned: VecDeque::new(),
            embedding_error: None,
            wall: ports.clock.wall(),
            events: Vec::new(),
            chains_down: false,
            in_round: false,
            follows: FollowUps::default(),
            told_due: None,
            dirty: Dirty::default(),
            rules,
        })
    }

    /// What restored machines do at their first moment.
    fn restored(&mut self, now: crate::base::MonoTime) {
        for axis in Axis::ALL {
            self.axes.get_mut(axis).restore(now, &self.rules.flap);
        }
        let names: Vec<EntryName> = self.entries.keys().cloned().collect();
        for name in names {
            let entry = self.entries.get_mut(&name).expect("the name was just read from there");
            let effects = entry.gate.restore(now, &entry.rules);
            self.gate_moved(&name, &effects, now);
        }
        self.sessions.restore(now, &self.rules.sessions);
        self.dirty.sessions = true;
        self.events.push(Event::AdvisoryState { state: self.health.state(), evidence: None });
        self.people_restored(now);
        self.look_at_chains();
    }

    /// Whether something must be saved with the next commit.
    pub(super) fn unsaved(&self) -> bool {
        let Dirty { axes, keys, advisory, sessions, people, entries } = &self.dirty;
        *axes || *keys || *advisory || *sessions || *people || !entries.is_empty()
    }

    /// Writes what changed since the last save.
    pub(super) fn save(&self, tx: &Tx) -> Result<(), StoreError> {
        let Dirty { axes, keys, advisory, sessions, people, entries } = &self.dirty;
        if *axes {
            state::save(tx, "axes", &self.axes)?;
            state::save(tx, "history", &self.history)?;
            state::save(tx, "episodes", &self.episodes.values().collect::<Vec<_>>())?;
        }
        if *keys {
            state::save(tx, "key_worked", &self.key_worked)?;
        }
        if *advisory {
            state::save(tx, "told", &self.told)?;
        }
        if *sessions {
            state::save(tx, super::session::STATE, &self.sessions)?;
        }
        if *people {
            state::save(tx, "notices", &self.notices)?;
            state::save(tx, "posted", &self.posted)?;
        }
        for name in entries {
            if let Some(entry) = self.entries.get(name) {
                state::save(tx, &gate_key(name), &entry.gate)?;
            }
        }
        Ok(())
    }

    pub(super) fn saved(&mut self) {
        self.dirty = Dirty::default();
    }
}

fn gate_key(name: &EntryName) -> String {
    format!("gate {name}")
}
