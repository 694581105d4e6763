//! The engine's HTTP/1.1 client, over the net and clock ports.
//!
//! - Connections are kept alive and reused per target; hyper speaks the protocol, each connection is driven by a task of
//!   the engine's `LocalSet` (hyper-util's pooling client wants `Send` streams, which the single-threaded ports are not).
//! - Every wait has an end: connecting, the answer's first byte, the gap between chunks, the whole. All through
//!   [`Clock::sleep_until`].
//! - A request is written at most once. Only when a reused connection turns out dead before the first byte of the request
//!   left us is it sent again, on a fresh one.
//! - Dropping a future or a stream half way closes its connection at once; only a connection whose answer was read to its
//!   end goes back to the pool.
//!
//! Statuses mean nothing here: a 500 is an answer. Whoever calls maps [`TransportError`] to a provider fault.
//! **Source:** engine.md 3 ("Chain"), simulation.md "hyper over a replaceable transport".

mod connection;
mod error;
mod target;

pub use error::{TransportError, TransportKind};
pub use target::{Target, TargetError};

use crate::base::rules::CallRules;
use crate::base::{MonoTime, Span};
use crate::port::{Clock, Net};
use crate::wire::HttpRequest;
use bytes::Bytes;
use connection::{Connection, Pool};
use error::{connect_kind, hyper_error, timeout_text};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

/// Longest answer body that is taken.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// How long each part of an exchange may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Name lookup, connection and TLS together.
    pub connect: Span,
    /// From the connection being there to the first byte of the answer; its body has at least as long to begin.
    pub first_byte: Span,
    /// Between two pieces of the body.
    pub chunk: Span,
    /// Everything.
    pub total: Span,
    pub body_bytes_max: usize,
}

impl Limits {
    pub fn of(rules: &CallRules, is_streamed: bool) -> Limits {
        Limits {
            connect: rules.connect,
            first_byte: if is_streamed { rules.first_byte_stream } else { rules.first_byte },
            chunk: rules.chunk,
            total: rules.total,
            body_bytes_max: BODY_BYTES_MAX,
        }
    }
}

/// A whole answer. Header names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

/// The client. Cheap to clone; clones share the pool. Must be used inside a `LocalSet`.
#[derive(Clone)]
pub struct Outbound {
    net: Rc<dyn Net>,
    clock: Rc<dyn Clock>,
    pool: Rc<RefCell<Pool>>,
}

/// An answer whose head has come. Dropping it early closes the connection.
pub struct HttpStream {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    outbound: Outbound,
    target: Target,
    limits: Limits,
    body: Incoming,
    /// Gone once the answer has been read to its end or has failed.
    connection: Option<Connection>,
    may_reuse: bool,
    total_at: MonoTime,
    /// The next piece of the body must come before.
    chunk_at: MonoTime,
    received: usize,
}

impl Outbound {
    pub fn new(net: Rc<dyn Net>, clock: Rc<dyn Clock>) -> Outbound {
        Outbound { net, clock, pool: Rc::new(RefCell::new(Pool::default())) }
    }

    /// Sends a request and reads the whole answer.
    pub async fn exchange(
        &self,
        target: &Target,
        request: &HttpRequest,
        limits: &Limits,
    ) -> Result<HttpAnswer, TransportError> {
        let mut stream = self.open(target, request, limits).await?;
        let body = stream.collect().await?;
        Ok(HttpAnswer { status: stream.status, headers: std::mem::take(&mut stream.headers), body: Bytes::from(body) })
    }

    /// Sends a request and waits for the head of the answer.
    pub async fn open(
        &self,
        target: &Target,
        request: &HttpRequest,
        limits: &Limits,
    ) -> Result<HttpStream, TransportError> {
        let total_at = self.clock.mono() + limits.total;
        let reused = self.pool.borrow_mut().take(target, self.clock.mono());
        if let Some(connection) = reused {
            match self.send(connection, target, request, limits, total_at).await {
                // The peer had closed it meanwhile, and nothing of this request has reached anyone.
                Err(TransportError { kind: TransportKind::Reset | TransportKind::Cut, written: false, .. }) => {}
                result => return result,
            }
        }
        let connection = self.connect(target, limits, total_at).await?;
        self.send(connection, target, request, limits, total_at).await
    }

    async fn connect(
        &self,
        target: &Target,
        limits: &Limits,
        total_at: MonoTime,
    ) -> Result<Connection, TransportError> {
        let connect_at = self.clock.mono() + limits.connect;
        let dial = self.net.connect(&target.host, target.port, target.tls);
        let dialled = self.until(connect_at, TransportKind::ConnectTimeout, total_at, dial).await;
        let stream = match dialled {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let text = format!("cannot connect to {}: {error}", target.authority());
                return Err(TransportError { kind: connect_kind(&error, target.tls), written: false, text });
            }
            Err(kind) => {
                let text = format!("cannot connect to {}: {}", target.authority(), timeout_text(kind, limits));
                return Err(TransportError { kind, written: false, text });
            }
        };
        Connection::open(stream).await.map_err(|error| hyper_error(&error, target, false))
    }

    async fn send(
        &self,
        mut connection: Connection,
        target: &Target,
        request: &HttpRequest,
        limits: &Limits,
        total_at: MonoTime,
    ) -> Result<HttpStream, TransportError> {
        let http = http_request(target, request)?;
        let first_byte_at = self.clock.mono() + limits.first_byte;
        let written_before = connection.bytes_written();
        let answered =
            self.until(first_byte_at, TransportKind::FirstByteTimeout, total_at, connection.send(http)).await;
        let written = connection.bytes_written() > written_before;
        let response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(hyper_error(&error, target, written)),
            Err(kind) => {
                let text = format!("no answer from {}: {}", target.authority(), timeout_text(kind, limits));
                return Err(TransportError { kind, written, text });
            }
        };
        let (head, body) = response.into_parts();
        let headers: Vec<(String, String)> = head
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let says_close =
            crate::wire::header(&headers, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        Ok(HttpStream {
            status: head.status.as_u16(),
            headers,
            outbound: self.clone(),
            target: target.clone(),
            limits: *limits,
            body,
            connection: Some(connection),
            may_reuse: !says_close,
            total_at,
            chunk_at: (self.clock.mono() + limits.chunk).max(first_byte_at),
            received: 0,
        })
    }

    /// Waits for `work` until `at`, and in no case beyond `total_at`.
    async fn until<T>(
        &self,
        at: MonoTime,
        kind: TransportKind,
        total_at: MonoTime,
        work: impl Future<Output = T>,
    ) -> Result<T, TransportKind> {
        let (at, kind) = if total_at <= at { (total_at, TransportKind::TotalTimeout) } else { (at, kind) };
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.clock.sleep_until(at) => Err(kind),
        }
    }
}

impl HttpStream {
    /// The rest of the body, whole.
    pub async fn collect(&mut self) -> Result<Vec<u8>, TransportError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.next_chunk().await {
            body.extend_from_slice(&chunk?);
        }
        Ok(body)
    }

    /// The next piece of the body; `None` at its proper end, and for ever after the end or an error.
    pub async fn next_chunk(&mut self) -> Option<Result<Bytes, TransportError>> {
        loop {
            self.connection.as_ref()?;
            if self.outbound.clock.mono() >= self.total_at {
                // A peer that always has something ready would never let the timer speak.
                return Some(Err(self.fail_late(TransportKind::TotalTimeout)));
            }
            let frame =
                self.outbound.until(self.chunk_at, TransportKind::ChunkTimeout, self.total_at, self.body.frame()).await;
            let frame = match frame {
                Ok(frame) => frame,
                Err(kind) => return Some(Err(self.fail_late(kind))),
            };
            match frame {
                None => {
                    self.release();
                    return None;
                }
                Some(Err(error)) => {
                    self.connection = None;
                    return Some(Err(hyper_error(&error, &self.target, true)));
                }
                Some(Ok(frame)) => {
                    let Ok(chunk) = frame.into_data() else { continue }; // Trailers say nothing to us.
                    if chunk.is_empty() {
                        continue;
                    }
                    self.received = self.received.saturating_add(chunk.len());
                    if self.received > self.limits.body_bytes_max {
                        self.connection = None;
                        let text = format!(
                            "{} answered more than {} bytes",
                            self.target.authority(),
                            self.limits.body_bytes_max
                        );
                        return Some(Err(TransportError { kind: TransportKind::TooLarge, written: true, text }));
                    }
                    self.chunk_at = self.outbound.clock.mono() + self.limits.chunk;
                    return Some(Ok(chunk));
                }
            }
        }
    }

    fn fail_late(&mut self, kind: TransportKind) -> TransportError {
        self.connection = None;
        let text = format!("{} stopped answering: {}", self.target.authority(), timeout_text(kind, &self.limits));
        TransportError { kind, written: true, text }
    }

    fn release(&mut self) {
        let connection = self.connection.take();
        if let Some(connection) = connection.filter(|_| self.may_reuse) {
            let now = self.outbound.clock.mono();
            self.outbound.pool.borrow_mut().put(&self.target, connection, now);
        }
    }
}

fn http_request(target: &Target, request: &HttpRequest) -> Result<hyper::Request<Full<Bytes>>, TransportError> {
    let mut http = hyper::Request::builder()
        .method(request.method)
        .uri(format!("{}{}", target.prefix, request.path))
        .header(hyper::header::HOST, target.authority());
    for (name, value) in &request.headers {
        http = http.header(name, value);
    }
    http.body(Full::new(request.body.clone())).map_err(|error| TransportError {
        kind: TransportKind::Unsendable,
        written: false,
        text: format!("cannot send to {}: {error}", target.authority()),
    })
}

#[cfg(test)]
mod tests;
