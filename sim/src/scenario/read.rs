//! Reads a scenario file, everything wrong with it at once, and resolves it to a drill for a seed.
//!
//! Defaults: `settle` 30 minutes, `seed` 1, `starts_at` the first of January 2026. Times that may be distributions are
//! kept as such by [`Scenario::read`] and drawn by [`Scenario::resolve`], each from a stream of its own.
//! **Source:** scenario.md.

use super::expect::{EXPECT_KEYS, read_expect};
use super::fault::{DraftFault, read_fault};
use super::fault_keys::FAULT_KEYS;
use super::load::{LOAD_KEYS, read_load};
use super::session_limit;
use super::surroundings::{CHANNEL_KEYS, PROVIDER_KEYS, read_surroundings};
use super::types::{Drill, FaultKind, Load, LoadKind, ProcessFault, RetryAfter};
use super::vocabulary::INVARIANTS;
use crate::seed::Seed;
use squall::base::{Rules, Span, WallTime};
use squall::config::entries::{CHAIN_KEYS, check_unique};
use squall::config::shape::SPAN_MAX;
use squall::config::{Complaint, Diagnostic, Key, Keys, Problems, Shape, Source, Table, apply_engine_table, with_tree};
use toml::de::DeTable;

/// A scenario that was read and found right; its drawn times are still open.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// With the file's own seed and no faults.
    drill: Drill,
    faults: Vec<DraftFault>,
}

pub const ROOT_KEYS: Keys = &[&[
    Key::required("title", Shape::Text, "One line for lists and reports."),
    Key::optional("about", Shape::FreeText, "", "What happens, in a few sentences."),
    Key::optional("source", Shape::TEXTS, "[]", "Public reports this drill was taken from."),
    Key::optional("assumed", Shape::TEXTS, "[]", "What those reports do not say."),
    Key::optional(
        "starts_at",
        Shape::Written {
            what: "a time such as \"2026-01-01T00:00:00Z\"",
            pattern: r"^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}(:?\d{2})?)$",
            check: check_starts_at,
        },
        STARTS_AT,
        "The simulated wall clock at the start.",
    ),
    Key::required("duration", DURATION, "Faults happen before this."),
    Key::optional("settle", Shape::SPAN, "30m", "Then everything is healed, and this long the load still goes on."),
    Key::optional("seed", Shape::Count { min: 0, max: i64::MAX as u64 }, "1", "The seed when none is given."),
    Key::optional("require", REQUIRE, "[]", "Invariants that must have had something to judge."),
    Key::optional("engine", Shape::Table(&[]), "", "The engine's configuration over its defaults."),
    Key::optional(
        "provider",
        Shape::Tables(PROVIDER_KEYS),
        "",
        "Simulated servers, and the engine's entries for them.",
    ),
    Key::optional("channel", Shape::Tables(CHANNEL_KEYS), "", "Where outreach is delivered."),
    Key::optional("chain", Shape::Tables(CHAIN_KEYS), "", "Who is asked, in which order."),
    Key::optional("load", Shape::Tables(LOAD_KEYS), "", "Who asks for what, and when."),
    Key::optional("fault", Shape::Tables(FAULT_KEYS), "", "What goes wrong, where, and when."),
    Key::optional("expect", Shape::Tables(EXPECT_KEYS), "", "What this drill must show."),
]];

const DURATION: Shape = Shape::Span { min: Span::from_secs(1), max: SPAN_MAX };
const REQUIRE: Shape = Shape::List { of: &Shape::OneOf(INVARIANTS), min: 0, max: 100 };
const STARTS_AT: &str = "2026-01-01T00:00:00Z";
const SETTLE: Span = Span::from_mins(30);
const SEED: u64 = 1;

impl Scenario {
    /// `file`: its name as the user gave it, for messages and the verdict.
    ///
    /// **Errors:** everything that is wrong with it, in file order.
    pub fn read(text: &str, file: &str) -> Result<Scenario, Vec<Diagnostic>> {
        let file = file.replace('\\', "/");
        let source = Source::new(&file, text);
        with_tree(&source, |tree, problems| Some(read_root(tree, &source, problems)))
    }

    /// The drill of one run: `seed`, or the file's own. The same seed gives the same drill.
    pub fn resolve(&self, seed: Option<u64>) -> Drill {
        let mut drill = self.drill.clone();
        drill.seed = seed.unwrap_or(drill.seed);
        let seed = Seed::new(drill.seed);
        drill.faults = self
            .faults
            .iter()
            .enumerate()
            .filter_map(|(i, draft)| {
                let own = draft.fault.name.clone().unwrap_or_else(|| i.to_string());
                draw(draft, &self.drill, |what| seed.stream(&format!("scenario.fault.{own}.{what}")))
            })
            .collect();
        drill
    }

    pub fn title(&self) -> &str {
        &self.drill.title
    }

    pub fn about(&self) -> &str {
        &self.drill.about
    }

    pub fn duration(&self) -> Span {
        self.drill.duration
    }

    pub fn settle(&self) -> Span {
        self.drill.settle
    }

    /// The seed of a run that gives none.
    pub fn seed(&self) -> u64 {
        self.drill.seed
    }

    /// As written, whether or not they are drawn.
    pub fn faults(&self) -> &[DraftFault] {
        &self.faults
    }
}

/// The fault of this run; `None` if its chance did not come, or its beginning was drawn past the end of faults.
fn draw(
    draft: &DraftFault,
    drill: &Drill,
    stream: impl Fn(&str) -> crate::seed::Stream,
) -> Option<super::types::Fault> {
    if !stream("chance").chance(draft.chance) {
        return None;
    }
    let mut fault = draft.fault.clone();
    fault.at = draft.at.sample(&mut stream("at"));
    let duration = drill.duration;
    if fault.at >= duration {
        return None;
    }
    // Everything is healed at the end, whatever was drawn.
    let rest = duration.saturating_sub(fault.at);
    let reset = session_limit::draw(&mut fault.kind, &draft.resets, drill.starts_at, fault.at, &mut stream("resets"));
    let own = reset.map_or(rest, |reset| reset.saturating_sub(fault.at));
    fault.lasts = draft.lasts.map_or(own, |lasts| lasts.sample(&mut stream("lasts"))).min(rest);
    if let Some(dist) = draft.restart_after {
        let after = dist.sample(&mut stream("restart_after"));
        if let FaultKind::Process(ProcessFault::Stop { point: Some(_), restart_after, .. }) = &mut fault.kind {
            *restart_after = Some(after);
        } else {
            fault.lasts = after.min(rest);
        }
    }
    if let Some(dist) = draft.retry_after {
        let wait = dist.sample(&mut stream("retry_after"));
        *stated_wait(&mut fault.kind).expect("only faults that state a wait draw one") =
            Some(RetryAfter::Seconds(wait));
    }
    Some(fault)
}

fn stated_wait(kind: &mut FaultKind) -> Option<&mut Option<RetryAfter>> {
    match kind {
        FaultKind::Errors(errors) => Some(&mut errors.retry_after),
        FaultKind::Storm { retry_after, .. } => Some(retry_after),
        FaultKind::Flap { of, .. } => stated_wait(of),
        FaultKind::Hang
        | FaultKind::Slow(_)
        | FaultKind::Cut { .. }
        | FaultKind::StreamError { .. }
        | FaultKind::Garbage(_)
        | FaultKind::Poison { .. }
        | FaultKind::Limit(_)
        | FaultKind::SessionLimit(_)
        | FaultKind::Refuse
        | FaultKind::Blackhole
        | FaultKind::Reset
        | FaultKind::Dns
        | FaultKind::Delay { .. }
        | FaultKind::Loss { .. }
        | FaultKind::Disk(_)
        | FaultKind::Process(_) => None,
    }
}

fn read_root(tree: &DeTable, source: &Source, problems: &mut Problems) -> Scenario {
    let root = Table::open("the scenario", tree, 0..0, ROOT_KEYS, None, problems);
    // Without a duration no time is too late.
    let duration = root.time("duration").unwrap_or(SPAN_MAX);
    let settle = root.time("settle").unwrap_or(SETTLE);
    let end = duration + settle;
    check_unique("entry", root.texts("require").into_iter().map(|at| (at.value, at.span)), problems);
    let mut rules = Rules::default();
    if let Some((engine, _)) = root.table("engine") {
        apply_engine_table(engine, &mut rules, problems);
    }
    let mut around = read_surroundings(&root, rules, source, problems);
    let loads: Vec<Load> = root
        .tables("load")
        .into_iter()
        .filter_map(|(table, span)| read_load(table, span, end, &around.rules, source, problems))
        .collect();
    around.streams = loads.iter().any(|load| matches!(load.kind, LoadKind::Chat { stream: true, .. }));
    let faults: Vec<DraftFault> = root
        .tables("fault")
        .into_iter()
        .filter_map(|(table, span)| read_fault(table, span, duration, &around, source, problems))
        .collect();
    let expects = root
        .tables("expect")
        .into_iter()
        .filter_map(|(table, span)| read_expect(table, span, end, &around, source, problems))
        .collect();
    check_fault_names(&root, problems);
    check_damage(&root, problems);
    let starts_at = root.text("starts_at").unwrap_or(STARTS_AT);
    let drill = Drill {
        file: source.file.to_owned(),
        title: root.text("title").unwrap_or_default().to_owned(),
        about: root.text("about").unwrap_or_default().trim().to_owned(),
        source: root.strings("source"),
        assumed: root.strings("assumed"),
        starts_at: read_time(starts_at).expect("the key's shape was checked"),
        duration,
        settle,
        seed: root.count("seed").unwrap_or(SEED),
        require: root.strings("require"),
        rules: around.rules,
        providers: around.providers,
        channels: around.channels,
        loads,
        faults: Vec::new(),
        expects,
    };
    Scenario { drill, faults }
}

/// Names of faults name random streams too, so each is given once, and a number names an unnamed fault.
fn check_fault_names(root: &Table, problems: &mut Problems) {
    let mut names = Vec::new();
    for (table, _) in root.tables("fault") {
        let Some(value) = table.get("name") else { continue };
        let Some(name) = value.get_ref().as_str() else { continue };
        if name.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() {
            problems.add(value.span(), Complaint::new(format!("{name:?} is a number, not a name")));
        }
        names.push((name, value.span()));
    }
    check_unique("fault", names, problems);
}

/// A row is damaged between two incarnations, so there must be a second one.
fn check_damage(root: &Table, problems: &mut Problems) {
    let faults = root.tables("fault");
    let kind = |table: &DeTable| table.get("kind").and_then(|kind| kind.get_ref().as_str().map(str::to_owned));
    let restarts = |(table, _): &(&DeTable, _)| matches!(kind(table).as_deref(), Some("kill" | "power_loss"));
    if faults.iter().any(restarts) {
        return;
    }
    for (table, span) in faults {
        if kind(table).as_deref() == Some("corrupt_row") {
            let message = "a row is damaged before the engine's next start, and nothing stops the engine";
            problems.add(span, Complaint::new(message).help("add a fault of kind \"kill\" or \"power_loss\""));
        }
    }
}

fn check_starts_at(text: &str) -> Result<(), Complaint> {
    read_time(text).map(drop)
}

fn read_time(text: &str) -> Result<WallTime, Complaint> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    time.map(|time| WallTime(time.as_millisecond())).map_err(|_| {
        Complaint::new(format!("{text:?} is no time"))
            .help("write date, time and offset, such as \"2026-01-01T00:00:00Z\"")
    })
}
