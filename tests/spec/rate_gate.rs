//! Calls are not paced on this side: without evidence to the contrary an entry admits at once.

use crate::bench::{Bench, Says, chat_rules, run};
use crate::{Row, check, row};

pub fn rows() -> Vec<Row> {
    vec![
        row("RG-001", "the first call waits for nothing", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                bench.says("a", Says::hello());
                assert_eq!(bench.answered_by().await.as_deref(), Some("a"));
                assert_eq!(bench.asked_at_ms(), [0]);
            });
        }),
        row("RG-005", "an entry that nobody limits admits every call at once", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                bench.says("a", Says::hello());
                for _ in 0..20 {
                    bench.call().await;
                }
                assert_eq!(bench.asked_at_ms(), [0; 20]);
            });
        }),
    ]
}

#[test]
fn table() {
    check(&rows());
}
