//! Laws that hold whatever happens.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Act {
    Ask { probe: bool },
    Settle { which: usize, outcome: Outcome, hint_ms: Option<u64> },
    FirstToken { which: usize },
    ChainDown(bool),
    Restart,
}

fn any_act() -> impl Strategy<Value = Act> {
    let outcome = proptest::sample::select(ALL_OUTCOMES.to_vec());
    let hint = proptest::option::of(0u64..200_000);
    prop_oneof![
        4 => any::<bool>().prop_map(|probe| Act::Ask { probe }),
        4 => (0usize..8, outcome, hint).prop_map(|(which, outcome, hint_ms)| Act::Settle { which, outcome, hint_ms }),
        1 => (0usize..8).prop_map(|which| Act::FirstToken { which }),
        1 => any::<bool>().prop_map(Act::ChainDown),
        1 => Just(Act::Restart),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_the_gate_keeps_its_laws(
        acts in proptest::collection::vec((0u64..40_000, any_act()), 1..200),
    ) {
        let mut bench = Bench::new();
        let mut permits: Vec<Permit> = Vec::new();
        let mut now_ms = 0;
        for (wait_ms, act) in acts {
            let until_ms = now_ms + wait_ms;
            // Timers fire when they are due, each exactly then.
            while let Some(due) = bench.due().filter(|due| *due <= until_ms) {
                let before = bench.gate.clone();
                bench.timer(due.max(now_ms));
                prop_assert!(bench.gate != before, "a timer that is due does something");
            }
            now_ms = until_ms;
            let phase = bench.gate.phase();
            let park_until = bench.gate.park_until();
            match act {
                Act::Ask { probe } => {
                    let down = bench.gate.chain_down();
                    let admits = bench.admits(now_ms);
                    let admitted = bench.ask(probe, now_ms);
                    if let Ok(permit) = admitted {
                        let is_open = matches!(phase, Phase::Open { .. });
                        prop_assert!(!is_open || (probe && down), "BREAKER-1");
                        prop_assert!(probe || (admits && park_until.is_none()), "LIMIT-1");
                        permits.push(permit);
                    } else {
                        prop_assert!(probe || !admits);
                    }
                }
                Act::Settle { which, outcome, hint_ms } if !permits.is_empty() => {
                    let permit = permits.swap_remove(which % permits.len());
                    let trips = bench.gate.trips();
                    let settled = bench.end(permit, outcome, hint_ms, now_ms);
                    if settled.late {
                        prop_assert_eq!(bench.gate.phase(), phase, "a late result changes nothing");
                        prop_assert_eq!(bench.gate.trips(), trips);
                    }
                    if !outcome.is_failure() {
                        prop_assert!(bench.gate.trips() <= trips, "BREAKER-2: only failures trip");
                        prop_assert!(phase != Phase::Closed || bench.gate.phase() == Phase::Closed, "BREAKER-2");
                    }
                    if let (Some(earlier), Some(later)) = (park_until, bench.gate.park_until()) {
                        prop_assert!(later >= earlier, "a longer deadline always wins over a shorter one");
                    }
                    if let (Outcome::Throttled | Outcome::Quota, Some(hint_ms)) = (outcome, hint_ms) {
                        let kept = bench.gate.park_until().is_some_and(|end| end.ms() >= now_ms + hint_ms);
                        prop_assert!(kept, "LIMIT-1: a stated wait is kept, chain down or not");
                    }
                }
                Act::FirstToken { which } if !permits.is_empty() => {
                    let which = which % permits.len();
                    bench.gate.first_token(&mut permits[which], MonoTime(now_ms), &bench.rules);
                }
                Act::Settle { .. } | Act::FirstToken { .. } => {}
                Act::ChainDown(down) => bench.gate.set_chain_down(down),
                Act::Restart => {
                    permits.clear();
                    bench.gate.restore(MonoTime(now_ms), &bench.rules);
                }
            }
            let half_open_trials = permits
                .iter()
                .filter(|permit| permit.is_trial() && !permit.judged && !bench.gate.is_late(permit))
                .filter(|permit| permit.deadline().is_some_and(|deadline| deadline.ms() > now_ms))
                .count();
            prop_assert!(half_open_trials <= 1, "BREAKER-1: one trial at a time");
            if bench.gate.not_closed() || bench.gate.park_until().is_some() {
                prop_assert!(bench.due().is_some(), "whatever is shut opens by itself");
            }
        }
    }
}
