//! Every number of the engine under its configuration key: values only, defaults included.
//!
//! `squall::config` reads these from TOML; machines get the part they need; the trace carries them whole in
//! `engine.started`, so that a check of a history knows which rules were in force.
//! **Source:** engine.md 12.

use super::level::Axis;
use super::name::EntryName;
use super::time::Span;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    pub flap: FlapRules,
    pub breaker: BreakerRules,
    pub call: CallRules,
    pub retry: RetryRules,
    pub park: ParkRules,
    pub cloud: CloudRules,
    pub queue: QueueRules,
    pub backlog: BacklogRules,
    pub sessions: SessionRules,
    pub recovery: RecoveryRules,
    pub tick: TickRules,
    pub status: StatusRules,
    pub notify: NotifyRules,
    pub disk: DiskRules,
    pub recall: RecallRules,
    pub advisory: AdvisoryRules,
    pub providers: Vec<ProviderRule>,
    pub chains: Vec<ChainRule>,
    pub channels: Vec<ChannelRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlapCount {
    /// Every change of level counts.
    Changes,
    /// A run of changes in one direction counts once.
    Runs,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlapRules {
    pub window: Span,
    /// More changes than this inside the window start a hold.
    pub transitions_max: u32,
    pub hold: Span,
    pub count: FlapCount,
    pub exempt: Vec<Axis>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BreakerRules {
    /// This many failures in a row open it.
    pub failures_max: u32,
    /// Or this share (0..1) of at least `rate_min` attempts in `rate_window`.
    pub rate: f64,
    pub rate_min: u32,
    pub rate_window: Span,
    pub open: Span,
    /// As `open`, for local providers.
    pub open_local: Span,
    pub open_max: Span,
    pub trial_deadline: Span,
    pub half_open_max: Span,
    pub successes_to_close: u32,
    pub success_spacing: Span,
    pub probe_every: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRules {
    pub attempts_foreground: u32,
    pub attempts_background: u32,
    pub attempts_max: u32,
    pub deadline: Span,
    pub connect: Span,
    pub first_byte: Span,
    pub first_byte_stream: Span,
    pub chunk: Span,
    pub total: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetryRules {
    pub base: Span,
    pub factor: f64,
    pub max: Span,
    /// Upward only: a wait is stretched by 0..jitter of itself.
    pub jitter: f64,
    /// Retries per provider and minute, as a share of its calls in that minute.
    pub budget: f64,
    pub budget_min_per_minute: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParkRules {
    pub base: Span,
    pub max: Span,
    pub hint_max: Span,
    /// A quota refusal without a stated reset parks this long.
    pub quota: Span,
    pub quota_max: Span,
    /// Answers in a row after a park before the entry serves again.
    pub confirmations: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CloudRules {
    pub dead_letters_max: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueRules {
    pub parallel: u32,
    pub pending_max: u32,
    pub discard_after: Span,
    pub sweep_every: Span,
    pub lease: Span,
    pub attempts_max: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BacklogRules {
    pub per_minute: u32,
    pub attempts_max: u32,
    pub retry_every: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRules {
    /// 0: without a limit.
    pub starts_per_hour: u32,
    pub active_max: u32,
    pub foreground_reserve: u32,
    pub throttle_at: f64,
    pub throttle_end: f64,
    pub backoff: Span,
    pub backoff_max: Span,
    /// Upward only: such a wait is stretched by 0..jitter of itself.
    pub jitter: f64,
    pub limit_max: Span,
    /// Answered sessions before sessions count as working again.
    pub confirmations: u32,
    pub answered_after: Span,
    pub failed_starts_max: u32,
    pub trial_every: Span,
    pub lease: Span,
    pub waiter_grace: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoveryRules {
    pub item_every: Vec<Span>,
    pub ramp_step: Span,
    pub write_probe_every: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TickRules {
    pub every: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusRules {
    pub every: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotifyRules {
    pub webhook_url: String,
    pub tries: u32,
    pub backoff: Span,
    pub coalesce: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskRules {
    /// Bytes.
    pub ballast: u64,
    /// Bytes.
    pub ahead: u64,
    pub probe_every: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecallRules {
    pub timeout: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdvisoryRules {
    pub enabled: bool,
    pub failures_to_fault: u32,
    pub keys_max: u32,
    pub evidence_chars_max: u32,
}

/// Which wire dialect a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    Openai,
    Anthropic,
    Mistral,
    Ollama,
    Qdrant,
}

impl Api {
    pub const ALL: [Api; 5] = [Api::Openai, Api::Anthropic, Api::Mistral, Api::Ollama, Api::Qdrant];
    pub const fn name(self) -> &'static str {
        match self {
            Api::Openai => "openai",
            Api::Anthropic => "anthropic",
            Api::Mistral => "mistral",
            Api::Ollama => "ollama",
            Api::Qdrant => "qdrant",
        }
    }
    pub fn from_name(name: &str) -> Option<Api> {
        Api::ALL.into_iter().find(|api| api.name() == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderRule {
    pub name: String,
    pub api: Api,
    /// `http://host:port` or `https://host`, an optional path prefix, no trailing slash.
    pub base_url: String,
    /// The environment variable that holds the key; empty: no key is sent.
    pub key_env: String,
    pub models: Vec<String>,
    /// A local one never moves the cloud axis and opens for `breaker.open_local`.
    pub local: bool,
    pub enabled: bool,
    pub dims: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChainUse {
    Chat,
    Embedding,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainRule {
    pub name: String,
    #[serde(rename = "use")]
    pub use_: ChainUse,
    /// As written: `"provider"` or `"provider/model"`. See [`Rules::entry`].
    pub entries: Vec<String>,
    pub essential: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRule {
    pub name: String,
    pub url: String,
}

impl Rules {
    pub fn provider(&self, name: &str) -> Option<&ProviderRule> {
        self.providers.iter().find(|provider| provider.name == name)
    }

    pub fn chain(&self, name: &str) -> Option<&ChainRule> {
        self.chains.iter().find(|chain| chain.name == name)
    }

    /// The entry that a chain's text means: a bare provider with declared models means its first model.
    pub fn entry(&self, text: &str) -> EntryName {
        if text.contains('/') {
            return EntryName::new(text);
        }
        let model = self.provider(text).and_then(|provider| provider.models.first());
        EntryName::of(text, model.map(String::as_str))
    }

    /// The chain's entries in order, resolved.
    pub fn entries(&self, chain: &ChainRule) -> Vec<EntryName> {
        chain.entries.iter().map(|text| self.entry(text)).collect()
    }

    /// Whether the entry's breaker moves the cloud axis: it stands in a chat chain, its provider is enabled and not local.
    pub fn counted_for_cloud(&self, entry: &EntryName) -> bool {
        let provider_counts =
            self.provider(entry.provider()).is_some_and(|provider| provider.enabled && !provider.local);
        provider_counts
            && self.chains.iter().any(|chain| chain.use_ == ChainUse::Chat && self.entries(chain).contains(entry))
    }
}

impl Default for FlapRules {
    fn default() -> Self {
        FlapRules {
            window: Span::from_mins(15),
            transitions_max: 3,
            hold: Span::from_mins(10),
            count: FlapCount::Changes,
            exempt: Vec::new(),
        }
    }
}

impl Default for BreakerRules {
    fn default() -> Self {
        BreakerRules {
            failures_max: 3,
            rate: 0.4,
            rate_min: 20,
            rate_window: Span::from_mins(5),
            open: Span::from_secs(120),
            open_local: Span::from_secs(60),
            open_max: Span::from_mins(30),
            trial_deadline: Span::from_secs(30),
            half_open_max: Span::from_mins(3),
            successes_to_close: 3,
            success_spacing: Span::from_secs(5),
            probe_every: Span::from_secs(10),
        }
    }
}

impl Default for CallRules {
    fn default() -> Self {
        CallRules {
            attempts_foreground: 2,
            attempts_background: 4,
            attempts_max: 6,
            deadline: Span::from_secs(120),
            connect: Span::from_secs(5),
            first_byte: Span::from_secs(120),
            first_byte_stream: Span::from_secs(30),
            chunk: Span::from_secs(30),
            total: Span::from_mins(10),
        }
    }
}

impl Default for RetryRules {
    fn default() -> Self {
        RetryRules {
            base: Span::from_ms(500),
            factor: 2.0,
            max: Span::from_secs(30),
            jitter: 0.25,
            budget: 0.2,
            budget_min_per_minute: 3,
        }
    }
}

impl Default for ParkRules {
    fn default() -> Self {
        ParkRules {
            base: Span::from_secs(5),
            max: Span::from_mins(5),
            hint_max: Span::from_hours(24),
            quota: Span::from_hours(4),
            quota_max: Span::from_days(35),
            confirmations: 3,
        }
    }
}

impl Default for CloudRules {
    fn default() -> Self {
        CloudRules { dead_letters_max: 25 }
    }
}

impl Default for QueueRules {
    fn default() -> Self {
        QueueRules {
            parallel: 4,
            pending_max: 1_000,
            discard_after: Span::from_hours(1),
            sweep_every: Span::from_secs(60),
            lease: Span::from_secs(120),
            attempts_max: 5,
        }
    }
}

impl Default for BacklogRules {
    fn default() -> Self {
        BacklogRules { per_minute: 10, attempts_max: 5, retry_every: Span::from_mins(10) }
    }
}

impl Default for SessionRules {
    fn default() -> Self {
        SessionRules {
            starts_per_hour: 20,
            active_max: 4,
            foreground_reserve: 1,
            throttle_at: 0.8,
            throttle_end: 0.6,
            backoff: Span::from_secs(30),
            backoff_max: Span::from_mins(30),
            jitter: 0.25,
            limit_max: Span::from_days(35),
            confirmations: 3,
            answered_after: Span::from_secs(60),
            failed_starts_max: 3,
            trial_every: Span::from_secs(60),
            lease: Span::from_secs(60),
            waiter_grace: Span::from_secs(5),
        }
    }
}

impl Default for RecoveryRules {
    fn default() -> Self {
        RecoveryRules {
            item_every: vec![Span::from_secs(8), Span::from_secs(4), Span::from_secs(2)],
            ramp_step: Span::from_secs(20),
            write_probe_every: Span::from_secs(10),
        }
    }
}

impl Default for TickRules {
    fn default() -> Self {
        TickRules { every: Span::from_mins(5) }
    }
}

impl Default for StatusRules {
    fn default() -> Self {
        StatusRules { every: Span::from_secs(60) }
    }
}

impl Default for NotifyRules {
    fn default() -> Self {
        NotifyRules { webhook_url: String::new(), tries: 4, backoff: Span::from_secs(1), coalesce: Span::from_secs(5) }
    }
}

impl Default for DiskRules {
    fn default() -> Self {
        DiskRules { ballast: 16 << 20, ahead: 8 << 20, probe_every: Span::from_secs(10) }
    }
}

impl Default for RecallRules {
    fn default() -> Self {
        RecallRules { timeout: Span::from_secs(3) }
    }
}

impl Default for AdvisoryRules {
    fn default() -> Self {
        AdvisoryRules { enabled: true, failures_to_fault: 2, keys_max: 256, evidence_chars_max: 300 }
    }
}
