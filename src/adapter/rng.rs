//! Jitter from a generator that the system has seeded, so that no two engines wait alike.

use crate::port::Rng;
use rand::rngs::{SysError, SysRng};
use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub struct OsSeededRng(ChaCha8Rng);

impl OsSeededRng {
    /// **Errors:** the system gives no randomness. Later draws cannot fail.
    pub fn new() -> Result<OsSeededRng, SysError> {
        Ok(OsSeededRng(ChaCha8Rng::try_from_rng(&mut SysRng)?))
    }
}

impl Rng for OsSeededRng {
    fn unit(&mut self) -> f64 {
        // The 53 bits that a float can hold, so that 1 is never reached by rounding.
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_lie_in_the_unit_interval_and_two_engines_differ() {
        let draw = || {
            let mut rng = OsSeededRng::new().expect("the system is random");
            (0..1_000).map(|_| rng.unit()).collect::<Vec<f64>>()
        };
        let (one, other) = (draw(), draw());
        assert!(one.iter().all(|unit| (0.0..1.0).contains(unit)));
        assert!(one.iter().any(|unit| *unit < 0.1) && one.iter().any(|unit| *unit > 0.9));
        assert_ne!(one, other);
    }
}
