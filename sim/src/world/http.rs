//! Small HTTP/1.1 server and client for simulated hosts, over the simulated network.

use bytes::Bytes;
use squall::base::Span;

/// What a simulated server answers. Whoever makes one has already waited for as long as the answer takes to start.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Body,
}

#[derive(Debug)]
pub enum Body {
    Whole(Bytes),
    /// Chunk after chunk, each after its pause.
    Chunks { chunks: Vec<(Span, Bytes)>, end: End },
    /// Nothing ever comes, not even a status; the connection stays open.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    /// The connection breaks off.
    Cut,
}
