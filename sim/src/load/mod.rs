//! Who asks for what: clients that use the engine through its HTTP interface, as its users do.
//!
//! An open model: each arrival is a task of its own, and a slow answer delays no other arrival. What a client gets is
//! recorded as that client saw it. All clients live on the host [`HOST`] and find the engine under its name.
//! Sessions are driven by [`session`]. Not driven here: the MCP tools. **Source:** scenario.md, "Loads".

pub mod answer;
pub mod arrivals;
pub mod content;
pub mod request;
pub mod session;

use crate::history::{Outside, Recorder};
use crate::scenario::{Client as Who, Load, LoadKind};
use crate::seed::Seed;
use crate::world::World;
use crate::world::http::{Client, ClientError};
use arrivals::Times;
use bytes::Bytes;
use serde_json::Value;
use session::Scene;
use squall::base::{Span, WallTime};
use std::cell::Cell;
use std::rc::Rc;

/// Where the clients are, and the engine.
pub const HOST: &str = "clients";
pub const ENGINE: &str = "engine";
pub const ENGINE_PORT: u16 = 7878;
/// The clients are near the engine.
pub const ONE_WAY: Span = Span::from_ms(1);
/// How long a client waits for a whole answer.
pub const PATIENCE: Span = Span::from_mins(10);

/// The status file as it stands on the engine's disk now; `None`: there is none.
pub type StatusFile = Rc<dyn Fn() -> Option<Vec<u8>>>;

/// What the loads have done so far; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    arrived: Rc<Cell<u64>>,
    answered: Rc<Cell<u64>>,
}

impl Progress {
    pub fn arrived(&self) -> u64 {
        self.arrived.get()
    }
    /// Arrivals that came to an end, with whatever answer or none.
    pub fn answered(&self) -> u64 {
        self.answered.get()
    }
}

/// Adds the clients' host, unless it is there, and starts the loads on it. To be called at time 0, before or after the engine's start.
pub fn start(
    world: &World,
    loads: &[Load],
    seed: &Seed,
    status_file: StatusFile,
    claude: Option<String>,
    starts_at: WallTime,
    recorder: &Recorder,
) -> Progress {
    let host = world.host(HOST).unwrap_or_else(|| world.add_host(HOST, ONE_WAY));
    let engine = Client::new(&host, ENGINE, ENGINE_PORT).with_limit(PATIENCE);
    let progress = Progress::default();
    let scene = Scene { host: host.clone(), seed: *seed, starts_at, claude, recorder: recorder.clone() };
    let mut drivers = Vec::new();
    for load in loads {
        let driver = Rc::new(Driver {
            load: load.clone(),
            world: world.clone(),
            engine: engine.fresh(),
            status_file: status_file.clone(),
            scene: scene.clone(),
            recorder: recorder.clone(),
            progress: progress.clone(),
        });
        drivers.push((driver, Times::new(load, seed.stream(&format!("load.{}", load.line)))));
    }
    let running = world.clone();
    host.start(async move {
        for (driver, times) in drivers {
            running.spawn(driver.run(times));
        }
        // The clients outlive the last arrival: answers are still to come.
        std::future::pending::<()>().await;
    });
    progress
}

/// One load of the drill.
struct Driver {
    load: Load,
    world: World,
    /// Of this load alone; arrivals under [`Who::Each`] take one of their own.
    engine: Client,
    status_file: StatusFile,
    scene: Scene,
    recorder: Recorder,
    progress: Progress,
}

/// What came back.
struct Got {
    /// 0: no answer.
    status: u16,
    headers: Vec<(String, String)>,
    body: Bytes,
    /// The body came to its end.
    whole: bool,
}

impl Got {
    fn json(&self) -> Option<Value> {
        if self.whole { serde_json::from_slice(&self.body).ok() } else { None }
    }
}

impl Driver {
    async fn run(self: Rc<Self>, times: Times) {
        for (arrival, at_ms) in (0..).zip(times) {
            self.world.sleep_until_ms(at_ms).await;
            let driver = self.clone();
            self.world.spawn(async move { driver.arrive(arrival).await });
        }
    }

    async fn arrive(&self, arrival: u64) {
        self.progress.arrived.set(self.progress.arrived.get() + 1);
        if let LoadKind::Session(of) = &self.load.kind {
            session::run(&self.scene, &self.load, of, arrival).await;
            self.progress.answered.set(self.progress.answered.get() + 1);
            return;
        }
        let asked_ms = self.world.now_ms();
        let before = match self.load.kind {
            LoadKind::Status => (self.status_file)(),
            LoadKind::Chat { .. }
            | LoadKind::Remember { .. }
            | LoadKind::Recall { .. }
            | LoadKind::Defer { .. }
            | LoadKind::Outreach { .. }
            | LoadKind::Session(_) => None,
        };
        let got = self.ask(arrival).await;
        self.progress.answered.set(self.progress.answered.get() + 1);
        self.recorder.outside(self.seen(arrival, asked_ms, before, &got));
    }

    async fn ask(&self, arrival: u64) -> Got {
        let asked = request::request(&self.load, arrival);
        let engine = match self.load.client {
            Who::One | Who::Key(_) => self.engine.clone(),
            Who::Each => self.engine.fresh(),
        };
        let (headers, body) = match asked.body {
            Some(body) => {
                let body = serde_json::to_vec(&body).expect("requests have no keys or numbers that JSON lacks");
                (&[("content-type", "application/json")][..], Bytes::from(body))
            }
            None => (&[][..], Bytes::new()),
        };
        let broken = |status, headers, body| Got { status, headers, body, whole: false };
        match engine.send(asked.method, asked.path, headers, body).await {
            Ok(response) => {
                Got { status: response.status, headers: response.headers, body: response.body, whole: true }
            }
            Err(ClientError::Connect { .. } | ClientError::NoStatus) => broken(0, Vec::new(), Bytes::new()),
            Err(ClientError::Cut { status, headers, body }) => broken(status, headers, body),
            Err(ClientError::TimedOut { status, .. }) => broken(status.unwrap_or(0), Vec::new(), Bytes::new()),
        }
    }

    /// The event that says what this client saw. `before`: the status file when it asked.
    fn seen(&self, arrival: u64, asked_ms: u64, before: Option<Vec<u8>>, got: &Got) -> Outside {
        let load = self.load.line;
        let client = request::identity(&self.load, arrival);
        let status = got.status;
        let said = match self.load.kind {
            // Chats and status files are read on their own.
            LoadKind::Chat { .. } | LoadKind::Remember { .. } | LoadKind::Status => None,
            LoadKind::Recall { .. } | LoadKind::Defer { .. } | LoadKind::Outreach { .. } => got.json(),
            LoadKind::Session(_) => None,
        };
        let text = |name: &str| said.as_ref().and_then(|said| said.get(name)).and_then(Value::as_str);
        let number = |name: &str| said.as_ref().and_then(|said| said.get(name)).and_then(Value::as_u64);
        match &self.load.kind {
            LoadKind::Chat { class, .. } => {
                let answer = answer::chat(status, &got.headers, &got.body, got.whole);
                Outside::ChatAnswered {
                    load,
                    client,
                    class: request::class_name(*class).to_owned(),
                    status,
                    outcome: answer.outcome,
                    asked_ms,
                    retry_after_ms: answer.retry_after_ms,
                }
            }
            LoadKind::Remember { .. } => Outside::RememberAnswered { load, client, status },
            LoadKind::Recall { .. } => {
                let hits = said.as_ref().and_then(|said| said.get("hits")).and_then(Value::as_array);
                Outside::RecallAnswered {
                    load,
                    client,
                    key: request::declared(&self.load).map(str::to_owned),
                    status,
                    hits: hits.map_or(0, |hits| u32::try_from(hits.len()).unwrap_or(u32::MAX)),
                    advisory: said.as_ref().and_then(answer::advisory),
                }
            }
            LoadKind::Defer { .. } => {
                let merged = said.as_ref().and_then(|said| said.get("merged")).and_then(Value::as_bool);
                Outside::DeferAnswered { load, client, status, id: number("id"), merged: merged.unwrap_or(false) }
            }
            LoadKind::Outreach { .. } => {
                let what = text("status").unwrap_or("failed").to_owned();
                Outside::OutreachAnswered { load, client, status, what, key: text("key").map(str::to_owned) }
            }
            LoadKind::Session(_) => unreachable!("sessions are told by themselves"),
            LoadKind::Status => {
                // The engine spoke at some instant between the two readings of its file: a level that changes
                // meanwhile is told by one of them.
                let served = if got.whole && status == 200 { answer::levels(&got.body) } else { None };
                let after = (self.status_file)();
                let on_file = |file: Option<Vec<u8>>| file.as_deref().and_then(answer::levels);
                let agree = served.is_some() && (served == on_file(before) || served == on_file(after));
                Outside::StatusRead { load, client, status, agree }
            }
        }
    }
}

#[cfg(test)]
mod end_to_end;
