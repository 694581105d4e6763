//! Retries that multiplied.

use crate::bench::{Bench, Says, chat_rules, run};
use crate::{Row, row};
use squall::base::{CallClass, Span};

pub fn rows() -> Vec<Row> {
    vec![
        row("F163", "one layer retries: what the trace calls attempts is what went out", || {
            for (says, class, sent) in [
                (Says::error(429, "slow down"), CallClass::Foreground, 1),
                (Says::status(503), CallClass::Foreground, 2),
            ] {
                run(chat_rules(&["a"]), async |bench: &Bench| {
                    bench.says("a", says.clone());
                    bench.chat(class, None).await.expect("a legal call");
                    assert_eq!((bench.count("a"), bench.outcomes("a").len()), (sent, sent));
                });
            }
        }),
        row("F164", "six attempts are the most that a call makes, and its deadline bounds them all", || {
            let entries = ["a", "b", "c", "d", "e", "f", "g"];
            run(chat_rules(&entries), async |bench: &Bench| {
                for host in entries {
                    bench.says(host, Says::error(429, "slow down").header("retry-after", "5"));
                }
                bench.call().await;
                assert_eq!((bench.asked().len(), bench.now().ms()), (6, 0));
            });
            run(chat_rules(&entries), async |bench: &Bench| {
                for host in entries {
                    bench.says(host, Says::status(503).after_ms(50_000));
                }
                bench.call().await;
                assert_eq!((bench.asked().len(), bench.now()), (3, squall::base::MonoTime(0) + Span::from_secs(120)));
            });
        }),
    ]
}
