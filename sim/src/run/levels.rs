//! Which level each axis was at, and when: the applied levels of a history.
//!
//! **Units:** simulated milliseconds since the start of the run; windows are `[from, to)`.
//! **Source:** scenario.md "Expectations" (the forms with `axis`), engine.md 2.

use super::verdict::{AxisTracks, Moment, seconds};
use crate::history::{Entry, What};
use squall::base::rules::ChainUse;
use squall::base::{Axis, Level, Rules};
use squall::event::Event;

/// One stretch of an axis at one level; `to` is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub from: u64,
    pub to: u64,
    pub level: Level,
}

#[derive(Debug, Default)]
pub struct Levels {
    tracks: [Vec<(u64, Level)>; 4],
    /// What this deployment calls healthy, once the engine has said what its rules are.
    baseline: Option<[Level; 4]>,
    end: u64,
}

fn place(axis: Axis) -> usize {
    match axis {
        Axis::Cloud => 0,
        Axis::Memory => 1,
        Axis::Embedding => 2,
        Axis::Cc => 3,
    }
}

/// The best level that this axis can have under these rules: with embeddings off, memory stands at FTS_ONLY for good.
fn baseline(axis: Axis, rules: &Rules) -> Level {
    let embeds = rules.chains.iter().any(|chain| chain.use_ == ChainUse::Embedding && !chain.entries.is_empty());
    match axis {
        Axis::Memory if !embeds => Level::FtsOnly,
        Axis::Cloud | Axis::Memory | Axis::Embedding | Axis::Cc => Level::Normal,
    }
}

impl Levels {
    pub fn entry(&mut self, entry: &Entry) {
        self.end = entry.t_ms;
        let What::Engine(event) = &entry.what else { return };
        if let Event::EngineStarted { levels, rules, .. } = event {
            self.baseline = Some(Axis::ALL.map(|axis| baseline(axis, rules)));
            for axis in Axis::ALL {
                self.push(axis, entry.t_ms, levels.get(axis));
            }
        }
        if let Event::AxisChanged { axis, to, .. } = event {
            self.push(*axis, entry.t_ms, *to);
        }
    }

    /// Two changes in the same millisecond are both kept: a sequence of levels must show them.
    fn push(&mut self, axis: Axis, at: u64, level: Level) {
        let track = &mut self.tracks[place(axis)];
        match track.last() {
            Some((_, last)) if *last == level => {}
            // The engine needs a moment to start; what it starts with holds from the beginning.
            None => track.push((0, level)),
            Some(_) => track.push((at, level)),
        }
    }

    /// `None`: the engine never said.
    pub fn at(&self, axis: Axis, t: u64) -> Option<Level> {
        self.tracks[place(axis)].iter().take_while(|(from, _)| *from <= t).last().map(|(_, level)| *level)
    }

    /// Whether `level` is what a healthy deployment shows on this axis.
    pub fn is_baseline(&self, axis: Axis, level: Level) -> bool {
        let best = self.baseline.map_or(Level::Normal, |levels| levels[place(axis)]);
        !axis.worse(level, best)
    }

    /// The stretches that overlap the window, in order.
    pub fn within(&self, axis: Axis, (from, to): (u64, u64)) -> Vec<Stretch> {
        let track = &self.tracks[place(axis)];
        let ends = track.iter().skip(1).map(|(at, _)| *at).chain([u64::MAX]);
        track
            .iter()
            .zip(ends)
            .map(|(&(at, level), end)| Stretch { from: at, to: end, level })
            // A stretch of no length lies between two changes in one millisecond.
            .filter(|stretch| stretch.from < to && (stretch.to > from || (stretch.from == from && stretch.to == from)))
            .collect()
    }

    /// Every stretch below the baseline, as (start, end); the end is `None` if the run ended inside it.
    pub fn episodes(&self, axis: Axis) -> Vec<(u64, Option<u64>)> {
        let mut episodes: Vec<(u64, Option<u64>)> = Vec::new();
        let mut open = false;
        for &(at, level) in &self.tracks[place(axis)] {
            match (self.is_baseline(axis, level), open) {
                (false, false) => episodes.push((at, None)),
                (true, true) => episodes.last_mut().expect("an open episode was pushed").1 = Some(at),
                (false, true) | (true, false) => {}
            }
            open = !self.is_baseline(axis, level);
        }
        episodes
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn tracks(&self) -> AxisTracks {
        let mut tracks = AxisTracks::default();
        for axis in Axis::ALL {
            *tracks.get_mut(axis) =
                self.tracks[place(axis)].iter().map(|&(at, level)| Moment { at_s: seconds(at), level }).collect();
        }
        tracks
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use squall::base::AxisLevels;

    pub fn started(t_ms: u64, levels: AxisLevels, rules: Rules) -> Entry {
        let event = Event::EngineStarted {
            schema: 1,
            incarnation: 1,
            resumed: false,
            version: "t".into(),
            levels,
            rules: Box::new(rules),
        };
        Entry { n: 0, t_ms, what: What::Engine(event) }
    }

    pub fn changed(t_ms: u64, axis: Axis, was: Level, to: Level) -> Entry {
        let event = Event::AxisChanged { axis, was, to, measured: to, legacy: 0, cause: "t".into() };
        Entry { n: t_ms, t_ms, what: What::Engine(event) }
    }

    fn a_day_with_one_outage() -> Levels {
        let mut levels = Levels::default();
        levels.entry(&started(5, AxisLevels::NORMAL, Rules::default()));
        levels.entry(&changed(1_000, Axis::Cloud, Level::Normal, Level::Fallback));
        levels.entry(&changed(2_000, Axis::Cloud, Level::Fallback, Level::Reduced));
        levels.entry(&changed(9_000, Axis::Cloud, Level::Reduced, Level::Normal));
        levels
    }

    #[test]
    fn the_level_at_the_very_moment_of_a_change_is_the_new_one() {
        let levels = a_day_with_one_outage();
        assert_eq!(levels.at(Axis::Cloud, 0), Some(Level::Normal));
        assert_eq!(levels.at(Axis::Cloud, 999), Some(Level::Normal));
        assert_eq!(levels.at(Axis::Cloud, 1_000), Some(Level::Fallback));
    }

    #[test]
    fn a_window_shows_what_is_in_force_at_its_start_and_nothing_from_its_end_on() {
        let levels = a_day_with_one_outage();
        let seen = |window| levels.within(Axis::Cloud, window).iter().map(|s| s.level).collect::<Vec<_>>();
        assert_eq!(seen((1_500, 9_000)), [Level::Fallback, Level::Reduced]);
        assert_eq!(seen((1_500, 9_001)), [Level::Fallback, Level::Reduced, Level::Normal]);
        assert_eq!(seen((2_000, 3_000)), [Level::Reduced]);
    }

    #[test]
    fn one_stretch_below_the_baseline_is_one_episode_however_many_levels_it_has() {
        assert_eq!(a_day_with_one_outage().episodes(Axis::Cloud), [(1_000, Some(9_000))]);
    }

    #[test]
    fn memory_without_embeddings_is_at_its_baseline_when_it_is_at_fts_only() {
        let mut levels = Levels::default();
        let start = AxisLevels { memory: Level::FtsOnly, ..AxisLevels::NORMAL };
        levels.entry(&started(0, start, Rules::default()));
        assert_eq!(levels.episodes(Axis::Memory), []);
    }
}
