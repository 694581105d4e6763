//! Why there is no answer, told from what the system and hyper say.

use super::{Limits, Target};
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransportKind {
    /// Nobody listens there.
    Refused,
    /// The name is not known.
    Dns,
    /// No way there.
    Unreachable,
    /// No encrypted connection with the host that the name promises.
    Tls,
    /// The connection broke, and not at the end of anything.
    Reset,
    /// The peer closed before the answer was complete.
    Cut,
    ConnectTimeout,
    FirstByteTimeout,
    ChunkTimeout,
    TotalTimeout,
    /// What came is not HTTP.
    Malformed,
    /// The body is longer than is taken.
    TooLarge,
    /// The request holds something that HTTP cannot carry, such as a key with a line end. Never sent.
    Unsendable,
}

/// No answer, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct TransportError {
    pub kind: TransportKind,
    /// Some byte of the request was handed to the network: the peer may have received and executed it.
    pub written: bool,
    /// For people, one line.
    pub text: String,
}

pub(super) fn timeout_text(kind: TransportKind, limits: &Limits) -> String {
    match kind {
        TransportKind::ConnectTimeout => format!("no connection within {}", limits.connect),
        TransportKind::FirstByteTimeout => format!("nothing within {}", limits.first_byte),
        TransportKind::ChunkTimeout => format!("a gap of {}", limits.chunk),
        TransportKind::TotalTimeout => format!("not done within {}", limits.total),
        TransportKind::Refused
        | TransportKind::Dns
        | TransportKind::Unreachable
        | TransportKind::Tls
        | TransportKind::Reset
        | TransportKind::Cut
        | TransportKind::Malformed
        | TransportKind::TooLarge
        | TransportKind::Unsendable => unreachable!("NET-1: {kind:?} is no time-out"),
    }
}

pub(super) fn connect_kind(error: &io::Error, tls: bool) -> TransportKind {
    let is = |kinds: &[io::ErrorKind]| kinds.contains(&error.kind());
    if is(&[io::ErrorKind::ConnectionRefused]) {
        TransportKind::Refused
    } else if is(&[io::ErrorKind::NotFound]) {
        TransportKind::Dns
    } else if is_reset(error) {
        TransportKind::Reset
    } else if is(&[io::ErrorKind::TimedOut]) {
        TransportKind::ConnectTimeout
    } else if tls && is(&[io::ErrorKind::InvalidData, io::ErrorKind::InvalidInput]) {
        TransportKind::Tls
    } else {
        TransportKind::Unreachable
    }
}

fn is_reset(error: &io::Error) -> bool {
    [
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionAborted,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::NotConnected,
    ]
    .contains(&error.kind())
}

pub(super) fn hyper_error(error: &hyper::Error, target: &Target, written: bool) -> TransportError {
    let source = std::error::Error::source(error);
    let io_error = source.and_then(|source| source.downcast_ref::<io::Error>());
    let kind = if error.is_parse() {
        TransportKind::Malformed
    } else if error.is_incomplete_message() || io_error.is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof) {
        TransportKind::Cut
    } else if io_error.is_some_and(|io| {
        // A chunk length that is no number, or broken TLS.
        matches!(io.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)
    }) {
        TransportKind::Malformed
    } else {
        TransportKind::Reset // Also: closed before the request was taken.
    };
    let text = match source {
        Some(source) => format!("exchange with {} failed: {error}: {source}", target.authority()),
        None => format!("exchange with {} failed: {error}", target.authority()),
    };
    TransportError { kind, written, text }
}
