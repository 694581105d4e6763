//! From scenario files, seeds and settings to the list of runs.

use super::find::Found;
use crate::run::determinism;
use crate::run::{Job, expect};
use crate::scenario::{Drill, Scenario};
use squall::base::Span;
use squall::config::{Complaint, Diagnostic};
use std::fs;

/// A scenario that was read and found right.
#[derive(Debug)]
pub struct Case {
    pub found: Found,
    pub text: String,
    pub scenario: Scenario,
}

/// What keeps a list of runs from being made. Nothing was run.
#[derive(Debug, Default)]
pub struct Mistakes {
    pub diagnostics: Vec<Diagnostic>,
    pub others: Vec<String>,
}

impl Mistakes {
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty() && self.others.is_empty()
    }
}

/// Reads every file; each mistake in each of them is told.
pub fn read(files: Vec<Found>) -> (Vec<Case>, Mistakes) {
    let mut mistakes = Mistakes::default();
    let mut cases = Vec::new();
    for found in files {
        let text = match fs::read_to_string(&found.path) {
            Ok(text) => text,
            Err(error) => {
                mistakes.others.push(format!("failed to read {}: {error}", found.name));
                continue;
            }
        };
        match Scenario::read(&text, &found.name) {
            Ok(scenario) => {
                let case = Case { found, text, scenario };
                let drill = case.scenario.resolve(None);
                mistakes.diagnostics.extend(unjudgeable(&case, &drill));
                cases.push(case);
            }
            Err(diagnostics) => mistakes.diagnostics.extend(diagnostics),
        }
    }
    (cases, mistakes)
}

/// Expectations on what this version's histories can't show.
fn unjudgeable(case: &Case, drill: &Drill) -> Vec<Diagnostic> {
    let diagnostic = |(line, message): (u32, String)| {
        let start: usize = case.text.split_inclusive('\n').take(line as usize - 1).map(str::len).sum();
        let excerpt = case.text[start..].lines().next().unwrap_or_default().to_owned();
        Diagnostic {
            file: case.found.name.clone(),
            span: start..start + excerpt.len(),
            line,
            column: 1,
            message,
            help: None,
            allowed: Vec::new(),
            suggestion: None,
            excerpt,
        }
    };
    expect::problems(drill).into_iter().map(diagnostic).collect()
}

/// Which seeds each scenario is run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seeds {
    /// Each file's own.
    Own,
    One(u64),
    /// `a..b`, without b.
    Range(u64, u64),
}

impl Seeds {
    fn of(&self, scenario: &Scenario) -> Vec<u64> {
        match self {
            Seeds::Own => vec![scenario.seed()],
            Seeds::One(seed) => vec![*seed],
            Seeds::Range(from, to) => (*from..*to).collect(),
        }
    }
}

/// One run to be made: which case, which seed. Small, for a sweep may have very many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub case: usize,
    pub seed: u64,
    pub first: bool,
}

/// Every scenario with every seed, in that order.
pub fn entries(cases: &[Case], seeds: &Seeds) -> Vec<Entry> {
    let of = |(case, read): (usize, &Case)| {
        let seeds = seeds.of(&read.scenario);
        seeds.into_iter().enumerate().map(move |(i, seed)| Entry { case, seed, first: i == 0 }).collect::<Vec<_>>()
    };
    cases.iter().enumerate().flat_map(of).collect()
}

/// The run of an entry. `settings` were tried on every case before: see [`try_settings`].
pub fn job(cases: &[Case], entry: Entry, settings: &[(String, String)], verify_all: bool) -> Job {
    let case = &cases[entry.case];
    let mut drill = case.scenario.resolve(Some(entry.seed));
    for (key, value) in settings {
        set(&mut drill, key, value).expect("tried before the sweep");
    }
    let smoke = entry.first && case.found.name.contains("scenarios/smoke/");
    let twice = verify_all || smoke || determinism::in_share(&case.found.name, entry.seed);
    Job { drill, text: case.text.clone(), settings: settings.to_vec(), first: entry.first, twice }
}

/// What is wrong with the settings, for whichever scenario it is.
pub fn try_settings(cases: &[Case], settings: &[(String, String)]) -> Mistakes {
    let mut mistakes = Mistakes::default();
    for case in cases {
        let mut drill = case.scenario.resolve(None);
        for (key, value) in settings {
            if let Err(complaint) = set(&mut drill, key, value) {
                let text = format!("--set {key}={value}: {complaint}");
                if !mistakes.others.contains(&text) {
                    mistakes.others.push(text);
                }
            }
        }
        if mistakes.is_empty() {
            mistakes.diagnostics.extend(unjudgeable(case, &drill));
        }
    }
    mistakes
}

fn set(drill: &mut Drill, key: &str, value: &str) -> Result<(), Complaint> {
    if let Some(engine) = key.strip_prefix("engine.") {
        return squall::config::set(&mut drill.rules, engine, value);
    }
    let span = || value.parse::<Span>().map_err(|error| Complaint::new(error.to_string()));
    match key {
        "duration" => resize(drill, span()?, drill.settle),
        "settle" => resize(drill, drill.duration, span()?),
        _ => return Err(Complaint::new("only engine.…, duration and settle can be set")),
    }
    Ok(())
}

/// Cuts what lies beyond the new end, and lets what lasted to the old end last to the new one.
fn resize(drill: &mut Drill, duration: Span, settle: Span) {
    let old_end = drill.duration + drill.settle;
    let old_duration = drill.duration;
    (drill.duration, drill.settle) = (duration, settle);
    drill.faults.retain(|fault| fault.at < duration);
    for fault in &mut drill.faults {
        let to_the_end = fault.at + fault.lasts == old_duration;
        let room = duration.saturating_sub(fault.at);
        fault.lasts = if to_the_end { room } else { fault.lasts.min(room) };
    }
    for load in &mut drill.loads {
        if load.to == old_end {
            load.to = duration + settle;
        }
    }
}
