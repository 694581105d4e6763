//! The metrics of the verdict: numbers about a run, or about a window of it.
//!
//! A metric without anything to measure has no value: no call, no ratio. Percentiles are exact, from all samples.
//! What counts as what:
//! - `chat.<class>.count` = `ok` + `deferred` + `failed`; `refused` and `truncated` are parts of `failed`. Latencies are
//!   those of `ok` answers. In a window, a call belongs to the moment at which it was asked.
//! - `attempts_per_call`: attempts on the wire (probes apart) over the calls that were not refused locally.
//! - `detect_s.<axis>`: from the start of the first fault to the axis's first worsening after it.
//! - `recover_s.<axis>`: from the last end of a fault inside an episode to the end of that episode; the longest counts.
//! - `requests.<entry>`: all that reached the provider, probes included. `early_returns` is counted there too.
//! - `duplicates_sent`: deliveries of a message (key and part) beyond its first; without an occasion a message may be
//!   said again after 24 h.
//! - `sessions.deferred`: sessions that had to wait at least once. `sessions.active_max`: the most slots held at once, in a
//!   window those that it began with included.
//! - `herd_index`: the busiest second over the mean second in the first minute after cloud is healthy again.
//!
//! **Units:** in the names (`_ms`, `_s`); times simulated. **Source:** scenario.md "Metrics".

use super::levels::Levels;
use super::verdict::{Value, seconds};
use crate::history::{Entry, Outside, What, World};
use squall::base::{Axis, CallOutcome, ItemStatus, Span};
use squall::event::{AdvisoryForm, Event};
use std::collections::{BTreeMap, BTreeSet};

const REPEATABLE_AFTER: Span = Span::from_hours(24);
const HERD_WINDOW_MS: u64 = 60_000;
const CLASSES: [&str; 2] = ["foreground", "background"];
const OF_A_CHAT: [&str; 9] =
    ["count", "ok", "deferred", "failed", "refused", "truncated", "ok_ratio", "p50_ms", "p99_ms"];
const OF_DEFERRED: [&str; 10] =
    ["count", "done", "expired", "discarded", "refreshed", "dead", "in_doubt", "pending", "merged", "oldest_s"];

/// Whether a metric of this name exists, and whether it can be asked for a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// `during` may narrow it.
    Windowed,
    /// It describes the whole run.
    WholeRun,
    No,
}

/// **Source:** scenario.md "Metrics"; what needs events that the engine does not have yet is not known.
pub fn known(name: &str) -> Known {
    let parts: Vec<&str> = name.splitn(3, '.').collect();
    let axis = |text: &str| Axis::from_name(text).is_some();
    match parts.as_slice() {
        ["chat", class, what] if CLASSES.contains(class) && OF_A_CHAT.contains(what) => Known::Windowed,
        ["attempts_per_call" | "early_returns" | "duplicates_sent"] => Known::Windowed,
        ["herd_index"] => Known::WholeRun,
        ["detect_s" | "recover_s" | "episodes", text] if axis(text) => Known::WholeRun,
        ["holds" | "transitions", text] if axis(text) => Known::Windowed,
        ["deferred", "pending" | "oldest_s"] => Known::WholeRun,
        ["deferred", what] if OF_DEFERRED.contains(what) => Known::Windowed,
        ["embeddings", "queued" | "drained" | "failed"] => Known::Windowed,
        ["advisories", "full" | "short"] => Known::Windowed,
        ["sessions", "asked" | "started" | "deferred" | "active_max"] => Known::Windowed,
        ["notices", "sent" | "undelivered"] | ["webhook", "delivered" | "undelivered"] => Known::Windowed,
        ["requests", ..] if parts.len() > 1 && !parts[1].is_empty() => Known::Windowed,
        _ => Known::No,
    }
}

const TOLD: [&str; 4] = ["notices.sent", "notices.undelivered", "webhook.delivered", "webhook.undelivered"];

/// The metric that counts this event of telling people or programs.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other event tells anybody anything")]
fn told(event: &Event) -> Option<&'static str> {
    match event {
        Event::NoticeSent { .. } => Some(TOLD[0]),
        Event::NoticeUndelivered { .. } => Some(TOLD[1]),
        Event::WebhookDelivered { .. } => Some(TOLD[2]),
        Event::WebhookUndelivered { .. } => Some(TOLD[3]),
        _ => None,
    }
}

#[derive(Debug, Default)]
struct Chat {
    ok: u64,
    deferred: u64,
    refused: u64,
    truncated: u64,
    failed: u64,
    latencies_ms: Vec<u64>,
}

#[derive(Debug, Default)]
struct Sessions {
    seen: bool,
    asked: u64,
    started: u64,
    deferred: BTreeSet<u64>,
    active: BTreeSet<u64>,
    active_max: u64,
}

impl Sessions {
    fn engine(&mut self, event: &Event, counts: bool) {
        if let Event::SessionAsked { .. } = event {
            self.seen = true;
            self.asked += u64::from(counts);
        } else if let Event::SessionStarted { session, .. } = event {
            self.started += u64::from(counts);
            self.active.insert(*session);
        } else if let Event::SessionDeferred { session, .. } = event {
            if counts {
                self.deferred.insert(*session);
            }
        } else if let Event::SessionEnded { session, .. } = event {
            self.active.remove(session);
        }
        if counts {
            self.active_max = self.active_max.max(self.active.len() as u64);
        }
    }
}

/// Collects over `[from, to)`, or over the whole run.
#[derive(Debug)]
pub struct Metrics {
    window: Option<(u64, u64)>,
    chats: BTreeMap<String, Chat>,
    calls: u64,
    attempts: u64,
    early: u64,
    first_fault: Option<u64>,
    fault_ends: Vec<u64>,
    holds: BTreeMap<Axis, u64>,
    transitions: BTreeMap<Axis, u64>,
    unfinished: BTreeMap<u64, u64>,
    deferred: u64,
    merged: u64,
    finished: BTreeMap<&'static str, u64>,
    /// Keys whose message has an occasion: never to be said twice.
    occasions: BTreeSet<String>,
    delivered: BTreeMap<(String, u32), u64>,
    duplicates: u64,
    waiting: BTreeSet<u64>,
    embeddings_queued: u64,
    embeddings_drained: u64,
    embeddings_failed: u64,
    full: u64,
    short: u64,
    sessions: Sessions,
    /// By name.
    told: BTreeMap<&'static str, u64>,
    requests: BTreeMap<String, u64>,
    /// Requests (not probes) per second of the minute after each return of cloud to its baseline.
    herds: Vec<(u64, Vec<u64>)>,
    cloud_was_ill: bool,
}

impl Metrics {
    pub fn new(window: Option<(u64, u64)>) -> Metrics {
        Metrics {
            window,
            chats: BTreeMap::new(),
            calls: 0,
            attempts: 0,
            early: 0,
            first_fault: None,
            fault_ends: Vec::new(),
            holds: BTreeMap::new(),
            transitions: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            deferred: 0,
            merged: 0,
            finished: BTreeMap::new(),
            occasions: BTreeSet::new(),
            delivered: BTreeMap::new(),
            duplicates: 0,
            waiting: BTreeSet::new(),
            embeddings_queued: 0,
            embeddings_drained: 0,
            embeddings_failed: 0,
            full: 0,
            short: 0,
            sessions: Sessions::default(),
            told: TOLD.into_iter().map(|name| (name, 0)).collect(),
            requests: BTreeMap::new(),
            herds: Vec::new(),
            cloud_was_ill: false,
        }
    }

    pub fn window(&self) -> Option<(u64, u64)> {
        self.window
    }

    fn counts(&self, t_ms: u64) -> bool {
        self.window.is_none_or(|(from, to)| from <= t_ms && t_ms < to)
    }

    /// `levels` has seen this entry already.
    pub fn entry(&mut self, entry: &Entry, levels: &Levels) {
        match &entry.what {
            What::Engine(event) => self.engine(entry.t_ms, event, levels),
            What::Outside(outside) => self.outside(entry.t_ms, outside),
            What::World(World::FaultStarted { .. }) => {
                self.first_fault.get_or_insert(entry.t_ms);
            }
            What::World(World::FaultEnded { .. }) => self.fault_ends.push(entry.t_ms),
            What::World(
                World::RunStarted { .. }
                | World::Healed
                | World::EngineKilled { .. }
                | World::EngineRestarted
                | World::RunEnded,
            ) => {}
        }
    }

    fn engine(&mut self, t_ms: u64, event: &Event, levels: &Levels) {
        // What must be known from before the window.
        if let Event::OutreachIntended { key, occasion: Some(_), .. } = event {
            self.occasions.insert(key.clone());
        }
        if let Event::EmbeddingQueued { memory, .. } = event {
            self.waiting.insert(*memory);
        }
        let drained = if let Event::EmbeddingEmbedded { memory } = event { self.waiting.remove(memory) } else { false };
        if let Event::AxisChanged { axis: Axis::Cloud, to, .. } = event {
            let healthy = levels.is_baseline(Axis::Cloud, *to);
            if healthy && self.cloud_was_ill {
                self.herds.push((t_ms, vec![0; 60]));
            }
            self.cloud_was_ill = !healthy;
        }
        self.sessions.engine(event, self.counts(t_ms));
        if !self.counts(t_ms) {
            return;
        }
        if let Event::CallFinished { outcome, .. } = event {
            // A call that nothing could be asked for has no attempts to share out.
            self.calls += u64::from(*outcome != CallOutcome::Refused);
        }
        if let Event::AttemptSent { call: Some(_), .. } = event {
            self.attempts += 1;
        }
        if let Event::HoldStarted { axis, restarted: false, .. } = event {
            *self.holds.entry(*axis).or_default() += 1;
        }
        if let Event::AxisChanged { axis, .. } = event {
            *self.transitions.entry(*axis).or_default() += 1;
        }
        if let Event::DeferredQueued { id, merged, .. } = event {
            if *merged {
                self.merged += 1;
            } else {
                self.deferred += 1;
                self.unfinished.insert(*id, t_ms);
            }
        }
        if let Event::DeferredFinished { id, status, .. } = event {
            *self.finished.entry(status.name()).or_default() += 1;
            self.unfinished.remove(id);
        }
        if let Event::EmbeddingQueued { .. } = event {
            self.embeddings_queued += 1;
        }
        if let Some(count) = told(event).and_then(|name| self.told.get_mut(name)) {
            *count += 1;
        }
        if let Event::EmbeddingFailed { .. } = event {
            self.embeddings_failed += 1;
        }
        self.embeddings_drained += u64::from(drained);
    }

    fn outside(&mut self, t_ms: u64, event: &Outside) {
        if let Outside::ChatAnswered { class, outcome, asked_ms, .. } = event
            && self.counts(*asked_ms)
        {
            let chat = self.chats.entry(class.clone()).or_default();
            match outcome.as_str() {
                "ok" => {
                    chat.ok += 1;
                    chat.latencies_ms.push(t_ms - asked_ms);
                }
                "deferred" => chat.deferred += 1,
                "refused" => chat.refused += 1,
                "truncated" => chat.truncated += 1,
                _ => chat.failed += 1,
            }
        }
        if let Outside::ProviderRequest { probe: false, .. } = event
            && let Some((back_at, seconds)) = self.herds.last_mut()
            && t_ms < *back_at + HERD_WINDOW_MS
        {
            seconds[((t_ms - *back_at) / 1_000) as usize] += 1;
        }
        if let Outside::ChannelRequest { key, part, status, content, .. } = event
            && (200..300).contains(status)
        {
            self.delivery(t_ms, key.as_ref().unwrap_or(content), *part);
        }
        if !self.counts(t_ms) {
            return;
        }
        if let Outside::ProviderRequest { entry, early, .. } = event {
            *self.requests.entry(entry.as_str().to_owned()).or_default() += 1;
            self.early += u64::from(*early);
        }
        if let Outside::RecallAnswered { advisory: Some(advisory), .. } = event {
            match advisory.form {
                AdvisoryForm::Full => self.full += 1,
                AdvisoryForm::Short => self.short += 1,
            }
        }
    }

    fn delivery(&mut self, t_ms: u64, key: &str, part: u32) {
        let before = self.delivered.insert((key.to_owned(), part), t_ms);
        let repeatable = !self.occasions.contains(key);
        let duplicate = before.is_some_and(|at| !repeatable || t_ms - at < REPEATABLE_AFTER.ms());
        self.duplicates += u64::from(duplicate && self.counts(t_ms));
    }

    /// All that have a value, by name.
    pub fn values(&self, levels: &Levels) -> BTreeMap<String, Value> {
        let mut values = BTreeMap::new();
        let mut put = |name: String, value: Value| {
            assert!(known(&name) != Known::No, "the metric {name} is missing in the list of names");
            if self.window.is_none() || known(&name) == Known::Windowed {
                values.insert(name, value);
            }
        };
        for (class, chat) in &self.chats {
            chat.values(class, &mut put);
        }
        if self.calls > 0 {
            put("attempts_per_call".into(), Value::real(self.attempts as f64 / self.calls as f64));
        }
        put("early_returns".into(), Value::Count(self.early));
        put("duplicates_sent".into(), Value::Count(self.duplicates));
        for axis in Axis::ALL {
            let of = |counts: &BTreeMap<Axis, u64>| Value::Count(counts.get(&axis).copied().unwrap_or_default());
            put(format!("holds.{axis}"), of(&self.holds));
            put(format!("transitions.{axis}"), of(&self.transitions));
            let episodes = levels.episodes(axis);
            put(format!("episodes.{axis}"), Value::Count(episodes.len() as u64));
            if let Some(ms) = self.detected(&episodes) {
                put(format!("detect_s.{axis}"), Value::real(seconds(ms)));
            }
            if let Some(ms) = self.recovered(&episodes) {
                put(format!("recover_s.{axis}"), Value::real(seconds(ms)));
            }
        }
        for status in [
            ItemStatus::Done,
            ItemStatus::Expired,
            ItemStatus::Discarded,
            ItemStatus::Refreshed,
            ItemStatus::Dead,
            ItemStatus::InDoubt,
        ] {
            let count = self.finished.get(status.name()).copied().unwrap_or_default();
            put(format!("deferred.{}", status.name()), Value::Count(count));
        }
        put("deferred.count".into(), Value::Count(self.deferred));
        put("deferred.merged".into(), Value::Count(self.merged));
        put("deferred.pending".into(), Value::Count(self.unfinished.len() as u64));
        if let Some(oldest) = self.unfinished.values().min() {
            put("deferred.oldest_s".into(), Value::real(seconds(levels.end() - oldest)));
        }
        put("embeddings.queued".into(), Value::Count(self.embeddings_queued));
        put("embeddings.drained".into(), Value::Count(self.embeddings_drained));
        put("embeddings.failed".into(), Value::Count(self.embeddings_failed));
        put("advisories.full".into(), Value::Count(self.full));
        put("advisories.short".into(), Value::Count(self.short));
        if self.sessions.seen {
            put("sessions.asked".into(), Value::Count(self.sessions.asked));
            put("sessions.started".into(), Value::Count(self.sessions.started));
            put("sessions.deferred".into(), Value::Count(self.sessions.deferred.len() as u64));
            put("sessions.active_max".into(), Value::Count(self.sessions.active_max));
        }
        for (name, count) in &self.told {
            put((*name).to_owned(), Value::Count(*count));
        }
        for (entry, count) in &self.requests {
            put(format!("requests.{entry}"), Value::Count(*count));
        }
        if let Some(index) = self.herd_index() {
            put("herd_index".into(), Value::real(index));
        }
        values
    }

    /// Deferred work by what became of it; what is still there stands under `pending`.
    pub fn ledger(&self) -> BTreeMap<String, u64> {
        let mut ledger: BTreeMap<String, u64> =
            self.finished.iter().map(|(status, count)| ((*status).to_owned(), *count)).collect();
        ledger.insert("deferred".into(), self.deferred);
        if !self.unfinished.is_empty() {
            ledger.insert("pending".into(), self.unfinished.len() as u64);
        }
        ledger
    }

    fn detected(&self, episodes: &[(u64, Option<u64>)]) -> Option<u64> {
        let fault = self.first_fault?;
        episodes.iter().map(|(start, _)| *start).find(|start| *start >= fault).map(|start| start - fault)
    }

    fn recovered(&self, episodes: &[(u64, Option<u64>)]) -> Option<u64> {
        episodes
            .iter()
            .filter_map(|(start, end)| {
                let end = (*end)?;
                let healed = self.fault_ends.iter().filter(|at| *start <= **at && **at <= end).max()?;
                Some(end - healed)
            })
            .max()
    }

    fn herd_index(&self) -> Option<f64> {
        self.herds
            .iter()
            .filter_map(|(_, per_second)| {
                let peak = *per_second.iter().max()?;
                let all: u64 = per_second.iter().sum();
                (all > 0).then(|| peak as f64 / (all as f64 / per_second.len() as f64))
            })
            .max_by(f64::total_cmp)
    }
}

impl Chat {
    fn values(&self, class: &str, put: &mut impl FnMut(String, Value)) {
        let failed = self.failed + self.refused + self.truncated;
        let count = self.ok + self.deferred + failed;
        for (what, value) in [
            ("count", count),
            ("ok", self.ok),
            ("deferred", self.deferred),
            ("failed", failed),
            ("refused", self.refused),
            ("truncated", self.truncated),
        ] {
            put(format!("chat.{class}.{what}"), Value::Count(value));
        }
        if count > 0 {
            put(format!("chat.{class}.ok_ratio"), Value::real(self.ok as f64 / count as f64));
        }
        let mut sorted = self.latencies_ms.clone();
        sorted.sort_unstable();
        for (what, percent) in [("p50_ms", 50), ("p99_ms", 99)] {
            if let Some(value) = percentile(&sorted, percent) {
                put(format!("chat.{class}.{what}"), Value::Count(value));
            }
        }
    }
}

/// The smallest sample that at least `percent` of all samples do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests;
