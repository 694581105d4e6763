//! `squall` as its users meet it: what goes where, and with which exit code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn squall(here: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_squall"));
    command.current_dir(here).args(args);
    command.output().unwrap()
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const DRILL: &str = r#"
title = "Two minutes"
duration = "1m"
settle = "1m"
[[provider]]
name = "openai"
api = "openai"
latency = "200ms"
[[chain]]
name = "default"
use = "chat"
entries = ["openai"]
[[load]]
kind = "chat"
every = "10s"
"#;

fn drill(folder: &Path, name: &str, more: &str) -> String {
    // Keys of the root stand before the first table.
    let (root, tables) = more.split_once("---").unwrap_or(("", more));
    fs::write(folder.join(name), format!("{root}{DRILL}{tables}")).unwrap();
    name.to_owned()
}

#[test]
fn a_drill_that_holds_is_told_in_a_line_without_colours_and_kept_whole() {
    let here = folder("holds");
    let file = drill(&here, "calm.toml", "");
    let out = squall(&here, &["run", &file, "--out", "kept"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let told = text(&out.stdout);
    assert!(told.starts_with("✓ Two minutes  seed 1  2m in "), "{told}");
    assert!(!told.contains('\x1b'));
    assert_eq!(text(&out.stderr), "");
    for name in ["run.json", "history.jsonl", "verdict.json", "timing.json"] {
        assert!(here.join("kept/calm-1").join(name).is_file(), "{name}");
    }
    let verdict: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(here.join("kept/calm-1/verdict.json")).unwrap()).unwrap();
    let history = fs::read(here.join("kept/calm-1/history.jsonl")).unwrap();
    assert_eq!(verdict["history"]["hash"], blake3::hash(&history).to_hex().to_string());
    assert_eq!(verdict["history"]["events"], text(&history).lines().count());
}

#[test]
fn json_is_one_verdict_a_line_and_nothing_else() {
    let here = folder("json");
    let file = drill(&here, "calm.toml", "");
    let out = squall(&here, &["run", &file, "--seeds", "3..6", "--jobs", "2", "--format", "json"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let seeds: Vec<u64> = text(&out.stdout)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seed"].as_u64().unwrap())
        .collect();
    assert_eq!(seeds, [3, 4, 5]);
    let again = squall(&here, &["run", &file, "--seeds", "3..6", "--jobs", "1", "--format", "json"]);
    assert_eq!(again.stdout, out.stdout, "the same bytes, whatever --jobs is");
    let filed = squall(&here, &["run", &file, "--seeds", "3..6", "--format", "json", "-o", "verdicts.jsonl"]);
    assert_eq!((filed.stdout.len(), fs::read(here.join("verdicts.jsonl")).unwrap()), (0, out.stdout));
}

#[test]
fn an_expectation_that_does_not_hold_is_exit_1_with_line_and_command() {
    let here = folder("broken");
    let file = drill(&here, "wrong.toml", "[[expect]]\naxis = \"cloud\"\nat = \"1m\"\nis = \"OFFLINE\"\n");
    let out = squall(&here, &["run", &file]);
    assert_eq!(out.status.code(), Some(1));
    let told = text(&out.stdout);
    assert!(told.contains("seen: NORMAL") && told.contains("again: squall run wrong.toml --seed 1"), "{told}");
}

#[test]
fn a_required_invariant_that_saw_nothing_is_exit_3() {
    let here = folder("blind");
    let file = drill(&here, "blind.toml", "require = [\"DRAIN-1\"]\n---");
    let out = squall(&here, &["run", &file]);
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stdout));
    assert!(text(&out.stdout).contains("DRAIN-1 is required and had nothing to judge"));
}

#[test]
fn a_mistake_is_exit_2_and_nothing_is_run() {
    let here = folder("mistakes");
    let file = drill(&here, "typo.toml", "[[expect]]\nevent = \"breaker.opend\"\ncount = { equals = 0 }\n");
    for args in [
        vec!["run", &file],
        vec!["lint", &file],
        vec!["run", "nowhere.toml"],
        vec!["run", &file, "--seeds", "5..5"],
        vec!["run", &file, "--set", "engine.flap.hold"],
        vec!["fly"],
    ] {
        let out = squall(&here, &args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", text(&out.stderr));
        assert_eq!(text(&out.stdout), "", "{args:?}");
        assert_ne!(text(&out.stderr), "", "{args:?}");
    }
    let said = text(&squall(&here, &["lint", &file]).stderr);
    assert!(said.contains("typo.toml:") && said.contains("breaker.opened"), "{said}");
}

#[test]
fn a_setting_changes_the_run_and_stands_in_its_command() {
    let here = folder("settings");
    let expect = "[[expect]]\naxis = \"cloud\"\nat = \"0s\"\nis = \"OFFLINE\"\n";
    let file = drill(&here, "wrong.toml", expect);
    let out = squall(&here, &["run", &file, "--set", "engine.flap.hold=5m", "--set", "settle=30s"]);
    let told = text(&out.stdout);
    assert!(told.contains("1m30s in "), "{told}");
    assert!(told.contains("--seed 1 --set engine.flap.hold=5m --set settle=30s"), "{told}");
    let wrong = squall(&here, &["run", &file, "--set", "engine.flap.hld=5m"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("hold"), "{}", text(&wrong.stderr));
}

#[test]
fn the_timeline_has_a_lane_for_each_axis() {
    let here = folder("timeline");
    let file = drill(&here, "calm.toml", "");
    let told = text(&squall(&here, &["run", &file, "--timeline"]).stdout);
    for axis in ["cloud ", "memory ", "embedding ", "cc "] {
        assert!(told.lines().any(|line| line.starts_with(axis)), "{told}");
    }
}

#[test]
fn the_library_is_found_from_below_and_listed() {
    let out = squall(&project().join("sim/src"), &["list"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("scenarios/smoke/total-outage.toml"));
}

#[test]
fn help_man_and_completions_are_there() {
    for args in [vec!["--help"], vec!["run", "--help"], vec!["man"], vec!["completions", "bash"], vec!["schema"]] {
        let out = squall(project(), &args);
        assert_eq!(out.status.code(), Some(0), "{args:?}");
        assert!(out.stdout.len() > 500, "{args:?}");
    }
    assert!(text(&squall(project(), &["run", "--help"]).stdout).contains("Exit codes: 0 all held"));
}
