//! The command line of `squalld`.

use crate::adapter::clock::{boot_id, boottime};
use crate::adapter::{BootClock, DataDir, OsSeededRng, ProcessNotify, TokioNet};
use crate::base::WallTime;
use crate::config::{self, Config};
use crate::port::{Disk, Ports};
use crate::{daemon, store};
use clap::{Parser, Subcommand};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

/// A resilience engine that keeps an LLM agent's work alive while the things it depends on fail.
#[derive(Parser)]
#[command(version, after_help = "Example:\n  squalld serve --config squall.toml\n  curl localhost:7878/v1/status")]
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
    },
}

/// Exit code for a wrong command line or configuration.
const USAGE: u8 = 2;

/// `env`: the process's environment, read in `main` only.
pub fn main(cli: Cli, env: &dyn Fn(&str) -> Option<String>) -> ExitCode {
    let Command::Serve { config } = cli.command;
    let file = config.display().to_string();
    let text = match std::fs::read_to_string(&config) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("squalld: {file} cannot be read: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let config = match config::load(&text, &file) {
        Ok(config) => config,
        Err(diagnostics) => {
            for diagnostic in &diagnostics {
                eprintln!("{}", diagnostic.render(false));
            }
            return ExitCode::from(USAGE);
        }
    };
    match serve(config, env) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("squalld: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn serve(mut config: Config, env: &dyn Fn(&str) -> Option<String>) -> Result<(), Box<dyn std::error::Error>> {
    let mut keys = BTreeMap::new();
    for provider in &config.rules.providers {
        if provider.key_env.is_empty() {
            continue;
        }
        match env(&provider.key_env) {
            Some(key) => {
                keys.insert(provider.name.clone(), key);
            }
            None => eprintln!("squalld: {} is not set: provider {} gets no key", provider.key_env, provider.name),
        }
    }
    for name in ["SQUALL_DEGRADED_ADVISORY", "CPERSONA_DEGRADED_ADVISORY"] {
        if let Some(value) = env(name) {
            match crate::advisory::switch::parse(&value) {
                Ok(enabled) => config.rules.advisory.enabled = enabled,
                Err(error) => eprintln!("squalld: {name}: {error}"),
            }
            break;
        }
    }
    let disk = DataDir::take(&PathBuf::from(&config.data_dir))?;
    let wall = WallTime(jiff::Timestamp::now().as_millisecond());
    let mut conn = disk.open()?;
    let base = store::clock::resume(&mut conn, &boot_id()?, boottime().ms(), wall)?;
    drop(conn);
    let ports = Ports {
        clock: Rc::new(BootClock::starting_at(base)),
        net: Rc::new(TokioNet::default()),
        disk: Rc::new(disk),
        rng: Rc::new(RefCell::new(OsSeededRng::new()?)),
        notify: Rc::new(ProcessNotify),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shutdown = async {
        // Without a signal handler there is no graceful end: wait for the hard one.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let local = tokio::task::LocalSet::new();
    let served = runtime.block_on(local.run_until(daemon::run(ports, config.rules, keys, &config.listen, shutdown)));
    Ok(served?)
}
