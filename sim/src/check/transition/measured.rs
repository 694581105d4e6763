//! TRANSITION-1: every level change is one that the measured level explains.
//!
//! The measured level is derived from breakers, parks, answers and disabled providers by a model of our own and
//! compared with `axis.measured` at the end of each instant in which the engine measures (engine.md 2.1 "When levels
//! are measured"), so that the order inside an instant is free. While a probe round is under way an improvement may
//! wait for its end, so that a round that closes three breakers is one. What `cc` measures follows from the starts, ends,
//! answers and limits of sessions. `DOWN` has no facts in the history yet: there the engine's word is taken.

use crate::check::feed::Feed;
use crate::check::session::follow;
use crate::check::setting::{Setting, Start};
use crate::check::{Check, Violation};
use crate::history::{Entry, What};
use crate::model::session::Sessions;
use squall::base::{Axis, ItemStatus, Level};
use squall::event::Event;

/// The best and the worst level of each axis that may be measured.
type Ranges = [Option<(Level, Level)>; 4];

#[derive(Default)]
pub struct Measured {
    setting: Setting,
    feed: Option<Feed>,
    sessions: Option<Sessions>,
    /// The levels that sessions gave when it was looked at last.
    cc: Option<(Level, Level)>,
    axes: Option<[View; 4]>,
    now: u64,
    /// The engine measured in this instant: what it may have found.
    accepted: Vec<Ranges>,
    point: Option<u64>,
    /// The feed's version when `accepted` was added to last.
    version: u64,
    /// What was compared last, and held.
    settled: Option<u64>,
    /// A probe was sent since the last round ended.
    round: bool,
    judged: u64,
}

struct View {
    applied: Level,
    /// As the engine reported it; `None`: not since it was started again.
    measured: Option<Level>,
    held: bool,
    /// Something of this axis is in this instant.
    touched: bool,
    /// Entries that led to what is now.
    measured_n: Option<u64>,
    last_n: Option<u64>,
}

impl Check for Measured {
    fn id(&self) -> &'static str {
        "TRANSITION-1"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if entry.t_ms != self.now {
            self.settle(out);
            self.now = entry.t_ms;
        }
        if let Some(start) = self.setting.observe(entry) {
            self.start(&start);
            return;
        }
        let What::Engine(event) = &entry.what else { return };
        let Some(feed) = &mut self.feed else { return };
        feed.observe(self.now, event);
        if let Event::AttemptSent { probe: true, .. } = event {
            self.round = true;
        } else if let Event::ProbeRound { .. } = event {
            self.round = false;
        }
        if let Some(sessions) = &mut self.sessions
            && follow(sessions, entry, event)
        {
            feed.version += 1;
        }
        if is_point(event) {
            // Time alone ends limits and frees the hour.
            let cc = self.sessions.as_mut().map(|sessions| sessions.range_at(self.now));
            feed.version += u64::from(cc != std::mem::replace(&mut self.cc, cc));
            self.point = Some(entry.n);
            self.accepted.clear();
            self.version = u64::MAX;
        }
        if self.point.is_some() && self.version != feed.version && self.settled != Some(feed.version) {
            self.version = feed.version;
            let mut ranges = Axis::ALL.map(|axis| feed.supply.range(axis, self.now));
            let cc = self.sessions.as_mut().map(|sessions| sessions.range_at(self.now));
            ranges[Axis::Cc as usize] = cc;
            self.accepted.push(ranges);
        }
        self.axis(entry.n, event, out);
    }

    fn finish(&mut self, out: &mut Vec<Violation>) {
        self.settle(out);
    }

    fn judged(&self) -> u64 {
        self.judged
    }
}

/// Whether the engine measures its axes at this event.
fn is_point(event: &Event) -> bool {
    matches!(
        event,
        Event::CallFinished { .. }
            | Event::AttemptFirstToken { .. }
            | Event::ProbeRound { .. }
            | Event::RecallFinished { .. }
            | Event::DeadAdded { .. }
            | Event::DeferredFinished { was: ItemStatus::Dead, .. }
            | Event::ParkEnded { .. }
            | Event::HoldEnded { .. }
            | Event::BreakerHalfOpen { by_probe: false, .. }
            | Event::Tick { .. }
            | Event::SessionStarted { .. }
            | Event::SessionAnswered { .. }
            | Event::SessionEnded { .. }
            | Event::SessionLimited { .. }
    )
}

impl Measured {
    fn start(&mut self, start: &Start) {
        let rules = self.setting.rules().expect("a start brings its rules");
        Feed::started(&mut self.feed, start, rules);
        match &mut self.sessions {
            Some(sessions) if !start.fresh => sessions.with_rules(&rules.sessions),
            // What an earlier incarnation knew of sessions is in no history: nothing is claimed about cc.
            sessions => *sessions = start.fresh.then(|| Sessions::new(&rules.sessions)),
        }
        let old = self.axes.take();
        self.axes = Some(Axis::ALL.map(|axis| {
            let applied = start.levels.get(axis);
            let held = !start.fresh && old.as_ref().is_some_and(|axes| axes[axis as usize].held);
            let measured = start.fresh.then_some(applied);
            View { applied, measured, held, touched: false, measured_n: None, last_n: None }
        }));
        self.point = None;
        self.accepted.clear();
        self.settled = None;
        self.round = false;
    }

    fn axis(&mut self, n: u64, event: &Event, out: &mut Vec<Violation>) {
        let now = self.now;
        let Some(axes) = &mut self.axes else { return };
        if let Event::AxisMeasured { axis, level } = event {
            let view = &mut axes[*axis as usize];
            if axis.severity(*level).is_none() {
                out.push(Violation::new(now, [n], format!("axis {axis} has no level {level}, which was measured")));
                return;
            }
            if view.measured == Some(*level) {
                out.push(Violation::new(
                    now,
                    view.chain(n),
                    format!("axis {axis} reported {level} as newly measured twice"),
                ));
            }
            view.measured = Some(*level);
            view.measured_n = Some(n);
            view.touched = true;
            self.settled = None;
            self.judged += 1;
        } else if let Event::AxisChanged { axis, was, to, measured, .. } = event {
            let view = &mut axes[*axis as usize];
            self.judged += 1;
            view.touched = true;
            if let Some(wrong) = view.wrong_change(*axis, *was, *to, *measured) {
                out.push(Violation::new(now, view.chain(n), format!("axis {axis} {wrong}")));
            }
            if axis.severity(*to).is_some() {
                view.applied = *to;
            }
            view.last_n = Some(n);
        } else if let Event::AxisSuppressed { axis, was, to, .. } = event {
            let view = &mut axes[*axis as usize];
            self.judged += 1;
            view.touched = true;
            let wrong = if *was != view.applied {
                Some(format!("suppressed a change from {was} while {} was applied", view.applied))
            } else if view.measured.is_some_and(|measured| measured != *to) {
                Some(format!("suppressed {to}, which was not the measured level"))
            } else {
                None
            };
            if let Some(wrong) = wrong {
                out.push(Violation::new(now, view.chain(n), format!("axis {axis} {wrong}")));
            }
        } else if let Event::HoldStarted { axis, .. } = event {
            axes[*axis as usize].held = true;
            axes[*axis as usize].touched = true;
        } else if let Event::HoldEnded { axis } = event {
            axes[*axis as usize].held = false;
            axes[*axis as usize].touched = true;
        }
    }

    /// The instant is over: nothing worse is left unapplied, nothing better without a hold, and what was measured is
    /// what the facts give.
    fn settle(&mut self, out: &mut Vec<Violation>) {
        let point = self.point.take();
        let Some(axes) = &mut self.axes else { return };
        for (axis, view) in Axis::ALL.into_iter().zip(axes.iter_mut()) {
            if !std::mem::take(&mut view.touched) {
                continue;
            }
            let Some(measured) = view.measured else { continue };
            let wrong = if axis.worse(measured, view.applied) {
                format!("stays at {} although the worse {measured} is measured", view.applied)
            } else if !view.held && axis.worse(view.applied, measured) {
                format!("stays at {} although the better {measured} is measured and no hold is in force", view.applied)
            } else {
                continue;
            };
            let events = view.events();
            out.push(Violation::new(self.now, events, format!("axis {axis} {wrong}")));
        }
        if let Some(n) = point {
            self.compare(n, out);
        }
        self.accepted.clear();
    }

    fn compare(&mut self, n: u64, out: &mut Vec<Violation>) {
        self.judged += 1;
        let (Some(axes), Some(feed)) = (&self.axes, &self.feed) else { return };
        if self.accepted.is_empty() {
            return; // Neither the facts nor the engine's word have changed since this was compared last.
        }
        let mut waits = false;
        for axis in Axis::ALL {
            let view = &axes[axis as usize];
            let Some(reported) = view.measured.or((!view.held).then_some(view.applied)) else { continue };
            if reported == Level::Down {
                continue;
            }
            let rank = |level| axis.severity(level).expect("levels were checked when they were reported");
            let fits = |(best, worst)| rank(best) <= rank(reported) && rank(reported) <= rank(worst);
            let mut ranges = self.accepted.iter().filter_map(|ranges| ranges[axis as usize]);
            if ranges.any(fits) {
                continue;
            }
            let Some((best, worst)) = self.accepted.last().and_then(|ranges| ranges[axis as usize]) else { continue };
            if self.round && rank(reported) > rank(worst) {
                waits = true;
                continue;
            }
            let expected = if best == worst { best.to_string() } else { format!("{best} to {worst}") };
            let mut events = view.events();
            events.push(n);
            let facts = if axis == Axis::Cc { "sessions" } else { "breakers, parks and backlog" };
            let what = format!("axis {axis} measures {reported}, but its {facts} give {expected}");
            out.push(Violation::new(self.now, events, what));
        }
        // Also after a difference: the same one is not told again until something moves.
        self.settled = (!waits).then_some(feed.version);
    }
}

impl View {
    fn wrong_change(&self, axis: Axis, was: Level, to: Level, measured: Level) -> Option<String> {
        if axis.severity(to).is_none() || axis.severity(was).is_none() {
            return Some(format!("went from {was} to {to}, which are not both levels of it"));
        }
        if was == to {
            return Some(format!("went from {was} to itself"));
        }
        if was != self.applied {
            return Some(format!("went from {was} to {to} while {} was applied", self.applied));
        }
        let known = self.measured.unwrap_or(measured);
        if to != measured || to != known {
            return Some(format!("went from {was} to {to} while {known} was measured"));
        }
        if self.held && axis.worse(was, to) {
            return Some(format!("went from {was} to the better {to} inside a hold"));
        }
        None
    }

    fn events(&self) -> Vec<u64> {
        let mut events: Vec<u64> = self.measured_n.into_iter().chain(self.last_n).collect();
        events.sort_unstable();
        events
    }

    fn chain(&self, n: u64) -> Vec<u64> {
        let mut events = self.events();
        events.push(n);
        events
    }
}

#[cfg(test)]
mod tests;
