//! Which waits a server has stated, to tell who comes back too early.

use squall::base::EntryName;

/// Waits stated to all callers (`None`) or to those of one entry.
#[derive(Clone, Debug, Default)]
pub struct Waits(Vec<Stated>);

#[derive(Clone, Debug)]
struct Stated {
    scope: Option<EntryName>,
    from_ms: u64,
    until_ms: u64,
}

impl Waits {
    /// A wait that callers can have known of from `from_ms` on, and that is over at `until_ms`.
    pub fn state(&mut self, scope: Option<EntryName>, from_ms: u64, until_ms: u64) {
        self.0.push(Stated { scope, from_ms, until_ms });
    }

    /// Whether a request for `entry` that arrives now comes before such a wait is over.
    pub fn early(&mut self, entry: &EntryName, now_ms: u64) -> bool {
        self.0.retain(|stated| stated.until_ms > now_ms);
        self.0.iter().any(|stated| stated.from_ms <= now_ms && stated.scope.as_ref().is_none_or(|scope| scope == entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_is_early_within_a_stated_wait_of_its_scope_only() {
        let (gpt, mini) = (EntryName::new("openai/gpt-4"), EntryName::new("openai/mini"));
        let mut waits = Waits::default();
        waits.state(Some(gpt.clone()), 1_000, 21_000);
        assert!(!waits.early(&gpt, 999), "nobody can have read it yet");
        assert!(waits.early(&gpt, 1_000));
        assert!(!waits.early(&mini, 1_000));
        assert!(waits.early(&gpt, 20_999));
        assert!(!waits.early(&gpt, 21_000));
        waits.state(None, 30_000, 40_000);
        assert!(waits.early(&gpt, 30_000) && waits.early(&mini, 30_000));
    }

    #[test]
    fn a_shorter_wait_does_not_end_a_longer_one() {
        let gpt = EntryName::new("openai/gpt-4");
        let mut waits = Waits::default();
        waits.state(Some(gpt.clone()), 0, 60_000);
        waits.state(Some(gpt.clone()), 0, 5_000);
        assert!(waits.early(&gpt, 30_000));
    }
}
