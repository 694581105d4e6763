//! The names a scenario may use for things that others define: invariants, events, metrics, status fields, refusals.
//!
//! **Source:** harness.md (invariants), events.md (events, sometimes), scenario.md (metrics), engine.md 8 (status).
//! A test reads the event types and stops the build when a name or field is missing here.

use super::types::ServerApi;
use squall::base::{Axis, Rules};
use squall::config::Complaint;

/// Invariants, as in `require`.
pub const INVARIANTS: &[&str] = &[
    "TRANSITION-1",
    "TRANSITION-2",
    "TRANSITION-3",
    "TRANSITION-4",
    "BREAKER-1",
    "BREAKER-2",
    "LIMIT-1",
    "LIMIT-2",
    "SESSION-1",
    "CONSERVE-1",
    "DRAIN-1",
    "DRAIN-2",
    "DRAIN-3",
    "STALE-1",
    "LEASE-1",
    "IDEMPOTENT-1",
    "IDEMPOTENT-2",
    "IDEMPOTENT-3",
    "ADVISORY-1",
    "ADVISORY-2",
    "ADVISORY-3",
    "NOTIFY-1",
    "DISK-1",
    "CLOCK-1",
    "CONVERGE-1",
    "DETERMINE-1",
];

/// Interesting things that can have happened, as in `sometimes`.
pub const SOMETIMES: &[&str] = &[
    "hold_started",
    "improvement_suppressed",
    "hold_restarted",
    "measured_at_hold_end",
    "breaker_half_open",
    "trial_throttled",
    "last_resort_probe",
    "park_confirmed",
    "chain_exhausted",
    "stream_truncated",
    "retry_budget_spent",
    "poison_found",
    "item_merged",
    "item_expired",
    "item_discarded",
    "item_refreshed",
    "item_dead",
    "lease_lost",
    "in_doubt",
    "duplicate_stopped",
    "huge_queue",
    "backlog_paused",
    "embedding_dead",
    "session_deferred",
    "reset_moved",
    "recovery_stopped",
    "recovery_resumed",
    "ballast_released",
    "late_journal",
    "advisory_full",
    "advisory_short",
    "advisory_hint",
    "webhook_undelivered",
    "clock_stepped",
];

/// Every event of a history and its fields.
pub const EVENTS: &[(&str, &[&str])] = &[
    // From the engine.
    ("engine.started", &["schema", "incarnation", "resumed", "version", "levels", "rules"]),
    ("engine.stopped", &["incarnation", "reason"]),
    ("axis.measured", &["axis", "level"]),
    ("axis.changed", &["axis", "was", "to", "measured", "legacy", "cause"]),
    ("axis.suppressed", &["axis", "was", "to", "cause"]),
    ("hold.started", &["axis", "until_ms", "restarted"]),
    ("hold.ended", &["axis"]),
    ("breaker.opened", &["entry", "trips", "until_ms", "why"]),
    ("breaker.half_open", &["entry", "by_probe"]),
    ("breaker.closed", &["entry"]),
    ("park.started", &["entry", "scope", "until_ms", "hint_ms", "why"]),
    ("park.ended", &["entry"]),
    ("provider.disabled", &["provider", "why"]),
    ("call.started", &["call", "chain", "class", "stream"]),
    ("call.finished", &["call", "outcome", "entry", "attempts", "earliest_ms"]),
    ("attempt.sent", &["call", "entry", "attempt", "probe", "trial", "retry"]),
    ("attempt.finished", &["call", "entry", "attempt", "probe", "outcome", "hint_ms", "late"]),
    ("attempt.first_token", &["call", "entry", "attempt"]),
    ("probe.round", &["probes"]),
    ("call.poison", &["call", "entries"]),
    (
        "deferred.queued",
        &["id", "work_type", "priority", "policy", "depends_on", "merged", "reason", "ttl_ms", "not_before_ms"],
    ),
    ("deferred.run", &["id", "work_type", "priority", "token"]),
    ("deferred.released", &["id", "not_before_ms", "attempts", "reason"]),
    ("deferred.ready", &["id"]),
    ("deferred.finished", &["id", "status", "was", "reason"]),
    ("lease.lost", &["id"]),
    ("queue.huge_started", &["pending"]),
    ("queue.huge_ended", &["pending"]),
    ("embedding.queued", &["memory", "why"]),
    ("embedding.upserted", &["memory"]),
    ("embedding.embedded", &["memory"]),
    ("embedding.failed", &["memory", "why"]),
    ("dead.added", &["id", "llm", "reason"]),
    ("dead.replayed", &["id", "ok"]),
    ("session.asked", &["session", "class"]),
    ("session.deferred", &["session", "class", "item", "reason"]),
    ("session.waiter", &["session", "present"]),
    ("session.started", &["session", "class", "trial", "item"]),
    // The engine's and the client's word share this name; fields of both.
    ("session.answered", &["session", "class", "outcome", "load", "client", "status", "asked_ms"]),
    ("session.ended", &["session", "outcome"]),
    ("session.limited", &["session", "window", "resets_in_ms", "until_ms"]),
    ("recovery.started", &["axis", "run", "why"]),
    ("recovery.step", &["axis", "run", "step"]),
    ("recovery.stopped", &["axis", "run", "step", "why"]),
    ("recovery.finished", &["axis", "run"]),
    ("outreach.intended", &["key", "recipient", "purpose", "occasion"]),
    ("outreach.sent", &["key", "recipient", "purpose"]),
    ("outreach.recorded", &["key", "recipient", "purpose"]),
    ("outreach.duplicate", &["key", "recipient", "purpose"]),
    ("outreach.in_doubt", &["key", "recipient", "purpose"]),
    ("notice.sent", &["axis", "what", "entry", "way", "occasion", "also"]),
    ("notice.undelivered", &["axis", "what", "entry", "way", "occasion", "also"]),
    ("status.written", &["why"]),
    ("status.failed", &["why"]),
    ("webhook.delivered", &["transition", "tries"]),
    ("webhook.undelivered", &["transition", "tries", "why"]),
    ("disk.full", &["code"]),
    ("disk.checkpoint", &["ok"]),
    ("disk.degraded", &["code"]),
    ("disk.recovered", &[]),
    ("disk.ballast", &["released", "restored"]),
    ("advisory.state", &["state", "evidence"]),
    ("advisory.given", &["recall", "severity", "form", "scope", "client"]),
    ("recall.finished", &["recall", "dense", "started_ms"]),
    ("tick", &["caught_up"]),
    ("journal.gap", &["dropped"]),
    // From the outside.
    ("provider.request", &["entry", "probe", "early", "request", "stream"]),
    ("provider.answered", &["entry", "request", "status", "what", "wait_ms"]),
    ("vector.upserted", &["point", "collection"]),
    ("channel.request", &["channel", "key", "recipient", "purpose", "part", "status", "content"]),
    (
        "webhook.request",
        &["server", "key", "kind", "transition", "axis", "was", "to", "what", "try", "repeated", "status"],
    ),
    ("chat.answered", &["load", "client", "class", "status", "outcome", "asked_ms", "retry_after_ms"]),
    ("recall.answered", &["load", "client", "key", "status", "hits", "advisory"]),
    ("remember.answered", &["load", "client", "status"]),
    ("defer.answered", &["load", "client", "status", "id", "merged"]),
    ("outreach.answered", &["load", "client", "status", "what", "key"]),
    ("session.process", &["client", "session", "class", "running", "limit"]),
    ("status.read", &["load", "client", "status", "agree"]),
    ("status.file", &["seen"]),
    ("stderr.line", &["text"]),
    // From the world.
    ("run.started", &["schema", "title", "seed", "duration_ms", "settle_ms"]),
    ("fault.started", &["line", "kind", "target"]),
    ("fault.ended", &["line", "kind", "target"]),
    ("healed", &[]),
    ("engine.killed", &["power_loss", "point"]),
    ("engine.restarted", &[]),
    ("engine.stalled", &["point"]),
    ("clock.stepped", &["by_ms"]),
    ("clock.suspended", &["by_ms"]),
    ("run.ended", &[]),
];

/// First parts of a path into the status file.
pub const STATUS_FIELDS: &[&str] = &[
    "schema",
    "incarnation",
    "written_at",
    "since",
    "state",
    "measured",
    "holds",
    "degradation_level",
    "history",
    "episodes",
    "deferred_work_count",
    "pending_embeddings_count",
    "dead_letter_count",
    "breakers",
    "parks",
    "sessions",
    "recovery",
    "undelivered_notices",
    "summary",
];

/// Named refusals of a provider, each in its own dialect.
pub const REFUSALS: &[&str] = &[
    "overloaded",
    "rate_limited",
    "insufficient_quota",
    "spend_limit",
    "billing",
    "auth",
    "permission",
    "model_not_found",
    "context_length",
    "invalid_request",
    "server_error",
    "timeout",
    "too_large",
    "slow_down",
    "runner_dead",
];

/// Whether servers of this API have words for the refusal.
pub fn has_refusal(api: ServerApi, refusal: &str) -> bool {
    match api {
        ServerApi::Ollama => !["slow_down", "spend_limit", "billing", "too_large"].contains(&refusal),
        // Receivers and servers of sessions have no dialect: a refusal has the status that OpenAI gives it.
        ServerApi::Openai | ServerApi::Anthropic | ServerApi::Mistral | ServerApi::Webhook | ServerApi::ClaudeCode => {
            refusal != "runner_dead"
        }
        ServerApi::Qdrant => false,
    }
}

const CHAT_CLASSES: [&str; 2] = ["foreground", "background"];
const CHAT_METRICS: [&str; 9] =
    ["count", "ok", "deferred", "failed", "refused", "truncated", "ok_ratio", "p50_ms", "p99_ms"];
const AXIS_METRICS: [&str; 5] = ["detect_s", "recover_s", "episodes", "holds", "transitions"];
const OTHER_METRICS: [&str; 30] = [
    "attempts_per_call",
    "early_returns",
    "deferred.count",
    "deferred.done",
    "deferred.expired",
    "deferred.discarded",
    "deferred.refreshed",
    "deferred.dead",
    "deferred.in_doubt",
    "deferred.merged",
    "deferred.pending",
    "deferred.oldest_s",
    "duplicates_sent",
    "embeddings.queued",
    "embeddings.drained",
    "embeddings.failed",
    "embeddings.dead",
    "sessions.asked",
    "sessions.started",
    "sessions.deferred",
    "sessions.active_max",
    "advisories.full",
    "advisories.short",
    "notices.sent",
    "notices.undelivered",
    "webhook.delivered",
    "webhook.undelivered",
    "disk.full_events",
    "disk.lost_acknowledged",
    "herd_index",
];

/// Every metric of a run with these rules: `requests.<entry>` for each entry, `<axis>` and `<class>` filled in.
pub fn metrics(rules: &Rules) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for class in CHAT_CLASSES {
        names.extend(CHAT_METRICS.map(|metric| format!("chat.{class}.{metric}")));
    }
    for metric in AXIS_METRICS {
        names.extend(Axis::ALL.map(|axis| format!("{metric}.{axis}")));
    }
    names.extend(OTHER_METRICS.map(str::to_owned));
    for provider in &rules.providers {
        match provider.models.is_empty() {
            true => names.push(format!("requests.{}", provider.name)),
            false => names.extend(provider.models.iter().map(|model| format!("requests.{}/{model}", provider.name))),
        }
    }
    names
}

/// The fields of an event, or a complaint about its name.
pub fn fields_of(event: &str) -> Result<&'static [&'static str], Complaint> {
    let row = EVENTS.iter().find(|(name, _)| *name == event);
    row.map(|(_, fields)| *fields)
        .ok_or_else(|| Complaint::unknown("event", event, EVENTS.iter().map(|(name, _)| name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The names and fields of the event types in a source text.
    fn declared(source: &str) -> BTreeMap<String, Vec<String>> {
        let mut events = BTreeMap::new();
        for part in source.split("#[serde(rename = \"").skip(1) {
            let (name, rest) = part.split_once('"').unwrap();
            let body = rest.split_once(")]").unwrap().1;
            let stop = body.find([',', '{']).unwrap();
            let mut fields = Vec::new();
            if body[stop..].starts_with('{') {
                let inner = &body[stop + 1..];
                let inner = &inner[..inner.find('}').unwrap()];
                for line in inner.lines().filter(|line| !line.trim_start().starts_with(['#', '/'])) {
                    let pieces = line.split(": ");
                    let names = pieces.filter_map(|piece| piece.rsplit([' ', ',']).next());
                    let is_name =
                        |name: &&str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
                    let all: Vec<&str> = names.collect();
                    let count = all.len().saturating_sub(1);
                    fields.extend(all.into_iter().take(count).filter(is_name).map(str::to_owned));
                }
            }
            events.insert(name.to_owned(), fields);
        }
        events
    }

    #[test]
    fn every_event_in_the_code_and_each_of_its_fields_can_be_named() {
        let sources = [
            include_str!("../../../src/event.rs"),
            include_str!("../history/outside.rs"),
            include_str!("../history/world.rs"),
        ];
        let mut seen = 0;
        for (name, fields) in sources.into_iter().flat_map(declared) {
            let known = fields_of(&name).unwrap_or_else(|complaint| panic!("{complaint}"));
            for field in &fields {
                assert!(known.contains(&field.as_str()), "{name} has a field {field}");
            }
            seen += fields.len();
        }
        assert!(seen > 150, "only {seen} fields were found: the types are written otherwise now");
    }

    #[test]
    fn no_name_stands_twice() {
        let twice = |mut names: Vec<&str>| {
            let len = names.len();
            names.sort_unstable();
            names.dedup();
            names.len() != len
        };
        assert!(!twice(INVARIANTS.to_vec()));
        assert!(!twice(SOMETIMES.to_vec()));
        assert!(!twice(REFUSALS.to_vec()));
        assert!(!twice(EVENTS.iter().map(|(name, _)| *name).collect()));
    }
}
