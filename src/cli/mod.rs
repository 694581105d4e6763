//! The command line of `squalld`: what it takes, and which file does it.

mod serve;
mod session;
mod settings;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

/// A resilience engine that keeps an LLM agent's work alive while the things it depends on fail.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:\n  squalld serve --config squall.toml\n  squalld config show --config squall.toml --changed\n  curl localhost:7878/v1/status\n\nExit codes: 0 done, 1 it could not run, 2 wrong command line or configuration."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the HTTP interface until interrupted.
    Serve {
        /// The configuration. Every key has a default but providers and chains.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        sets: Sets,
    },
    /// Look at the configuration without serving.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Work with the budget of Claude Code sessions.
    #[command(subcommand)]
    Session(session::SessionCommand),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print every effective value and where it is from. The output is a configuration file itself.
    Show {
        /// The configuration; without it the defaults are shown.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        #[command(flatten)]
        sets: Sets,
        /// Only what is not left at its default.
        #[arg(long)]
        changed: bool,
        #[arg(long, value_enum, default_value_t = Format::Toml)]
        format: Format,
    },
    /// Say everything that is wrong with a configuration; exit code 2 if anything is.
    Check {
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        sets: Sets,
    },
}

#[derive(Args)]
struct Sets {
    /// Set one key over the file, such as `flap.hold=5m`; again for more.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Toml,
    Json,
}

/// Exit code for a wrong command line or configuration.
const USAGE: u8 = 2;

/// `env`: the process's environment, read in `main` only.
pub fn main(cli: Cli, env: &dyn Fn(&str) -> Option<String>) -> ExitCode {
    let result = match cli.command {
        Command::Session(command) => return session::main(command, env),
        Command::Serve { config, sets } => settings::read(Some(&config), &sets.set, env).map(|it| serve::main(it, env)),
        Command::Config(ConfigCommand::Show { config, sets, changed, format }) => {
            settings::read(config.as_deref(), &sets.set, env).map(|it| settings::show(&it, changed, format))
        }
        Command::Config(ConfigCommand::Check { config, sets }) => {
            settings::read(Some(&config), &sets.set, env).map(|it| settings::checked(&it, &config))
        }
    };
    result.unwrap_or_else(|complaints| {
        eprint!("{complaints}");
        ExitCode::from(USAGE)
    })
}
