//! A run's seed and its named streams: every random consumer has its own, so that adding one shifts no other.
//!
//! A stream is a ChaCha8 generator keyed by the hash of (seed, name): the same bytes on every machine.
//! **Source:** architecture.md (`seed.rs`), style.md 9.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The seed of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

/// The random numbers of one consumer.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Seed {
    pub const fn new(seed: u64) -> Seed {
        Seed(seed)
    }

    pub const fn value(&self) -> u64 {
        self.0
    }

    /// The stream named `name`; asking twice gives the same numbers from the start.
    pub fn stream(&self, name: &str) -> Stream {
        let mut hasher = blake3::Hasher::new();
        // The seed has a fixed width, so no two pairs (seed, name) hash the same bytes.
        hasher.update(&self.0.to_le_bytes());
        hasher.update(name.as_bytes());
        Stream(ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()))
    }
}

impl Stream {
    /// Uniform in `[0, 1)`, on a grid of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "nothing is below 0");
        // Draws from the incomplete last run of 0..n are thrown away: they would favour small numbers.
        let usable = u64::MAX - u64::MAX % n;
        loop {
            let draw = self.0.next_u64();
            if draw < usable {
                return draw % n;
            }
        }
    }

    /// True with probability `p`: never at 0, always at 1. Always draws, so that `p` shifts nothing later.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_the_same_on_every_machine() {
        let mut stream = Seed::new(42).stream("fault.1");
        let drawn: Vec<u64> = (0..4).map(|_| stream.below(1_000_000)).collect();
        assert_eq!(drawn, PINNED);
        let mut again = Seed::new(42).stream("fault.1");
        assert_eq!(drawn, (0..4).map(|_| again.below(1_000_000)).collect::<Vec<_>>());
    }
    const PINNED: [u64; 4] = [176_149, 345_611, 587_432, 890_324];

    #[test]
    fn streams_of_other_names_or_seeds_are_other_numbers() {
        let first = |seed, name| Seed::new(seed).stream(name).below(u64::MAX);
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_its_ends() {
        let mut stream = Seed::new(7).stream("range");
        let mut seen = [0u32; 6];
        for _ in 0..6_000 {
            seen[stream.below(6) as usize] += 1;
            assert!((0.0..1.0).contains(&stream.unit()));
        }
        assert!(seen.iter().all(|n| (800..1_200).contains(n)), "{seen:?}");
        assert_eq!(stream.below(1), 0);
    }

    #[test]
    fn a_chance_of_zero_never_comes_and_of_one_always() {
        let mut stream = Seed::new(7).stream("chance");
        assert!((0..1_000).all(|_| !stream.chance(0.0) && stream.chance(1.0)));
    }
}
