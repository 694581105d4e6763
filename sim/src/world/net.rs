//! Sockets of simulated hosts: turmoil-net's, each bound to the host it belongs to.
//!
//! turmoil-net finds a socket in the table of the "current" host. Each operation here, dropping included, makes the
//! socket's own host the current one first, so a socket may be used and dropped by any task.

use super::World;
use super::host::Host;
use super::wire::RECV_BUF;
use std::cell::OnceCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil_net::HostId;
use turmoil_net::shim::tokio::net as shim;

/// A listening socket.
pub struct Listener {
    /// Bound at once if the network runs, else by the first `accept`: until then hosts may still be added.
    socket: OnceCell<Owned<shim::TcpListener>>,
    host: Host,
    port: u16,
    real: u16,
}

/// A connected socket.
///
/// turmoil-net opens a closed receive window only for a read of half its buffer or more, so a reader with a small
/// buffer would wait for ever. So a read takes everything there is, and what the reader has no room for waits here.
pub struct TcpStream {
    socket: Owned<shim::TcpStream>,
    /// Taken from the socket, not yet read: `ahead[read..]`.
    ahead: Vec<u8>,
    read: usize,
}

impl Listener {
    pub(super) fn new(host: &Host, port: u16, real: u16) -> Listener {
        let listener = Listener { socket: OnceCell::new(), host: host.clone(), port, real };
        if host.world.0.wire.borrow().is_open() {
            listener.socket();
        }
        listener
    }

    fn socket(&self) -> &Owned<shim::TcpListener> {
        self.socket.get_or_init(|| {
            let id = self.host.id();
            turmoil_net::set_current(id);
            let binding = pin!(shim::TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, self.real))));
            let Poll::Ready(Ok(socket)) = binding.poll(&mut Context::from_waker(Waker::noop())) else {
                panic!("the port {} of {} is taken, though each listener has the next", self.real, self.host.name())
            };
            Owned::new(&self.host.world, id, socket)
        })
    }

    /// The next incoming connection.
    pub async fn accept(&self) -> io::Result<TcpStream> {
        let socket = self.socket();
        let (stream, _) = poll_fn(|cx| socket.enter().poll_accept(cx)).await?;
        Ok(TcpStream::new(Owned::new(&self.host.world, socket.id, stream)))
    }

    pub fn world(&self) -> &World {
        &self.host.world
    }

    /// The port as asked for in `listen` (a free one for port 0), whatever the incarnation.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.host.machine(|machine| machine.closed(self.port, self.real));
    }
}

impl TcpStream {
    pub(super) async fn connect(host: &Host, to: SocketAddr) -> io::Result<TcpStream> {
        let id = host.id();
        // Owned, because giving up closes the half-open socket.
        let mut connecting = Owned::new(&host.world, id, Box::pin(shim::TcpStream::connect(to)));
        let stream = poll_fn(|cx| {
            if host.world.holds_back(cx) {
                return Poll::Pending;
            }
            host.world.touch();
            connecting.enter_mut().as_mut().poll(cx)
        });
        Ok(TcpStream::new(Owned::new(&host.world, id, stream.await?)))
    }

    fn new(socket: Owned<shim::TcpStream>) -> TcpStream {
        TcpStream { socket, ahead: Vec::new(), read: 0 }
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if self.read < self.ahead.len() {
            let len = buf.remaining().min(self.ahead.len() - self.read);
            buf.put_slice(&self.ahead[self.read..][..len]);
            self.read += len;
            return Poll::Ready(Ok(()));
        }
        // Into an initialised buffer: turmoil-net would zero the reader's at every try.
        let scratch = self.socket.world.scratch();
        let mut scratch = scratch.borrow_mut();
        let mut taken = ReadBuf::new(&mut scratch);
        ready!(Pin::new(self.socket.enter_mut()).poll_read(cx, &mut taken))?;
        let taken = taken.filled();
        let (now, later) = taken.split_at(taken.len().min(buf.remaining()));
        buf.put_slice(now);
        self.ahead.clear();
        self.ahead.extend_from_slice(later);
        self.read = 0;
        if taken.len() >= RECV_BUF / 2 {
            self.socket.world.touch(); // The kernel tells the peer that there is room again.
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.socket.world.holds_back(cx) {
            return Poll::Pending;
        }
        let written = ready!(Pin::new(self.socket.enter_mut()).poll_write(cx, buf))?;
        self.socket.world.touch();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.socket.world.holds_back(cx) {
            return Poll::Pending;
        }
        let result = Pin::new(self.socket.enter_mut()).poll_shutdown(cx);
        self.socket.world.touch();
        result
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TcpStream")
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({})", self.port)
    }
}

/// Something in a host's socket table.
struct Owned<T> {
    world: World,
    id: HostId,
    /// Present until it is dropped.
    socket: Option<T>,
}

impl<T> Owned<T> {
    fn new(world: &World, id: HostId, socket: T) -> Owned<T> {
        Owned { world: world.clone(), id, socket: Some(socket) }
    }

    fn enter(&self) -> &T {
        turmoil_net::set_current(self.id);
        self.socket.as_ref().expect("present until it is dropped")
    }

    fn enter_mut(&mut self) -> &mut T {
        turmoil_net::set_current(self.id);
        self.socket.as_mut().expect("present until it is dropped")
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        let socket = self.socket.take();
        if self.world.0.wire.borrow().is_open() {
            turmoil_net::set_current(self.id);
            drop(socket);
            self.world.touch();
        } else {
            // The simulation is over, and with it the table that dropping would look into.
            std::mem::forget(socket);
        }
    }
}
