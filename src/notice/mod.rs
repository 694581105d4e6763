//! When people are told, and what: from levels and trips to notices. Sends nothing.
//!
//! A pure machine: changes and times in, notices out. What it knows persists whole, so that a restart neither repeats
//! what was told nor loses what was about to be. Invariant: NOTIFY-1.
//! - From REDUCED, FTS_ONLY, embedding UNAVAILABLE, RATE_LIMITED and worse; each level once in an episode, and only a
//!   worse one after it. Back at the baseline: one "up", if something of the episode was told or is about to be.
//! - A breaker that trips [`TRIPS`] times without closing is told once, until it closes.
//! - What changes within `notify.coalesce` of the first change is told with it, when that time is over.
//!
//! **Source:** engine.md 8 (notices), 2.1 (baseline).

mod text;
mod undelivered;

pub use undelivered::{LISTED_MAX, Undelivered, UndeliveredKind};

use crate::base::{Axis, EntryName, Level, MonoTime, NoticePart, NoticeWhat, Span};
use crate::event::OpenWhy;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// So many trips without closing are told.
pub const TRIPS: u32 = 5;

/// The mildest level of each axis that people are told about.
pub const fn mildest_told(axis: Axis) -> Level {
    match axis {
        Axis::Cloud => Level::Reduced,
        Axis::Memory => Level::FtsOnly,
        Axis::Embedding => Level::Unavailable,
        Axis::Cc => Level::RateLimited,
    }
}

fn is_told(axis: Axis, level: Level) -> bool {
    !axis.worse(mildest_told(axis), level)
}

/// A message that is ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Unique over the life of the database: axis, episode and level of the first change.
    pub occasion: String,
    pub about: NoticePart,
    /// What changed soon after.
    pub also: Vec<NoticePart>,
    pub text: String,
}

/// One stretch of an axis below its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Episode {
    since: MonoTime,
    /// The worst level that was told, or is about to be.
    told: Option<Level>,
}

/// Trips of one breaker since it was last closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Trips {
    since: MonoTime,
    count: u32,
}

/// Something that the next notice will say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Said {
    part: NoticePart,
    /// When its episode, or its breaker's failing, began.
    since: MonoTime,
    at: MonoTime,
    /// The level it is about: for an "up", the one the axis came back to.
    level: Level,
    cause: String,
}

/// Changes that are told together when their time comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Gathering {
    due: MonoTime,
    said: Vec<Said>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notices {
    episodes: BTreeMap<Axis, Episode>,
    trips: BTreeMap<EntryName, Trips>,
    gathering: Option<Gathering>,
    /// Ready, oldest first; the first is being sent.
    outbox: VecDeque<Notice>,
    undelivered: VecDeque<Undelivered>,
}

impl Notices {
    /// An axis is now at `to`.
    pub fn level_changed(
        &mut self,
        axis: Axis,
        to: Level,
        baseline: Level,
        cause: &str,
        now: MonoTime,
        coalesce: Span,
    ) {
        let said = |what, since| Said {
            part: NoticePart { axis, what, entry: None },
            since,
            at: now,
            level: to,
            cause: cause.to_owned(),
        };
        if !axis.worse(to, baseline) {
            if let Some(Episode { since, told: Some(_) }) = self.episodes.remove(&axis) {
                self.gather(said(NoticeWhat::Up, since), coalesce);
            }
            return;
        }
        let episode = self.episodes.entry(axis).or_insert(Episode { since: now, told: None });
        if is_told(axis, to) && episode.told.is_none_or(|told| axis.worse(to, told)) {
            episode.told = Some(to);
            let since = episode.since;
            self.gather(said(NoticeWhat::Level(to), since), coalesce);
        }
    }

    /// A breaker opened. Only real trips count: not a wait that a trial was told, nor what came back after a restart.
    /// `level`: where `axis`, which the breaker belongs to, is now.
    pub fn breaker_opened(
        &mut self,
        entry: &EntryName,
        axis: Axis,
        level: Level,
        why: OpenWhy,
        now: MonoTime,
        coalesce: Span,
    ) {
        match why {
            OpenWhy::Consecutive | OpenWhy::Rate | OpenWhy::TrialFailed => {}
            OpenWhy::TrialThrottled | OpenWhy::NoVerdict | OpenWhy::Restored => return,
        }
        let trips = self.trips.entry(entry.clone()).or_insert(Trips { since: now, count: 0 });
        trips.count = trips.count.saturating_add(1);
        if trips.count == TRIPS {
            let part = NoticePart { axis, what: NoticeWhat::Tripping, entry: Some(entry.clone()) };
            let since = trips.since;
            self.gather(Said { part, since, at: now, level, cause: String::new() }, coalesce);
        }
    }

    pub fn breaker_closed(&mut self, entry: &EntryName) {
        self.trips.remove(entry);
    }

    fn gather(&mut self, said: Said, coalesce: Span) {
        let due = said.at + coalesce;
        self.gathering.get_or_insert(Gathering { due, said: Vec::new() }).said.push(said);
    }

    /// When [`Notices::timer`] wants to be called.
    pub fn due(&self) -> Option<MonoTime> {
        self.gathering.as_ref().map(|gathering| gathering.due)
    }

    /// Makes a notice of what was gathered, if its time has come.
    pub fn timer(&mut self, now: MonoTime) -> bool {
        let Some(Gathering { said, .. }) = self.gathering.take_if(|gathering| gathering.due <= now) else {
            return false;
        };
        let (first, rest) = said.split_first().expect("a gathering begins with what it is made for");
        self.outbox.push_back(Notice {
            occasion: first.occasion(),
            about: first.part.clone(),
            also: rest.iter().map(|said| said.part.clone()).collect(),
            text: text::of(&said),
        });
        true
    }

    /// After a restart: a stored deadline later than now + its maximum is clamped.
    pub fn restore(&mut self, now: MonoTime, coalesce: Span) {
        if let Some(gathering) = &mut self.gathering {
            gathering.due = gathering.due.min(now + coalesce);
        }
    }

    /// The notice to send now.
    pub fn next(&self) -> Option<&Notice> {
        self.outbox.front()
    }

    /// [`Notices::next`] was told, or no way to tell it worked.
    pub fn done(&mut self) {
        self.outbox.pop_front();
    }

    /// Keeps what did not reach anybody, for whoever reads the status file; the oldest make room.
    pub fn list(&mut self, row: Undelivered) {
        // The same again (a notice that was listed right before a crash) takes the older one's place.
        self.undelivered.retain(|old| (old.kind, &old.key) != (row.kind, &row.key));
        if self.undelivered.len() == LISTED_MAX {
            self.undelivered.pop_front();
        }
        self.undelivered.push_back(row);
    }

    /// What is listed, oldest first.
    pub fn undelivered(&self) -> impl Iterator<Item = &Undelivered> {
        self.undelivered.iter()
    }
}

impl Said {
    fn occasion(&self) -> String {
        let NoticePart { axis, what, entry } = &self.part;
        let since = self.since.ms();
        match entry {
            Some(entry) => format!("{axis} {since} {what} {entry}"),
            None => format!("{axis} {since} {what}"),
        }
    }
}

#[cfg(test)]
mod tests;
