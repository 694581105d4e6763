//! What a provider allows: token buckets for requests and tokens per minute, and a count of requests under way.
//!
//! A bucket starts full, holds one minute's allowance and refills evenly. All sums are whole numbers, so that an
//! allowance is exact over any time. **Source:** scenario.md, `limit`; protocols.md C.1 (token bucket).

use crate::scenario::Allowance;
use squall::base::Span;

/// One unit of allowance, in sixty-thousandths: a bucket of `n` per minute gains `n` of them each millisecond.
const UNIT: u64 = 60_000;

#[derive(Clone, Debug)]
struct Bucket {
    per_minute: u64,
    level: u64,
    at_ms: u64,
}

/// How a bucket stands, for the headers that report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub limit: u64,
    pub remaining: u64,
    /// Until it is full again.
    pub reset: Span,
}

impl Bucket {
    fn new(per_minute: u32, now_ms: u64) -> Bucket {
        let per_minute = u64::from(per_minute);
        Bucket { per_minute, level: per_minute * UNIT, at_ms: now_ms }
    }

    fn refill(&mut self, now_ms: u64) {
        let gained = now_ms.saturating_sub(self.at_ms).saturating_mul(self.per_minute);
        self.level = self.level.saturating_add(gained).min(self.per_minute * UNIT);
        self.at_ms = self.at_ms.max(now_ms);
    }

    /// A request larger than the bucket is let through once the bucket is full.
    fn price(&self, amount: u64) -> u64 {
        amount.min(self.per_minute).saturating_mul(UNIT)
    }

    /// Until `amount` is there; zero if it is. `None`: never, nothing is allowed at all.
    fn wait(&self, amount: u64) -> Option<Span> {
        if self.per_minute == 0 {
            return None;
        }
        Some(Span::from_ms(self.price(amount).saturating_sub(self.level).div_ceil(self.per_minute)))
    }

    fn standing(&self) -> Standing {
        let missing = self.per_minute * UNIT - self.level;
        let reset = if self.per_minute == 0 { 60_000 } else { missing.div_ceil(self.per_minute) };
        Standing { limit: self.per_minute, remaining: self.level / UNIT, reset: Span::from_ms(reset) }
    }
}

/// Why a request is not allowed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// `wait`: until it would be allowed; a minute if nothing is allowed at all.
    Requests {
        wait: Span,
    },
    Tokens {
        wait: Span,
    },
    Concurrent,
}

/// One server's allowance and what is left of it.
#[derive(Clone, Debug)]
pub struct Meter {
    allowance: Allowance,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// When the requests under way will be answered in full.
    busy_until_ms: Vec<u64>,
}

impl Meter {
    pub fn new(allowance: Allowance, now_ms: u64) -> Meter {
        Meter {
            allowance,
            requests: allowance.requests_per_minute.map(|n| Bucket::new(n, now_ms)),
            tokens: allowance.tokens_per_minute.map(|n| Bucket::new(n, now_ms)),
            busy_until_ms: Vec::new(),
        }
    }

    /// Takes one request of `tokens` tokens out of the allowance, or says what it lacks and takes nothing.
    pub fn admit(&mut self, tokens: u64, now_ms: u64) -> Result<(), Short> {
        self.busy_until_ms.retain(|until| *until > now_ms);
        for bucket in [&mut self.requests, &mut self.tokens].into_iter().flatten() {
            bucket.refill(now_ms);
        }
        let lacks = |bucket: &Option<Bucket>, amount| match bucket.as_ref().map(|bucket| bucket.wait(amount)) {
            None => None,
            Some(Some(wait)) => (!wait.is_zero()).then_some(wait),
            Some(None) => Some(Span::from_mins(1)),
        };
        if let Some(wait) = lacks(&self.requests, 1) {
            return Err(Short::Requests { wait });
        }
        if let Some(wait) = lacks(&self.tokens, tokens) {
            return Err(Short::Tokens { wait });
        }
        if self.allowance.concurrent.is_some_and(|max| self.busy_until_ms.len() >= max as usize) {
            return Err(Short::Concurrent);
        }
        for (bucket, amount) in [(&mut self.requests, 1), (&mut self.tokens, tokens)] {
            if let Some(bucket) = bucket {
                bucket.level -= bucket.price(amount);
            }
        }
        Ok(())
    }

    /// A request that was admitted keeps the server busy until then.
    pub fn busy(&mut self, until_ms: u64) {
        if self.allowance.concurrent.is_some() {
            self.busy_until_ms.push(until_ms);
        }
    }

    /// How the buckets stand, as of the last admission: requests, tokens. `None`: unlimited.
    pub fn standing(&self) -> (Option<Standing>, Option<Standing>) {
        (self.requests.as_ref().map(Bucket::standing), self.tokens.as_ref().map(Bucket::standing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_minute(requests: u32) -> Allowance {
        Allowance { requests_per_minute: Some(requests), ..Allowance::default() }
    }

    #[test]
    fn a_minutes_allowance_may_be_spent_at_once_and_comes_back_evenly() {
        let mut meter = Meter::new(per_minute(60), 0);
        for _ in 0..60 {
            assert_eq!(meter.admit(1, 0), Ok(()));
        }
        assert_eq!(meter.admit(1, 0), Err(Short::Requests { wait: Span::from_secs(1) }));
        assert_eq!(meter.admit(1, 999), Err(Short::Requests { wait: Span::from_ms(1) }));
        assert_eq!(meter.admit(1, 1_000), Ok(()));
        assert_eq!(meter.admit(1, 1_000), Err(Short::Requests { wait: Span::from_secs(1) }));
    }

    #[test]
    fn over_an_hour_exactly_the_allowance_is_let_through() {
        let mut meter = Meter::new(per_minute(7), 0);
        let passed = (0..=3_600_000).step_by(100).filter(|now_ms| meter.admit(1, *now_ms).is_ok()).count();
        assert_eq!(passed, 7 + 7 * 60);
    }

    #[test]
    fn the_stated_wait_is_enough_and_a_millisecond_less_is_not() {
        let mut meter = Meter::new(Allowance { tokens_per_minute: Some(90_000), ..Allowance::default() }, 0);
        assert_eq!(meter.admit(89_000, 0), Ok(()));
        let Err(Short::Tokens { wait }) = meter.admit(5_000, 0) else { panic!("1,000 tokens are left") };
        assert!(meter.admit(5_000, wait.ms() - 1).is_err());
        assert_eq!(meter.admit(5_000, wait.ms()), Ok(()));
    }

    #[test]
    fn a_request_larger_than_the_bucket_needs_a_full_one() {
        let mut meter = Meter::new(Allowance { tokens_per_minute: Some(100), ..Allowance::default() }, 0);
        assert_eq!(meter.admit(5_000, 0), Ok(()));
        assert_eq!(meter.admit(5_000, 0), Err(Short::Tokens { wait: Span::from_mins(1) }));
    }

    #[test]
    fn a_request_counts_as_concurrent_until_it_is_answered() {
        let mut meter = Meter::new(Allowance { concurrent: Some(1), ..Allowance::default() }, 0);
        assert_eq!(meter.admit(1, 0), Ok(()));
        meter.busy(500);
        assert_eq!(meter.admit(1, 499), Err(Short::Concurrent));
        assert_eq!(meter.admit(1, 500), Ok(()));
    }

    #[test]
    fn an_allowance_of_nothing_lets_nothing_through() {
        let mut meter = Meter::new(per_minute(0), 0);
        assert_eq!(meter.admit(1, 1_000_000), Err(Short::Requests { wait: Span::from_mins(1) }));
    }

    #[test]
    fn a_refused_request_takes_nothing() {
        let allowance = Allowance { requests_per_minute: Some(10), tokens_per_minute: Some(10), concurrent: None };
        let mut meter = Meter::new(allowance, 0);
        assert_eq!(meter.admit(10, 0), Ok(()));
        assert!(meter.admit(10, 0).is_err());
        assert_eq!(meter.standing().0.unwrap().remaining, 9);
    }
}
