//! What happened in a run: one line per event, from three sources that are never mixed.
//!
//! The *engine* says what it decided ([`squall::event::Event`]), the *outside* says what servers and clients saw
//! ([`Outside`]), the *world* says what it did to both ([`World`]). Checks read this and nothing else.
//! **Source:** events.md; harness.md "Histories and checks".

pub mod outside;
pub mod recorder;
pub mod world;

pub use outside::Outside;
pub use recorder::{Recorder, Sink};
pub use world::World;

use serde::{Deserialize, Serialize};
use squall::event::Event;

/// One line of `history.jsonl`: `{"n": 2101, "t_ms": 812400, "from": "engine", "event": "axis.changed", …}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Rises by one.
    pub n: u64,
    /// Simulated milliseconds since the run began.
    pub t_ms: u64,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum What {
    Engine(Event),
    Outside(Outside),
    World(World),
}

impl What {
    /// The event's name, such as `"axis.changed"`.
    pub fn name(&self) -> &'static str {
        match self {
            What::Engine(event) => event.name(),
            What::Outside(event) => event.name(),
            What::World(event) => event.name(),
        }
    }
}
