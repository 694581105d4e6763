//! Reads `[[load]]`: who asks for what, and when.
//!
//! **Source:** scenario.md (loads).

use super::dist::{DIST, DIST_POSITIVE, Dist, read_dist};
use super::types::{Arrivals, Client, Content, Load, LoadKind, SessionLoad};
use squall::base::rules::ChainUse;
use squall::base::work::priority;
use squall::base::{Axis, CallClass, Policy, Rules, SessionClass, Span};
use squall::config::shape::SPAN_MAX;
use squall::config::{Complaint, Key, Keys, Problems, Shape, Source, Table};
use std::ops::Range;
use toml::de::DeTable;

pub const KINDS: [&str; 7] = ["chat", "remember", "recall", "defer", "outreach", "session", "status"];
const WITH_CONTENT: &[&str] = &["chat", "remember", "recall", "defer", "outreach"];
const OVER_MCP: &[&str] = &["remember", "recall", "status"];
const AXES: [&str; 4] = [Axis::Cloud.name(), Axis::Memory.name(), Axis::Embedding.name(), Axis::Cc.name()];
const POLICIES: [&str; 4] =
    [Policy::ALL[0].name(), Policy::ALL[1].name(), Policy::ALL[2].name(), Policy::ALL[3].name()];
const PRIORITIES: [&str; 8] = {
    let mut names = [""; 8];
    let mut i = 0;
    while i < names.len() {
        names[i] = priority::NAMED[i].0;
        i += 1;
    }
    names
};
const PRIORITY: Shape =
    Shape::Either(&[Shape::Count { min: priority::MIN as u64, max: priority::MAX as u64 }, Shape::OneOf(&PRIORITIES)]);

/// More arrivals than this from one load are a mistake.
const ARRIVALS_MAX: u64 = 1_000_000;
const RUNS_FOR: &str = "10m";
const BURST_MAX: u64 = 100_000;
const TIMES_MAX: usize = 10_000;
const KEY_CHARS_MAX: usize = 256;

pub const LOAD_KEYS: Keys = &[
    &[
        Key::required("kind", Shape::OneOf(&KINDS), "What is asked for."),
        Key::optional("every", DIST_POSITIVE, "", "Time between arrivals; the first is at `from`."),
        Key::optional(
            "rate",
            Shape::Written {
                what: "a rate such as \"6/m\"",
                pattern: r"^\s*\d+(\.\d+)?\s*/\s*(s|m|h|d)\s*$",
                check: check_rate,
            },
            "",
            "Arrivals by chance (Poisson), this many in the mean.",
        ),
        Key::optional("at", Shape::List { of: &Shape::SPAN, min: 1, max: TIMES_MAX }, "", "Arrivals at these times."),
        Key::optional("burst", Shape::Table(BURST_KEYS), "", "Many arrivals close together."),
        Key::optional("from", Shape::SPAN, "0s", "No arrival is earlier; with `every` or `rate`."),
        Key::optional("to", Shape::SPAN, "", "No arrival is at this time or later; default: the end of settling."),
        Key::optional(
            "client",
            Shape::Written { what: "\"one\", \"each\" or a key", pattern: r"\S", check: check_client },
            "one",
            "One client, a new one for each arrival, or one that declares this key.",
        ),
    ],
    &[
        Key::optional("chain", Shape::Text, "default", "Which chat chain is asked.").only(&["chat"]),
        Key::optional("class", Shape::OneOf(&["foreground", "background"]), "foreground", "The class of the calls.")
            .only(&["chat"]),
        Key::optional("stream", Shape::Flag, "false", "Whether answers are streamed.").only(&["chat"]),
        Key::optional("tokens", Shape::Count { min: 1, max: 1_000_000 }, "", "Length of the answers.").only(&["chat"]),
    ],
    &[
        Key::optional("content", Shape::FreeText, "", "The text; default: unique for each arrival.").only(WITH_CONTENT),
        Key::optional(
            "content_bytes",
            Shape::Count { min: 1, max: 16 << 20 },
            "",
            "Pads generated text to this length.",
        )
        .only(WITH_CONTENT),
        Key::optional("repeat", Shape::Flag, "false", "The same generated text at each arrival.").only(WITH_CONTENT),
    ],
    &[
        Key::required("work_type", Shape::Text, "What kind of work is handed in.").only(&["defer"]),
        Key::optional("priority", PRIORITY, "SCHEDULED", "Smaller runs first: 10 to 100, or a name.").only(&["defer"]),
        Key::optional("policy", Shape::OneOf(&POLICIES), "drain", "When it is too old to run.").only(&["defer"]),
        Key::optional("ttl", Shape::SPAN, "", "Its age limit, with policy \"ttl\".").only(&["defer"]),
        Key::optional(
            "depends_on",
            Shape::List { of: &Shape::OneOf(&AXES), min: 0, max: 4 },
            "[cloud]",
            "Axes it needs.",
        )
        .only(&["defer"]),
        Key::optional("key", Shape::Text, "", "The caller's own name for it: the same key is the same work.")
            .only(&["defer", "session"]),
    ],
    &[
        Key::optional("recipient", Shape::Text, "user", "Who gets the message.").only(&["outreach"]),
        Key::optional("purpose", Shape::Text, "message", "What it is for.").only(&["outreach"]),
        Key::optional("occasion", Shape::Text, "", "What it is about; equal ones are sent once.").only(&["outreach"]),
        Key::optional("topic", Shape::Text, "", "Of several states of one topic the newest counts.")
            .only(&["outreach"]),
        Key::optional("state", Shape::Count { min: 0, max: u32::MAX as u64 }, "", "The state's number, rising.")
            .only(&["outreach"]),
        Key::optional("parts", Shape::Count { min: 1, max: 1_000 }, "1", "In how many parts it is sent.")
            .only(&["outreach"]),
    ],
    &[
        Key::optional("transport", Shape::OneOf(&["stdio", "http"]), "http", "How the client talks.").only(OVER_MCP),
        Key::optional("protocol", Shape::OneOf(&["2025-11-25", "2026-07-28"]), "", "The revision of MCP it speaks.")
            .only(OVER_MCP),
        Key::optional("class", Shape::OneOf(&["foreground", "reflection", "background"]), "foreground", "Its class.")
            .only(&["session"]),
        Key::optional("runs_for", DIST, RUNS_FOR, "How long a session works.").only(&["session"]),
        Key::optional("exit", Shape::Count { min: 0, max: 255 }, "0", "Its exit code.").only(&["session"]),
        Key::optional("wait", Shape::Flag, "true", "It waits for a slot; else it leaves the work in the queue.")
            .only(&["session"]),
        Key::optional("retry", Shape::Flag, "false", "It waits and works again when a limit has ended it.")
            .only(&["session"]),
        Key::optional("dies_after", DIST, "", "Wrapper and session die without a word, so long after its start.")
            .only(&["session"]),
        Key::optional(
            "leaves_after",
            DIST,
            "",
            "It waits no longer than this, and says nothing; its work stays queued.",
        )
        .only(&["session"]),
    ],
];

pub const BURST_KEYS: Keys = &[&[
    Key::required("at", Shape::SPAN, "When it begins."),
    Key::required("count", Shape::Count { min: 1, max: BURST_MAX }, "How many arrive."),
    Key::optional("over", Shape::SPAN, "0s", "The i-th arrives at `at + i * over / count`."),
]];

/// `end` is the end of settling.
pub fn read_load(
    table: &DeTable,
    span: Range<usize>,
    end: Span,
    rules: &Rules,
    source: &Source,
    problems: &mut Problems,
) -> Option<Load> {
    let line = source.line(span.start);
    let kind = table.get("kind").and_then(|kind| kind.get_ref().as_str()).filter(|kind| KINDS.contains(kind));
    let table = Table::open("[[load]]", table, span, LOAD_KEYS, kind, problems);
    let (arrivals, from, to) = read_arrivals(&table, end, problems);
    let client = match table.text("client").map(str::trim) {
        None | Some("one") => Client::One,
        Some("each") => Client::Each,
        Some(key) => Client::Key(key.to_owned()),
    };
    refuse_unsupported(&table, problems);
    let content = read_content(&table, problems);
    let kind = read_kind(&table, content, rules, problems)?;
    Some(Load { line, kind, arrivals: arrivals?, from, to, client })
}

/// What the harness can't do yet.
fn refuse_unsupported(table: &Table, problems: &mut Problems) {
    for (key, only) in [("transport", Some("http")), ("protocol", None)] {
        if let Some(text) = table.text(key).filter(|text| Some(*text) != only) {
            problems.add(table.value_span(key), Complaint::new(format!("{key} {text:?} is not supported yet")));
        }
    }
}

fn read_arrivals(table: &Table, end: Span, problems: &mut Problems) -> (Option<Arrivals>, Span, Span) {
    let (from, to) = (table.time("from").unwrap_or(Span::ZERO), table.time("to").unwrap_or(end));
    let how = table.exactly_one(&["every", "rate", "at", "burst"], problems);
    let ranged = matches!(how, None | Some("every" | "rate"));
    for key in ["from", "to"] {
        if table.has(key) && !ranged {
            let message = format!("`{key}` goes with `every` or `rate`; `at` and `burst` say themselves when");
            problems.add(table.key_span(key), Complaint::new(message));
        }
    }
    if ranged {
        for (key, time, late) in [("from", from, from >= end), ("to", to, to > end)] {
            if late && table.has(key) {
                problems.add(table.value_span(key), past_end(key, time, end));
                return (None, from, to);
            }
        }
        if from >= to && !table.is_bad("from") && !table.is_bad("to") {
            let key = if table.has("to") { "to" } else { "from" };
            problems
                .add(table.value_span(key), Complaint::new(format!("the load ends ({to}) before it begins ({from})")));
            return (None, from, to);
        }
    }
    let arrivals = match how {
        Some("every") => table.text("every").and_then(|text| read_dist(text).ok()).map(Arrivals::Every),
        Some("rate") => table.text("rate").and_then(|text| read_rate(text).ok()).map(Arrivals::Rate),
        Some("at") => {
            let mut times = Vec::new();
            for time in table.texts("at") {
                let span: Span = time.value.parse().expect("the key's shape was checked");
                if span >= end {
                    problems.add(time.span, past_end("at", span, end));
                }
                times.push(span);
            }
            times.sort_unstable();
            (!times.is_empty()).then_some(Arrivals::At(times))
        }
        Some("burst") => read_burst(table, end, problems),
        Some(_) | None => None,
    };
    // Without a readable duration there is no end to count up to, and that mistake has been told.
    if to < SPAN_MAX
        && let Some(count) = arrivals.as_ref().and_then(|arrivals| expected(arrivals, to.saturating_sub(from)))
        && count > ARRIVALS_MAX as f64
    {
        let message = format!("about {count:.0} arrivals are more than the {ARRIVALS_MAX} that one load may have");
        problems.add(table.span.clone(), Complaint::new(message));
    }
    (arrivals, from, to)
}

fn read_burst(table: &Table, end: Span, problems: &mut Problems) -> Option<Arrivals> {
    let (burst, span) = table.table("burst")?;
    let burst = Table::open("a burst", burst, span, BURST_KEYS, None, problems);
    let (at, count) = (burst.time("at"), burst.count_u32("count"));
    let over = burst.time("over").unwrap_or(Span::ZERO);
    let (at, count) = (at?, count?);
    if at + over > end || at >= end {
        problems.add(burst.span.clone(), past_end("burst", at + over, end));
        return None;
    }
    Some(Arrivals::Burst { at, count, over })
}

/// How many arrivals the mean run has, where they are not listed.
fn expected(arrivals: &Arrivals, length: Span) -> Option<f64> {
    match arrivals {
        Arrivals::Every(Dist::Uniform(low, high)) => Some(2.0 * length.secs_f64() / (*low + *high).secs_f64()),
        Arrivals::Every(dist) => Some(length.secs_f64() / dist.median().secs_f64().max(0.001)),
        Arrivals::Rate(per_second) => Some(length.secs_f64() * per_second),
        Arrivals::At(_) | Arrivals::Burst { .. } => None,
    }
}

pub fn past_end(key: &str, time: Span, end: Span) -> Complaint {
    Complaint::new(format!("`{key}` ({time}) is past the end of the run ({end}, settling included)"))
}

fn read_content(table: &Table, problems: &mut Problems) -> Content {
    if table.has("content") {
        for key in ["content_bytes", "repeat"].into_iter().filter(|key| table.has(key)) {
            let message = format!("`{key}` is for generated text, and `content` gives the text");
            problems.add(table.key_span(key), Complaint::new(message));
        }
    }
    if !table.kind().is_some_and(|kind| WITH_CONTENT.contains(&kind)) {
        return Content::default();
    }
    Content {
        text: table.text("content").map(str::to_owned),
        bytes: table.count_u32("content_bytes"),
        repeat: table.flag("repeat").unwrap_or(false),
    }
}

fn read_kind(table: &Table, content: Content, rules: &Rules, problems: &mut Problems) -> Option<LoadKind> {
    let text = |key: &str| table.text(key).map(str::to_owned);
    match table.kind()? {
        "chat" => {
            check_chain(table, rules, problems);
            let class = match table.text("class") {
                Some("background") => CallClass::Background,
                Some(_) | None => CallClass::Foreground,
            };
            let stream = table.flag("stream").unwrap_or(false);
            Some(LoadKind::Chat { class, chain: text("chain"), stream, tokens: table.count_u32("tokens"), content })
        }
        "remember" => Some(LoadKind::Remember { content }),
        "recall" => Some(LoadKind::Recall { content }),
        "defer" => read_defer(table, content, problems),
        "outreach" => {
            if rules.channels.is_empty() {
                let message = "outreach has no [[channel]] to be delivered to";
                problems.add_absent(table.value_span("kind"), Complaint::new(message));
            }
            if table.has("state") != table.has("topic") {
                let key = if table.has("state") { "state" } else { "topic" };
                let message = "`topic` and `state` go together: of several states of a topic the newest counts";
                problems.add(table.key_span(key), Complaint::new(message));
            }
            Some(LoadKind::Outreach {
                recipient: text("recipient").unwrap_or_else(|| "user".into()),
                purpose: text("purpose").unwrap_or_else(|| "message".into()),
                occasion: text("occasion"),
                topic: text("topic"),
                state: table.count("state"),
                parts: table.count_u32("parts").unwrap_or(1),
                content,
            })
        }
        "session" => {
            let dist = |key: &str| table.text(key).and_then(|text| read_dist(text).ok());
            let class = table.text("class").unwrap_or(SessionClass::Foreground.name());
            Some(LoadKind::Session(SessionLoad {
                class: SessionClass::ALL.into_iter().find(|own| own.name() == class)?,
                key: text("key"),
                runs_for: dist("runs_for").or_else(|| read_dist(RUNS_FOR).ok())?,
                exit: u8::try_from(table.count("exit").unwrap_or(0)).ok()?,
                wait: table.flag("wait").unwrap_or(true),
                retry: table.flag("retry").unwrap_or(false),
                dies_after: dist("dies_after"),
                leaves_after: dist("leaves_after"),
            }))
        }
        "status" => Some(LoadKind::Status),
        kind => unreachable!("kind {kind:?} is in the list and not read"),
    }
}

fn check_chain(table: &Table, rules: &Rules, problems: &mut Problems) {
    let chat: Vec<&str> =
        rules.chains.iter().filter(|chain| chain.use_ == ChainUse::Chat).map(|chain| chain.name.as_str()).collect();
    let named = table.text("chain");
    if table.is_bad("chain") || chat.contains(&named.unwrap_or("default")) {
        return;
    }
    let (span, complaint) = match named {
        Some(name) => (table.value_span("chain"), Complaint::unknown("chat chain", name, &chat)),
        None if chat.is_empty() => {
            (table.value_span("kind"), Complaint::new("chat has no provider that can chat, and no chain to ask"))
        }
        None => {
            let help = "name one with `chain`";
            (table.value_span("kind"), Complaint::new("there is no chat chain named \"default\"").help(help))
        }
    };
    problems.add_absent(span, complaint);
}

fn read_defer(table: &Table, content: Content, problems: &mut Problems) -> Option<LoadKind> {
    let policy = table.text("policy").and_then(Policy::from_name).unwrap_or(Policy::Drain);
    let ttl = table.time("ttl");
    let is_ttl = match policy {
        Policy::Ttl => true,
        Policy::Drain | Policy::Refresh | Policy::Discard => false,
    };
    if !table.is_bad("policy") && is_ttl != table.has("ttl") {
        let (span, message) = match is_ttl {
            true => (table.value_span("policy"), "policy \"ttl\" needs `ttl`".to_owned()),
            false => (table.key_span("ttl"), format!("`ttl` goes with policy \"ttl\", not {:?}", policy.name())),
        };
        problems.add_absent(span, Complaint::new(message));
    }
    let named = |name: &str| priority::NAMED.into_iter().find(|(own, _)| *own == name).map(|(_, number)| number);
    let number = table.count("priority").and_then(|number| u8::try_from(number).ok());
    let priority = number.or_else(|| table.text("priority").and_then(named)).unwrap_or(priority::SCHEDULED);
    let depends_on = match table.has("depends_on") {
        true => table.texts("depends_on").into_iter().filter_map(|axis| Axis::from_name(axis.value)).collect(),
        false => vec![Axis::Cloud],
    };
    Some(LoadKind::Defer {
        work_type: table.text("work_type")?.to_owned(),
        priority,
        policy,
        ttl,
        depends_on,
        key: table.text("key").map(str::to_owned),
        content,
    })
}

fn check_rate(text: &str) -> Result<(), Complaint> {
    read_rate(text).map(drop)
}

/// `"6/m"` as arrivals per second.
fn read_rate(text: &str) -> Result<f64, Complaint> {
    let bad =
        || Complaint::new(format!("{text:?} is no rate")).help("write a number and a unit of time, such as \"6/m\"");
    let (number, unit) = text.split_once('/').ok_or_else(bad)?;
    let seconds = match unit.trim() {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(bad()),
    };
    let number = number.trim();
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = number.parse::<f64>().ok().filter(|_| plain).ok_or_else(bad)?;
    // Slower than once in a year and a day is never.
    if number / seconds < 1.0 / (366.0 * 86_400.0) {
        return Err(Complaint::new(format!("a rate of {text:?} never brings an arrival")));
    }
    Ok(number / seconds)
}

fn check_client(text: &str) -> Result<(), Complaint> {
    match (1..=KEY_CHARS_MAX).contains(&text.trim().chars().count()) {
        true => Ok(()),
        false => Err(Complaint::new(format!("a client's key has 1 to {KEY_CHARS_MAX} characters"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_arrivals_per_second() {
        assert_eq!(read_rate("6/m"), Ok(0.1));
        assert_eq!(read_rate("0.5 / s"), Ok(0.5));
        assert_eq!(read_rate("36/h"), Ok(0.01));
        for text in ["", "6", "6/w", "/m", "-1/m", "0/m", "1e3/m", "nan/m", "inf/s", "1/m/m"] {
            assert!(read_rate(text).is_err(), "{text}");
        }
    }
}
