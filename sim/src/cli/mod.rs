//! The command line of `squall`: its verbs, their options, and what they say where.
//!
//! Results go to stdout, or to the file of `-o`; progress and complaints go to stderr. The environment is read in
//! `main.rs` and handed in as [`Io`].
//! **Source:** harness.md "Commands of `squall`".

pub mod find;
pub mod human;
pub mod lint;
pub mod paint;
pub mod plan;
pub mod run;
pub mod timeline;

use crate::run::Exit;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use paint::{Paint, Tone};
use plan::{Mistakes, Seeds};
use std::io::Write;
use std::path::PathBuf;

/// Outage drills for squall, the resilience engine for LLM agents.
///
/// Each drill runs the production engine in a simulated world with simulated providers, breaks what its scenario file
/// says, and judges the history: hours of outage in seconds, the same to the byte for the same seed.
#[derive(Debug, Parser)]
#[command(name = "squall", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  squall run                                          the smoke drills
  squall run scenarios/incidents --seeds 0..16        real outages, 16 seeds each
  squall run scenarios/smoke/flap-hold.toml --timeline
  squall lint my-drill.toml                           every mistake at once, nothing run

Exit codes: 0 all held, 1 broken, 2 usage or scenario error, 3 inconclusive, 4 not deterministic, 70 internal error.
Of several runs the worst wins: 70, 4, 2, 1, 3, 0.";

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run drills and judge them
    Run(RunArgs),
    /// Check scenario files without running them
    Lint {
        /// Files or folders [default: scenarios]
        paths: Vec<String>,
    },
    /// List scenarios: title, length, faults
    List {
        /// Files or folders [default: scenarios]
        paths: Vec<String>,
    },
    /// Print the JSON Schema of scenario files, for editors
    Schema,
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  squall completions bash > ~/.local/share/bash-completion/completions/squall")]
    Completions { shell: clap_complete::Shell },
    /// Print the manual page (roff)
    #[command(after_help = "Example:\n  squall man | man -l -")]
    Man,
}

const RUN_EXAMPLES: &str = "\
Examples:
  squall run
      Every drill in scenarios/smoke, each with its own seed.
  squall run scenarios/incidents --seeds 0..64 --jobs 4
      Real outages, 64 seeds each, four runs at a time. The results and their order do not depend on --jobs.
  squall run scenarios/smoke/flap-hold.toml --set engine.flap.hold=5m --timeline
      What another setting would have done, with the four axes drawn over time.
  squall run scenarios --format json -o verdicts.jsonl --fail-fast
      One verdict a line, for a machine; stop at the first run that does not hold.

A run is named by its scenario, seed, settings and version, and is the same to the byte everywhere. Some runs are done
twice and compared; --verify-determinism does so with all. The first run of each scenario and all that do not hold are
kept in reports/runs; with --out all are kept.

Exit codes: 0 all held, 1 broken, 2 usage or scenario error, 3 inconclusive, 4 not deterministic, 70 internal error.";

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Scenario files or folders [default: scenarios/smoke]
    pub paths: Vec<String>,
    /// Run each scenario with this seed [default: the file's own]
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub seed: Option<u64>,
    /// Run each scenario with every seed from A up to, but without, B
    #[arg(long, value_name = "A..B", value_parser = range)]
    pub seeds: Option<(u64, u64)>,
    /// So many runs beside each other [default: one per core]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub jobs: Option<usize>,
    /// Change a setting: engine.…, duration or settle; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
    /// What the results look like
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub format: Format,
    /// Write the results to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep the folder of every run in DIR
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Draw the axes, holds and faults of each run over time
    #[arg(long)]
    pub timeline: bool,
    /// Do every run twice and compare, not only a share of them
    #[arg(long)]
    pub verify_determinism: bool,
    /// Stop at the first run that does not hold
    #[arg(long)]
    pub fail_fast: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line per run, and what went wrong
    Human,
    /// One verdict a line, as in verdict.json
    Json,
}

impl RunArgs {
    pub fn seeds(&self) -> Seeds {
        match (self.seed, self.seeds) {
            (Some(seed), _) => Seeds::One(seed),
            (None, Some((from, to))) => Seeds::Range(from, to),
            (None, None) => Seeds::Own,
        }
    }
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let shape = || format!("{text:?} is no range of seeds: write A..B, such as 0..64 (64 is not run)");
    let (from, to) = text.split_once("..").ok_or_else(shape)?;
    let (from, to): (u64, u64) = (from.parse().map_err(|_| shape())?, to.parse().map_err(|_| shape())?);
    if from >= to {
        return Err(format!("{text:?} holds no seed: the end is not run, so it must be above the start"));
    }
    Ok((from, to))
}

fn positive(text: &str) -> Result<usize, String> {
    let number: Option<usize> = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "needs a whole number from 1".into())
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("needs KEY=VALUE, such as engine.flap.hold=5m")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// The surroundings of the process, as `main.rs` found them.
#[derive(Debug)]
pub struct Io {
    /// The working directory.
    pub here: PathBuf,
    /// Columns of the terminal, or what fits a page.
    pub width: usize,
    pub paint: Paint,
    pub stderr_is_terminal: bool,
    /// Colours on stderr.
    pub stderr_paint: Paint,
}

impl Io {
    /// For a file, which has no colours.
    pub fn plain(&self) -> Paint {
        Paint::new(false, true)
    }

    /// A result. Whoever closed stdout does not want it.
    fn say(&mut self, text: &str) {
        let _ = writeln!(std::io::stdout(), "{text}");
    }

    fn complain(&self, text: &str) {
        let _ = writeln!(std::io::stderr(), "{}: {text}", self.stderr_paint.text(Tone::Bad, "squall"));
    }

    fn usage(&mut self, text: &str) -> Exit {
        self.complain(text);
        Exit::Usage
    }

    fn mistakes(&mut self, mistakes: &Mistakes) -> Exit {
        let colour = self.stderr_paint != self.plain();
        for diagnostic in &mistakes.diagnostics {
            let _ = writeln!(std::io::stderr(), "{}", diagnostic.render(colour));
        }
        for other in &mistakes.others {
            self.complain(other);
        }
        Exit::Usage
    }
}

/// Does what the command line says.
pub fn main(cli: Cli, io: &mut Io) -> Exit {
    match cli.verb {
        Verb::Run(args) => run::run(&args, io),
        Verb::Lint { paths } => lint::lint(&paths, io),
        Verb::List { paths } => lint::list(&paths, io),
        Verb::Schema => {
            io.say(crate::scenario::schema::schema_text().trim_end());
            Exit::Held
        }
        Verb::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "squall", &mut std::io::stdout());
            Exit::Held
        }
        Verb::Man => match man(&mut std::io::stdout()) {
            Ok(()) => Exit::Held,
            Err(error) => io.usage(&format!("failed to write the manual page: {error}")),
        },
    }
}

/// The manual page of `squall`, and of each verb after it.
fn man(out: &mut dyn Write) -> std::io::Result<()> {
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(out)?;
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        clap_mangen::Man::new(verb.clone()).render(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_range_of_seeds_leaves_out_its_end_and_must_hold_one() {
        assert_eq!(range("0..64"), Ok((0, 64)));
        for wrong in ["0..0", "5..2", "0-64", "..4", "a..b", "7"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_setting_has_a_key_and_a_value_that_may_hold_an_equals_sign() {
        assert_eq!(setting("engine.flap.hold=5m"), Ok(("engine.flap.hold".into(), "5m".into())));
        assert_eq!(setting("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(setting("engine.flap.hold").is_err());
    }
}
