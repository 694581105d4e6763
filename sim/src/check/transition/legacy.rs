//! TRANSITION-4: the legacy level is the mapping of the axes, in the trace and in the status file.

use crate::check::setting::Setting;
use crate::check::{Check, Violation};
use crate::history::{Entry, Outside, What};
use crate::model::legacy::legacy;
use squall::base::AxisLevels;
use squall::event::Event;

#[derive(Default)]
pub struct Legacy {
    setting: Setting,
    levels: Option<AxisLevels>,
    now: u64,
    /// Changes of this instant whose number is not the one after that change alone: it may be the one after all.
    open: Vec<(u64, u8, u8)>,
    judged: u64,
}

impl Check for Legacy {
    fn id(&self) -> &'static str {
        "TRANSITION-4"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if entry.t_ms != self.now {
            self.settle(out);
            self.now = entry.t_ms;
        }
        if let Some(start) = self.setting.observe(entry) {
            self.levels = Some(start.levels);
        } else if let What::Engine(Event::AxisChanged { axis, to, legacy: said, .. }) = &entry.what {
            let Some(levels) = &mut self.levels else { return };
            if axis.severity(*to).is_none() {
                return; // TRANSITION-1 tells it.
            }
            levels.set(*axis, *to);
            self.judged += 1;
            let expected = legacy(levels);
            if *said != expected {
                self.open.push((entry.n, *said, expected));
            }
        } else if let What::Outside(Outside::StatusFile { seen }) = &entry.what
            && let (Some(state), Some(said)) = (&seen.state, seen.degradation_level)
        {
            self.judged += 1;
            let expected = legacy(state);
            if said != expected {
                let what = format!("the status file says degradation_level {said}, its own levels give {expected}");
                out.push(Violation::new(entry.t_ms, [entry.n], what));
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<Violation>) {
        self.settle(out);
    }

    fn judged(&self) -> u64 {
        self.judged
    }
}

impl Legacy {
    fn settle(&mut self, out: &mut Vec<Violation>) {
        let Some(levels) = &self.levels else { return };
        for (n, said, expected) in self.open.drain(..) {
            if said != legacy(levels) {
                let what = format!("a transition gives the legacy level {said}, the axes give {expected}");
                out.push(Violation::new(self.now, [n], what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::*;
    use squall::base::{Axis, Level};

    fn change(axis: Axis, to: Level, legacy: u8) -> Event {
        Event::AxisChanged { axis, was: Level::Normal, to, measured: to, legacy, cause: "test".into() }
    }

    #[test]
    fn the_mapping_after_each_change_or_after_all_of_an_instant_is_accepted() {
        Story::new()
            .at(1, change(Axis::Cloud, Level::Reduced, 2))
            .at(2, change(Axis::Embedding, Level::Unavailable, 5))
            .at(2, change(Axis::Memory, Level::FtsOnly, 5))
            .accepted(Legacy::default());
        Story::new()
            .at(2, change(Axis::Memory, Level::FtsOnly, 5))
            .at(2, change(Axis::Embedding, Level::Unavailable, 5))
            .accepted(Legacy::default());
    }

    #[test]
    fn a_number_that_the_axes_do_not_give_is_rejected() {
        Story::new().at(1, change(Axis::Cloud, Level::Offline, 4)).rejected(Legacy::default(), "give 3");
        Story::new()
            .at(1, change(Axis::Embedding, Level::Queued, 5))
            .at(2, change(Axis::Memory, Level::FtsOnly, 4))
            .rejected(Legacy::default(), "give 5");
        Story::new().at(1, change(Axis::Cc, Level::Unavailable, 1)).rejected(Legacy::default(), "give 0");
    }

    #[test]
    fn nothing_is_judged_while_nothing_changes() {
        Story::new().at(5, Event::Tick { caught_up: false }).unjudged(Legacy::default());
    }
}
