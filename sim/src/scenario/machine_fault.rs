//! Reads faults of the engine's machine: its disk and its process.
//!
//! Choices where scenario.md is silent: a slow disk is slow at its syncs unless `op` says otherwise, because reads and
//! writes go to the system's cache. An engine that was stopped is started again when the fault ends (at the latest
//! when everything is healed), or `restart_after` later. `disk_full` without `free` and `grow` leaves nothing.
//! **Source:** scenario.md, "disk" and "process".

use super::dist::{Dist, read_dist};
use super::expect::json;
use super::types::{DiskCode, DiskFault, DiskOp, DiskPick, FaultKind, Point, ProcessFault};
use super::vocabulary::EVENTS;
use squall::base::Span;
use squall::config::{Complaint, Problems, Table};

/// The fault, and the time until the next start if it states one.
pub fn read_machine_fault(
    table: &Table,
    at: Option<Dist>,
    problems: &mut Problems,
) -> Option<(FaultKind, Option<Dist>)> {
    let disk = |fault| Some((FaultKind::Disk(fault), None));
    match table.kind()? {
        "disk_full" => disk(DiskFault::Full {
            free: table.bytes("free").or_else(|| (!table.has("grow")).then_some(0)),
            grow: table.bytes("grow").unwrap_or(0),
        }),
        "disk_error" => {
            disk(DiskFault::Error { op: read_op(table)?, code: read_code(table), pick: read_pick(table, problems) })
        }
        "disk_slow" => {
            let latency = read_dist(table.text("latency")?).ok()?;
            disk(DiskFault::Slow { op: read_op(table)?, latency })
        }
        "disk_lying_sync" => disk(DiskFault::LyingSync),
        "disk_corrupt" => disk(DiskFault::Corrupt),
        "lock_held" => disk(DiskFault::LockHeld),
        "reader_held" => {
            let message = "there is nothing to read before the engine has made its database";
            not_at_the_start(table, at, message, problems);
            disk(DiskFault::ReaderHeld)
        }
        "corrupt_row" => disk(DiskFault::CorruptRow {
            table: table.text("table")?.to_owned(),
            field: table.text("field")?.to_owned(),
            value: json(table.item("value")?)?,
        }),
        "kill" => read_stop(table, at, false, problems),
        "power_loss" => read_stop(table, at, true, problems),
        other => unreachable!("kind {other:?} is supported and not read"),
    }
}

fn read_op(table: &Table) -> Option<DiskOp> {
    match table.text("op").unwrap_or("sync") {
        "read" => Some(DiskOp::Read),
        "write" => Some(DiskOp::Write),
        "sync" => Some(DiskOp::Sync),
        _ => None,
    }
}

fn read_code(table: &Table) -> DiskCode {
    match table.text("code") {
        Some("FULL") => DiskCode::Full,
        Some("BUSY") => DiskCode::Busy,
        Some("READONLY") => DiskCode::Readonly,
        _ => DiskCode::Ioerr,
    }
}

fn read_pick(table: &Table, problems: &mut Problems) -> DiskPick {
    if table.has("share") && table.has("nth") {
        problems.add(table.key_span("nth"), Complaint::new("`share` and `nth` exclude each other"));
    }
    if table.number("share") == Some(0.0) {
        problems.add(table.value_span("share"), Complaint::new("a share of 0 never hits anything"));
    }
    match (table.number("share"), table.count("nth")) {
        (Some(share), _) => DiskPick::Share(share),
        (None, Some(nth)) => DiskPick::Nth(nth),
        (None, None) => DiskPick::All,
    }
}

fn read_stop(
    table: &Table,
    at: Option<Dist>,
    power: bool,
    problems: &mut Problems,
) -> Option<(FaultKind, Option<Dist>)> {
    let restart_after = table.text("restart_after").and_then(|text| read_dist(text).ok());
    let point = match table.text_at("point") {
        Some(at) => {
            let names = || EVENTS.iter().map(|(name, _)| *name).chain([Point::WRITE]);
            if !names().any(|name| name == at.value) {
                problems.add(at.span, Complaint::unknown("event", at.value, names()));
                return None;
            }
            Some(Point { event: at.value.to_owned(), nth: table.count("nth").unwrap_or(1) })
        }
        None => {
            not_at_the_start(table, at, "the engine is not up yet", problems);
            if table.has("nth") {
                problems.add(table.key_span("nth"), Complaint::new("`nth` of what?").help("say `point`"));
            }
            if table.has("lasts") && table.has("restart_after") {
                let message = "without a `point`, `lasts` and `restart_after` both say when the engine is up again";
                problems.add(table.key_span("restart_after"), Complaint::new(message).help("leave one out"));
            }
            None
        }
    };
    let stop = ProcessFault::Stop { power, point, restart_after: None };
    Some((FaultKind::Process(stop), restart_after))
}

fn not_at_the_start(table: &Table, at: Option<Dist>, message: &str, problems: &mut Problems) {
    if at.is_some_and(|at| at.least() == Span::ZERO) {
        let span = if table.has("at") { table.value_span("at") } else { table.key_span("kind") };
        problems.add(span, Complaint::new(format!("at 0s {message}")).help("give a later `at`"));
    }
}
