//! Switches the faults on and off at their times, and heals everything at the end of the drill's `duration`.
//!
//! At the same instant, what ends is switched before what starts, and then in file order. What is to happen at 0 has
//! happened when [`start`] returns. Each down phase of a flap is a start and an end of the flap.

use super::board::Board;
use super::process::Engine;
use super::shape;
use crate::history::{Recorder, World as WorldEvent};
use crate::scenario::FaultKind;
use crate::world::World;
use squall::base::Span;

/// One switching of one fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Switch {
    pub at_ms: u64,
    /// `false` sorts first.
    pub on: bool,
    /// Of the fault, in file order.
    pub index: usize,
    /// Of what is switched on: when it will be switched off.
    pub until_ms: u64,
}

/// Everything that will be switched before `duration_ms`, when what is still on goes off.
pub fn timeline(board: &Board, duration_ms: u64) -> Vec<Switch> {
    let mut switches = Vec::new();
    for index in 0..board.len() {
        let phases = board.with(index, |armed| shape::phases(&armed.fault, duration_ms, &mut armed.stream));
        for (from, to) in phases {
            switches.push(Switch { at_ms: from, on: true, index, until_ms: to });
            switches.push(Switch { at_ms: to, on: false, index, until_ms: to });
        }
    }
    switches.sort();
    switches
}

/// Starts the faults of the board; `duration` is the drill's. To be called at time 0, after the servers' start and
/// after the history's first line, before the engine's.
pub fn start(world: &World, board: &Board, engine: &Engine, duration: Span, recorder: &Recorder) {
    let switches = timeline(board, duration.ms());
    let (board, engine, recorder) = (board.clone(), engine.clone(), recorder.clone());
    let schedule = Schedule { world: world.clone(), board, engine, recorder };
    let (at_once, later): (Vec<Switch>, Vec<Switch>) =
        switches.into_iter().partition(|switch| switch.at_ms <= world.now_ms());
    for switch in at_once {
        schedule.apply(switch);
    }
    world.spawn(async move {
        for switch in later {
            schedule.world.sleep_until_ms(switch.at_ms).await;
            schedule.apply(switch);
        }
        schedule.world.sleep_until_ms(duration.ms()).await;
        schedule.recorder.world(WorldEvent::Healed);
    });
}

struct Schedule {
    world: World,
    board: Board,
    engine: Engine,
    recorder: Recorder,
}

impl Schedule {
    fn apply(&self, switch: Switch) {
        for host in self.board.switch(switch.index, switch.on) {
            self.world.set_link(&host, self.board.link(&host));
        }
        let (line, kind, target) = self.board.with(switch.index, |armed| {
            (armed.fault.line, armed.fault.kind_text.clone(), armed.fault.target_text.clone())
        });
        if !switch.on {
            self.switch_machine(switch);
        }
        self.recorder.world(if switch.on {
            WorldEvent::FaultStarted { line, kind, target }
        } else {
            WorldEvent::FaultEnded { line, kind, target }
        });
        // What happens to the engine comes after the word on why.
        if switch.on {
            self.switch_machine(switch);
        }
    }

    /// A fault of the engine's machine begins or ends.
    fn switch_machine(&self, switch: Switch) {
        let (line, acts, stream) =
            self.board.with(switch.index, |armed| (armed.fault.line, armed.acts.clone(), armed.stream.clone()));
        let disk = self.engine.disk_faults();
        match (&acts, switch.on) {
            (FaultKind::Disk(fault), true) => disk.begin(line, fault, switch.until_ms, stream),
            (FaultKind::Disk(fault), false) => disk.end(line, fault),
            (FaultKind::Process(fault), true) => self.engine.begin(line, fault),
            (FaultKind::Process(fault), false) => self.engine.end(line, fault),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::tests::{drill, fault};
    use super::*;
    use crate::scenario::{Dist, Fault, Pick, Target};
    use crate::seed::Seed;

    fn times(faults: Vec<Fault>, duration_s: u64) -> Vec<(u64, bool, usize)> {
        let board = Board::new(&drill(faults), &Seed::new(4)).unwrap();
        let switches = timeline(&board, duration_s * 1_000);
        switches.into_iter().map(|switch| (switch.at_ms / 1_000, switch.on, switch.index)).collect()
    }

    fn hang(at_s: u64, lasts_s: u64) -> Fault {
        let (at, lasts) = (Span::from_secs(at_s), Span::from_secs(lasts_s));
        Fault { at, lasts, ..fault(1, FaultKind::Hang, Target::Llm, Pick::All) }
    }

    #[test]
    fn what_ends_at_an_instant_is_switched_before_what_starts() {
        let switches = times(vec![hang(60, 30), hang(30, 30), hang(0, 60)], 300);
        let expected = [(0, true, 2), (30, true, 1), (60, false, 1), (60, false, 2), (60, true, 0), (90, false, 0)];
        assert_eq!(switches, expected);
    }

    #[test]
    fn no_fault_outlives_the_healing_or_starts_after_it() {
        assert_eq!(times(vec![hang(60, 600), hang(120, 5), hang(500, 5)], 120), [(60, true, 0), (120, false, 0)]);
        assert_eq!(times(vec![hang(10, 0)], 120), []);
    }

    #[test]
    fn another_fault_does_not_shift_the_phases_of_a_flap() {
        let seconds = |s| Dist::Fixed(Span::from_secs(s));
        let flap = || Fault {
            line: 31,
            kind: FaultKind::Flap { down: seconds(20), up: seconds(20), jitter: 0.5, of: Box::new(FaultKind::Hang) },
            ..hang(0, 300)
        };
        let of_flap = |faults: Vec<Fault>, index| {
            let board = Board::new(&drill(faults), &Seed::new(4)).unwrap();
            let switches = timeline(&board, 300_000).into_iter().filter(move |switch| switch.index == index);
            switches.map(|switch| (switch.at_ms, switch.on)).collect::<Vec<_>>()
        };
        let other = || Fault { line: 12, ..flap() };
        assert_eq!(of_flap(vec![flap()], 0), of_flap(vec![other(), flap()], 1));
        assert_ne!(of_flap(vec![flap()], 0), of_flap(vec![other(), flap()], 0));
    }
}
