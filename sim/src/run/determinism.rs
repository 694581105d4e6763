//! DETERMINE-1: a run equals itself. A share of the runs is done twice; the second is compared line by line with the
//! first, and a difference names the first event that differs.
//!
//! It is no part of the verdict, which must not depend on whether the run was done twice.
//! **Source:** harness.md "A run", DETERMINE-1.

use crate::history::{Entry, Sink};
use std::io::BufRead;

/// One run in so many is done twice without being asked.
const ONE_IN: u8 = 8;

/// Whether this run belongs to the share, by its name alone: the same runs in every sweep.
pub fn in_share(scenario: &str, seed: u64) -> bool {
    let mut hasher = blake3::Hasher::new();
    hasher.update(scenario.as_bytes());
    hasher.update(&seed.to_le_bytes());
    hasher.finalize().as_bytes()[0].is_multiple_of(ONE_IN)
}

/// The first event at which the second run went another way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub n: u64,
    /// The line of the history in the first run, and in the second; `None`: that history was over.
    pub first: Option<String>,
    pub second: Option<String>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |line: &Option<String>| line.clone().unwrap_or_else(|| "(the history was over)".into());
        write!(f, "event {} differs\n  first run:  {}\n  second run: {}", self.n, show(&self.first), show(&self.second))
    }
}

/// Reads the second run's history beside the first's.
pub struct Comparison<R> {
    first: R,
    line: String,
    next: u64,
    found: Option<Difference>,
}

impl<R: BufRead> Comparison<R> {
    pub fn new(first: R) -> Comparison<R> {
        Comparison { first, line: String::new(), next: 0, found: None }
    }

    /// The first run's next line; `None` at its end. A history that can't be read any more is one that is over.
    fn read(&mut self) -> Option<&str> {
        self.line.clear();
        let bytes = self.first.read_line(&mut self.line).unwrap_or(0);
        (bytes > 0).then(|| self.line.trim_end_matches('\n'))
    }

    /// The second run is over.
    pub fn finish(&mut self) -> Option<Difference> {
        if self.found.is_none() {
            let n = self.next;
            let first = self.read().map(str::to_owned);
            self.found = first.map(|first| Difference { n, first: Some(first), second: None });
        }
        self.found.clone()
    }
}

impl<R: BufRead> Sink for Comparison<R> {
    fn entry(&mut self, entry: &Entry, line: &str) {
        if self.found.is_some() {
            return;
        }
        self.next = entry.n + 1;
        let first = self.read();
        if first != Some(line) {
            let first = first.map(str::to_owned);
            self.found = Some(Difference { n: entry.n, first, second: Some(line.to_owned()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{What, World};

    fn compare(first: &str, second: &[&str]) -> Option<Difference> {
        let mut comparison = Comparison::new(first.as_bytes());
        for (n, line) in second.iter().enumerate() {
            let entry = Entry { n: n as u64, t_ms: 0, what: What::World(World::Healed) };
            comparison.entry(&entry, line);
        }
        comparison.finish()
    }

    #[test]
    fn a_run_equals_itself() {
        assert_eq!(compare("a\nb\n", &["a", "b"]), None);
    }

    #[test]
    fn the_first_event_that_differs_is_named_with_both_its_faces() {
        let found = compare("a\nb\nc\n", &["a", "x", "y"]).unwrap();
        assert_eq!((found.n, found.first.as_deref(), found.second.as_deref()), (1, Some("b"), Some("x")));
    }

    #[test]
    fn a_history_that_ends_early_differs_whichever_run_it_was() {
        assert_eq!(compare("a\nb\n", &["a"]).unwrap().second, None);
        assert_eq!(compare("a\n", &["a", "b"]).unwrap().first, None);
    }

    #[test]
    fn about_one_run_in_eight_is_done_twice() {
        let picked = (0..800).filter(|seed| in_share("scenarios/smoke/total-outage.toml", *seed)).count();
        assert!((50..150).contains(&picked), "{picked}");
    }
}
