//! Sessions that wait for a slot, and whether somebody waits for them.
//!
//! A *waiter* is present while a poll for its session is open, and a moment after it, so that the time between two polls
//! costs no place. A session without one keeps its place and blocks nobody; it starts only into an open poll.

use super::Ask;
use crate::base::{MonoTime, Span};
use std::collections::{BTreeMap, BTreeSet};

/// The order of the queue: priority, when it was deferred, number of the item.
pub type Rank = (u8, MonoTime, u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    pub ask: Ask,
    pub rank: Rank,
    /// A limit ended its last run.
    pub limited: bool,
    polls: u32,
    /// The last poll is closed: until then another may come.
    gone_at: Option<MonoTime>,
}

impl Waiter {
    pub fn new(ask: Ask, rank: Rank, limited: bool) -> Waiter {
        Waiter { ask, rank, limited, polls: 0, gone_at: None }
    }

    pub fn item(&self) -> u64 {
        self.rank.2
    }

    pub fn is_present(&self) -> bool {
        self.polls > 0 || self.gone_at.is_some()
    }

    pub fn is_polled(&self) -> bool {
        self.polls > 0
    }
}

#[derive(Clone, Debug, Default)]
pub struct Waiting {
    all: BTreeMap<u64, Waiter>,
    keys: BTreeMap<String, u64>,
    /// Those whose waiter is present, in order.
    present: BTreeSet<(Rank, u64)>,
}

impl Waiting {
    pub fn insert(&mut self, session: u64, waiter: Waiter) {
        if let Some(key) = &waiter.ask.key {
            self.keys.insert(key.clone(), session);
        }
        if waiter.is_present() {
            self.present.insert((waiter.rank, session));
        }
        self.all.insert(session, waiter);
    }

    pub fn remove(&mut self, session: u64) -> Option<Waiter> {
        let waiter = self.all.remove(&session)?;
        self.present.remove(&(waiter.rank, session));
        if let Some(key) = &waiter.ask.key {
            self.keys.remove(key);
        }
        Some(waiter)
    }

    pub fn get(&self, session: u64) -> Option<&Waiter> {
        self.all.get(&session)
    }

    pub fn by_key(&self, key: &str) -> Option<u64> {
        self.keys.get(key).copied()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// In queue order, those whose waiter is present.
    pub fn present(&self) -> impl Iterator<Item = (u64, &Waiter)> {
        self.present.iter().map(|(_, session)| (*session, &self.all[session]))
    }

    /// A poll opened. `true`: the waiter was not present before.
    pub fn poll_opened(&mut self, session: u64) -> bool {
        let Some(waiter) = self.all.get_mut(&session) else { return false };
        let came = !waiter.is_present();
        waiter.polls += 1;
        waiter.gone_at = None;
        self.present.insert((waiter.rank, session));
        came
    }

    /// A poll that was opened is closed; a session that waits no longer has forgotten it already.
    pub fn poll_closed(&mut self, session: u64, now: MonoTime, grace: Span) {
        if let Some(waiter) = self.all.get_mut(&session)
            && waiter.polls > 0
        {
            waiter.polls -= 1;
            waiter.gone_at = (waiter.polls == 0).then(|| now + grace);
        }
    }

    pub fn due(&self) -> Option<MonoTime> {
        self.present().filter_map(|(_, waiter)| waiter.gone_at).min()
    }

    /// Whose waiter is gone now.
    pub fn timer(&mut self, now: MonoTime) -> Vec<u64> {
        let over = |waiter: &Waiter| waiter.gone_at.is_some_and(|at| now >= at);
        let gone: Vec<u64> = self.present().filter(|(_, waiter)| over(waiter)).map(|(session, _)| session).collect();
        for session in &gone {
            let waiter = self.all.get_mut(session).expect("the number was just read from there");
            waiter.gone_at = None;
            self.present.remove(&(waiter.rank, *session));
        }
        gone
    }
}
