//! Every setting of the engine changes what it does: of each, a drill that goes another way with another value.
//!
//! What is compared is the whole history but the first event, which states the settings. A setting whose mechanism is
//! not built yet stands in [`NOT_YET`], with what it waits for; a setting in neither list stops the test.

use squall::config::{SETTINGS, set};
use squall::event::Event;
use squall_sim::history::{Entry, Sink, What};
use squall_sim::run::one::simulate;
use squall_sim::scenario::Scenario;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Two providers and steady calls; faults are added.
const CALLS: &str = r#"
title = "calls"
duration = "20m"
settle = "15m"
[[provider]]
name = "a"
api = "openai"
latency = "700ms"
[[provider]]
name = "b"
api = "anthropic"
latency = "700ms"
[[load]]
kind = "chat"
every = "5s"
"#;

/// A streamed conversation with a provider that stalls in the middle, and one that is slow to begin.
const STREAMS: &str = r#"
title = "streams"
duration = "10m"
settle = "15m"
[[provider]]
name = "a"
api = "openai"
latency = "700ms"
[[provider]]
name = "b"
api = "anthropic"
latency = "700ms"
[[load]]
kind = "chat"
every = "20s"
stream = true
tokens = 200
[[fault]]
kind = "slow"
target = "a"
at = "2m"
lasts = "2m"
latency = "12s"
"#;

const DOWN: &str = "[[fault]]\nkind = \"errors\"\ntarget = \"a\"\nat = \"2m\"\nlasts = \"8m\"\nstatus = 503\n";
const ALL_DOWN: &str = "[[fault]]\nkind = \"errors\"\ntarget = \"llm\"\nat = \"2m\"\nlasts = \"8m\"\nstatus = 503\n";
const BROWN_OUT: &str =
    "[[fault]]\nkind = \"errors\"\ntarget = \"a\"\nat = \"1m\"\nlasts = \"10m\"\nshare = 0.45\nstatus = 503\n";
const EVERY_OTHER: &str =
    "[[fault]]\nkind = \"errors\"\ntarget = \"a\"\nat = \"0s\"\nlasts = \"10m\"\nevery_nth = 2\nstatus = 503\n";
const SLOW_AFTERWARDS: &str =
    "[[fault]]\nkind = \"slow\"\ntarget = \"a\"\nat = \"10m\"\nlasts = \"8m\"\nlatency = \"25s\"\n";
const STALLS: &str = "[[fault]]\nkind = \"hang\"\ntarget = \"a\"\nat = \"2m\"\nlasts = \"12m\"\n";
const STORM: &str = "[[fault]]\nkind = \"storm\"\ntarget = \"a\"\nat = \"2m\"\nlasts = \"6m\"\nretry_after = \"45s\"\n";
const BARE_STORM: &str = "[[fault]]\nkind = \"errors\"\ntarget = \"a\"\nat = \"2m\"\nlasts = \"6m\"\nstatus = 429\n";
const QUOTA: &str =
    "[[fault]]\nkind = \"errors\"\ntarget = \"a\"\nat = \"2m\"\nlasts = \"5m\"\nerror = \"insufficient_quota\"\n";
const QUOTA_STATED: &str = "[[fault]]\nkind = \"errors\"\ntarget = \"a\"\nat = \"2m\"\nlasts = \"5m\"\nerror = \"insufficient_quota\"\nretry_after = \"15m\"\n";
const BACKGROUND: &str = r#"
title = "background calls"
duration = "20m"
settle = "15m"
[engine]
breaker.failures_max = 9
retry.budget_min_per_minute = 30
[[provider]]
name = "a"
api = "openai"
latency = "700ms"
[[load]]
kind = "chat"
class = "background"
every = "30s"
"#;
const STAGGERED: &str = "
[[provider]]\nname = \"c\"\napi = \"openai\"\nlatency = \"700ms\"
[[fault]]\nkind = \"errors\"\ntarget = \"a\"\nat = \"1m\"\nlasts = \"5m\"\nstatus = 503
[[fault]]\nkind = \"errors\"\ntarget = \"b\"\nat = \"3m\"\nlasts = \"5m\"\nstatus = 503
[[fault]]\nkind = \"errors\"\ntarget = \"c\"\nat = \"5m\"\nlasts = \"5m\"\nstatus = 503
";
const LOCAL: &str = "
[[provider]]\nname = \"home\"\napi = \"openai\"\nlatency = \"300ms\"\nlocal = true
[[chain]]\nname = \"default\"\nuse = \"chat\"\nentries = [\"home\", \"a\", \"b\"]\n
[[fault]]\nkind = \"errors\"\ntarget = \"home\"\nat = \"2m\"\nlasts = \"5m\"\nstatus = 503
";
const WORK: &str = "
[[load]]\nkind = \"defer\"\nwork_type = \"surplus\"\npolicy = \"discard\"\nburst = { at = \"3m\", count = 12, over = \"1m\" }
[[load]]\nkind = \"defer\"\nwork_type = \"reflection\"\npolicy = \"ttl\"\nttl = \"2m10s\"\nburst = { at = \"3m\", count = 12, over = \"1m\" }
";
const POISON: &str = "
[engine]\nbreaker.failures_max = 50\nbreaker.rate = 1.0
[[chain]]\nname = \"default\"\nuse = \"chat\"\nentries = [\"a\", \"b\"]
[[chain]]\nname = \"other\"\nuse = \"chat\"\nentries = [\"b\", \"a\"]
[[load]]\nkind = \"chat\"\nchain = \"other\"\nevery = \"5s\"
[[load]]\nkind = \"defer\"\nwork_type = \"reflection\"\nat = [\"1m\"]\ncontent = \"xyzzy\"
[[fault]]\nkind = \"poison\"\ntarget = \"llm\"\nlasts = \"19m\"\ntext = \"xyzzy\"
";
const RECALL: &str = "
[[provider]]\nname = \"e\"\napi = \"openai\"\ndims = 16\nlatency = \"80ms\"
[[load]]\nkind = \"recall\"\nevery = \"10s\"\nclient = \"each\"
[[load]]\nkind = \"recall\"\nevery = \"7s\"\nclient = \"desk\"
[[load]]\nkind = \"recall\"\nevery = \"11s\"\nclient = \"lamp\"
[[fault]]\nkind = \"slow\"\ntarget = \"e\"\nat = \"1m\"\nlasts = \"1m\"\nlatency = \"2500ms\"
[[fault]]\nkind = \"errors\"\ntarget = \"e\"\nat = \"3m\"\nlasts = \"4m\"\nstatus = 503
[[fault]]\nkind = \"errors\"\ntarget = \"e\"\nat = \"9m\"\nlasts = \"2m\"\nstatus = 503
";

/// More sessions than there is budget for; one dies with its slot, one does not wait.
const SESSIONS: &str = r#"
title = "sessions"
duration = "3h"
settle = "1h"
[[load]]
kind = "session"
class = "background"
burst = { at = "1m", count = 18, over = "2m" }
client = "each"
runs_for = "3m"
retry = true
[[load]]
kind = "session"
class = "background"
at = ["2m", "50m"]
client = "each"
runs_for = "20m"
dies_after = "90s"
[[load]]
kind = "session"
class = "background"
at = ["1m30s"]
leaves_after = "1m"
[[load]]
kind = "session"
class = "background"
every = "7m"
key = "cron"
wait = false
runs_for = "30s"
"#;
const UNSTATED_LIMIT: &str = "[[fault]]\nkind = \"session_limit\"\ntarget = \"claude-code\"\nat = \"10m\"\nlasts = \"1h\"\nwindow = \"five_hour\"\nmessage = \"no-reset\"\n";
const STATED_LIMIT: &str = "[[fault]]\nkind = \"session_limit\"\ntarget = \"claude-code\"\nat = \"10m\"\nwindow = \"five_hour\"\nresets_in = \"1h\"\n";
const SIGNED_OUT: &str =
    "[[fault]]\nkind = \"errors\"\ntarget = \"claude-code\"\nat = \"10m\"\nlasts = \"1h\"\nerror = \"auth\"\n";
const HOOK: &str = "
[[provider]]\nname = \"hook\"\napi = \"webhook\"\nlatency = \"50ms\"
[[fault]]\nkind = \"errors\"\ntarget = \"webhook\"\nat = \"1m\"\nlasts = \"5m\"\nstatus = 503
";

/// Setting, another value, and the parts of the drill in which it shows.
const SHOWS: &[(&str, &str, &[&str])] = &[
    ("flap.window", "3m", &[CALLS, STAGGERED]),
    ("flap.transitions_max", "9", &[CALLS, STAGGERED]),
    ("flap.hold", "6m", &[CALLS, STAGGERED]),
    ("flap.count", "runs", &[CALLS, STAGGERED]),
    ("flap.exempt", "cloud", &[CALLS, STAGGERED]),
    ("breaker.failures_max", "4", &[CALLS, DOWN]),
    ("breaker.rate", "0.2", &[CALLS, BROWN_OUT]),
    ("breaker.rate_min", "5", &[CALLS, EVERY_OTHER]),
    ("breaker.rate_window", "30s", &[CALLS, EVERY_OTHER]),
    ("breaker.open", "3m", &[CALLS, DOWN]),
    ("breaker.open_local", "90s", &[CALLS, LOCAL]),
    ("breaker.open_max", "2m", &[CALLS, DOWN]),
    ("breaker.trial_deadline", "20s", &[CALLS, DOWN, SLOW_AFTERWARDS]),
    ("breaker.half_open_max", "15s", &[CALLS, DOWN]),
    ("breaker.successes_to_close", "4", &[CALLS, DOWN]),
    ("breaker.success_spacing", "12s", &[CALLS, DOWN]),
    ("breaker.probe_every", "15s", &[CALLS, DOWN]),
    ("call.attempts_foreground", "1", &[CALLS, DOWN]),
    ("call.attempts_background", "1", &[BACKGROUND, ALL_DOWN]),
    ("call.attempts_max", "2", &[CALLS, ALL_DOWN]),
    ("call.deadline", "50s", &[CALLS, STALLS]),
    ("call.connect", "1ms", &[CALLS]),
    ("call.first_byte", "40s", &[CALLS, STALLS]),
    ("call.first_byte_stream", "10s", &[STREAMS]),
    ("call.chunk", "5ms", &[STREAMS]),
    ("call.total", "1s", &[STREAMS]),
    ("retry.base", "1s", &[CALLS, BROWN_OUT]),
    ("retry.factor", "9", &[BACKGROUND, ALL_DOWN]),
    ("retry.max", "600ms", &[BACKGROUND, ALL_DOWN]),
    ("retry.jitter", "0", &[CALLS, BROWN_OUT]),
    ("retry.budget", "0.9", &[CALLS, BROWN_OUT]),
    ("retry.budget_min_per_minute", "0", &[CALLS, BROWN_OUT]),
    ("park.base", "10s", &[CALLS, BARE_STORM]),
    ("park.max", "20s", &[CALLS, BARE_STORM]),
    ("park.hint_max", "20s", &[CALLS, STORM]),
    ("park.quota", "6m", &[CALLS, QUOTA]),
    ("park.quota_max", "6m", &[CALLS, QUOTA_STATED]),
    ("park.confirmations", "1", &[CALLS, STORM]),
    ("cloud.dead_letters_max", "0", &[CALLS, POISON]),
    ("queue.parallel", "1", &[CALLS, ALL_DOWN, WORK]),
    ("queue.discard_after", "1m", &[CALLS, ALL_DOWN, WORK]),
    ("queue.sweep_every", "3m", &[CALLS, ALL_DOWN, WORK]),
    ("queue.attempts_max", "2", &[CALLS, POISON]),
    ("status.every", "2m", &[CALLS]),
    ("sessions.starts_per_hour", "10", &[SESSIONS]),
    ("sessions.active_max", "2", &[SESSIONS]),
    ("sessions.foreground_reserve", "2", &[SESSIONS]),
    ("sessions.throttle_at", "0.7", &[SESSIONS]),
    ("sessions.throttle_end", "0.3", &[SESSIONS]),
    ("sessions.backoff", "2m", &[SESSIONS, UNSTATED_LIMIT]),
    ("sessions.backoff_max", "4m", &[SESSIONS, UNSTATED_LIMIT]),
    ("sessions.jitter", "0", &[SESSIONS, UNSTATED_LIMIT]),
    ("sessions.limit_max", "20m", &[SESSIONS, STATED_LIMIT]),
    ("sessions.confirmations", "1", &[SESSIONS, STATED_LIMIT]),
    ("sessions.answered_after", "30s", &[SESSIONS]),
    ("sessions.failed_starts_max", "5", &[SESSIONS, SIGNED_OUT]),
    ("sessions.trial_every", "3m", &[SESSIONS, SIGNED_OUT]),
    ("sessions.lease", "2m", &[SESSIONS]),
    ("sessions.waiter_grace", "2s", &[SESSIONS]),
    ("notify.webhook_url", "http://elsewhere/", &[CALLS, HOOK, ALL_DOWN]),
    ("notify.tries", "2", &[CALLS, HOOK, ALL_DOWN]),
    ("notify.backoff", "3s", &[CALLS, HOOK, ALL_DOWN]),
    ("notify.coalesce", "20s", &[CALLS, ALL_DOWN]),
    ("recall.timeout", "2s", &[CALLS, RECALL]),
    ("advisory.enabled", "false", &[CALLS, RECALL]),
    ("advisory.failures_to_fault", "4", &[CALLS, RECALL]),
    ("advisory.keys_max", "1", &[CALLS, RECALL]),
    ("advisory.evidence_chars_max", "40", &[CALLS, RECALL]),
];

/// Settings of mechanisms that are not built yet, and those mechanisms.
const NOT_YET: &[(&str, &str)] = &[
    ("queue.pending_max", "the huge-queue rule"),
    ("queue.lease", "a worker that stalls for longer than its lease"),
    ("backlog.per_minute", "the embedding backlog"),
    ("backlog.attempts_max", "the embedding backlog"),
    ("backlog.retry_every", "the embedding backlog"),
    ("recovery.item_every", "recovery runs"),
    ("recovery.ramp_step", "recovery runs"),
    ("recovery.write_probe_every", "the full disk"),
    ("tick.every", "the awareness tick"),
    ("disk.ballast", "the full disk"),
    ("disk.ahead", "the full disk"),
    ("disk.probe_every", "the full disk"),
];

/// The hash of all events after the engine's first word.
struct Behaviour(blake3::Hasher);

impl Sink for Behaviour {
    fn entry(&mut self, entry: &Entry, line: &str) {
        if !matches!(entry.what, What::Engine(Event::EngineStarted { .. })) {
            self.0.update(line.as_bytes());
        }
    }
}

fn behaviour(text: &str, setting: Option<(&str, &str)>) -> blake3::Hash {
    let mut drill = Scenario::read(text, "drill.toml").unwrap_or_else(|wrong| panic!("{wrong:#?}")).resolve(Some(1));
    if let Some((key, value)) = setting {
        set(&mut drill.rules, key, value).unwrap_or_else(|complaint| panic!("{key}={value}: {complaint}"));
    }
    let hash = Rc::new(RefCell::new(Behaviour(blake3::Hasher::new())));
    simulate(&drill, vec![hash.clone()]).unwrap_or_else(|error| panic!("{setting:?}: {error}"));
    hash.borrow().0.finalize()
}

#[test]
fn every_setting_changes_what_the_engine_does() {
    let mut plain: BTreeMap<String, blake3::Hash> = BTreeMap::new();
    let mut idle = Vec::new();
    for (key, value, parts) in SHOWS {
        let text = parts.concat();
        let as_is = *plain.entry(text.clone()).or_insert_with(|| behaviour(&text, None));
        if behaviour(&text, Some((key, value))) == as_is {
            idle.push(*key);
        }
    }
    assert!(idle.is_empty(), "these change nothing: {idle:?}");
}

#[test]
fn every_setting_is_accounted_for() {
    let mut named: Vec<&str> = SHOWS.iter().map(|(key, ..)| *key).chain(NOT_YET.iter().map(|(key, _)| *key)).collect();
    let mut all: Vec<&str> = SETTINGS.iter().map(|setting| setting.path).collect();
    named.sort_unstable();
    all.sort_unstable();
    assert_eq!(named, all);
}
