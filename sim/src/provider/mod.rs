//! The simulated servers: providers that speak the real HTTP of their API, the channels of outreach, the webhook's receiver.
//!
//! They are written from the APIs' documentation alone and share no code with the engine's own dialects, so that a
//! misreading there is not repeated here. What is wrong with them at a moment they learn from a [`Judge`].
//! Not simulated (a drill that names one is refused): qdrant.
//! **Source:** scenario.md; protocols.md C.1, C.2, C.4, C.5.

pub mod answer;
mod anthropic;
pub mod ask;
mod channel;
mod claude;
pub mod dialect;
#[cfg(test)]
mod dialect_tests;
pub mod format;
pub mod handle;
mod inbox;
pub mod meter;
mod mistral;
mod ollama;
mod openai;
pub mod refusal;
mod runner;
pub mod server;
pub mod vectors;
pub mod waits;
mod webhook;

pub use handle::{Call, CallKind, CutAt, Injected, Judge, Limited, Pace, Verdict, no_faults};
pub use meter::Meter;
pub use refusal::{Hint, Refusal};

use crate::history::Recorder;
use crate::scenario::{Dist, Drill, ServerApi};
use crate::seed::Seed;
use crate::world::World;
use crate::world::http::{Handler, serve};
use channel::Letter;
use claude::ClaudeServer;
use dialect::Dialect;
use inbox::{Inbox, Paper};
use server::{Server, State};
use squall::base::Span;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use webhook::Report;

/// How far a remote server, and one on the same machine or in the next rack, is from the core of the network.
pub const ONE_WAY_REMOTE: Span = Span::from_ms(10);
pub const ONE_WAY_LOCAL: Span = Span::from_ms(1);
/// What the caller's own distance from the core may add.
const ONE_WAY_CALLER: Span = Span::from_ms(5);

/// How many requests the servers have answered; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Exchanges(Rc<Cell<u64>>);

impl Exchanges {
    pub fn total(&self) -> u64 {
        self.0.get()
    }
    pub(crate) fn count(&self) {
        self.0.set(self.0.get() + 1);
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    #[error("line {line}: provider {name:?} speaks {api:?}, for which there is no simulated server")]
    Unsupported { line: u32, name: String, api: ServerApi },
    #[error("the address {url:?} of {name:?} does not name a port or host")]
    Address { name: String, url: String },
    #[error("{name:?} cannot listen on port {port}")]
    Listen {
        name: String,
        port: u16,
        #[source]
        source: Listening,
    },
}

/// An I/O error that can be compared.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}")]
pub struct Listening(pub std::io::ErrorKind);

/// Adds a host for every provider and channel of the drill and starts its server there. Other hosts of the world are
/// best added before: a network that runs takes in only a few more.
///
/// **Errors:** [`ProviderError`]; some of the servers may be running then.
pub fn start(
    world: &World,
    drill: &Drill,
    seed: &Seed,
    judge: &Judge,
    recorder: &Recorder,
) -> Result<Exchanges, ProviderError> {
    let exchanges = Exchanges::default();
    let mut servers = Vec::new();
    let letters = Post { world, drill, seed, judge, recorder, exchanges: &exchanges };
    for provider in &drill.providers {
        if provider.api == ServerApi::ClaudeCode {
            let server = Rc::new(ClaudeServer {
                provider: provider.clone(),
                world: world.clone(),
                judge: judge.clone(),
                exchanges: exchanges.clone(),
                latency: RefCell::new(seed.stream(&format!("provider.{}.latency", provider.name))),
            });
            let handler: Handler = Rc::new(move |request| Box::pin(server.clone().handle(request)));
            servers.push((world.add_host(&provider.name, ONE_WAY_REMOTE), 80, handler));
            continue;
        }
        if provider.api == ServerApi::Webhook {
            // What the engine's settings name instead is another host, and nobody is there.
            let port = port_at(&provider.name, &drill.rules.notify.webhook_url)?;
            let stream = format!("provider.{}.latency", provider.name);
            let handler = letters.inbox(&provider.name, provider.latency, &stream, Report::default());
            servers.push((world.add_host(&provider.name, ONE_WAY_REMOTE), port, handler));
            continue;
        }
        let unsupported =
            || ProviderError::Unsupported { line: provider.line, name: provider.name.clone(), api: provider.api };
        let dialect = Dialect::of(provider.api).ok_or_else(unsupported)?;
        let rule = drill.rules.provider(&provider.name);
        let address = match rule {
            Some(rule) => Address::of(&provider.name, &rule.base_url)?,
            None => Address { port: 80, prefix: String::new() },
        };
        let one_way = if provider.local { ONE_WAY_LOCAL } else { ONE_WAY_REMOTE };
        let server = Rc::new(Server {
            provider: provider.clone(),
            dialect,
            keyed: rule.is_none_or(|rule| !rule.key_env.is_empty()),
            prefix: address.prefix,
            // Two round trips: to open a connection and to send the request.
            grace: (one_way + ONE_WAY_CALLER).scale(4.0),
            starts_at: drill.starts_at,
            world: world.clone(),
            judge: judge.clone(),
            recorder: recorder.clone(),
            exchanges: exchanges.clone(),
            state: RefCell::new(State::new(provider, seed)),
        });
        let handler: Handler = Rc::new(move |request| Box::pin(server.clone().handle(request)));
        servers.push((world.add_host(&provider.name, one_way), address.port, handler));
    }
    for channel in &drill.channels {
        let rule = drill.rules.channels.iter().find(|rule| rule.name == channel.name);
        let port = match rule {
            Some(rule) => Address::of(&channel.name, &rule.url)?.port,
            None => 80,
        };
        let stream = format!("channel.{}.latency", channel.name);
        let handler = letters.inbox(&channel.name, channel.latency, &stream, Letter);
        servers.push((world.add_host(&channel.name, ONE_WAY_REMOTE), port, handler));
    }
    for (host, port, handler) in servers {
        let listener = host.listen(port).map_err(|error| ProviderError::Listen {
            name: host.name().to_string(),
            port,
            source: Listening(error.kind()),
        })?;
        host.start(serve(listener, handler));
    }
    Ok(exchanges)
}

/// What servers of messages are made from.
struct Post<'a> {
    world: &'a World,
    drill: &'a Drill,
    seed: &'a Seed,
    judge: &'a Judge,
    recorder: &'a Recorder,
    exchanges: &'a Exchanges,
}

impl Post<'_> {
    fn inbox(&self, name: &str, latency: Dist, stream: &str, paper: impl Paper + 'static) -> Handler {
        let inbox = Rc::new(Inbox {
            name: name.to_owned(),
            latency,
            stream: RefCell::new(self.seed.stream(stream)),
            paper,
            starts_at: self.drill.starts_at,
            world: self.world.clone(),
            judge: self.judge.clone(),
            recorder: self.recorder.clone(),
            exchanges: self.exchanges.clone(),
        });
        Rc::new(move |request| Box::pin(inbox.clone().handle(request)))
    }
}

/// The port that `url` gives the host of this name; 80 if it is about another one.
fn port_at(name: &str, url: &str) -> Result<u16, ProviderError> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let is_meant = rest.split([':', '/', '?']).next() == Some(name);
    if is_meant { Address::of(name, url).map(|address| address.port) } else { Ok(80) }
}

/// Where a server listens, as its base address says.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    port: u16,
    prefix: String,
}

impl Address {
    fn of(name: &str, url: &str) -> Result<Address, ProviderError> {
        let wrong = || ProviderError::Address { name: name.to_owned(), url: url.to_owned() };
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let usual = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(wrong()),
        };
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = match host.split_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (host, usual),
        };
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Address { port, prefix: path.trim_end_matches('/').to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_listens_where_its_address_says() {
        let of = |url| Address::of("openai", url).unwrap();
        assert_eq!(of("http://openai"), Address { port: 80, prefix: String::new() });
        assert_eq!(of("https://openai/"), Address { port: 443, prefix: String::new() });
        assert_eq!(of("http://openai:8080/api/x"), Address { port: 8080, prefix: "/api/x".into() });
        for url in ["openai:80", "http://", "ftp://openai", "http://openai:port"] {
            assert!(Address::of("openai", url).is_err(), "{url}");
        }
    }
}
