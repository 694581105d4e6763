//! One entry's breaker, from its specification: what may and what must open it, and what proves it well again.
//!
//! Rows of failures are counted twice where the specification leaves a reading open (a stream cut after its first
//! token, a trial that ends after its breaker closed): `least` bounds what must open it, `most` what may.
//! **Units:** milliseconds. **Source:** engine.md 3 "Breaker".

use squall::base::rules::BreakerRules;
use std::collections::VecDeque;

/// A result, as far as a breaker cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    Success,
    Failure,
    /// Throttled or quota.
    Wait,
    Neutral,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Closed,
    /// `until_ms`: `None` where it is not known.
    Open {
        until_ms: Option<u64>,
    },
    HalfOpen {
        since_ms: u64,
    },
}

/// Where an attempt stood when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    pub at_ms: u64,
    phase: PhaseKind,
    /// Trips and phases so far; a result of an earlier one is late.
    generation: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhaseKind {
    Closed,
    Open,
    HalfOpen,
}

#[derive(Clone, Debug)]
pub struct Breaker {
    phase: Phase,
    /// Since it was closed last; `None`: not known.
    trips: Option<u32>,
    generation: u64,
    least: Vec<Option<u64>>,
    most: Vec<Option<u64>>,
    window: Window,
    proof: Proof,
    /// When a non-late failure, trial verdict or success was last seen.
    pub last: Last,
}

/// Instants of the newest results that may move the breaker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Last {
    pub failure_ms: Option<u64>,
    pub trial_failure_ms: Option<u64>,
    pub trial_wait_ms: Option<u64>,
    pub trial_neutral_ms: Option<u64>,
    /// Of a probe that was sent past the open breaker and answered when it was half-open: it may be taken for a trial.
    pub adopted_failure_ms: Option<u64>,
    pub adopted_wait_ms: Option<u64>,
    pub trial_success_ms: Option<u64>,
    pub probe_success_ms: Option<u64>,
    probe_sent_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Proof {
    by_end: (u32, u64),
    by_send: (u32, u64),
}

impl Breaker {
    pub fn new() -> Breaker {
        Breaker {
            phase: Phase::Closed,
            trips: Some(0),
            generation: 0,
            least: Vec::new(),
            most: Vec::new(),
            window: Window::default(),
            proof: Proof::default(),
            last: Last::default(),
        }
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn trips(&self) -> Option<u32> {
        self.trips
    }

    pub fn admit(&self, now: u64) -> Admission {
        let phase = match self.phase {
            Phase::Closed => PhaseKind::Closed,
            Phase::Open { .. } => PhaseKind::Open,
            Phase::HalfOpen { .. } => PhaseKind::HalfOpen,
        };
        Admission { at_ms: now, phase, generation: self.generation }
    }

    pub fn is_late(&self, admission: Admission) -> bool {
        admission.generation != self.generation
    }

    pub fn first_token(&mut self, now: u64, admission: Admission, rules: &BreakerRules) {
        if self.is_late(admission) {
            return;
        }
        match (self.phase, admission.phase) {
            (Phase::Closed, PhaseKind::Closed | PhaseKind::Open | PhaseKind::HalfOpen) => {
                self.least.clear();
                self.window.push(now, Kind::Maybe, None, rules);
            }
            (Phase::HalfOpen { .. }, PhaseKind::HalfOpen | PhaseKind::Open) => {
                self.trial_success(now, admission.at_ms, rules);
            }
            (Phase::Open { .. }, PhaseKind::Open) => self.probe_success(now, admission.at_ms),
            (Phase::HalfOpen { .. } | Phase::Open { .. }, PhaseKind::Closed)
            | (Phase::Open { .. }, PhaseKind::HalfOpen) => {}
        }
    }

    /// `token_seen`: of a stream whose first token was judged already.
    pub fn finished(
        &mut self,
        now: u64,
        admission: Admission,
        result: Result,
        call: Option<u64>,
        token_seen: bool,
        rules: &BreakerRules,
    ) {
        if self.is_late(admission) {
            return;
        }
        match (self.phase, admission.phase) {
            (Phase::Closed, from) => {
                let sure = from == PhaseKind::Closed && !token_seen;
                self.counted(now, result, call, sure, rules);
            }
            (Phase::HalfOpen { .. }, PhaseKind::HalfOpen) if !token_seen => match result {
                Result::Success => self.trial_success(now, admission.at_ms, rules),
                Result::Failure => self.last.trial_failure_ms = Some(now),
                Result::Wait => self.last.trial_wait_ms = Some(now),
                Result::Neutral => self.last.trial_neutral_ms = Some(now),
            },
            (Phase::HalfOpen { since_ms }, PhaseKind::Open) if !token_seen => match result {
                // In the instant of its own half-opening it was counted with that.
                Result::Success if since_ms == now && self.proof.by_end.0 > 0 => {}
                Result::Success => self.trial_success(now, admission.at_ms, rules),
                Result::Failure => self.last.adopted_failure_ms = Some(now),
                Result::Wait => self.last.adopted_wait_ms = Some(now),
                Result::Neutral => {}
            },
            (Phase::Open { .. }, PhaseKind::Open) if result == Result::Success && !token_seen => {
                self.probe_success(now, admission.at_ms);
            }
            (
                Phase::Open { .. } | Phase::HalfOpen { .. },
                PhaseKind::Closed | PhaseKind::Open | PhaseKind::HalfOpen,
            ) => {}
        }
    }

    /// Of a probe that was sent past the open breaker.
    fn probe_success(&mut self, now: u64, sent: u64) {
        self.last.probe_success_ms = Some(now);
        self.last.probe_sent_ms = Some(sent);
    }

    fn counted(&mut self, now: u64, result: Result, call: Option<u64>, sure: bool, rules: &BreakerRules) {
        match (result, sure) {
            (Result::Success, true) => {
                self.least.clear();
                self.most.clear();
                self.window.push(now, Kind::Success, None, rules);
            }
            (Result::Success, false) => {
                self.least.clear();
                self.window.push(now, Kind::Maybe, None, rules);
            }
            (Result::Failure, _) => {
                self.most.push(call);
                if sure {
                    self.least.push(call);
                }
                self.last.failure_ms = Some(now);
                self.window.push(now, if sure { Kind::Failure } else { Kind::MaybeFailure }, call, rules);
            }
            (Result::Wait | Result::Neutral, _) => {
                self.window.push(now, Kind::Maybe, None, rules);
            }
        }
    }

    fn trial_success(&mut self, now: u64, sent: u64, rules: &BreakerRules) {
        self.last.trial_success_ms = Some(now);
        let spacing = rules.success_spacing.ms();
        for ((count, before), at) in [(&mut self.proof.by_end, now), (&mut self.proof.by_send, sent)] {
            if *count == 0 || at >= *before + spacing {
                *count += 1;
                *before = at;
            }
        }
    }

    /// The request of `call` was at fault: its failures are taken back.
    pub fn poison(&mut self, call: u64) {
        self.least.retain(|of| *of != Some(call));
        self.most.retain(|of| *of != Some(call));
        self.window.poison(call);
    }

    /// Failures in a row: how many at least and at most.
    pub fn row(&self) -> (usize, usize) {
        (self.least.len(), self.most.len())
    }

    pub fn must_open(&self, rules: &BreakerRules) -> bool {
        self.phase == Phase::Closed
            && (self.least.len() >= rules.failures_max as usize || self.window.over_for_sure(rules))
    }

    pub fn may_open_by_row(&self, rules: &BreakerRules) -> bool {
        self.most.len() >= rules.failures_max as usize
    }

    pub fn may_open_by_rate(&self, now: u64, rules: &BreakerRules) -> bool {
        self.window.over_maybe(now, rules)
    }

    /// Successes in a row, spaced as the rules ask, since it was half-open.
    pub fn successes(&self) -> u32 {
        self.proof.by_end.0.max(self.proof.by_send.0)
    }

    pub fn opened(&mut self, trips: u32, until_ms: u64) {
        self.phase = Phase::Open { until_ms: Some(until_ms) };
        self.trips = Some(trips);
        self.generation += 1;
        self.empty();
    }

    pub fn half_opened(&mut self, now: u64, by_probe: bool) {
        self.phase = Phase::HalfOpen { since_ms: now };
        self.proof = Proof::default();
        if by_probe {
            self.proof.by_end = (1, now);
            self.proof.by_send = (1, self.last.probe_sent_ms.unwrap_or(now));
        }
    }

    pub fn closed(&mut self) {
        self.phase = Phase::Closed;
        self.trips = Some(0);
        self.empty();
    }

    fn empty(&mut self) {
        self.least.clear();
        self.most.clear();
        self.window = Window { unsure_until: self.window.unsure_until, ..Window::default() };
    }

    /// The engine was started again: open stays open, half-open becomes open, what was counted may be lost.
    pub fn restarted(&mut self, now: u64, rules: &BreakerRules) {
        if let Phase::HalfOpen { .. } = self.phase {
            self.phase = Phase::Open { until_ms: None };
        }
        self.generation += 1;
        self.least.clear();
        self.window.unsure_until = now + rules.rate_window.ms();
    }

    /// What is known may be lost: nothing is expected of it until it says something.
    pub fn forgotten(&mut self) {
        self.trips = None;
        if let Phase::Open { until_ms } = &mut self.phase {
            *until_ms = None;
        }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker::new()
    }
}

/// Attempts of the last while, with running counts.
#[derive(Clone, Debug, Default)]
struct Window {
    seen: VecDeque<(u64, Kind, Option<u64>)>,
    counts: [usize; 4],
    /// Before this, attempts may be missing here.
    unsure_until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Success,
    Failure,
    /// Counts as a failure in one reading.
    MaybeFailure,
    /// Counts as an attempt in one reading.
    Maybe,
}

impl Window {
    fn push(&mut self, now: u64, kind: Kind, call: Option<u64>, rules: &BreakerRules) {
        while let Some((t, old, _)) = self.seen.front()
            && t + rules.rate_window.ms() <= now
        {
            self.counts[*old as usize] -= 1;
            self.seen.pop_front();
        }
        self.counts[kind as usize] += 1;
        self.seen.push_back((now, kind, call));
    }

    fn poison(&mut self, call: u64) {
        for (_, kind, _) in self.seen.iter_mut().filter(|(_, _, of)| *of == Some(call)) {
            self.counts[*kind as usize] -= 1;
            *kind = Kind::Maybe;
            self.counts[*kind as usize] += 1;
        }
    }

    fn count(&self, kinds: &[Kind]) -> usize {
        kinds.iter().map(|kind| self.counts[*kind as usize]).sum()
    }

    /// In every reading, as of the newest attempt. A success that completes the share may be judged at the next failure.
    fn over_for_sure(&self, rules: &BreakerRules) -> bool {
        let Some((now, Kind::Failure, _)) = self.seen.back() else { return false };
        let surely = self.count(&[Kind::Success, Kind::Failure]);
        let at_most = self.seen.len();
        *now >= self.unsure_until
            && surely >= rules.rate_min as usize
            && reaches(self.counts[Kind::Failure as usize], at_most, rules.rate)
    }

    /// In some reading.
    fn over_maybe(&self, now: u64, rules: &BreakerRules) -> bool {
        let surely = self.count(&[Kind::Success, Kind::Failure]);
        let failures = self.count(&[Kind::Failure, Kind::MaybeFailure]);
        now < self.unsure_until
            || (self.seen.len() >= rules.rate_min as usize
                && reaches(failures, surely.max(rules.rate_min as usize), rules.rate))
    }
}

/// Whether `part` is at least `share` of `whole`, whichever way it is computed in floating point.
fn reaches(part: usize, whole: usize, share: f64) -> bool {
    part as f64 >= share * whole as f64 - 1e-9
}
