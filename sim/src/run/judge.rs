//! Reads a history as it is made and comes to a verdict.
//!
//! **Source:** harness.md "A run" and "Histories and checks"; scenario.md "Expectations".

use super::expect::Expecting;
use super::levels::Levels;
use super::metrics::Metrics;
use super::sometimes::Sometimes;
use super::verdict::{Breach, HistoryFacts, Invariant, Judged, Ruling, SCHEMA, Verdict, seconds};
use crate::check::{Judgement, Panel, Violation};
use crate::history::{Entry, Sink};
use crate::scenario::Drill;

/// `"squall 0.1.0"`, or `"squall 0.1.0 abc1234"` in a build that was told its commit (`SQUALL_COMMIT`).
pub fn version() -> String {
    match option_env!("SQUALL_COMMIT") {
        Some(commit) => format!("squall {} {commit}", env!("CARGO_PKG_VERSION")),
        None => format!("squall {}", env!("CARGO_PKG_VERSION")),
    }
}

pub struct Judge {
    panel: Panel,
    levels: Levels,
    metrics: Metrics,
    sometimes: Sometimes,
    expecting: Vec<Expecting>,
    simulated_ms: u64,
}

impl Judge {
    pub fn new(drill: &Drill) -> Judge {
        Judge::with(drill, Panel::default())
    }

    /// With other judges than all of them.
    pub fn with(drill: &Drill, panel: Panel) -> Judge {
        Judge {
            panel,
            levels: Levels::default(),
            metrics: Metrics::new(None),
            sometimes: Sometimes::default(),
            expecting: drill.expects.iter().map(|expect| Expecting::new(expect, drill)).collect(),
            simulated_ms: 0,
        }
    }

    /// The history is over.
    pub fn verdict(self, drill: &Drill, history: HistoryFacts, repro: String) -> Verdict {
        let Judge { panel, levels, metrics, sometimes, expecting, simulated_ms } = self;
        let judgements = panel.finish();
        let expectations: Vec<Judged> =
            expecting.iter().map(|expecting| expecting.judge(&levels, &metrics, &sometimes)).collect();
        let inconclusive = inconclusive(drill, &judgements);
        let broken = expectations.iter().any(|expectation| !expectation.held)
            || judgements.iter().any(|judged| judged.violations.iter().any(|violation| !violation.inconclusive));
        let verdict = match (broken, inconclusive.is_empty()) {
            (true, _) => Ruling::Broken,
            (false, false) => Ruling::Inconclusive,
            (false, true) => Ruling::Held,
        };
        Verdict {
            schema: SCHEMA,
            scenario: drill.file.clone(),
            title: drill.title.clone(),
            seed: drill.seed,
            version: version(),
            verdict,
            inconclusive,
            simulated_s: seconds(simulated_ms),
            history,
            invariants: judgements.into_iter().map(invariant).collect(),
            expectations,
            sometimes: sometimes.counts().clone(),
            metrics: metrics.values(&levels),
            ledger: metrics.ledger(),
            axes: levels.tracks(),
            repro,
        }
    }
}

impl Sink for Judge {
    fn entry(&mut self, entry: &Entry, line: &str) {
        self.simulated_ms = entry.t_ms;
        // The levels first: the others look at them.
        self.levels.entry(entry);
        self.panel.observe(entry);
        self.metrics.entry(entry, &self.levels);
        self.sometimes.entry(entry);
        for expecting in &mut self.expecting {
            expecting.entry(entry, line, &self.levels);
        }
    }
}

/// Why the run is inconclusive, if nothing is broken.
fn inconclusive(drill: &Drill, judgements: &[Judgement]) -> Vec<String> {
    let unshown = |violation: &&Violation| violation.inconclusive;
    let open = judgements.iter().flat_map(|judged| {
        judged.violations.iter().filter(unshown).map(move |violation| format!("{}: {}", judged.id, violation.what))
    });
    let unseen = drill.require.iter().filter(|id| {
        let judged = judgements.iter().find(|judged| judged.id == id.as_str());
        judged.is_none_or(|judged| judged.judged == 0)
    });
    open.chain(unseen.map(|id| format!("{id} is required and had nothing to judge"))).collect()
}

fn invariant(judgement: Judgement) -> Invariant {
    let Judgement { id, judged, violations, dropped } = judgement;
    let breach = |violation: Violation| Breach {
        at_s: seconds(violation.at_ms),
        what: violation.what,
        events: violation.events,
        fault_line: violation.fault_line,
    };
    Invariant { id: id.to_owned(), judged, violations: violations.into_iter().map(breach).collect(), dropped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;
    use crate::history::{What, World};
    use squall::base::{Rules, Span, WallTime};

    /// Judges `n` times and finds what it is told to.
    struct Fixed(u64, Option<Violation>);
    impl Check for Fixed {
        fn id(&self) -> &'static str {
            "FIXED-1"
        }
        fn observe(&mut self, _: &Entry, _: &mut Vec<Violation>) {}
        fn finish(&mut self, out: &mut Vec<Violation>) {
            out.extend(self.1.take());
        }
        fn judged(&self) -> u64 {
            self.0
        }
    }

    fn verdict(check: Fixed, require: &[&str]) -> Verdict {
        let drill = Drill {
            file: "t.toml".into(),
            title: "t".into(),
            about: String::new(),
            source: vec![],
            assumed: vec![],
            starts_at: WallTime(0),
            duration: Span::ZERO,
            settle: Span::ZERO,
            seed: 1,
            require: require.iter().map(|id| (*id).to_owned()).collect(),
            rules: Rules::default(),
            providers: vec![],
            channels: vec![],
            loads: vec![],
            faults: vec![],
            expects: vec![],
        };
        let mut judge = Judge::with(&drill, Panel::new(vec![Box::new(check)]));
        judge.entry(&Entry { n: 0, t_ms: 2_500, what: What::World(World::RunEnded) }, "{}");
        judge.verdict(&drill, HistoryFacts { events: 1, hash: "h".into() }, "squall run t.toml --seed 1".into())
    }

    #[test]
    fn a_run_without_a_violation_held_and_says_how_long_it_was() {
        let verdict = verdict(Fixed(3, None), &["FIXED-1"]);
        assert_eq!((verdict.verdict, verdict.simulated_s), (Ruling::Held, 2.5));
    }

    #[test]
    fn a_required_invariant_that_saw_nothing_is_inconclusive() {
        let blind = verdict(Fixed(0, None), &["FIXED-1"]);
        assert_eq!(blind.verdict, Ruling::Inconclusive);
        assert_eq!(blind.inconclusive, ["FIXED-1 is required and had nothing to judge"]);
        assert_eq!(verdict(Fixed(3, None), &["DRAIN-9"]).verdict, Ruling::Inconclusive);
        assert_eq!(verdict(Fixed(0, None), &[]).verdict, Ruling::Held);
    }

    #[test]
    fn a_violation_breaks_the_run_unless_it_only_says_that_time_was_too_short() {
        let violation = Violation::new(9, [1], "late");
        assert_eq!(verdict(Fixed(1, Some(violation.clone())), &[]).verdict, Ruling::Broken);
        let unshown = Violation { inconclusive: true, ..violation };
        assert_eq!(verdict(Fixed(1, Some(unshown)), &[]).verdict, Ruling::Inconclusive);
    }

    #[test]
    fn the_keys_of_a_verdict_stand_in_their_order() {
        let json = serde_json::to_string(&verdict(Fixed(1, None), &[])).unwrap();
        assert!(
            json.starts_with(r#"{"schema":1,"scenario":"t.toml","title":"t","seed":1,"version":"squall "#),
            "{json}"
        );
        assert!(json.ends_with(r#""repro":"squall run t.toml --seed 1"}"#), "{json}");
        assert!(json.contains(r#""axes":{"cloud":[],"memory":[],"embedding":[],"cc":[]}"#), "{json}");
    }
}
