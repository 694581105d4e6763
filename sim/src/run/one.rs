//! The one place that puts a run together: world, servers, faults, engine, clients, and the history of it all.
//!
//! The engine is the production code with its five ports exchanged; it is asked over HTTP as its users ask it. The
//! history begins with `run.started`; faults happen in `[0, duration)`, then everything is healed; `settle` later the
//! run is over, whatever still goes on.
//! **Source:** harness.md "A run"; architecture.md "The five seams".

use crate::adapter::disk::STATUS_FILE;
use crate::adapter::{SimClock, SimDisk, SimNet, SimNotify, SimRng};
use crate::fault::{self, Board, FaultError};
use crate::history::{Recorder, Sink, World as WorldEvent};
use crate::load::{self, ENGINE, ENGINE_PORT, ONE_WAY};
use crate::provider::{self, ProviderError};
use crate::scenario::{Drill, ServerApi};
use crate::seed::Seed;
use crate::world::{self, Host, World};
use squall::engine::BootError;
use squall::port::Ports;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

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
    let engine = world.add_host(ENGINE, ONE_WAY);
    let exchanges = provider::start(world, drill, seed, &board.judge(), &recorder)?;
    let disk = SimDisk::new(recorder.clone());
    let files = disk.clone();
    let status_file = Rc::new(move || files.read(STATUS_FILE));
    fault::start(world, &board, drill.duration, &recorder);
    // Before its clients: it listens when the first of them asks.
    let failed = start_engine(&engine, drill, seed, disk, &recorder);
    let claude = drill.providers.iter().find(|provider| provider.api == ServerApi::ClaudeCode);
    let claude = claude.map(|provider| provider.name.clone());
    let progress = load::start(world, &drill.loads, seed, status_file, claude, drill.starts_at, &recorder);

    let end = drill.duration + drill.settle;
    let early = world.timeout(end, engine.exited()).await;
    if let Some(error) = failed.take() {
        return Err(RunError::Boot(error));
    }
    if early.is_some() {
        return Err(RunError::Ended { at_ms: world.now_ms() });
    }
    recorder.world(WorldEvent::RunEnded);
    // What the teardown cancels is no part of the run.
    recorder.close();
    Ok(RunFacts { exchanges: exchanges.total() + progress.answered() })
}

/// Starts the engine's process; what is returned holds its error once it has ended with one.
fn start_engine(
    host: &Host,
    drill: &Drill,
    seed: &Seed,
    disk: SimDisk,
    recorder: &Recorder,
) -> Rc<RefCell<Option<BootError>>> {
    let ports = Ports {
        clock: Rc::new(SimClock::new(host.world().clone(), drill.starts_at)),
        net: Rc::new(SimNet::new(host.clone())),
        disk: Rc::new(disk),
        rng: Rc::new(RefCell::new(SimRng::new(seed.stream("engine")))),
        notify: Rc::new(SimNotify::new(recorder.clone())),
    };
    let keys: BTreeMap<String, String> = drill
        .rules
        .providers
        .iter()
        .filter(|provider| !provider.key_env.is_empty())
        .map(|provider| (provider.name.clone(), format!("key-of-{}", provider.name)))
        .collect();
    let rules = drill.rules.clone();
    let failed = Rc::new(RefCell::new(None));
    let failure = failed.clone();
    host.start(async move {
        let listen = format!("0.0.0.0:{ENGINE_PORT}");
        let never = std::future::pending();
        if let Err(error) = squall::daemon::run(ports, rules, keys, &listen, never).await {
            *failure.borrow_mut() = Some(error);
        }
    });
    failed
}
