//! CONVERGE-1: after healing everything comes back, or it is said what waits for what.
//!
//! Broken is what waits for nothing any more: no timer that is still running, no work in progress, no fresh trouble.
//! Everything else that is not at rest at the end of the run is inconclusive: the settle time was too short for it, or
//! the load itself keeps it busy.

use super::drain::{SESSION, follow};
use super::feed::Feed;
use super::setting::Setting;
use super::{Check, Violation};
use crate::history::{Entry, Outside, What, World};
use crate::model::ledger::{Item, Ledger};
use squall::base::{Axis, AxisLevels, EntryName, Level};
use squall::event::Event;
use std::collections::BTreeMap;

/// Work that moved this recently is in progress; a breaker or park that should have moved longer ago is stuck.
const PROGRESS_MS: u64 = 60_000;

/// Refusals and errors this recent come from the load: every fault is healed.
const TROUBLE_MS: u64 = 5 * 60_000;

#[derive(Default)]
pub struct Converged {
    setting: Setting,
    feed: Option<Feed>,
    ledger: Ledger,
    levels: Option<AxisLevels>,
    measured: [Option<Level>; 4],
    /// The end of each hold.
    holds: [Option<u64>; 4],
    /// Sessions that wait, with their item, and whether somebody waits for them.
    sessions: BTreeMap<u64, (u64, bool)>,
    /// Until when each window's limit was last said to be in force.
    limits: BTreeMap<String, u64>,
    /// What each entry that does not serve waits for: in words, and until when.
    waits: BTreeMap<EntryName, (&'static str, u64)>,
    healed: bool,
    worked_ms: Option<u64>,
    embedded_ms: Option<u64>,
    trouble: Option<(u64, EntryName)>,
    judged: u64,
}

impl Check for Converged {
    fn id(&self) -> &'static str {
        "CONVERGE-1"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if let Some(start) = self.setting.observe(entry) {
            let rules = self.setting.rules().expect("a start brings its rules");
            Feed::started(&mut self.feed, &start, rules);
            if start.fresh {
                self.ledger = Ledger::default();
                self.waits.clear();
                self.holds = [None; 4];
                self.limits.clear();
            }
            self.sessions.values_mut().for_each(|(_, present)| *present = false);
            self.ledger.restarted();
            self.levels = Some(start.levels);
            self.measured = [None; 4];
            return;
        }
        match &entry.what {
            What::Engine(event) => self.engine(entry, event),
            What::World(World::Healed) => self.healed = true,
            What::World(World::RunEnded) if self.healed => self.judge(entry, out),
            What::Outside(Outside::ProviderAnswered { entry: at, status, .. }) if self.healed && *status >= 400 => {
                self.trouble = Some((entry.t_ms, at.clone()));
            }
            What::Outside(_) | What::World(_) => {}
        }
    }

    fn finish(&mut self, _: &mut Vec<Violation>) {}

    fn judged(&self) -> u64 {
        self.judged
    }
}

impl Converged {
    fn engine(&mut self, entry: &Entry, event: &Event) {
        let now = entry.t_ms;
        let (Some(feed), Some(levels), Some(rules)) = (&mut self.feed, &mut self.levels, self.setting.rules()) else {
            return;
        };
        feed.observe(now, event);
        follow(&mut self.ledger, entry, event, rules.queue.discard_after.ms());
        if let Event::AxisMeasured { axis, level } = event {
            self.measured[*axis as usize] = Some(*level);
        } else if let Event::AxisChanged { axis, to, .. } = event {
            if axis.severity(*to).is_some() {
                levels.set(*axis, *to);
            }
        } else if let Event::HoldStarted { axis, until_ms, .. } = event {
            self.holds[*axis as usize] = Some(*until_ms);
        } else if let Event::HoldEnded { axis } = event {
            self.holds[*axis as usize] = None;
        } else if let Event::BreakerOpened { entry, until_ms, .. } = event {
            self.waits.insert(entry.clone(), ("its breaker is open", *until_ms));
        } else if let Event::BreakerHalfOpen { entry, .. } = event {
            let until = now + rules.breaker.half_open_max.ms();
            self.waits.insert(entry.clone(), ("its breaker is half-open", until));
        } else if let Event::BreakerClosed { entry } = event {
            self.waits.remove(entry);
        } else if let Event::ParkStarted { entry, until_ms, .. } = event {
            self.waits.entry(entry.clone()).or_insert(("it is parked", *until_ms)).1 = *until_ms;
        } else if let Event::ParkEnded { entry } = event {
            self.waits.insert(entry.clone(), ("its park is over and awaits its answers", now));
        } else if let Event::DeferredQueued { .. } | Event::DeferredRun { .. } | Event::DeferredFinished { .. } = event
        {
            self.worked_ms = Some(now);
        } else if let Event::SessionDeferred { session, item, .. } = event {
            self.sessions.insert(*session, (*item, self.sessions.get(session).is_some_and(|(_, present)| *present)));
        } else if let Event::SessionWaiter { session, present } = event {
            if let Some(of) = self.sessions.get_mut(session) {
                of.1 = *present;
            }
        } else if let Event::SessionStarted { session, .. } = event {
            // Who waited has it now; a later run is waited for anew.
            if let Some(of) = self.sessions.get_mut(session) {
                of.1 = false;
            }
        } else if let Event::SessionLimited { window, until_ms, .. } = event {
            self.limits.insert(window.clone(), *until_ms);
        } else if let Event::EmbeddingQueued { .. } | Event::EmbeddingEmbedded { .. } | Event::EmbeddingFailed { .. } =
            event
        {
            self.embedded_ms = Some(now);
        }
    }

    fn judge(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        let now = entry.t_ms;
        let mut say = |what: String, inconclusive: bool| {
            out.push(Violation { inconclusive, ..Violation::new(now, [entry.n], what) });
        };
        if !self.setting.up {
            self.judged += 1;
            say("the engine is down at the end of the run".to_owned(), false);
            return;
        }
        let (Some(feed), Some(levels)) = (&self.feed, &self.levels) else { return };
        for axis in Axis::ALL {
            self.judged += 1;
            let level = levels.get(axis);
            let baseline = baseline(axis, feed);
            if level != baseline {
                let (reasons, pending) = self.why(axis, now, feed);
                say(format!("axis {axis} ends at {level}, expected {baseline}: {reasons}"), pending);
            }
        }
        self.judged += 2;
        if let Some((what, busy)) = self.items(now, levels, feed) {
            say(what, busy);
        }
        if let Some((what, busy)) = self.backlog(now, levels, feed) {
            say(what, busy);
        }
    }

    /// What an axis waits for, and whether that may still come.
    fn why(&self, axis: Axis, now: u64, feed: &Feed) -> (String, bool) {
        let mut reasons = Vec::new();
        let mut pending = false;
        if let Some(until) = self.holds[axis as usize] {
            reasons.push(format!("a hold is in force until {until} ms"));
            pending |= until >= now;
        }
        if let Some(measured) = self.measured[axis as usize] {
            reasons.push(format!("{measured} is measured"));
        }
        for (name, (what, until)) in &self.waits {
            let Some(at) = feed.supply.topology.find(name) else { continue };
            let (place, supply) = (&feed.supply.topology.places[at], &feed.supply);
            let concerns = match axis {
                Axis::Cloud => place.counted,
                Axis::Embedding => place.embedding,
                Axis::Memory => place.embedding || place.vector,
                Axis::Cc => false,
            };
            let parked = supply.parked_now(at) || supply.confirming(at).is_some();
            if concerns && (!supply.closed(at) || parked) {
                let answers = supply.confirming(at).map(|answers| format!(", {answers} answers so far"));
                reasons.push(format!("{name}: {what} (until {until} ms{})", answers.unwrap_or_default()));
                pending |= *until + PROGRESS_MS >= now;
            }
        }
        if let Some((at_ms, name)) = self.trouble.as_ref().filter(|(at_ms, _)| at_ms + TROUBLE_MS >= now) {
            reasons.push(format!("{name} still refused at {at_ms} ms, after healing"));
            pending = true;
        }
        if axis == Axis::Cc {
            // A limit of its own account, sessions that prove it gone, and the hour's budget: none of them is a fault
            // that healing ends.
            pending = true;
            match self.limits.iter().max_by_key(|(_, until)| **until) {
                Some((window, until)) if *until > now => reasons.push(format!("a {window} limit until {until} ms")),
                Some((window, _)) => reasons.push(format!("the {window} limit is over, and sessions have to prove it")),
                None => reasons.push("the hour's starts, or sessions that have to prove that they work".to_owned()),
            }
        }
        let waiting = feed.supply.backlog_len();
        if axis == Axis::Embedding && waiting > 0 {
            reasons.push(format!("{waiting} memories wait for their embedding"));
            pending |= self.embedded_ms.is_some_and(|at| at + PROGRESS_MS >= now);
        }
        if reasons.is_empty() {
            reasons.push("nothing in the history explains it".to_owned());
        }
        (reasons.join("; "), pending)
    }

    /// Items that could run, and whether they are being worked on.
    fn items(&self, now: u64, levels: &AxisLevels, feed: &Feed) -> Option<(String, bool)> {
        let settled = |axis: &Axis| levels.get(*axis) == baseline(*axis, feed);
        // A session runs as long as it likes, and one that nobody waits for has no consumer.
        let awaited = |id: u64| self.sessions.values().any(|(item, present)| *item == id && *present);
        let consumed = |id: u64, item: &Item| item.work_type != SESSION || (!item.leased && awaited(id));
        let mut ready = self.ledger.items().filter(|(id, item)| {
            let open = item.not_before_ms <= now && item.depends_on.iter().all(settled);
            (item.leased || open) && consumed(*id, item)
        });
        let (id, first) = ready.next()?;
        let (count, leased) = (1 + ready.count(), self.ledger.counts().leased);
        let busy = leased > 0 || self.worked_ms.is_some_and(|at| at + PROGRESS_MS >= now);
        let (work_type, since) = (&first.work_type, first.rank.1);
        let state = if busy { "are still being worked on" } else { "wait although nothing holds them back" };
        let what = format!(
            "{count} deferred items {state} ({leased} leased); the first is item {id} ({work_type}), deferred at {since} ms"
        );
        Some((what, busy))
    }

    fn backlog(&self, now: u64, levels: &AxisLevels, feed: &Feed) -> Option<(String, bool)> {
        let waiting = feed.supply.backlog_len();
        if waiting == 0 || levels.embedding != baseline(Axis::Embedding, feed) {
            return None; // None, or told with the axis.
        }
        let retry_ms = self.setting.rules()?.backlog.retry_every.ms();
        let busy = self.embedded_ms.is_some_and(|at| at + PROGRESS_MS + retry_ms >= now);
        Some((format!("{waiting} memories still wait for their embedding"), busy))
    }
}

fn baseline(axis: Axis, feed: &Feed) -> Level {
    match axis {
        Axis::Memory if !feed.supply.topology.embeds() => Level::FtsOnly,
        Axis::Cloud | Axis::Memory | Axis::Embedding | Axis::Cc => Level::Normal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::drain::tests::{done, queued, run};
    use crate::check::testing::*;
    use squall::event::OpenWhy;

    const END: u64 = 3_600_000;

    fn ended(story: Story) -> (u64, Vec<Violation>) {
        story.at(END, World::RunEnded).judge(Converged::default())
    }

    #[track_caller]
    fn told(story: Story, inconclusive: bool, part: &str) {
        let (_, violations) = ended(story);
        assert_eq!(violations.len(), 1, "{violations:#?}");
        assert_eq!(violations[0].inconclusive, inconclusive, "{}", violations[0].what);
        assert!(violations[0].what.contains(part), "{:?} does not say {part:?}", violations[0].what);
    }

    fn fallback() -> Story {
        Story::new()
            .at(10, opened("alpha", 1, 120_010, OpenWhy::Consecutive))
            .at(10, measured(Axis::Cloud, Level::Fallback))
            .at(10, changed(Axis::Cloud, Level::Normal, Level::Fallback))
            .at(20, World::Healed)
    }

    #[test]
    fn an_engine_at_rest_is_accepted_and_one_without_healing_is_not_judged() {
        let story = Story::new().at(1, queued(1, 50, &[])).at(2, run(1)).at(3, done(1));
        story.clone().at(20, World::Healed).at(END, World::RunEnded).accepted(Converged::default());
        story.at(END, World::RunEnded).unjudged(Converged::default());
    }

    #[test]
    fn an_axis_that_waits_for_nothing_any_more_is_broken() {
        told(fallback(), false, "axis cloud ends at FALLBACK, expected NORMAL");
        told(fallback(), false, "alpha: its breaker is open (until 120010 ms)");
    }

    #[test]
    fn an_axis_that_waits_for_a_timer_still_running_is_inconclusive() {
        let closed = fallback().at(150_000, closed("alpha")).at(150_000, measured(Axis::Cloud, Level::Normal));
        told(closed.clone(), false, "NORMAL is measured");
        told(closed.at(END - 1, held(Axis::Cloud, END + 1, false)), true, "a hold is in force");
        told(fallback().at(END - 9, opened("alpha", 3, END + 9, OpenWhy::TrialFailed)), true, "its breaker is open");
    }

    #[test]
    fn items_that_could_run_and_do_not_are_broken_and_a_drain_in_progress_is_inconclusive() {
        let waiting = Story::new().at(1, queued(1, 50, &[Axis::Cloud])).at(20, World::Healed);
        told(waiting.clone(), false, "1 deferred items wait although nothing holds them back");
        told(waiting.at(END - 60_000, queued(2, 50, &[])).at(END - 60_000, run(2)), true, "2 deferred items are still");
    }

    #[test]
    fn an_item_whose_time_has_not_come_is_explained() {
        let mut later = queued(1, 50, &[]);
        if let Event::DeferredQueued { not_before_ms, .. } = &mut later {
            *not_before_ms = Some(END + 1);
        }
        assert_eq!(ended(Story::new().at(1, later).at(20, World::Healed)).1, []);
    }

    #[test]
    fn memories_without_an_embedding_and_an_engine_that_is_down_are_told() {
        let waits = Event::EmbeddingQueued { memory: 1, why: "refused".into() };
        told(Story::new().at(1, waits).at(20, World::Healed), false, "1 memories still wait");
        told(
            Story::new().at(20, World::Healed).at(30, World::EngineKilled { power_loss: false, point: None }),
            false,
            "is down",
        );
    }
}
