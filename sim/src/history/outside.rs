//! What simulated servers and clients saw.

use serde::{Deserialize, Serialize};
use squall::base::{AxisLevels, EntryName, SessionClass};
pub use squall::event::{AdvisoryForm, AdvisoryScope, Severity};
use std::collections::BTreeMap;

/// What a client read in a recall answer's `advisory` field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenAdvisory {
    pub severity: Severity,
    /// Judged by the client from the text: the full one has the imperative "Notify the user:".
    pub form: AdvisoryForm,
    pub scope: AdvisoryScope,
    pub chars: u32,
}

/// What stood in the status file when the engine replaced it. `None` fields: the file did not parse.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenStatus {
    pub parses: bool,
    pub state: Option<AxisLevels>,
    pub degradation_level: Option<u8>,
    /// Axes in a hold, with its end.
    pub holds: BTreeMap<String, u64>,
    /// Length of the history field, and the newest transition in it as (axis, was, to).
    pub history_len: Option<u64>,
    pub newest: Option<(String, String, String)>,
    /// Improvements that a hold suppressed, since the database was born.
    pub suppressed: Option<u64>,
    /// `deferred_work_count` by status.
    pub deferred: BTreeMap<String, u64>,
    /// Breakers that are not closed, by entry.
    pub not_closed: Vec<String>,
    /// Length of `undelivered_notices`.
    #[serde(default)]
    pub undelivered_notices: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event")]
pub enum Outside {
    /// A request reached a provider's server. `early`: before a wait that this provider had stated was over.
    /// `request`: the client's own request id (header `x-client-request-id`), which names the engine's attempt.
    #[serde(rename = "provider.request")]
    ProviderRequest { entry: EntryName, probe: bool, early: bool, request: Option<u64>, stream: bool },
    /// The server's answer (or its lack): `what` is a short word, such as "ok", "errors", "hang", "cut".
    /// `wait_ms`: the wait that the answer stated.
    #[serde(rename = "provider.answered")]
    ProviderAnswered { entry: EntryName, request: Option<u64>, status: u16, what: String, wait_ms: Option<u64> },
    #[serde(rename = "channel.request")]
    ChannelRequest {
        channel: String,
        key: Option<String>,
        recipient: String,
        purpose: String,
        part: u32,
        status: u16,
        /// Blake3 of the message text, first 16 hex digits.
        content: String,
    },
    /// A request reached the webhook's receiver. `kind`: "transition" or "notice"; `what` a notice is made for.
    /// `try`: so many requests with this key came, `repeated`: one of the earlier ones was taken.
    #[serde(rename = "webhook.request")]
    WebhookRequest {
        server: String,
        key: Option<String>,
        kind: String,
        transition: Option<u64>,
        axis: String,
        was: String,
        to: String,
        what: String,
        r#try: u32,
        repeated: bool,
        status: u16,
    },
    #[serde(rename = "chat.answered")]
    ChatAnswered {
        load: u32,
        client: String,
        class: String,
        /// 0: no answer (connection refused or cut before a status).
        status: u16,
        /// "ok", "truncated", "refused", "deferred", "failed".
        outcome: String,
        asked_ms: u64,
        /// The engine's word on when to come back.
        retry_after_ms: Option<u64>,
    },
    #[serde(rename = "recall.answered")]
    RecallAnswered {
        load: u32,
        client: String,
        key: Option<String>,
        status: u16,
        hits: u32,
        advisory: Option<SeenAdvisory>,
    },
    #[serde(rename = "remember.answered")]
    RememberAnswered { load: u32, client: String, status: u16 },
    #[serde(rename = "defer.answered")]
    DeferAnswered { load: u32, client: String, status: u16, id: Option<u64>, merged: bool },
    #[serde(rename = "outreach.answered")]
    OutreachAnswered { load: u32, client: String, status: u16, what: String, key: Option<String> },
    /// A session's wrapper has ended. `status`: its exit code. `outcome`: "done", "failed", "limited", "not_started" or
    /// "lost" if the command ran; "deferred" if the work was left in the queue, "elsewhere" if it runs under another
    /// wrapper, "unreachable" without a daemon, "refused" by one.
    #[serde(rename = "session.answered")]
    SessionAnswered {
        load: u32,
        client: String,
        class: SessionClass,
        session: Option<u64>,
        status: i32,
        outcome: String,
        asked_ms: u64,
    },
    /// A session's command began or ended: what really runs, whatever anybody was told. `limit`: the window whose limit
    /// ended it. `session` is `None` for one that runs without a slot.
    #[serde(rename = "session.process")]
    SessionProcess { client: String, session: Option<u64>, class: SessionClass, running: bool, limit: Option<String> },
    /// The status file, `/v1/status` and the engine's tools were read at once; `agree`: on the levels of the axes.
    #[serde(rename = "status.read")]
    StatusRead { load: u32, client: String, status: u16, agree: bool },
    /// The engine replaced its status file.
    #[serde(rename = "status.file")]
    StatusFile { seen: Box<SeenStatus> },
    /// The process wrote a line to stderr.
    #[serde(rename = "stderr.line")]
    StderrLine { text: String },
}

impl Outside {
    pub fn name(&self) -> &'static str {
        match self {
            Outside::ProviderRequest { .. } => "provider.request",
            Outside::ProviderAnswered { .. } => "provider.answered",
            Outside::ChannelRequest { .. } => "channel.request",
            Outside::WebhookRequest { .. } => "webhook.request",
            Outside::ChatAnswered { .. } => "chat.answered",
            Outside::RecallAnswered { .. } => "recall.answered",
            Outside::RememberAnswered { .. } => "remember.answered",
            Outside::DeferAnswered { .. } => "defer.answered",
            Outside::OutreachAnswered { .. } => "outreach.answered",
            Outside::SessionAnswered { .. } => "session.answered",
            Outside::SessionProcess { .. } => "session.process",
            Outside::StatusRead { .. } => "status.read",
            Outside::StatusFile { .. } => "status.file",
            Outside::StderrLine { .. } => "stderr.line",
        }
    }
}
