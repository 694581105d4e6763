//! One entry's gate, asked one attempt at a time.

use squall::base::{MonoTime, Outcome, Rules, Span};
use squall::breaker::{Ask, Evidence, Gate, GateEffect, GateRules, Permit, Phase};
use squall::event::ParkScope;
use squall::store::{Store, state};

/// A breaker with its rules, asked one attempt at a time.
pub struct Breaker {
    pub gate: Gate,
    pub rules: GateRules,
    pub attempts: u64,
}

impl Breaker {
    pub fn new() -> Breaker {
        Breaker { gate: Gate::new(), rules: GateRules::new(&Rules::default(), false), attempts: 0 }
    }

    pub fn opens_after(failures: u32) -> Breaker {
        let mut breaker = Breaker::new();
        breaker.rules.breaker.failures_max = failures;
        breaker
    }

    /// Open since 0 s for 10 s, and for that long again at its next trips' doubling.
    pub fn open_for_10_s() -> Breaker {
        let mut breaker = Breaker::new();
        breaker.rules.open = Span::from_secs(10);
        breaker.trip(0);
        breaker
    }

    /// Half-open since 10 s, closing after `successes`.
    pub fn half_open(successes: u32) -> Breaker {
        let mut breaker = Breaker::open_for_10_s();
        breaker.rules.breaker.successes_to_close = successes;
        breaker.timer(10);
        breaker
    }

    pub fn attempt(&mut self, probe: bool, seconds: u64, outcome: Outcome) -> Vec<GateEffect> {
        self.attempts += 1;
        let ask = Ask { attempt: self.attempts, probe, stream: false };
        let now = MonoTime(seconds * 1_000);
        let permit = self.gate.admit(ask, now, &self.rules).expect("the breaker admits it");
        self.end(permit, outcome, None, seconds)
    }

    /// A streamed call is let through and goes on; `None`: it is refused.
    pub fn send(&mut self, seconds: u64) -> Option<Permit> {
        self.attempts += 1;
        let ask = Ask { attempt: self.attempts, probe: false, stream: true };
        self.gate.admit(ask, MonoTime(seconds * 1_000), &self.rules).ok()
    }

    pub fn end(&mut self, permit: Permit, outcome: Outcome, hint_s: Option<u64>, seconds: u64) -> Vec<GateEffect> {
        let evidence = Evidence { hint: hint_s.map(Span::from_secs), scope: ParkScope::Model };
        self.gate.settle(permit, outcome, evidence, MonoTime(seconds * 1_000), &self.rules).effects
    }

    /// When time by itself changes something next, in seconds.
    pub fn due_s(&self) -> Option<u64> {
        self.gate.due(&self.rules).map(|due| due.ms() / 1_000)
    }

    pub fn fail(&mut self, seconds: u64) {
        self.attempt(false, seconds, Outcome::ProviderFault);
    }

    pub fn succeed(&mut self, seconds: u64) -> Vec<GateEffect> {
        self.attempt(false, seconds, Outcome::Success)
    }

    pub fn probe(&mut self, seconds: u64) -> Vec<GateEffect> {
        self.attempt(true, seconds, Outcome::Success)
    }

    pub fn trip(&mut self, seconds: u64) {
        (0..self.rules.breaker.failures_max).for_each(|_| self.fail(seconds));
        assert!(self.is_open());
    }

    pub fn timer(&mut self, seconds: u64) {
        self.gate.timer(MonoTime(seconds * 1_000), &self.rules);
    }

    /// Waits for each half-opening and fails its trial, until it has tripped `trips` times; the open times in seconds.
    pub fn fail_until(&mut self, trips: u32) -> Vec<u64> {
        let mut opened_at = 0;
        let mut open_times = Vec::new();
        loop {
            let until = self.gate.due(&self.rules).expect("an open breaker has a timer").ms() / 1_000;
            open_times.push(until - opened_at);
            if self.gate.trips() == trips {
                return open_times;
            }
            self.timer(until);
            self.fail(until);
            opened_at = until;
        }
    }

    pub fn is_closed(&self) -> bool {
        self.gate.phase() == Phase::Closed
    }

    pub fn is_open(&self) -> bool {
        matches!(self.gate.phase(), Phase::Open { .. })
    }

    pub fn is_half_open(&self) -> bool {
        matches!(self.gate.phase(), Phase::HalfOpen { .. })
    }

    pub fn admits(&self, seconds: u64) -> bool {
        self.gate.admits(MonoTime(seconds * 1_000), &self.rules)
    }

    /// As the next incarnation gets it from the database, at `seconds`.
    pub fn restarted(self, seconds: u64) -> Breaker {
        let mut store = Store::new(rusqlite::Connection::open_in_memory().expect("a database")).expect("prepared");
        store.write(|tx| state::save(tx, "gate a", &self.gate)).expect("saved");
        let mut gate: Gate = state::load(store.reader(), "gate a").expect("read").expect("there");
        gate.restore(MonoTime(seconds * 1_000), &self.rules);
        Breaker { gate, ..self }
    }
}
