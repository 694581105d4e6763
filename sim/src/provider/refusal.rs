//! Refusals by name, and what an answer may say about waiting.
//!
//! The names are the drill's vocabulary (`error = "overloaded"`); each dialect has its own status, body and headers
//! for each of them. **Source:** scenario.md, `errors`; protocols.md C.1, C.2, C.4, C.5.

use crate::scenario::RetryAfter;
use squall::base::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    Overloaded,
    RateLimited,
    /// Ramped up too fast, though within the allowance.
    SlowDown,
    InsufficientQuota,
    /// A cap the customer or their tier set.
    SpendLimit,
    Billing,
    Auth,
    Permission,
    ModelNotFound,
    ContextLength,
    InvalidRequest,
    ServerError,
    Timeout,
    TooLarge,
    /// The process that runs the model behind the server has died.
    RunnerDead,
}

impl Refusal {
    pub const ALL: [Refusal; 15] = [
        Refusal::Overloaded,
        Refusal::RateLimited,
        Refusal::SlowDown,
        Refusal::InsufficientQuota,
        Refusal::SpendLimit,
        Refusal::Billing,
        Refusal::Auth,
        Refusal::Permission,
        Refusal::ModelNotFound,
        Refusal::ContextLength,
        Refusal::InvalidRequest,
        Refusal::ServerError,
        Refusal::Timeout,
        Refusal::TooLarge,
        Refusal::RunnerDead,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Refusal::Overloaded => "overloaded",
            Refusal::RateLimited => "rate_limited",
            Refusal::SlowDown => "slow_down",
            Refusal::InsufficientQuota => "insufficient_quota",
            Refusal::SpendLimit => "spend_limit",
            Refusal::Billing => "billing",
            Refusal::Auth => "auth",
            Refusal::Permission => "permission",
            Refusal::ModelNotFound => "model_not_found",
            Refusal::ContextLength => "context_length",
            Refusal::InvalidRequest => "invalid_request",
            Refusal::ServerError => "server_error",
            Refusal::Timeout => "timeout",
            Refusal::TooLarge => "too_large",
            Refusal::RunnerDead => "runner_dead",
        }
    }

    pub fn from_name(name: &str) -> Option<Refusal> {
        Refusal::ALL.into_iter().find(|refusal| refusal.name() == name)
    }

    /// Whether it speaks about the whole account rather than about one model.
    pub const fn is_about_the_account(self) -> bool {
        match self {
            Refusal::InsufficientQuota
            | Refusal::SpendLimit
            | Refusal::Billing
            | Refusal::Auth
            | Refusal::Permission => true,
            Refusal::Overloaded
            | Refusal::RateLimited
            | Refusal::SlowDown
            | Refusal::ModelNotFound
            | Refusal::ContextLength
            | Refusal::InvalidRequest
            | Refusal::ServerError
            | Refusal::Timeout
            | Refusal::TooLarge
            | Refusal::RunnerDead => false,
        }
    }
}

/// What an answer says about waiting.
#[derive(Clone, Debug, PartialEq)]
pub enum Hint {
    /// Nothing at all.
    None,
    /// What this refusal says of itself: a rate limit of a minute names [`OWN_WAIT`], the others nothing.
    Usual,
    /// The server's own word, in every way its dialect has.
    Own(Span),
    /// One `retry-after` header in place of every other hint.
    Given(RetryAfter),
}

/// The wait that a server names if nobody said how long its rate limit lasts.
pub const OWN_WAIT: Span = Span::from_secs(20);

impl Hint {
    /// `retry_after` as a drill gives it; without one, `otherwise`.
    pub fn given(retry_after: Option<&RetryAfter>, otherwise: Hint) -> Hint {
        match retry_after {
            Some(retry_after) => Hint::Given(retry_after.clone()),
            None => otherwise,
        }
    }

    /// The header's text at wall time `wall_ms`.
    pub fn header(retry_after: &RetryAfter, wall_ms: i64) -> String {
        match retry_after {
            RetryAfter::Seconds(span) => span.secs_ceil().to_string(),
            RetryAfter::Date(from_now_ms) => super::format::http_date(wall_ms.saturating_add(*from_now_ms)),
            RetryAfter::Literal(text) => text.clone(),
        }
    }

    /// How long the answer tells its reader to wait, in milliseconds; `None` if it says nothing that can be read.
    pub fn wait_ms(retry_after: &RetryAfter, wall_ms: i64) -> Option<u64> {
        match retry_after {
            RetryAfter::Seconds(span) => Some(span.secs_ceil() * 1_000),
            // The header names whole seconds: what it cuts off is not part of the wait.
            RetryAfter::Date(from_now_ms) => {
                let named = wall_ms.saturating_add(*from_now_ms).div_euclid(1_000).saturating_mul(1_000);
                Some(u64::try_from(named.saturating_sub(wall_ms)).unwrap_or(0))
            }
            RetryAfter::Literal(text) => text
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|seconds| seconds.is_finite())
                .map(|seconds| (seconds.max(0.0) * 1_000.0).round() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_found_under_its_name() {
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::from_name(refusal.name()), Some(refusal));
        }
        assert_eq!(Refusal::from_name("overload"), None);
    }

    #[test]
    fn a_stated_wait_is_what_its_header_says() {
        let wall_ms = 1_699_451_000_500;
        let cases = [
            (RetryAfter::Seconds(Span::from_ms(1_200)), "2", Some(2_000)),
            (RetryAfter::Date(90_000), "Wed, 08 Nov 2023 13:44:50 GMT", Some(89_500)),
            (RetryAfter::Date(-60_000), "Wed, 08 Nov 2023 13:42:20 GMT", Some(0)),
            (RetryAfter::Literal("-3".into()), "-3", Some(0)),
            (RetryAfter::Literal("soon".into()), "soon", None),
            (RetryAfter::Literal("NaN".into()), "NaN", None),
        ];
        for (given, header, wait) in cases {
            assert_eq!(Hint::header(&given, wall_ms), header);
            assert_eq!(Hint::wait_ms(&given, wall_ms), wait, "{given:?}");
        }
    }
}
