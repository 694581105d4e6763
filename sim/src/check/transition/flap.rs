//! TRANSITION-3: flap protection, followed step by step with a model of our own.

use crate::check::setting::{Setting, Start};
use crate::check::{Check, Violation};
use crate::history::{Entry, What};
use crate::model::flap::{Flap, Wrong};
use squall::base::{Axis, Level};
use squall::event::Event;

#[derive(Default)]
pub struct Flaps {
    setting: Setting,
    axes: Option<[Lane; 4]>,
    now: u64,
    /// An axis was spoken of in this instant.
    touched: bool,
    judged: u64,
}

struct Lane {
    flap: Flap,
    /// The newest entries about it, which led to what is now.
    recent: [Option<u64>; 4],
    touched: bool,
    /// When it last changed: a kill may undo that.
    changed_ms: Option<u64>,
    /// Its hold was told to last too long already.
    overdue: bool,
}

impl Check for Flaps {
    fn id(&self) -> &'static str {
        "TRANSITION-3"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if entry.t_ms != self.now {
            self.settle(out);
            self.overdue(entry, out);
            self.now = entry.t_ms;
        }
        if let Some(start) = self.setting.observe(entry) {
            self.start(&start);
            return;
        }
        if let What::Engine(event) = &entry.what {
            self.axis(entry.n, event, out);
        }
    }

    fn finish(&mut self, out: &mut Vec<Violation>) {
        self.settle(out);
    }

    fn judged(&self) -> u64 {
        self.judged
    }
}

impl Flaps {
    fn start(&mut self, start: &Start) {
        let rules = &self.setting.rules().expect("a start brings its rules").flap;
        let mut known = self.axes.take().filter(|_| !start.fresh && !start.new_rules);
        self.axes = Some(Axis::ALL.map(|axis| {
            let applied = start.levels.get(axis);
            let Some(lane) = known.as_mut().map(|lanes| &mut lanes[axis as usize]) else {
                let mut flap = Flap::new(axis, rules, applied);
                if !start.fresh {
                    flap.resumed(applied, true); // Its past is not in this history.
                }
                return Lane { flap, recent: [None; 4], touched: false, changed_ms: None, overdue: false };
            };
            let lost = start.lost_from_ms.is_some_and(|from| lane.changed_ms.is_some_and(|changed| changed >= from));
            let mut flap = lane.flap.clone();
            flap.resumed(applied, lost);
            Lane { flap, touched: false, ..*lane }
        }));
    }

    fn axis(&mut self, n: u64, event: &Event, out: &mut Vec<Violation>) {
        let now = self.now;
        let Some(axes) = &mut self.axes else { return };
        let (axis, step): (Axis, Result<(), Wrong>) = if let Event::AxisMeasured { axis, level } = event {
            if !knows(*axis, *level) {
                return;
            }
            axes[*axis as usize].flap.measured(*level);
            (*axis, Ok(()))
        } else if let Event::AxisChanged { axis, to, .. } = event {
            if !knows(*axis, *to) || *to == axes[*axis as usize].flap.applied() {
                return; // TRANSITION-1 tells it.
            }
            self.judged += 1;
            axes[*axis as usize].changed_ms = Some(now);
            (*axis, axes[*axis as usize].flap.changed(now, *to))
        } else if let Event::AxisSuppressed { axis, to, .. } = event {
            if !knows(*axis, *to) {
                return;
            }
            self.judged += 1;
            axes[*axis as usize].changed_ms = Some(now);
            (*axis, axes[*axis as usize].flap.suppressed(now, *to))
        } else if let Event::HoldStarted { axis, until_ms, restarted } = event {
            self.judged += 1;
            axes[*axis as usize].changed_ms = Some(now);
            (*axis, axes[*axis as usize].flap.hold_started(now, *until_ms, *restarted))
        } else if let Event::HoldEnded { axis } = event {
            self.judged += 1;
            let lane = &mut axes[*axis as usize];
            lane.changed_ms = Some(now);
            let due = lane.flap.hold_until().unwrap_or(now);
            let late_max = if std::mem::take(&mut lane.overdue) { u64::MAX } else { self.setting.late_max(due) };
            (*axis, lane.flap.hold_ended(now, late_max))
        } else {
            return;
        };
        self.touched = true;
        let lane = &mut axes[axis as usize];
        lane.touched = true;
        lane.recent.rotate_left(1);
        lane.recent[3] = Some(n);
        lane.tell(now, axis, step, out);
    }

    fn settle(&mut self, out: &mut Vec<Violation>) {
        if !std::mem::take(&mut self.touched) {
            return;
        }
        let Some(axes) = &mut self.axes else { return };
        for (axis, lane) in Axis::ALL.into_iter().zip(axes) {
            if std::mem::take(&mut lane.touched) {
                let step = lane.flap.settled();
                lane.tell(self.now, axis, step, out);
            }
        }
    }

    /// A hold that should have ended before this entry and did not.
    fn overdue(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        let Some(axes) = self.axes.as_mut().filter(|_| self.setting.up) else { return };
        for (axis, lane) in Axis::ALL.into_iter().zip(axes) {
            let Some(until) = lane.flap.hold_until() else { continue };
            if !lane.overdue && entry.t_ms > until.saturating_add(self.setting.late_max(until)) {
                lane.overdue = true;
                let wrong = format!("is still held at {} ms, its hold lasted until {until} ms", entry.t_ms);
                lane.tell(entry.t_ms, axis, Err(wrong), out);
            }
        }
    }
}

impl Lane {
    fn tell(&self, now: u64, axis: Axis, step: Result<(), Wrong>, out: &mut Vec<Violation>) {
        if let Err(wrong) = step {
            let events: Vec<u64> = self.recent.into_iter().flatten().collect();
            out.push(Violation::new(now, events, format!("axis {axis} {wrong}")));
        }
    }
}

fn knows(axis: Axis, level: Level) -> bool {
    axis.severity(level).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::*;
    use crate::history::World;
    use squall::base::rules::FlapCount;
    use squall::base::{AxisLevels, Rules};

    const CLOUD: Axis = Axis::Cloud;
    const MIN: u64 = 60_000;
    /// The fourth change happens here and the hold lasts until `END`.
    const FOURTH: u64 = 4 * MIN;
    const END: u64 = FOURTH + 10 * MIN;
    use Level::{Essential, Fallback, Normal, Offline, Reduced};

    fn check() -> Flaps {
        Flaps::default()
    }

    fn moved(story: Story, t: u64, was: Level, to: Level) -> Story {
        story.at(t, measured(CLOUD, to)).at(t, changed(CLOUD, was, to))
    }

    /// Three changes: down, up, down.
    fn three() -> Story {
        let story = moved(Story::new(), MIN, Normal, Fallback);
        moved(moved(story, 2 * MIN, Fallback, Normal), 3 * MIN, Normal, Fallback)
    }

    /// The fourth is an improvement and starts a hold at FALLBACK.
    fn held_by_an_improvement() -> Story {
        three()
            .at(FOURTH, measured(CLOUD, Normal))
            .at(FOURTH, suppressed(CLOUD, Fallback, Normal))
            .at(FOURTH, held(CLOUD, END, false))
    }

    fn held_by_a_worsening() -> Story {
        moved(three(), FOURTH, Fallback, Reduced).at(FOURTH, held(CLOUD, END, false))
    }

    #[test]
    fn the_fourth_change_starts_a_hold_and_its_end_brings_the_measured_level() {
        held_by_an_improvement().at(END, released(CLOUD)).at(END, changed(CLOUD, Fallback, Normal)).accepted(check());
        held_by_a_worsening().at(END, released(CLOUD)).accepted(check());
    }

    #[test]
    fn a_hold_at_the_third_change_is_rejected() {
        three().at(3 * MIN, held(CLOUD, 13 * MIN, false)).rejected(check(), "after 3 counted changes");
    }

    #[test]
    fn a_hold_at_the_fifth_change_only_is_rejected() {
        let four = moved(three(), FOURTH, Fallback, Reduced);
        four.rejected(check(), "began no hold");
        moved(four, 5 * MIN, Reduced, Essential)
            .at(5 * MIN, held(CLOUD, 15 * MIN, false))
            .rejected(check(), "change number 4");
    }

    #[test]
    fn a_fourth_change_that_improves_and_is_applied_is_rejected() {
        moved(three(), FOURTH, Fallback, Normal)
            .at(FOURTH, held(CLOUD, END, false))
            .rejected(check(), "applied the better NORMAL");
    }

    #[test]
    fn a_window_that_is_one_millisecond_longer_or_shorter_is_rejected() {
        // The first change was exactly 15 min ago: it counts no more.
        let at_15 = moved(three(), MIN + 15 * MIN, Fallback, Reduced);
        at_15.accepted(check());
        at_15.at(16 * MIN, held(CLOUD, 26 * MIN, false)).rejected(check(), "after 3 counted changes");
        // A millisecond earlier it still counts.
        let before = moved(three(), 16 * MIN - 1, Fallback, Reduced);
        before.rejected(check(), "began no hold");
        before.at(16 * MIN - 1, held(CLOUD, 26 * MIN - 1, false)).accepted(check());
    }

    #[test]
    fn a_hold_that_is_one_millisecond_longer_or_shorter_is_rejected() {
        held_by_a_worsening().at(END - 1, released(CLOUD)).rejected(check(), "1 ms early");
        held_by_a_worsening().at(END + 1, released(CLOUD)).rejected(check(), "still held");
        moved(three(), FOURTH, Fallback, Reduced)
            .at(FOURTH, held(CLOUD, END + 1, false))
            .rejected(check(), "expected 840000 ms");
        moved(three(), FOURTH, Fallback, Reduced)
            .at(FOURTH, held(CLOUD, END - 1, false))
            .rejected(check(), "expected 840000 ms");
    }

    #[test]
    fn a_hold_that_never_ends_is_rejected() {
        held_by_a_worsening().at(END, Event::Tick { caught_up: false }).accepted(check());
        held_by_a_worsening().at(END + 1, Event::Tick { caught_up: false }).rejected(check(), "still held");
    }

    #[test]
    fn an_improvement_let_through_in_a_hold_is_rejected() {
        moved(held_by_a_worsening(), 5 * MIN, Reduced, Normal).rejected(check(), "inside a hold");
    }

    #[test]
    fn a_suppressed_improvement_that_counts_is_rejected() {
        // Two changes in the new window, and a third with a hold: the engine counted the suppressed one.
        let story = held_by_an_improvement().at(END, released(CLOUD)).at(END, changed(CLOUD, Fallback, Normal));
        let story = moved(story, END + MIN, Normal, Fallback);
        moved(story, END + 2 * MIN, Fallback, Reduced)
            .at(END + 2 * MIN, held(CLOUD, END + 12 * MIN, false))
            .rejected(check(), "after 3 counted changes");
    }

    #[test]
    fn a_suppressed_improvement_that_is_lost_is_rejected() {
        held_by_an_improvement()
            .at(END, released(CLOUD))
            .rejected(check(), "stayed at the worse FALLBACK without a hold");
    }

    #[test]
    fn a_suppressed_improvement_that_extends_the_hold_is_rejected() {
        let better =
            held_by_a_worsening().at(5 * MIN, measured(CLOUD, Normal)).at(5 * MIN, suppressed(CLOUD, Reduced, Normal));
        better.accepted(check());
        better.clone().at(5 * MIN, held(CLOUD, 15 * MIN, true)).rejected(check(), "without a worse level");
        better
            .at(15 * MIN, released(CLOUD))
            .at(15 * MIN, changed(CLOUD, Reduced, Normal))
            .rejected(check(), "still held");
    }

    #[test]
    fn an_improvement_in_a_hold_that_is_not_recorded_is_rejected() {
        held_by_a_worsening().at(5 * MIN, measured(CLOUD, Normal)).rejected(check(), "did not record it");
    }

    #[test]
    fn a_worse_level_refused_in_a_hold_is_rejected() {
        held_by_a_worsening().at(5 * MIN, measured(CLOUD, Offline)).rejected(check(), "measured OFFLINE and stayed");
    }

    #[test]
    fn a_worse_level_begins_the_hold_anew_or_is_rejected() {
        let worse = moved(held_by_a_worsening(), 5 * MIN, Reduced, Offline);
        worse.rejected(check(), "did not begin the hold anew");
        worse.clone().at(5 * MIN, held(CLOUD, 15 * MIN, true)).at(15 * MIN, released(CLOUD)).accepted(check());
        worse.at(5 * MIN, held(CLOUD, 15 * MIN, false)).rejected(check(), "restarted=false");
    }

    #[test]
    fn a_window_kept_after_a_hold_is_rejected() {
        let story = held_by_a_worsening().at(END, released(CLOUD));
        moved(story, END + MIN, Reduced, Essential)
            .at(END + MIN, held(CLOUD, END + 11 * MIN, false))
            .rejected(check(), "after 1 counted changes");
    }

    #[test]
    fn at_the_very_end_of_a_hold_an_improvement_is_no_longer_suppressed() {
        held_by_a_worsening()
            .at(END, measured(CLOUD, Normal))
            .at(END, released(CLOUD))
            .at(END, changed(CLOUD, Reduced, Normal))
            .accepted(check());
    }

    #[test]
    fn a_run_in_one_direction_counts_once_where_runs_are_counted() {
        let with = |count| {
            let mut rules = Rules::default();
            rules.flap.count = count;
            let story = moved(Story::with(rules), 1, Normal, Fallback);
            let story = moved(moved(story, 2, Fallback, Reduced), 3, Reduced, Essential);
            moved(story, 4, Essential, Offline)
        };
        with(FlapCount::Runs).accepted(check());
        with(FlapCount::Changes).rejected(check(), "began no hold");
        with(FlapCount::Runs).at(4, held(CLOUD, 4 + 10 * MIN, false)).rejected(check(), "after 1 counted changes");
    }

    #[test]
    fn an_exempt_axis_is_never_held() {
        let mut rules = Rules::default();
        rules.flap.exempt = vec![CLOUD];
        let mut story = Story::with(rules);
        for i in 0..4 {
            story = moved(moved(story, 2 * i, Normal, Fallback), 2 * i + 1, Fallback, Normal);
        }
        story.accepted(check());
        story.at(8, held(CLOUD, 8 + 10 * MIN, false)).rejected(check(), "began a hold");
    }

    #[test]
    fn a_hold_survives_a_restart_and_ends_when_the_engine_is_back_if_its_time_passed() {
        let mut levels = AxisLevels::NORMAL;
        levels.cloud = Reduced;
        let killed = held_by_a_worsening().at(5 * MIN, World::EngineKilled { power_loss: false, point: None });
        killed.clone().at(6 * MIN, started(rules(), levels, true)).at(END, released(CLOUD)).accepted(check());
        killed
            .clone()
            .at(20 * MIN, started(rules(), levels, true))
            .at(20 * MIN + 40, released(CLOUD))
            .accepted(check());
        killed.at(6 * MIN, started(rules(), levels, true)).at(6 * MIN, released(CLOUD)).rejected(check(), "early");
    }

    #[test]
    fn a_journal_of_a_real_machine_may_have_late_timers() {
        let journal = |late| {
            let mut story = Story::journal(rules());
            for (t, was, to) in
                [(1, Normal, Fallback), (2, Fallback, Normal), (3, Normal, Fallback), (4, Fallback, Reduced)]
            {
                story = moved(story, t, was, to);
            }
            story.at(4, held(CLOUD, 4 + 10 * MIN, false)).at(4 + 10 * MIN + late, released(CLOUD))
        };
        journal(7).accepted(check());
        journal(1_001).rejected(check(), "still held");
    }
}
