//! One connection, and the pool of those that wait for their next request.

use super::Target;
use crate::base::{MonoTime, Span};
use crate::port::Stream;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;

/// Idle connections kept per target, and for how long: shorter than the keep-alive of the usual front doors, so that
/// mostly we are the one who closes.
const IDLE_MAX: usize = 8;
const IDLE_AGE_MAX: Span = Span::from_secs(50);

/// A connection with its driver task. Dropping it ends the driver, which closes the stream.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
    written: Rc<Cell<u64>>,
}

impl Connection {
    pub(super) async fn open(stream: Box<dyn Stream>) -> hyper::Result<Connection> {
        let written = Rc::new(Cell::new(0));
        let counted = Counted { stream, written: written.clone() };
        let (sender, driver) = http1::handshake(TokioIo::new(counted)).await?;
        let driver = tokio::task::spawn_local(async move {
            // The error is the business of the request it belongs to, which gets it too.
            let _ = driver.await;
        });
        Ok(Connection { sender, driver: driver.abort_handle(), written })
    }

    /// Writes the request and waits for the head of the answer.
    pub(super) async fn send(
        &mut self,
        request: hyper::Request<Full<Bytes>>,
    ) -> hyper::Result<hyper::Response<Incoming>> {
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }

    /// Bytes handed to the network so far.
    pub(super) fn bytes_written(&self) -> u64 {
        self.written.get()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

struct Idle {
    connection: Connection,
    since: MonoTime,
}

impl Idle {
    fn is_usable(&self, now: MonoTime) -> bool {
        !self.connection.sender.is_closed() && now - self.since < IDLE_AGE_MAX
    }
}

/// Where a connection leads. The prefix is no part of it.
type Key = (String, u16, bool);

/// Idle connections, those idle for longest first.
#[derive(Default)]
pub(super) struct Pool {
    idle: BTreeMap<Key, Vec<Idle>>,
}

impl Pool {
    /// The most recently used connection to `target` that is still open, as far as can be told.
    pub(super) fn take(&mut self, target: &Target, now: MonoTime) -> Option<Connection> {
        self.sweep(now);
        let idle = self.idle.get_mut(&key(target))?;
        idle.pop().map(|idle| idle.connection)
    }

    pub(super) fn put(&mut self, target: &Target, connection: Connection, now: MonoTime) {
        self.sweep(now);
        let idle = self.idle.entry(key(target)).or_default();
        if idle.len() >= IDLE_MAX {
            idle.remove(0);
        }
        idle.push(Idle { connection, since: now });
    }

    /// Closes what is too old or was closed by its peer, for every target: a target that is no longer used keeps nothing.
    fn sweep(&mut self, now: MonoTime) {
        self.idle.retain(|_, idle| {
            idle.retain(|idle| idle.is_usable(now));
            !idle.is_empty()
        });
    }
}

fn key(target: &Target) -> Key {
    (target.host.clone(), target.port, target.tls)
}

/// Counts what is written: the only way to know whether a request may have reached its peer.
struct Counted {
    stream: Box<dyn Stream>,
    written: Rc<Cell<u64>>,
}

impl Counted {
    fn count(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &result {
            self.written.set(self.written.get() + *bytes as u64);
        }
        result
    }
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.count(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.count(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
