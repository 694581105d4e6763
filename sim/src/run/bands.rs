//! Stretches of time that a picture of a run needs beside the levels: faults and holds.
//!
//! **Units:** simulated milliseconds; `to` is exclusive.

use crate::history::{Entry, Sink, What, World};
use squall::base::Axis;
use squall::event::Event;
use std::collections::BTreeMap;

/// From when to when.
pub type Band = (u64, u64);

/// A fault of the scenario, and when it was active.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultBands {
    pub kind: String,
    pub target: Vec<String>,
    pub bands: Vec<Band>,
}

/// What is still open at the end lasts until then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bands {
    /// By the fault's line in the scenario.
    pub faults: BTreeMap<u32, FaultBands>,
    pub holds: BTreeMap<Axis, Vec<Band>>,
    pub end_ms: u64,
    open_faults: BTreeMap<u32, u64>,
    open_holds: BTreeMap<Axis, u64>,
}

impl Bands {
    /// Nothing yet, of a run that ends at `end_ms`.
    pub fn until(end_ms: u64) -> Bands {
        Bands { end_ms, ..Bands::default() }
    }

    fn start_fault(&mut self, line: u32, kind: &str, target: &[String], at: u64) {
        self.open_faults.entry(line).or_insert(at);
        let fault = self.faults.entry(line).or_default();
        kind.clone_into(&mut fault.kind);
        target.clone_into(&mut fault.target);
    }

    fn end_fault(&mut self, line: u32, at: u64) {
        if let (Some(from), Some(fault)) = (self.open_faults.remove(&line), self.faults.get_mut(&line)) {
            fault.bands.push((from, at));
        }
    }

    fn end_hold(&mut self, axis: Axis, at: u64) {
        if let Some(from) = self.open_holds.remove(&axis) {
            self.holds.entry(axis).or_default().push((from, at));
        }
    }

    fn end(&mut self, at: u64) {
        self.end_ms = at;
        for line in self.open_faults.keys().copied().collect::<Vec<_>>() {
            self.end_fault(line, at);
        }
        for axis in self.open_holds.keys().copied().collect::<Vec<_>>() {
            self.end_hold(axis, at);
        }
    }
}

impl Sink for Bands {
    fn entry(&mut self, entry: &Entry, _line: &str) {
        let at = entry.t_ms;
        match &entry.what {
            What::World(World::FaultStarted { line, kind, target }) => self.start_fault(*line, kind, target, at),
            What::World(World::FaultEnded { line, .. }) => self.end_fault(*line, at),
            What::World(World::RunEnded) => self.end(at),
            What::World(
                World::RunStarted { .. } | World::Healed | World::EngineKilled { .. } | World::EngineRestarted,
            )
            | What::Outside(_) => {}
            What::Engine(event) => {
                if let Event::HoldStarted { axis, .. } = event {
                    self.open_holds.entry(*axis).or_insert(at);
                }
                if let Event::HoldEnded { axis } = event {
                    self.end_hold(*axis, at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_that_is_restarted_is_one_band_and_an_open_one_lasts_to_the_end() {
        let mut bands = Bands::default();
        let mut put = |t_ms, what| bands.entry(&Entry { n: 0, t_ms, what }, "");
        let hold = |restarted| What::Engine(Event::HoldStarted { axis: Axis::Cloud, until_ms: 0, restarted });
        put(10, hold(false));
        put(20, hold(true));
        put(30, What::Engine(Event::HoldEnded { axis: Axis::Cloud }));
        put(40, hold(false));
        put(99, What::World(World::RunEnded));
        assert_eq!(bands.holds[&Axis::Cloud], [(10, 30), (40, 99)]);
    }
}
