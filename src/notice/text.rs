//! The words of a notice: one line for each axis or breaker that it is about.
//!
//! **Source:** engine.md 8 (notices), 2.4 (what a level does).

use super::Said;
use crate::base::{Axis, Level, NoticeWhat};

/// What a level means for whoever works with the agent.
fn meaning(level: Level) -> &'static str {
    match level {
        Level::Reduced => "Some background work waits.",
        Level::Essential => "Only the most important background work goes on.",
        Level::Offline => "No cloud model can be reached; all background work waits.",
        Level::FtsOnly => "Memory search finds exact words only.",
        Level::WriteQueued => "New memories are kept and become searchable by meaning later.",
        Level::Down => "Nothing new can be stored.",
        Level::Unavailable => "What needs it waits.",
        Level::RateLimited => "Only sessions that somebody waits for are started.",
        Level::Normal | Level::Fallback | Level::Queued | Level::Throttled => "",
    }
}

pub fn of(said: &[Said]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for axis in axes(said) {
        let own: Vec<&Said> = said.iter().filter(|said| said.part.axis == axis && said.part.entry.is_none()).collect();
        lines.push(about_axis(axis, &own));
    }
    for said in said {
        if let Some(entry) = &said.part.entry {
            let lasted = said.at - said.since;
            lines.push(format!(
                "{entry} keeps failing: it was given up {} times in {lasted} and has not come back.",
                super::TRIPS
            ));
        }
    }
    lines.join("\n")
}

/// Each axis once, in the order in which they are told.
fn axes(said: &[Said]) -> Vec<Axis> {
    let mut axes = Vec::new();
    for said in said.iter().filter(|said| said.part.entry.is_none()) {
        if !axes.contains(&said.part.axis) {
            axes.push(said.part.axis);
        }
    }
    axes
}

/// Where the axis ended up, and what it went through since the first change.
fn about_axis(axis: Axis, own: &[&Said]) -> String {
    let last = own.last().expect("an axis is told because something was said of it");
    let worst = own
        .iter()
        .filter(|said| matches!(said.part.what, NoticeWhat::Level(_)))
        .max_by_key(|said| axis.severity(said.level));
    match (last.part.what, worst) {
        (NoticeWhat::Up, None) => format!("{axis} is back at {} after {}.", last.level, last.at - last.since),
        (NoticeWhat::Up, Some(worst)) => {
            let lasted = last.at - worst.since;
            format!("{axis} was {} for {lasted} ({}) and is back at {}.", worst.level, worst.cause, last.level)
        }
        (NoticeWhat::Level(_) | NoticeWhat::Tripping, _) => {
            let line = format!("{axis} is {}: {}. {}", last.level, last.cause, meaning(last.level));
            line.trim_end().to_owned()
        }
    }
}
