//! A simulated Claude Code command: signs in, works in turns, prints what the real one prints, ends.
//!
//! A turn that fails for the server's reasons is tried again as the real one does it (up to ten times, ever later); one
//! that a usage limit refuses ends the command with the limit's message. Waiting for a reset inside of the command is not
//! simulated.

use super::Scene;
use super::wording::{self, Limit};
use crate::history::Outside;
use crate::scenario::SessionLoad;
use crate::seed::Stream;
use crate::world::World;
use crate::world::http::Client;
use bytes::Bytes;
use squall::base::Span;
use squall::port::LocalFuture;
use squall::wrapper::{Launch, Output, Place, Running};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use tokio::sync::Notify;

/// From the start of the command to its first words.
const STARTS_IN: Span = Span::from_ms(800);
const TURN_MIN_MS: u64 = 10_000;
const TURN_MAX_MS: u64 = 20_000;
const PATIENCE: Span = Span::from_secs(60);
const RETRIES_MAX: u32 = 10;
const RETRY: Span = Span::from_ms(500);
const RETRY_MAX: Span = Span::from_secs(32);
const KILLED: i32 = 137;

/// Starts simulated commands for one wrapper.
pub struct Scripted {
    told: Rc<Told>,
    of: SessionLoad,
    stream: RefCell<Stream>,
    dies_at: Cell<Option<u64>>,
    born: Notify,
}

/// What a command is and whom it talks to.
struct Told {
    server: Client,
    scene: Scene,
    client: String,
}

impl Scripted {
    pub fn new(server: Client, scene: &Scene, of: &SessionLoad, client: String, stream: Stream) -> Scripted {
        Scripted {
            told: Rc::new(Told { server: server.with_limit(PATIENCE), scene: scene.clone(), client }),
            of: of.clone(),
            stream: RefCell::new(stream),
            dies_at: Cell::new(None),
            born: Notify::new(),
        }
    }

    /// What is drawn for this arrival.
    pub fn stream(&self) -> RefMut<'_, Stream> {
        self.stream.borrow_mut()
    }

    /// Resolves when wrapper and command die, if they do.
    pub async fn death(&self) {
        loop {
            match self.dies_at.get() {
                Some(at) => return self.told.scene.host.world().sleep_until_ms(at).await,
                None => self.born.notified().await,
            }
        }
    }
}

impl Launch for Scripted {
    fn start(&self, place: Option<Place>) -> LocalFuture<'static, io::Result<Box<dyn Running>>> {
        let now = self.told.scene.host.world().now_ms();
        let mut stream = self.stream.borrow_mut();
        let works_until = now + STARTS_IN.ms() + self.of.runs_for.sample(&mut stream).ms();
        if let Some(dies_after) = self.of.dies_after {
            self.dies_at.set(Some(now + dies_after.sample(&mut stream).ms()));
            self.born.notify_one();
        }
        let turn_every = Span::from_ms(TURN_MIN_MS + stream.below(TURN_MAX_MS - TURN_MIN_MS + 1));
        let command = Command {
            told: self.told.clone(),
            of: self.of.clone(),
            session: place.map(|place| place.session),
            works_until,
            turn_every,
            phase: Phase::SignIn,
            out: VecDeque::new(),
            limit: None,
            running: true,
            worked: false,
        };
        command.truth();
        Box::pin(async move { Ok(Box::new(command) as Box<dyn Running>) })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    SignIn,
    Working,
    Over,
}

struct Command {
    told: Rc<Told>,
    of: SessionLoad,
    session: Option<u64>,
    works_until: u64,
    turn_every: Span,
    phase: Phase,
    out: VecDeque<Output>,
    /// The window that ended it.
    limit: Option<String>,
    running: bool,
    /// A turn was answered.
    worked: bool,
}

/// What a server said to one request.
enum Said {
    Yes,
    Limited(Limit),
    /// 401 or 403.
    SignedOut(u16),
    /// Worth another try; the words for it.
    Trouble(String),
}

impl Running for Command {
    fn next(&mut self) -> LocalFuture<'_, Output> {
        Box::pin(async move {
            loop {
                if let Some(output) = self.out.pop_front() {
                    if let Output::Exited(_) = output {
                        self.over();
                    }
                    return output;
                }
                match self.phase {
                    Phase::SignIn => self.sign_in().await,
                    Phase::Working => self.work().await,
                    Phase::Over => std::future::pending().await,
                }
            }
        })
    }
}

/// Killed with its wrapper.
impl Drop for Command {
    fn drop(&mut self) {
        self.over();
    }
}

impl Command {
    fn world(&self) -> &World {
        self.told.scene.host.world()
    }

    async fn sign_in(&mut self) {
        self.world().sleep(STARTS_IN).await;
        match self.ask("/sign-in").await {
            Said::Yes => {
                self.say(wording::begins(&self.told.client));
                self.say(wording::allowed());
                self.phase = Phase::Working;
            }
            Said::Limited(limit) => self.limited(&limit),
            Said::SignedOut(status) => self.fail(wording::signed_out(status)),
            Said::Trouble(why) => self.fail(wording::cannot_sign_in(&why)),
        }
    }

    async fn work(&mut self) {
        let mut tries = 0;
        let mut wait = RETRY;
        loop {
            match self.ask("/turn").await {
                Said::Yes => break,
                Said::Limited(limit) => return self.limited(&limit),
                Said::SignedOut(status) => return self.fail(wording::signed_out(status)),
                Said::Trouble(why) if tries == RETRIES_MAX => return self.fail(wording::gave_up(&why)),
                Said::Trouble(_) => {
                    self.world().sleep(wait).await;
                    wait = wait.scale(2.0).min(RETRY_MAX);
                    tries += 1;
                }
            }
        }
        self.worked = true;
        self.say(wording::works());
        let next = self.world().now_ms() + self.turn_every.ms();
        self.world().sleep_until_ms(next.min(self.works_until)).await;
        if next >= self.works_until {
            self.say(wording::done(self.of.exit));
            self.out.push_back(Output::Exited(i32::from(self.of.exit)));
        }
    }

    async fn ask(&self, path: &str) -> Said {
        match self.told.server.send("POST", path, &[], Bytes::new()).await {
            Ok(response) => match response.status {
                200..=299 => Said::Yes,
                401 | 403 => Said::SignedOut(response.status),
                429 => match Limit::read(&response.body) {
                    Some(limit) => Said::Limited(limit),
                    None => Said::Trouble("429".to_owned()),
                },
                status => Said::Trouble(status.to_string()),
            },
            Err(error) => Said::Trouble(error.to_string()),
        }
    }

    fn limited(&mut self, limit: &Limit) {
        let limit = &if self.worked { limit.clone() } else { limit.said_to_a_newcomer() };
        let (lines, exit) = limit.words(self.told.scene.starts_at);
        self.limit = Some(limit.window.clone());
        lines.into_iter().for_each(|line| self.say(line));
        self.out.push_back(Output::Exited(exit.unwrap_or(KILLED)));
    }

    fn fail(&mut self, line: String) {
        self.say(line);
        self.out.push_back(Output::Exited(1));
    }

    fn say(&mut self, line: String) {
        self.out.push_back(Output::Line(line));
    }

    fn over(&mut self) {
        self.phase = Phase::Over;
        if self.running {
            self.running = false;
            self.truth();
        }
    }

    fn truth(&self) {
        self.told.scene.recorder.outside(Outside::SessionProcess {
            client: self.told.client.clone(),
            session: self.session,
            class: self.of.class,
            running: self.running,
            limit: self.limit.clone(),
        });
    }
}
