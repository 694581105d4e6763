//! What people are to be told, from the engine's words on levels and breakers.
//!
//! A queue of things to say, each with the moment from which it is known. A notice takes the oldest of them and what
//! came within the time of coalescing after it. Written from the rules, not from the engine.
//! **Source:** engine.md 8 "Notices".

use squall::base::rules::ChainUse;
use squall::base::{Axis, EntryName, Level, NoticePart, NoticeWhat, Rules};
use std::collections::{BTreeMap, VecDeque};

const TRIPS: u32 = 5;

/// Something that has to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub part: NoticePart,
    pub at_ms: u64,
    /// The entry of the history that it follows from.
    pub n: u64,
}

/// An axis below its baseline.
#[derive(Debug, Default)]
struct Below {
    worst: Option<Level>,
}

#[derive(Debug, Default)]
pub struct Notices {
    below: BTreeMap<Axis, Below>,
    trips: BTreeMap<EntryName, u32>,
    due: VecDeque<Due>,
}

/// The level that is normal for a deployment with these rules.
fn baseline(rules: &Rules, axis: Axis) -> Level {
    let embeds = rules.chains.iter().any(|chain| chain.use_ == ChainUse::Embedding);
    if axis == Axis::Memory && !embeds { Level::FtsOnly } else { Level::Normal }
}

fn matters(axis: Axis, level: Level) -> bool {
    let mild: &[Level] = match axis {
        Axis::Cloud => &[Level::Normal, Level::Fallback],
        Axis::Memory => &[Level::Normal],
        Axis::Embedding => &[Level::Normal, Level::Queued],
        Axis::Cc => &[Level::Normal, Level::Throttled],
    };
    !mild.contains(&level)
}

impl Notices {
    pub fn changed(&mut self, rules: &Rules, axis: Axis, to: Level, at_ms: u64, n: u64) {
        let say = |what| Due { part: NoticePart { axis, what, entry: None }, at_ms, n };
        if !axis.worse(to, baseline(rules, axis)) {
            if self.below.remove(&axis).is_some_and(|below| below.worst.is_some()) {
                self.due.push_back(say(NoticeWhat::Up));
            }
            return;
        }
        let below = self.below.entry(axis).or_default();
        if matters(axis, to) && below.worst.is_none_or(|worst| axis.worse(to, worst)) {
            below.worst = Some(to);
            self.due.push_back(say(NoticeWhat::Level(to)));
        }
    }

    /// A breaker opened, as a trip.
    pub fn tripped(&mut self, rules: &Rules, entry: &EntryName, at_ms: u64, n: u64) {
        let trips = self.trips.entry(entry.clone()).or_default();
        *trips += 1;
        if *trips == TRIPS {
            let first = rules.chains.iter().find(|chain| rules.entries(chain).contains(entry));
            let axis = match first.map(|chain| chain.use_) {
                Some(ChainUse::Embedding) => Axis::Embedding,
                Some(ChainUse::Chat) | None => Axis::Cloud,
            };
            let part = NoticePart { axis, what: NoticeWhat::Tripping, entry: Some(entry.clone()) };
            self.due.push_back(Due { part, at_ms, n });
        }
    }

    pub fn closed(&mut self, entry: &EntryName) {
        self.trips.remove(entry);
    }

    /// The next thing to tell.
    pub fn first(&self) -> Option<&Due> {
        self.due.front()
    }

    /// What a notice with so many parts tells.
    pub fn take(&mut self, parts: usize) -> Vec<Due> {
        let parts = parts.min(self.due.len());
        self.due.drain(..parts).collect()
    }
}
