//! One run from a drill to what is told and kept of it: simulate, judge, perhaps do it twice and compare, store.
//!
//! **Source:** harness.md "A run".

use super::bands::Bands;
use super::determinism::{Comparison, Difference};
use super::judge::{Judge, version};
use super::one::{RunFacts, simulate};
use super::store::{HistoryFile, Keep, RunDir};
use super::verdict::{Ruling, Timing, Verdict};
use super::{Exit, sweep};
use crate::history::{Entry, Sink};
use crate::scenario::Drill;
use serde::Serialize;
use squall::base::Rules;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Job {
    pub drill: Drill,
    /// The file's text, for whoever does the run again from its folder.
    pub text: String,
    /// `--set` as given: they are part of the run's name.
    pub settings: Vec<(String, String)>,
    /// The first seed of its scenario in this sweep.
    pub first: bool,
    /// Do it twice and compare.
    pub twice: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Done {
    pub verdict: Verdict,
    pub timing: Timing,
    pub bands: Bands,
    /// DETERMINE-1: the second run went another way.
    pub difference: Option<Difference>,
    /// Lines of the history around the violations, by number.
    pub around: BTreeMap<u64, String>,
    /// The run's folder, if it was kept.
    pub kept: Option<PathBuf>,
}

impl Done {
    pub fn exit(&self) -> Exit {
        match (&self.difference, self.verdict.verdict) {
            (Some(_), _) => Exit::NotDeterministic,
            (None, Ruling::Held) => Exit::Held,
            (None, Ruling::Inconclusive) => Exit::Inconclusive,
            (None, Ruling::Broken) => Exit::Broken,
        }
    }
}

/// Why there is no verdict. The run is lost, the sweep goes on.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("panicked: {0}")]
    Panicked(String),
    #[error("failed while {doing}: {source}")]
    Store { doing: &'static str, source: io::Error },
    #[error("the simulation failed: {0}")]
    Simulation(String),
}

/// Lines before and after a violation's own that are shown with it.
const AROUND: u64 = 2;
/// Of one invariant, so many violations are shown with their surroundings.
pub const SHOWN_MAX: usize = 3;

impl Job {
    /// The command that does this run again.
    pub fn repro(&self) -> String {
        let sets: String =
            self.settings.iter().map(|(key, value)| format!(" --set {}", quoted(&format!("{key}={value}")))).collect();
        format!("squall run {} --seed {}{sets}", quoted(&self.drill.file), self.drill.seed)
    }

    pub fn run(&self, keep: &Keep) -> Result<Done, Failure> {
        match sweep::guarded(|| self.unguarded(keep)) {
            Ok(result) => result,
            Err(panic) => Err(Failure::Panicked(panic.0)),
        }
    }

    fn unguarded(&self, keep: &Keep) -> Result<Done, Failure> {
        let dir = keep
            .dir()
            .map(|dir| RunDir::begin(dir, &self.drill.file, self.drill.seed))
            .transpose()
            .map_err(|source| Failure::Store { doing: "making the run's folder", source })?;
        let first = self.once(dir.as_ref())?;
        let difference = if self.twice { self.again(&first, dir.as_ref())? } else { None };
        let Once { verdict, facts, bands, memory: _, wall_s } = first;
        let simulated = verdict.simulated_s;
        let timing = Timing {
            wall_s,
            ratio: (simulated / wall_s).round(),
            exchanges: facts.exchanges,
            exchanges_per_s: (facts.exchanges as f64 / wall_s).round(),
            verified: self.twice,
        };
        let mut done = Done { verdict, timing, bands, difference, around: BTreeMap::new(), kept: None };
        if let Some(dir) = dir {
            let store = |doing| move |source| Failure::Store { doing, source };
            done.around = around(&done.verdict, &dir.history()).map_err(store("reading the history"))?;
            let telling = self.first || done.exit() != Exit::Held;
            if telling || matches!(keep, Keep::All(_)) {
                dir.write("run.json", &self.named()).map_err(store("writing run.json"))?;
                done.kept = Some(dir.keep(&done.verdict, &done.timing).map_err(store("keeping the run's folder"))?);
            } else {
                dir.discard().map_err(store("removing the run's folder"))?;
            }
        }
        Ok(done)
    }

    /// The run itself, judged. Without a folder a run that will be done twice keeps its history in memory.
    fn once(&self, dir: Option<&RunDir>) -> Result<Once, Failure> {
        let store = |source| Failure::Store { doing: "writing the history", source };
        let file = dir.map_or_else(|| Ok(HistoryFile::nowhere()), |dir| HistoryFile::create(&dir.history()));
        let file = Rc::new(RefCell::new(file.map_err(store)?));
        let judge = Rc::new(RefCell::new(Judge::new(&self.drill)));
        let bands = Rc::new(RefCell::new(Bands::default()));
        let memory = Rc::new(RefCell::new(Lines(Vec::new())));
        let mut sinks: Vec<Rc<RefCell<dyn Sink>>> = vec![file.clone(), judge.clone(), bands.clone()];
        if self.twice && dir.is_none() {
            sinks.push(memory.clone());
        }
        let watch = Watch::start();
        let facts = simulate(&self.drill, sinks).map_err(|error| Failure::Simulation(error.to_string()))?;
        let wall_s = watch.seconds();
        let history = file.borrow_mut().finish().map_err(store)?;
        // Nothing but this run held them, and it is over.
        let judge = Rc::into_inner(judge).expect("the run has let go of its sinks").into_inner();
        let verdict = judge.verdict(&self.drill, history, self.repro());
        let memory = std::mem::take(&mut memory.borrow_mut().0);
        Ok(Once { verdict, facts, bands: bands.take(), memory, wall_s })
    }

    fn again(&self, first: &Once, dir: Option<&RunDir>) -> Result<Option<Difference>, Failure> {
        let store = |source| Failure::Store { doing: "reading the first run's history", source };
        match dir {
            Some(dir) => self.compare(BufReader::new(File::open(dir.history()).map_err(store)?)),
            None => self.compare(io::Cursor::new(first.memory.clone())),
        }
    }

    fn compare(&self, first: impl BufRead + 'static) -> Result<Option<Difference>, Failure> {
        let comparison = Rc::new(RefCell::new(Comparison::new(first)));
        simulate(&self.drill, vec![comparison.clone()]).map_err(|error| Failure::Simulation(error.to_string()))?;
        let difference = comparison.borrow_mut().finish();
        Ok(difference)
    }

    fn named(&self) -> Named<'_> {
        let drill = &self.drill;
        let fault = |fault: &crate::scenario::Fault| NamedFault {
            line: fault.line,
            kind: fault.kind_text.clone(),
            target: fault.target_text.clone(),
            at_ms: fault.at.ms(),
            lasts_ms: fault.lasts.ms(),
        };
        Named {
            schema: super::verdict::SCHEMA,
            version: version(),
            history_schema: squall::event::SCHEMA,
            scenario: &drill.file,
            title: &drill.title,
            seed: drill.seed,
            settings: self.settings.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            starts_at_ms: drill.starts_at.0,
            duration_ms: drill.duration.ms(),
            settle_ms: drill.settle.ms(),
            require: &drill.require,
            rules: &drill.rules,
            faults: drill.faults.iter().map(fault).collect(),
            text: &self.text,
        }
    }
}

/// For a shell, in quotes only where it needs them.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=,:+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

struct Once {
    verdict: Verdict,
    facts: RunFacts,
    bands: Bands,
    memory: Vec<u8>,
    wall_s: f64,
}

/// A history kept in memory.
struct Lines(Vec<u8>);

impl Sink for Lines {
    fn entry(&mut self, _entry: &Entry, line: &str) {
        self.0.extend_from_slice(line.as_bytes());
        self.0.push(b'\n');
    }
}

/// `run.json`: everything that names this run, and what the drill came to for its seed.
#[derive(Serialize)]
struct Named<'a> {
    schema: u32,
    version: String,
    history_schema: u32,
    scenario: &'a str,
    title: &'a str,
    seed: u64,
    settings: BTreeMap<String, String>,
    starts_at_ms: i64,
    duration_ms: u64,
    settle_ms: u64,
    require: &'a [String],
    /// The engine's whole configuration.
    rules: &'a Rules,
    /// With the times that were drawn for this seed.
    faults: Vec<NamedFault>,
    /// The scenario file as it was read.
    text: &'a str,
}

#[derive(Serialize)]
struct NamedFault {
    line: u32,
    kind: String,
    target: Vec<String>,
    at_ms: u64,
    lasts_ms: u64,
}

/// The history's lines near the violations that will be shown.
fn around(verdict: &Verdict, history: &Path) -> io::Result<BTreeMap<u64, String>> {
    let wanted: Vec<(u64, u64)> = verdict
        .invariants
        .iter()
        .flat_map(|invariant| invariant.violations.iter().take(SHOWN_MAX))
        .flat_map(|breach| &breach.events)
        .map(|n| (n.saturating_sub(AROUND), n + AROUND))
        .collect();
    let mut lines = BTreeMap::new();
    if wanted.is_empty() {
        return Ok(lines);
    }
    for (n, line) in BufReader::new(File::open(history)?).lines().enumerate() {
        let (n, line) = (n as u64, line?);
        if wanted.iter().any(|(from, to)| *from <= n && n <= *to) {
            lines.insert(n, line);
        }
    }
    Ok(lines)
}

/// The machine's own time, for `timing.json` and the human line only.
pub struct Watch(std::time::Instant);

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "measures how long a simulation takes; nothing inside it sees this")]
    pub fn start() -> Watch {
        Watch(std::time::Instant::now())
    }

    /// Never zero: it is divided by.
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64().max(1e-6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_quotes_what_a_shell_would_take_apart() {
        assert_eq!(quoted("scenarios/smoke/total-outage.toml"), "scenarios/smoke/total-outage.toml");
        assert_eq!(quoted("my drill.toml"), "'my drill.toml'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
