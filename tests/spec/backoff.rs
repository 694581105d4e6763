//! How long a retry waits.

use crate::{Row, check, row};
use squall::base::Span;
use squall::base::rules::RetryRules;
use squall::chain::backoff::backoff;

fn rules(base_ms: u64, max_ms: u64, jitter: f64) -> RetryRules {
    let (base, max) = (Span::from_ms(base_ms), Span::from_ms(max_ms));
    RetryRules { base, max, jitter, factor: 2.0, ..RetryRules::default() }
}

/// `count` numbers spread evenly over 0..=1.
fn units(count: u32) -> impl Iterator<Item = f64> {
    (0..count).map(move |n| f64::from(n) / f64::from(count - 1))
}

pub fn rows() -> Vec<Row> {
    vec![
        row("RT-011", "base 100 ms, factor 2, no jitter: 100, 200, 400 ms", || {
            let waits = [0, 1, 2].map(|retry| backoff(retry, 0.7, &rules(100, 60_000, 0.0)).ms());
            assert_eq!(waits, [100, 200, 400]);
        }),
        row("RT-012", "retry 10 of base 1 s is capped at the 2 s allowed", || {
            assert_eq!(backoff(10, 0.7, &rules(1_000, 2_000, 0.0)), Span::from_secs(2));
        }),
        // Here jitter only lengthens; the cap holds before it.
        row("RT-013", "with 25 % jitter every wait is within 25 % of the capped value", || {
            for retry in 0..5 {
                let capped = (1_000_u64 << retry).min(4_000);
                for unit in units(50) {
                    let wait = backoff(retry, unit, &rules(1_000, 4_000, 0.25)).ms();
                    assert!((capped..=capped + capped / 4).contains(&wait), "retry {retry}, unit {unit}: {wait} ms");
                }
            }
        }),
        row("RT-014", "base and cap of 1 ms with 50 % jitter: never less than the base", || {
            for unit in units(100) {
                let wait = backoff(3, unit, &rules(1, 1, 0.5)).ms();
                assert!((1..=2).contains(&wait), "unit {unit}: {wait} ms");
            }
        }),
    ]
}

#[test]
fn table() {
    check(&rows());
}
