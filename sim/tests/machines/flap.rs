//! Flap protection of one axis.

use crate::BEGIN_MS;
use crate::explore::{Subject, exhaust};
use crate::fingerprint::Fingerprint;
use proptest::prelude::*;
use squall::axis::{AxisEffect, AxisState};
use squall::base::rules::{FlapCount, FlapRules};
use squall::base::{Axis, Level, MonoTime};
use squall_sim::model::flap::Flap;

const AXIS: Axis = Axis::Cloud;

/// The machine, and the model that follows it.
struct Watched {
    axis: AxisState,
    model: Flap,
    rules: FlapRules,
    now: u64,
    /// When it changed, as far as a window can still reach.
    changes: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Step {
    at: u64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Measured(Level),
    /// The timer of a hold, right at its end or late; early it does nothing.
    Timer,
}

impl Watched {
    fn new(rules: FlapRules) -> Watched {
        let axis = AxisState::new(Level::Normal, MonoTime(BEGIN_MS));
        let model = Flap::new(AXIS, &rules, Level::Normal);
        Watched { axis, model, rules, now: BEGIN_MS, changes: Vec::new() }
    }

    /// Now, a little later, and around every bound that is still ahead.
    fn instants(&self) -> Vec<u64> {
        let windows = self.changes.iter().map(|change| change + self.rules.window.ms());
        let bounds = windows.chain(self.axis.hold_until().map(MonoTime::ms));
        let around = bounds.flat_map(|bound| [bound - 1, bound, bound + 1]);
        let mut instants: Vec<u64> = around.chain([self.now, self.now + 1]).filter(|at| *at >= self.now).collect();
        instants.sort_unstable();
        instants.dedup();
        instants
    }

    fn follow(&mut self, effect: &AxisEffect) -> Result<(), String> {
        match *effect {
            AxisEffect::Changed { was, to, measured } => {
                if was != self.model.applied() || measured != to {
                    return Err(format!("says {effect:?} on {}", self.model.applied()));
                }
                self.changes.push(self.now);
                self.model.changed(self.now, to)
            }
            AxisEffect::Suppressed { was, to } => {
                if was != self.model.applied() {
                    return Err(format!("says {effect:?} on {}", self.model.applied()));
                }
                self.model.suppressed(self.now, to)
            }
            AxisEffect::HoldStarted { until, restarted } => self.model.hold_started(self.now, until.ms(), restarted),
            AxisEffect::HoldEnded => self.model.hold_ended(self.now, u64::MAX),
        }
    }
}

impl Subject for Watched {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let whats: Vec<What> = AXIS.levels().iter().map(|level| What::Measured(*level)).chain([What::Timer]).collect();
        let at = |at: u64| whats.iter().map(move |what| Step { at, what: *what }).collect::<Vec<_>>();
        self.instants().into_iter().flat_map(at).collect()
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        self.now = step.at;
        let now = MonoTime(step.at);
        let before = self.axis.measured();
        let was_over = self.axis.hold_until().is_some_and(|until| now >= until);
        let effects = match step.what {
            What::Measured(level) => {
                if level != before {
                    self.model.measured(level);
                }
                self.axis.report(AXIS, level, now, &self.rules)
            }
            What::Timer => self.axis.hold_ended(AXIS, before, now, &self.rules),
        };
        for effect in &effects {
            self.follow(effect)?;
        }
        self.model.settled()?;
        if was_over != effects.contains(&AxisEffect::HoldEnded) {
            return Err(format!("a hold that was over ({was_over}) and then {effects:?}"));
        }
        let (window, now) = (self.rules.window.ms(), self.now);
        self.changes.retain(|change| change + window >= now);
        let (is, should) = (self.axis.level(), self.model.applied());
        if is != should {
            return Err(format!("is at {is}, and said what leads to {should}"));
        }
        let (is, should) = (self.axis.hold_until().map(MonoTime::ms), self.model.hold_until());
        if is != should {
            return Err(format!("holds until {is:?}, and said what leads to {should:?}"));
        }
        Ok(())
    }

    fn fingerprint(&self) -> u64 {
        let mut print = Fingerprint::new(self.now, None, &["since"]);
        print.add(&self.axis);
        print.add(&self.model);
        print.done()
    }
}

#[test]
fn every_short_life_of_an_axis_is_as_its_model_says() {
    exhaust(|| Watched::new(FlapRules::default()), 8, 5_000);
}

#[test]
fn counted_by_runs_every_short_life_is_as_its_model_says() {
    let rules = FlapRules { count: FlapCount::Runs, transitions_max: 2, ..FlapRules::default() };
    exhaust(|| Watched::new(rules.clone()), 6, 5_000);
}

#[test]
fn an_exempt_axis_never_says_anything_but_changes() {
    let rules = FlapRules { exempt: vec![AXIS], ..FlapRules::default() };
    exhaust(|| Watched::new(rules.clone()), 4, 4);
}

/// What happens, and when: so many milliseconds later, or at one of the instants that matter.
#[derive(Clone, Copy, Debug)]
struct Draw {
    wait: Wait,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    Ms(u64),
    Instant(usize),
}

fn any_draw() -> impl Strategy<Value = Draw> {
    let wait = prop_oneof![(0..900_000_u64).prop_map(Wait::Ms), (0..16_usize).prop_map(Wait::Instant)];
    let level = proptest::sample::select(AXIS.levels()).prop_map(What::Measured);
    let what = prop_oneof![5 => level, 1 => Just(What::Timer)];
    (wait, what).prop_map(|(wait, what)| Draw { wait, what })
}

fn any_rules() -> impl Strategy<Value = FlapRules> {
    let count = proptest::sample::select(vec![FlapCount::Changes, FlapCount::Runs]);
    (count, 1..5_u32).prop_map(|(count, transitions_max)| FlapRules { count, transitions_max, ..FlapRules::default() })
}

proptest! {
    #[test]
    fn a_long_life_of_an_axis_is_as_its_model_says(
        draws in proptest::collection::vec(any_draw(), 1..200),
        rules in any_rules(),
    ) {
        let mut watched = Watched::new(rules);
        for Draw { wait, what } in draws {
            let at = match wait {
                Wait::Ms(ms) => watched.now + ms,
                Wait::Instant(which) => {
                    let instants = watched.instants();
                    instants[which % instants.len()]
                }
            };
            watched.take(&Step { at, what }).map_err(TestCaseError::fail)?;
        }
    }
}
