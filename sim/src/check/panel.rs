//! All checks over one history: hands each entry to each check, names the active fault, keeps the first violations.

use super::{Check, VIOLATIONS_MAX, Violation, all};
use crate::history::{Entry, What, World};

/// What one check came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub id: &'static str,
    pub judged: u64,
    /// The first [`VIOLATIONS_MAX`].
    pub violations: Vec<Violation>,
    /// How many more there were.
    pub dropped: u64,
}

pub struct Panel {
    seats: Vec<Seat>,
    /// Active faults, the newest last.
    faults: Vec<Fault>,
    found: Vec<Violation>,
}

struct Seat {
    check: Box<dyn Check>,
    kept: Vec<Violation>,
    dropped: u64,
}

struct Fault {
    line: u32,
    target: Vec<String>,
}

impl Default for Panel {
    fn default() -> Self {
        Panel::new(all())
    }
}

impl Panel {
    pub fn new(checks: Vec<Box<dyn Check>>) -> Panel {
        let seats = checks.into_iter().map(|check| Seat { check, kept: Vec::new(), dropped: 0 }).collect();
        Panel { seats, faults: Vec::new(), found: Vec::new() }
    }

    pub fn observe(&mut self, entry: &Entry) {
        if let What::World(World::FaultStarted { line, target, .. }) = &entry.what {
            self.faults.push(Fault { line: *line, target: target.clone() });
        }
        for seat in &mut self.seats {
            seat.check.observe(entry, &mut self.found);
            if !self.found.is_empty() {
                seat.keep(&mut self.found, &self.faults);
            }
        }
        // After the checks: what is found at the very end of a fault is still explained by it.
        if let What::World(World::FaultEnded { line, .. }) = &entry.what
            && let Some(at) = self.faults.iter().rposition(|fault| fault.line == *line)
        {
            self.faults.remove(at);
        }
    }

    /// After the last entry.
    pub fn finish(mut self) -> Vec<Judgement> {
        for seat in &mut self.seats {
            seat.check.finish(&mut self.found);
            seat.keep(&mut self.found, &self.faults);
        }
        self.seats
            .into_iter()
            .map(|seat| Judgement {
                id: seat.check.id(),
                judged: seat.check.judged(),
                violations: seat.kept,
                dropped: seat.dropped,
            })
            .collect()
    }
}

impl Seat {
    fn keep(&mut self, found: &mut Vec<Violation>, faults: &[Fault]) {
        for mut violation in found.drain(..) {
            if self.kept.len() == VIOLATIONS_MAX {
                self.dropped += 1;
                continue;
            }
            if violation.fault_line.is_none() {
                violation.fault_line = explaining(faults, &violation.what);
            }
            self.kept.push(violation);
        }
    }
}

/// The newest active fault whose target the sentence names, else the newest active one.
fn explaining(faults: &[Fault], what: &str) -> Option<u32> {
    let named = |fault: &&Fault| fault.target.iter().any(|target| what.contains(target.as_str()));
    faults.iter().rev().find(named).or(faults.last()).map(|fault| fault.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Complains about every entry.
    struct Grumbler(u64);
    impl Check for Grumbler {
        fn id(&self) -> &'static str {
            "GRUMBLE-1"
        }
        fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
            self.0 += 1;
            out.push(Violation::new(entry.t_ms, [entry.n], "openai was slow"));
        }
        fn finish(&mut self, _: &mut Vec<Violation>) {}
        fn judged(&self) -> u64 {
            self.0
        }
    }

    fn world(n: u64, event: World) -> Entry {
        Entry { n, t_ms: n, what: What::World(event) }
    }

    #[test]
    fn a_violation_is_explained_by_the_active_fault_that_it_names_and_by_none_when_all_are_over() {
        let start = |line, name: &str| World::FaultStarted { line, kind: "hang".into(), target: vec![name.into()] };
        let end = |line| World::FaultEnded { line, kind: "hang".into(), target: vec![] };
        let mut panel = Panel::new(vec![Box::new(Grumbler(0))]);
        let events = [start(31, "openai"), start(40, "mistral"), end(31), World::Healed, end(40), World::Healed];
        for (n, event) in events.into_iter().enumerate() {
            panel.observe(&world(n as u64, event));
        }
        let judged = panel.finish().remove(0);
        let lines: Vec<_> = judged.violations.iter().map(|violation| violation.fault_line).collect();
        assert_eq!(lines, [Some(31), Some(31), Some(31), Some(40), Some(40), None]);
    }

    #[test]
    fn violations_beyond_the_limit_are_counted_only() {
        let mut panel = Panel::new(vec![Box::new(Grumbler(0))]);
        for n in 0..25 {
            panel.observe(&world(n, World::Healed));
        }
        let judged = panel.finish().remove(0);
        assert_eq!((judged.judged, judged.violations.len(), judged.dropped), (25, VIOLATIONS_MAX, 5));
    }
}
