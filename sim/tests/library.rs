//! The drills that ship: each is right, each smoke drill holds with several seeds and equals itself.

use squall_sim::cli::find;
use squall_sim::cli::plan::{self, Case, Seeds};
use squall_sim::run::{Exit, Keep, sweep};
use std::ops::ControlFlow;
use std::path::Path;

fn cases(path: &str) -> Vec<Case> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let files = find::scenarios(project, &[path.to_owned()]).unwrap();
    let (cases, mistakes) = plan::read(files);
    let told: Vec<String> = mistakes.diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
    assert!(mistakes.is_empty(), "{}{:?}", told.join("\n"), mistakes.others);
    cases
}

/// Every run with its verdict as one line, in the order of the list.
fn sweep(cases: &[Case], seeds: &Seeds, threads: usize, verify: bool) -> Vec<(String, Exit)> {
    let entries = plan::entries(cases, seeds);
    let mut told = Vec::new();
    sweep::sweep(
        entries.len(),
        threads,
        |index| plan::job(cases, entries[index], &[], verify).run(&Keep::Nothing),
        |news| {
            if let sweep::News::Done(index, result) = news {
                let name = &cases[entries[index].case].found.name;
                let done = result.unwrap_or_else(|failure| panic!("{name}: {failure}"));
                if let Some(difference) = &done.difference {
                    panic!("{name}: {difference}");
                }
                told.push((serde_json::to_string(&done.verdict).unwrap(), done.exit()));
            }
            ControlFlow::Continue(())
        },
    );
    told
}

#[test]
fn every_scenario_is_right() {
    assert!(cases("scenarios").len() >= 20);
}

#[test]
fn every_smoke_drill_holds_and_equals_itself() {
    for (verdict, exit) in sweep(&cases("scenarios/smoke"), &Seeds::Own, 2, true) {
        assert_eq!(exit, Exit::Held, "{verdict}");
    }
}

#[test]
fn verdicts_do_not_depend_on_how_many_runs_go_beside_each_other() {
    let cases = cases("scenarios/smoke/outreach-once.toml");
    let alone = sweep(&cases, &Seeds::Range(0, 6), 1, false);
    assert_eq!(alone.len(), 6);
    assert_eq!(alone, sweep(&cases, &Seeds::Range(0, 6), 4, false));
}

/// A drill is worth nothing if it holds whatever the engine does.
#[test]
fn a_drill_that_asks_for_the_impossible_is_broken() {
    let mut case = cases("scenarios/smoke/auth-outage.toml").remove(0);
    let text = case.text.replace("reaches = \"FALLBACK\"", "reaches = \"OFFLINE\"");
    assert_ne!(text, case.text);
    case.scenario = squall_sim::scenario::Scenario::read(&text, &case.found.name).unwrap();
    let told = sweep(&[case], &Seeds::Own, 1, false);
    assert_eq!(told[0].1, Exit::Broken);
    assert!(told[0].0.contains("only NORMAL, FALLBACK") || told[0].0.contains("only "), "{}", told[0].0);
}
