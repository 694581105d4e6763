//! From breakers to the one level of the whole system.

use crate::bench::{Bench, Says, add_chain, add_local_embedding, chat_and_embedding_rules, chat_rules, run};
use crate::{Row, check, row};
use squall::base::rules::ChainUse;
use squall::base::{CallClass, Level, MonoTime};
use squall::chain::{EntryView, Step, Walk};

/// Calls until the breakers of all hosts that refuse connections are open.
async fn until_open(bench: &Bench) {
    for _ in 0..3 {
        bench.call().await;
    }
}

/// Recalls until no local embedding entry admits: each is asked three times.
async fn until_local_open(bench: &Bench, entries: usize) {
    for _ in 0..3 * entries {
        bench.engine.recall("anything", None).await.expect("keywords can be searched");
    }
}

fn level(bench: &Bench) -> u8 {
    bench.engine.status().degradation_level
}

/// What a fresh call to a chain of these entries does first.
fn first_step(admit: &[bool]) -> Step {
    let rules = squall::base::Rules::default();
    let names = (0..admit.len()).map(|n| squall::base::EntryName::new(&format!("e{n}"))).collect();
    let views: Vec<EntryView> =
        admit.iter().map(|admits| EntryView { admits: *admits, earliest: None, probe_in_slot: false }).collect();
    Walk::new(CallClass::Foreground, names, MonoTime(0), &rules.call, &rules.retry).next(MonoTime(0), &views)
}

pub fn rows() -> Vec<Row> {
    vec![
        row("CB-034", "two of three paid breakers open, nothing marked essential: L2", || {
            run(chat_and_embedding_rules(&["a", "b", "c"]), async |bench: &Bench| {
                bench.says("c", Says::hello());
                until_open(bench).await;
                assert_eq!((bench.phase("a"), bench.phase("b"), level(bench)), ("open", "open", 2));
            });
        }),
        row("CB-035", "both of two paid breakers open: L3", || {
            run(chat_and_embedding_rules(&["a", "b"]), async |bench: &Bench| {
                until_open(bench).await;
                assert_eq!((bench.engine.status().state.cloud, level(bench)), (Level::Offline, 3));
            });
        }),
        row("CB-036", "both local breakers open: L5, whatever the cloud", || {
            let mut rules = chat_rules(&["a", "b"]);
            add_local_embedding(&mut rules, &["l1", "l2"]);
            run(rules, async |bench: &Bench| {
                bench.says("a", Says::hello());
                until_local_open(bench, 2).await;
                assert_eq!((bench.phase("l1"), bench.phase("l2"), level(bench)), ("open", "open", 5));
                bench.says("a", Says::status(503));
                until_open(bench).await;
                assert_eq!((bench.engine.status().state.cloud, level(bench)), (Level::Offline, 5));
            });
        }),
        row("CB-039", "both providers of an essential chain open: L3", || {
            let mut rules = chat_and_embedding_rules(&["a", "b", "c"]);
            add_chain(&mut rules, "vital", ChainUse::Chat, &["a", "b"], true);
            run(rules, async |bench: &Bench| {
                bench.says("c", Says::hello());
                until_open(bench).await;
                assert_eq!((bench.engine.status().state.cloud, level(bench)), (Level::Essential, 3));
            });
        }),
        row("CB-040", "an essential chain whose only provider has no key: L3, its breaker closed", || {
            let mut rules = chat_and_embedding_rules(&["a", "b", "keyless"]);
            add_chain(&mut rules, "vital", ChainUse::Chat, &["keyless"], true);
            run(rules, async |bench: &Bench| {
                bench.says("a", Says::hello());
                bench.says("keyless", Says::error(401, "you did not provide a key"));
                bench.chat(CallClass::Foreground, Some("vital")).await.expect("a legal call");
                assert_eq!((bench.phase("keyless"), bench.trips("keyless")), ("closed", 0));
                assert_eq!((bench.engine.status().state.cloud, level(bench)), (Level::Essential, 3));
            });
        }),
        row("CB-042", "an essential chain that is well and every local model down: L5", || {
            let mut rules = chat_rules(&["a"]);
            rules.chains[0].essential = true;
            add_local_embedding(&mut rules, &["l1"]);
            run(rules, async |bench: &Bench| {
                bench.says("a", Says::hello());
                until_local_open(bench, 1).await;
                let state = bench.engine.status().state;
                assert_eq!((state.cloud, state.embedding, level(bench)), (Level::Normal, Level::Unavailable, 5));
            });
        }),
        row("CB-044", "a chain has something available while one entry admits; an empty one has nothing", || {
            assert!(matches!(first_step(&[false, true]), Step::Try { index: 1, .. }));
            assert!(matches!(first_step(&[false, false]), Step::Exhausted { .. }));
            assert!(matches!(first_step(&[]), Step::Exhausted { .. }));
            run(chat_rules(&["a"]), async |bench: &Bench| {
                bench.chat(CallClass::Foreground, Some("unknown")).await.expect_err("an unknown chain has nothing");
            });
        }),
    ]
}

#[test]
fn table() {
    check(&rows());
}
