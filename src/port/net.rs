//! Byte streams to and from other machines. TLS is the adapter's business.

use super::LocalFuture;
use std::io;
use std::rc::Rc;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connected byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

pub trait Net {
    /// Opens a stream. `tls` asks for an encrypted one whose certificate names `host`.
    ///
    /// **Errors:** as the system gives them: `ConnectionRefused`, `NotFound` for an unknown name, and so on. There is no
    /// time-out here: the caller owns the deadline and drops the future.
    fn connect(&self, host: &str, port: u16, tls: bool) -> LocalFuture<'static, io::Result<Box<dyn Stream>>>;
    /// Listens on `addr` (`"127.0.0.1:7878"`).
    fn listen(&self, addr: &str) -> LocalFuture<'static, io::Result<Rc<dyn Listener>>>;
}

pub trait Listener {
    /// The next incoming stream.
    fn accept(&self) -> LocalFuture<'static, io::Result<Box<dyn Stream>>>;
    /// Where it really listens, such as `"127.0.0.1:40123"` after asking for port 0.
    fn local_addr(&self) -> io::Result<String>;
}
