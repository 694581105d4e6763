//! When a fault is active: once from its start to its end, or on and off (`flap`).
//!
//! A flap begins with a down phase; each phase's length is drawn from the fault's own stream and then stretched or
//! shrunk by up to `jitter` of itself. All phases are drawn before the run, so that what happens in it shifts none.
//! **Source:** scenario.md, "shape".

use crate::scenario::{Dist, Fault, FaultKind};
use crate::seed::Stream;
use squall::base::Span;

/// The shortest phase: a flap of no length would never get to its end.
const PHASE_MIN_MS: u64 = 1;

/// The times in `[from, to)`, in milliseconds, at which the fault is active, all of them before `end_ms`.
pub fn phases(fault: &Fault, end_ms: u64, stream: &mut Stream) -> Vec<(u64, u64)> {
    let from = fault.at.ms();
    let to = (fault.at + fault.lasts).ms().min(end_ms);
    if from >= to {
        return Vec::new();
    }
    let FaultKind::Flap { down, up, jitter, .. } = &fault.kind else { return vec![(from, to)] };
    let mut phases = Vec::new();
    let mut at = from;
    while at < to {
        let until = at.saturating_add(length(down, *jitter, stream));
        phases.push((at, until.min(to)));
        at = until.saturating_add(length(up, *jitter, stream));
    }
    phases
}

/// Draws the jitter even where it is zero, so that changing it shifts no later draw.
fn length(dist: &Dist, jitter: f64, stream: &mut Stream) -> u64 {
    let drawn: Span = dist.sample(stream);
    let stretch = 1.0 + jitter * (2.0 * stream.unit() - 1.0);
    drawn.scale(stretch.max(0.0)).ms().max(PHASE_MIN_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Pick;
    use crate::seed::Seed;

    fn flap(down: Dist, up: Dist, jitter: f64) -> Fault {
        Fault {
            line: 1,
            name: None,
            kind_text: "flap".into(),
            target_text: Vec::new(),
            kind: FaultKind::Flap { down, up, jitter, of: Box::new(FaultKind::Hang) },
            targets: Vec::new(),
            at: Span::from_secs(10),
            lasts: Span::from_secs(100),
            pick: Pick::All,
        }
    }

    fn fixed(s: u64) -> Dist {
        Dist::Fixed(Span::from_secs(s))
    }

    #[test]
    fn a_flap_is_down_first_and_ends_with_the_fault() {
        let mut stream = Seed::new(1).stream("fault.1");
        let phases = phases(&flap(fixed(30), fixed(20), 0.0), 1_000_000, &mut stream);
        assert_eq!(phases, [(10_000, 40_000), (60_000, 90_000)]);
    }

    #[test]
    fn a_flap_is_over_when_everything_is_healed() {
        let mut stream = Seed::new(1).stream("fault.1");
        let phases = phases(&flap(fixed(30), fixed(20), 0.0), 70_000, &mut stream);
        assert_eq!(phases, [(10_000, 40_000), (60_000, 70_000)]);
    }

    #[test]
    fn jitter_stretches_each_phase_by_at_most_its_share() {
        let mut stream = Seed::new(1).stream("fault.1");
        let phases = phases(&flap(fixed(5), fixed(5), 0.4), 1_000_000, &mut stream);
        let whole = &phases[..phases.len() - 1];
        assert!(whole.iter().all(|(from, to)| (3_000..=7_000).contains(&(to - from))), "{phases:?}");
        assert!(whole.iter().any(|(from, to)| to - from != 5_000));
        assert!(phases.windows(2).all(|pair| (3_000..=7_000).contains(&(pair[1].0 - pair[0].1))));
    }

    #[test]
    fn a_flap_without_length_still_ends() {
        let mut stream = Seed::new(1).stream("fault.1");
        assert_eq!(phases(&flap(fixed(0), fixed(0), 0.0), 10_010, &mut stream).len(), 5);
    }
}
