//! What the world did: time, faults, processes.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event")]
pub enum World {
    /// First line of every history. Faults happen in `[0, duration_ms)`; the run ends at `duration_ms + settle_ms`.
    #[serde(rename = "run.started")]
    RunStarted { schema: u32, title: String, seed: u64, duration_ms: u64, settle_ms: u64 },
    /// `line` of the fault in the scenario file; `kind` and `target` as written there.
    #[serde(rename = "fault.started")]
    FaultStarted { line: u32, kind: String, target: Vec<String> },
    #[serde(rename = "fault.ended")]
    FaultEnded { line: u32, kind: String, target: Vec<String> },
    /// Every fault is over, load goes on: convergence is judged from here.
    #[serde(rename = "healed")]
    Healed,
    /// `point`: the event that it was killed at, if it was not a time.
    #[serde(rename = "engine.killed")]
    EngineKilled {
        power_loss: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<String>,
    },
    #[serde(rename = "engine.restarted")]
    EngineRestarted,
    /// Last line of every history.
    #[serde(rename = "run.ended")]
    RunEnded,
}

impl World {
    pub fn name(&self) -> &'static str {
        match self {
            World::RunStarted { .. } => "run.started",
            World::FaultStarted { .. } => "fault.started",
            World::FaultEnded { .. } => "fault.ended",
            World::Healed => "healed",
            World::EngineKilled { .. } => "engine.killed",
            World::EngineRestarted => "engine.restarted",
            World::RunEnded => "run.ended",
        }
    }
}
