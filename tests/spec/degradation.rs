//! What a level sheds.

use crate::bench::{Bench, Says, chat_and_embedding_rules, run};
use crate::{Row, check, row};
use squall::axis::shed::sheds;
use squall::base::work::priority;
use squall::base::{AxisLevels, Level, Rules, Span};

pub fn rows() -> Vec<Row> {
    vec![
        row("DG-001", "NORMAL and FALLBACK shed nothing", || {
            for (name, number) in priority::NAMED {
                assert!(!sheds(Level::Normal, number) && !sheds(Level::Fallback, number), "{name}");
            }
        }),
        row("DG-002", "REDUCED sheds surplus work and the morning report", || {
            assert!(sheds(Level::Reduced, priority::SURPLUS) && sheds(Level::Reduced, priority::MORNING_REPORT));
        }),
        row("DG-003", "REDUCED keeps a reflection", || assert!(!sheds(Level::Reduced, priority::REFLECTION))),
        row("DG-008", "a tick with cloud REDUCED leaves the number for old consumers at REDUCED", || {
            run(chat_and_embedding_rules(&["a", "b", "c"]), async |bench: &Bench| {
                bench.says("c", Says::hello());
                bench.call().await;
                bench.call().await;
                bench.pass(Span::from_mins(5)).await;
                let status = bench.engine.status();
                assert_eq!(bench.events("tick"), 1);
                assert_eq!((status.state.cloud, status.degradation_level), (Level::Reduced, 2));
            });
        }),
        row("DG-009", "with nothing configured a tick changes nothing", || {
            run(Rules::default(), async |bench: &Bench| {
                let before = bench.engine.status().state;
                bench.pass(Span::from_mins(11)).await;
                assert_eq!(bench.events("tick"), 2);
                assert_eq!(bench.engine.status().state, before);
                assert_eq!(before, AxisLevels { memory: Level::FtsOnly, ..AxisLevels::NORMAL }, "its baseline");
                assert_eq!(bench.events("axis.changed"), 0);
            });
        }),
    ]
}

#[test]
fn table() {
    check(&rows());
}
