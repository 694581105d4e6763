//! A run as lanes of text: one per axis, holds under it, one per fault; scaled to the width there is.
//!
//! A cell shows the worst that happened in its stretch of time, so a short outage does not vanish in a long day.

use super::paint::{Paint, Tone};
use crate::run::bands::{Band, Bands};
use crate::run::verdict::{AxisTracks, Moment};
use squall::base::{Axis, Span};
use std::fmt::Write;

/// Narrower than this there is no lane to look at.
const LANE_MIN: usize = 20;
const LABEL_MAX: usize = 30;
/// A mark of the time axis has at least so much room.
const MARK_CELLS: usize = 8;
/// Lengths that people think in, in seconds.
const ROUND_S: [u64; 20] = [
    1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 345_600,
    604_800,
];
/// By severity, best first; no axis has more levels.
const MARKS: [char; 5] = ['·', '▂', '▄', '▆', '█'];

/// The picture, each line ended.
pub fn draw(axes: &AxisTracks, bands: &Bands, width: usize, paint: Paint) -> String {
    let faults: Vec<(String, &Vec<Band>)> = bands
        .faults
        .iter()
        .map(|(line, fault)| (format!("line {line} {} {}", fault.kind, fault.target.join(",")), &fault.bands))
        .collect();
    let longest = faults.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let label = longest.clamp(12, LABEL_MAX);
    let lane = width.saturating_sub(label + 2).max(LANE_MIN);
    let scale = Scale { end_ms: bands.end_ms.max(1), cells: lane };
    let mut out = String::new();
    for axis in Axis::ALL {
        let cells = scale.levels(axis, axes.get(axis));
        row(&mut out, axis.name(), label, &colour(&cells, paint));
        if let Some(holds) = bands.holds.get(&axis) {
            row(&mut out, "  hold", label, &paint.text(Tone::Doubt, &scale.bands(holds, '═')));
        }
    }
    for (name, fault) in &faults {
        row(&mut out, name, label, &paint.text(Tone::Bad, &scale.bands(fault, '▒')));
    }
    row(&mut out, "", label, &scale.axis());
    let key: Vec<String> = Axis::ALL.into_iter().filter_map(|axis| legend(axis, axes.get(axis))).collect();
    if !key.is_empty() {
        row(&mut out, "", label, &paint.text(Tone::Faint, &key.join("   ")));
    }
    out
}

fn row(out: &mut String, name: &str, label: usize, lane: &str) {
    let short: String = name.chars().take(label).collect();
    writeln!(out, "{short:<label$}  {lane}").expect("a String takes every write");
}

/// What the marks of a lane mean; `None` if the axis never left its best level.
fn legend(axis: Axis, track: &[Moment]) -> Option<String> {
    let mut seen: Vec<usize> = track.iter().filter_map(|moment| axis.severity(moment.level)).collect();
    seen.sort_unstable();
    seen.dedup();
    let names: Vec<String> = seen
        .iter()
        .filter(|rank| **rank > 0)
        .map(|rank| format!("{} {}", MARKS[*rank], axis.levels()[*rank]))
        .collect();
    (!names.is_empty()).then(|| format!("{axis}: {}", names.join(" ")))
}

fn colour(cells: &str, paint: Paint) -> String {
    // One escape per stretch of equal cells, not one per cell.
    let mut out = String::new();
    let mut rest = cells;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| c != first).unwrap_or(rest.len());
        let tone = match MARKS.iter().position(|mark| *mark == first) {
            Some(0) => Tone::Faint,
            Some(1 | 2) => Tone::Doubt,
            Some(_) => Tone::Bad,
            None => Tone::Strong,
        };
        out.push_str(&paint.text(tone, &rest[..end]));
        rest = &rest[end..];
    }
    out
}

struct Scale {
    end_ms: u64,
    cells: usize,
}

impl Scale {
    /// The time at which a cell begins.
    fn start(&self, cell: usize) -> u64 {
        (u128::from(self.end_ms) * cell as u128 / self.cells as u128) as u64
    }

    fn levels(&self, axis: Axis, track: &[Moment]) -> String {
        let changes: Vec<(u64, usize)> = track
            .iter()
            .map(|moment| ((moment.at_s * 1_000.0).round() as u64, axis.severity(moment.level).unwrap_or(0)))
            .collect();
        (0..self.cells)
            .map(|cell| {
                let (from, to) = (self.start(cell), self.start(cell + 1));
                let before = changes.iter().rev().find(|(at, _)| *at <= from).map(|(_, rank)| *rank);
                let inside = changes.iter().filter(|(at, _)| from < *at && *at < to).map(|(_, rank)| *rank);
                before.into_iter().chain(inside).max().map_or(' ', |rank| MARKS[rank])
            })
            .collect()
    }

    fn bands(&self, bands: &[Band], mark: char) -> String {
        (0..self.cells)
            .map(|cell| {
                let (from, to) = (self.start(cell), self.start(cell + 1));
                let covered = bands.iter().any(|(start, end)| *start < to.max(from + 1) && *end > from);
                if covered { mark } else { ' ' }
            })
            .collect()
    }

    /// `|0s       |10m       |20m`: a mark at each multiple of a round length, as many as have room.
    fn axis(&self) -> String {
        let per_cell = self.end_ms as f64 / self.cells as f64;
        let fits = |step: &&u64| (**step * 1_000) as f64 / per_cell >= MARK_CELLS as f64;
        let step = ROUND_S.iter().find(fits).unwrap_or(&ROUND_S[ROUND_S.len() - 1]) * 1_000;
        let mut cells = vec![' '; self.cells];
        for at in (0..self.end_ms).step_by(usize::try_from(step).expect("a week in milliseconds fits")) {
            let cell = (at as f64 / per_cell) as usize;
            let label: Vec<char> = format!("|{}", Span::from_ms(at)).chars().collect();
            let room = self.cells - cell;
            let shown = if label.len() <= room { &label[..] } else { &label[..1] };
            cells[cell..cell + shown.len()].copy_from_slice(shown);
        }
        cells.into_iter().collect::<String>().trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use squall::base::Level;

    fn tracks() -> AxisTracks {
        let at = |at_s, level| Moment { at_s, level };
        AxisTracks {
            cloud: vec![at(0.0, Level::Normal), at(25.0, Level::Offline), at(25.5, Level::Normal)],
            memory: vec![at(0.0, Level::Normal)],
            ..AxisTracks::default()
        }
    }

    #[test]
    fn the_worst_of_a_stretch_is_shown_however_short_it_was() {
        let bands = Bands::until(100_000);
        let text = draw(&tracks(), &bands, 34, Paint::new(false, false));
        let cloud = text.lines().next().unwrap();
        assert_eq!(cloud, "cloud         ·····█··············");
        assert!(text.contains("cloud: █ OFFLINE"), "{text}");
    }

    #[test]
    fn a_fault_has_a_lane_of_its_own_under_the_axes() {
        let mut bands = Bands::until(100_000);
        let fault = bands.faults.entry(31).or_default();
        (fault.kind, fault.target, fault.bands) = ("errors".into(), vec!["openai".into()], vec![(50_000, 60_000)]);
        let text = draw(&tracks(), &bands, 43, Paint::new(false, false));
        let lane = text.lines().find(|line| line.starts_with("line 31 errors openai")).unwrap();
        assert_eq!(lane.matches('▒').count(), 2, "{text}");
    }

    #[test]
    fn the_time_axis_has_round_marks_and_cuts_none() {
        let scale = Scale { end_ms: 30_420_000, cells: 75 };
        assert_eq!(scale.axis(), "|0s     |1h      |2h      |3h      |4h      |5h      |6h      |7h      |8h");
        let short = Scale { end_ms: 100_000, cells: 20 };
        assert_eq!(short.axis(), "|0s         |1m");
        assert_eq!(Scale { end_ms: 1, cells: 20 }.axis(), "|0s");
    }

    #[test]
    fn a_narrow_terminal_still_gets_a_lane() {
        let bands = Bands::until(0);
        assert!(draw(&tracks(), &bands, 5, Paint::new(false, false)).lines().count() >= 5);
    }
}
