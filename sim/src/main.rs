//! `squall`: the command. Reads the process's surroundings, and nothing else of the environment anywhere below.

use clap::Parser;
use squall_sim::cli::paint::Paint;
use squall_sim::cli::{self, Cli, Io};
use std::io::IsTerminal;
use std::process::ExitCode;

/// For a page or a log, where nobody says how wide it is.
const WIDTH: usize = 100;

/// A run is thousands of small allocations per simulated minute: the system's allocator costs it a tenth more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn main() -> ExitCode {
    let cli = Cli::parse();
    let no_color = std::env::var("NO_COLOR").is_ok_and(|value| !value.is_empty());
    let out = console::Term::stdout();
    let mut io = Io {
        here: std::env::current_dir().unwrap_or_else(|_| ".".into()),
        width: out.size_checked().map_or(WIDTH, |(_, columns)| usize::from(columns)),
        paint: Paint::new(std::io::stdout().is_terminal(), no_color),
        stderr_is_terminal: std::io::stderr().is_terminal(),
        stderr_paint: Paint::new(std::io::stderr().is_terminal(), no_color),
    };
    ExitCode::from(cli::main(cli, &mut io).code())
}
