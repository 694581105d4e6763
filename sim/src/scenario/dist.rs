//! Distributions of durations: `"200ms"`, `"uniform(1s, 5s)"`, `"normal(900ms, 200ms)"`, `"lognormal(800ms, 6s)"`.

use squall::base::Span;

/// Sampled in whole milliseconds, never negative. The functions come from `libm`: std's differ by platform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dist {
    Fixed(Span),
    Uniform(Span, Span),
    /// Mean and standard deviation; cut at zero.
    Normal(Span, Span),
    /// Median and 99th percentile.
    Lognormal(Span, Span),
}
