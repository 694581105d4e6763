//! Small HTTP/1.1 server and client for simulated hosts, over the simulated network.
//!
//! Both are hyper's: real bytes, keep-alive, chunked bodies, connections that break off.

pub mod client;
pub mod serve;

pub use client::{Client, ClientError, Response};
pub use serve::{Handler, Request, serve};

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
    Chunks {
        chunks: Vec<(Span, Bytes)>,
        end: End,
    },
    /// Nothing ever comes, not even a status; the connection stays open.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Complete,
    /// The connection breaks off.
    Cut,
}

fn headers(map: &hyper::HeaderMap) -> Vec<(String, String)> {
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    map.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}
