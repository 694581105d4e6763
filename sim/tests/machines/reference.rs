//! The gate of one entry once more, written from the specification and from nothing else: what each question has to be
//! answered and what each event has to lead to.
//!
//! No code of the engine's breaker is used here, only its base values. **Units:** milliseconds.
//! **Source:** engine.md 3 "Park", "Breaker", "Probe rounds".

use squall::base::rules::{BreakerRules, ParkRules};
use squall::base::{Outcome, Rules};
use squall::event::OpenWhy;
use std::fmt::Debug;

const QUOTA_ASKED_EVERY: u64 = 300_000;
const DOWN_BACKOFF_MAX: u64 = 30_000;
const LONG_PARK: u64 = 60_000;
const TRIPS_RESTORED_MAX: u32 = 3;

#[derive(Clone, Debug, PartialEq)]
pub enum Breaker {
    Closed,
    Open {
        until: u64,
    },
    /// `proven_at`: of the last success that counted.
    HalfOpen {
        since: u64,
        proofs: u32,
        proven_at: Option<u64>,
    },
}

/// Told to wait: twice over, for the time in which some chain has nobody else the end may be earlier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    pub begin: u64,
    pub end: u64,
    pub end_if_down: u64,
    /// A quota without a stated reset, which is asked now and then.
    pub unstated_quota: bool,
    pub asked: u64,
}

/// What was let through.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    pub attempt: u64,
    pub at: u64,
    pub generation: u64,
    /// It had the only place, until this deadline.
    pub deadline: Option<u64>,
    probe: bool,
    /// Past an open breaker.
    past_open: bool,
    /// Its first token came.
    judged: bool,
}

/// What has to be said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Said {
    Opened { trips: u32, until: u64, why: OpenWhy },
    HalfOpened { by_probe: bool },
    Closed,
    Parked { until: u64 },
    ParkOver,
}

/// An attempt that counts.
#[derive(Clone, Copy, Debug)]
struct Ended {
    at: u64,
    attempt: u64,
    failed: bool,
}

/// Attempts under the name by which a fingerprint knows them.
#[derive(Debug)]
#[expect(dead_code, reason = "it is there to be printed")]
struct Labelled<'a> {
    streak: &'a [u64],
}

#[derive(Clone, Debug)]
pub struct Reference {
    breaker_rules: BreakerRules,
    park_rules: ParkRules,
    open_base: u64,
    whole_deadline: u64,
    pub breaker: Breaker,
    pub trips: u32,
    pub generation: u64,
    row: Vec<u64>,
    results: Vec<Ended>,
    pub wait: Option<Wait>,
    /// Answers since the last wait, while they are too few.
    pub answers: Option<u32>,
    refused_at: Option<u64>,
    refusals: u32,
    steps: u32,
    pub long: bool,
    place: Option<Pass>,
    /// When a call, not a probe, was last let through.
    called_at: Option<u64>,
    pub down: bool,
}

impl Reference {
    pub fn new(rules: &Rules) -> Reference {
        Reference {
            breaker_rules: rules.breaker.clone(),
            park_rules: rules.park.clone(),
            open_base: rules.breaker.open.ms(),
            whole_deadline: rules.call.first_byte.ms(),
            breaker: Breaker::Closed,
            trips: 0,
            generation: 0,
            row: Vec::new(),
            results: Vec::new(),
            wait: None,
            answers: None,
            refused_at: None,
            refusals: 0,
            steps: 0,
            long: false,
            place: None,
            called_at: None,
            down: false,
        }
    }

    /// All that a later step may look at, but when the last call was.
    pub fn facts(&self) -> impl Debug {
        let waits = (self.wait, self.answers, self.refused_at, self.refusals, self.steps, self.long);
        let counts = (Labelled { streak: &self.row }, &self.results, self.trips);
        (&self.breaker, counts, waits, &self.place, self.down)
    }

    /// From when on the oldest result counts no more.
    pub fn oldest_result_leaves(&self) -> Option<u64> {
        self.results.first().map(|oldest| oldest.at + self.breaker_rules.rate_window.ms())
    }

    /// Whether a probe round asks here: half-open or not yet confirmed after a wait, and quiet; and of a chain that has
    /// nobody else whatever is not closed, but never inside a stated wait.
    pub fn wants_probe(&self, now: u64) -> bool {
        let every = self.breaker_rules.probe_every.ms();
        let quiet = self.called_at.is_none_or(|at| now >= at + every);
        let wants = match self.breaker {
            Breaker::Closed => (self.answers.is_some() && quiet) || self.wait.is_some(),
            Breaker::HalfOpen { .. } => quiet || self.down || self.wait.is_some(),
            Breaker::Open { .. } => true,
        };
        wants && self.may_pass(true, now)
    }

    pub fn wait_end(&self) -> Option<u64> {
        self.wait.map(|wait| if self.down { wait.end_if_down } else { wait.end })
    }

    /// Closed, no wait, and whoever was told to wait has answered three times since.
    pub fn serves(&self) -> bool {
        self.breaker == Breaker::Closed && self.wait.is_none() && self.answers.is_none()
    }

    /// The one under way that has the only place. One of an older generation has none.
    pub fn in_place(&self) -> Option<&Pass> {
        self.place.as_ref().filter(|pass| pass.generation == self.generation)
    }

    pub fn may_pass(&self, probe: bool, now: u64) -> bool {
        let last_resort = probe && self.down;
        let waits = self.wait.is_some_and(|wait| {
            let asks = last_resort && wait.unstated_quota && now - wait.asked >= QUOTA_ASKED_EVERY;
            !asks
        });
        let open = matches!(self.breaker, Breaker::Open { .. }) && !last_resort;
        !waits && !open && (self.serves() || self.in_place().is_none())
    }

    pub fn pass(&mut self, attempt: u64, probe: bool, stream: bool, now: u64) -> Option<Pass> {
        if !self.may_pass(probe, now) {
            return None;
        }
        let deadline = if stream { self.breaker_rules.trial_deadline.ms() } else { self.whole_deadline };
        let pass = Pass {
            attempt,
            at: now,
            generation: self.generation,
            deadline: (!self.serves()).then_some(now + deadline),
            probe,
            past_open: matches!(self.breaker, Breaker::Open { .. }),
            judged: false,
        };
        if pass.deadline.is_some() {
            self.place = Some(pass.clone());
        }
        match &mut self.wait {
            Some(wait) if probe => wait.asked = now,
            Some(_) | None => {}
        }
        if !probe {
            self.called_at = Some(now);
        }
        Some(pass)
    }

    pub fn is_late(&self, pass: &Pass) -> bool {
        pass.generation != self.generation
    }

    /// When time by itself changes something next.
    pub fn due(&self) -> Option<u64> {
        let breaker = match self.breaker {
            Breaker::Closed => None,
            // An open breaker stays so while its entry has to wait: there would be nothing to try.
            Breaker::Open { until } => Some(until.max(self.wait_end().unwrap_or(0))),
            Breaker::HalfOpen { since, .. } => Some(since + self.breaker_rules.half_open_max.ms()),
        };
        let place = self.in_place().and_then(|pass| pass.deadline);
        [breaker, place, self.wait_end()].into_iter().flatten().min()
    }

    pub fn time(&mut self, now: u64) -> Vec<Said> {
        let mut said = Vec::new();
        if let Some(pass) = self.in_place().filter(|pass| pass.deadline.is_some_and(|deadline| now >= deadline)) {
            let fails_its_trial = !pass.past_open && matches!(self.breaker, Breaker::HalfOpen { .. });
            self.place = None;
            if fails_its_trial {
                said.push(self.trip(OpenWhy::TrialFailed, now));
            }
        }
        if let Breaker::HalfOpen { since, .. } = self.breaker
            && now >= since + self.breaker_rules.half_open_max.ms()
        {
            said.push(self.open(OpenWhy::NoVerdict, now + self.open_base));
        }
        if self.wait_end().is_some_and(|end| now >= end) {
            self.wait_is_over();
            said.push(Said::ParkOver);
        }
        if let Breaker::Open { until } = self.breaker
            && now >= until
            && self.wait.is_none()
        {
            self.breaker = Breaker::HalfOpen { since: now, proofs: 0, proven_at: None };
            said.push(Said::HalfOpened { by_probe: false });
        }
        said
    }

    pub fn first_token(&mut self, pass: &mut Pass, now: u64) -> Vec<Said> {
        if std::mem::replace(&mut pass.judged, true) {
            return Vec::new();
        }
        self.leave(pass);
        let late = self.is_late(pass);
        let mut said = self.answered(pass);
        if !late {
            said.extend(self.proof(now));
        }
        said
    }

    pub fn ended(&mut self, pass: &Pass, outcome: Outcome, hint: Option<u64>, now: u64) -> Vec<Said> {
        self.leave(pass);
        let late = self.is_late(pass);
        match outcome {
            Outcome::Success => {
                let mut said = if pass.judged { Vec::new() } else { self.answered(pass) };
                if !late && self.breaker == Breaker::Closed {
                    self.row.clear();
                    self.result(now, pass.attempt, false);
                } else if !late && !pass.judged {
                    said.extend(self.proof(now));
                }
                said
            }
            Outcome::ProviderFault | Outcome::Overloaded => {
                let after_refusal = self.refused_at.is_none_or(|at| pass.at > at);
                if pass.deadline.is_some() && !pass.judged && after_refusal {
                    self.answers = self.answers.map(|_| 0);
                }
                if late || pass.past_open {
                    return Vec::new();
                }
                match self.breaker {
                    Breaker::Closed => self.failure(now, pass.attempt),
                    Breaker::HalfOpen { .. } if !pass.judged => vec![self.trip(OpenWhy::TrialFailed, now)],
                    Breaker::HalfOpen { .. } | Breaker::Open { .. } => Vec::new(),
                }
            }
            Outcome::Throttled | Outcome::Quota => {
                let quota = outcome == Outcome::Quota;
                let until = self.told_to_wait(pass, quota, hint, now);
                let mut said = vec![Said::Parked { until }];
                if !late && !pass.judged && matches!(self.breaker, Breaker::HalfOpen { .. }) {
                    let until = self.wait_end().expect("it has to wait");
                    said.push(self.open(OpenWhy::TrialThrottled, until));
                }
                said
            }
            Outcome::BadKey | Outcome::CallersFault | Outcome::Unfit | Outcome::Refused | Outcome::Cancelled => {
                Vec::new()
            }
        }
    }

    /// Failures of a poisonous request.
    pub fn forgive(&mut self, attempt: u64) {
        self.row.retain(|failed| *failed != attempt);
        self.results.retain(|ended| !(ended.failed && ended.attempt == attempt));
    }

    pub fn restarted(&mut self, now: u64) -> Vec<Said> {
        self.place = None;
        self.trips = self.trips.min(TRIPS_RESTORED_MAX);
        match self.breaker {
            Breaker::Closed => {
                self.generation += 1;
                Vec::new()
            }
            Breaker::Open { until } => vec![self.open(OpenWhy::Restored, until)],
            Breaker::HalfOpen { .. } => vec![self.open(OpenWhy::Restored, now)],
        }
    }

    fn leave(&mut self, pass: &Pass) {
        if self.place.as_ref().is_some_and(|in_place| in_place.attempt == pass.attempt) {
            self.place = None;
        }
    }

    /// Well answered, for the wait's part: what was sent before the last refusal says nothing about what came after.
    fn answered(&mut self, pass: &Pass) -> Vec<Said> {
        if self.refused_at.is_some_and(|at| pass.at <= at) {
            return Vec::new();
        }
        (self.refusals, self.steps) = (0, 0);
        let mut said = Vec::new();
        if self.wait.is_some() {
            self.wait_is_over();
            said.push(Said::ParkOver);
        }
        if let (Some(answers), true) = (self.answers, pass.deadline.is_some()) {
            self.answers = Some(answers + 1);
            self.confirmed();
        }
        said
    }

    fn wait_is_over(&mut self) {
        self.wait = None;
        self.answers = Some(0);
        self.confirmed();
    }

    fn confirmed(&mut self) {
        if self.answers.is_some_and(|answers| answers >= self.park_rules.confirmations) {
            self.answers = None;
            self.long = false;
        }
    }

    /// A success of a breaker that is not closed.
    fn proof(&mut self, now: u64) -> Vec<Said> {
        let (mut said, since, proofs, proven_at) = match self.breaker {
            Breaker::Closed => return Vec::new(),
            Breaker::Open { .. } => (vec![Said::HalfOpened { by_probe: true }], now, 0, None),
            Breaker::HalfOpen { since, proofs, proven_at } => (Vec::new(), since, proofs, proven_at),
        };
        let counts = proven_at.is_none_or(|before| now >= before + self.breaker_rules.success_spacing.ms());
        let proofs = proofs + u32::from(counts);
        let proven_at = if counts { Some(now) } else { proven_at };
        self.breaker = Breaker::HalfOpen { since, proofs, proven_at };
        if proofs >= self.breaker_rules.successes_to_close {
            self.breaker = Breaker::Closed;
            self.trips = 0;
            self.row.clear();
            self.results.clear();
            said.push(Said::Closed);
        }
        said
    }

    fn result(&mut self, now: u64, attempt: u64, failed: bool) {
        let window = self.breaker_rules.rate_window.ms();
        self.results.push(Ended { at: now, attempt, failed });
        self.results.retain(|ended| ended.at + window > now);
    }

    fn failure(&mut self, now: u64, attempt: u64) -> Vec<Said> {
        self.row.push(attempt);
        self.result(now, attempt, true);
        let failed = self.results.iter().filter(|ended| ended.failed).count();
        let share = failed as f64 / self.results.len() as f64;
        if self.row.len() >= self.breaker_rules.failures_max as usize {
            return vec![self.trip(OpenWhy::Consecutive, now)];
        }
        let enough = self.results.len() >= self.breaker_rules.rate_min as usize;
        if enough && share >= self.breaker_rules.rate - 1e-12 {
            return vec![self.trip(OpenWhy::Rate, now)];
        }
        Vec::new()
    }

    fn trip(&mut self, why: OpenWhy, now: u64) -> Said {
        self.trips += 1;
        let mut length = self.open_base;
        for _ in 1..self.trips.min(40) {
            length *= 2;
        }
        self.open(why, now + length.min(self.breaker_rules.open_max.ms()))
    }

    fn open(&mut self, why: OpenWhy, until: u64) -> Said {
        self.breaker = Breaker::Open { until };
        self.generation += 1;
        self.row.clear();
        self.results.clear();
        Said::Opened { trips: self.trips, until, why }
    }

    fn told_to_wait(&mut self, pass: &Pass, quota: bool, hint: Option<u64>, now: u64) -> u64 {
        let rules = &self.park_rules;
        // Five calls under way that are all refused are one refusal.
        let again = self.refused_at.is_none_or(|at| pass.at > at);
        self.refusals += u32::from(again);
        let hint_max = if quota { rules.quota_max } else { rules.hint_max }.ms();
        let hint = hint.map(|hint| hint.min(hint_max));
        let mut own = 0;
        if self.refusals >= 2 || (!quota && hint.is_none()) {
            self.steps += u32::from(again || self.steps == 0);
            own = rules.base.ms();
            for _ in 1..self.steps.min(20) {
                own *= 2;
            }
            own = own.min(rules.max.ms());
        }
        let (length, length_if_down) = match hint {
            Some(hint) => (hint.max(own), hint),
            None if quota => (rules.quota.ms().max(own), rules.quota.ms().max(own)),
            None => (own, own.min(DOWN_BACKOFF_MAX)),
        };
        let new = Wait {
            begin: now,
            end: now + length,
            end_if_down: now + length_if_down,
            unstated_quota: quota && hint.is_none(),
            asked: now,
        };
        self.wait_at_least(new)
    }

    pub fn sibling_waits(&mut self, wait: u64, now: u64) -> Vec<Said> {
        let end = now + wait;
        let until = self.wait_at_least(Wait { begin: now, end, end_if_down: end, unstated_quota: false, asked: now });
        vec![Said::Parked { until }]
    }

    /// A longer deadline always wins over a shorter one. What is told while there is nobody else to ask keeps the end
    /// that this gives it.
    fn wait_at_least(&mut self, new: Wait) -> u64 {
        let new = if self.down { Wait { end: new.end_if_down, ..new } } else { new };
        let wait = match self.wait {
            None => new,
            Some(old) => Wait {
                begin: old.begin,
                end: old.end.max(new.end),
                end_if_down: old.end_if_down.max(new.end_if_down),
                unstated_quota: if new.end >= old.end { new.unstated_quota } else { old.unstated_quota },
                asked: new.asked,
            },
        };
        self.long |= wait.end - wait.begin > LONG_PARK;
        self.wait = Some(wait);
        self.answers = None;
        self.refused_at = Some(new.begin);
        // What is said is the end as it would be with somebody else to ask.
        wait.end
    }
}
