//! Every known case is somewhere, once.

use crate::Row;
use serde::Deserialize;
use std::collections::BTreeMap;

/// How many cases of each area are known. A number changes only with the rows.
const KNOWN: [(&str, usize); 11] = [
    ("state_machine", 6),
    ("flapping", 20),
    ("legacy_mapping", 8),
    ("circuit_breaker", 27),
    ("router", 17),
    ("error_category", 6),
    ("backoff", 4),
    ("rate_gate", 5),
    ("cc_budget", 9),
    ("degradation", 7),
    ("system_degradation", 11),
];

fn table(area: &str) -> Vec<Row> {
    match area {
        "state_machine" => crate::state_machine::rows(),
        "flapping" => crate::flapping::rows(),
        "legacy_mapping" => crate::legacy_mapping::rows(),
        "circuit_breaker" => crate::circuit_breaker::rows(),
        "router" => crate::router::rows(),
        "error_category" => crate::error_category::rows(),
        "backoff" => crate::backoff::rows(),
        "rate_gate" => crate::rate_gate::rows(),
        "cc_budget" => crate::cc_budget::rows(),
        "degradation" => crate::degradation::rows(),
        "system_degradation" => crate::system_degradation::rows(),
        other => panic!("area {other} has no table"),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Conflicts {
    conflict: Vec<Conflict>,
}

/// A case that the engine does not follow.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Conflict {
    id: String,
    area: String,
    /// What was observed, in one sentence.
    case: String,
    /// The sentence of engine.md that says otherwise, word for word.
    engine: String,
    section: String,
    why: String,
}

fn conflicts() -> Vec<Conflict> {
    let parsed: Conflicts = toml::from_str(include_str!("conflicts.toml")).expect("conflicts.toml is read");
    parsed.conflict
}

#[test]
fn every_known_case_is_in_its_table_or_in_conflicts_and_in_one_of_them_only() {
    let mut wrong = Vec::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut place = |id: &str, here: String| {
        if let Some(there) = seen.insert(id.to_owned(), here.clone()) {
            wrong.push(format!("{id} is in {there} and in {here}"));
        }
    };
    let conflicts = conflicts();
    let mut counts = BTreeMap::new();
    for (area, _) in KNOWN {
        for row in table(area) {
            place(row.id, format!("the table of {area}"));
            *counts.entry(area.to_owned()).or_insert(0) += 1;
        }
    }
    for conflict in &conflicts {
        place(&conflict.id, "conflicts.toml".to_owned());
        *counts.entry(conflict.area.clone()).or_insert(0) += 1;
    }
    let known: BTreeMap<String, usize> = KNOWN.map(|(area, count)| (area.to_owned(), count)).into();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(counts, known, "cases by area");
}

#[test]
fn every_conflict_says_what_was_seen_what_is_wanted_instead_where_that_stands_and_why() {
    for Conflict { id, area: _, case, engine, section, why } in conflicts() {
        for (name, text) in [("case", case), ("engine", engine), ("section", section), ("why", why)] {
            assert!(!text.trim().is_empty(), "{id} has no {name}");
        }
    }
}
