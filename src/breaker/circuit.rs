//! The breaker proper: CLOSED, OPEN, HALF_OPEN, and what moves it.
//!
//! ```text
//! CLOSED --failures in a row, or their rate--> OPEN --timer, or a last-resort probe's success--> HALF_OPEN
//!    ^                                          ^  failed trial (a trip), throttled trial or no verdict (none)  |
//!    +------ successes_to_close, spaced --------+---------------------------------------------------------------+
//! ```
//! Each opening raises the generation; what was admitted under an older one changes nothing. Who may pass, the trial's slot
//! and its deadline are the gate's. Invariants: BREAKER-1, BREAKER-2. **Source:** engine.md 3 (breaker).

use super::admission::GateRules;
use crate::base::{MonoTime, Span};
use crate::event::OpenWhy;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Trips that a restart brings back at most.
pub const RESTORED_TRIPS_MAX: u32 = 3;
/// Results kept for the rate rule: of more than this inside the window, the newest speak.
pub const WINDOW_LEN_MAX: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum Phase {
    Closed,
    Open { until: MonoTime },
    HalfOpen { since: MonoTime, successes: u32, counted_at: Option<MonoTime> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Counted {
    attempt: u64,
    at: MonoTime,
    failed: bool,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Opened { trips: u32, until: MonoTime, why: OpenWhy },
    HalfOpened { by_probe: bool },
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circuit {
    phase: Phase,
    generation: u64,
    /// Openings in a row that a trip caused, since it was last closed.
    trips: u32,
    /// Attempts that failed in a row, oldest first.
    streak: Vec<u64>,
    window: VecDeque<Counted>,
}

impl Default for Circuit {
    fn default() -> Self {
        Circuit { phase: Phase::Closed, generation: 0, trips: 0, streak: Vec::new(), window: VecDeque::new() }
    }
}

impl Circuit {
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Rises with each opening.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn trips(&self) -> u32 {
        self.trips
    }

    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// An attempt admitted while closed succeeded.
    pub fn success(&mut self, attempt: u64, now: MonoTime, rules: &GateRules) {
        self.streak.clear();
        self.count(Counted { attempt, at: now, failed: false }, rules.breaker.rate_window);
    }

    /// An attempt admitted while closed failed. A success never opens a breaker, so the rate is looked at here only.
    pub fn failure(&mut self, attempt: u64, now: MonoTime, rules: &GateRules) -> Option<Move> {
        assert!(self.is_closed(), "BREAKER-1: a failure is counted in {:?}", self.phase);
        self.streak.push(attempt);
        self.count(Counted { attempt, at: now, failed: true }, rules.breaker.rate_window);
        if self.streak.len() >= rules.breaker.failures_max as usize {
            return Some(self.trip(OpenWhy::Consecutive, now, rules));
        }
        let total = self.window.len();
        let failed = self.window.iter().filter(|counted| counted.failed).count();
        // The small term keeps 8 of 20 at a rate of 0.4, whatever the binary fraction says.
        let rate_reached = failed as f64 + 1e-9 >= rules.breaker.rate * total as f64;
        if total >= rules.breaker.rate_min as usize && rate_reached {
            return Some(self.trip(OpenWhy::Rate, now, rules));
        }
        None
    }

    /// OPEN -> HALF_OPEN, by the timer.
    pub fn half_open(&mut self, now: MonoTime) -> Move {
        assert!(matches!(self.phase, Phase::Open { .. }), "BREAKER-1: half-open after {:?}", self.phase);
        self.phase = Phase::HalfOpen { since: now, successes: 0, counted_at: None };
        Move::HalfOpened { by_probe: false }
    }

    /// A last-resort probe succeeded at an open breaker: HALF_OPEN, and the first of the successes that close it.
    pub fn probed(&mut self, now: MonoTime, rules: &GateRules) -> Vec<Move> {
        self.half_open(now);
        let mut moves = vec![Move::HalfOpened { by_probe: true }];
        moves.extend(self.trial_succeeded(now, rules));
        moves
    }

    /// A trial succeeded. One that follows the last counted one too closely is welcome, but proves nothing new.
    pub fn trial_succeeded(&mut self, now: MonoTime, rules: &GateRules) -> Option<Move> {
        let Phase::HalfOpen { since, successes, counted_at } = self.phase else {
            panic!("BREAKER-1: a trial is judged in {:?}", self.phase);
        };
        if counted_at.is_some_and(|at| now - at < rules.breaker.success_spacing) {
            return None;
        }
        let successes = successes + 1;
        if successes < rules.breaker.successes_to_close {
            self.phase = Phase::HalfOpen { since, successes, counted_at: Some(now) };
            return None;
        }
        self.phase = Phase::Closed;
        self.trips = 0;
        self.streak.clear();
        self.window.clear();
        Some(Move::Closed)
    }

    /// A trial failed, or its deadline passed: a trip.
    pub fn trial_failed(&mut self, now: MonoTime, rules: &GateRules) -> Move {
        assert!(matches!(self.phase, Phase::HalfOpen { .. }), "BREAKER-1: a trial is judged in {:?}", self.phase);
        self.trip(OpenWhy::TrialFailed, now, rules)
    }

    /// A trial was answered throttled or quota: open until that wait is over, no trip.
    pub fn trial_throttled(&mut self, until: MonoTime) -> Move {
        assert!(matches!(self.phase, Phase::HalfOpen { .. }), "BREAKER-2: a trial is judged in {:?}", self.phase);
        self.open(OpenWhy::TrialThrottled, until)
    }

    /// HALF_OPEN for too long without a verdict: open for the base time, no trip.
    pub fn no_verdict(&mut self, now: MonoTime, rules: &GateRules) -> Move {
        assert!(matches!(self.phase, Phase::HalfOpen { .. }), "BREAKER-1: no verdict in {:?}", self.phase);
        self.open(OpenWhy::NoVerdict, now + rules.open)
    }

    /// Poison: takes counted failures back. An opened breaker stays open.
    pub fn forgive(&mut self, attempts: &[u64]) {
        self.streak.retain(|attempt| !attempts.contains(attempt));
        self.window.retain(|counted| !(counted.failed && attempts.contains(&counted.attempt)));
    }

    /// After a restart: OPEN and HALF_OPEN come back as OPEN with the remaining time (none for HALF_OPEN), at most
    /// `until_max`, and few trips. What was under way before counts no more.
    pub fn restore(&mut self, now: MonoTime, until_max: MonoTime) -> Option<Move> {
        self.window.retain(|counted| counted.at <= now);
        self.trips = self.trips.min(RESTORED_TRIPS_MAX);
        match self.phase {
            Phase::Closed => {
                self.generation += 1;
                None
            }
            Phase::Open { until } => Some(self.open(OpenWhy::Restored, until.min(until_max))),
            Phase::HalfOpen { .. } => Some(self.open(OpenWhy::Restored, now)),
        }
    }

    fn count(&mut self, counted: Counted, window: Span) {
        let now = counted.at;
        // Oldest first, so only the front can have left the window.
        while self.window.front().is_some_and(|oldest| !oldest.at.in_window(now, window)) {
            self.window.pop_front();
        }
        if self.window.len() == WINDOW_LEN_MAX {
            self.window.pop_front();
        }
        self.window.push_back(counted);
    }

    fn trip(&mut self, why: OpenWhy, now: MonoTime, rules: &GateRules) -> Move {
        self.trips = self.trips.saturating_add(1);
        self.open(why, now + open_time(self.trips, rules))
    }

    fn open(&mut self, why: OpenWhy, until: MonoTime) -> Move {
        self.generation += 1;
        self.phase = Phase::Open { until };
        self.streak.clear();
        self.window.clear();
        Move::Opened { trips: self.trips, until, why }
    }
}

/// How long trip number `trips` (from 1) keeps it open: the base, doubling, capped.
pub fn open_time(trips: u32, rules: &GateRules) -> Span {
    assert!(trips > 0, "BREAKER-1: an open time belongs to a trip");
    let doublings = 1_u64.checked_shl(trips - 1).unwrap_or(u64::MAX);
    Span::from_ms(rules.open.ms().saturating_mul(doublings)).min(rules.breaker.open_max)
}
