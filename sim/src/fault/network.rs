//! Faults of the network: `refuse`, `blackhole`, `reset`, `dns`, `delay`, `loss`. They hit the link to a host as a
//! whole, so `share` and `every_nth` mean nothing to them.
//!
//! Those that overlap hold together: two losses multiply what gets through, of two delays the first in file order
//! counts. The engine must survive all of them; packets that arrive twice or damaged are out of the model, as TCP
//! keeps them from it. **Source:** scenario.md, "network".

use crate::scenario::FaultKind;
use crate::world::LinkRule;

pub fn is_network(kind: &FaultKind) -> bool {
    match kind {
        FaultKind::Refuse
        | FaultKind::Blackhole
        | FaultKind::Reset
        | FaultKind::Dns
        | FaultKind::Delay { .. }
        | FaultKind::Loss { .. } => true,
        FaultKind::Errors(_)
        | FaultKind::Hang
        | FaultKind::Slow(_)
        | FaultKind::Cut { .. }
        | FaultKind::StreamError { .. }
        | FaultKind::Garbage(_)
        | FaultKind::Poison { .. }
        | FaultKind::Storm { .. }
        | FaultKind::Limit(_)
        | FaultKind::SessionLimit(_)
        | FaultKind::Flap { .. }
        | FaultKind::Disk(_)
        | FaultKind::Process(_) => false,
    }
}

/// The state of a link under these faults, in file order. Kinds that are not the network's are passed over.
pub fn combine<'a>(active: impl Iterator<Item = &'a FaultKind>) -> LinkRule {
    let mut rule = LinkRule::default();
    for kind in active {
        match kind {
            FaultKind::Refuse => rule.refuse = true,
            FaultKind::Blackhole => rule.blackhole = true,
            FaultKind::Reset => rule.reset = true,
            FaultKind::Dns => rule.dns = true,
            FaultKind::Delay { by } => _ = rule.delay.get_or_insert(*by),
            FaultKind::Loss { share } => {
                rule.loss = Some(1.0 - (1.0 - rule.loss.unwrap_or(0.0)) * (1.0 - share));
            }
            FaultKind::Errors(_)
            | FaultKind::Hang
            | FaultKind::Slow(_)
            | FaultKind::Cut { .. }
            | FaultKind::StreamError { .. }
            | FaultKind::Garbage(_)
            | FaultKind::Poison { .. }
            | FaultKind::Storm { .. }
            | FaultKind::Limit(_)
            | FaultKind::SessionLimit(_)
            | FaultKind::Flap { .. }
            | FaultKind::Disk(_)
            | FaultKind::Process(_) => {}
        }
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Dist;
    use squall::base::Span;

    #[test]
    fn overlapping_faults_of_a_link_hold_together() {
        let slow = |ms| FaultKind::Delay { by: Dist::Fixed(Span::from_ms(ms)) };
        let faults =
            [FaultKind::Dns, slow(100), FaultKind::Loss { share: 0.5 }, slow(9), FaultKind::Loss { share: 0.5 }];
        let rule = combine(faults.iter());
        let expected = LinkRule {
            dns: true,
            delay: Some(Dist::Fixed(Span::from_ms(100))),
            loss: Some(0.75),
            ..LinkRule::default()
        };
        assert_eq!(rule, expected);
        assert_eq!(combine([FaultKind::Hang].iter()), LinkRule::default());
    }
}
