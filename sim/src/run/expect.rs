//! A file's own expectations: each judged on the history, each saying what was seen instead.
//!
//! Forms on axes and metrics are judged at the end, from [`Levels`] and [`Metrics`]; forms on events keep what they
//! need as the history goes by. A form that could hold by a slip of the pen (an event, metric or name that does not
//! exist) is refused before the run by [`problems`].
//! **Source:** scenario.md "Expectations".

use super::bound::{describe, meets};
use super::levels::Levels;
use super::metrics::{Known, Metrics, known};
use super::sometimes::{self, Sometimes};
use super::verdict::{Judged, Value as Number, seconds};
use super::vocabulary;
use crate::history::{Entry, Outside, What};
use crate::scenario::{Bound, Drill, EventFilter, Expect, Expectation, Window};
use serde_json::Value;
use squall::base::{Axis, Level, Span};

/// Fields that an event leaves out when they are empty: their absence is no misspelling.
const LEFT_OUT_WHEN_EMPTY: [&str; 6] = ["earliest_ms", "hint_ms", "late", "ttl_ms", "not_before_ms", "entry"];
/// The first words of a path into the status file that a history shows.
const STATUS_FIELDS: [&str; 7] =
    ["parses", "state", "degradation_level", "holds", "history_len", "deferred", "undelivered_notices"];

/// What keeps these expectations from being judged at all: (line, what). Empty: nothing does.
pub fn problems(drill: &Drill) -> Vec<(u32, String)> {
    let events = vocabulary::events();
    let near = |name: &str, names: &mut dyn Iterator<Item = &str>| {
        vocabulary::nearest(name, names).map_or(String::new(), |near| format!("; did you mean {near:?}?"))
    };
    let mut problems = Vec::new();
    for expect in &drill.expects {
        let mut found = Vec::new();
        let mut event = |name: &String| {
            if !events.contains(name) {
                let hint = near(name, &mut events.iter().map(String::as_str));
                found.push(format!("no event is called {name:?}{hint}"));
            }
        };
        match &expect.what {
            Expectation::Event { filter, .. } => event(&filter.event),
            Expectation::Order(filters) => filters.iter().for_each(|filter| event(&filter.event)),
            Expectation::Metric { metric, during, .. } => match (known(metric), during) {
                (Known::No, _) => found.push(format!("no metric is called {metric:?}")),
                (Known::WholeRun, Some(_)) => {
                    found.push(format!("the metric {metric:?} describes a whole run: it has no `during`"));
                }
                (Known::Windowed, _) | (Known::WholeRun, None) => {}
            },
            Expectation::Sometimes(name) if !sometimes::known(name) => {
                let hint = near(name, &mut sometimes::NAMES.into_iter());
                found.push(format!("nothing interesting is called {name:?}{hint}"));
            }
            Expectation::Status { path, .. } => {
                let head = path.split('.').next().unwrap_or_default();
                if !STATUS_FIELDS.contains(&alias(head)) {
                    found.push(format!(
                        "a history does not show the status file's {head:?}: use one of {STATUS_FIELDS:?}"
                    ));
                }
            }
            Expectation::Outside { what, .. } if Held::parse(what, drill).is_none() => {
                found.push(format!(
                    "nothing outside is called {what:?}: use \"<channel>.messages\", \"<webhook>.posts\" or \"<provider>.requests\""
                ));
            }
            Expectation::Sometimes(_)
            | Expectation::Outside { .. }
            | Expectation::Is { .. }
            | Expectation::Reaches { .. }
            | Expectation::Stays { .. }
            | Expectation::Never { .. }
            | Expectation::Levels { .. } => {}
        }
        let end = drill.duration + drill.settle;
        if let Some(latest) = latest(&expect.what)
            && latest > end
        {
            found.push(format!("it looks at {latest}, but the run is over at {end}"));
        }
        problems.extend(found.into_iter().map(|what| (expect.line, what)));
    }
    problems
}

/// The last moment that an expectation names.
fn latest(what: &Expectation) -> Option<Span> {
    match what {
        Expectation::Is { at, .. } | Expectation::Status { at, .. } | Expectation::Outside { at, .. } => Some(*at),
        Expectation::Reaches { within: (_, to), .. }
        | Expectation::Stays { during: (_, to), .. }
        | Expectation::Never { during: (_, to), .. } => Some(*to),
        Expectation::Levels { during, .. } | Expectation::Metric { during, .. } | Expectation::Event { during, .. } => {
            during.map(|(_, to)| to)
        }
        Expectation::Order(_) | Expectation::Sometimes(_) => None,
    }
}

/// The status file's own names for what a history shows under shorter ones.
fn alias(head: &str) -> &str {
    match head {
        "deferred_work_count" => "deferred",
        "history" => "history_len",
        other => other,
    }
}

/// What a simulated server holds.
#[derive(Debug)]
enum Held {
    Messages(String),
    Requests(String),
    /// What a webhook's receiver took, each once.
    Posts(String),
}

impl Held {
    fn parse(what: &str, drill: &Drill) -> Option<Held> {
        match what.rsplit_once('.')? {
            (name, "messages") if drill.channels.iter().any(|channel| channel.name == name) => {
                Some(Held::Messages(name.to_owned()))
            }
            (name, "posts") if drill.providers.iter().any(|provider| provider.name == name) => {
                Some(Held::Posts(name.to_owned()))
            }
            (name, "requests") if drill.providers.iter().any(|provider| provider.name == name) => {
                Some(Held::Requests(name.to_owned()))
            }
            _ => None,
        }
    }

    fn grows(&self, event: &Outside) -> bool {
        match self {
            Held::Messages(name) => {
                matches!(event, Outside::ChannelRequest { channel, status, .. }
                    if channel == name && (200..300).contains(status))
            }
            Held::Posts(name) => {
                matches!(event, Outside::WebhookRequest { server, status, repeated: false, .. }
                    if server == name && (200..300).contains(status))
            }
            Held::Requests(name) => {
                matches!(event, Outside::ProviderRequest { entry, .. } if entry.provider() == name)
            }
        }
    }
}

/// What an expectation keeps while the history goes by.
#[derive(Debug)]
enum Watch {
    /// Judged at the end from what others keep.
    Later,
    Metric(Box<Metrics>),
    Status(Option<Value>),
    Outside {
        held: Held,
        count: u64,
    },
    Event {
        count: u64,
        named: u64,
        with_fields: Vec<bool>,
    },
    /// Per filter: how many of its occurrences went by, and the line and time of the one that counts.
    Order(Vec<(u64, Option<(u64, u64)>)>),
}

#[derive(Debug)]
pub struct Expecting {
    expect: Expect,
    watch: Watch,
}

fn ms((from, to): Window) -> (u64, u64) {
    (from.ms(), to.ms())
}

fn at(t_ms: u64) -> String {
    format!("at {} s", seconds(t_ms))
}

impl Expecting {
    /// `problems` of this drill is empty.
    pub fn new(expect: &Expect, drill: &Drill) -> Expecting {
        let watch = match &expect.what {
            Expectation::Metric { during: Some(window), .. } => {
                Watch::Metric(Box::new(Metrics::new(Some(ms(*window)))))
            }
            Expectation::Status { .. } => Watch::Status(None),
            Expectation::Outside { what, .. } => {
                Watch::Outside { held: Held::parse(what, drill).expect("checked before the run"), count: 0 }
            }
            Expectation::Event { filter, .. } => {
                Watch::Event { count: 0, named: 0, with_fields: vec![false; filter.fields.len()] }
            }
            Expectation::Order(filters) => Watch::Order(vec![(0, None); filters.len()]),
            Expectation::Metric { during: None, .. }
            | Expectation::Is { .. }
            | Expectation::Reaches { .. }
            | Expectation::Stays { .. }
            | Expectation::Never { .. }
            | Expectation::Levels { .. }
            | Expectation::Sometimes(_) => Watch::Later,
        };
        Expecting { expect: expect.clone(), watch }
    }

    /// `levels` has seen this entry already.
    pub fn entry(&mut self, entry: &Entry, line: &str, levels: &Levels) {
        match (&mut self.watch, &self.expect.what) {
            (Watch::Metric(metrics), _) => metrics.entry(entry, levels),
            (Watch::Status(seen), Expectation::Status { at, .. }) => {
                if let What::Outside(Outside::StatusFile { seen: now }) = &entry.what
                    && entry.t_ms <= at.ms()
                {
                    *seen = Some(serde_json::to_value(now).expect("what was seen is plain data"));
                }
            }
            (Watch::Outside { held, count }, Expectation::Outside { at, .. }) => {
                if let What::Outside(event) = &entry.what
                    && entry.t_ms <= at.ms()
                {
                    *count += u64::from(held.grows(event));
                }
            }
            (Watch::Event { count, named, with_fields }, Expectation::Event { filter, during, .. }) => {
                if entry.what.name() == filter.event {
                    *named += 1;
                    let fields = fields(filter, line);
                    for (seen, field) in with_fields.iter_mut().zip(&fields) {
                        *seen |= field.is_some();
                    }
                    let inside = during.is_none_or(|(from, to)| from.ms() <= entry.t_ms && entry.t_ms < to.ms());
                    *count += u64::from(inside && agrees(filter, &fields));
                }
            }
            (Watch::Order(firsts), Expectation::Order(filters)) => order(firsts, filters, entry, line),
            (Watch::Later | Watch::Status(_) | Watch::Outside { .. } | Watch::Event { .. } | Watch::Order(_), _) => {}
        }
    }

    /// The run is over: whether it held, and what was seen.
    pub fn judge(&self, levels: &Levels, metrics: &Metrics, sometimes: &Sometimes) -> Judged {
        let (held, seen) = match (&self.expect.what, &self.watch) {
            (Expectation::Is { axis, at, level }, _) => is(levels, *axis, *at, *level),
            (Expectation::Reaches { axis, within, level }, _) => reaches(levels, *axis, ms(*within), *level),
            (Expectation::Stays { axis, during, level }, _) => stays(levels, *axis, ms(*during), *level),
            (Expectation::Never { axis, during, level }, _) => never(levels, *axis, ms(*during), *level),
            (Expectation::Levels { axis, during, levels: wanted }, _) => {
                sequence(levels, *axis, during.map_or((0, u64::MAX), ms), wanted)
            }
            (Expectation::Metric { metric, bound, .. }, Watch::Metric(own)) => number(own, levels, metric, bound),
            (Expectation::Metric { metric, bound, .. }, _) => number(metrics, levels, metric, bound),
            (Expectation::Status { path, bound, .. }, Watch::Status(seen)) => status(seen.as_ref(), path, bound),
            (Expectation::Outside { bound, .. }, Watch::Outside { count, .. }) => {
                (meets(bound, &Value::from(*count)), count.to_string())
            }
            (Expectation::Event { filter, count: bound, .. }, Watch::Event { count, named, with_fields }) => {
                let lost =
                    filter.fields.iter().zip(with_fields).find(|((field, _), seen)| {
                        *named > 0 && !**seen && !LEFT_OUT_WHEN_EMPTY.contains(&field.as_str())
                    });
                match lost {
                    Some(((field, _), _)) => (false, format!("no {} has a field {field:?}", filter.event)),
                    None => (meets(bound, &Value::from(*count)), format!("{count} of {named}")),
                }
            }
            (Expectation::Order(filters), Watch::Order(firsts)) => in_order(filters, firsts),
            (Expectation::Sometimes(name), _) => {
                let count = sometimes.counts().get(name).copied().unwrap_or_default();
                (count > 0, format!("{count} times"))
            }
            (
                Expectation::Status { .. }
                | Expectation::Outside { .. }
                | Expectation::Event { .. }
                | Expectation::Order(_),
                _,
            ) => unreachable!("each of these forms is made with a watch of its own"),
        };
        Judged { line: self.expect.line, text: self.expect.text.clone(), held, seen }
    }
}

/// The values that an event's line has for a filter's fields, in their order. A dot goes into a field.
fn fields(filter: &EventFilter, line: &str) -> Vec<Option<Value>> {
    if filter.fields.is_empty() {
        return Vec::new();
    }
    let event: Value = serde_json::from_str(line).expect("a line of the history is JSON");
    filter.fields.iter().map(|(field, _)| dig(&event, field).cloned()).collect()
}

fn dig<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

fn agrees(filter: &EventFilter, fields: &[Option<Value>]) -> bool {
    filter.fields.iter().zip(fields).all(|((_, wanted), seen)| seen.as_ref().is_some_and(|seen| same(wanted, seen)))
}

/// As JSON, but 2 and 2.0 are the same number.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        (Some(_), None) | (None, Some(_)) => false,
        (None, None) => a == b,
    }
}

fn order(firsts: &mut [(u64, Option<(u64, u64)>)], filters: &[EventFilter], entry: &Entry, line: &str) {
    for i in 0..filters.len() {
        let (count, first) = &mut firsts[i];
        if first.is_some() || entry.what.name() != filters[i].event || !agrees(&filters[i], &fields(&filters[i], line))
        {
            continue;
        }
        // The same filter named for the k-th time means the k-th occurrence.
        let before = filters[..i].iter().filter(|other| **other == filters[i]).count() as u64;
        if *count == before {
            *first = Some((entry.n, entry.t_ms));
        }
        *count += 1;
    }
}

fn in_order(filters: &[EventFilter], firsts: &[(u64, Option<(u64, u64)>)]) -> (bool, String) {
    let mut last: Option<u64> = None;
    let mut held = true;
    let mut seen = Vec::new();
    for (filter, (_, first)) in filters.iter().zip(firsts) {
        match first {
            Some((n, t_ms)) => {
                held &= last.is_none_or(|last| last < *n);
                last = Some(*n);
                seen.push(format!("{} {}", filter.event, at(*t_ms)));
            }
            None => {
                held = false;
                seen.push(format!("{} not seen", filter.event));
            }
        }
    }
    (held, seen.join(", "))
}

const SILENT: &str = "the engine never said";

fn is(levels: &Levels, axis: Axis, at: Span, level: Level) -> (bool, String) {
    levels.at(axis, at.ms()).map_or((false, SILENT.into()), |seen| (seen == level, seen.to_string()))
}

fn reaches(levels: &Levels, axis: Axis, window: (u64, u64), level: Level) -> (bool, String) {
    let stretches = levels.within(axis, window);
    match stretches.iter().find(|stretch| stretch.level == level) {
        Some(stretch) => (true, at(stretch.from.max(window.0))),
        None => (false, only(&stretches)),
    }
}

fn only(stretches: &[super::levels::Stretch]) -> String {
    if stretches.is_empty() {
        return SILENT.into();
    }
    let levels: Vec<String> = stretches.iter().map(|stretch| stretch.level.to_string()).collect();
    format!("only {}", levels.join(", "))
}

fn stays(levels: &Levels, axis: Axis, window: (u64, u64), level: Level) -> (bool, String) {
    let stretches = levels.within(axis, window);
    match stretches.iter().find(|stretch| stretch.level != level) {
        Some(other) => (false, format!("{} {}", other.level, at(other.from.max(window.0)))),
        None if stretches.is_empty() => (false, SILENT.into()),
        None => (true, "throughout".into()),
    }
}

fn never(levels: &Levels, axis: Axis, window: (u64, u64), level: Level) -> (bool, String) {
    let stretches = levels.within(axis, window);
    match stretches.iter().find(|stretch| stretch.level == level) {
        Some(stretch) => (false, at(stretch.from.max(window.0))),
        None if stretches.is_empty() => (false, SILENT.into()),
        None => (true, "never".into()),
    }
}

fn sequence(levels: &Levels, axis: Axis, window: (u64, u64), wanted: &[Level]) -> (bool, String) {
    let seen: Vec<Level> = levels.within(axis, window).iter().map(|stretch| stretch.level).collect();
    let names: Vec<&str> = seen.iter().map(|level| level.name()).collect();
    (seen == wanted, names.join(", "))
}

fn number(metrics: &Metrics, levels: &Levels, metric: &str, bound: &Bound) -> (bool, String) {
    match metrics.values(levels).get(metric) {
        Some(value) => {
            let json = match value {
                Number::Count(count) => Value::from(*count),
                Number::Real(real) => Value::from(*real),
            };
            (meets(bound, &json), value.to_string())
        }
        // Nobody asked this entry anything: that is a number.
        None if metric.starts_with("requests.") => (meets(bound, &Value::from(0)), "0".into()),
        None => (false, "nothing to measure".into()),
    }
}

fn status(seen: Option<&Value>, path: &str, bound: &Bound) -> (bool, String) {
    let Some(seen) = seen else { return (false, "no status file was written".into()) };
    let (head, rest) = path.split_once('.').unwrap_or((path, ""));
    let value = seen.get(alias(head)).unwrap_or(&Value::Null);
    let value = if rest.is_empty() { value } else { dig(value, rest).unwrap_or(&Value::Null) };
    // A count by status names only what is there.
    let value = if value.is_null() && alias(head) == "deferred" { &Value::from(0) } else { value };
    (meets(bound, value), describe(value))
}

#[cfg(test)]
#[path = "expect_tests.rs"]
mod tests;
