//! The wrapper: runs a command as a session of the daemon's budget.
//!
//! It asks for a slot, waits as its item's consumer while there is none, starts the command ([`Launch`]), says that it is
//! alive, reads every line of output for what it says about limits, and reports how it ended. It decides nothing about
//! budgets: the daemon does. What it must not do is lose something while the daemon is away:
//! - a report that was not taken is sent again, with what is left of its time, until it is taken or the slot is gone;
//! - who waits keeps its place by its key, over restarts of either side; so does a command that is run again;
//! - a slot that was given to somebody else is told, and the command runs on: ending work half-way helps nobody.
//!
//! After a limit the work stays in the queue and the wrapper ends: Claude Code goes on by itself at a reset as long as it
//! runs, and one that has ended would be run twice. `retry_after_limit` waits and runs it again.
//!
//! **Source:** engine.md 6 (`squalld session run`), protocols.md C.3 (no double resume).

mod daemon;
mod report;

pub use daemon::{Daemon, DaemonError};

use crate::base::{MonoTime, SessionClass, SessionOutcome, Span};
use crate::port::{Clock, LocalFuture};
use crate::wire::claude::{Reader, Severity};
use daemon::{Asked, Slot, Waited};
use jiff::tz::TimeZone;
use report::Reports;
use std::cell::Cell;
use std::io;
use std::rc::Rc;

/// How long a daemon may be away before a session that has no slot yet does without.
pub const UNREACHABLE_AFTER: Span = Span::from_secs(10);
/// Nobody is asked more often than this whether it is our turn, however fast the answers come.
const POLL_EVERY: Span = Span::from_secs(1);
/// Exit code of a command that cannot be started, as shells have it.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// How a command is started.
pub trait Launch {
    /// `place`: its slot; `None`: it runs without one.
    ///
    /// **Errors:** the system's, such as `NotFound`.
    fn start(&self, place: Option<Place>) -> LocalFuture<'static, io::Result<Box<dyn Running>>>;
}

/// What a command may know about its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub session: u64,
    /// How far an earlier run of the work came, in its own words: Claude Code's is the name to resume it by.
    pub progress: Option<String>,
}

/// A command that runs. Dropping it says nothing about its end.
pub trait Running {
    /// The next thing that happens. After [`Output::Exited`] there is nothing.
    fn next(&mut self) -> LocalFuture<'_, Output>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A line of either stream, without its end.
    Line(String),
    /// 128 + the signal's number if one ended it.
    Exited(i32),
}

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub class: SessionClass,
    /// Names the work: asking again with the same key is the same ask. See [`key_of`].
    pub key: String,
    pub label: Option<String>,
    /// Wait for a slot.
    pub wait: bool,
    /// Wait and run it again when a limit has ended it.
    pub retry_after_limit: bool,
    pub if_unreachable: IfUnreachable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfUnreachable {
    Run,
    Fail,
}

impl IfUnreachable {
    /// A person is not kept from working by a guard that is down; what nobody watches does not run unguarded.
    pub fn usual(class: SessionClass) -> IfUnreachable {
        match class {
            SessionClass::Foreground => IfUnreachable::Run,
            SessionClass::Reflection | SessionClass::Background => IfUnreachable::Fail,
        }
    }
}

/// The key of a command that names none: the same class and words are the same work.
pub fn key_of(class: SessionClass, command: &[String]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(class.name().as_bytes());
    for word in command {
        hasher.update(&(word.len() as u64).to_le_bytes());
        hasher.update(word.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command ran, or could not be started. `session`: in which slot, if in one.
    Ran {
        session: Option<u64>,
        outcome: SessionOutcome,
        exit: i32,
    },
    /// There is no slot, and it was not to wait: it is in the queue.
    Deferred {
        session: u64,
        reason: String,
    },
    /// Somebody runs this work already, or it was called off while we waited.
    Elsewhere {
        session: Option<u64>,
        why: String,
    },
    Unreachable {
        why: String,
    },
    /// The daemon did not take the request.
    Refused {
        why: String,
    },
}

impl Ended {
    /// That of the command if it ran; else 75 (try again later), 69 (no daemon) or 70 (it did not understand us).
    pub fn exit_code(&self) -> i32 {
        match self {
            Ended::Ran { exit, .. } => *exit,
            Ended::Deferred { .. } | Ended::Elsewhere { .. } => 75,
            Ended::Unreachable { .. } => 69,
            Ended::Refused { .. } => 70,
        }
    }
}

/// Runs orders. `tell`: one line for whoever looks.
pub struct Wrapper {
    pub daemon: Daemon,
    pub clock: Rc<dyn Clock>,
    pub launch: Rc<dyn Launch>,
    /// Of times in the command's output that name no zone.
    pub zone: TimeZone,
    pub tell: Rc<dyn Fn(&str)>,
    state: Cell<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asking,
    Waiting { session: u64 },
    Running,
}

/// What came of asking and waiting.
enum Turn {
    Now(Slot),
    Unguarded,
    Not(Ended),
}

impl Wrapper {
    pub fn new(
        daemon: Daemon,
        clock: Rc<dyn Clock>,
        launch: Rc<dyn Launch>,
        zone: TimeZone,
        tell: Rc<dyn Fn(&str)>,
    ) -> Wrapper {
        Wrapper { daemon, clock, launch, zone, tell, state: Cell::new(State::Asking) }
    }

    /// Whether the command runs: then its end is awaited, whatever is wanted.
    pub fn is_running(&self) -> bool {
        self.state.get() == State::Running
    }

    /// Whoever ordered it no longer wants it: its place in the queue is given up.
    ///
    /// **Errors:** the daemon did not take it; the work stays in the queue, where it blocks nobody.
    pub async fn cancel(&self) -> Result<(), DaemonError> {
        match self.state.get() {
            State::Waiting { session } => self.daemon.cancel(session).await,
            State::Asking | State::Running => Ok(()),
        }
    }

    pub async fn run(&self, order: &Order) -> Ended {
        loop {
            let slot = match self.turn(order).await {
                Turn::Now(slot) => Some(slot),
                Turn::Unguarded => None,
                Turn::Not(ended) => return ended,
            };
            self.state.set(State::Running);
            let ended = match slot {
                Some(slot) => self.guarded(slot).await,
                None => self.unguarded().await,
            };
            self.state.set(State::Asking);
            let again = order.retry_after_limit
                && matches!(ended, Ended::Ran { session: Some(_), outcome: SessionOutcome::Limited, .. });
            if !again {
                return ended;
            }
            (self.tell)("squalld: a limit ended the command; it waits for its turn and is run again");
        }
    }

    async fn turn(&self, order: &Order) -> Turn {
        let give_up_at = self.clock.mono() + UNREACHABLE_AFTER;
        let mut known = None;
        loop {
            // Once the daemon has taken the work into its queue, it is worth waiting for.
            let until = if known.is_none() { give_up_at } else { MonoTime(u64::MAX) };
            let asked = match self.daemon.ask(order, until).await {
                Ok(asked) => asked,
                Err(error) => return self.alone(order, error),
            };
            let (session, reason) = match asked {
                Asked::Started(slot) => return Turn::Now(slot),
                Asked::Waiting { session, reason } => (session, reason),
                Asked::Runs => {
                    let why = "a session with the same key runs already; --key names another".to_owned();
                    return Turn::Not(Ended::Elsewhere { session: known, why });
                }
            };
            if !order.wait {
                return Turn::Not(Ended::Deferred { session, reason });
            }
            if known != Some(session) {
                (self.tell)(&format!("squalld: session {session} waits: {reason}"));
            }
            known = Some(session);
            self.state.set(State::Waiting { session });
            match self.wait(session, reason).await {
                Waited::Started(slot) => return Turn::Now(slot),
                // Its database is another one now.
                Waited::Unknown => {}
                Waited::Over(why) => return Turn::Not(Ended::Elsewhere { session: known, why }),
                Waited::Waiting { .. } => unreachable!("who waits goes on waiting"),
            }
        }
    }

    /// Polls until it is our turn, however long the daemon is away meanwhile.
    async fn wait(&self, session: u64, mut reason: String) -> Waited {
        loop {
            let polled_at = self.clock.mono();
            match self.daemon.wait(session).await {
                Waited::Waiting { reason: now } => {
                    if now != reason {
                        (self.tell)(&format!("squalld: session {session} waits: {now}"));
                        reason = now;
                    }
                    self.clock.sleep_until(polled_at + POLL_EVERY).await;
                }
                done @ (Waited::Started(_) | Waited::Unknown | Waited::Over(_)) => return done,
            }
        }
    }

    fn alone(&self, order: &Order, error: DaemonError) -> Turn {
        let why = match error {
            DaemonError::Refused { .. } => return Turn::Not(Ended::Refused { why: error.to_string() }),
            DaemonError::Away { .. } => error.to_string(),
        };
        match order.if_unreachable {
            IfUnreachable::Run => {
                (self.tell)(&format!("squalld: {why}; the command runs outside of any budget"));
                Turn::Unguarded
            }
            IfUnreachable::Fail => Turn::Not(Ended::Unreachable { why }),
        }
    }

    async fn unguarded(&self) -> Ended {
        let mut reader = Reader::new(self.zone.clone());
        let exit = self.command(None, &mut reader, &mut |_| {}).await;
        let (outcome, exit) = outcome(&reader, exit);
        Ended::Ran { session: None, outcome, exit }
    }

    async fn guarded(&self, slot: Slot) -> Ended {
        let session = Some(slot.session);
        let place = Place { session: slot.session, progress: slot.progress.clone() };
        let reports = Reports::default();
        let mut reader = Reader::new(self.zone.clone());
        let command = async {
            let mut hear = |limit| reports.limit(limit);
            let exit = self.command(Some(place), &mut reader, &mut hear).await;
            let (outcome, exit) = outcome(&reader, exit);
            reports.end(outcome, reader.progress().map(str::to_owned));
            (outcome, exit)
        };
        let ((outcome, exit), kept) = tokio::join!(biased; command, reports.deliver(self, &slot));
        let outcome = if kept { outcome } else { SessionOutcome::Lost };
        Ended::Ran { session, outcome, exit }
    }

    /// Starts the command and reads it to its end. `hear` is told the limits as they come.
    async fn command(
        &self,
        place: Option<Place>,
        reader: &mut Reader,
        hear: &mut dyn FnMut(report::Limit),
    ) -> Result<i32, io::Error> {
        let mut running = match self.launch.start(place).await {
            Ok(running) => running,
            Err(error) => {
                (self.tell)(&format!("squalld: the command cannot be started: {error}"));
                return Err(error);
            }
        };
        loop {
            match running.next().await {
                Output::Exited(exit) => return Ok(exit),
                Output::Line(line) => {
                    let said = reader.line(&line, self.clock.wall());
                    for statement in said.into_iter().filter(|statement| statement.severity == Severity::Limit) {
                        let resets_at = statement.resets_in.map(|span| self.clock.mono() + span);
                        hear(report::Limit { window: statement.window, resets_at });
                    }
                }
            }
        }
    }
}

fn outcome(reader: &Reader, exit: Result<i32, io::Error>) -> (SessionOutcome, i32) {
    match exit {
        Ok(exit) => (reader.outcome(exit), exit),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (SessionOutcome::NotStarted, NOT_FOUND),
        Err(_) => (SessionOutcome::NotStarted, NOT_EXECUTABLE),
    }
}

#[cfg(test)]
mod tests;
