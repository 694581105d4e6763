//! When requests arrive.
//!
//! **Units:** milliseconds since the start of the run. **Source:** scenario.md, "Loads".

use crate::scenario::{Arrivals, Dist, Load};
use crate::seed::Stream;

/// The times at which one load's requests arrive, in order, each in `[from, to)`.
pub struct Times {
    plan: Plan,
    from_ms: u64,
    to_ms: u64,
    stream: Stream,
}

enum Plan {
    /// `next` is the next arrival.
    Every {
        gap: Dist,
        next_ms: u64,
    },
    /// `at` is the last arrival in fractions of a millisecond, so that rounding does not change the rate.
    Rate {
        per_second: f64,
        at_ms: f64,
    },
    At(std::vec::IntoIter<u64>),
    Burst {
        at_ms: u64,
        i: u64,
        count: u64,
        over_ms: u64,
    },
}

impl Times {
    /// `stream` is the load's own.
    pub fn new(load: &Load, stream: Stream) -> Times {
        let plan = match &load.arrivals {
            Arrivals::Every(gap) => Plan::Every { gap: *gap, next_ms: load.from.ms() },
            Arrivals::Rate(per_second) => Plan::Rate { per_second: *per_second, at_ms: load.from.ms() as f64 },
            Arrivals::At(times) => {
                let mut times: Vec<u64> = times.iter().map(|time| time.ms()).collect();
                times.sort_unstable();
                Plan::At(times.into_iter())
            }
            Arrivals::Burst { at, count, over } => {
                Plan::Burst { at_ms: at.ms(), i: 0, count: u64::from(*count), over_ms: over.ms() }
            }
        };
        Times { plan, from_ms: load.from.ms(), to_ms: load.to.ms(), stream }
    }

    fn propose(&mut self) -> Option<u64> {
        match &mut self.plan {
            Plan::Every { gap, next_ms } => {
                let at_ms = *next_ms;
                // A gap of nothing would put every arrival of the run into one instant.
                *next_ms = at_ms.saturating_add(gap.sample(&mut self.stream).ms().max(1));
                Some(at_ms)
            }
            Plan::Rate { per_second, at_ms } => {
                if *per_second <= 0.0 {
                    return None;
                }
                *at_ms += -libm::log(1.0 - self.stream.unit()) / *per_second * 1_000.0;
                Some(*at_ms as u64)
            }
            Plan::At(times) => times.next(),
            Plan::Burst { at_ms, i, count, over_ms } => {
                let at_ms = (*i < *count).then(|| *at_ms + *i * *over_ms / *count)?;
                *i += 1;
                Some(at_ms)
            }
        }
    }
}

impl Iterator for Times {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            let at_ms = self.propose()?;
            if at_ms >= self.to_ms {
                return None;
            }
            if at_ms >= self.from_ms {
                return Some(at_ms);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Client, Content, LoadKind};
    use crate::seed::Seed;
    use squall::base::Span;

    fn times(arrivals: Arrivals, from_s: u64, to_s: u64) -> Vec<u64> {
        let load = Load {
            line: 7,
            kind: LoadKind::Remember { content: Content::default() },
            arrivals,
            from: Span::from_secs(from_s),
            to: Span::from_secs(to_s),
            client: Client::One,
        };
        Times::new(&load, Seed::new(3).stream("load.7")).collect()
    }

    #[test]
    fn the_first_arrival_is_at_the_start_and_none_is_at_the_end() {
        let every = Arrivals::Every(Dist::Fixed(Span::from_secs(10)));
        assert_eq!(times(every, 5, 35), [5_000, 15_000, 25_000]);
    }

    #[test]
    fn the_ith_of_a_burst_arrives_after_i_parts_of_it() {
        let burst = Arrivals::Burst { at: Span::from_secs(60), count: 4, over: Span::from_secs(10) };
        assert_eq!(times(burst, 0, 3_600), [60_000, 62_500, 65_000, 67_500]);
        let at_once = Arrivals::Burst { at: Span::from_secs(60), count: 3, over: Span::ZERO };
        assert_eq!(times(at_once, 0, 3_600), [60_000; 3]);
    }

    #[test]
    fn listed_times_outside_the_loads_own_are_left_out() {
        let at = Arrivals::At([90, 5, 10, 20].map(Span::from_secs).to_vec());
        assert_eq!(times(at, 10, 90), [10_000, 20_000]);
    }

    #[test]
    fn a_rate_keeps_its_mean_over_a_long_time() {
        let many = times(Arrivals::Rate(0.1), 0, 1_000_000);
        assert!((98_000..102_000).contains(&many.len()), "{}", many.len());
        assert!(many.is_sorted());
        assert_eq!(many, times(Arrivals::Rate(0.1), 0, 1_000_000));
    }

    #[test]
    fn arrivals_without_a_gap_still_come_to_an_end() {
        assert_eq!(times(Arrivals::Every(Dist::Fixed(Span::ZERO)), 0, 1).len(), 1_000);
        assert!(times(Arrivals::Rate(0.0), 0, 1).is_empty());
    }
}
