//! The wait before a retry: exponential, capped, stretched by jitter upward only.
//!
//! **Source:** engine.md 3 (chain: back-off).

use crate::base::Span;
use crate::base::rules::RetryRules;

/// The wait before retry number `retry` (0 is the first) at an entry. `jitter_unit` is a random number in 0..1.
///
/// The cap holds before the jitter, so that a crowd that reached the cap still spreads.
pub fn backoff(retry: u32, jitter_unit: f64, rules: &RetryRules) -> Span {
    assert!((0.0..=1.0).contains(&jitter_unit), "LIMIT-2: a jitter unit of {jitter_unit}");
    let exponent = i32::try_from(retry).unwrap_or(i32::MAX);
    let factor = rules.factor.powi(exponent).min(f64::MAX);
    let capped = rules.base.scale(factor).min(rules.max);
    capped + capped.scale(rules.jitter * jitter_unit)
}

/// The wait in force: never shorter than what the answer stated.
pub fn wait(retry: u32, hint: Option<Span>, jitter_unit: f64, rules: &RetryRules) -> Span {
    backoff(retry, jitter_unit, rules).max(hint.unwrap_or(Span::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_doubles_from_half_a_second_to_thirty() {
        let rules = RetryRules::default();
        let waits: Vec<u64> = (0..8).map(|retry| backoff(retry, 0.0, &rules).ms()).collect();
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(backoff(u32::MAX, 0.0, &rules), Span::from_secs(30));
    }

    #[test]
    fn jitter_only_lengthens_and_by_a_quarter_at_most() {
        let rules = RetryRules::default();
        assert_eq!(backoff(0, 1.0, &rules).ms(), 625);
        assert_eq!(backoff(9, 1.0, &rules).ms(), 37_500);
    }

    #[test]
    fn the_longer_of_backoff_and_hint_is_waited() {
        let rules = RetryRules::default();
        assert_eq!(wait(0, Some(Span::from_secs(7)), 0.0, &rules), Span::from_secs(7));
        assert_eq!(wait(0, Some(Span::from_ms(1)), 0.0, &rules), Span::from_ms(500));
        assert_eq!(wait(0, None, 0.0, &rules), Span::from_ms(500));
    }

    proptest! {
        #[test]
        fn a_wait_is_never_shorter_than_the_hint(retry in 0u32..64, hint in 0u64..1_000_000_000, unit in 0.0f64..1.0) {
            prop_assert!(wait(retry, Some(Span::from_ms(hint)), unit, &RetryRules::default()).ms() >= hint);
        }
    }
}
