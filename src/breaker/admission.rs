//! What goes in and out of a gate: who asks, what was admitted, why not, and what a step did.
//!
//! **Source:** engine.md 3 (breaker, park); events.md (`breaker.*`, `park.*`).

use super::circuit::Move;
use super::park::ParkOrder;
use crate::base::rules::{BreakerRules, ParkRules};
use crate::base::{EntryName, MonoTime, Rules, Span};
use crate::event::{Event, OpenWhy, ParkScope};
use serde::{Deserialize, Serialize};

/// The numbers one gate works with.
#[derive(Clone, Debug, PartialEq)]
pub struct GateRules {
    pub breaker: BreakerRules,
    pub park: ParkRules,
    /// Base open time of this entry: `open` or `open_local`.
    pub open: Span,
    /// Trial deadline of an answer that is not streamed (`call.first_byte`).
    pub trial_deadline_whole: Span,
}

impl GateRules {
    pub fn new(rules: &Rules, local: bool) -> GateRules {
        let open = if local { rules.breaker.open_local } else { rules.breaker.open };
        GateRules {
            breaker: rules.breaker.clone(),
            park: rules.park.clone(),
            open,
            trial_deadline_whole: rules.call.first_byte,
        }
    }
}

/// Who asks to be admitted. `attempt` is unique per attempt (the number in `attempt.sent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub attempt: u64,
    pub probe: bool,
    pub stream: bool,
}

/// One admission; given back with [`Gate::settle`], exactly once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an admission that is not settled blocks a trial's slot until its deadline"]
pub struct Permit {
    pub(super) attempt: u64,
    pub(super) generation: u64,
    pub(super) at: MonoTime,
    pub(super) probe: bool,
    /// The breaker was half-open at the admission.
    pub(super) trial: bool,
    /// The breaker was open at the admission: a last-resort probe.
    pub(super) on_open: bool,
    /// Its first token was seen: a trial's verdict is given.
    pub(super) judged: bool,
    /// Only of one that holds the slot.
    pub(super) deadline: Option<MonoTime>,
}

impl Permit {
    pub fn attempt(&self) -> u64 {
        self.attempt
    }
    pub fn is_probe(&self) -> bool {
        self.probe
    }
    /// A trial of a half-open breaker.
    pub fn is_trial(&self) -> bool {
        self.trial
    }
    /// Holds the entry's only slot: a trial of a half-open breaker, a confirmation after a park, or a last-resort probe.
    pub fn holds_slot(&self) -> bool {
        self.deadline.is_some()
    }
    /// A slot holder's end: the engine ends the attempt as timed out when no first token (or answer) came by then.
    pub fn deadline(&self) -> Option<MonoTime> {
        self.deadline
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalWhy {
    /// The provider is disabled (by configuration or for a bad key).
    Disabled,
    Open,
    Parked,
    /// Another call holds the only slot.
    Busy,
    /// A probe holds the only slot: a foreground call waits for it.
    BusyProbe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub why: RefusalWhy,
    /// The earliest time at which it can work again; `None`: not by itself.
    pub earliest: Option<MonoTime>,
}

/// What an answer said beside its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The wait it stated, 0 for one in the past.
    pub hint: Option<Span>,
    /// What a park on it stands on.
    pub scope: ParkScope,
}

impl Evidence {
    pub const NONE: Evidence = Evidence { hint: None, scope: ParkScope::Model };
}

/// What a step of the gate did, in order. Each is one event, see [`GateEffect::event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateEffect {
    BreakerOpened {
        trips: u32,
        until: MonoTime,
        why: OpenWhy,
    },
    BreakerHalfOpen {
        by_probe: bool,
    },
    BreakerClosed,
    /// `until`: when this entry's park ends now. For a wider scope the engine passes `order` on with [`Gate::share_park`].
    ParkStarted {
        until: MonoTime,
        order: ParkOrder,
    },
    ParkEnded,
}

impl From<Move> for GateEffect {
    fn from(step: Move) -> GateEffect {
        match step {
            Move::Opened { trips, until, why } => GateEffect::BreakerOpened { trips, until, why },
            Move::HalfOpened { by_probe } => GateEffect::BreakerHalfOpen { by_probe },
            Move::Closed => GateEffect::BreakerClosed,
        }
    }
}

impl GateEffect {
    pub fn event(&self, entry: &EntryName) -> Event {
        let entry = entry.clone();
        match *self {
            GateEffect::BreakerOpened { trips, until, why } => {
                Event::BreakerOpened { entry, trips, until_ms: until.ms(), why }
            }
            GateEffect::BreakerHalfOpen { by_probe } => Event::BreakerHalfOpen { entry, by_probe },
            GateEffect::BreakerClosed => Event::BreakerClosed { entry },
            GateEffect::ParkStarted { until, order } => Event::ParkStarted {
                entry,
                scope: order.scope,
                until_ms: until.ms(),
                hint_ms: order.hint.map(Span::ms),
                why: order.why,
            },
            GateEffect::ParkEnded => Event::ParkEnded { entry },
        }
    }
}

/// What became of an attempt. `late`: admitted before the breaker's last trip, so it changed nothing at the breaker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    pub late: bool,
    pub effects: Vec<GateEffect>,
}
