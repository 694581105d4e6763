//! The models that a server of its own machine keeps in memory, and the wait for one that is not there.
//!
//! A model is loaded by the first request for it and dropped [`KEEP_ALIVE`] after the last one; who asks while it loads
//! waits for the same load. When the process that runs it dies, the next request loads it again.
//! **Source:** protocols.md C.4 (cold start, `keep_alive` 5 m).

use crate::scenario::Dist;
use crate::seed::Stream;
use squall::base::Span;
use std::collections::BTreeMap;

const KEEP_ALIVE: Span = Span::from_mins(5);

#[derive(Debug)]
pub struct Runner {
    cold_start: Dist,
    /// Drawn from for each load: how many there are shifts no latency.
    random: Stream,
    models: BTreeMap<String, Loaded>,
}

#[derive(Clone, Copy, Debug)]
struct Loaded {
    ready_ms: u64,
    used_ms: u64,
}

impl Runner {
    pub fn new(cold_start: Dist, random: Stream) -> Runner {
        Runner { cold_start, random, models: BTreeMap::new() }
    }

    /// How long a request for `model` that arrives now waits until the model is there. It takes `work` from then on.
    pub fn wait(&mut self, model: &str, now_ms: u64, work: Span) -> Span {
        let kept = self.models.get(model).filter(|loaded| now_ms < loaded.used_ms.saturating_add(KEEP_ALIVE.ms()));
        let (ready_ms, used_ms) = match kept {
            Some(loaded) => (loaded.ready_ms, loaded.used_ms),
            None => (now_ms.saturating_add(self.cold_start.sample(&mut self.random).ms()), now_ms),
        };
        let done_ms = ready_ms.max(now_ms).saturating_add(work.ms());
        self.models.insert(model.to_owned(), Loaded { ready_ms, used_ms: used_ms.max(done_ms) });
        Span::from_ms(ready_ms.saturating_sub(now_ms))
    }

    /// The process that ran `model` is gone.
    pub fn lose(&mut self, model: &str) {
        self.models.remove(model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn runner() -> Runner {
        Runner::new(Dist::Fixed(Span::from_secs(8)), Seed::new(1).stream("t"))
    }

    #[test]
    fn the_first_request_after_a_pause_waits_for_the_model_and_the_next_ones_do_not() {
        let mut runner = runner();
        let mut at = |s: u64| runner.wait("m", s * 1_000, Span::from_secs(1)).ms();
        assert_eq!(at(0), 8_000);
        assert_eq!(at(3), 5_000, "the same load");
        assert_eq!(at(20), 0);
        assert_eq!(at(20 + 300), 0, "it is kept five minutes from the end of the last request");
        assert_eq!(at(321 + 301), 8_000);
    }

    #[test]
    fn each_model_is_loaded_for_itself_and_again_when_its_process_died() {
        let mut runner = runner();
        assert_eq!(runner.wait("m", 0, Span::ZERO).ms(), 8_000);
        assert_eq!(runner.wait("n", 9_000, Span::ZERO).ms(), 8_000);
        runner.lose("m");
        assert_eq!(runner.wait("m", 10_000, Span::ZERO).ms(), 8_000);
        assert_eq!(runner.wait("n", 20_000, Span::ZERO).ms(), 0);
    }
}
