//! `squalld serve`: the engine over the machine.

use crate::adapter::clock::{boot_id, boottime};
use crate::adapter::{BootClock, DataDir, OsSeededRng, ProcessNotify, TokioNet};
use crate::base::WallTime;
use crate::config::Config;
use crate::port::{Disk, Ports};
use crate::{daemon, store};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

pub fn main(config: Config, env: &dyn Fn(&str) -> Option<String>) -> ExitCode {
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

fn serve(config: Config, env: &dyn Fn(&str) -> Option<String>) -> Result<(), Box<dyn std::error::Error>> {
    let mut keys = BTreeMap::new();
    for provider in config.rules.providers.iter().filter(|provider| provider.enabled && !provider.key_env.is_empty()) {
        match env(&provider.key_env) {
            Some(key) => {
                keys.insert(provider.name.clone(), key);
            }
            None => eprintln!("squalld: {} is not set: provider {} gets no key", provider.key_env, provider.name),
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
        if terminated().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let local = tokio::task::LocalSet::new();
    let served = runtime.block_on(local.run_until(daemon::run(ports, config.rules, keys, &config.listen, shutdown)));
    Ok(served?)
}

/// Ends at Ctrl-C, and where it exists at the signal that service managers send.
async fn terminated() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut term = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            biased;
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
