//! NOTIFY-1: the status file here; [`notices`] and [`posts`] judge what people and programs are told.
//!
//! Each file that was seen is compared with what the history said up to it, or up to the end of its instant: the order
//! inside an instant is free. A journal without the outside's word is judged on `status.written`.

mod notices;
mod posts;

use super::drain::follow;
use super::feed::Feed;
use super::setting::{Setting, Start};
use super::{Check, Violation};
use crate::history::outside::SeenStatus;
use crate::history::{Entry, Outside, What};
use crate::model::ledger::{Counts, Ledger};
use squall::base::{Axis, AxisLevels, ItemStatus, Level};
use squall::event::Event;
use std::collections::BTreeSet;

/// A heartbeat may be this late.
const BEAT_SLACK_MS: u64 = 1_000;

/// The three views may differ while a change is being told.
const AGREE_SLACK_MS: u64 = 1_000;

/// The file lists so much of what reached nobody.
const UNDELIVERED_MAX: u64 = 50;

/// The file shows so many transitions.
const HISTORY_MAX: u64 = 200;

/// The whole invariant.
#[derive(Default)]
pub struct Notified {
    file: StatusFile,
    notices: notices::Notices,
    posts: posts::Posts,
}

impl Check for Notified {
    fn id(&self) -> &'static str {
        self.file.id()
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        self.file.observe(entry, out);
        self.notices.observe(entry, out);
        self.posts.observe(entry, out);
    }

    fn finish(&mut self, out: &mut Vec<Violation>) {
        self.file.finish(out);
        self.notices.finish(out);
        self.posts.finish(out);
    }

    fn judged(&self) -> u64 {
        self.file.judged() + self.notices.judged + self.posts.judged
    }
}

#[derive(Default)]
pub struct StatusFile {
    setting: Setting,
    feed: Option<Feed>,
    ledger: Ledger,
    facts: Option<Facts>,
    now: u64,
    /// The newest transition of this instant.
    changed: Option<u64>,
    /// A write, or a failure to write, in this instant.
    told: bool,
    files: Vec<(u64, SeenStatus, Facts)>,
    outside: bool,
    beat_ms: u64,
    /// When the next heartbeat was first seen to be overdue.
    overdue_ms: Option<u64>,
    judged: u64,
}

/// What a status file should say; `None` parts are not known.
#[derive(Clone, Debug)]
struct Facts {
    levels: AxisLevels,
    holds: [Option<u64>; 4],
    holds_known: bool,
    newest: Option<(Axis, Level, Level)>,
    transitions: Option<u64>,
    /// Improvements that were suppressed.
    suppressed: Option<u64>,
    /// When something of it last moved.
    moved_ms: u64,
    counts: Option<Counts>,
    not_closed: Option<Vec<String>>,
    /// What reached nobody, by name.
    undelivered: Option<BTreeSet<String>>,
}

impl Check for StatusFile {
    fn id(&self) -> &'static str {
        "NOTIFY-1"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if entry.t_ms != self.now {
            self.settle(out);
            self.now = entry.t_ms;
            self.heartbeat(entry, out);
        }
        if let Some(start) = self.setting.observe(entry) {
            self.start(&start);
            return;
        }
        match &entry.what {
            What::Engine(event) => self.engine(entry, event),
            What::Outside(Outside::StatusFile { seen }) => self.file(entry, seen, out),
            What::Outside(Outside::StatusRead { status: 200, agree: false, client, .. }) => {
                self.judged += 1;
                let moved_ms = self.facts.as_ref().map_or(0, |facts| facts.moved_ms);
                if self.now > moved_ms + AGREE_SLACK_MS {
                    let what = format!("{client} read different levels from the status file, the API and the tools");
                    out.push(Violation::new(self.now, [entry.n], what));
                }
            }
            What::Outside(_) | What::World(_) => {}
        }
    }

    fn finish(&mut self, out: &mut Vec<Violation>) {
        self.settle(out);
    }

    fn judged(&self) -> u64 {
        self.judged
    }
}

impl StatusFile {
    fn start(&mut self, start: &Start) {
        let rules = self.setting.rules().expect("a start brings its rules");
        Feed::started(&mut self.feed, start, rules);
        let known = self.facts.take().filter(|_| !start.fresh);
        if start.fresh {
            self.ledger = Ledger::default();
        }
        self.ledger.restarted();
        let mut facts = known.unwrap_or(Facts {
            levels: start.levels,
            holds: [None; 4],
            holds_known: start.fresh,
            newest: None,
            transitions: start.fresh.then_some(0),
            suppressed: start.fresh.then_some(0),
            moved_ms: self.now,
            counts: start.fresh.then(Counts::default),
            not_closed: None,
            undelivered: start.fresh.then(BTreeSet::new),
        });
        facts.levels = start.levels;
        if start.lost_from_ms.is_some_and(|from| facts.moved_ms >= from) {
            facts.holds_known = false;
            facts.newest = None;
            facts.transitions = None;
            facts.suppressed = None;
        }
        if start.lost_from_ms.is_some() {
            facts.undelivered = None;
        }
        self.facts = Some(facts);
        self.beat_ms = self.now;
        self.overdue_ms = None;
    }

    fn engine(&mut self, entry: &Entry, event: &Event) {
        let (Some(feed), Some(facts), Some(rules)) = (&mut self.feed, &mut self.facts, self.setting.rules()) else {
            return;
        };
        feed.observe(self.now, event);
        follow(&mut self.ledger, entry, event, rules.queue.discard_after.ms());
        if let Event::AxisChanged { axis, was, to, .. } = event {
            if axis.severity(*to).is_some() {
                facts.levels.set(*axis, *to);
            }
            facts.newest = Some((*axis, *was, *to));
            facts.transitions = facts.transitions.map(|count| count + 1);
            facts.moved_ms = self.now;
            self.changed = Some(entry.n);
        } else if let Event::AxisSuppressed { .. } = event {
            facts.suppressed = facts.suppressed.map(|count| count + 1);
        } else if let Event::HoldStarted { axis, until_ms, .. } = event {
            facts.holds[*axis as usize] = Some(*until_ms);
            facts.moved_ms = self.now;
        } else if let Event::HoldEnded { axis } = event {
            facts.holds[*axis as usize] = None;
            facts.moved_ms = self.now;
        } else if let Event::StatusWritten { .. } = event {
            self.told |= !self.outside;
            if !self.outside {
                self.beat(self.now);
            }
        } else if let Event::StatusFailed { .. } = event {
            self.told = true;
            self.beat(self.now);
        } else if let Event::JournalGap { .. } = event {
            facts.counts = None;
            facts.undelivered = None;
        } else if let (Some(name), Some(names)) = (unheard(event), &mut facts.undelivered) {
            names.insert(name);
        }
    }

    fn beat(&mut self, now: u64) {
        self.judged += 1;
        self.beat_ms = now;
        self.overdue_ms = None;
    }

    fn file(&mut self, entry: &Entry, seen: &SeenStatus, out: &mut Vec<Violation>) {
        self.outside = true;
        self.beat(self.now);
        self.told = true;
        if !seen.parses {
            out.push(Violation::new(self.now, [entry.n], "the status file does not parse"));
        } else if self.facts.is_some() {
            let facts = self.snapshot();
            self.files.extend(facts.map(|facts| (entry.n, seen.clone(), facts)));
        }
    }

    fn snapshot(&self) -> Option<Facts> {
        let (facts, feed) = (self.facts.as_ref()?, self.feed.as_ref()?);
        let places = &feed.supply.topology.places;
        let sure = (0..places.len()).all(|at| !feed.supply.unsure(at));
        let not_closed = sure.then(|| {
            let open = (0..places.len()).filter(|at| !feed.supply.closed(*at));
            open.map(|at| places[at].name.to_string()).collect()
        });
        let counts = facts.counts.map(|_| self.ledger.counts());
        Some(Facts { counts, not_closed, ..facts.clone() })
    }

    fn settle(&mut self, out: &mut Vec<Violation>) {
        let changed = self.changed.take();
        let told = std::mem::take(&mut self.told);
        if changed.is_none() && self.files.is_empty() {
            return;
        }
        let Some(end) = self.snapshot() else { return };
        if let Some(n) = changed {
            self.judged += 1;
            let levels = self.files.last().and_then(|(_, seen, _)| seen.state);
            if !told {
                let what = "a transition was followed neither by a status file nor by a failure to write it";
                out.push(Violation::new(self.now, [n], what));
            } else if levels.is_some_and(|levels| levels != end.levels) {
                out.push(Violation::new(self.now, [n], "the status file after a transition has other levels"));
                self.files.clear();
            }
        }
        for (n, seen, then) in self.files.drain(..) {
            for (part, wrong) in PARTS {
                if let (Some(wrong), Some(_)) = (wrong(&seen, &then), wrong(&seen, &end)) {
                    out.push(Violation::new(self.now, [n], format!("the status file's {part} {wrong}")));
                }
            }
        }
    }

    /// Overdue twice, a moment apart: a machine that was asleep writes at once when it wakes.
    fn heartbeat(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        let Some(rules) = self.setting.rules().filter(|_| self.setting.up) else { return };
        let every_ms = rules.status.every.ms();
        if entry.t_ms <= self.beat_ms + every_ms + BEAT_SLACK_MS {
            return;
        }
        match self.overdue_ms {
            None => self.overdue_ms = Some(entry.t_ms),
            Some(u64::MAX) => {} // Told already.
            Some(since) if entry.t_ms < since + BEAT_SLACK_MS => {}
            Some(_) => {
                self.overdue_ms = Some(u64::MAX);
                let what = format!("no status file since {} ms, expected one every {every_ms} ms", self.beat_ms);
                out.push(Violation::new(entry.t_ms, [entry.n], what));
            }
        }
    }
}

/// What is wrong with one part of a file, if something is.
type Part = (&'static str, fn(&SeenStatus, &Facts) -> Option<String>);

const PARTS: [Part; 8] = [
    ("state", state),
    ("holds", holds),
    ("newest transition", newest),
    ("history", history),
    ("suppressed_count", suppressed),
    ("deferred_work_count", deferred),
    ("breakers", breakers),
    ("undelivered_notices", undelivered),
];

fn state(seen: &SeenStatus, facts: &Facts) -> Option<String> {
    let said = seen.state?;
    let differing = Axis::ALL.into_iter().find(|axis| said.get(*axis) != facts.levels.get(*axis))?;
    Some(format!("has {differing} at {}, expected {}", said.get(differing), facts.levels.get(differing)))
}

fn holds(seen: &SeenStatus, facts: &Facts) -> Option<String> {
    if !facts.holds_known {
        return None;
    }
    let differing =
        Axis::ALL.into_iter().find(|axis| seen.holds.get(axis.name()) != facts.holds[*axis as usize].as_ref())?;
    let (said, expected) = (seen.holds.get(differing.name()), facts.holds[differing as usize]);
    Some(format!("have {differing} until {said:?}, expected {expected:?}"))
}

fn newest(seen: &SeenStatus, facts: &Facts) -> Option<String> {
    let (axis, was, to) = facts.newest?;
    let said = seen.newest.as_ref().map(|(axis, was, to)| (axis.as_str(), was.as_str(), to.as_str()));
    let same = said == Some((axis.name(), was.name(), to.name()));
    (!same).then(|| format!("is {said:?}, expected {axis} from {was} to {to}"))
}

fn history(seen: &SeenStatus, facts: &Facts) -> Option<String> {
    let (said, expected) = (seen.history_len?, facts.transitions?.min(HISTORY_MAX));
    (said != expected).then(|| format!("has {said} transitions, expected {expected}"))
}

fn suppressed(seen: &SeenStatus, facts: &Facts) -> Option<String> {
    let (said, expected) = (seen.suppressed?, facts.suppressed?);
    (said != expected).then(|| format!("is {said}, expected {expected}"))
}

fn deferred(seen: &SeenStatus, facts: &Facts) -> Option<String> {
    let counts = facts.counts?;
    let said = |status: ItemStatus| seen.deferred.get(status.name()).copied().unwrap_or(0);
    // Whether an item whose time has come is still called scheduled is a matter of the sweep.
    let waiting = said(ItemStatus::Scheduled) + said(ItemStatus::Pending);
    if waiting != counts.waiting {
        return Some(format!("has {waiting} scheduled and pending items, expected {}", counts.waiting));
    }
    ItemStatus::ALL.into_iter().find_map(|status| {
        let expected = match status {
            ItemStatus::Scheduled | ItemStatus::Pending => return None,
            ItemStatus::Leased => counts.leased,
            ItemStatus::Done
            | ItemStatus::Expired
            | ItemStatus::Discarded
            | ItemStatus::Refreshed
            | ItemStatus::Dead
            | ItemStatus::InDoubt => counts.finished[status as usize],
        };
        let (said, name) = (said(status), status.name());
        (said != expected).then(|| format!("has {said} {name} items, expected {expected}"))
    })
}

fn breakers(seen: &SeenStatus, facts: &Facts) -> Option<String> {
    let expected = facts.not_closed.as_ref()?;
    let mut said = seen.not_closed.clone();
    said.sort();
    (said != *expected).then(|| format!("shows {said:?} as not closed, expected {expected:?}"))
}

/// The name of what no channel and no webhook took, if the event says so.
fn unheard(event: &Event) -> Option<String> {
    if let Event::WebhookUndelivered { transition, .. } = event {
        return Some(format!("transition {transition}"));
    }
    if let Event::NoticeSent { way, occasion, .. } | Event::NoticeUndelivered { way, occasion, .. } = event
        && (way == "status_file" || way == "stderr")
    {
        return Some(format!("notice {occasion}"));
    }
    None
}

fn undelivered(seen: &SeenStatus, facts: &Facts) -> Option<String> {
    let (said, names) = (seen.undelivered_notices?, facts.undelivered.as_ref()?);
    let expected = (names.len() as u64).min(UNDELIVERED_MAX);
    (said != expected).then(|| format!("lists {said}, expected {expected}"))
}

#[cfg(test)]
mod telling_tests;
#[cfg(test)]
mod tests;
