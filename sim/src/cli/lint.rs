//! `squall lint`, `squall list`: scenario files without running them.

use super::plan::{self, Case};
use super::{Io, find};
use crate::run::Exit;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

/// Says every mistake in every file that `paths` mean.
pub fn lint(paths: &[String], io: &mut Io) -> Exit {
    let files = match find::scenarios(&io.here, &or_all(paths)) {
        Ok(files) => files,
        Err(error) => return io.usage(&error.to_string()),
    };
    let count = files.len();
    let (_, mistakes) = plan::read(files);
    if !mistakes.is_empty() {
        return io.mistakes(&mistakes);
    }
    io.say(&format!("{count} scenarios are right"));
    Exit::Held
}

/// One line per scenario: what it is about, how long, what breaks.
pub fn list(paths: &[String], io: &mut Io) -> Exit {
    let files = match find::scenarios(&io.here, &or_all(paths)) {
        Ok(files) => files,
        Err(error) => return io.usage(&error.to_string()),
    };
    let (cases, mistakes) = plan::read(files);
    let mut table = Table::new();
    table.force_no_tty().load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(io.width).unwrap_or(u16::MAX)).set_header(["Scenario", "Lasts", "Faults", "Title"]);
    for case in &cases {
        table.add_row(row(case));
    }
    // A name is copied and pasted: it stays in one piece.
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    io.say(&table.to_string());
    if mistakes.is_empty() { Exit::Held } else { io.mistakes(&mistakes) }
}

fn row(case: &Case) -> [String; 4] {
    let drill = case.scenario.resolve(None);
    let mut kinds: Vec<&str> = drill.faults.iter().map(|fault| fault.kind_text.as_str()).collect();
    kinds.dedup();
    let lasts = format!("{} + {}", drill.duration, drill.settle);
    [case.found.name.clone(), lasts, kinds.join(", "), drill.title.clone()]
}

/// Without a path, the whole library is meant.
fn or_all(paths: &[String]) -> Vec<String> {
    if paths.is_empty() { vec!["scenarios".to_owned()] } else { paths.to_vec() }
}
