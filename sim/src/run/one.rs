//! The one place that puts a run together: world, servers, faults, engine, clients, and the history of it all.
//!
//! The engine is the production code with its five ports exchanged; it is asked over HTTP as its users ask it. The
//! history begins with `run.started`; faults happen in `[0, duration)`, then everything is healed; `settle` later the
//! run is over, whatever still goes on.
//! **Source:** harness.md "A run"; architecture.md "The five seams".

use crate::adapter::disk::STATUS_FILE;
use crate::adapter::{SimClock, SimDisk, SimNet, SimNotify, SimRng};
use crate::fault::{self, Board, DamageError, Engine, FaultError};
use crate::history::{Recorder, Sink, World as WorldEvent};
use crate::load::{self, ENGINE, ENGINE_PORT, ONE_WAY};
use crate::provider::{self, ProviderError};
use crate::scenario::{Drill, ServerApi};
use crate::seed::Seed;
use crate::world::{self, Host, World};
use squall::engine::BootError;
use squall::port::Ports;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::Notify;

/// What a run says about itself beside its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFacts {
    /// HTTP exchanges on the simulated network: what the servers answered, and what the clients got.
    pub exchanges: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the engine did not start: {0}")]
    Boot(#[from] BootError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error(transparent)]
    Fault(#[from] FaultError),
    #[error(transparent)]
    Damage(#[from] DamageError),
    #[error("the engine ended at {at_ms} ms, which nobody asked for")]
    Ended { at_ms: u64 },
}

/// Runs the drill from its first millisecond to its last. Every event goes to every sink; when this returns, nothing
/// of the run is left, and the sinks are the caller's alone.
pub fn simulate(drill: &Drill, sinks: Vec<Rc<RefCell<dyn Sink>>>) -> Result<RunFacts, RunError> {
    let seed = Seed::new(drill.seed);
    world::simulate(&seed, async |world| run(&world, drill, &seed, sinks).await)
}

async fn run(
    world: &World,
    drill: &Drill,
    seed: &Seed,
    sinks: Vec<Rc<RefCell<dyn Sink>>>,
) -> Result<RunFacts, RunError> {
    let clock = world.clone();
    let recorder = Recorder::new(move || clock.now_ms(), sinks);
    recorder.world(WorldEvent::RunStarted {
        schema: squall::event::SCHEMA,
        title: drill.title.clone(),
        seed: drill.seed,
        duration_ms: drill.duration.ms(),
        settle_ms: drill.settle.ms(),
    });
    let board = Board::new(drill, seed)?;
    let host = world.add_host(ENGINE, ONE_WAY);
    let exchanges = provider::start(world, drill, seed, &board.judge(), &recorder)?;
    let disk = SimDisk::new(&host, recorder.clone());
    let files = disk.clone();
    let status_file = Rc::new(move || files.read(STATUS_FILE));
    let process = Rc::new(Process {
        host: host.clone(),
        drill: drill.clone(),
        seed: *seed,
        disk: disk.clone(),
        recorder: recorder.clone(),
        said: Rc::default(),
        starts: Cell::new(0),
        ended: Rc::default(),
    });
    let starting = process.clone();
    let engine = Engine::new(&host, &disk, &recorder, seed, process.said.clone(), move || starting.start());
    engine.arm(&drill.faults);
    fault::start(world, &board, &engine, drill.duration, &recorder);
    // Before its clients: it listens when the first of them asks.
    process.start();
    let claude = drill.providers.iter().find(|provider| provider.api == ServerApi::ClaudeCode);
    let claude = claude.map(|provider| provider.name.clone());
    let progress = load::start(world, &drill.loads, seed, status_file, claude, drill.starts_at, &recorder);

    let end = drill.duration + drill.settle;
    tokio::select! {
        biased;
        ended = process.ended() => return Err(match ended {
            Some(error) => RunError::Boot(error),
            None => RunError::Ended { at_ms: world.now_ms() },
        }),
        error = engine.failed() => return Err(RunError::Damage(error)),
        () = world.sleep(end) => {}
    }
    recorder.world(WorldEvent::RunEnded);
    // What the teardown cancels is no part of the run.
    recorder.close();
    Ok(RunFacts { exchanges: exchanges.total() + progress.answered() })
}

/// How the engine's process is started, the first time and after each stop.
struct Process {
    host: Host,
    drill: Drill,
    seed: Seed,
    disk: SimDisk,
    recorder: Recorder,
    /// Events that the running incarnation has said.
    said: Rc<Cell<u64>>,
    starts: Cell<u64>,
    ended: Rc<Ended>,
}

/// A process ended by itself: why, if it says so.
#[derive(Default)]
struct Ended {
    how: RefCell<Option<Option<BootError>>>,
    told: Notify,
}

impl Process {
    fn start(&self) {
        let start = self.starts.get();
        self.starts.set(start + 1);
        // Each incarnation has its own, as each process of a machine has.
        let rng = if start == 0 { "engine".to_owned() } else { format!("engine.{start}") };
        let ports = Ports {
            clock: Rc::new(SimClock::new(self.host.world().clone(), self.drill.starts_at)),
            net: Rc::new(SimNet::new(self.host.clone())),
            disk: Rc::new(self.disk.for_process()),
            rng: Rc::new(RefCell::new(SimRng::new(self.seed.stream(&rng)))),
            notify: Rc::new(SimNotify::new(self.recorder.clone(), self.host.clone(), self.said.clone())),
        };
        let providers = self.drill.rules.providers.iter();
        let keys: BTreeMap<String, String> = providers
            .filter(|provider| !provider.key_env.is_empty())
            .map(|provider| (provider.name.clone(), format!("key-of-{}", provider.name)))
            .collect();
        let rules = self.drill.rules.clone();
        let ended = self.ended.clone();
        self.host.start(async move {
            let listen = format!("0.0.0.0:{ENGINE_PORT}");
            let never = std::future::pending();
            let result = squall::daemon::run(ports, rules, keys, &listen, never).await;
            *ended.how.borrow_mut() = Some(result.err());
            ended.told.notify_one();
        });
    }

    /// Resolves when a process has ended by itself.
    async fn ended(&self) -> Option<BootError> {
        loop {
            let how = self.ended.how.take();
            match how {
                Some(how) => return how,
                None => self.ended.told.notified().await,
            }
        }
    }
}
