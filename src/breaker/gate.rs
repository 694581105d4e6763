//! The gate of one entry: its breaker and its park together, and the one slot through both.
//!
//! Order of a moment: first [`Gate::timer`] for what is due, then anything else. A reading function never moves the gate,
//! so at the very millisecond of a deadline it still says what the timer has not done yet.
//! Invariants: BREAKER-1, BREAKER-2, LIMIT-1. **Source:** engine.md 3 (park, breaker, probe rounds).

use super::admission::{Ask, Evidence, GateEffect, GateRules, Permit, Refusal, RefusalWhy, Settled};
use super::circuit::{Circuit, Phase};
use super::park::{Park, ParkOrder};
use crate::base::{MonoTime, Outcome, Span};
use crate::event::ParkWhy;
use serde::{Deserialize, Serialize};

/// The only place through a half-open breaker, out of a park, or past an open breaker as a last resort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    attempt: u64,
    /// A slot taken before the breaker opened is nobody's any more.
    generation: u64,
    deadline: MonoTime,
    probe: bool,
    on_open: bool,
}

/// How an attempt would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Free,
    /// Only one at a time.
    Slot,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    enabled: bool,
    chain_down: bool,
    circuit: Circuit,
    park: Park,
    slot: Option<Slot>,
    /// When a call (not a probe) was last admitted.
    traffic_at: Option<MonoTime>,
}

impl Default for Gate {
    fn default() -> Self {
        Gate::new()
    }
}

impl Gate {
    /// Closed, not parked, enabled.
    pub fn new() -> Gate {
        Gate {
            enabled: true,
            chain_down: false,
            circuit: Circuit::default(),
            park: Park::default(),
            slot: None,
            traffic_at: None,
        }
    }

    /// Admits an attempt at `now`, or says why not and until when.
    pub fn admit(&mut self, ask: Ask, now: MonoTime, rules: &GateRules) -> Result<Permit, Refusal> {
        let way = self.way(ask.probe, now, rules)?;
        let on_open = matches!(self.circuit.phase(), Phase::Open { .. });
        let half_open = matches!(self.circuit.phase(), Phase::HalfOpen { .. });
        let deadline = match way {
            Way::Free => None,
            Way::Slot => {
                let wait = if ask.stream { rules.breaker.trial_deadline } else { rules.trial_deadline_whole };
                let deadline = now + wait;
                let generation = self.circuit.generation();
                self.slot = Some(Slot { attempt: ask.attempt, generation, deadline, probe: ask.probe, on_open });
                Some(deadline)
            }
        };
        if ask.probe {
            self.park.asked(now);
        } else {
            self.traffic_at = Some(now);
        }
        Ok(Permit {
            attempt: ask.attempt,
            generation: self.circuit.generation(),
            at: now,
            probe: ask.probe,
            trial: half_open,
            on_open,
            judged: false,
            deadline,
        })
    }

    /// A stream's first token came: this is what a trial is judged by, and an answer after a park.
    pub fn first_token(&mut self, permit: &mut Permit, now: MonoTime, rules: &GateRules) -> Settled {
        if permit.judged {
            return Settled { late: self.is_late(permit), effects: Vec::new() };
        }
        permit.judged = true;
        self.free_slot(permit);
        let late = self.is_late(permit);
        let mut effects = self.answered(permit, rules);
        if !late {
            effects.extend(self.trial_answered(now, rules));
        }
        Settled { late, effects }
    }

    /// The attempt ended. Also for one that was never sent ([`Outcome::Refused`]) or whose caller went away.
    pub fn settle(
        &mut self,
        permit: Permit,
        outcome: Outcome,
        evidence: Evidence,
        now: MonoTime,
        rules: &GateRules,
    ) -> Settled {
        self.free_slot(&permit);
        let late = self.is_late(&permit);
        let effects = match outcome {
            Outcome::Success => self.succeeded(&permit, late, now, rules),
            Outcome::ProviderFault | Outcome::Overloaded => self.failed(&permit, late, now, rules),
            Outcome::Throttled => self.told_to_wait(&permit, late, ParkWhy::Throttled, evidence, now, rules),
            Outcome::Quota => self.told_to_wait(&permit, late, ParkWhy::Quota, evidence, now, rules),
            // Neutral: the slot is free again, and that is all.
            Outcome::BadKey | Outcome::CallersFault | Outcome::Unfit | Outcome::Refused | Outcome::Cancelled => {
                Vec::new()
            }
        };
        Settled { late, effects }
    }

    /// Does what is due at `now`; the engine calls it before it asks the gate anything at `now`.
    pub fn timer(&mut self, now: MonoTime, rules: &GateRules) -> Vec<GateEffect> {
        let mut effects = Vec::new();
        if let Some(slot) = self.slot()
            && now >= slot.deadline
        {
            self.slot = None;
            // A last-resort probe's failure changes nothing, not even when the breaker is half-open by now.
            if matches!(self.circuit.phase(), Phase::HalfOpen { .. }) && !slot.on_open {
                effects.push(self.circuit.trial_failed(now, rules).into());
            }
        }
        if let Phase::HalfOpen { since, .. } = self.circuit.phase()
            && now >= since + rules.breaker.half_open_max
        {
            self.slot = None;
            effects.push(self.circuit.no_verdict(now, rules).into());
        }
        if self.park.timer(now, self.chain_down, &rules.park) {
            effects.push(GateEffect::ParkEnded);
        }
        if let Phase::Open { until } = self.circuit.phase()
            && now >= until
            && !self.park.is_in_force()
        {
            // A breaker that became half-open inside a park could try nothing and would only fall back without a verdict.
            effects.push(self.circuit.half_open(now).into());
        }
        effects
    }

    /// When [`Gate::timer`] wants to be called.
    pub fn due(&self, rules: &GateRules) -> Option<MonoTime> {
        let park_end = self.park.end(self.chain_down);
        let phase = match self.circuit.phase() {
            Phase::Closed => None,
            Phase::Open { until } => Some(until.max(park_end.unwrap_or(until))),
            Phase::HalfOpen { since, .. } => Some(since + rules.breaker.half_open_max),
        };
        [self.slot().map(|slot| slot.deadline), phase, park_end].into_iter().flatten().min()
    }

    /// A sibling's answer parked a scope that this entry belongs to.
    pub fn share_park(&mut self, order: ParkOrder, now: MonoTime) -> Vec<GateEffect> {
        vec![GateEffect::ParkStarted { until: self.park.apply(order, self.chain_down, now), order }]
    }

    /// Poison: takes the counted failures of these attempts back. An opened breaker stays open.
    pub fn forgive(&mut self, attempts: &[u64]) {
        self.circuit.forgive(attempts);
    }

    /// After a restart: nothing is under way, stored deadlines are clamped, OPEN and HALF_OPEN come back as OPEN.
    pub fn restore(&mut self, now: MonoTime, rules: &GateRules) -> Vec<GateEffect> {
        self.slot = None;
        self.traffic_at = self.traffic_at.map(|at| at.min(now));
        self.park.restore(now, &rules.park);
        // Besides its own maximum a breaker may be open until a stated wait is over.
        let own_max = now + rules.breaker.open_max.max(rules.open);
        let until_max = self.park.end(false).map_or(own_max, |end| end.max(own_max));
        self.circuit.restore(now, until_max).map(GateEffect::from).into_iter().collect()
    }

    /// Whether some chain of this entry has no serving entry: parks end early, open breakers are probed. The engine sets it
    /// whenever that changes; then looks at [`Gate::due`] again.
    pub fn set_chain_down(&mut self, down: bool) {
        self.chain_down = down;
    }

    pub fn chain_down(&self) -> bool {
        self.chain_down
    }

    pub fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// Whether a call would be admitted at `now`.
    pub fn admits(&self, now: MonoTime, rules: &GateRules) -> bool {
        self.way(false, now, rules).is_ok()
    }

    /// Why a call would be refused at `now`, and until when.
    pub fn refusal(&self, now: MonoTime, rules: &GateRules) -> Option<Refusal> {
        self.way(false, now, rules).err()
    }

    /// Enabled, closed, not parked, and confirmed after its last park.
    pub fn serves(&self) -> bool {
        self.enabled && self.circuit.is_closed() && !self.park.is_in_force() && !self.park.is_confirming()
    }

    /// Open or half-open.
    pub fn not_closed(&self) -> bool {
        !self.circuit.is_closed()
    }

    pub fn phase(&self) -> Phase {
        self.circuit.phase()
    }

    /// Trips without closing.
    pub fn trips(&self) -> u32 {
        self.circuit.trips()
    }

    /// Its park exceeded 60 s, and it has not served since.
    pub fn parked_long(&self) -> bool {
        self.park.is_long()
    }

    /// How much of the park in force is left; `None` if there is none.
    pub fn park_left(&self, now: MonoTime) -> Option<Span> {
        self.park_until().map(|end| end - now)
    }

    /// When the park in force ends, as things stand.
    pub fn park_until(&self) -> Option<MonoTime> {
        self.park.end(self.chain_down)
    }

    pub fn park_why(&self) -> Option<ParkWhy> {
        self.park.why()
    }

    /// A park is over and not yet confirmed.
    pub fn confirming(&self) -> bool {
        self.park.is_confirming()
    }

    /// Whether the probe round at `now` should ask this entry. A round never enters a stated wait.
    pub fn wants_probe(&self, now: MonoTime, rules: &GateRules) -> bool {
        if self.way(true, now, rules).is_err() {
            return false;
        }
        if self.park.is_in_force() {
            return true; // Only a quota park whose probe is due lets one in.
        }
        let quiet = self.traffic_at.is_none_or(|at| now - at >= rules.breaker.probe_every);
        match self.circuit.phase() {
            Phase::Closed => self.park.is_confirming() && quiet,
            Phase::HalfOpen { .. } => quiet || self.chain_down,
            Phase::Open { .. } => true, // Only a chain without a serving entry lets one in.
        }
    }

    /// How an attempt would pass at `now`. What is due at `now` has been done by the timer.
    fn way(&self, probe: bool, now: MonoTime, rules: &GateRules) -> Result<Way, Refusal> {
        if !self.enabled {
            return Err(Refusal { why: RefusalWhy::Disabled, earliest: None });
        }
        let open_until = match self.circuit.phase() {
            Phase::Open { until } => Some(until),
            Phase::Closed | Phase::HalfOpen { .. } => None,
        };
        let last_resort = probe && self.chain_down;
        if let Some(end) = self.park_until()
            && !(last_resort && self.park.wants_quota_probe(now))
        {
            let earliest = end.max(open_until.unwrap_or(end));
            return Err(Refusal { why: RefusalWhy::Parked, earliest: Some(earliest) });
        }
        if let Some(until) = open_until
            && !last_resort
        {
            return Err(Refusal { why: RefusalWhy::Open, earliest: Some(until) });
        }
        if self.serves() {
            return Ok(Way::Free);
        }
        match self.slot() {
            None => Ok(Way::Slot),
            Some(slot) => {
                let why = if slot.probe { RefusalWhy::BusyProbe } else { RefusalWhy::Busy };
                // It may be free at any moment; nobody is sent away for longer than a trial's spacing.
                let earliest = slot.deadline.min(now + rules.breaker.success_spacing);
                Err(Refusal { why, earliest: Some(earliest) })
            }
        }
    }

    /// The slot, if it is taken.
    fn slot(&self) -> Option<Slot> {
        self.slot.filter(|slot| slot.generation == self.circuit.generation())
    }

    fn is_late(&self, permit: &Permit) -> bool {
        permit.generation != self.circuit.generation()
    }

    fn free_slot(&mut self, permit: &Permit) {
        if self.slot.is_some_and(|slot| slot.attempt == permit.attempt) {
            self.slot = None;
        }
    }

    /// An answer, as far as parks are concerned.
    fn answered(&mut self, permit: &Permit, rules: &GateRules) -> Vec<GateEffect> {
        let ended = self.park.answered(permit.at, permit.deadline.is_some(), &rules.park);
        if ended { vec![GateEffect::ParkEnded] } else { Vec::new() }
    }

    /// A good answer of the present generation, as far as a breaker that is not closed is concerned.
    fn trial_answered(&mut self, now: MonoTime, rules: &GateRules) -> Vec<GateEffect> {
        match self.circuit.phase() {
            Phase::Closed => Vec::new(),
            Phase::Open { .. } => self.circuit.probed(now, rules).into_iter().map(GateEffect::from).collect(),
            Phase::HalfOpen { .. } => {
                self.circuit.trial_succeeded(now, rules).map(GateEffect::from).into_iter().collect()
            }
        }
    }

    fn succeeded(&mut self, permit: &Permit, late: bool, now: MonoTime, rules: &GateRules) -> Vec<GateEffect> {
        let mut effects = if permit.judged { Vec::new() } else { self.answered(permit, rules) };
        if late {
            return effects;
        }
        match self.circuit.phase() {
            Phase::Closed => self.circuit.success(permit.attempt, now, rules),
            Phase::Open { .. } | Phase::HalfOpen { .. } => {
                if !permit.judged {
                    effects.extend(self.trial_answered(now, rules));
                }
            }
        }
        effects
    }

    fn failed(&mut self, permit: &Permit, late: bool, now: MonoTime, rules: &GateRules) -> Vec<GateEffect> {
        if permit.deadline.is_some() && !permit.judged {
            self.park.failed(permit.at);
        }
        // Admitted past an open breaker: a failure there is what was expected.
        if late || permit.on_open {
            return Vec::new();
        }
        let step = match self.circuit.phase() {
            Phase::Closed => self.circuit.failure(permit.attempt, now, rules),
            Phase::HalfOpen { .. } if permit.judged => None,
            Phase::HalfOpen { .. } => Some(self.circuit.trial_failed(now, rules)),
            Phase::Open { .. } => panic!("BREAKER-1: an attempt of this generation was admitted to an open breaker"),
        };
        step.map(GateEffect::from).into_iter().collect()
    }

    /// Throttled or quota. The stated wait is kept whatever generation the attempt was of.
    fn told_to_wait(
        &mut self,
        permit: &Permit,
        late: bool,
        why: ParkWhy,
        evidence: Evidence,
        now: MonoTime,
        rules: &GateRules,
    ) -> Vec<GateEffect> {
        let order = self.park.refused(why, evidence.hint, evidence.scope, permit.at, now, &rules.park);
        let until = self.park.apply(order, self.chain_down, now);
        let mut effects = vec![GateEffect::ParkStarted { until, order }];
        if !late && !permit.judged && matches!(self.circuit.phase(), Phase::HalfOpen { .. }) {
            let until = self.park_until().unwrap_or(until);
            effects.push(self.circuit.trial_throttled(until).into());
        }
        effects
    }
}

#[cfg(test)]
mod tests;
