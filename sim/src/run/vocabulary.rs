//! Names of events and their fields, asked of the types themselves, so that no second list can go stale.
//!
//! An expectation that some event never happens would hold for ever if the name were misspelled: so every name is
//! checked before a run. **Source:** events.md.

use crate::history::{Outside, World};
use serde::de::DeserializeOwned;
use squall::event::Event;

/// The variants of `T` as serde lists them when it meets an unknown one.
fn variants<T: DeserializeOwned>() -> Vec<String> {
    let nothing = serde_json::json!({ "event": "" });
    let Err(error) = serde_json::from_value::<T>(nothing) else { return Vec::new() };
    // "unknown variant ``, expected one of `engine.started`, `engine.stopped`, …"
    error.to_string().split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

/// Every event name of the history, from all three sources.
pub fn events() -> Vec<String> {
    [variants::<Event>(), variants::<Outside>(), variants::<World>()].concat()
}

/// The known name that is nearest to `name`, if one is near enough to be what was meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near = known.into_iter().map(|other| (distance(name, other), other)).min()?;
    (near.0 <= 2.max(name.len() / 4)).then(|| near.1.to_owned())
}

/// Levenshtein's: insertions, deletions and replacements from one to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_lists_its_events() {
        let events = events();
        for name in ["axis.changed", "tick", "provider.request", "fault.started", "run.ended"] {
            assert!(events.iter().any(|event| event == name), "{name} in {events:?}");
        }
        assert!(!events.iter().any(|event| event.contains(' ') || event.is_empty()), "{events:?}");
    }

    #[test]
    fn a_misspelled_name_finds_the_one_that_was_meant() {
        let events = events();
        let near = |name: &str| nearest(name, events.iter().map(String::as_str));
        assert_eq!(near("breaker.half-open").as_deref(), Some("breaker.half_open"));
        assert_eq!(near("weather.changed"), None);
    }
}
