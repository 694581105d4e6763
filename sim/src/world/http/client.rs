//! The client.

use super::headers;
use crate::world::Host;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use squall::base::Span;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl Response {
    /// The first value of the header `name` (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// Why there is no whole response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("no connection: {kind:?}")]
    Connect { kind: io::ErrorKind },
    #[error("the connection broke off before a status")]
    NoStatus,
    /// `body` is what came of it.
    #[error("the connection broke off within the body of a {status}")]
    Cut { status: u16, headers: Vec<(String, String)>, body: Bytes },
    /// `status`: whether one had come by then.
    #[error("no whole response within {limit}")]
    TimedOut { limit: Span, status: Option<u16> },
}

/// Calls one port of one host over one keep-alive connection, which it opens again when it has gone. Clones share it;
/// calls at the same time get connections of their own, of which the last to finish is kept.
#[derive(Clone)]
pub struct Client {
    target: Rc<Target>,
    idle: Rc<RefCell<Option<SendRequest<Full<Bytes>>>>>,
    limit: Option<Span>,
}

struct Target {
    from: Host,
    to: String,
    port: u16,
}

impl Client {
    /// Calls from `from` to `port` of the host named `to`.
    pub fn new(from: &Host, to: &str, port: u16) -> Client {
        let target = Target { from: from.clone(), to: to.to_owned(), port };
        Client { target: Rc::new(target), idle: Rc::default(), limit: None }
    }

    /// A client of the same kind with a connection of its own.
    pub fn fresh(&self) -> Client {
        Client { target: self.target.clone(), idle: Rc::default(), limit: self.limit }
    }

    /// The longest a call may take, from connecting to the last byte of the body. Default: for ever.
    pub fn with_limit(self, limit: Span) -> Client {
        Client { limit: Some(limit), ..self }
    }

    /// Sends a request and reads the response to its end. `host` and `content-length` are added.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Response, ClientError> {
        let mut request = hyper::Request::builder().method(method).uri(path).header("host", &self.target.to);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).expect("simulated clients make valid requests");
        let status = Cell::new(None);
        let exchange = self.exchange(request, &status);
        match self.limit {
            None => exchange.await,
            Some(limit) => match self.target.from.world().timeout(limit, exchange).await {
                Some(result) => result,
                None => Err(ClientError::TimedOut { limit, status: status.get() }),
            },
        }
    }

    async fn exchange(
        &self,
        request: hyper::Request<Full<Bytes>>,
        status: &Cell<Option<u16>>,
    ) -> Result<Response, ClientError> {
        let mut connection = self.connection().await?;
        let response = match connection.try_send_request(request).await {
            Ok(response) => response,
            // hyper gives the request back if nothing of it was written: the kept connection had just gone.
            Err(mut failed) => match failed.take_message() {
                Some(request) => {
                    connection = self.connect().await?;
                    connection.send_request(request).await.map_err(|_| ClientError::NoStatus)?
                }
                None => return Err(ClientError::NoStatus),
            },
        };
        status.set(Some(response.status().as_u16()));
        let response = read(response).await?;
        *self.idle.borrow_mut() = Some(connection);
        Ok(response)
    }

    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        let idle = self.idle.borrow_mut().take();
        if let Some(mut kept) = idle
            && kept.ready().await.is_ok()
        {
            return Ok(kept);
        }
        self.connect().await
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        let Target { from, to, port } = &*self.target;
        let stream = from.connect(to, *port).await.map_err(|error| ClientError::Connect { kind: error.kind() })?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| ClientError::NoStatus)?;
        from.world().spawn(async move {
            // Its end is seen by whoever waits for the response.
            let _ = connection.await;
        });
        Ok(sender)
    }
}

async fn read(response: hyper::Response<Incoming>) -> Result<Response, ClientError> {
    let (head, mut incoming) = response.into_parts();
    let (status, headers) = (head.status.as_u16(), headers(&head.headers));
    let mut first = Bytes::new();
    let mut body = BytesMut::new();
    while let Some(frame) = incoming.frame().await {
        let Ok(frame) = frame else {
            body.extend_from_slice(&first);
            return Err(ClientError::Cut { status, headers, body: body.freeze() });
        };
        if let Ok(data) = frame.into_data() {
            if first.is_empty() && body.is_empty() {
                first = data; // Most bodies are one piece: no copy.
            } else {
                body.extend_from_slice(&std::mem::take(&mut first));
                body.extend_from_slice(&data);
            }
        }
    }
    let body = if body.is_empty() { first } else { body.freeze() };
    Ok(Response { status, headers, body })
}
