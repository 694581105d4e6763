//! The simulated world: one thread, one clock that jumps to the next event, hosts, and the network between them.
//!
//! All hosts share one paused tokio runtime: when no task can run, its clock jumps to the next timer, so a run costs
//! its events and idle time costs nothing. Packets in flight wait in [`wire`] for one task, the driver, whose timer is
//! set to the first arrival. A host's process is a nested `LocalSet` ([`host`]), its sockets are turmoil-net's
//! ([`net`]), and what is wrong with its link is a [`LinkRule`].
//!
//! This is the only place in the harness that touches tokio's clock.
//!
//! **Source:** architecture.md, "The simulated network: events, not ticks"; simulation.md.

mod driver;
pub mod host;
pub mod http;
pub mod link;
mod lost;
pub mod net;
mod packet;
mod panics;
mod wire;

pub use host::{Exit, Host};
pub use link::LinkRule;

use crate::seed::Seed;
use driver::Driver;
use host::Machine;
use link::Link;
use panics::PanicWatch;
use squall::base::Span;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::{Rc, Weak};
use std::task::Waker;
use std::time::Duration;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::Instant;
use wire::Wire;

/// Runs `main` in a world of its own and returns what it returns; whatever still runs then is dropped. One simulation
/// per thread at a time; others may run on other threads.
///
/// Panics if any task of any host panics, with that task's message, or if nothing is left that could ever happen.
pub fn simulate<T>(seed: &Seed, main: impl AsyncFnOnce(World) -> T) -> T {
    let watch = PanicWatch::start();
    let runtime = runtime(seed);
    let tasks = Rc::new(LocalSet::new());
    let world = World::new(seed, &runtime, Rc::downgrade(&tasks));
    let _teardown = Teardown(world.clone()); // After the tasks, before the runtime.
    let tasks = tasks; // Dropped first.
    let result = runtime.block_on(tasks.run_until(async {
        let _driver = tokio::task::spawn_local(Driver::new(&world));
        tokio::select! {
            biased;
            message = watch.panicked() => Err(message),
            result = main(world.clone()) => Ok(result),
        }
    }));
    match (watch.take(), result) {
        (Some(message), _) | (None, Err(message)) => std::panic::resume_unwind(Box::new(message)),
        (None, Ok(result)) => result,
    }
}

fn runtime(seed: &Seed) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    #[cfg(tokio_unstable)]
    {
        let mut stream = seed.stream("world.runtime");
        let bytes: Vec<u8> = (0..32).map(|_| u8::try_from(stream.below(256)).expect("below 256")).collect();
        builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&bytes));
    }
    #[cfg(not(tokio_unstable))]
    let _ = seed; // Every `select!` of ours is biased; see simulation.md, "Determinism".
    builder.build().expect("a runtime without I/O needs nothing from the system")
}

/// Handle to the world of a simulation. Cheap to clone.
#[derive(Clone)]
pub struct World(Rc<Inner>);

struct Inner {
    seed: Seed,
    start: Instant,
    /// The world's own tasks, among them one for each process.
    tasks: Weak<LocalSet>,
    wire: RefCell<Wire>,
    machines: RefCell<Vec<Machine>>,
    names: RefCell<BTreeMap<Rc<str>, usize>>,
    /// A socket has been used such that its kernel may have something to send.
    unsent: Cell<bool>,
    /// The host whose process is being polled.
    turn: Cell<Option<usize>>,
    driver: RefCell<Option<Waker>>,
    alarm: RefCell<driver::Alarm>,
    /// Where sockets read to; as large as what one can hold.
    scratch: Rc<RefCell<Vec<u8>>>,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the simulation's clock")]
    fn new(seed: &Seed, runtime: &tokio::runtime::Runtime, tasks: Weak<LocalSet>) -> World {
        let _context = runtime.enter();
        let start = Instant::now();
        World(Rc::new(Inner {
            seed: *seed,
            start,
            tasks,
            wire: RefCell::new(Wire::new()),
            machines: RefCell::default(),
            names: RefCell::default(),
            unsent: Cell::new(false),
            turn: Cell::new(None),
            driver: RefCell::new(None),
            alarm: RefCell::new(driver::Alarm::new(start)),
            scratch: Rc::new(RefCell::new(vec![0; wire::RECV_BUF])),
        }))
    }

    /// Milliseconds since the start.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the simulation's clock")]
    pub fn now_ms(&self) -> u64 {
        Instant::now().duration_since(self.0.start).as_millis() as u64
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that sleeps on the simulation's clock")]
    pub fn sleep(&self, span: Span) -> impl Future<Output = ()> + use<> {
        tokio::time::sleep(span.to_std())
    }

    /// At once if that time is past.
    #[expect(clippy::disallowed_methods, reason = "the one place that sleeps on the simulation's clock")]
    pub fn sleep_until_ms(&self, at_ms: u64) -> impl Future<Output = ()> + use<> {
        tokio::time::sleep_until(self.0.start + Duration::from_millis(at_ms))
    }

    /// `None` if `limit` is over first.
    pub async fn timeout<T>(&self, limit: Span, what: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            result = what => Some(result),
            () = self.sleep(limit) => None,
        }
    }

    /// A task of whoever calls: of the host whose task this is, else of the world.
    pub fn spawn<T: 'static>(&self, what: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        tokio::task::spawn_local(what)
    }

    /// A new host; `one_way` is its distance from the core (a packet between two hosts takes the sum of theirs).
    ///
    /// Panics if the name is taken, or if the network runs already and took up its spare host: add hosts before any
    /// of them connects or accepts (starting and listening is fine).
    pub fn add_host(&self, name: &str, one_way: Span) -> Host {
        let name: Rc<str> = name.into();
        let link = Link::new(one_way.ms(), self.0.seed.stream(&format!("world.link.{name}")));
        let index = self.0.wire.borrow_mut().add(link);
        let taken = self.0.names.borrow_mut().insert(name.clone(), index);
        assert!(taken.is_none(), "two hosts are named {name}");
        self.0.machines.borrow_mut().push(Machine::new(name));
        Host { world: self.clone(), index }
    }

    pub fn host(&self, name: &str) -> Option<Host> {
        let index = *self.0.names.borrow().get(name)?;
        Some(Host { world: self.clone(), index })
    }

    /// Replaces the rule of the link to `host`; it holds at once, also for packets on their way.
    ///
    /// Panics if there is no such host.
    pub fn set_link(&self, host: &str, rule: LinkRule) {
        let index = self.index(host);
        self.0.wire.borrow_mut().set_rule(index, rule, self.now_ms());
        self.sent();
    }

    /// Panics if there is no such host.
    pub fn link(&self, host: &str) -> LinkRule {
        self.0.wire.borrow().links[self.index(host)].rule.clone()
    }

    fn scratch(&self) -> Rc<RefCell<Vec<u8>>> {
        self.0.scratch.clone()
    }

    fn index(&self, host: &str) -> usize {
        self.host(host).unwrap_or_else(|| panic!("there is no host named {host}")).index
    }
}

/// Ends what tasks, hosts and network still hold, in this order: sockets close while there is a network.
struct Teardown(World);

impl Drop for Teardown {
    fn drop(&mut self) {
        let machines = self.0.0.machines.borrow().len();
        for index in 0..machines {
            let process = self.0.0.machines.borrow_mut()[index].take_process();
            drop(process);
        }
        let net = self.0.0.wire.borrow_mut().close();
        drop(net);
    }
}
