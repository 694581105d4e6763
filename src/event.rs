//! What the engine says it did: one typed, versioned, serialisable event per decision.
//!
//! Written to the journal in the transaction of the decision, and offered to the process's surroundings through the
//! notify port. The harness judges runs from these and from what the outside saw, nothing else. Names and fields may
//! be added; a name changes only with [`SCHEMA`].
//! **Units:** `*_ms` moments are [`MonoTime`](crate::base::MonoTime) milliseconds; `hint_ms` is a length in milliseconds.
//! **Source:** engine.md 11, events.md.

use crate::base::{
    Axis, AxisLevels, CallClass, CallOutcome, EntryName, ItemStatus, Level, NoticePart, NoticeWhat, Outcome, Policy,
    Rules, SessionClass, SessionOutcome,
};
use serde::{Deserialize, Serialize};

/// Version of the vocabulary.
pub const SCHEMA: u32 = 1;

/// What a park stands on: the narrowest thing the evidence speaks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParkScope {
    /// This entry only.
    Model,
    /// Every entry of the provider.
    Provider,
    /// Every entry of every provider that uses the same key.
    Account,
}

/// Why a park was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParkWhy {
    Throttled,
    Quota,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenWhy {
    /// Enough failures in a row.
    Consecutive,
    /// Too large a share of the attempts in the window.
    Rate,
    /// A trial failed.
    TrialFailed,
    /// A trial was answered throttled or quota: no trip; open until that wait is over.
    TrialThrottled,
    /// Half-open for too long without a verdict: no trip.
    NoVerdict,
    /// Came back from the database after a restart.
    Restored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    Unknown,
    Healthy,
    Hint,
    Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Hint,
    Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvisoryForm {
    Full,
    Short,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvisoryScope {
    Process,
    Session,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event")]
pub enum Event {
    /// `rules` are the effective ones; `resumed`: the database held state of an earlier incarnation.
    #[serde(rename = "engine.started")]
    EngineStarted {
        schema: u32,
        incarnation: u64,
        resumed: bool,
        version: String,
        levels: AxisLevels,
        rules: Box<Rules>,
    },
    #[serde(rename = "engine.stopped")]
    EngineStopped { incarnation: u64, reason: String },

    /// The measured level of an axis is now another one than at the last measurement. What follows from it
    /// (`axis.changed`, `axis.suppressed`, or nothing inside a hold) comes right after.
    #[serde(rename = "axis.measured")]
    AxisMeasured { axis: Axis, level: Level },
    /// `measured` is the measured level at that instant: equal to `to` but when a hold begins at a 4th change.
    #[serde(rename = "axis.changed")]
    AxisChanged { axis: Axis, was: Level, to: Level, measured: Level, legacy: u8, cause: String },
    /// An improvement that did not happen: `to` was measured, the axis stays at `was`.
    #[serde(rename = "axis.suppressed")]
    AxisSuppressed { axis: Axis, was: Level, to: Level, cause: String },
    #[serde(rename = "hold.started")]
    HoldStarted { axis: Axis, until_ms: u64, restarted: bool },
    #[serde(rename = "hold.ended")]
    HoldEnded { axis: Axis },

    #[serde(rename = "breaker.opened")]
    BreakerOpened { entry: EntryName, trips: u32, until_ms: u64, why: OpenWhy },
    #[serde(rename = "breaker.half_open")]
    BreakerHalfOpen { entry: EntryName, by_probe: bool },
    #[serde(rename = "breaker.closed")]
    BreakerClosed { entry: EntryName },

    /// `hint_ms`: the wait that the answer stated, if it did.
    #[serde(rename = "park.started")]
    ParkStarted { entry: EntryName, scope: ParkScope, until_ms: u64, hint_ms: Option<u64>, why: ParkWhy },
    #[serde(rename = "park.ended")]
    ParkEnded { entry: EntryName },
    /// A bad key (it never worked): the provider is out until the configuration changes.
    #[serde(rename = "provider.disabled")]
    ProviderDisabled { provider: String, why: String },

    #[serde(rename = "call.started")]
    CallStarted { call: u64, chain: String, class: CallClass, stream: bool },
    /// `earliest_ms`: when the caller was told it can work again. `item`: the deferred item it runs for.
    #[serde(rename = "call.finished")]
    CallFinished {
        call: u64,
        outcome: CallOutcome,
        entry: Option<EntryName>,
        attempts: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        earliest_ms: Option<u64>,
    },
    /// `call` is `None` for a probe. `retry`: not the first attempt of this call at this provider.
    #[serde(rename = "attempt.sent")]
    AttemptSent { call: Option<u64>, entry: EntryName, attempt: u64, probe: bool, trial: bool, retry: bool },
    /// `late`: admitted before the breaker's last trip, so it changes nothing.
    /// `poison`: taken out of the breaker's counts, the request was at fault.
    #[serde(rename = "attempt.finished")]
    AttemptFinished {
        call: Option<u64>,
        entry: EntryName,
        attempt: u64,
        probe: bool,
        outcome: Outcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "is_false")]
        late: bool,
    },
    /// The breaker judges a streamed attempt at its first token; the rest of the stream follows.
    #[serde(rename = "attempt.first_token")]
    AttemptFirstToken { call: Option<u64>, entry: EntryName, attempt: u64 },
    /// A round of probes is over: the axes were measured.
    #[serde(rename = "probe.round")]
    ProbeRound { probes: u32 },
    /// The request was blamed: these entries' counted failures of it were taken back.
    #[serde(rename = "call.poison")]
    CallPoison { call: u64, entries: Vec<EntryName> },

    /// `merged`: `id` is the older item that took this one in.
    #[serde(rename = "deferred.queued")]
    DeferredQueued {
        id: u64,
        work_type: String,
        priority: u8,
        policy: Policy,
        depends_on: Vec<Axis>,
        merged: bool,
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before_ms: Option<u64>,
    },
    #[serde(rename = "deferred.run")]
    DeferredRun { id: u64, work_type: String, priority: u8, token: u64 },
    /// The time before which a scheduled item must not run has come.
    #[serde(rename = "deferred.ready")]
    DeferredReady { id: u64 },
    /// The item goes back to its place: refused, or failed with attempts left. Without `not_before_ms` it may run at
    /// once.
    #[serde(rename = "deferred.released")]
    DeferredReleased { id: u64, not_before_ms: Option<u64>, attempts: u32, reason: String },
    /// `was`: the status it ended from.
    #[serde(rename = "deferred.finished")]
    DeferredFinished { id: u64, status: ItemStatus, was: ItemStatus, reason: String },
    #[serde(rename = "lease.lost")]
    LeaseLost { id: u64 },

    #[serde(rename = "embedding.queued")]
    EmbeddingQueued { memory: u64, why: String },
    #[serde(rename = "embedding.upserted")]
    EmbeddingUpserted { memory: u64 },
    #[serde(rename = "embedding.embedded")]
    EmbeddingEmbedded { memory: u64 },
    #[serde(rename = "embedding.failed")]
    EmbeddingFailed { memory: u64, why: String },

    /// `llm`: it was work for a chat chain.
    #[serde(rename = "dead.added")]
    DeadAdded { id: u64, llm: bool, reason: String },

    /// A session wants a slot. Its number names it from here to its end, across restarts.
    #[serde(rename = "session.asked")]
    SessionAsked { session: u64, class: SessionClass },
    /// It waits as this deferred item; `reason` says for what.
    #[serde(rename = "session.deferred")]
    SessionDeferred { session: u64, class: SessionClass, item: u64, reason: String },
    /// Whoever waits for a deferred session came (back) or is gone: without one its item blocks nobody.
    #[serde(rename = "session.waiter")]
    SessionWaiter { session: u64, present: bool },
    /// It holds a slot from now on. `trial`: let in alone, to find out whether a limit or UNAVAILABLE is over.
    /// `item`: as what it waited.
    #[serde(rename = "session.started")]
    SessionStarted { session: u64, class: SessionClass, trial: bool, item: Option<u64> },
    /// It ended without a limit, or runs for 60 s without one: evidence that sessions work.
    #[serde(rename = "session.answered")]
    SessionAnswered { session: u64 },
    /// Its slot is free.
    #[serde(rename = "session.ended")]
    SessionEnded { session: u64, outcome: SessionOutcome },
    /// A limit was stated. `window` as the statement named it; `resets_in_ms` if it said so; `until_ms`: when, by what is
    /// known now, the limit of this window is over (our own back-off without a stated reset).
    #[serde(rename = "session.limited")]
    SessionLimited { session: u64, window: String, resets_in_ms: Option<u64>, until_ms: u64 },

    #[serde(rename = "outreach.intended")]
    OutreachIntended { key: String, recipient: String, purpose: String, occasion: Option<String> },
    #[serde(rename = "outreach.sent")]
    OutreachSent { key: String, recipient: String, purpose: String },
    #[serde(rename = "outreach.recorded")]
    OutreachRecorded { key: String, recipient: String, purpose: String },
    #[serde(rename = "outreach.duplicate")]
    OutreachDuplicate { key: String, recipient: String, purpose: String },
    #[serde(rename = "outreach.in_doubt")]
    OutreachInDoubt { key: String, recipient: String, purpose: String },

    /// People were told. `way`: `channel:NAME`, `webhook`, `status_file` or `stderr`. `axis`, `what` and `entry` are what
    /// it was made for and `occasion` names that; `also`: what changed soon after and is told with it.
    #[serde(rename = "notice.sent")]
    NoticeSent {
        axis: Axis,
        what: NoticeWhat,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<EntryName>,
        way: String,
        occasion: String,
        also: Vec<NoticePart>,
    },
    /// No way worked; `way` is the last that was tried.
    #[serde(rename = "notice.undelivered")]
    NoticeUndelivered {
        axis: Axis,
        what: NoticeWhat,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<EntryName>,
        way: String,
        occasion: String,
        also: Vec<NoticePart>,
    },
    /// The receiver took this transition. Applied ones are counted from 1 since the database was born.
    #[serde(rename = "webhook.delivered")]
    WebhookDelivered { transition: u64, tries: u32 },
    /// It was given up. Without a try: so many came after it that its turn never came.
    #[serde(rename = "webhook.undelivered")]
    WebhookUndelivered { transition: u64, tries: u32, why: String },

    #[serde(rename = "status.written")]
    StatusWritten { why: String },
    #[serde(rename = "status.failed")]
    StatusFailed { why: String },

    #[serde(rename = "advisory.state")]
    AdvisoryState { state: HealthState, evidence: Option<String> },
    /// `recall` is the logical recall this decision belongs to; `client` its declared key.
    #[serde(rename = "advisory.given")]
    AdvisoryGiven { recall: u64, severity: Severity, form: AdvisoryForm, scope: AdvisoryScope, client: Option<String> },
    /// How the dense path of a recall went: what the advisory's health is measured on.
    #[serde(rename = "recall.finished")]
    RecallFinished { recall: u64, dense: DenseResult, started_ms: u64 },

    #[serde(rename = "tick")]
    Tick { caught_up: bool },
    #[serde(rename = "journal.gap")]
    JournalGap { dropped: u64 },
}

/// What became of a recall's query embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenseResult {
    /// An embedding came back from a call that left the process.
    Ok,
    /// From the cache: says nothing about health.
    Cached,
    /// The call left the process and failed.
    Failed,
    /// Refused locally: breaker not closed, or parked for longer than 60 s.
    RefusedLocally,
    /// Refused locally, but by a park of at most 60 s: counts as a failed recall.
    RefusedShortly,
    /// Embeddings are off by configuration.
    Off,
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl Event {
    /// The name under which a history shows it, such as `"axis.changed"`.
    pub fn name(&self) -> &'static str {
        match self {
            Event::EngineStarted { .. } => "engine.started",
            Event::EngineStopped { .. } => "engine.stopped",
            Event::AxisMeasured { .. } => "axis.measured",
            Event::AxisChanged { .. } => "axis.changed",
            Event::AxisSuppressed { .. } => "axis.suppressed",
            Event::HoldStarted { .. } => "hold.started",
            Event::HoldEnded { .. } => "hold.ended",
            Event::BreakerOpened { .. } => "breaker.opened",
            Event::BreakerHalfOpen { .. } => "breaker.half_open",
            Event::BreakerClosed { .. } => "breaker.closed",
            Event::ParkStarted { .. } => "park.started",
            Event::ParkEnded { .. } => "park.ended",
            Event::ProviderDisabled { .. } => "provider.disabled",
            Event::CallStarted { .. } => "call.started",
            Event::CallFinished { .. } => "call.finished",
            Event::AttemptSent { .. } => "attempt.sent",
            Event::AttemptFinished { .. } => "attempt.finished",
            Event::AttemptFirstToken { .. } => "attempt.first_token",
            Event::ProbeRound { .. } => "probe.round",
            Event::CallPoison { .. } => "call.poison",
            Event::DeferredQueued { .. } => "deferred.queued",
            Event::DeferredRun { .. } => "deferred.run",
            Event::DeferredReady { .. } => "deferred.ready",
            Event::DeferredReleased { .. } => "deferred.released",
            Event::DeferredFinished { .. } => "deferred.finished",
            Event::LeaseLost { .. } => "lease.lost",
            Event::EmbeddingQueued { .. } => "embedding.queued",
            Event::EmbeddingUpserted { .. } => "embedding.upserted",
            Event::EmbeddingEmbedded { .. } => "embedding.embedded",
            Event::EmbeddingFailed { .. } => "embedding.failed",
            Event::DeadAdded { .. } => "dead.added",
            Event::SessionAsked { .. } => "session.asked",
            Event::SessionDeferred { .. } => "session.deferred",
            Event::SessionWaiter { .. } => "session.waiter",
            Event::SessionStarted { .. } => "session.started",
            Event::SessionAnswered { .. } => "session.answered",
            Event::SessionEnded { .. } => "session.ended",
            Event::SessionLimited { .. } => "session.limited",
            Event::OutreachIntended { .. } => "outreach.intended",
            Event::OutreachSent { .. } => "outreach.sent",
            Event::OutreachRecorded { .. } => "outreach.recorded",
            Event::OutreachDuplicate { .. } => "outreach.duplicate",
            Event::OutreachInDoubt { .. } => "outreach.in_doubt",
            Event::NoticeSent { .. } => "notice.sent",
            Event::NoticeUndelivered { .. } => "notice.undelivered",
            Event::WebhookDelivered { .. } => "webhook.delivered",
            Event::WebhookUndelivered { .. } => "webhook.undelivered",
            Event::StatusWritten { .. } => "status.written",
            Event::StatusFailed { .. } => "status.failed",
            Event::AdvisoryState { .. } => "advisory.state",
            Event::AdvisoryGiven { .. } => "advisory.given",
            Event::RecallFinished { .. } => "recall.finished",
            Event::Tick { .. } => "tick",
            Event::JournalGap { .. } => "journal.gap",
        }
    }
}
