//! Where the parts meet: one thread, one event at a time.
//!
//! `outside -> server -> decide (pure) -> commit (one transaction) -> perform -> port -> outside`; a completion is a new
//! decision. [`core`] decides, [`decide`] records and stores, the other files perform: [`call`] walks a chain,
//! [`attempt`] asks one entry, [`probe`] asks without being asked, [`intake`] takes work in, [`deferred`] works the queue, [`perform`] runs an item, [`outreach`] tells
//! people what they ask for, [`people`] what the engine has to say, [`webhook`] programs; [`recall`] remembers,
//! [`session`] lets Claude Code sessions run. [`boot`] brings back what an earlier incarnation left.
//! **Source:** architecture.md "How things flow".

pub mod api;
mod attempt;
mod boot;
mod call;
mod core;
mod decide;
mod deferred;
mod intake;
pub mod outbound;
mod outreach;
mod people;
mod perform;
mod probe;
mod recall;
mod session;
pub mod status;
mod stream;
mod timers;
mod webhook;

pub use boot::BootError;

use crate::base::{MonoTime, Rules};
use crate::port::Ports;
use crate::store::Store;
use crate::store::journal::Line;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio::sync::Notify;

/// The running engine. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine(Rc<Inner>);

struct Inner {
    ports: Ports,
    rules: Rc<Rules>,
    /// API keys by provider.
    keys: BTreeMap<String, String>,
    outbound: outbound::Outbound,
    core: RefCell<core::Core>,
    store: RefCell<Store>,
    /// Events that wait for the next commit.
    waiting: RefCell<Vec<Line>>,
    /// Routing events dropped since the journal was last written.
    gap: Cell<u64>,
    wake: Wake,
    ids: Ids,
    /// Outreach keys whose delivery is under way in this process.
    sending: RefCell<BTreeSet<String>>,
    /// Whoever posts to the webhook holds this: one request at a time.
    posting: tokio::sync::Mutex<()>,
    status_written: Cell<MonoTime>,
    polls: session::Polls,
}

/// What the engine's tasks wait for beside time.
#[derive(Default)]
struct Wake {
    /// The next machine deadline moved.
    timer: Notify,
    /// Some entry may want a probe.
    probe: Notify,
    /// A slot may be free.
    gate: Notify,
    /// Some deferred item may run.
    queue: Notify,
    /// Some session may start or end.
    sessions: Notify,
    /// Events wait for a group commit.
    flush: Notify,
    /// A notice is ready.
    notices: Notify,
    /// There is a transition to post.
    webhook: Notify,
}

/// Numbers that are unique over the life of the database: the incarnation in front, so that nothing need be stored.
struct Ids {
    base: u64,
    call: Cell<u64>,
    attempt: Cell<u64>,
    recall: Cell<u64>,
}

impl Ids {
    fn new(incarnation: u64) -> Ids {
        let base = (incarnation - 1) * 1_000_000_000;
        Ids { base, call: Cell::new(0), attempt: Cell::new(0), recall: Cell::new(0) }
    }

    fn next(&self, counter: &Cell<u64>) -> u64 {
        counter.set(counter.get() + 1);
        self.base + counter.get()
    }
}

impl Engine {
    fn next_call(&self) -> u64 {
        self.0.ids.next(&self.0.ids.call)
    }

    fn next_attempt(&self) -> u64 {
        self.0.ids.next(&self.0.ids.attempt)
    }

    fn next_recall(&self) -> u64 {
        self.0.ids.next(&self.0.ids.recall)
    }

    fn now(&self) -> MonoTime {
        self.0.ports.clock.mono()
    }

    fn jitter(&self) -> f64 {
        self.0.ports.rng.borrow_mut().unit()
    }
}
