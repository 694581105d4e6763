//! A run told to a person: one line, and for one that did not hold the rule, the moment, the events around it and the
//! command that does it again.

use super::paint::{Paint, Tone};
use crate::run::job::SHOWN_MAX;
use crate::run::verdict::{Breach, Ruling};
use crate::run::{Done, Exit};
use squall::base::Span;
use std::fmt::Write;

/// A longer line of the history is cut.
const EVENT_CHARS_MAX: usize = 150;

/// The line, and what belongs under it.
pub fn run(done: &Done, paint: Paint) -> String {
    let mut out = line(done, paint);
    out.push('\n');
    if done.exit() != Exit::Held {
        under(&mut out, done, paint).expect("a String takes every write");
    }
    out
}

fn line(done: &Done, paint: Paint) -> String {
    let verdict = &done.verdict;
    let (mark, tone) = match (&done.difference, verdict.verdict) {
        (Some(_), _) => ("≠", Tone::Bad),
        (None, Ruling::Held) => ("✓", Tone::Good),
        (None, Ruling::Inconclusive) => ("?", Tone::Doubt),
        (None, Ruling::Broken) => ("✗", Tone::Bad),
    };
    let simulated = Span::from_ms((verdict.simulated_s * 1_000.0).round() as u64);
    let timing = &done.timing;
    let invariants = verdict.invariants.iter().filter(|invariant| invariant.judged > 0).count();
    let judged: u64 = verdict.invariants.iter().map(|invariant| invariant.judged).sum();
    let held = verdict.expectations.iter().filter(|expectation| expectation.held).count();
    let twice = if timing.verified { ", run twice" } else { "" };
    let facts = format!(
        "seed {}  {simulated} in {:.2} s ({}x, {} exchanges/s{twice})  {invariants} invariants judged {} times, \
         {held} of {} expectations",
        verdict.seed,
        timing.wall_s,
        grouped(timing.ratio as u64),
        grouped(timing.exchanges_per_s as u64),
        grouped(judged),
        verdict.expectations.len(),
    );
    format!(
        "{} {}  {}",
        paint.text(tone, mark),
        paint.text(Tone::Strong, &verdict.title),
        paint.text(Tone::Faint, &facts)
    )
}

/// `1234567` -> `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn under(out: &mut String, done: &Done, paint: Paint) -> std::fmt::Result {
    let verdict = &done.verdict;
    for invariant in verdict.invariants.iter().filter(|invariant| !invariant.violations.is_empty()) {
        for breach in invariant.violations.iter().take(SHOWN_MAX) {
            let fault = breach.fault_line.map_or(String::new(), |line| format!("  (fault at line {line})"));
            let rule = paint.text(Tone::Bad, &invariant.id);
            writeln!(out, "    {rule} at {} s: {}{fault}", breach.at_s, breach.what)?;
            events(out, done, breach, paint)?;
        }
        let more = invariant.violations.len().saturating_sub(SHOWN_MAX) as u64 + invariant.dropped;
        if more > 0 {
            writeln!(out, "    {} more of {}", grouped(more), invariant.id)?;
        }
    }
    for expectation in verdict.expectations.iter().filter(|expectation| !expectation.held) {
        let line = paint.text(Tone::Bad, &format!("line {}", expectation.line));
        writeln!(out, "    {line}: {}; seen: {}", expectation.text, expectation.seen)?;
    }
    for why in &verdict.inconclusive {
        writeln!(out, "    {}: {why}", paint.text(Tone::Doubt, "inconclusive"))?;
    }
    if let Some(difference) = &done.difference {
        writeln!(out, "    {}: {difference}", paint.text(Tone::Bad, "DETERMINE-1"))?;
    }
    writeln!(out, "    again: {}", paint.text(Tone::Strong, &verdict.repro))?;
    if let Some(kept) = &done.kept {
        writeln!(out, "    kept:  {}", kept.display())?;
    }
    Ok(())
}

/// The events that show a violation, marked, and those next to them.
fn events(out: &mut String, done: &Done, breach: &Breach, paint: Paint) -> std::fmt::Result {
    let near = |n: u64| breach.events.iter().any(|own| own.abs_diff(n) <= 2);
    let mut last: Option<u64> = None;
    for (n, line) in done.around.iter().filter(|(n, _)| near(**n)) {
        if last.is_some_and(|last| last + 1 < *n) {
            writeln!(out, "        …")?;
        }
        last = Some(*n);
        let short: String = line.chars().take(EVENT_CHARS_MAX).collect();
        let cut = if short.len() < line.len() { "…" } else { "" };
        match breach.events.contains(n) {
            true => writeln!(out, "      > {}{cut}", paint.text(Tone::Strong, &short))?,
            false => writeln!(out, "        {}{cut}", paint.text(Tone::Faint, &short))?,
        }
    }
    Ok(())
}

/// One line for the whole sweep.
pub fn summary(runs: usize, exits: &[Exit], wall_s: f64, paint: Paint) -> String {
    let count = |exit: Exit| exits.iter().filter(|other| **other == exit).count();
    let mut parts = vec![paint.text(Tone::Good, &format!("{} held", count(Exit::Held)))];
    for (exit, word, tone) in [
        (Exit::Broken, "broken", Tone::Bad),
        (Exit::Inconclusive, "inconclusive", Tone::Doubt),
        (Exit::NotDeterministic, "not deterministic", Tone::Bad),
        (Exit::Internal, "internal errors", Tone::Bad),
    ] {
        if count(exit) > 0 {
            parts.push(paint.text(tone, &format!("{} {word}", count(exit))));
        }
    }
    let skipped = runs - exits.len();
    if skipped > 0 {
        parts.push(format!("{skipped} not run"));
    }
    format!("{runs} runs in {wall_s:.1} s: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::bands::Bands;
    use crate::run::verdict::{AxisTracks, HistoryFacts, Invariant, SCHEMA};
    use crate::run::{Timing, Verdict};

    fn done(violations: Vec<Breach>) -> Done {
        let ruling = if violations.is_empty() { Ruling::Held } else { Ruling::Broken };
        let invariant = Invariant { id: "DRAIN-1".into(), judged: 1_234, violations, dropped: 0 };
        let verdict = Verdict {
            schema: SCHEMA,
            scenario: "t.toml".into(),
            title: "A drill".into(),
            seed: 7,
            version: "squall".into(),
            verdict: ruling,
            inconclusive: vec![],
            simulated_s: 2_400.0,
            history: HistoryFacts { events: 3, hash: "h".into() },
            invariants: vec![invariant],
            expectations: vec![],
            sometimes: Default::default(),
            metrics: Default::default(),
            ledger: Default::default(),
            axes: AxisTracks::default(),
            repro: "squall run t.toml --seed 7".into(),
        };
        let timing = Timing { wall_s: 0.25, ratio: 9_600.0, exchanges: 500, exchanges_per_s: 2_000.0, verified: false };
        let around = (0..9).map(|n| (n, format!("{{\"n\":{n}}}"))).collect();
        Done { verdict, timing, bands: Bands::default(), difference: None, around, kept: None }
    }

    #[test]
    fn a_run_that_held_is_one_line() {
        let text = run(&done(vec![]), Paint::new(false, false));
        assert_eq!(
            text,
            "✓ A drill  seed 7  40m in 0.25 s (9,600x, 2,000 exchanges/s)  1 invariants judged 1,234 times, \
             0 of 0 expectations\n"
        );
    }

    #[test]
    fn a_broken_run_shows_rule_moment_events_and_the_command() {
        let breach = Breach { at_s: 812.4, what: "2 before 1".into(), events: vec![4], fault_line: Some(31) };
        let text = run(&done(vec![breach]), Paint::new(false, false));
        assert!(text.contains("DRAIN-1 at 812.4 s: 2 before 1  (fault at line 31)"), "{text}");
        assert!(text.contains("      > {\"n\":4}") && text.contains("        {\"n\":2}"), "{text}");
        assert!(!text.contains("{\"n\":1}") && !text.contains("{\"n\":7}"), "{text}");
        assert!(text.contains("again: squall run t.toml --seed 7"), "{text}");
    }

    #[test]
    fn the_summary_names_only_what_there_was() {
        let paint = Paint::new(false, false);
        assert_eq!(summary(2, &[Exit::Held, Exit::Held], 1.0, paint), "2 runs in 1.0 s: 2 held");
        let mixed = summary(3, &[Exit::Held, Exit::Broken], 1.0, paint);
        assert_eq!(mixed, "3 runs in 1.0 s: 1 held, 1 broken, 1 not run");
    }
}
