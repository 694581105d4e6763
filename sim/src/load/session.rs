//! The load `session`: Claude Code sessions under the production wrapper.
//!
//! Everything but the command is real: the wrapper asks the engine for a slot over the simulated network, waits for it,
//! reads what the command prints ([`process`], [`wording`]) and reports. What the history says about a session comes from
//! here as its user saw it, and from the command as it really ran.
//! **Source:** scenario.md (`session`), engine.md 6.

mod process;
mod wording;

use super::{ENGINE, ENGINE_PORT};
use crate::adapter::{SimClock, SimNet};
use crate::history::{Outside, Recorder};
use crate::scenario::{Client as Who, Load, SessionLoad};
use crate::seed::Seed;
use crate::world::http::Client;
use crate::world::{Host, World};
use process::Scripted;
use squall::base::{SessionOutcome, WallTime};
use squall::wrapper::{Daemon, Ended, IfUnreachable, Order, Wrapper};
use std::rc::Rc;

/// What sessions need of the world beside the engine.
#[derive(Clone)]
pub struct Scene {
    pub host: Host,
    pub seed: Seed,
    pub starts_at: WallTime,
    /// The host that sessions work at.
    pub claude: Option<String>,
    pub recorder: Recorder,
}

/// Runs one session to its end, whatever that is.
pub async fn run(scene: &Scene, load: &Load, of: &SessionLoad, arrival: u64) {
    let world: &World = scene.host.world();
    let asked_ms = world.now_ms();
    let client = super::request::identity(load, arrival);
    let claude = scene.claude.as_deref().expect("a drill with sessions has a server for them");
    let clock = Rc::new(SimClock::new(world.clone(), scene.starts_at));
    let net = Rc::new(SimNet::new(scene.host.clone()));
    let daemon = Daemon::new(&format!("http://{ENGINE}:{ENGINE_PORT}"), net, clock.clone())
        .expect("the engine's host and port make a URL");
    let command = Rc::new(Scripted::new(
        Client::new(&scene.host, claude, 80),
        scene,
        of,
        client.clone(),
        scene.seed.stream(&format!("load.{}.session.{arrival}", load.line)),
    ));
    let wrapper = Wrapper::new(daemon, clock, command.clone(), jiff::tz::TimeZone::UTC, Rc::new(|_| {}));
    let order = Order {
        class: of.class,
        key: key(load, of, arrival),
        label: Some(client.clone()),
        wait: of.wait,
        retry_after_limit: of.retry,
        if_unreachable: IfUnreachable::usual(of.class),
    };
    let leaves_after = of.leaves_after.map(|dist| dist.sample(&mut command.stream()));
    let leaves = async {
        match leaves_after {
            Some(span) => world.sleep(span).await,
            None => std::future::pending().await,
        }
    };
    let mut run = std::pin::pin!(wrapper.run(&order));
    let ended = tokio::select! {
        biased;
        () = command.death() => return, // Nobody is left to say anything.
        ended = &mut run => ended,
        () = leaves => {
            if !wrapper.is_running() {
                return;
            }
            tokio::select! {
                biased;
                () = command.death() => return,
                ended = run => ended,
            }
        }
    };
    let (session, outcome) = told(&ended);
    scene.recorder.outside(Outside::SessionAnswered {
        load: load.line,
        client,
        class: of.class,
        session,
        status: ended.exit_code(),
        outcome,
        asked_ms,
    });
}

/// One client always means the same work, unless a key says what the work is.
fn key(load: &Load, of: &SessionLoad, arrival: u64) -> String {
    match (&of.key, &load.client) {
        (Some(key), _) => key.clone(),
        (None, Who::Key(key)) => key.clone(),
        (None, Who::One | Who::Each) => format!("{}:{}", load.line, arrival + 1),
    }
}

fn told(ended: &Ended) -> (Option<u64>, String) {
    let (session, outcome) = match ended {
        Ended::Ran { session, outcome, .. } => (*session, outcome_name(*outcome)),
        Ended::Deferred { session, .. } => (Some(*session), "deferred"),
        Ended::Elsewhere { session, .. } => (*session, "elsewhere"),
        Ended::Unreachable { .. } => (None, "unreachable"),
        Ended::Refused { .. } => (None, "refused"),
    };
    (session, outcome.to_owned())
}

fn outcome_name(outcome: SessionOutcome) -> &'static str {
    match outcome {
        SessionOutcome::Done => "done",
        SessionOutcome::Failed => "failed",
        SessionOutcome::Limited => "limited",
        SessionOutcome::NotStarted => "not_started",
        SessionOutcome::Lost => "lost",
    }
}
