//! The client against a small scripted peer, over in-memory streams and paused time. One file, though long: every case
//! needs the same peer.

use super::*;
use crate::base::WallTime;
use crate::port::{Listener, LocalFuture, Stream};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::UnhandledPanic;
use tokio::task::LocalSet;
use tokio::time::Instant;

/// The paused runtime's time.
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
        WallTime(0)
    }
    #[expect(clippy::disallowed_methods, reason = "this is the clock port of these tests")]
    fn sleep_until(&self, at: MonoTime) -> LocalFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(self.started + Duration::from_millis(at.ms())))
    }
}

/// What the next dial comes to.
enum Dial {
    Peer(Box<dyn FnOnce(DuplexStream) -> LocalFuture<'static, ()>>),
    Fails(io::ErrorKind),
    Hangs,
}

#[derive(Default)]
struct ScriptedNet {
    dials: RefCell<VecDeque<Dial>>,
    dialled: Cell<usize>,
}

impl Net for ScriptedNet {
    fn connect(&self, _: &str, _: u16, _: bool) -> LocalFuture<'static, io::Result<Box<dyn Stream>>> {
        self.dialled.set(self.dialled.get() + 1);
        match self.dials.borrow_mut().pop_front().expect("a dial that the test expects") {
            Dial::Peer(serve) => Box::pin(async move {
                let (ours, theirs) = tokio::io::duplex(64 * 1024);
                tokio::task::spawn_local(serve(theirs));
                Ok(Box::new(ours) as Box<dyn Stream>)
            }),
            Dial::Fails(kind) => Box::pin(async move { Err(io::Error::from(kind)) }),
            Dial::Hangs => Box::pin(std::future::pending()),
        }
    }
    fn listen(&self, _: &str) -> LocalFuture<'static, io::Result<Rc<dyn Listener>>> {
        unreachable!("the client listens to nobody")
    }
}

struct Bench {
    net: Rc<ScriptedNet>,
    clock: Rc<PausedClock>,
    client: Outbound,
}

impl Bench {
    fn peer<F>(&self, serve: impl FnOnce(DuplexStream) -> F + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        self.dial(Dial::Peer(Box::new(|stream| Box::pin(serve(stream)))));
    }

    fn dial(&self, dial: Dial) {
        self.net.dials.borrow_mut().push_back(dial);
    }

    async fn exchange(&self) -> Result<HttpAnswer, TransportError> {
        self.client.exchange(&target(), &request(), &limits(false)).await
    }

    async fn pass(&self, span: Span) {
        self.clock.sleep_until(self.clock.mono() + span).await;
    }

    fn secs(&self) -> f64 {
        Span::from_ms(self.clock.mono().ms()).secs_f64()
    }
}

fn run<F: Future<Output = ()>>(test: impl FnOnce(Rc<Bench>) -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let mut tasks = LocalSet::new();
    // Else a peer's failed assertion would be lost with its task.
    tasks.unhandled_panic(UnhandledPanic::ShutdownRuntime);
    tasks.block_on(&runtime, async {
        let net = Rc::new(ScriptedNet::default());
        let clock = Rc::new(PausedClock { started: PausedClock::now() });
        let client = Outbound::new(net.clone(), clock.clone());
        test(Rc::new(Bench { net, clock, client })).await;
    });
}

fn target() -> Target {
    Target::parse("http://provider:8080/prefix").expect("a base URL")
}

fn request() -> HttpRequest {
    HttpRequest {
        method: "POST",
        path: "/v1/messages".to_owned(),
        headers: vec![("x-api-key".to_owned(), "secret".to_owned())],
        body: Bytes::from_static(b"{\"a\":1}"),
    }
}

fn limits(is_streamed: bool) -> Limits {
    Limits::of(&CallRules::default(), is_streamed)
}

/// The next request's bytes; `None` once the client has closed.
async fn receive(stream: &mut DuplexStream) -> Option<String> {
    let mut got = Vec::new();
    while !got.ends_with(b"{\"a\":1}") {
        let mut chunk = [0; 1024];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(bytes) => got.extend_from_slice(&chunk[..bytes]),
        }
    }
    Some(String::from_utf8(got).expect("text"))
}

async fn say(stream: &mut DuplexStream, text: &str) {
    stream.write_all(text.as_bytes()).await.expect("the client reads");
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Request-Id: 7\r\n\r\nhi";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn a_request_goes_out_whole_and_the_answer_comes_back_whole() {
    run(|bench| async move {
        bench.peer(async |mut stream| {
            let request = receive(&mut stream).await.expect("a request");
            let (head, body) = request.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("POST /prefix/v1/messages HTTP/1.1\r\n"), "{head}");
            assert!(head.contains("\r\nhost: provider:8080"), "{head}");
            assert!(head.contains("\r\nx-api-key: secret"), "{head}");
            assert!(head.contains("\r\ncontent-length: 7"), "{head}");
            assert_eq!(body, "{\"a\":1}");
            say(&mut stream, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\nContent-Length: 2\r\n\r\n{}").await;
        });
        let answer = bench.exchange().await.expect("an answer, whatever its status");
        assert_eq!((answer.status, &answer.body[..]), (429, &b"{}"[..]));
        assert_eq!(crate::wire::header(&answer.headers, "retry-after"), Some("5"));
    });
}

#[test]
fn a_connection_is_used_again_after_an_answer_was_read_to_its_end() {
    run(|bench| async move {
        bench.peer(async |mut stream| {
            while receive(&mut stream).await.is_some() {
                say(&mut stream, OK).await;
            }
        });
        for _ in 0..3 {
            assert_eq!(bench.exchange().await.expect("answered").body, "hi");
            bench.pass(Span::from_secs(40)).await;
        }
        assert_eq!(bench.net.dialled.get(), 1);
    });
}

#[test]
fn a_connection_that_was_idle_for_long_or_said_close_is_not_used_again() {
    run(|bench| async move {
        let closed = Rc::new(Cell::new(0));
        for text in [OK, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", OK] {
            let closed = closed.clone();
            bench.peer(async move |mut stream| {
                receive(&mut stream).await.expect("a request");
                say(&mut stream, text).await;
                assert_eq!(receive(&mut stream).await, None);
                closed.set(closed.get() + 1);
            });
        }
        bench.exchange().await.expect("answered");
        bench.pass(Span::from_secs(50)).await;
        bench.exchange().await.expect("answered over a new one: too old");
        bench.exchange().await.expect("answered over a new one: it said close");
        assert_eq!(bench.net.dialled.get(), 3);
        bench.pass(Span::from_ms(1)).await;
        assert_eq!(closed.get(), 2, "connections that are not kept are closed");
    });
}

#[test]
fn a_reused_connection_that_the_peer_had_closed_is_replaced_unseen() {
    for seen_before in [true, false] {
        run(|bench| async move {
            let parked: Rc<RefCell<Option<DuplexStream>>> = Rc::default();
            let park = parked.clone();
            bench.peer(async move |mut stream| {
                receive(&mut stream).await.expect("a request");
                say(&mut stream, OK).await;
                *park.borrow_mut() = Some(stream);
            });
            bench.peer(async |mut stream| {
                receive(&mut stream).await.expect("the second request");
                say(&mut stream, OK).await;
                receive(&mut stream).await;
            });
            bench.exchange().await.expect("answered");
            bench.pass(Span::from_secs(1)).await;
            drop(parked.borrow_mut().take().expect("the peer's end"));
            if seen_before {
                bench.pass(Span::from_secs(1)).await; // Else our side has had no chance to notice.
            }
            assert_eq!(bench.exchange().await.expect("answered over a new connection").body, "hi");
            assert_eq!(bench.net.dialled.get(), 2);
        });
    }
}

#[test]
fn a_request_that_the_peer_may_have_received_is_not_sent_again() {
    run(|bench| async move {
        bench.peer(async |mut stream| {
            receive(&mut stream).await.expect("a request");
            say(&mut stream, OK).await;
            receive(&mut stream).await.expect("the second request");
        });
        bench.exchange().await.expect("answered");
        let error = bench.exchange().await.expect_err("closed without an answer");
        assert_eq!((error.kind, error.written), (TransportKind::Cut, true), "{error}");
        assert_eq!(bench.net.dialled.get(), 1);
    });
}

#[test]
fn a_dial_that_fails_says_why_and_that_nothing_was_sent() {
    run(|bench| async move {
        let cases = [
            (Dial::Fails(io::ErrorKind::ConnectionRefused), TransportKind::Refused),
            (Dial::Fails(io::ErrorKind::NotFound), TransportKind::Dns),
            (Dial::Fails(io::ErrorKind::ConnectionReset), TransportKind::Reset),
            (Dial::Fails(io::ErrorKind::HostUnreachable), TransportKind::Unreachable),
        ];
        for (dial, kind) in cases {
            bench.dial(dial);
            let error = bench.exchange().await.expect_err("no connection");
            assert_eq!((error.kind, error.written), (kind, false), "{error}");
        }
        assert_eq!(bench.secs(), 0.0);
        bench.dial(Dial::Hangs);
        let error = bench.exchange().await.expect_err("no connection");
        assert_eq!((error.kind, error.written), (TransportKind::ConnectTimeout, false));
        assert_eq!(error.to_string(), "cannot connect to provider:8080: no connection within 5s");
        assert_eq!(bench.secs(), 5.0);
    });
}

#[test]
fn a_peer_that_never_answers_is_left_after_the_first_byte_limit_and_sees_it() {
    for (is_streamed, waits) in [(true, 30.0), (false, 120.0)] {
        run(|bench| async move {
            let closed = Rc::new(Cell::new(false));
            let seen = closed.clone();
            bench.peer(async move |mut stream| {
                receive(&mut stream).await.expect("a request");
                assert_eq!(receive(&mut stream).await, None);
                seen.set(true);
            });
            let opened = bench.client.open(&target(), &request(), &limits(is_streamed)).await;
            let error = opened.err().expect("nothing came");
            assert_eq!((error.kind, error.written), (TransportKind::FirstByteTimeout, true));
            assert_eq!(bench.secs(), waits);
            bench.pass(Span::from_ms(1)).await;
            assert!(closed.get());
        });
    }
}

#[test]
fn a_stream_gives_its_chunks_as_they_come_and_then_ends() {
    run(|bench| async move {
        let clock = bench.clock.clone();
        bench.peer(async move |mut stream| {
            receive(&mut stream).await.expect("a request");
            say(&mut stream, CHUNKED).await;
            for text in ["3\r\none\r\n", "3\r\ntwo\r\n", "0\r\n\r\n"] {
                clock.sleep_until(clock.mono() + Span::from_secs(20)).await;
                say(&mut stream, text).await;
            }
            receive(&mut stream).await;
        });
        let mut stream = bench.client.open(&target(), &request(), &limits(true)).await.expect("a head");
        assert_eq!(bench.secs(), 0.0);
        assert_eq!(stream.next_chunk().await.expect("a chunk").expect("no error"), "one");
        assert_eq!(bench.secs(), 20.0);
        assert_eq!(stream.next_chunk().await.expect("a chunk").expect("no error"), "two");
        assert!(stream.next_chunk().await.is_none());
        assert!(stream.next_chunk().await.is_none(), "and stays ended");
    });
}

#[test]
fn a_gap_or_a_trickle_that_is_too_long_ends_the_answer() {
    for (pause, kind, ends_at) in [(31, TransportKind::ChunkTimeout, 59.0), (29, TransportKind::TotalTimeout, 600.0)] {
        run(|bench| async move {
            let clock = bench.clock.clone();
            bench.peer(async move |mut stream| {
                receive(&mut stream).await.expect("a request");
                say(&mut stream, CHUNKED).await;
                let mut wait = Span::from_secs(29);
                loop {
                    clock.sleep_until(clock.mono() + wait).await;
                    if stream.write_all(b"1\r\nx\r\n").await.is_err() {
                        return;
                    }
                    wait = Span::from_secs(pause);
                }
            });
            let mut stream = bench.client.open(&target(), &request(), &limits(true)).await.expect("a head");
            let error = loop {
                match stream.next_chunk().await.expect("no proper end") {
                    Ok(chunk) => assert_eq!(chunk, "x"),
                    Err(error) => break error,
                }
            };
            assert_eq!((error.kind, error.written), (kind, true), "{error}");
            assert_eq!(bench.secs(), ends_at);
            assert!(stream.next_chunk().await.is_none());
        });
    }
}

#[test]
fn what_breaks_off_is_no_http_or_is_too_long_is_an_error() {
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", 100, "x".repeat(100));
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf".to_owned(), TransportKind::Cut),
        (format!("{CHUNKED}5\r\nhal"), TransportKind::Cut),
        (String::new(), TransportKind::Cut),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(), TransportKind::Malformed),
        (format!("{CHUNKED}zz\r\nhalf"), TransportKind::Malformed),
        (long, TransportKind::TooLarge),
    ];
    for (text, kind) in cases {
        run(|bench| async move {
            bench.peer(async move |mut stream| {
                receive(&mut stream).await.expect("a request");
                say(&mut stream, &text).await;
            });
            let limits = Limits { body_bytes_max: 99, ..limits(false) };
            let error = bench.client.exchange(&target(), &request(), &limits).await.expect_err("no answer");
            assert_eq!((error.kind, error.written), (kind, true), "{error}");
        });
    }
}

#[test]
fn whoever_goes_away_half_way_closes_the_connection_and_spoils_nothing() {
    run(|bench| async move {
        let closed = Rc::new(Cell::new(0));
        for half in ["", CHUNKED, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"] {
            let closed = closed.clone();
            bench.peer(async move |mut stream| {
                receive(&mut stream).await.expect("a request");
                say(&mut stream, half).await;
                assert_eq!(receive(&mut stream).await, None);
                closed.set(closed.get() + 1);
            });
            tokio::select! {
                biased;
                _ = bench.exchange() => panic!("half an answer is none"),
                () = bench.pass(Span::from_secs(3)) => {}
            }
        }
        bench.peer(async |mut stream| {
            while receive(&mut stream).await.is_some() {
                say(&mut stream, OK).await;
            }
        });
        bench.exchange().await.expect("answered");
        bench.exchange().await.expect("answered");
        assert_eq!(closed.get(), 3);
        assert_eq!(bench.net.dialled.get(), 4);
    });
}

#[test]
fn a_key_that_http_cannot_carry_is_never_sent() {
    run(|bench| async move {
        bench.peer(async |mut stream| assert_eq!(receive(&mut stream).await, None));
        let mut bad = request();
        bad.headers[0].1 = "line\r\nend".to_owned();
        let error = bench.client.exchange(&target(), &bad, &limits(false)).await.expect_err("no such header");
        assert_eq!((error.kind, error.written), (TransportKind::Unsendable, false));
    });
}

#[test]
fn a_request_that_the_peer_stops_reading_is_given_up_and_its_connection_closed() {
    run(|bench| async move {
        let received = Rc::new(Cell::new(0));
        let (seen, clock) = (received.clone(), bench.clock.clone());
        bench.peer(async move |mut stream| {
            clock.sleep_until(MonoTime(130_000)).await;
            let mut got = Vec::new();
            stream.read_to_end(&mut got).await.expect("a clean end");
            seen.set(got.len());
        });
        let mut large = request();
        large.body = vec![b'x'; 1 << 20].into(); // More than the stream holds.
        let error = bench.client.exchange(&target(), &large, &limits(false)).await.expect_err("nobody reads");
        assert_eq!((error.kind, error.written), (TransportKind::FirstByteTimeout, true));
        assert_eq!(bench.secs(), 120.0);
        bench.pass(Span::from_secs(20)).await;
        assert_eq!(received.get(), 64 * 1024, "what was on its way, and no more");
    });
}
