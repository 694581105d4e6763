//! The gate of one entry with what judges it: the reference foretells each step, the model of the harness follows it.

use crate::BEGIN_MS;
use crate::explore::Subject;
use crate::fingerprint::Fingerprint;
use crate::reference::{Breaker, Pass, Reference, Said};
use squall::base::{MonoTime, Outcome, Rules, Span};
use squall::breaker::{Ask, Evidence, Gate, GateEffect, GateRules, ParkOrder, Permit, Phase};
use squall::event::{OpenWhy, ParkScope, ParkWhy};
use squall_sim::model::breaker::{self as model, Admission};

/// An attempt under way: as the gate, the reference and the model know it.
#[derive(Debug)]
struct Underway {
    permit: Permit,
    pass: Pass,
    admission: Admission,
    token_seen: bool,
}

/// The gate, the reference that foretells it, and the model that follows its breaker.
pub struct Watched {
    gate: Gate,
    rules: GateRules,
    reference: Reference,
    model: model::Breaker,
    underway: Vec<Underway>,
    attempts: u64,
    pub now: u64,
    menu: Menu,
}

/// What is tried in an exploration.
#[derive(Clone, Debug)]
pub struct Menu {
    pub underway_max: usize,
    pub outcomes: Vec<(Outcome, Option<u64>)>,
    /// Chains without a serving entry, and probes.
    pub last_resort: bool,
    pub restart: bool,
    pub tokens: bool,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub at: u64,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Time passes.
    Nothing,
    Ask {
        probe: bool,
        stream: bool,
    },
    /// Asked and ended in the same instant.
    Call {
        outcome: Outcome,
        hint: Option<u64>,
    },
    FirstToken {
        which: usize,
    },
    End {
        which: usize,
        outcome: Outcome,
        hint: Option<u64>,
    },
    Down(bool),
    /// A sibling was told to wait for this long, and so this entry was.
    Sibling {
        wait: u64,
    },
    /// The failure so many attempts ago was the request's fault.
    Forgive {
        back: u64,
    },
    Restart,
}

impl Watched {
    pub fn new(rules: &Rules, menu: Menu) -> Watched {
        Watched {
            gate: Gate::new(),
            rules: GateRules::new(rules, false),
            reference: Reference::new(rules),
            model: model::Breaker::new(),
            underway: Vec::new(),
            attempts: 0,
            now: BEGIN_MS,
            menu,
        }
    }

    /// Now, and around every bound that is still ahead.
    pub fn instants(&self) -> Vec<u64> {
        let rules = &self.rules.breaker;
        let spacing = match self.reference.breaker {
            Breaker::HalfOpen { proven_at: Some(at), .. } => Some(at + rules.success_spacing.ms()),
            Breaker::HalfOpen { proven_at: None, .. } | Breaker::Open { .. } | Breaker::Closed => None,
        };
        let place = self.reference.in_place().and_then(|pass| pass.deadline);
        let (wait, window) = (self.reference.wait_end(), self.reference.oldest_result_leaves());
        let bounds = [self.reference.due(), place, spacing, wait, window].into_iter().flatten();
        let mut instants: Vec<u64> = bounds.flat_map(|bound| [bound - 1, bound, bound + 1]).collect();
        instants.push(self.now);
        instants.retain(|at| *at >= self.now);
        instants.sort_unstable();
        instants.dedup();
        instants
    }

    /// Lets the timers fire on the way to `at`, each exactly when it is due, as the engine does.
    fn pass_to(&mut self, at: u64) -> Result<(), String> {
        loop {
            let (due, foretold) = (self.gate.due(&self.rules).map(MonoTime::ms), self.reference.due());
            if due != foretold {
                return Err(format!("is due at {due:?}, not at {foretold:?}"));
            }
            let Some(due) = due.filter(|due| *due <= at) else { break };
            self.now = due.max(self.now);
            let effects = self.gate.timer(MonoTime(self.now), &self.rules);
            let foretold = self.reference.time(self.now);
            self.compare("the timer", &effects, &foretold)?;
            if effects.is_empty() && self.gate.due(&self.rules).map(MonoTime::ms) == Some(due) {
                return Err(format!("a timer that was due at {due} did nothing"));
            }
        }
        self.now = at;
        Ok(())
    }

    fn compare(&mut self, what: &str, effects: &[GateEffect], foretold: &[Said]) -> Result<(), String> {
        let said: Vec<Said> = effects.iter().map(said).collect();
        if said != foretold {
            return Err(format!("{what} led to {said:?}, not to {foretold:?}"));
        }
        said.iter().try_for_each(|said| self.follow(said))
    }

    /// What the model says about a move of the breaker.
    fn follow(&mut self, said: &Said) -> Result<(), String> {
        let rules = &self.rules.breaker;
        let (model, now) = (&mut self.model, Some(self.now));
        let wrong = match *said {
            Said::Opened { trips, until, why } => {
                let wrong = match why {
                    OpenWhy::Consecutive => !model.may_open_by_row(rules) || model.last.failure_ms != now,
                    OpenWhy::Rate => !model.may_open_by_rate(self.now, rules) || model.last.failure_ms != now,
                    OpenWhy::TrialThrottled => model.last.trial_wait_ms != now && model.last.adopted_wait_ms != now,
                    OpenWhy::TrialFailed | OpenWhy::NoVerdict => {
                        !matches!(model.phase(), model::Phase::HalfOpen { .. })
                    }
                    OpenWhy::Restored => false,
                };
                let trip = matches!(why, OpenWhy::Consecutive | OpenWhy::Rate | OpenWhy::TrialFailed);
                let counted =
                    why != OpenWhy::Restored && model.trips().is_some_and(|before| before + u32::from(trip) != trips);
                model.opened(trips, until);
                wrong || counted
            }
            Said::HalfOpened { by_probe } => {
                let early = !by_probe
                    && matches!(model.phase(), model::Phase::Open { until_ms: Some(until) } if self.now < until);
                let unproven = by_probe && model.last.probe_success_ms != now;
                model.half_opened(self.now, by_probe);
                early || unproven
            }
            Said::Closed => {
                let unproven = model.successes() < rules.successes_to_close;
                model.closed();
                unproven
            }
            Said::Parked { .. } | Said::ParkOver => false,
        };
        if wrong { Err(format!("said {said:?}, and the model knows no reason")) } else { Ok(()) }
    }

    fn end(&mut self, underway: Underway, outcome: Outcome, hint: Option<u64>) -> Result<(), String> {
        let Underway { permit, pass, admission, token_seen } = underway;
        let now = MonoTime(self.now);
        let evidence = Evidence { hint: hint.map(Span::from_ms), scope: ParkScope::Model };
        let foretold_late = self.reference.is_late(&pass);
        let settled = self.gate.settle(permit, outcome, evidence, now, &self.rules);
        if settled.late != foretold_late || settled.late != self.model.is_late(admission) {
            return Err(format!("says late: {} of {pass:?}", settled.late));
        }
        let result = match outcome {
            Outcome::Success => model::Result::Success,
            Outcome::ProviderFault | Outcome::Overloaded => model::Result::Failure,
            Outcome::Throttled | Outcome::Quota => model::Result::Wait,
            Outcome::BadKey | Outcome::CallersFault | Outcome::Unfit | Outcome::Refused | Outcome::Cancelled => {
                model::Result::Neutral
            }
        };
        let call = Some(pass.attempt);
        self.model.finished(self.now, admission, result, call, token_seen, &self.rules.breaker);
        let foretold = self.reference.ended(&pass, outcome, hint, self.now);
        self.compare("the end of an attempt", &settled.effects, &foretold)
    }

    /// Whether it is let through.
    fn ask(&mut self, probe: bool, stream: bool) -> Result<bool, String> {
        self.attempts += 1;
        let now = MonoTime(self.now);
        let admits = self.gate.admits(now, &self.rules);
        let admission = self.model.admit(self.now);
        let admitted = self.gate.admit(Ask { attempt: self.attempts, probe, stream }, now, &self.rules);
        let foretold = self.reference.pass(self.attempts, probe, stream, self.now);
        match (admitted, foretold) {
            (Ok(permit), Some(pass)) => {
                if permit.deadline().map(MonoTime::ms) != pass.deadline {
                    return Err(format!("gave a deadline of {:?}, not of {:?}", permit.deadline(), pass.deadline));
                }
                if !probe && !admits {
                    return Err("refused in words and admitted in deeds".to_owned());
                }
                self.underway.push(Underway { permit, pass, admission, token_seen: false });
                Ok(true)
            }
            (Err(refusal), None) => {
                let soon = refusal.earliest.is_some_and(|at| at < now);
                let lies = !probe && admits;
                if soon || lies { Err(format!("refuses with {refusal:?}")) } else { Ok(false) }
            }
            (Ok(_), None) => Err("let one through that has to be refused".to_owned()),
            (Err(refusal), Some(_)) => Err(format!("refused with {refusal:?} what has to be let through")),
        }
    }

    fn readings(&self) -> Result<(), String> {
        let reference = &self.reference;
        let phase = match self.gate.phase() {
            Phase::Closed => Breaker::Closed,
            Phase::Open { until } => Breaker::Open { until: until.ms() },
            Phase::HalfOpen { since, successes, counted_at } => {
                Breaker::HalfOpen { since: since.ms(), proofs: successes, proven_at: counted_at.map(MonoTime::ms) }
            }
        };
        let is = (phase, self.gate.trips(), self.gate.serves(), self.gate.park_until().map(MonoTime::ms));
        let should = (reference.breaker.clone(), reference.trips, reference.serves(), reference.wait_end());
        if is != should {
            return Err(format!("is {is:?}, not {should:?}"));
        }
        let (wants, should) = (self.gate.wants_probe(MonoTime(self.now), &self.rules), reference.wants_probe(self.now));
        if wants != should {
            return Err(format!("wants a probe: {wants}, not {should}"));
        }
        if self.gate.parked_long() != reference.long {
            return Err(format!("parked long: {}, not {}", self.gate.parked_long(), reference.long));
        }
        if self.model.must_open(&self.rules.breaker) {
            return Err(format!("stays closed after {:?} failures in a row, or by their rate", self.model.row()));
        }
        Ok(())
    }
}

fn said(effect: &GateEffect) -> Said {
    match *effect {
        GateEffect::BreakerOpened { trips, until, why } => Said::Opened { trips, until: until.ms(), why },
        GateEffect::BreakerHalfOpen { by_probe } => Said::HalfOpened { by_probe },
        GateEffect::BreakerClosed => Said::Closed,
        GateEffect::ParkStarted { until, .. } => Said::Parked { until: until.ms() },
        GateEffect::ParkEnded => Said::ParkOver,
    }
}

impl Subject for Watched {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let menu = &self.menu;
        let mut whats = vec![What::Nothing];
        if self.underway.len() < menu.underway_max {
            whats.push(What::Ask { probe: false, stream: true });
            if menu.last_resort {
                whats.push(What::Ask { probe: true, stream: false });
            }
        }
        whats.extend(menu.outcomes.iter().map(|(outcome, hint)| What::Call { outcome: *outcome, hint: *hint }));
        for which in 0..self.underway.len() {
            whats.extend(menu.outcomes.iter().map(|(outcome, hint)| What::End {
                which,
                outcome: *outcome,
                hint: *hint,
            }));
            if menu.tokens && !self.underway[which].token_seen {
                whats.push(What::FirstToken { which });
            }
        }
        if menu.last_resort {
            whats.push(What::Down(!self.reference.down));
        }
        if menu.restart {
            whats.push(What::Restart);
        }
        let at = |at: u64| whats.iter().map(move |what| Step { at, what: *what }).collect::<Vec<_>>();
        self.instants().into_iter().flat_map(at).collect()
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        self.pass_to(step.at)?;
        match step.what {
            What::Nothing => {}
            What::Ask { probe, stream } => {
                self.ask(probe, stream)?;
            }
            What::Call { outcome, hint } => {
                if self.ask(false, true)? {
                    let underway = self.underway.pop().expect("it was just let through");
                    self.end(underway, outcome, hint)?;
                }
            }
            What::FirstToken { which } => {
                if let Some(underway) = self.underway.get_mut(which).filter(|underway| !underway.token_seen) {
                    underway.token_seen = true;
                    let settled = self.gate.first_token(&mut underway.permit, MonoTime(self.now), &self.rules);
                    self.model.first_token(self.now, underway.admission, &self.rules.breaker);
                    let foretold = self.reference.first_token(&mut underway.pass, self.now);
                    self.compare("a first token", &settled.effects, &foretold)?;
                }
            }
            What::End { which, outcome, hint } => {
                if which < self.underway.len() {
                    let underway = self.underway.remove(which);
                    self.end(underway, outcome, hint)?;
                }
            }
            What::Down(down) => {
                self.gate.set_chain_down(down);
                self.reference.down = down;
            }
            What::Sibling { wait } => {
                let until = MonoTime(self.now + wait);
                let order = ParkOrder {
                    scope: ParkScope::Provider,
                    why: ParkWhy::Throttled,
                    hint: Some(Span::from_ms(wait)),
                    until,
                    until_chain_down: until,
                };
                let effects = self.gate.share_park(order, MonoTime(self.now));
                let foretold = self.reference.sibling_waits(wait, self.now);
                self.compare("a sibling's wait", &effects, &foretold)?;
            }
            What::Forgive { back } => {
                let attempt = self.attempts.saturating_sub(back);
                self.gate.forgive(&[attempt]);
                self.reference.forgive(attempt);
                self.model.poison(attempt);
            }
            What::Restart => {
                self.underway.clear();
                let effects = self.gate.restore(MonoTime(self.now), &self.rules);
                self.model.restarted(self.now, &self.rules.breaker);
                let foretold = self.reference.restarted(self.now);
                self.compare("a restart", &effects, &foretold)?;
            }
        }
        // What fell due by this very step.
        self.pass_to(self.now)?;
        self.readings()
    }

    fn fingerprint(&self) -> u64 {
        let mut print = Fingerprint::new(self.now, Some(self.reference.generation), &["traffic_at"]);
        print.add(&self.gate);
        print.add(&self.reference.facts());
        for Underway { permit, pass, admission, token_seen } in &self.underway {
            print.add(&(permit, pass, self.model.is_late(*admission), token_seen));
        }
        let model = &self.model;
        let may_open = model.may_open_by_rate(self.now, &self.rules.breaker);
        print.add(&(model.phase(), model.trips(), model.row(), model.successes(), may_open));
        print.done()
    }
}
