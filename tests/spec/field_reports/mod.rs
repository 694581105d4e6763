//! Public reports of mechanisms like these that misbehaved, each with the proof that this engine does what is right.
//!
//! `../field_reports.toml` says of each report where its proof is: a row here, or a drill. Where engine.md wants other
//! numbers than a report's own case, they are engine.md's.

mod breaker;
mod clock;
mod config;
mod fallback;
mod rate_limit;
mod retry_amplification;
mod session_budget;
mod state_flap;

use crate::Row;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How many reports of each area are known. A number changes only with the rows.
const KNOWN: [(&str, usize); 8] = [
    ("breaker", 11),
    ("fallback", 10),
    ("rate_limit", 9),
    ("session_budget", 8),
    ("state_flap", 7),
    ("retry_amplification", 3),
    ("clock", 6),
    ("config", 3),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reports {
    report: Vec<Report>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    id: String,
    area: String,
    /// Where it was told.
    source: String,
    proof: Proof,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Proof {
    /// A row of this file.
    Row(String),
    /// A drill, whose file names the source.
    Drill(String),
    /// Nothing yet: what it waits for.
    WaitsFor(String),
}

fn reports() -> Vec<Report> {
    let parsed: Reports = toml::from_str(include_str!("../field_reports.toml")).expect("field_reports.toml is read");
    parsed.report
}

fn rows() -> Vec<(&'static str, Row)> {
    let tables = [
        ("breaker", breaker::rows()),
        ("clock", clock::rows()),
        ("config", config::rows()),
        ("fallback", fallback::rows()),
        ("rate_limit", rate_limit::rows()),
        ("retry_amplification", retry_amplification::rows()),
        ("session_budget", session_budget::rows()),
        ("state_flap", state_flap::rows()),
    ];
    tables.into_iter().flat_map(|(area, rows)| rows.into_iter().map(move |row| (area, row))).collect()
}

#[test]
fn every_report_has_its_proof_where_the_table_says_and_nowhere_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    let mut rows: BTreeMap<&str, &str> = rows().iter().map(|(area, row)| (row.id, *area)).collect();
    let mut seen = BTreeSet::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for Report { id, area, source, proof } in reports() {
        *counts.entry(area.clone()).or_default() += 1;
        if !seen.insert(id.clone()) {
            wrong.push(format!("{id} stands there twice"));
        }
        let row = rows.remove(id.as_str());
        match proof {
            Proof::Row(file) => {
                if row != Some(area.as_str()) || file != format!("tests/spec/field_reports/{area}.rs") {
                    wrong.push(format!("{id} has no row in {file}"));
                }
            }
            Proof::Drill(file) => match std::fs::read_to_string(root.join(&file)) {
                Ok(text) if text.contains(&source) => {}
                Ok(_) => wrong.push(format!("{file} does not name {source}, which {id} is from")),
                Err(error) => wrong.push(format!("{file}, the drill of {id}: {error}")),
            },
            Proof::WaitsFor(what) => {
                if what.is_empty() || row.is_some() {
                    wrong.push(format!("{id} waits for something, but for what?"));
                }
            }
        }
    }
    wrong.extend(rows.keys().map(|id| format!("{id} has a row and does not stand in the table")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known: BTreeMap<String, usize> = KNOWN.map(|(area, count)| (area.to_owned(), count)).into();
    assert_eq!(counts, known, "reports by area");
}

#[test]
fn table() {
    let rows: Vec<Row> = rows().into_iter().map(|(_, row)| row).collect();
    crate::check(&rows);
}
