//! The breaker of one entry: what opens it, for how long, who may try it, what closes it.

use crate::explore::{Subject, exhaust};
use crate::watched::{Menu, Step, Watched, What};
use proptest::prelude::*;
use squall::base::{Outcome, Rules, Span};

const SUCCESS: (Outcome, Option<u64>) = (Outcome::Success, None);
const FAILURE: (Outcome, Option<u64>) = (Outcome::ProviderFault, None);

/// One attempt under way at a time, or none: the breaker itself.
fn one_at_a_time() -> Menu {
    Menu { underway_max: 1, outcomes: vec![SUCCESS, FAILURE], last_resort: false, restart: false, tokens: true }
}

/// Opened by three calls that failed.
fn opened(menu: &Menu) -> Watched {
    let mut watched = Watched::new(&Rules::default(), menu.clone());
    let what = What::Call { outcome: FAILURE.0, hint: FAILURE.1 };
    (0..3).for_each(|_| watched.take(&Step { at: watched.now, what }).expect("three failures open it"));
    watched
}

#[test]
fn every_short_life_of_a_breaker_is_as_foretold() {
    exhaust(|| Watched::new(&Rules::default(), one_at_a_time()), 8, 30_000);
}

#[test]
fn with_several_under_way_too() {
    let menu = Menu { underway_max: 2, ..one_at_a_time() };
    exhaust(|| Watched::new(&Rules::default(), menu.clone()), 6, 20_000);
}

/// Five steps more than the three that open it.
#[test]
fn from_an_open_breaker_on_with_waits_last_resorts_and_restarts_too() {
    let outcomes = vec![SUCCESS, FAILURE, (Outcome::Throttled, Some(20_000)), (Outcome::Cancelled, None)];
    let menu = Menu { underway_max: 1, outcomes, last_resort: true, restart: true, tokens: false };
    exhaust(|| opened(&menu), 5, 30_000);
}

/// Seven more: a trip, its doubled time, and the way to closing.
#[test]
fn from_an_open_breaker_on_to_its_closing_and_back() {
    exhaust(|| opened(&one_at_a_time()), 7, 20_000);
}

#[test]
fn by_the_share_of_failures_every_short_life_is_as_foretold() {
    let mut rules = Rules::default();
    (rules.breaker.failures_max, rules.breaker.rate_min, rules.breaker.rate) = (9, 4, 0.5);
    let menu =
        Menu { underway_max: 0, outcomes: vec![SUCCESS, FAILURE], last_resort: false, restart: false, tokens: false };
    exhaust(|| Watched::new(&rules, menu.clone()), 9, 1_000);
}

/// What happens, and when: so many milliseconds later, or at one of the instants that matter.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    pub wait: Wait,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub enum Wait {
    Ms(u64),
    Instant(usize),
}

pub fn any_draw() -> impl Strategy<Value = Draw> {
    use Outcome::{CallersFault, Cancelled, Overloaded, ProviderFault, Quota, Success, Throttled};
    let wait = prop_oneof![(0..60_000_u64).prop_map(Wait::Ms), (0..16_usize).prop_map(Wait::Instant)];
    let outcome = proptest::sample::select(vec![
        Success,
        Success,
        Success,
        ProviderFault,
        ProviderFault,
        Overloaded,
        Throttled,
        Quota,
        CallersFault,
        Cancelled,
    ]);
    let hint = || proptest::option::of(0..200_000_u64);
    let what = prop_oneof![
        1 => Just(What::Nothing),
        5 => (any::<bool>(), any::<bool>()).prop_map(|(probe, stream)| What::Ask { probe, stream }),
        5 => (outcome.clone(), hint()).prop_map(|(outcome, hint)| What::Call { outcome, hint }),
        5 => (0..4_usize, outcome, hint()).prop_map(|(which, outcome, hint)| What::End { which, outcome, hint }),
        2 => (0..4_usize).prop_map(|which| What::FirstToken { which }),
        1 => any::<bool>().prop_map(What::Down),
        1 => (0..200_000_u64).prop_map(|wait| What::Sibling { wait }),
        1 => (0..4_u64).prop_map(|back| What::Forgive { back }),
        1 => Just(What::Restart),
    ];
    (wait, what).prop_map(|(wait, what)| Draw { wait, what })
}

/// Lives through the draws. **Errors:** what was done wrong.
pub fn live(rules: &Rules, draws: &[Draw]) -> Result<(), TestCaseError> {
    let menu = Menu { underway_max: 0, outcomes: Vec::new(), last_resort: false, restart: false, tokens: false };
    let mut watched = Watched::new(rules, menu);
    for Draw { wait, what } in draws {
        let at = match wait {
            Wait::Ms(ms) => watched.now + ms,
            Wait::Instant(which) => {
                let instants = watched.instants();
                instants[which % instants.len()]
            }
        };
        watched.take(&Step { at, what: *what }).map_err(TestCaseError::fail)?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_long_life_of_a_gate_is_as_foretold(draws in proptest::collection::vec(any_draw(), 1..200)) {
        live(&Rules::default(), &draws)?;
    }

    #[test]
    fn whatever_the_numbers_a_long_life_is_as_foretold(
        draws in proptest::collection::vec(any_draw(), 1..200),
        (failures_max, rate_min, successes_to_close) in (1..6_u32, 2..12_u32, 1..5_u32),
        (open_s, half_open_s, spacing_s) in (1..300_u64, 1..300_u64, 0..30_u64),
    ) {
        let mut rules = Rules::default();
        let breaker = &mut rules.breaker;
        (breaker.failures_max, breaker.rate_min, breaker.successes_to_close) =
            (failures_max, rate_min, successes_to_close);
        (breaker.open, breaker.half_open_max) = (Span::from_secs(open_s), Span::from_secs(half_open_s));
        breaker.success_spacing = Span::from_secs(spacing_s);
        live(&rules, &draws)?;
    }
}
