//! Randomness for jitter. Nothing else in the engine is drawn by chance.

pub trait Rng {
    /// Uniform in `[0, 1)`.
    fn unit(&mut self) -> f64;
}
