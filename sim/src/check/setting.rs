//! What every check has to know about the history it reads: the rules in force, whether the engine is up, how exact
//! its timers are.

use crate::history::{Entry, What, World};
use squall::base::{AxisLevels, Rules};
use squall::event::Event;

/// Routing facts younger than this at a kill may be lost: they commit in groups.
pub const COMMIT_MS: u64 = 100;

/// How late a timer of a real machine may be, and how long an engine that was started again may need to catch up.
const TIMER_SLACK_MS: u64 = 1_000;

/// The engine was started.
pub struct Start {
    /// No earlier incarnation left anything.
    pub fresh: bool,
    pub levels: AxisLevels,
    /// Facts from this moment on may be lost; `None`: it was not killed.
    pub lost_from_ms: Option<u64>,
    /// Other rules than before.
    pub new_rules: bool,
}

#[derive(Default)]
pub struct Setting {
    rules: Option<Box<Rules>>,
    /// The world speaks: this is a simulated run, timers are exact, and what the outside saw is in the history.
    pub simulated: bool,
    pub up: bool,
    started_ms: u64,
    killed_ms: Option<u64>,
}

impl Setting {
    /// Reads every entry first; tells of a start of the engine.
    pub fn observe(&mut self, entry: &Entry) -> Option<Start> {
        match &entry.what {
            What::Engine(event) => return self.engine(entry.t_ms, event),
            What::World(World::EngineKilled { .. }) => {
                self.simulated = true;
                self.up = false;
                self.killed_ms = Some(entry.t_ms);
            }
            What::World(_) => self.simulated = true,
            What::Outside(_) => {}
        }
        None
    }

    fn engine(&mut self, now: u64, event: &Event) -> Option<Start> {
        if let Event::EngineStarted { resumed, levels, rules, .. } = event {
            // Without a word on how the last one ended (a production journal) it may have been a crash.
            let lost_from_ms = match self.killed_ms.take() {
                Some(killed) => Some(killed.saturating_sub(COMMIT_MS)),
                None if self.up && !self.simulated => Some(0),
                None => None,
            };
            let new_rules = self.rules.as_ref() != Some(rules);
            if new_rules {
                self.rules = Some(rules.clone());
            }
            self.up = true;
            self.started_ms = now;
            return Some(Start { fresh: !resumed, levels: *levels, lost_from_ms, new_rules });
        }
        if let Event::EngineStopped { .. } = event {
            self.up = false;
        }
        None
    }

    /// The rules in force; `None` before the engine was seen to start.
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_deref()
    }

    /// How late something may be that was due at `due_ms`.
    pub fn late_max(&self, due_ms: u64) -> u64 {
        if due_ms <= self.started_ms {
            self.started_ms - due_ms + TIMER_SLACK_MS // It passed while the engine was down.
        } else if self.simulated {
            0
        } else {
            TIMER_SLACK_MS
        }
    }

    pub fn started_ms(&self) -> u64 {
        self.started_ms
    }
}
