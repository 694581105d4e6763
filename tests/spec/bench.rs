//! The production engine on a bench: paused time, a database of its own, and providers that answer by script.
//!
//! Only the ports are doubles. What goes over them is the engine's own HTTP, its own SQL, its own events.

use squall::base::rules::{Api, ChainRule, ChainUse, ProviderRule};
use squall::base::{CallClass, MonoTime, Outcome, Rules, Span, WallTime};
use squall::engine::Engine;
use squall::engine::api::{ChatCall, ChatReply, EngineError};
use squall::event::Event;
use squall::port::{Clock, Disk, Listener, LocalFuture, Net, Notify, Ports, Rng, Stream};
use squall::wire::{ChatRequest, Message, Role};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::LocalSet;
use tokio::time::Instant;

/// What a provider says.
#[derive(Clone)]
pub struct Says {
    status: u16,
    header: String,
    body: String,
    after: Span,
}

impl Says {
    pub fn status(status: u16) -> Says {
        Says::error(status, "an error")
    }

    pub fn error(status: u16, message: &str) -> Says {
        let body = format!(r#"{{"error":{{"message":"{message}","type":"t"}}}}"#);
        Says { status, header: String::new(), body, after: Span::ZERO }
    }

    /// A complete chat answer.
    pub fn hello() -> Says {
        let body = r#"{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}"#;
        Says { body: body.to_owned(), ..Says::status(200) }
    }

    pub fn body(self, body: &str) -> Says {
        Says { body: body.to_owned(), ..self }
    }

    pub fn header(self, name: &str, value: &str) -> Says {
        Says { header: format!("{name}: {value}\r\n"), ..self }
    }

    pub fn after_ms(self, ms: u64) -> Says {
        Says { after: Span::from_ms(ms), ..self }
    }
}

/// A paused runtime's time.
struct PausedClock {
    started: Instant,
}

impl PausedClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock port of these tests")]
    fn now() -> Instant {
        Instant::now()
    }
}

impl Clock for PausedClock {
    fn mono(&self) -> MonoTime {
        MonoTime(u64::try_from((PausedClock::now() - self.started).as_millis()).expect("tests are short"))
    }
    fn wall(&self) -> WallTime {
        WallTime(1_700_000_000_000) + Span::from_ms(self.mono().ms())
    }
    #[expect(clippy::disallowed_methods, reason = "this is the clock port of these tests")]
    fn sleep_until(&self, at: MonoTime) -> LocalFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(self.started + Duration::from_millis(at.ms())))
    }
}

/// Hosts by name. One without a script refuses connections.
struct Hosts {
    says: RefCell<BTreeMap<String, Says>>,
    /// Who was asked when, in order.
    asked: RefCell<Vec<(String, MonoTime)>>,
    clock: Rc<PausedClock>,
}

impl Hosts {
    async fn serve(self: Rc<Self>, host: String, mut stream: DuplexStream) {
        let mut got = Vec::new();
        loop {
            let body_at = loop {
                if let Some(body_at) = body_begins(&got) {
                    break body_at;
                }
                // Closed by the engine: it is done with this connection.
                if !matches!(stream.read_buf(&mut got).await, Ok(1..)) {
                    return;
                }
            };
            got.drain(..body_at);
            self.asked.borrow_mut().push((host.clone(), self.clock.mono()));
            let Some(Says { status, header, body, after }) = self.says.borrow().get(&host).cloned() else { return };
            self.clock.sleep_until(self.clock.mono() + after).await;
            let len = body.len();
            let answer = format!("HTTP/1.1 {status} X\r\n{header}content-length: {len}\r\n\r\n{body}");
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// Where the whole request that `got` begins with ends; `None` while it is not complete.
fn body_begins(got: &[u8]) -> Option<usize> {
    let head_len = got.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&got[..head_len]).to_lowercase();
    let body_len: usize = head.split("content-length: ").nth(1)?.lines().next()?.trim().parse().ok()?;
    (got.len() >= head_len + body_len).then_some(head_len + body_len)
}

/// The hosts as the engine's network.
struct HostsNet(Rc<Hosts>);

impl Net for HostsNet {
    fn connect(&self, host: &str, _: u16, _: bool) -> LocalFuture<'static, io::Result<Box<dyn Stream>>> {
        let (hosts, host) = (self.0.clone(), host.to_owned());
        Box::pin(async move {
            if !hosts.says.borrow().contains_key(&host) {
                hosts.asked.borrow_mut().push((host, hosts.clock.mono()));
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
            }
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            tokio::task::spawn_local(hosts.serve(host, theirs));
            Ok(Box::new(ours) as Box<dyn Stream>)
        })
    }
    fn listen(&self, _: &str) -> LocalFuture<'static, io::Result<Rc<dyn Listener>>> {
        unreachable!("an engine without a server listens to nobody")
    }
}

/// A database in memory, and files that nobody reads.
struct Memory;

impl Disk for Memory {
    fn open(&self) -> Result<rusqlite::Connection, rusqlite::Error> {
        rusqlite::Connection::open_in_memory()
    }
    fn replace(&self, _: &str, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

struct NoJitter;

impl Rng for NoJitter {
    fn unit(&mut self) -> f64 {
        0.0
    }
}

#[derive(Default)]
struct Heard(RefCell<Vec<Event>>);

impl Notify for Heard {
    fn event(&self, _: MonoTime, event: &Event, _: &str) {
        self.0.borrow_mut().push(event.clone());
    }
    fn line(&self, _: &str) -> bool {
        true
    }
}

pub struct Bench {
    pub engine: Engine,
    hosts: Rc<Hosts>,
    heard: Rc<Heard>,
}

/// Runs a test on an engine with these rules; nobody answers until a script says so.
pub fn run(rules: Rules, test: impl AsyncFnOnce(&Bench)) {
    run_on(Rc::new(Memory), rules, test);
}

pub fn run_on(disk: Rc<dyn Disk>, rules: Rules, test: impl AsyncFnOnce(&Bench)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let clock = Rc::new(PausedClock { started: PausedClock::now() });
        let hosts = Rc::new(Hosts { says: RefCell::default(), asked: RefCell::default(), clock: clock.clone() });
        let heard = Rc::new(Heard::default());
        let net = Rc::new(HostsNet(hosts.clone()));
        let ports = Ports { clock, net, disk, rng: Rc::new(RefCell::new(NoJitter)), notify: heard.clone() };
        let engine = Engine::boot(ports, rules, BTreeMap::new()).expect("it boots");
        test(&Bench { engine, hosts, heard }).await;
    });
}

impl Bench {
    pub fn says(&self, host: &str, says: Says) {
        self.hosts.says.borrow_mut().insert(host.to_owned(), says);
    }

    pub async fn chat(&self, class: CallClass, chain: Option<&str>) -> Result<ChatReply, EngineError> {
        let message = Message { role: Role::User, content: "hello?".to_owned() };
        let request =
            ChatRequest { system: None, messages: vec![message], max_tokens: 16, stream: false, temperature: None };
        self.engine.chat(ChatCall { class, chain: chain.map(str::to_owned), queue: false, request }).await
    }

    /// A foreground call to the default chain.
    pub async fn call(&self) -> ChatReply {
        self.chat(CallClass::Foreground, None).await.expect("a legal call")
    }

    /// The same; who answered it, if anybody did.
    pub async fn answered_by(&self) -> Option<String> {
        match self.call().await {
            ChatReply::Done(done) => Some(done.entry.as_str().to_owned()),
            ChatReply::Stream(_)
            | ChatReply::Deferred { .. }
            | ChatReply::Unavailable { .. }
            | ChatReply::Rejected { .. } => None,
        }
    }

    pub async fn pass(&self, span: Span) {
        self.hosts.clock.sleep_until(self.hosts.clock.mono() + span).await;
    }

    pub fn now(&self) -> MonoTime {
        self.hosts.clock.mono()
    }

    /// Whom the engine asked so far, in order.
    pub fn asked(&self) -> Vec<String> {
        self.hosts.asked.borrow().iter().map(|(host, _)| host.clone()).collect()
    }

    pub fn asked_at_ms(&self) -> Vec<u64> {
        self.hosts.asked.borrow().iter().map(|(_, at)| at.ms()).collect()
    }

    /// How often a host was asked.
    pub fn count(&self, host: &str) -> usize {
        self.hosts.asked.borrow().iter().filter(|(asked, _)| asked == host).count()
    }

    /// What came of the attempts at an entry.
    pub fn outcomes(&self, name: &str) -> Vec<Outcome> {
        let heard = self.heard.0.borrow();
        let outcomes = heard.iter().filter_map(|event| {
            let Event::AttemptFinished { entry, outcome, .. } = event else { return None };
            (entry.as_str() == name).then_some(*outcome)
        });
        outcomes.collect()
    }

    /// How many events of that name there were.
    pub fn events(&self, name: &str) -> usize {
        self.heard.0.borrow().iter().filter(|event| event.name() == name).count()
    }

    pub fn trips(&self, entry: &str) -> u32 {
        self.engine.status().breakers[entry].trips
    }

    pub fn phase(&self, entry: &str) -> &'static str {
        self.engine.status().breakers[entry].phase
    }
}

fn provider(name: &str) -> ProviderRule {
    ProviderRule {
        name: name.to_owned(),
        api: Api::Openai,
        base_url: format!("http://{name}:8080"),
        key_env: String::new(),
        models: Vec::new(),
        local: false,
        enabled: true,
        dims: None,
    }
}

/// Remote providers, each a host of its name, in one chat chain in this order.
pub fn chat_rules(names: &[&str]) -> Rules {
    let mut rules = Rules { providers: names.iter().map(|name| provider(name)).collect(), ..Rules::default() };
    add_chain(&mut rules, "default", ChainUse::Chat, names, false);
    rules
}

/// The same beside embeddings that work, so that memory and embedding are NORMAL.
pub fn chat_and_embedding_rules(names: &[&str]) -> Rules {
    let mut rules = chat_rules(names);
    add_local_embedding(&mut rules, &["local"]);
    rules
}

/// Adds local providers in an embedding chain of their own.
pub fn add_local_embedding(rules: &mut Rules, names: &[&str]) {
    rules.providers.extend(names.iter().map(|name| ProviderRule { local: true, ..provider(name) }));
    add_chain(rules, "embedding", ChainUse::Embedding, names, false);
}

pub fn add_chain(rules: &mut Rules, name: &str, use_: ChainUse, entries: &[&str], essential: bool) {
    let entries = entries.iter().map(|entry| (*entry).to_owned()).collect();
    rules.chains.push(ChainRule { name: name.to_owned(), use_, entries, essential });
}
