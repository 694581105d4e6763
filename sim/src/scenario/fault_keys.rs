//! Every kind of fault and every key of `[[fault]]`.
//!
//! **Source:** scenario.md (table of fault kinds).

use super::dist::{DIST, DIST_POSITIVE, read_dist};
use super::surroundings::ALLOWANCE_KEYS;
use super::types::RetryAfter;
use super::vocabulary::REFUSALS;
use squall::base::Span;
use squall::config::{Complaint, Key, Keys, Shape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Answers,
    Limits,
    Network,
    Shape,
    Disk,
    Process,
    Clock,
}

/// Kind, group, and whether the harness can do it already.
pub const KINDS: [(&str, Group, bool); 31] = [
    ("errors", Group::Answers, true),
    ("hang", Group::Answers, true),
    ("slow", Group::Answers, true),
    ("cut", Group::Answers, true),
    ("stream_error", Group::Answers, true),
    ("garbage", Group::Answers, true),
    ("poison", Group::Answers, true),
    ("storm", Group::Limits, true),
    ("limit", Group::Limits, true),
    ("session_limit", Group::Limits, true),
    ("refuse", Group::Network, true),
    ("blackhole", Group::Network, true),
    ("reset", Group::Network, true),
    ("dns", Group::Network, true),
    ("delay", Group::Network, true),
    ("loss", Group::Network, true),
    ("flap", Group::Shape, true),
    ("disk_full", Group::Disk, true),
    ("disk_error", Group::Disk, true),
    ("disk_slow", Group::Disk, true),
    ("disk_lying_sync", Group::Disk, true),
    ("disk_corrupt", Group::Disk, true),
    ("lock_held", Group::Disk, true),
    ("reader_held", Group::Disk, true),
    ("corrupt_row", Group::Disk, true),
    ("kill", Group::Process, true),
    ("reload", Group::Process, false),
    ("power_loss", Group::Process, true),
    ("stall", Group::Process, false),
    ("clock_step", Group::Clock, false),
    ("suspend", Group::Clock, false),
];

pub const KIND_NAMES: [&str; 31] = {
    let mut names = [""; 31];
    let mut i = 0;
    while i < names.len() {
        names[i] = KINDS[i].0;
        i += 1;
    }
    names
};

/// What a flap can switch on and off: answers and network faults.
pub const FLAPPING: [&str; 13] = [
    "errors",
    "hang",
    "slow",
    "cut",
    "stream_error",
    "garbage",
    "poison",
    "refuse",
    "blackhole",
    "reset",
    "dns",
    "delay",
    "loss",
];

/// Kinds that hit some calls and not others; a flap does if what it is of does.
const PICKING: &[&str] = &["errors", "hang", "slow", "cut", "stream_error", "garbage", "poison", "storm", "flap"];
const AIMED: &[&str] = &[
    "errors",
    "hang",
    "slow",
    "cut",
    "stream_error",
    "garbage",
    "poison",
    "storm",
    "limit",
    "session_limit",
    "refuse",
    "blackhole",
    "reset",
    "dns",
    "delay",
    "loss",
    "flap",
];
const UNAIMED: &[&str] = &[
    "disk_full",
    "disk_error",
    "disk_slow",
    "disk_lying_sync",
    "disk_corrupt",
    "lock_held",
    "reader_held",
    "corrupt_row",
    "kill",
    "reload",
    "power_loss",
    "stall",
    "clock_step",
    "suspend",
];

pub const BODIES: [&str; 7] = ["html", "empty", "truncated_json", "nan", "zero", "wrong_dims", "fewer_vectors"];

const TARGET: Shape = Shape::OneOrList(&Shape::Text);
const REFUSAL_NAMES: Shape = Shape::OneOf(REFUSALS);
const STATUS: Shape = Shape::OneOrList(&Shape::Count { min: 300, max: 599 });
const RETRY_AFTER: Shape = Shape::Written {
    what: "a duration, \"date(-60s)\", or a literal header",
    pattern: r"\S",
    check: check_retry_after,
};
const SIZE: Shape = Shape::Bytes { min: 0, max: 1 << 50 };

pub const FAULT_KEYS: Keys = &[
    &[
        Key::required("kind", Shape::OneOf(&KIND_NAMES), "What goes wrong."),
        Key::required(
            "target",
            TARGET,
            "Whom it hits: names, \"provider/model\", \"llm\", \"embedding\", \"internet\".",
        )
        .only(AIMED),
        Key::optional("target", TARGET, "", "What it hits: \"disk\", \"engine\" or \"clock\".").only(UNAIMED),
        Key::optional("at", DIST, "0s", "When it begins, from the start of the run."),
        Key::optional("lasts", DIST_POSITIVE, "", "For how long; default: until everything is healed."),
        Key::optional("share", Shape::RATIO, "1", "Which share of the calls it hits, drawn for each.").only(PICKING),
        Key::optional("every_nth", Shape::count(1), "", "Or every n-th call.").only(PICKING),
        Key::optional("name", Shape::Text, "", "What reports call it; also names its random streams."),
        Key::optional("chance", Shape::RATIO, "1", "The whole fault is drawn with this chance per seed."),
    ],
    OWN_KEYS,
    &[
        Key::required("down", DIST_POSITIVE, "Length of a phase with the fault; the first phase is one.")
            .only(&["flap"]),
        Key::required("up", DIST_POSITIVE, "Length of a phase without it.").only(&["flap"]),
        Key::optional("jitter", Shape::RATIO, "0", "Each phase is stretched or shrunk by up to this share.")
            .only(&["flap"]),
        Key::required("of", Shape::Table(OF_KEYS), "The fault that comes and goes.").only(&["flap"]),
    ],
    super::session_limit::KEYS,
    MACHINE_KEYS,
    UNSUPPORTED_KEYS,
];

/// Keys inside of a flap's `of`.
pub const OF_KEYS: Keys = &[&[Key::required("kind", Shape::OneOf(&FLAPPING), "What goes wrong.")], OWN_KEYS];

/// Keys of single kinds of answers, limits and network faults.
const OWN_KEYS: &[Key] = &[
    Key::optional("status", STATUS, "", "The answer's status, or several to draw from.").only(&["errors"]),
    Key::optional("error", REFUSAL_NAMES, "", "Or a refusal by name, in the provider's own words and headers.")
        .only(&["errors"]),
    Key::optional("retry_after", RETRY_AFTER, "", "The stated wait; replaces every other hint of the answer.")
        .only(&["errors", "storm"]),
    Key::optional("body", Shape::FreeText, "", "The answer's body, literally.").only(&["errors"]),
    Key::optional("latency", DIST, "", "Replaces the time to the first byte.").only(&["slow"]),
    Key::optional("factor", Shape::Number { min: 0.001, max: 100_000.0 }, "", "Or multiplies it.").only(&["slow"]),
    Key::optional("after_bytes", Shape::count(0), "", "The stream ends after so many bytes.").only(&["cut"]),
    Key::optional("before_first_token", Shape::Flag, "", "Or it ends before the first token.").only(&["cut"]),
    Key::optional("after_tokens", Shape::count(0), "1", "The error comes after so many tokens.")
        .only(&["stream_error"]),
    Key::required("body", Shape::OneOf(&BODIES), "What comes instead of a good body.").only(&["garbage"]),
    Key::required("text", Shape::Text, "Requests whose content has this text fail.").only(&["poison"]),
    Key::optional("capacity", Shape::Table(ALLOWANCE_KEYS), "", "What is still answered.").only(&["storm"]),
    Key::required("limit", Shape::Table(ALLOWANCE_KEYS), "The provider's allowance while it lasts.").only(&["limit"]),
    Key::required("by", DIST, "How much later everything arrives.").only(&["delay"]),
    Key::required("share", Shape::RATIO, "Which share of the packets is lost and sent again.").only(&["loss"]),
];

/// Keys of faults of the engine's machine.
const MACHINE_KEYS: &[Key] = &[
    Key::optional("free", SIZE, "", "What is left when it begins; default: nothing, unless it grows.")
        .only(&["disk_full"]),
    Key::optional("grow", SIZE, "0B", "How much something else eats each second.").only(&["disk_full"]),
    Key::required("op", DISK_OP, "Which operation fails.").only(&["disk_error"]),
    Key::optional("op", DISK_OP, "sync", "Which operation is slow.").only(&["disk_slow"]),
    Key::optional("nth", Shape::count(1), "", "Only the n-th one since it began.").only(&["disk_error"]),
    Key::optional("nth", Shape::count(1), "1", "At the n-th such event of the run.").only(&["kill", "power_loss"]),
    Key::optional("share", Shape::RATIO, "1", "Which share of them, drawn for each.").only(&["disk_error"]),
    Key::optional("code", Shape::OneOf(&["IOERR", "FULL", "BUSY", "READONLY"]), "IOERR", "How it fails.")
        .only(&["disk_error"]),
    Key::required("latency", DIST, "How long an operation takes.").only(&["disk_slow"]),
    Key::required("table", Shape::Text, "Where the damaged row is, its newest.").only(&["corrupt_row"]),
    Key::required("field", Shape::Text, "Its field.").only(&["corrupt_row"]),
    Key::required("value", Shape::Scalar, "What stands there afterwards.").only(&["corrupt_row"]),
    Key::optional("point", Shape::Text, "", "At this event (or \"write\", of the disk), instead of a time.")
        .only(&["kill", "power_loss"]),
    Key::optional("restart_after", DIST, "", "Time until the next start; default: when the fault ends.")
        .only(&["kill", "power_loss"]),
];

const DISK_OP: Shape = Shape::OneOf(&["read", "write", "sync"]);

/// Keys of kinds that the harness can't do yet.
const UNSUPPORTED_KEYS: &[Key] = &[
    Key::required("set", Shape::Table(&[]), "The settings that change.").only(&["reload"]),
    Key::required("by", STEP, "How far the wall clock jumps; may be negative.").only(&["clock_step"]),
];

const STEP: Shape = Shape::Written {
    what: "a duration that may be negative, such as \"-2h\"",
    pattern: r"^\s*-?(\d+(ms|s|m|h|d))+\s*$",
    check: check_step,
};

fn check_step(text: &str) -> Result<(), Complaint> {
    let text = text.trim();
    let span: Result<Span, _> = text.strip_prefix('-').unwrap_or(text).parse();
    span.map(drop).map_err(|error| Complaint::new(error.to_string()))
}

/// A stated wait, before anything is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    Drawn(super::Dist),
    Fixed(RetryAfter),
}

/// A duration or distribution of durations; `date(…)`; anything else is a literal header.
pub fn read_retry_after(text: &str) -> Result<Wait, Complaint> {
    if let Some(inner) = text.trim().strip_prefix("date(").and_then(|rest| rest.strip_suffix(')')) {
        let inner = inner.trim();
        let past = inner.strip_prefix('-');
        let span: Span =
            past.unwrap_or(inner).parse().map_err(|error| Complaint::new(format!("`date(…)`: {error}")))?;
        let ms = i64::try_from(span.ms()).ok().filter(|_| span <= squall::config::shape::SPAN_MAX);
        let ms = ms.ok_or_else(|| Complaint::new(format!("{text:?} is too far away")))?;
        return Ok(Wait::Fixed(RetryAfter::Date(if past.is_some() { -ms } else { ms })));
    }
    match read_dist(text) {
        Ok(dist) => Ok(Wait::Drawn(dist)),
        Err(_) => match text.chars().any(|c| c.is_control()) || text.is_empty() {
            true => Err(Complaint::new(format!("{text:?} can't be a header's value"))),
            false => Ok(Wait::Fixed(RetryAfter::Literal(text.to_owned()))),
        },
    }
}

fn check_retry_after(text: &str) -> Result<(), Complaint> {
    read_retry_after(text).map(drop)
}

/// The row of a kind.
pub fn kind_named(name: &str) -> Option<(&'static str, Group, bool)> {
    KINDS.into_iter().find(|(own, ..)| *own == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Dist;

    #[test]
    fn every_kind_is_either_aimed_or_not() {
        let mut kinds: Vec<&str> = AIMED.iter().chain(UNAIMED).copied().collect();
        assert_eq!(kinds.len(), KINDS.len());
        kinds.sort_unstable();
        let mut names = KIND_NAMES.to_vec();
        names.sort_unstable();
        assert_eq!(kinds, names);
        let flapping = KINDS.iter().filter(|(_, group, _)| matches!(group, Group::Answers | Group::Network));
        assert_eq!(flapping.map(|(name, ..)| *name).collect::<Vec<_>>(), FLAPPING);
    }

    #[test]
    fn keys_belong_to_kinds_that_exist() {
        for key in FAULT_KEYS.iter().flat_map(|part| part.iter()) {
            assert!(key.kinds.iter().all(|kind| KIND_NAMES.contains(kind)), "{}", key.name);
        }
    }

    #[test]
    fn a_stated_wait_is_seconds_a_date_or_a_literal() {
        let fixed = |text: &str| match read_retry_after(text).unwrap() {
            Wait::Fixed(wait) => wait,
            Wait::Drawn(dist) => panic!("{dist}"),
        };
        assert_eq!(read_retry_after("20s"), Ok(Wait::Drawn(Dist::Fixed(Span::from_secs(20)))));
        assert!(matches!(read_retry_after("uniform(1s, 5s)"), Ok(Wait::Drawn(Dist::Uniform(..)))));
        assert_eq!(fixed("date(-60s)"), RetryAfter::Date(-60_000));
        assert_eq!(fixed("date( 2m )"), RetryAfter::Date(120_000));
        assert_eq!(fixed("soon"), RetryAfter::Literal("soon".into()));
        assert_eq!(fixed("-5"), RetryAfter::Literal("-5".into()));
        for text in ["date(soon)", "date(99999999999d)", "a\nb", ""] {
            assert!(read_retry_after(text).is_err(), "{text:?}");
        }
    }
}
