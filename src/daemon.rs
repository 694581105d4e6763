//! The daemon: an engine and its HTTP interface, over whichever ports it is given.
//!
//! `squalld` runs this over the machine; the harness runs the same over the simulated world.

use crate::base::Rules;
use crate::engine::{BootError, Engine};
use crate::port::Ports;
use crate::server;
use std::collections::BTreeMap;

/// Boots and serves until `shutdown` resolves or the listener fails. Run inside a `LocalSet`.
///
/// `keys`: the API key of each provider that has one. `listen`: such as `"127.0.0.1:7878"`.
/// **Errors:** an engine that cannot start, or an address that can't be listened on.
pub async fn run(
    ports: Ports,
    rules: Rules,
    keys: BTreeMap<String, String>,
    listen: &str,
    shutdown: impl Future<Output = ()>,
) -> Result<(), BootError> {
    let failed = |source| BootError::Listen { addr: listen.to_owned(), source };
    let net = ports.net.clone();
    let notify = ports.notify.clone();
    let engine = Engine::boot(ports, rules, keys)?;
    let listener = net.listen(listen).await.map_err(failed)?;
    let addr = listener.local_addr().unwrap_or_else(|_| listen.to_owned());
    notify.line(&format!("squalld: listening on {addr}"));
    tokio::select! {
        biased;
        () = shutdown => {
            engine.stop("asked to");
            Ok(())
        }
        served = server::serve(engine.clone(), listener) => {
            engine.stop("the listener failed");
            served.map_err(failed)
        }
    }
}
