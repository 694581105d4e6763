//! The whole reader on good files, and on one with many mistakes. Single mistakes: `mistakes.rs`.

use super::mistakes::HEAD;
use super::*;
use squall::base::rules::{Api, ChainUse};
use squall::base::{CallClass, Policy, Span, WallTime};
use squall::config::Diagnostic;

pub const SAMPLES: [(&str, &str); 3] = [
    ("openai_outage.toml", include_str!("samples/openai_outage.toml")),
    ("everything.toml", include_str!("samples/everything.toml")),
    ("smallest.toml", include_str!("samples/smallest.toml")),
];

fn read(text: &str) -> Scenario {
    Scenario::read(text, "a.toml").unwrap_or_else(|wrong| {
        let all: Vec<String> = wrong.iter().map(Diagnostic::to_string).collect();
        panic!("{}", all.join("\n"))
    })
}

fn drill(text: &str) -> Drill {
    read(text).resolve(None)
}

#[test]
fn every_sample_is_read_and_resolves_to_the_same_drill_again() {
    for (name, text) in SAMPLES {
        let scenario = read(text);
        for seed in [None, Some(7)] {
            let (a, b) = (scenario.resolve(seed), scenario.resolve(seed));
            assert_eq!(format!("{a:?}"), format!("{b:?}"), "{name}");
        }
    }
}

#[test]
fn the_outage_of_the_design_is_read_as_it_is_written() {
    let drill = drill(SAMPLES[0].1);
    assert_eq!(drill.starts_at, WallTime(1_699_450_980_000));
    assert_eq!((drill.duration, drill.settle), (Span::from_hours(3), Span::from_hours(1)));
    assert_eq!(drill.rules.breaker.failures_max, 4);
    assert_eq!(drill.rules.providers[0].base_url, "http://openai");
    assert_eq!(drill.rules.providers[0].api, Api::Openai);
    assert_eq!(drill.providers[0].limit.requests_per_minute, Some(60));
    assert_eq!(drill.rules.chains.len(), 1);
    assert_eq!(drill.loads[0].to, Span::from_hours(4));
    assert!(matches!(drill.loads[0].arrivals, Arrivals::Every(Dist::Fixed(span)) if span == Span::from_secs(10)));
    assert!(matches!(drill.loads[1].arrivals, Arrivals::Rate(rate) if rate == 0.1));
    assert!(matches!(drill.loads[1].kind, LoadKind::Chat { class: CallClass::Background, stream: true, .. }));
    assert_eq!(drill.faults[0].pick, Pick::Share(0.97));
    assert_eq!(drill.faults[0].targets, [Target::Provider("openai".into())]);
    let FaultKind::Errors(errors) = &drill.faults[0].kind else { panic!("{:?}", drill.faults[0].kind) };
    assert_eq!(errors.status, [502, 502, 502, 503]);
    assert_eq!(drill.faults[1].targets, [Target::Model { provider: "openai".into(), model: "gpt-4".into() }]);
    assert_eq!(drill.expects[0].text, "cloud reaches FALLBACK within 0s..90s");
    let line = SAMPLES[0].1.lines().position(|line| line == "[[expect]]").unwrap() + 1;
    assert_eq!(drill.expects[0].line as usize, line);
}

#[test]
fn every_form_of_expectation_reads_well() {
    let texts: Vec<String> = drill(SAMPLES[1].1).expects.into_iter().map(|expect| expect.text).collect();
    assert_eq!(
        texts,
        [
            "memory is NORMAL at 2h30m",
            "embedding stays NORMAL during 0s..10m",
            "cloud takes exactly the levels NORMAL, FALLBACK, NORMAL",
            "recover_s.cloud is exactly 30",
            "status episodes.cloud.trips is 1 to 9 at 1h",
            "status summary is exactly \"all is well\" at 1h",
            "outside chat.messages is exactly 12 at 2h",
            "event axis.changed (axis = cloud, legacy = 1) happens 2 to 8 times during 0s..1h",
            "event hold.started happens at least 1 times",
            "first fault.started, then axis.changed (to = FALLBACK), then healed",
            "hold_started happens in some run",
        ]
    );
}

#[test]
fn defaults_are_filled_in() {
    let drill = drill(SAMPLES[2].1);
    assert_eq!((drill.settle, drill.seed), (Span::from_mins(30), 1));
    assert_eq!(drill.starts_at, WallTime(1_767_225_600_000));
    assert!(drill.rules.chains.is_empty() && drill.faults.is_empty());
}

#[test]
fn chains_that_are_not_given_are_made_from_the_providers() {
    let drill = drill(SAMPLES[1].1);
    let chain = |use_| drill.rules.chains.iter().find(|chain| chain.use_ == use_).unwrap();
    assert_eq!(chain(ChainUse::Chat).name, "default");
    assert_eq!(chain(ChainUse::Chat).entries, ["a", "b", "c", "d"]);
    assert_eq!(chain(ChainUse::Embedding).name, "embedding");
    assert_eq!(chain(ChainUse::Embedding).entries, ["vectors"]);
    assert_eq!(drill.rules.channels[0].url, "http://chat/");
}

#[test]
fn kinds_of_load_carry_their_own_keys() {
    let drill = drill(SAMPLES[1].1);
    let LoadKind::Defer { priority, policy, ttl, depends_on, .. } = &drill.loads[4].kind else { panic!() };
    assert_eq!((*priority, *policy, *ttl, depends_on.len()), (50, Policy::Ttl, Some(Span::from_hours(1)), 2));
    assert_eq!(drill.loads[2].client, Client::Each);
    assert_eq!(drill.loads[3].client, Client::Key("key-1".into()));
    let LoadKind::Outreach { parts, state, .. } = &drill.loads[5].kind else { panic!() };
    assert_eq!((*parts, *state), (2, Some(3)));
}

#[test]
fn drawn_times_differ_between_seeds_and_stay_within_the_drill() {
    let scenario = read(SAMPLES[1].1);
    let mut starts = Vec::new();
    let mut hangs = 0;
    for seed in 0..64 {
        let drill = scenario.resolve(Some(seed));
        assert_eq!(drill.seed, seed);
        for fault in &drill.faults {
            assert!(fault.at < drill.duration && fault.at + fault.lasts <= drill.duration, "{fault:?}");
        }
        if let Some(hang) = drill.faults.iter().find(|fault| fault.kind_text == "hang") {
            hangs += 1;
            starts.push(hang.at);
            assert!((Span::from_mins(10)..=Span::from_mins(20)).contains(&hang.at));
        }
        let storm = drill.faults.iter().find(|fault| fault.kind_text == "storm").unwrap();
        let FaultKind::Storm { retry_after: Some(RetryAfter::Seconds(wait)), .. } = &storm.kind else { panic!() };
        assert!((Span::from_secs(5)..=Span::from_mins(1)).contains(wait));
        let flap = drill.faults.iter().find(|fault| fault.kind_text == "flap").unwrap();
        let FaultKind::Flap { of, .. } = &flap.kind else { panic!() };
        let FaultKind::Errors(errors) = &**of else { panic!() };
        assert!(matches!(errors.retry_after, Some(RetryAfter::Seconds(wait)) if !wait.is_zero()));
    }
    assert!((16..48).contains(&hangs), "a chance of one half came {hangs} times in 64");
    starts.sort_unstable();
    starts.dedup();
    assert!(starts.len() > 10);
}

#[test]
fn a_fault_without_an_end_lasts_until_everything_is_healed() {
    let drill = drill(&format!("{HEAD}[[fault]]\nkind = \"hang\"\ntarget = \"a\"\nat = \"50m\"\n"));
    assert_eq!(drill.faults[0].lasts, Span::from_mins(10));
}

#[test]
fn ten_mistakes_of_ten_sorts_are_ten_diagnostics_each_at_its_line() {
    let text = r#"title = "Ten mistakes"
duration = "1h"
require = ["DRAIN-1", "DRIAN-2"]
[engine]
flap.hodl = "10m"
[[provider]]
name = "openai"
api = "openai"
[[chain]]
name = "default"
use = "chat"
entries = ["opnai"]
[[load]]
kind = "chat"
every = "10s"
rate = "6/m"
[[fault]]
kind = "hang"
target = "openai/gpt-4"
[[fault]]
kind = "slow"
target = "openai"
factor = 2
status = 503
[[fault]]
kind = "killed"
at = "10m"
[[fault]]
kind = "hang"
target = "openai"
at = "60m"
[[expect]]
axis = "cloud"
reaches = "DOWN"
within = ["0s", "90s"]
[[expect]]
metric = "chat.foreground.ok_rate"
at_least = 0.9
"#;
    let found = Scenario::read(text, "ten.toml").unwrap_err();
    let lines: Vec<u32> = found.iter().map(|d| d.line).collect();
    assert_eq!(lines, [3, 5, 12, 16, 19, 24, 26, 31, 34, 37], "{found:#?}");
    for (at, meant) in [(0, "DRAIN-2"), (1, "hold"), (2, "openai"), (9, "chat.foreground.ok_ratio")] {
        assert_eq!(found[at].suggestion.as_deref(), Some(meant));
    }
}
