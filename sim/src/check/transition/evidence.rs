//! TRANSITION-2: an axis improves only on evidence.
//!
//! A breaker closes after successes in a row, spaced, of trials and of the probe that half-opened it; a park counts as
//! gone after answers in a row. No axis may be measured better than the most generous reading of that allows.

use crate::check::circuits::{Circuits, Follow};
use crate::check::feed::Feed;
use crate::check::setting::{Setting, Start};
use crate::check::{Check, Violation};
use crate::history::{Entry, What};
use crate::model::breaker::Phase;
use squall::base::{Axis, Level};
use squall::event::Event;

#[derive(Default)]
pub struct Evidence {
    setting: Setting,
    feed: Option<Feed>,
    circuits: Option<Circuits>,
    measured: [Option<Level>; 4],
    now: u64,
    /// The best level that the facts allow now, and the best in this instant.
    allowed: [Option<Level>; 4],
    allowed_now: [Option<Level>; 4],
    version: u64,
    /// Improvements measured in this instant.
    better: Vec<(u64, Axis, Level)>,
    judged: u64,
}

impl Check for Evidence {
    fn id(&self) -> &'static str {
        "TRANSITION-2"
    }

    fn observe(&mut self, entry: &Entry, out: &mut Vec<Violation>) {
        if entry.t_ms != self.now {
            self.settle(out);
            self.now = entry.t_ms;
            self.allowed_now = self.allowed;
        }
        if let Some(start) = self.setting.observe(entry) {
            self.start(&start);
            return;
        }
        let What::Engine(event) = &entry.what else { return };
        if let Event::BreakerClosed { .. } = event {
            self.closed(entry.n, event, out);
        }
        let (Some(feed), Some(circuits)) = (&mut self.feed, &mut self.circuits) else { return };
        feed.observe(self.now, event);
        circuits.observe(self.now, event);
        if feed.version != self.version {
            self.refresh();
        }
        if let Event::AxisMeasured { axis, level } = event
            && axis.severity(*level).is_some()
        {
            let before = self.measured[*axis as usize].replace(*level);
            if before.is_some_and(|before| axis.worse(before, *level)) {
                self.better.push((entry.n, *axis, *level));
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

impl Evidence {
    fn start(&mut self, start: &Start) {
        let rules = self.setting.rules().expect("a start brings its rules");
        Feed::started(&mut self.feed, start, rules);
        Circuits::started(&mut self.circuits, Follow::Trials, start, self.now, rules);
        for axis in Axis::ALL {
            let known = self.measured[axis as usize].filter(|_| !start.fresh);
            self.measured[axis as usize] = known.or(Some(start.levels.get(axis)));
        }
        self.refresh();
    }

    fn refresh(&mut self) {
        let Some(feed) = &self.feed else { return };
        self.version = feed.version;
        for axis in Axis::ALL {
            let best = feed.supply.range(axis, self.now).map(|(best, _)| best);
            self.allowed[axis as usize] = best;
            let instant = &mut self.allowed_now[axis as usize];
            *instant = match (*instant, best) {
                (Some(a), Some(b)) => Some(if axis.worse(a, b) { b } else { a }),
                (a, b) => a.or(b),
            };
        }
    }

    fn closed(&mut self, n: u64, event: &Event, out: &mut Vec<Violation>) {
        let Event::BreakerClosed { entry } = event else { return };
        let Some(circuits) = &self.circuits else { return };
        let Some((_, breaker)) = circuits.known(entry) else { return };
        let Phase::HalfOpen { since_ms } = breaker.phase() else { return }; // BREAKER-1 tells it.
        self.judged += 1;
        let (seen, asked) = (breaker.successes(), circuits.rules.successes_to_close);
        let spacing = circuits.rules.success_spacing;
        if seen < asked {
            let what = format!(
                "the breaker of {entry} closed after {seen} successes in a row at least {spacing} apart since it was \
                 half-open at {since_ms} ms, expected {asked}"
            );
            out.push(Violation::new(self.now, [n], what));
        }
    }

    fn settle(&mut self, out: &mut Vec<Violation>) {
        if self.better.is_empty() {
            return;
        }
        self.refresh(); // The passing of time alone may allow a better embedding level.
        for (n, axis, level) in self.better.drain(..) {
            let Some(allowed) = self.allowed_now[axis as usize] else { continue };
            self.judged += 1;
            if axis.worse(allowed, level) {
                let what = format!("axis {axis} measures the better {level}, the evidence so far allows {allowed}");
                out.push(Violation::new(self.now, [n], what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::*;
    use squall::base::Outcome;
    use squall::event::OpenWhy;

    fn check() -> Evidence {
        Evidence::default()
    }

    /// Half-open at 120 s.
    fn half() -> Story {
        Story::new()
            .at(0, opened("alpha", 1, 120_000, OpenWhy::Consecutive))
            .at(0, over(1, 3))
            .at(0, measured(Axis::Cloud, Level::Fallback))
            .at(120_000, half_open("alpha", false))
    }

    fn trial(story: Story, attempt: u64, at_ms: u64) -> Story {
        story.at(at_ms, probed("alpha", attempt)).at(at_ms + 9, probe_ended("alpha", attempt, Outcome::Success))
    }

    #[test]
    fn three_spaced_successes_close_a_breaker() {
        let story = trial(trial(trial(half(), 1, 121_000), 2, 126_000), 3, 131_000);
        story.at(131_009, closed("alpha")).accepted(check());
    }

    #[test]
    fn the_probe_that_half_opened_it_is_the_first_of_three() {
        let story = Story::new()
            .at(0, opened("alpha", 1, 120_000, OpenWhy::Consecutive))
            .at(50_000, probed("alpha", 1))
            .at(50_009, probe_ended("alpha", 1, Outcome::Success))
            .at(50_009, half_open("alpha", true));
        trial(trial(story.clone(), 2, 60_000), 3, 70_000).at(70_009, closed("alpha")).accepted(check());
        trial(story, 2, 60_000).at(60_009, closed("alpha")).rejected(check(), "after 2 successes");
    }

    #[test]
    fn two_successes_or_three_too_close_together_are_rejected() {
        trial(trial(half(), 1, 121_000), 2, 131_000)
            .at(131_009, closed("alpha"))
            .rejected(check(), "after 2 successes");
        let close = trial(trial(trial(half(), 1, 121_000), 2, 126_000), 3, 130_999);
        close.at(131_008, closed("alpha")).rejected(check(), "after 2 successes");
    }

    #[test]
    fn a_success_from_before_the_breaker_opened_proves_nothing() {
        let story = Story::new()
            .at(0, sent("alpha", 1, 1))
            .at(0, opened("alpha", 1, 120_000, OpenWhy::Consecutive))
            .at(120_000, half_open("alpha", false));
        let story = trial(trial(story, 2, 121_000), 3, 131_000);
        story
            .at(141_000, ended("alpha", 1, 1, Outcome::Success))
            .at(141_000, closed("alpha"))
            .rejected(check(), "after 2");
    }

    #[test]
    fn an_improvement_after_two_answers_of_three_is_rejected() {
        let parked = Story::new()
            .at(0, parked("alpha", 90_000, Some(90_000)))
            .at(0, over(1, 1))
            .at(0, measured(Axis::Cloud, Level::Fallback))
            .at(90_000, unparked("alpha"));
        let better = |story: Story, t| story.at(t, over(9, 1)).at(t, measured(Axis::Cloud, Level::Normal));
        let twice = trial(trial(parked, 1, 91_000), 2, 92_000);
        better(twice.clone(), 92_009).rejected(check(), "allows FALLBACK");
        better(trial(twice, 3, 93_000), 93_009).accepted(check());
    }

    #[test]
    fn an_answer_that_fails_begins_the_row_anew() {
        let story = Story::new()
            .at(0, parked("alpha", 90_000, Some(90_000)))
            .at(0, over(1, 1))
            .at(0, measured(Axis::Cloud, Level::Fallback))
            .at(90_000, unparked("alpha"));
        let story = trial(trial(story, 1, 91_000), 2, 92_000);
        let story = story.at(93_000, probed("alpha", 3)).at(93_000, probe_ended("alpha", 3, Outcome::ProviderFault));
        let story = trial(story, 4, 94_000);
        story.at(94_009, measured(Axis::Cloud, Level::Normal)).rejected(check(), "allows FALLBACK");
    }

    #[test]
    fn an_improvement_without_any_fact_is_rejected() {
        half()
            .at(125_000, over(2, 1))
            .at(125_000, measured(Axis::Cloud, Level::Normal))
            .rejected(check(), "allows FALLBACK");
    }
}
