//! Reads `[[expect]]`: what this drill must show.
//!
//! An expectation's form follows from its keys: `axis` with `is`, `reaches`, `stays`, `never` or `levels`, or one of
//! `metric`, `status`, `outside`, `event`, `order`, `sometimes`. A little long: the forms share their parts.
//! **Source:** scenario.md (expectations).

use super::expect_text::{Times, text_of_expectation};
use super::load::past_end;
use super::surroundings::Surroundings;
use super::types::{Bound, EventFilter, Expect, Expectation, ServerApi, Window};
use super::vocabulary::{SOMETIMES, STATUS_FIELDS, fields_of, metrics};
use squall::base::{Axis, Level, Span};
use squall::config::table::text_of;
use squall::config::{At, Complaint, Key, Keys, Problems, Shape, Source, Table};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The forms, each named after the key that makes it.
pub const FORMS: [&str; 11] =
    ["is", "reaches", "stays", "never", "levels", "metric", "status", "outside", "event", "order", "sometimes"];
const AXIS_FORMS: &[&str] = &["is", "reaches", "stays", "never", "levels"];
const HEADS: &[&str] = &["axis", "metric", "status", "outside", "event", "order", "sometimes"];

const AXES: [&str; 4] = [Axis::Cloud.name(), Axis::Memory.name(), Axis::Embedding.name(), Axis::Cc.name()];
const LEVELS: [&str; 12] = {
    let mut names = [""; 12];
    let mut i = 0;
    while i < names.len() {
        names[i] = Level::ALL[i].name();
        i += 1;
    }
    names
};
const LEVEL: Shape = Shape::OneOf(&LEVELS);
const WINDOW: Shape = Shape::List { of: &Shape::SPAN, min: 2, max: 2 };
const AMOUNT: Shape = Shape::Number { min: -1e18, max: 1e18 };

pub const EXPECT_KEYS: Keys = &[
    &[
        Key::required("axis", Shape::OneOf(&AXES), "Which axis.").only(AXIS_FORMS),
        Key::required("is", LEVEL, "Its level at that time.").only(&["is"]),
        Key::required("reaches", LEVEL, "A level it takes at some time in the window.").only(&["reaches"]),
        Key::required("stays", LEVEL, "Its level throughout.").only(&["stays"]),
        Key::required("never", LEVEL, "A level it never takes.").only(&["never"]),
        Key::required("levels", Shape::List { of: &LEVEL, min: 1, max: 1_000 }, "Exactly this sequence of levels.")
            .only(&["levels"]),
    ],
    &[
        Key::required("at", Shape::SPAN, "At this time.").only(&["is", "status", "outside"]),
        Key::required("within", WINDOW, "From the first time to before the second.").only(&["reaches"]),
        Key::required("during", WINDOW, "From the first time to before the second.").only(&["stays", "never"]),
        Key::optional("during", WINDOW, "", "From the first time to before the second; default: the whole run.")
            .only(&["levels", "metric", "event"]),
    ],
    &[
        Key::required("metric", Shape::Text, "A metric of the verdict.").only(&["metric"]),
        Key::required("status", Shape::Text, "A field of the status file, as a dotted path.").only(&["status"]),
        Key::required("outside", Shape::Text, "What a simulated server holds, such as \"chat.messages\".")
            .only(&["outside"]),
        Key::optional("at_least", AMOUNT, "", "It is not smaller.").only(&["metric", "status", "outside"]),
        Key::optional("at_most", AMOUNT, "", "It is not larger.").only(&["metric", "status", "outside"]),
        Key::optional("equals", AMOUNT, "", "It is exactly this.").only(&["metric", "outside"]),
        Key::optional("equals", Shape::Scalar, "", "It is exactly this.").only(&["status"]),
    ],
    &[
        Key::required("event", Shape::Text, "Any event of the history.").only(&["event"]),
        Key::optional("where", Shape::Table(&[]), "", "Only events with these fields.").only(&["event"]),
        Key::optional("count", Shape::Table(COUNT_KEYS), "{ at_least = 1 }", "How many there are.").only(&["event"]),
        Key::required("order", Shape::List { of: &ORDERED, min: 2, max: 100 }, "First occurrences, in this order.")
            .only(&["order"]),
        Key::required("sometimes", Shape::OneOf(SOMETIMES), "The interesting thing did happen.").only(&["sometimes"]),
    ],
];

pub const COUNT_KEYS: Keys = &[&[
    Key::optional("at_least", Shape::count(0), "", "Not fewer."),
    Key::optional("at_most", Shape::count(0), "", "Not more."),
    Key::optional("equals", Shape::count(0), "", "Exactly so many."),
]];

const ORDERED: Shape = Shape::Either(&[Shape::Text, Shape::Table(ORDERED_KEYS)]);
pub const ORDERED_KEYS: Keys = &[&[
    Key::required("event", Shape::Text, "Any event of the history."),
    Key::optional("where", Shape::Table(&[]), "", "Only an event with these fields."),
]];

/// `end` is the end of settling.
pub fn read_expect(
    table: &DeTable,
    span: Range<usize>,
    end: Span,
    around: &Surroundings,
    source: &Source,
    problems: &mut Problems,
) -> Option<Expect> {
    let line = source.line(span.start);
    let form = form_of(table, &span, problems);
    let table = Table::open("[[expect]]", table, span, EXPECT_KEYS, form, problems);
    let (what, times) = read_form(&table, end, around, problems)?;
    let text = text_of_expectation(&what, &times);
    Some(Expect { line, text, what })
}

/// The form, unless there is none or more than one; says so then.
fn form_of(table: &DeTable, span: &Range<usize>, problems: &mut Problems) -> Option<&'static str> {
    let place = |key: &str| table.get_key_value(key).map(|(key, _)| key.span());
    let mut heads: Vec<(Range<usize>, &str)> = HEADS.iter().filter_map(|key| Some((place(key)?, *key))).collect();
    heads.sort_by_key(|(span, _)| span.start);
    let axis_forms: Vec<&'static str> = AXIS_FORMS.iter().copied().filter(|key| place(key).is_some()).collect();
    match (heads.as_slice(), axis_forms.as_slice()) {
        ([(_, "axis")], [form]) => Some(form),
        ([(span, "axis")], forms) => {
            let listed = AXIS_FORMS.join(", ");
            let (span, message) = match forms.get(1).and_then(|key| place(key)) {
                Some(second) => (second, format!("an expectation about an axis has only one of {listed}")),
                None => (span.clone(), format!("an expectation about an axis needs one of {listed}")),
            };
            problems.add_absent(span, Complaint::new(message));
            None
        }
        ([(_, head)], _) => FORMS.into_iter().find(|form| form == head),
        ([], _) => {
            let help = format!("one of {}", HEADS.join(", "));
            problems.add_absent(span.clone(), Complaint::new("[[expect]] does not say about what").help(help));
            None
        }
        ([(_, first), (span, second), ..], _) => {
            let message = format!("`{first}` and `{second}` are two expectations: write an [[expect]] for each");
            problems.add(span.clone(), Complaint::new(message));
            None
        }
    }
}

fn read_form(table: &Table, end: Span, around: &Surroundings, problems: &mut Problems) -> Option<(Expectation, Times)> {
    let form = table.kind()?;
    let mut times = Times::default();
    let at = read_at(table, end, &mut times, problems);
    let within = read_window(table, "within", end, &mut times, problems);
    let during = read_window(table, "during", end, &mut times, problems);
    let bad_window = table.has("during") && during.is_none();
    let axis = table.text("axis").and_then(Axis::from_name);
    let level = axis.and_then(|axis| read_level(table.text_at(form)?, axis, problems));
    let what = match form {
        "is" => Expectation::Is { axis: axis?, at: at?, level: level? },
        "reaches" => Expectation::Reaches { axis: axis?, within: within?, level: level? },
        "stays" => Expectation::Stays { axis: axis?, during: during?, level: level? },
        "never" => Expectation::Never { axis: axis?, during: during?, level: level? },
        "levels" => {
            let levels = read_levels(table, axis?, problems);
            Expectation::Levels { axis: axis?, during, levels: levels? }
        }
        "metric" => {
            let metric = read_metric(table, around, problems);
            let bound = read_bound(table, problems);
            Expectation::Metric { metric: metric?, bound: bound?, during }
        }
        "status" => {
            let path = read_status_path(table, problems);
            let bound = read_bound(table, problems);
            Expectation::Status { path: path?, at: at?, bound: bound? }
        }
        "outside" => {
            let what = read_outside(table, around, problems);
            let bound = read_bound(table, problems);
            Expectation::Outside { what: what?, at: at?, bound: bound? }
        }
        "event" => {
            let filter = read_filter(table, problems);
            let count = read_count(table, problems);
            Expectation::Event { filter: filter?, count: count?, during }
        }
        "order" => Expectation::Order(read_order(table, problems)?),
        "sometimes" => Expectation::Sometimes(table.text("sometimes")?.to_owned()),
        other => unreachable!("form {other:?} is listed and not read"),
    };
    (!bad_window).then_some((what, times))
}

fn read_at(table: &Table, end: Span, times: &mut Times, problems: &mut Problems) -> Option<Span> {
    let at = table.time("at")?;
    if at > end {
        problems.add(table.value_span("at"), past_end("at", at, end));
        return None;
    }
    times.at = table.text("at").map(|text| text.trim().to_owned());
    Some(at)
}

fn read_window(
    table: &Table,
    key: &'static str,
    end: Span,
    times: &mut Times,
    problems: &mut Problems,
) -> Option<Window> {
    let texts = table.texts(key);
    let [from, to] = texts.as_slice() else { return None };
    let parse = |text: &At<&str>| text.value.parse::<Span>().expect("the key's shape was checked");
    let window = (parse(from), parse(to));
    if window.0 >= window.1 {
        let message = format!("`{key}` ends ({}) before it begins ({})", to.value, from.value);
        problems
            .add(table.value_span(key), Complaint::new(message).help("a window holds its first time, not its second"));
        return None;
    }
    if window.1 > end {
        problems.add(to.span.clone(), past_end(key, window.1, end));
        return None;
    }
    times.window = Some(format!("{}..{}", from.value.trim(), to.value.trim()));
    Some(window)
}

fn read_level(text: At<&str>, axis: Axis, problems: &mut Problems) -> Option<Level> {
    let level = Level::from_name(text.value)?;
    if axis.severity(level).is_none() {
        let own: Vec<&str> = axis.levels().iter().map(|level| level.name()).collect();
        let message = format!("axis {axis} has no level {:?}", text.value);
        problems.add(text.span, Complaint::new(message).closest(text.value, own));
        return None;
    }
    Some(level)
}

fn read_levels(table: &Table, axis: Axis, problems: &mut Problems) -> Option<Vec<Level>> {
    let texts = table.texts("levels");
    let mut levels = Vec::new();
    let mut good = !texts.is_empty();
    for text in texts {
        let span = text.span.clone();
        let Some(level) = read_level(text, axis, problems) else {
            good = false;
            continue;
        };
        if levels.last() == Some(&level) {
            let message = format!("{level} twice in a row: an axis changes to another level each time");
            problems.add(span, Complaint::new(message));
            good = false;
        }
        levels.push(level);
    }
    good.then_some(levels)
}

fn read_metric(table: &Table, around: &Surroundings, problems: &mut Problems) -> Option<String> {
    let metric = table.text("metric")?;
    let known = metrics(&around.rules);
    if !known.iter().any(|name| name == metric) {
        problems.add_absent(table.value_span("metric"), Complaint::unknown("metric", metric, known));
        return None;
    }
    Some(metric.to_owned())
}

fn read_status_path(table: &Table, problems: &mut Problems) -> Option<String> {
    let path = table.text("status")?;
    let mut parts = path.split('.');
    let first = parts.next().unwrap_or_default();
    let complaint = if !STATUS_FIELDS.contains(&first) {
        Complaint::unknown("field of the status file", first, STATUS_FIELDS)
    } else if path.split('.').any(|part| part.trim().is_empty()) {
        Complaint::new(format!("{path:?} is no path: a part between dots is empty"))
    } else {
        match (first, parts.next()) {
            ("state" | "measured" | "episodes" | "holds", Some(axis)) if Axis::from_name(axis).is_none() => {
                Complaint::unknown("axis", axis, AXES)
            }
            (_, _) => return Some(path.to_owned()),
        }
    };
    problems.add(table.value_span("status"), complaint);
    None
}

fn read_outside(table: &Table, around: &Surroundings, problems: &mut Problems) -> Option<String> {
    let what = table.text("outside")?;
    let held = around.providers.iter().filter_map(|provider| match provider.api {
        ServerApi::Qdrant => Some(format!("{}.points", provider.name)),
        ServerApi::Webhook => Some(format!("{}.posts", provider.name)),
        ServerApi::Openai | ServerApi::Anthropic | ServerApi::Mistral | ServerApi::Ollama | ServerApi::ClaudeCode => {
            None
        }
    });
    let messages = around.channels.iter().map(|channel| format!("{}.messages", channel.name));
    let known: Vec<String> = messages.chain(held).collect();
    if !known.iter().any(|name| name == what) {
        let complaint = Complaint::new(format!("no simulated server holds {what:?}")).closest(what, &known);
        let help = "channels hold messages, vector stores points, webhooks posts";
        problems.add_absent(table.value_span("outside"), complaint.help(help));
        return None;
    }
    Some(what.to_owned())
}

fn read_bound(table: &Table, problems: &mut Problems) -> Option<Bound> {
    const PARTS: [&str; 3] = ["at_least", "at_most", "equals"];
    if PARTS.iter().all(|key| !table.has(key)) {
        let message = "an amount needs `at_least`, `at_most` or `equals`";
        problems.add_absent(table.span.clone(), Complaint::new(message));
        return None;
    }
    if PARTS.iter().any(|key| table.is_bad(key)) {
        return None;
    }
    check_bound(table, problems)?;
    Some(Bound {
        at_least: table.number("at_least"),
        at_most: table.number("at_most"),
        equals: table.item("equals").and_then(json),
    })
}

fn read_count(table: &Table, problems: &mut Problems) -> Option<Bound> {
    if table.is_bad("count") {
        return None;
    }
    let Some((count, span)) = table.table("count") else {
        return Some(Bound { at_least: Some(1.0), ..Bound::default() });
    };
    let before = problems.len();
    let count = Table::open("`count`", count, span, COUNT_KEYS, None, problems);
    if problems.len() > before {
        return None;
    }
    read_bound(&count, problems)
}

/// `equals` beside another limit, or limits that nothing can meet, are mistakes.
fn check_bound(table: &Table, problems: &mut Problems) -> Option<()> {
    if table.has("equals") && (table.has("at_least") || table.has("at_most")) {
        let message = "`equals` says it all: `at_least` and `at_most` don't stand beside it";
        problems.add(table.key_span("equals"), Complaint::new(message));
        return None;
    }
    if let (Some(low), Some(high)) = (table.number("at_least"), table.number("at_most"))
        && low > high
    {
        let message = format!("nothing is at least {low} and at most {high}");
        problems.add(table.value_span("at_most"), Complaint::new(message));
        return None;
    }
    Some(())
}

fn read_filter(table: &Table, problems: &mut Problems) -> Option<EventFilter> {
    let event = table.text_at("event")?;
    let fields = match fields_of(event.value) {
        Ok(fields) => fields,
        Err(complaint) => {
            problems.add(event.span, complaint);
            return None;
        }
    };
    let mut wanted: Vec<(Range<usize>, String, serde_json::Value)> = Vec::new();
    let mut good = !table.is_bad("where");
    for (key, value) in table.table("where").map(|(table, _)| table.iter()).into_iter().flatten() {
        let name = key.get_ref().as_ref();
        if !fields.contains(&name) {
            problems.add(key.span(), Complaint::unknown(&format!("field of {}", event.value), name, fields));
            good = false;
        } else if !Shape::Scalar.check(name, value, problems) {
            good = false;
        } else if let Some(value) = json(value) {
            wanted.push((key.span(), name.to_owned(), value));
        }
    }
    wanted.sort_by_key(|(span, ..)| span.start);
    let fields = wanted.into_iter().map(|(_, name, value)| (name, value)).collect();
    good.then(|| EventFilter { event: event.value.to_owned(), fields })
}

fn read_order(table: &Table, problems: &mut Problems) -> Option<Vec<EventFilter>> {
    let items = table.items("order");
    let mut filters = Vec::new();
    for item in &items {
        if let Some(event) = text_of(item) {
            match fields_of(event) {
                Ok(_) => filters.push(EventFilter { event: event.to_owned(), fields: Vec::new() }),
                Err(complaint) => problems.add(item.span(), complaint),
            }
        } else if let Some(inner) = item.get_ref().as_table() {
            let inner = Table::open("an entry of `order`", inner, item.span(), ORDERED_KEYS, None, problems);
            filters.extend(read_filter(&inner, problems));
        }
    }
    (!items.is_empty() && filters.len() == items.len()).then_some(filters)
}

/// A scalar as JSON: whole numbers stay whole.
pub(super) fn json(item: &Spanned<DeValue>) -> Option<serde_json::Value> {
    let value = item.get_ref();
    match value {
        DeValue::String(text) => Some(text.as_ref().into()),
        DeValue::Boolean(flag) => Some((*flag).into()),
        DeValue::Integer(_) => {
            squall::config::shape::integer(value).and_then(serde_json::Number::from_i128).map(Into::into)
        }
        DeValue::Float(_) => {
            squall::config::shape::number(value).and_then(serde_json::Number::from_f64).map(Into::into)
        }
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
