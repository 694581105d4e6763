//! The Mistral dialect: requests and answers as at OpenAI, but for errors, limits and the size of a batch.
//!
//! Its errors come in three shapes: its own (`{"object":"error",…}`), its gateway's (`{"message":…}`) and its validator's
//! (`{"detail":[…]}`). Its rate headers name what is left in 10 seconds, a minute and a month, and no reset: no wait is
//! made up from them. (The one budget with a reset, `ratelimitbysize`, is read with all other waits.) A month that is used
//! up is a quota, whatever the answer calls it.
//! **Source:** protocols.md C.2 (batch ceilings), C.5.

/// More inputs at once are refused ("Too many inputs in request, split into more batches.").
pub(super) const INPUTS_MAX: usize = 256;

/// Whether the answer's headers say that less is left of the month than this request takes.
pub(super) fn is_month_used_up(headers: &[(String, String)]) -> bool {
    let number = |name: &str| super::header(headers, name).and_then(|text| text.trim().parse::<i64>().ok());
    let left = number("x-ratelimit-remaining-tokens-month");
    let cost = number("x-ratelimit-tokens-query-cost").unwrap_or(0);
    left.is_some_and(|left| left < cost.max(1))
}
