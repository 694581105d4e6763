//! Numbers that were not what their reader thought, and entries that were switched off and counted all the same.

use crate::bench::{Bench, Says, chat_rules, run};
use crate::{Row, row};
use squall::base::{Level, Rules, Span};
use squall::config::{self, Config, SETTINGS, show};

pub fn rows() -> Vec<Row> {
    vec![
        row("F167", "a wait of 30 is 30 s, a time without a unit is refused, and each is shown with its unit", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                bench.says("a", Says::error(429, "slow down").header("retry-after", "30"));
                bench.call().await;
                assert_eq!(bench.engine.status().parks["a"].left_ms, 30_000);
            });
            let mut rules = Rules::default();
            let refused = config::set(&mut rules, "breaker.open", "60").expect_err("no unit");
            assert!(refused.to_string().contains("unit"), "{refused}");
            assert_eq!(rules.breaker.open, Rules::default().breaker.open);
            config::set(&mut rules, "breaker.open", "60s").expect("a time");
            assert_eq!(rules.breaker.open, Span::from_secs(60));
            for shown in show::settings(&Config::default()).iter().filter(|shown| shown.unit == "duration") {
                assert!(shown.value.trim_matches(['"', '[']).ends_with(|c: char| c.is_ascii_alphabetic() || c == ']'));
            }
        }),
        row("F168", "what is left out has the value that is documented, and one command prints them all", || {
            run(chat_rules(&["a"]), async |bench: &Bench| {
                bench.says("a", Says::status(500));
                while bench.outcomes("a").len() < 3 {
                    assert_eq!(bench.phase("a"), "closed");
                    bench.call().await;
                }
                assert_eq!((bench.phase("a"), bench.outcomes("a").len()), ("open", 3));
            });
            let shown = show::settings(&Config::default());
            for setting in SETTINGS {
                let line = shown.iter().find(|shown| shown.key == setting.path).expect("every setting is shown");
                assert_eq!((line.value.as_str(), line.from.as_str()), (line.default.as_str(), "default"));
                let mut rules = Rules::default();
                config::set(&mut rules, setting.path, setting.default).expect("a documented default is legal");
                assert_eq!(rules, Rules::default(), "{} as documented", setting.path);
            }
        }),
        row("F169", "what is switched off is not counted, not called and not complained about", || {
            let mut rules = chat_rules(&["a", "b", "c"]);
            rules.providers[2].enabled = false;
            rules.providers[2].key_env = "NOBODY_HAS_SET_THIS".to_owned();
            run(rules, async |bench: &Bench| {
                bench.says("a", Says::status(503));
                bench.says("b", Says::status(503));
                bench.says("c", Says::hello());
                bench.call().await;
                bench.call().await;
                let status = bench.engine.status();
                assert_eq!((status.state.cloud, bench.count("c")), (Level::Offline, 0));
                assert_eq!(bench.events("provider.disabled"), 0);
                bench.pass(Span::from_mins(5)).await;
                assert_eq!(bench.count("c"), 0);
            });
        }),
    ]
}
