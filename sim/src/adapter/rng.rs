//! Jitter for the engine: a stream of the run's seed.

use crate::seed::Stream;
use squall::port::Rng;

pub struct SimRng(Stream);

impl SimRng {
    pub fn new(stream: Stream) -> SimRng {
        SimRng(stream)
    }
}

impl Rng for SimRng {
    fn unit(&mut self) -> f64 {
        self.0.unit()
    }
}
