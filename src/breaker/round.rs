//! Which entries a probe round asks. What makes one want it is [`Gate::wants_probe`].
//!
//! **Source:** engine.md 3 (probe rounds).

use super::admission::GateRules;
use super::gate::Gate;
use crate::base::{EntryName, MonoTime};

/// The entries that want a probe in the round at `now`, in the order given.
pub fn select<'a>(
    gates: impl IntoIterator<Item = (&'a EntryName, &'a Gate, &'a GateRules)>,
    now: MonoTime,
) -> Vec<EntryName> {
    gates
        .into_iter()
        .filter(|(_, gate, rules)| gate.wants_probe(now, rules))
        .map(|(entry, _, _)| entry.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Outcome, Rules};
    use crate::breaker::{Ask, Evidence};

    #[test]
    fn a_round_asks_the_open_breakers_of_a_chain_without_a_serving_entry_and_nobody_else() {
        let rules = GateRules::new(&Rules::default(), false);
        let gate = |failures: u64, chain_down| {
            let mut gate = Gate::new();
            for attempt in 0..failures {
                let ask = Ask { attempt, probe: false, stream: false };
                let permit = gate.admit(ask, MonoTime(0), &rules).expect("a closed breaker admits");
                gate.settle(permit, Outcome::ProviderFault, Evidence::NONE, MonoTime(0), &rules);
            }
            gate.set_chain_down(chain_down);
            gate
        };
        let gates = [("b", gate(3, true)), ("a", gate(3, false)), ("c", gate(2, true)), ("d", gate(3, true))]
            .map(|(name, gate)| (EntryName::new(name), gate));
        let asked = select(gates.iter().map(|(name, gate)| (name, gate, &rules)), MonoTime(10_000));
        assert_eq!(asked, ["b", "d"].map(EntryName::new));
    }
}
