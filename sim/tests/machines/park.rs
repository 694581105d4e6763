//! Waits that an entry was told, and how it proves itself after them.

use crate::breaker::{any_draw, live};
use crate::explore::exhaust;
use crate::watched::{Menu, Watched};
use proptest::prelude::*;
use squall::base::{Outcome, Rules, Span};

#[test]
fn every_short_life_of_a_park_is_as_foretold() {
    let outcomes = vec![
        (Outcome::Success, None),
        (Outcome::ProviderFault, None),
        (Outcome::Throttled, None),
        (Outcome::Throttled, Some(61_000)),
        (Outcome::Quota, None),
    ];
    let menu = Menu { underway_max: 1, outcomes, last_resort: true, restart: false, tokens: false };
    exhaust(|| Watched::new(&Rules::default(), menu.clone()), 4, 10_000);
}

proptest! {
    #[test]
    fn whatever_its_numbers_a_long_life_with_parks_is_as_foretold(
        draws in proptest::collection::vec(any_draw(), 1..200),
        (base_s, max_s, confirmations) in (1..30_u64, 30..600_u64, 1..5_u32),
        quota_min in 5..300_u64,
    ) {
        let mut rules = Rules::default();
        // A breaker that nothing opens leaves the parks to themselves.
        (rules.breaker.failures_max, rules.breaker.rate_min) = (1_000, 1_000);
        rules.park.confirmations = confirmations;
        (rules.park.base, rules.park.max) = (Span::from_secs(base_s), Span::from_secs(max_s));
        rules.park.quota = Span::from_mins(quota_min);
        live(&rules, &draws)?;
    }
}
