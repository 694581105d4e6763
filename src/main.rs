//! `squalld`, the daemon.

use clap::Parser;
use std::process::ExitCode;

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .init();
    let cli = squall::cli::Cli::parse();
    squall::cli::main(cli, &|name| std::env::var(name).ok())
}
