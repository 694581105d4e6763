//! Every number of the engine as a setting: path, limits, default, unit, sentence, and where it lives in the rules.
//!
//! Reading a file, `--set`, the schema, did-you-mean and showing the configuration all use [`SETTINGS`].
//! **Source:** engine.md 12. The file is one long list on purpose: a reader looks settings up here.

use super::diagnostic::Complaint;
use super::parse::Problems;
use super::shape::{self, Shape, integer, parse_bytes, show_bytes};
use super::{quoted_items, toml_string};
use crate::base::rules::{FlapCount, Rules};
use crate::base::{Axis, Span};
use toml::Spanned;
use toml::de::DeValue;

/// One key of the engine's configuration.
#[derive(Debug)]
pub struct Setting {
    /// As in `--set engine.PATH=…`: section and key.
    pub path: &'static str,
    pub shape: Shape,
    /// As it would stand in a file, without quotes.
    pub default: &'static str,
    /// Of the value, for people; empty: none.
    pub unit: &'static str,
    pub doc: &'static str,
    field: Field,
}

/// Where a setting lives in the rules.
#[derive(Clone, Copy, Debug)]
enum Field {
    Span(fn(&mut Rules) -> &mut Span),
    Spans(fn(&mut Rules) -> &mut Vec<Span>),
    Count(fn(&mut Rules) -> &mut u32),
    Bytes(fn(&mut Rules) -> &mut u64),
    Number(fn(&mut Rules) -> &mut f64),
    Flag(fn(&mut Rules) -> &mut bool),
    Text(fn(&mut Rules) -> &mut String),
    Axes(fn(&mut Rules) -> &mut Vec<Axis>),
    FlapCount(fn(&mut Rules) -> &mut FlapCount),
}

const AXES: [&str; 4] = [Axis::Cloud.name(), Axis::Memory.name(), Axis::Embedding.name(), Axis::Cc.name()];
const FLAP_COUNTS: [(&str, FlapCount); 2] = [("changes", FlapCount::Changes), ("runs", FlapCount::Runs)];
const FLAP_COUNT_NAMES: [&str; 2] = [FLAP_COUNTS[0].0, FLAP_COUNTS[1].0];

/// All settings, by section, in the order of the documentation.
pub const SETTINGS: &[Setting] = &[
    span("flap.window", "15m", "Changes of level are counted over this long.", |r| &mut r.flap.window),
    count("flap.transitions_max", 1, "3", "changes", "More changes than this inside the window start a hold.", |r| {
        &mut r.flap.transitions_max
    }),
    span("flap.hold", "10m", "A hold keeps the worse level for this long after its last start.", |r| &mut r.flap.hold),
    Setting {
        path: "flap.count",
        shape: Shape::OneOf(&FLAP_COUNT_NAMES),
        default: "changes",
        unit: "",
        doc: "What counts as a change: every change of level, or a run of changes in one direction once.",
        field: Field::FlapCount(|r| &mut r.flap.count),
    },
    Setting {
        path: "flap.exempt",
        shape: Shape::List { of: &Shape::OneOf(&AXES), min: 0, max: AXES.len() },
        default: "[]",
        unit: "",
        doc: "Axes without flap protection.",
        field: Field::Axes(|r| &mut r.flap.exempt),
    },
    count("breaker.failures_max", 1, "3", "failures", "This many failures in a row open a breaker.", |r| {
        &mut r.breaker.failures_max
    }),
    // A rate of zero would open on success.
    number("breaker.rate", 0.001, 1.0, "0.4", "share", "Or this share of failures in its window opens it.", |r| {
        &mut r.breaker.rate
    }),
    count("breaker.rate_min", 1, "20", "attempts", "The share is looked at from this many attempts on.", |r| {
        &mut r.breaker.rate_min
    }),
    span("breaker.rate_window", "5m", "Attempts count for the share for this long.", |r| &mut r.breaker.rate_window),
    span("breaker.open", "2m", "An opened breaker stays open this long, doubled at each trip in a row.", |r| {
        &mut r.breaker.open
    }),
    span("breaker.open_local", "1m", "As `open`, for local providers.", |r| &mut r.breaker.open_local),
    span("breaker.open_max", "30m", "It never stays open longer than this.", |r| &mut r.breaker.open_max),
    span("breaker.trial_deadline", "30s", "A trial must bring its first token within this.", |r| {
        &mut r.breaker.trial_deadline
    }),
    span("breaker.half_open_max", "3m", "Half-open without a verdict for this long means open again.", |r| {
        &mut r.breaker.half_open_max
    }),
    count("breaker.successes_to_close", 1, "3", "successes", "This many successes in a row close it.", |r| {
        &mut r.breaker.successes_to_close
    }),
    span0("breaker.success_spacing", "5s", "Those successes are at least this far apart.", |r| {
        &mut r.breaker.success_spacing
    }),
    span("breaker.probe_every", "10s", "Time between rounds of probes.", |r| &mut r.breaker.probe_every),
    count("call.attempts_foreground", 1, "2", "attempts", "Attempts per entry of a foreground call.", |r| {
        &mut r.call.attempts_foreground
    }),
    count("call.attempts_background", 1, "4", "attempts", "Attempts per entry of a background call.", |r| {
        &mut r.call.attempts_background
    }),
    count("call.attempts_max", 1, "6", "attempts", "Attempts of one call over all entries.", |r| {
        &mut r.call.attempts_max
    }),
    span("call.deadline", "2m", "An answer must start within this.", |r| &mut r.call.deadline),
    span("call.connect", "5s", "Time to connect.", |r| &mut r.call.connect),
    span("call.first_byte", "2m", "Time to the first byte of an answer that is not streamed.", |r| {
        &mut r.call.first_byte
    }),
    span("call.first_byte_stream", "30s", "Time to the first byte of a streamed answer.", |r| {
        &mut r.call.first_byte_stream
    }),
    span("call.chunk", "30s", "Time between two chunks of a stream.", |r| &mut r.call.chunk),
    span("call.total", "10m", "Time for a whole answer.", |r| &mut r.call.total),
    span("retry.base", "500ms", "The first wait before a retry.", |r| &mut r.retry.base),
    number("retry.factor", 1.0, 100.0, "2", "", "Each further wait is this many times longer.", |r| {
        &mut r.retry.factor
    }),
    span("retry.max", "30s", "No wait before a retry is longer, hints apart.", |r| &mut r.retry.max),
    number("retry.jitter", 0.0, 1.0, "0.25", "share", "A wait is stretched by up to this share of itself.", |r| {
        &mut r.retry.jitter
    }),
    number(
        "retry.budget",
        0.0,
        1.0,
        "0.2",
        "share",
        "Retries per provider and minute, as a share of its calls.",
        |r| &mut r.retry.budget,
    ),
    count("retry.budget_min_per_minute", 0, "3", "retries", "So many retries a minute are always allowed.", |r| {
        &mut r.retry.budget_min_per_minute
    }),
    span("park.base", "5s", "The first park after a throttled answer without a stated wait.", |r| &mut r.park.base),
    span("park.max", "5m", "No park of our own making is longer.", |r| &mut r.park.max),
    span("park.hint_max", "1d", "A stated wait for a rate limit is believed up to this.", |r| &mut r.park.hint_max),
    span("park.quota", "4h", "The park after a quota refusal without a stated reset.", |r| &mut r.park.quota),
    span("park.quota_max", "35d", "A stated quota reset is believed up to this.", |r| &mut r.park.quota_max),
    count(
        "park.confirmations",
        1,
        "3",
        "answers",
        "Answers in a row after a park before the entry serves again.",
        |r| &mut r.park.confirmations,
    ),
    count("cloud.dead_letters_max", 0, "25", "dead letters", "More pending ones make the cloud axis ESSENTIAL.", |r| {
        &mut r.cloud.dead_letters_max
    }),
    count("queue.parallel", 1, "4", "items", "Deferred items in flight at the same time.", |r| &mut r.queue.parallel),
    count("queue.pending_max", 1, "1000", "items", "More pending items make the queue huge.", |r| {
        &mut r.queue.pending_max
    }),
    span("queue.discard_after", "1h", "Items of policy `discard` are dropped at this age.", |r| {
        &mut r.queue.discard_after
    }),
    span("queue.sweep_every", "1m", "Time between sweeps for stale items.", |r| &mut r.queue.sweep_every),
    span("queue.lease", "2m", "A lease lasts this long without a heartbeat.", |r| &mut r.queue.lease),
    count("queue.attempts_max", 1, "5", "attempts", "After this many failures an item becomes a dead letter.", |r| {
        &mut r.queue.attempts_max
    }),
    count("backlog.per_minute", 1, "10", "memories", "Pace of the embedding backlog.", |r| &mut r.backlog.per_minute),
    count("backlog.attempts_max", 1, "5", "attempts", "After this many failures a memory's embedding is dead.", |r| {
        &mut r.backlog.attempts_max
    }),
    span("backlog.retry_every", "10m", "Failed memories are tried again after this.", |r| &mut r.backlog.retry_every),
    count("sessions.starts_per_hour", 0, "20", "starts", "Session starts in the rolling hour; 0: any number.", |r| {
        &mut r.sessions.starts_per_hour
    }),
    count("sessions.active_max", 1, "4", "sessions", "Sessions at the same time.", |r| &mut r.sessions.active_max),
    count("sessions.foreground_reserve", 0, "1", "sessions", "Slots kept for foreground.", |r| {
        &mut r.sessions.foreground_reserve
    }),
    number("sessions.throttle_at", 0.0, 1.0, "0.8", "share", "THROTTLED from this share of the hour's budget.", |r| {
        &mut r.sessions.throttle_at
    }),
    number("sessions.throttle_end", 0.0, 1.0, "0.6", "share", "THROTTLED until starts fall below this share.", |r| {
        &mut r.sessions.throttle_end
    }),
    span("sessions.backoff", "30s", "The first wait after a limit without a stated reset.", |r| {
        &mut r.sessions.backoff
    }),
    span("sessions.backoff_max", "30m", "No such wait is longer.", |r| &mut r.sessions.backoff_max),
    number("sessions.jitter", 0.0, 1.0, "0.25", "share", "It is stretched by up to this share of itself.", |r| {
        &mut r.sessions.jitter
    }),
    span("sessions.limit_max", "35d", "A stated reset of a limit is believed up to this.", |r| {
        &mut r.sessions.limit_max
    }),
    count(
        "sessions.confirmations",
        1,
        "3",
        "sessions",
        "Answered sessions, one at a time, before sessions count as working again.",
        |r| &mut r.sessions.confirmations,
    ),
    span("sessions.answered_after", "1m", "A session that runs this long without a limit is answered.", |r| {
        &mut r.sessions.answered_after
    }),
    count("sessions.failed_starts_max", 1, "3", "starts", "This many failed starts in a row are UNAVAILABLE.", |r| {
        &mut r.sessions.failed_starts_max
    }),
    span("sessions.trial_every", "1m", "Time between trials while sessions are UNAVAILABLE.", |r| {
        &mut r.sessions.trial_every
    }),
    Setting {
        path: "sessions.lease",
        shape: Shape::Span { min: Span::from_secs(3), max: shape::SPAN_MAX },
        default: "1m",
        unit: "time",
        doc: "A slot is reclaimed when nothing was heard of its session for this long.",
        field: Field::Span(|r| &mut r.sessions.lease),
    },
    span0("sessions.waiter_grace", "5s", "Between two polls a waiter keeps its place for this long.", |r| {
        &mut r.sessions.waiter_grace
    }),
    Setting {
        path: "recovery.item_every",
        shape: Shape::List { of: &Shape::SPAN_POSITIVE, min: 1, max: 16 },
        default: "[8s, 4s, 2s]",
        unit: "time",
        doc: "Paces of deferred work in a recovery run, one after another.",
        field: Field::Spans(|r| &mut r.recovery.item_every),
    },
    span("recovery.ramp_step", "20s", "Each pace but the last holds for this long.", |r| &mut r.recovery.ramp_step),
    span("recovery.write_probe_every", "10s", "Time between write probes while storage is down.", |r| {
        &mut r.recovery.write_probe_every
    }),
    span("tick.every", "5m", "Time between awareness ticks.", |r| &mut r.tick.every),
    span("status.every", "1m", "The status file is written at least this often.", |r| &mut r.status.every),
    Setting {
        path: "notify.webhook_url",
        shape: Shape::Written { what: "a URL, or nothing", pattern: "^(https?://.+)?$", check: webhook_url },
        default: "",
        unit: "",
        doc: "Transitions are posted here; empty: nowhere.",
        field: Field::Text(|r| &mut r.notify.webhook_url),
    },
    count("notify.tries", 1, "4", "tries", "A transition is posted at most this often.", |r| &mut r.notify.tries),
    span("notify.backoff", "1s", "The first wait between tries; it doubles.", |r| &mut r.notify.backoff),
    span0("notify.coalesce", "5s", "Changes this close together make one notice.", |r| &mut r.notify.coalesce),
    bytes("disk.ballast", 64 << 10, "16MiB", "Size of the file that is given up when the disk is full.", |r| {
        &mut r.disk.ballast
    }),
    bytes("disk.ahead", 64 << 10, "8MiB", "Database pages prepared ahead of use.", |r| &mut r.disk.ahead),
    span("disk.probe_every", "10s", "Time between write probes.", |r| &mut r.disk.probe_every),
    span("recall.timeout", "3s", "Time for the embedding of a recall's query.", |r| &mut r.recall.timeout),
    Setting {
        path: "advisory.enabled",
        shape: Shape::Flag,
        default: "true",
        unit: "",
        doc: "Whether recall answers carry an advisory while the dense path is degraded.",
        field: Field::Flag(|r| &mut r.advisory.enabled),
    },
    count("advisory.failures_to_fault", 1, "2", "recalls", "Failed recalls in a row that make a fault.", |r| {
        &mut r.advisory.failures_to_fault
    }),
    count("advisory.keys_max", 1, "256", "keys", "Declared client keys that are remembered.", |r| {
        &mut r.advisory.keys_max
    }),
    count("advisory.evidence_chars_max", 40, "300", "characters", "Evidence is cut at this length.", |r| {
        &mut r.advisory.evidence_chars_max
    }),
];

/// Pairs of settings of which the first must not be larger than the second.
const ORDERED: &[(&str, &str)] = &[
    ("breaker.open", "breaker.open_max"),
    ("breaker.open_local", "breaker.open_max"),
    ("call.attempts_foreground", "call.attempts_max"),
    ("call.attempts_background", "call.attempts_max"),
    ("retry.base", "retry.max"),
    ("park.base", "park.max"),
    ("park.quota", "park.quota_max"),
    ("sessions.foreground_reserve", "sessions.active_max"),
    ("sessions.throttle_end", "sessions.throttle_at"),
    ("sessions.backoff", "sessions.backoff_max"),
];

type To<T> = fn(&mut Rules) -> &mut T;

const fn span(path: &'static str, default: &'static str, doc: &'static str, field: To<Span>) -> Setting {
    Setting { path, shape: Shape::SPAN_POSITIVE, default, unit: "time", doc, field: Field::Span(field) }
}

/// As [`span`]; zero switches the rule off.
const fn span0(path: &'static str, default: &'static str, doc: &'static str, field: To<Span>) -> Setting {
    Setting { path, shape: Shape::SPAN, default, unit: "time", doc, field: Field::Span(field) }
}

const fn count(
    path: &'static str,
    min: u64,
    default: &'static str,
    unit: &'static str,
    doc: &'static str,
    field: To<u32>,
) -> Setting {
    Setting { path, shape: Shape::Count { min, max: 1_000_000 }, default, unit, doc, field: Field::Count(field) }
}

const fn number(
    path: &'static str,
    min: f64,
    max: f64,
    default: &'static str,
    unit: &'static str,
    doc: &'static str,
    field: To<f64>,
) -> Setting {
    Setting { path, shape: Shape::Number { min, max }, default, unit, doc, field: Field::Number(field) }
}

const fn bytes(path: &'static str, min: u64, default: &'static str, doc: &'static str, field: To<u64>) -> Setting {
    Setting { path, shape: Shape::Bytes { min, max: 1 << 40 }, default, unit: "bytes", doc, field: Field::Bytes(field) }
}

fn webhook_url(text: &str) -> Result<(), Complaint> {
    if text.is_empty() { Ok(()) } else { super::url::check_url(text) }
}

impl Setting {
    pub fn section(&self) -> &'static str {
        self.path.split_once('.').expect("every path has a section").0
    }

    pub fn key(&self) -> &'static str {
        self.path.split_once('.').expect("every path has a section").1
    }

    pub fn named(path: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.path == path)
    }

    /// The sections in order, each once.
    pub fn sections() -> Vec<&'static str> {
        let mut sections: Vec<&'static str> = SETTINGS.iter().map(Setting::section).collect();
        sections.dedup();
        sections
    }

    /// Puts `value` into `rules` if it fits; otherwise says why not and changes nothing.
    pub fn read(&self, value: &Spanned<DeValue>, rules: &mut Rules, problems: &mut Problems) {
        if !self.shape.check(self.key(), value, problems) {
            return;
        }
        let checked = "the setting's shape was checked";
        let text = |value: &Spanned<DeValue>| value.get_ref().as_str().expect(checked).to_owned();
        let items = |value: &Spanned<DeValue>| -> Vec<String> {
            value.get_ref().as_array().expect(checked).iter().map(text).collect()
        };
        match self.field {
            Field::Span(field) => *field(rules) = text(value).parse().expect(checked),
            Field::Spans(field) => {
                *field(rules) = items(value).iter().map(|text| text.parse().expect(checked)).collect();
            }
            Field::Count(field) => {
                let count = integer(value.get_ref()).and_then(|count| u32::try_from(count).ok());
                *field(rules) = count.expect(checked);
            }
            Field::Bytes(field) => *field(rules) = parse_bytes(&text(value)).expect(checked),
            Field::Number(field) => *field(rules) = shape::number(value.get_ref()).expect(checked),
            Field::Flag(field) => *field(rules) = value.get_ref().as_bool().expect(checked),
            Field::Text(field) => *field(rules) = text(value),
            Field::Axes(field) => {
                *field(rules) = items(value).iter().map(|name| Axis::from_name(name).expect(checked)).collect();
            }
            Field::FlapCount(field) => {
                let text = text(value);
                let count = FLAP_COUNTS.into_iter().find(|(name, _)| *name == text);
                *field(rules) = count.expect(checked).1;
            }
        }
    }

    /// The value in `rules`, as [`Setting::default`] is written.
    pub fn show(&self, rules: &Rules) -> String {
        let mut rules = rules.clone();
        let rules = &mut rules;
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        match self.field {
            Field::Span(field) => field(rules).to_string(),
            Field::Spans(field) => list(field(rules).iter().map(Span::to_string).collect()),
            Field::Count(field) => field(rules).to_string(),
            Field::Bytes(field) => show_bytes(*field(rules)),
            Field::Number(field) => field(rules).to_string(),
            Field::Flag(field) => field(rules).to_string(),
            Field::Text(field) => field(rules).clone(),
            Field::Axes(field) => list(field(rules).iter().map(Axis::to_string).collect()),
            Field::FlapCount(field) => {
                let count = *field(rules);
                FLAP_COUNTS.into_iter().find(|(_, own)| *own == count).expect("every count has a name").0.to_owned()
            }
        }
    }

    /// The value in `rules` as TOML.
    pub fn toml(&self, rules: &Rules) -> String {
        self.as_toml(&self.show(rules))
    }

    /// A value written as [`Setting::default`] is, as TOML.
    pub fn as_toml(&self, shown: &str) -> String {
        match self.field {
            Field::Span(_) | Field::Bytes(_) | Field::Text(_) | Field::FlapCount(_) => toml_string(shown),
            Field::Spans(_) | Field::Axes(_) => quoted_items(shown),
            Field::Count(_) | Field::Number(_) | Field::Flag(_) => shown.to_owned(),
        }
    }

    /// For comparing settings of the same kind with each other.
    fn size(&self, rules: &mut Rules) -> f64 {
        match self.field {
            Field::Span(field) => field(rules).secs_f64(),
            Field::Count(field) => f64::from(*field(rules)),
            Field::Number(field) => *field(rules),
            Field::Bytes(field) => *field(rules) as f64,
            Field::Spans(_) | Field::Flag(_) | Field::Text(_) | Field::Axes(_) | Field::FlapCount(_) => {
                unreachable!("only amounts are ordered")
            }
        }
    }
}

/// Settings of `rules` that contradict each other: the path of each and what is wrong.
pub fn contradictions(rules: &Rules) -> Vec<(&'static str, &'static str, Complaint)> {
    let mut scratch = rules.clone();
    let mut found = Vec::new();
    for (small, large) in ORDERED {
        let [a, b] = [small, large].map(|path| Setting::named(path).expect("ORDERED names settings"));
        if a.size(&mut scratch) > b.size(&mut scratch) {
            let message = format!("`{small}` ({}) is larger than `{large}` ({})", a.show(rules), b.show(rules));
            found.push((*small, *large, Complaint::new(message)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_text_is_the_default_of_the_rules() {
        let rules = Rules::default();
        for setting in SETTINGS {
            assert_eq!(setting.show(&rules), setting.default, "{}", setting.path);
        }
        assert!(contradictions(&rules).is_empty());
    }

    #[test]
    fn every_number_of_the_rules_has_a_setting() {
        let json = serde_json::to_value(Rules::default()).unwrap();
        let mut paths: Vec<String> = Vec::new();
        for (section, keys) in json.as_object().unwrap() {
            for key in keys.as_object().into_iter().flatten() {
                paths.push(format!("{section}.{}", key.0));
            }
        }
        let named: Vec<&str> = SETTINGS.iter().map(|setting| setting.path).collect();
        paths.sort();
        let mut sorted = named.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, paths);
        assert!(SETTINGS.iter().all(|setting| setting.doc.ends_with('.')));
    }

    #[test]
    fn the_limits_of_every_setting_hold_its_default_and_stay_below_the_longest_span() {
        for setting in SETTINGS {
            if let Shape::Span { min, max } = setting.shape {
                let default: Span = setting.default.parse().unwrap();
                assert!((min..=max).contains(&default) && max <= shape::SPAN_MAX, "{}", setting.path);
            }
        }
    }
}
