//! The status object: what `GET /v1/status` answers and the status file holds.
//!
//! **Source:** engine.md 8 (status file). NOTIFY-1.

use super::core::Core;
use super::{Engine, Inner};
use crate::axis;
use crate::axis::history::Transition;
use crate::base::{Axis, AxisLevels, ItemStatus, Level, MonoTime, SessionClass, WallTime};
use crate::breaker::Phase;
use crate::event::{Event, HealthState};
use crate::notice::{Undelivered, UndeliveredKind};
use serde::Serialize;
use std::collections::BTreeMap;

/// Name of the file in the data directory.
pub const FILE: &str = "status.json";

/// Version of the status object.
pub const SCHEMA: u32 = 1;

/// **Units:** `*_ms` are milliseconds since the database was born; `*_at` are UTC.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    pub schema: u32,
    pub incarnation: u64,
    pub written_at: String,
    pub written_ms: u64,
    /// Since when the four levels are as they are.
    pub since: String,
    pub since_ms: u64,
    /// The applied levels.
    pub state: AxisLevels,
    pub measured: AxisLevels,
    /// Axes in a hold, and when it ends.
    pub holds: BTreeMap<&'static str, u64>,
    pub degradation_level: u8,
    pub degradation_name: &'static str,
    /// Applied transitions, oldest first.
    pub history: Vec<HistoryRow>,
    pub suppressed_count: u64,
    pub episodes: BTreeMap<&'static str, EpisodeRow>,
    pub deferred_work_count: BTreeMap<&'static str, u64>,
    pub dead_letter_count: u64,
    pub breakers: BTreeMap<String, BreakerRow>,
    /// Parked entries, and for how long still.
    pub parks: BTreeMap<String, ParkRow>,
    pub disabled: Vec<String>,
    pub sessions: SessionRow,
    pub recall: HealthState,
    /// What no channel and no webhook took, oldest first.
    pub undelivered_notices: Vec<UndeliveredRow>,
    /// One sentence.
    pub summary: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct HistoryRow {
    pub axis: Axis,
    pub was: Level,
    pub to: Level,
    pub at_ms: u64,
    pub at: String,
    pub cause: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct EpisodeRow {
    pub cause: String,
    pub failing_since_ms: u64,
    pub trips: u32,
}

#[derive(Clone, Debug, Serialize)]
pub struct BreakerRow {
    pub phase: &'static str,
    pub trips: u32,
    pub serves: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct ParkRow {
    pub left_ms: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct SessionRow {
    pub active: usize,
    pub by_class: BTreeMap<&'static str, usize>,
    pub starts_in_hour: usize,
    /// Of starts in an hour; 0: any number.
    pub budget: u32,
    pub completed: u64,
    /// Sessions that met a limit.
    pub limits_seen: u64,
    pub waiting: usize,
    /// When the limit in force is over, in milliseconds since the database was born.
    pub limited_until: Option<u64>,
    /// A limit is over, or sessions start again, and that is being proven one session at a time.
    pub confirming: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct UndeliveredRow {
    pub kind: UndeliveredKind,
    pub key: String,
    pub what: String,
    pub at_ms: u64,
    pub at: String,
    pub why: String,
}

impl Engine {
    /// A snapshot. Reading moves nothing.
    pub fn status(&self) -> Status {
        self.0.status()
    }
}

impl Inner {
    fn status(&self) -> Status {
        let core = self.core.borrow();
        let now = self.ports.clock.mono();
        let levels = core.levels();
        let legacy = axis::legacy(&levels);
        let since = core.axes.since();
        let count = |status| core.counts.get(&status).copied().unwrap_or(0);
        Status {
            schema: SCHEMA,
            incarnation: self.store.borrow().incarnation,
            written_at: utc(self.ports.clock.wall()),
            written_ms: now.ms(),
            since: utc(wall_of(&core, since, now)),
            since_ms: since.ms(),
            state: levels,
            measured: core.measured.levels,
            holds: Axis::ALL
                .into_iter()
                .filter_map(|axis| core.axes.get(axis).hold_until().map(|until| (axis.name(), until.ms())))
                .collect(),
            degradation_level: legacy.number(),
            degradation_name: legacy.name(),
            history: core.history.applied().map(history_row).collect(),
            suppressed_count: core.history.suppressed_count(),
            episodes: core
                .episodes
                .values()
                .map(|episode| {
                    let row = EpisodeRow {
                        cause: episode.cause.clone(),
                        failing_since_ms: episode.failing_since.ms(),
                        trips: episode.trips,
                    };
                    (episode.axis.name(), row)
                })
                .collect(),
            deferred_work_count: ItemStatus::ALL.into_iter().map(|status| (status.name(), count(status))).collect(),
            dead_letter_count: count(ItemStatus::Dead),
            breakers: core
                .entries
                .iter()
                .map(|(name, entry)| {
                    let row = BreakerRow {
                        phase: phase_name(entry.gate.phase()),
                        trips: entry.gate.trips(),
                        serves: entry.gate.serves(),
                    };
                    (name.as_str().to_owned(), row)
                })
                .collect(),
            parks: core
                .entries
                .iter()
                .filter_map(|(name, entry)| {
                    entry.gate.park_left(now).map(|left| (name.as_str().to_owned(), ParkRow { left_ms: left.ms() }))
                })
                .collect(),
            disabled: core.bad_keys.iter().cloned().collect(),
            sessions: session_row(&core, now),
            recall: core.health.state(),
            undelivered_notices: core.notices.undelivered().map(undelivered_row).collect(),
            summary: summary(&levels, &core.measured.cloud, count(ItemStatus::Pending)),
        }
    }

    /// Replaces the status file. A failure leaves the old one, and stderr says so: `false`.
    pub(super) fn write_status(&self, why: &str) -> bool {
        let status = self.status();
        let bytes = serde_json::to_vec(&status).expect("a status has no keys or numbers that JSON lacks");
        self.status_written.set(MonoTime(status.written_ms));
        let written = self.ports.disk.replace(FILE, &bytes);
        let is_written = written.is_ok();
        let event = match written {
            Ok(()) => Event::StatusWritten { why: why.to_owned() },
            Err(error) => {
                self.ports.notify.line(&format!("squalld: {FILE} cannot be written, the old one stays: {error}"));
                Event::StatusFailed { why: error.to_string() }
            }
        };
        self.decide(|core, _| core.events.push(event));
        is_written
    }
}

fn session_row(core: &Core, now: MonoTime) -> SessionRow {
    let sessions = &core.sessions;
    let of_class = |class| sessions.active().filter(|(_, active)| active.ask.class == class).count();
    SessionRow {
        active: sessions.active().count(),
        by_class: SessionClass::ALL.into_iter().map(|class| (class.name(), of_class(class))).collect(),
        starts_in_hour: sessions.starts_in_hour(now),
        budget: core.rules.sessions.starts_per_hour,
        completed: sessions.completed(),
        limits_seen: sessions.limits_seen(),
        waiting: core.waiting.len(),
        limited_until: sessions.limited_until().map(MonoTime::ms),
        confirming: sessions.is_confirming(),
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Closed => "closed",
        Phase::Open { .. } => "open",
        Phase::HalfOpen { .. } => "half_open",
    }
}

fn history_row(transition: &Transition) -> HistoryRow {
    HistoryRow {
        axis: transition.axis,
        was: transition.was,
        to: transition.to,
        at_ms: transition.at.ms(),
        at: utc(transition.wall),
        cause: transition.cause.clone(),
    }
}

fn undelivered_row(row: &Undelivered) -> UndeliveredRow {
    UndeliveredRow {
        kind: row.kind,
        key: row.key.clone(),
        what: row.what.clone(),
        at_ms: row.at.ms(),
        at: utc(row.wall),
        why: row.why.clone(),
    }
}

/// The wall clock's time at the newest transition; before the first, what it is now less what has gone by.
fn wall_of(core: &Core, at: MonoTime, now: MonoTime) -> WallTime {
    let newest = core.history.applied().next_back().filter(|newest| newest.at == at);
    newest.map_or(WallTime(core.wall.0.saturating_sub_unsigned((now - at).ms())), |newest| newest.wall)
}

fn summary(levels: &AxisLevels, cloud_cause: &str, pending: u64) -> String {
    let degraded: Vec<String> = Axis::ALL
        .into_iter()
        .filter(|axis| levels.get(*axis) != Level::Normal)
        .map(|axis| format!("{axis} is {}", levels.get(axis)))
        .collect();
    if degraded.is_empty() {
        return "Everything works.".to_owned();
    }
    let because = if levels.cloud == Level::Normal { String::new() } else { format!(" ({cloud_cause})") };
    let waiting = if pending == 0 { String::new() } else { format!("; {pending} deferred items wait") };
    format!("Degraded: {}{because}{waiting}.", degraded.join(", "))
}

pub(super) fn utc(wall: WallTime) -> String {
    jiff::Timestamp::from_millisecond(wall.0).map_or_else(|_| wall.0.to_string(), |at| at.to_string())
}
