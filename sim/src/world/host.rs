//! Hosts and the processes on them.
//!
//! A process is a nested `LocalSet`: everything it spawns with `spawn_local` dies with it. Sockets know their host
//! ([`super::net`]), so killing a process closes them in the right socket table whoever does it.

use super::World;
use super::net::{Listener, TcpStream};
use super::wire;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, LocalSet};

/// One simulated machine. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    pub(super) world: World,
    pub(super) index: usize,
}

/// How a host's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Its main future ended.
    Finished,
    Killed,
}

/// The host's state in the world.
pub(super) struct Machine {
    name: Rc<str>,
    /// Absent while it is being polled.
    process: Option<Process>,
    phase: Phase,
    changed: Rc<Notify>,
    /// The world's name service: where the port that processes ask for really is. Each listener takes the next port,
    /// for turmoil-net keeps the old one taken until the peers of a dead process have closed.
    ports: BTreeMap<u16, Port>,
    next_port: u16,
    /// The process waits for its disk until then, and gets no turn.
    blocked_ms: u64,
    /// What its tasks want to send meanwhile.
    held: Vec<Waker>,
}

#[derive(Clone, Copy)]
struct Port {
    real: u16,
    live: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Killed: nothing of it gets out any more, and it ends with this turn.
    Doomed {
        power: bool,
    },
    Ended(Option<Exit>),
}

pub(super) struct Process {
    tasks: LocalSet,
    finished: Rc<Cell<bool>>,
    turns: Option<AbortHandle>,
}

/// The first real port of a listener. Clients' ports begin at 49,152.
const PORT_MIN: u16 = 10_000;
const PORT_MAX: u16 = 49_151;
/// Where nobody ever listens.
const PORT_NOBODY: u16 = 1;
/// Ports given out for `listen(0)`, as seen from outside.
const PORT_ANY: u16 = 40_000;
/// How long a failed look-up of a name takes: a round trip to the resolver.
const DNS_FAILS_AFTER_MS: u64 = 40;

impl Machine {
    pub(super) fn new(name: Rc<str>) -> Machine {
        Machine {
            name,
            process: None,
            phase: Phase::Ended(None),
            changed: Rc::default(),
            ports: BTreeMap::new(),
            next_port: PORT_MIN,
            blocked_ms: 0,
            held: Vec::new(),
        }
    }

    pub(super) fn take_process(&mut self) -> Option<Process> {
        self.process.take()
    }

    pub(super) fn closed(&mut self, port: u16, real: u16) {
        if let Some(own) = self.ports.get_mut(&port).filter(|own| own.real == real) {
            own.live = false;
        }
    }
}

impl Host {
    pub fn name(&self) -> Rc<str> {
        self.machine(|machine| machine.name.clone())
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    /// Starts a process: `main` and everything it spawns with `spawn_local` live until `main` ends or the host is
    /// killed. A host that lost its power has it again.
    ///
    /// Panics if a process is running here.
    pub fn start(&self, main: impl Future<Output = ()> + 'static) {
        assert!(!self.is_running(), "{} has a process already", self.name());
        self.power(false);
        let finished = Rc::new(Cell::new(false));
        let tasks = LocalSet::new();
        let done = finished.clone();
        tasks.spawn_local(async move {
            main.await;
            done.set(true);
        });
        self.machine(|machine| {
            machine.process = Some(Process { tasks, finished, turns: None });
            machine.phase = Phase::Running;
            machine.blocked_ms = 0;
        });
        // Whoever starts it, a process is the world's; ending it aborts its turns.
        let Some(world) = self.world.0.tasks.upgrade() else { return };
        let turns = world.spawn_local(Turns { host: self.clone(), blocked: None }).abort_handle();
        self.machine(|machine| {
            if let Some(process) = &mut machine.process {
                process.turns = Some(turns);
            }
        });
    }

    /// SIGKILL: every task of the host is dropped at once (at the end of the host's turn if the caller is one of
    /// them); peers see a clean end of stream, and connects are refused one round trip later. Nothing happens if no
    /// process runs.
    pub fn kill(&self) {
        self.end(false);
    }

    /// As [`Host::kill`], but the link is cut first: peers see nothing, and connects get no answer until the next
    /// start.
    pub fn power_cut(&self) {
        self.end(true);
    }

    /// As [`Host::kill`] or, with `power`, [`Host::power_cut`], for whoever is called in the middle of something: the
    /// process gets no other turn and nothing of it gets out, but it is not dropped before `kill` or `power_cut`.
    pub fn doom(&self, power: bool) {
        if power {
            self.power(true);
        }
        self.machine(|machine| {
            if machine.phase == Phase::Running {
                machine.phase = Phase::Doomed { power };
            }
        });
    }

    /// The process is busy with something that lets none of its tasks run: it gets its next turn at that time, and
    /// what it sends from now on leaves then.
    pub fn block_until_ms(&self, at_ms: u64) {
        self.machine(|machine| machine.blocked_ms = machine.blocked_ms.max(at_ms));
    }

    /// Whether a process is here that was not killed.
    pub fn is_alive(&self) -> bool {
        self.machine(|machine| machine.phase == Phase::Running)
    }

    pub fn is_running(&self) -> bool {
        self.machine(|machine| match machine.phase {
            Phase::Running | Phase::Doomed { .. } => true,
            Phase::Ended(_) => false,
        })
    }

    /// Resolves when a process has ended here and no other has been started.
    pub async fn exited(&self) -> Exit {
        loop {
            let changed = self.machine(|machine| machine.changed.clone());
            let changed = changed.notified();
            if let Phase::Ended(Some(exit)) = self.machine(|machine| machine.phase) {
                return exit;
            }
            changed.await;
        }
    }

    /// Listens on `port` (0: any). The socket belongs to the host, whoever polls it.
    ///
    /// **Errors:** `AddrInUse` if a live listener has it.
    pub fn listen(&self, port: u16) -> io::Result<Listener> {
        let (port, real) = self.machine(|machine| {
            let live = |port| machine.ports.get(&port).is_some_and(|own| own.live);
            let port = if port == 0 { (PORT_ANY..).find(|port| !live(*port)).unwrap_or(PORT_ANY) } else { port };
            if live(port) {
                return Err(io::Error::from(io::ErrorKind::AddrInUse));
            }
            let real = machine.next_port;
            machine.next_port = if real == PORT_MAX { PORT_MIN } else { real + 1 };
            Ok((port, real))
        })?;
        self.machine(|machine| machine.ports.insert(port, Port { real, live: true }));
        Ok(Listener::new(self, port, real))
    }

    /// Connects from this host to `port` of the host named `name` (`"localhost"`: itself). There is no time-out:
    /// drop the future. Which listener has the port is looked up now: one that a process opens in its first turn is
    /// there only after that.
    ///
    /// **Errors:** `NotFound` (unknown name or a DNS fault, 40 ms later), `ConnectionRefused` (one round trip later).
    pub async fn connect(&self, name: &str, port: u16) -> io::Result<TcpStream> {
        let Some(to) = self.resolve(name) else {
            self.world.sleep(squall::base::Span::from_ms(DNS_FAILS_AFTER_MS)).await;
            let text = format!("failed to look up {name}");
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        };
        let real = to.machine(|machine| machine.ports.get(&port).map_or(PORT_NOBODY, |own| own.real));
        TcpStream::connect(self, SocketAddr::new(super::packet::ip(to.index), real)).await
    }

    fn resolve(&self, name: &str) -> Option<Host> {
        if name == "localhost" || name == "127.0.0.1" {
            return Some(self.clone());
        }
        self.world.host(name).filter(|host| !self.world.0.wire.borrow().links[host.index].rule.dns)
    }

    /// The host's socket table; starts the network.
    pub(super) fn id(&self) -> turmoil_net::HostId {
        self.world.0.wire.borrow_mut().id(self.index)
    }

    pub(super) fn machine<T>(&self, look: impl FnOnce(&mut Machine) -> T) -> T {
        look(&mut self.world.0.machines.borrow_mut()[self.index])
    }

    fn power(&self, off: bool) {
        let now = self.world.now_ms();
        let mut wire = self.world.0.wire.borrow_mut();
        if wire.links[self.index].off != off {
            wire.set_off(self.index, off, now);
            drop(wire);
            self.world.sent();
        }
    }

    fn end(&self, power: bool) {
        if power {
            self.power(true);
        }
        let process = self.machine(|machine| {
            if machine.phase == Phase::Running {
                machine.phase = Phase::Doomed { power };
            }
            machine.take_process()
        });
        if let Some(process) = process {
            self.dispose(process, Exit::Killed, power);
        } else if power && !self.is_running() {
            self.forget();
        }
    }

    /// Drops a process, which closes its sockets, and says so.
    fn dispose(&self, process: Process, exit: Exit, power: bool) {
        // Destructors may look at the host: nothing of the world is borrowed while they run.
        let Process { tasks, turns, .. } = process;
        drop(tasks);
        if power {
            self.forget();
        }
        self.machine(|machine| {
            machine.phase = Phase::Ended(Some(exit));
            machine.held.clear();
            machine.changed.notify_waiters();
        });
        self.world.0.unsent.set(true);
        self.world.collect();
        if let Some(turns) = turns {
            turns.abort();
        }
    }

    fn forget(&self) {
        let now = self.world.now_ms();
        let mut wire = self.world.0.wire.borrow_mut();
        wire.collect(wire::Delivered::Nothing, now);
        wire.forget(self.index);
    }
}

/// Polls a host's process.
struct Turns {
    host: Host,
    /// Until its disk lets it go on.
    blocked: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Turns {
    /// Whether the process has to wait for its disk.
    fn is_blocked(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            if let Some(blocked) = &mut self.blocked {
                if blocked.as_mut().poll(cx).is_pending() {
                    return true;
                }
                self.blocked = None;
                let held = self.host.machine(|machine| std::mem::take(&mut machine.held));
                held.into_iter().for_each(Waker::wake);
            }
            // Most are never blocked: then the clock is not asked.
            let until = self.host.machine(|machine| machine.blocked_ms);
            if until == 0 || until <= self.host.world.now_ms() {
                return false;
            }
            self.blocked = Some(Box::pin(self.host.world.sleep_until_ms(until)));
        }
    }
}

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.host.is_alive() && self.is_blocked(cx) {
            return Poll::Pending;
        }
        let host = self.host.clone();
        let Some(mut process) = host.machine(Machine::take_process) else { return Poll::Ready(()) };
        if let Phase::Doomed { power } = host.machine(|machine| machine.phase) {
            host.dispose(process, Exit::Killed, power);
            return Poll::Ready(());
        }
        let inner = &host.world.0;
        let outer = inner.turn.replace(Some(host.index));
        let all_done = Pin::new(&mut process.tasks).poll(cx).is_ready();
        inner.turn.set(outer);
        let finished = process.finished.get() || all_done;
        match host.machine(|machine| machine.phase) {
            Phase::Doomed { power } => host.dispose(process, Exit::Killed, power),
            Phase::Running | Phase::Ended(_) if finished => host.dispose(process, Exit::Finished, false),
            Phase::Running | Phase::Ended(_) => {
                host.machine(|machine| machine.process = Some(process));
                host.world.collect();
                // What the turn has made it wait for sets the alarm now.
                let _ = self.is_blocked(cx);
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}

impl World {
    /// Whether the process whose turn it is may not send now: it is dead, or waits for its disk and is woken after.
    pub(super) fn holds_back(&self, cx: &Context<'_>) -> bool {
        let Some(index) = self.0.turn.get() else { return false };
        let machine = &mut self.0.machines.borrow_mut()[index];
        match machine.phase {
            Phase::Running if machine.blocked_ms == 0 || machine.blocked_ms <= self.now_ms() => false,
            Phase::Running => {
                machine.held.push(cx.waker().clone());
                true
            }
            Phase::Doomed { .. } | Phase::Ended(_) => true,
        }
    }
}
