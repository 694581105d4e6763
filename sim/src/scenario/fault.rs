//! Reads `[[fault]]`: what goes wrong, where, and when.
//!
//! **Source:** scenario.md (fault kinds).

use super::dist::{Dist, read_dist};
use super::fault_keys::{FAULT_KEYS, FLAPPING, Group, OF_KEYS, Wait, kind_named, read_retry_after};
use super::machine_fault::read_machine_fault;
use super::session_limit::{self, Reset};
use super::surroundings::{Surroundings, read_allowance};
use super::target::{Aim, read_targets};
use super::types::{Errors, Fault, FaultKind, Garbage, Pick, RetryAfter, Slow};
use squall::base::Span;
use squall::config::{Complaint, Problems, Source, Table};
use std::ops::Range;
use toml::de::DeTable;

/// A fault whose times are still to be drawn.
#[derive(Clone, Debug)]
pub struct DraftFault {
    /// With zeros where something is drawn.
    pub fault: Fault,
    pub at: Dist,
    /// `None`: until everything is healed.
    pub lasts: Option<Dist>,
    /// The whole fault is drawn with this chance.
    pub chance: f64,
    /// Of the stated wait in the fault's answers.
    pub retry_after: Option<Dist>,
    /// Of a session limit.
    pub resets: Vec<Reset>,
    /// Of an engine that was stopped.
    pub restart_after: Option<Dist>,
}

/// Faults begin before `duration`.
pub fn read_fault(
    table: &DeTable,
    span: Range<usize>,
    duration: Span,
    around: &Surroundings,
    source: &Source,
    problems: &mut Problems,
) -> Option<DraftFault> {
    let line = source.line(span.start);
    let written = table.get("kind").and_then(|kind| kind.get_ref().as_str());
    let known = written.and_then(kind_named);
    let table = Table::open("[[fault]]", table, span, FAULT_KEYS, known.map(|(name, ..)| name), problems);
    let at = read_at(&table, duration, problems);
    let lasts = table.text("lasts").and_then(|text| read_dist(text).ok());
    let pick = read_pick(&table, problems);
    let (name, group, supported) = known?;
    if !supported {
        let complaint = Complaint::new(format!("fault kind {name:?} is not supported yet"));
        problems.add(table.value_span("kind"), complaint);
        return None;
    }
    let (mut resets, mut restart_after) = (Vec::new(), None);
    let kind = match group {
        Group::Disk | Group::Process => read_machine_fault(&table, at, problems).map(|(kind, after)| {
            restart_after = after;
            (kind, None)
        }),
        Group::Limits if name == "session_limit" => session_limit::read(&table, problems).map(|(kind, drawn)| {
            resets = drawn;
            (kind, None)
        }),
        Group::Answers | Group::Limits | Group::Network | Group::Shape | Group::Clock => read_kind(&table, problems),
    };
    let aim = kind
        .as_ref()
        .map_or(Aim { kind: name, group, body: None, refusal: None }, |(kind, _)| aim_of(kind, name, group));
    let targets = read_targets(&table.texts("target"), &aim, around, problems);
    if aim.group == Group::Network && pick != Pick::All {
        let key = if table.has("share") { "share" } else { "every_nth" };
        let complaint = Complaint::new(format!(
            "a fault of kind {:?} hits the whole link to a host, not a part of its calls",
            aim.kind
        ))
        .help("take `loss` for a share of the packets, `errors` or `hang` for a share of the calls");
        problems.add(table.key_span(key), complaint);
    }
    if aim.kind == "stream_error" && !around.streams {
        let complaint = Complaint::new("no load streams, so no stream can have an error")
            .help("give a load of kind \"chat\" `stream = true`");
        problems.add_absent(table.value_span("kind"), complaint);
    }
    let whole = aim.whole();
    let (kind, wait) = kind?;
    let retry_after = match wait {
        Some(Wait::Drawn(dist)) => Some(dist),
        Some(Wait::Fixed(_)) | None => None,
    };
    let fault = Fault {
        line,
        name: table.text("name").map(str::to_owned),
        kind_text: name.to_owned(),
        target_text: match whole {
            Some(whole) => vec![whole.to_owned()],
            None => table.strings("target"),
        },
        kind,
        targets,
        at: Span::ZERO,
        lasts: Span::ZERO,
        pick,
    };
    let chance = table.number("chance").unwrap_or(1.0);
    Some(DraftFault { fault, at: at?, lasts, chance, retry_after, resets, restart_after })
}

fn read_at(table: &Table, duration: Span, problems: &mut Problems) -> Option<Dist> {
    if table.is_bad("at") {
        return None;
    }
    let at = table.text("at").map_or(Ok(Dist::Fixed(Span::ZERO)), read_dist).expect("the key's shape was checked");
    if at.least() >= duration || at.median() >= duration {
        let message = format!("the fault begins ({at}) when faults are over ({duration}, the drill's duration)");
        problems.add(table.value_span("at"), Complaint::new(message).help("at `duration` everything is healed"));
        return None;
    }
    Some(at)
}

fn read_pick(table: &Table, problems: &mut Problems) -> Pick {
    if matches!(table.kind(), Some("loss" | "disk_error")) {
        return Pick::All; // Their share is of other things than calls.
    }
    if table.has("share") && table.has("every_nth") {
        let message = "`share` and `every_nth` exclude each other";
        problems.add(table.key_span("every_nth"), Complaint::new(message));
    }
    if table.number("share") == Some(0.0) {
        problems.add(table.value_span("share"), Complaint::new("a share of 0 never hits anything"));
    }
    match (table.number("share"), table.count_u32("every_nth")) {
        (Some(share), _) => Pick::Share(share),
        (None, Some(nth)) => Pick::EveryNth(nth),
        (None, None) => Pick::All,
    }
}

/// What decides where the fault can be aimed: for a flap, what it is a flap of.
fn aim_of<'k>(kind: &'k FaultKind, name: &'k str, group: Group) -> Aim<'k> {
    if let FaultKind::Flap { of, .. } = kind {
        let (name, group, _) = kind_named(name_of(of)).expect("a kind's name is in the list of kinds");
        return aim_of(of, name, group);
    }
    if let FaultKind::Disk(_) | FaultKind::Process(_) = kind {
        return Aim { kind: name, group, body: None, refusal: None };
    }
    let body = if let FaultKind::Garbage(garbage) = kind { Some(garbage.name()) } else { None };
    let refusal = if let FaultKind::Errors(errors) = kind { errors.error.as_deref() } else { None };
    Aim { kind: name, group, body, refusal }
}

fn name_of(kind: &FaultKind) -> &'static str {
    match kind {
        FaultKind::Errors(_) => "errors",
        FaultKind::Hang => "hang",
        FaultKind::Slow(_) => "slow",
        FaultKind::Cut { .. } => "cut",
        FaultKind::StreamError { .. } => "stream_error",
        FaultKind::Garbage(_) => "garbage",
        FaultKind::Poison { .. } => "poison",
        FaultKind::Storm { .. } => "storm",
        FaultKind::Limit(_) => "limit",
        FaultKind::SessionLimit(_) => "session_limit",
        FaultKind::Refuse => "refuse",
        FaultKind::Blackhole => "blackhole",
        FaultKind::Reset => "reset",
        FaultKind::Dns => "dns",
        FaultKind::Delay { .. } => "delay",
        FaultKind::Loss { .. } => "loss",
        FaultKind::Flap { .. } => "flap",
        FaultKind::Disk(_) | FaultKind::Process(_) => unreachable!("no flap is one of these"),
    }
}

/// The kind and its stated wait, or nothing if a part that it can't do without is missing or bad.
fn read_kind(table: &Table, problems: &mut Problems) -> Option<(FaultKind, Option<Wait>)> {
    let dist = |key: &str| table.text(key).and_then(|text| read_dist(text).ok());
    let wait = match table.kind()? {
        "errors" | "storm" => table.text("retry_after").and_then(|text| read_retry_after(text).ok()),
        _ => None,
    };
    let kind = match table.kind()? {
        "errors" => {
            table.exactly_one(&["status", "error"], problems);
            let status = table.items("status").into_iter();
            let status: Vec<u16> = status
                .filter_map(|item| squall::config::shape::integer(item.get_ref()))
                .filter_map(|status| u16::try_from(status).ok())
                .collect();
            let error = table.text("error").map(str::to_owned);
            FaultKind::Errors(Errors {
                status,
                error,
                retry_after: fixed(&wait),
                body: table.text("body").map(str::to_owned),
            })
        }
        "hang" => FaultKind::Hang,
        "slow" => match table.exactly_one(&["latency", "factor"], problems)? {
            "latency" => FaultKind::Slow(Slow::Latency(dist("latency")?)),
            _ => FaultKind::Slow(Slow::Factor(table.number("factor")?)),
        },
        "cut" => {
            table.exactly_one(&["after_bytes", "before_first_token"], problems);
            if table.flag("before_first_token") == Some(false) {
                let complaint = Complaint::new("`before_first_token = false` cuts nothing").help("say `after_bytes`");
                problems.add(table.value_span("before_first_token"), complaint);
            }
            let before_first_token = table.flag("before_first_token").unwrap_or(false);
            FaultKind::Cut { after_bytes: table.count("after_bytes"), before_first_token }
        }
        "stream_error" => FaultKind::StreamError { after_tokens: table.count_u32("after_tokens").unwrap_or(1) },
        "garbage" => FaultKind::Garbage(Garbage::from_name(table.text("body")?)?),
        "poison" => FaultKind::Poison { text: table.text("text")?.to_owned() },
        "storm" => {
            let capacity = table.has("capacity").then(|| read_allowance(table, "capacity", problems));
            FaultKind::Storm { retry_after: fixed(&wait), capacity }
        }
        "limit" => FaultKind::Limit(read_allowance(table, "limit", problems)),
        "refuse" => FaultKind::Refuse,
        "blackhole" => FaultKind::Blackhole,
        "reset" => FaultKind::Reset,
        "dns" => FaultKind::Dns,
        "delay" => FaultKind::Delay { by: dist("by")? },
        "loss" => FaultKind::Loss { share: table.number("share")? },
        "flap" => return read_flap(table, dist("down"), dist("up"), problems),
        other => unreachable!("kind {other:?} is supported and not read"),
    };
    Some((kind, wait))
}

fn fixed(wait: &Option<Wait>) -> Option<RetryAfter> {
    match wait.as_ref()? {
        Wait::Fixed(wait) => Some(wait.clone()),
        // Drawn for each run: resolve.rs puts it in.
        Wait::Drawn(_) => Some(RetryAfter::Seconds(Span::ZERO)),
    }
}

fn read_flap(
    table: &Table,
    down: Option<Dist>,
    up: Option<Dist>,
    problems: &mut Problems,
) -> Option<(FaultKind, Option<Wait>)> {
    let (of, span) = table.table("of")?;
    let kind = of.get("kind").and_then(|kind| kind.get_ref().as_str()).filter(|kind| FLAPPING.contains(kind));
    let of = Table::open("`of`", of, span, OF_KEYS, kind, problems);
    let (of, wait) = read_kind(&of, problems)?;
    let jitter = table.number("jitter").unwrap_or(0.0);
    Some((FaultKind::Flap { down: down?, up: up?, jitter, of: Box::new(of) }, wait))
}

impl Garbage {
    pub fn name(self) -> &'static str {
        match self {
            Garbage::Html => "html",
            Garbage::Empty => "empty",
            Garbage::TruncatedJson => "truncated_json",
            Garbage::Nan => "nan",
            Garbage::Zero => "zero",
            Garbage::WrongDims => "wrong_dims",
            Garbage::FewerVectors => "fewer_vectors",
        }
    }

    pub fn from_name(name: &str) -> Option<Garbage> {
        let all = [
            Garbage::Html,
            Garbage::Empty,
            Garbage::TruncatedJson,
            Garbage::Nan,
            Garbage::Zero,
            Garbage::WrongDims,
            Garbage::FewerVectors,
        ];
        all.into_iter().find(|garbage| garbage.name() == name)
    }
}
