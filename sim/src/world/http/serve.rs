//! The server.

use super::{Body, End, Reply, headers};
use crate::world::net::Listener;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body as HyperBody, Frame, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use squall::port::LocalFuture;
use std::collections::VecDeque;
use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// With the query, as sent.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl Request {
    /// The first value of the header `name` (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// Answers a request; dropped when the client goes before the answer has started.
pub type Handler = Rc<dyn Fn(Request) -> LocalFuture<'static, Reply>>;

/// Accepts and serves for ever: a host's main future. Each connection is a task of the caller's host.
pub async fn serve(listener: Listener, handler: Handler) {
    // A listener fails only once its host is gone.
    while let Ok(stream) = listener.accept().await {
        let world = listener.world().clone();
        let handler = handler.clone();
        let service = service_fn(move |request| answer(request, handler.clone(), world.clone()));
        let connection = hyper::server::conn::http1::Builder::new()
            .auto_date_header(false) // hyper would read the machine's clock.
            .serve_connection(TokioIo::new(stream), service);
        tokio::task::spawn_local(async move {
            // How a connection ends is the client's to see and, for a cut body, what was asked for.
            let _ = connection.await;
        });
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    handler: Handler,
    world: crate::world::World,
) -> Result<hyper::Response<ReplyBody>, hyper::Error> {
    let (head, body) = request.into_parts();
    let request = Request {
        method: head.method.as_str().to_owned(),
        path: head.uri.path_and_query().map_or_else(|| "/".to_owned(), |path| path.as_str().to_owned()),
        headers: headers(&head.headers),
        body: body.collect().await?.to_bytes(),
    };
    let reply = handler(request).await;
    let body = match reply.body {
        Body::Whole(bytes) => ReplyBody::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
        Body::Chunks { chunks, end } => {
            ReplyBody::Chunks(Box::new(Chunks { world, left: chunks.into(), pause: None, end, flushed: false }))
        }
        Body::Never => pending().await,
    };
    let mut response = hyper::Response::new(body);
    *response.status_mut() = StatusCode::from_u16(reply.status).expect("simulated servers make valid statuses");
    let headers = response.headers_mut();
    headers.reserve(reply.headers.len());
    for (name, value) in reply.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("simulated servers make valid header names");
        let value = HeaderValue::from_maybe_shared(Bytes::from(value)).expect("simulated servers make valid headers");
        headers.append(name, value);
    }
    Ok(response)
}

enum ReplyBody {
    Whole(Option<Bytes>),
    Chunks(Box<Chunks>),
}

struct Chunks {
    world: crate::world::World,
    left: VecDeque<(squall::base::Span, Bytes)>,
    /// The wait for the first of `left`.
    pause: Option<LocalFuture<'static, ()>>,
    end: End,
    flushed: bool,
}

/// The body was to break off.
#[derive(Debug)]
struct CutOff;

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body breaks off here")
    }
}
impl std::error::Error for CutOff {}

impl HyperBody for ReplyBody {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        match &mut *self {
            ReplyBody::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            ReplyBody::Chunks(chunks) => chunks.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole(bytes) => bytes.is_none(),
            ReplyBody::Chunks(chunks) => chunks.left.is_empty() && chunks.end == End::Complete,
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            ReplyBody::Whole(bytes) => hyper::body::SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            ReplyBody::Chunks(_) => hyper::body::SizeHint::default(),
        }
    }
}

impl Chunks {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        while let Some((span, bytes)) = self.left.front_mut() {
            if !span.is_zero() {
                let span = std::mem::take(span);
                self.pause = Some(Box::pin(self.world.sleep(span)));
            }
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let bytes = std::mem::take(bytes);
            self.left.pop_front();
            // An empty chunk would end a chunked body: it is only a pause.
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
        match self.end {
            End::Complete => Poll::Ready(None),
            End::Cut if self.flushed => Poll::Ready(Some(Err(CutOff))),
            End::Cut => {
                // An error makes hyper drop what it has buffered; when a body has nothing at hand it flushes first.
                self.flushed = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}
