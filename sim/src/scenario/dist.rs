//! Distributions of durations: `"200ms"`, `"uniform(1s, 5s)"`, `"normal(900ms, 200ms)"`, `"lognormal(800ms, 6s)"`.
//!
//! **Source:** scenario.md (durations).

use crate::seed::Stream;
use squall::base::Span;
use squall::config::shape::{SPAN_MAX, Shape};
use squall::config::{Complaint, Key};
use std::fmt;
use std::str::FromStr;

/// Sampled in whole milliseconds, never negative. The functions come from `libm`: std's differ by platform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dist {
    Fixed(Span),
    /// Both ends included.
    Uniform(Span, Span),
    /// Mean and standard deviation; cut at zero.
    Normal(Span, Span),
    /// Median and 99th percentile.
    Lognormal(Span, Span),
}

/// Why a text is no distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistError {
    #[error("{0}")]
    Span(#[from] squall::base::time::SpanError),
    #[error("unknown distribution {name:?}")]
    Name { name: String },
    #[error("{name} takes two durations: {name}({takes})")]
    Arguments { name: &'static str, takes: &'static str },
    #[error("{name}({takes}): the first must not be larger than the second")]
    Order { name: &'static str, takes: &'static str },
    #[error("lognormal's median must be larger than zero")]
    Median,
    #[error("no duration is longer than {SPAN_MAX}")]
    TooLong,
}

const NAMES: [(&str, &str); 3] =
    [("uniform", "smallest, largest"), ("normal", "mean, standard deviation"), ("lognormal", "median, p99")];

/// A key that takes a distribution.
pub const DIST: Shape = Shape::Written { what: WHAT, pattern: PATTERN, check: check_dist };
/// As [`DIST`], but not always zero.
pub const DIST_POSITIVE: Shape = Shape::Written { what: WHAT, pattern: PATTERN, check: check_positive };
const WHAT: &str = "a duration such as \"90s\", or a distribution such as \"lognormal(800ms, 6s)\"";
pub const PATTERN: &str = concat!(
    r"^\s*((\d+(ms|s|m|h|d))+|(uniform|normal|lognormal)\(",
    r"\s*(\d+(ms|s|m|h|d))+\s*,\s*(\d+(ms|s|m|h|d))+\s*\))\s*$"
);

/// The 99th percentile of the standard normal distribution.
const Z_P99: f64 = 2.326_347_874_040_840_8;

impl Dist {
    pub fn sample(&self, stream: &mut Stream) -> Span {
        match *self {
            Dist::Fixed(span) => span,
            Dist::Uniform(low, high) => Span::from_ms(low.ms() + stream.below(high.ms() - low.ms() + 1)),
            Dist::Normal(mean, deviation) => whole(mean.ms() as f64 + deviation.ms() as f64 * normal(stream)),
            Dist::Lognormal(median, p99) => {
                let sigma = libm::log(p99.ms() as f64 / median.ms() as f64) / Z_P99;
                whole(median.ms() as f64 * libm::exp(sigma * normal(stream)))
            }
        }
    }

    /// Nothing smaller is ever drawn.
    pub fn least(&self) -> Span {
        match *self {
            Dist::Fixed(span) | Dist::Uniform(span, _) => span,
            Dist::Normal(mean, deviation) if deviation.is_zero() => mean,
            Dist::Lognormal(median, p99) if median == p99 => median,
            Dist::Normal(..) | Dist::Lognormal(..) => Span::ZERO,
        }
    }

    /// What is drawn half of the time or less, half of the time or more.
    pub fn median(&self) -> Span {
        match *self {
            Dist::Fixed(span) | Dist::Normal(span, _) | Dist::Lognormal(span, _) => span,
            Dist::Uniform(low, high) => Span::from_ms(low.ms().midpoint(high.ms())),
        }
    }

    /// Whether only zero is ever drawn.
    pub fn is_zero(&self) -> bool {
        match *self {
            Dist::Fixed(span) | Dist::Uniform(_, span) => span.is_zero(),
            Dist::Normal(mean, deviation) => mean.is_zero() && deviation.is_zero(),
            Dist::Lognormal(..) => false,
        }
    }
}

/// Rounded to a whole millisecond, within what a key takes.
fn whole(ms: f64) -> Span {
    Span::from_ms(ms.round().clamp(0.0, SPAN_MAX.ms() as f64) as u64)
}

/// A draw from the standard normal distribution (Box-Muller; the second draw of the pair is thrown away, so that a
/// sample always takes two numbers of its stream).
fn normal(stream: &mut Stream) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - stream.unit()));
    radius * libm::cos(std::f64::consts::TAU * stream.unit())
}

impl FromStr for Dist {
    type Err = DistError;

    fn from_str(text: &str) -> Result<Dist, DistError> {
        let text = text.trim();
        let Some((name, rest)) = text.split_once('(') else {
            return Ok(Dist::Fixed(short(text)?));
        };
        let unknown = || DistError::Name { name: name.trim().to_owned() };
        let (name, takes) = NAMES.into_iter().find(|(own, _)| *own == name.trim()).ok_or_else(unknown)?;
        let arguments = DistError::Arguments { name, takes };
        let inner = rest.strip_suffix(')').ok_or_else(|| arguments.clone())?;
        let (a, b) = inner.split_once(',').filter(|(_, b)| !b.contains(',')).ok_or(arguments)?;
        let (a, b) = (short(a)?, short(b)?);
        let dist = match name {
            "uniform" => Dist::Uniform(a, b),
            "normal" => return Ok(Dist::Normal(a, b)),
            _ => Dist::Lognormal(a, b),
        };
        if a > b {
            return Err(DistError::Order { name, takes });
        }
        match dist {
            Dist::Lognormal(median, _) if median.is_zero() => Err(DistError::Median),
            Dist::Fixed(_) | Dist::Uniform(..) | Dist::Normal(..) | Dist::Lognormal(..) => Ok(dist),
        }
    }
}

fn short(text: &str) -> Result<Span, DistError> {
    let span: Span = text.parse()?;
    if span > SPAN_MAX { Err(DistError::TooLong) } else { Ok(span) }
}

impl fmt::Display for Dist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dist::Fixed(span) => write!(f, "{span}"),
            Dist::Uniform(a, b) => write!(f, "uniform({a}, {b})"),
            Dist::Normal(a, b) => write!(f, "normal({a}, {b})"),
            Dist::Lognormal(a, b) => write!(f, "lognormal({a}, {b})"),
        }
    }
}

/// Reads a distribution, or says what is wrong with it.
pub fn read_dist(text: &str) -> Result<Dist, Complaint> {
    text.parse().map_err(|error: DistError| {
        let complaint = Complaint::new(error.to_string());
        match &error {
            DistError::Name { name } => complaint.closest(name, NAMES.map(|(name, _)| name)),
            DistError::Span(_)
            | DistError::Arguments { .. }
            | DistError::Order { .. }
            | DistError::Median
            | DistError::TooLong => complaint,
        }
    })
}

fn check_dist(text: &str) -> Result<(), Complaint> {
    read_dist(text).map(drop)
}

fn check_positive(text: &str) -> Result<(), Complaint> {
    match read_dist(text)?.is_zero() {
        true => Err(Complaint::new(format!("{text:?} is always zero"))),
        false => Ok(()),
    }
}

/// A distribution's key that may be left out.
pub const fn dist_key(name: &'static str, default: &'static str, doc: &'static str) -> Key {
    Key::optional(name, DIST, default, doc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn samples(text: &str) -> Vec<u64> {
        let dist: Dist = text.parse().unwrap();
        let mut stream = Seed::new(1).stream("dist");
        let mut samples: Vec<u64> = (0..20_000).map(|_| dist.sample(&mut stream).ms()).collect();
        samples.sort_unstable();
        samples
    }

    #[test]
    fn a_distribution_reads_back_what_it_shows() {
        for text in ["200ms", "uniform(1s, 5s)", "normal(900ms, 200ms)", "lognormal(800ms, 6s)"] {
            assert_eq!(text.parse::<Dist>().unwrap().to_string(), text);
        }
        assert_eq!(" lognormal( 800ms ,6s ) ".parse(), Ok(Dist::Lognormal(Span::from_ms(800), Span::from_secs(6))));
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for text in [
            "",
            "5",
            "uniform(5s, 1s)",
            "uniform(1s)",
            "uniform(1s, 2s, 3s)",
            "uniform(1s, 2s",
            "uniform",
            "unifrom(1s, 2s)",
            "lognormal(0s, 6s)",
            "lognormal(6s, 1s)",
            "normal(1, 2)",
            "400d",
            "(1s, 2s)",
        ] {
            assert!(read_dist(text).is_err(), "{text}");
        }
        assert_eq!(read_dist("unifrom(1s, 2s)").unwrap_err().suggestion.as_deref(), Some("uniform"));
    }

    #[test]
    fn a_fixed_duration_is_always_the_same_and_draws_nothing() {
        let dist: Dist = "3s".parse().unwrap();
        let (mut a, mut b) = (Seed::new(1).stream("x"), Seed::new(1).stream("x"));
        assert_eq!(dist.sample(&mut a), Span::from_secs(3));
        assert_eq!(a.below(u64::MAX), b.below(u64::MAX));
    }

    #[test]
    fn samples_lie_as_their_distribution_says() {
        let uniform = samples("uniform(1s, 5s)");
        assert!(uniform[0] >= 1_000 && uniform[0] < 1_010 && uniform[19_999] <= 5_000 && uniform[19_999] > 4_990);
        let normal = samples("normal(900ms, 200ms)");
        assert!((890..=910).contains(&normal[10_000]), "{}", normal[10_000]);
        assert!((680..=720).contains(&normal[3_174]), "{}", normal[3_174]); // One deviation below.
        let lognormal = samples("lognormal(800ms, 6s)");
        assert!((780..=820).contains(&lognormal[10_000]), "{}", lognormal[10_000]);
        assert!((5_500..=6_500).contains(&lognormal[19_800]), "{}", lognormal[19_800]);
        assert_eq!(samples("normal(0s, 1s)")[5_000], 0);
    }

    #[test]
    fn samples_are_the_same_on_every_machine() {
        let dist: Dist = "lognormal(800ms, 6s)".parse().unwrap();
        let mut stream = Seed::new(1).stream("pinned");
        assert_eq!([0; 5].map(|_| dist.sample(&mut stream).ms()), PINNED);
    }
    const PINNED: [u64; 5] = [232, 489, 862, 453, 675];

    #[test]
    fn the_least_is_a_bound_and_no_sample_is_below_it() {
        for text in
            ["3s", "uniform(1s, 5s)", "normal(1s, 5s)", "lognormal(1s, 9s)", "normal(2s, 0s)", "lognormal(1s, 1s)"]
        {
            let least = text.parse::<Dist>().unwrap().least().ms();
            assert!(samples(text)[0] >= least, "{text}");
        }
    }
}
