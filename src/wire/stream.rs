//! Reads a streamed chat answer as it arrives, whatever the borders of its chunks.
//!
//! Complete is only what ends with the dialect's terminal event after a finish reason; everything else that ends is
//! cut. An error event inside a 200 means what its status would have meant.
//! **Source:** protocols.md C.1 (error after 200), C.4 (lines of JSON), traps 20 and 23.

use super::answer::{Answer, BodyFault, Reading};
use super::error::ErrorBody;
use super::sse::{self, SseError};
use super::{Usage, anthropic, ndjson, ollama, openai};
use crate::base::WallTime;
use crate::base::rules::{Api, ChainUse};

/// What a piece of the stream came to.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamItem {
    Text(String),
    /// The terminal event came, after a finish reason. Nothing follows.
    Done {
        finish: String,
        usage: Usage,
    },
    /// The stream came to nothing more: an error event, a body that is no stream, or an end without the terminal event.
    /// The answer has no content. Nothing follows.
    Error(Answer),
}

/// What the events so far have said.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub finish: Option<String>,
    pub usage: Usage,
    /// The terminal event came.
    pub is_done: bool,
}

/// How the dialect divides a stream into what is read one by one.
#[derive(Clone, Debug)]
enum Feed {
    Events(sse::Decoder),
    Lines(ndjson::Decoder),
}

impl Feed {
    fn of(api: Api) -> Feed {
        match api {
            Api::Openai | Api::Anthropic | Api::Mistral | Api::Qdrant => Feed::Events(sse::Decoder::default()),
            Api::Ollama => Feed::Lines(ndjson::Decoder::default()),
        }
    }

    /// Adds what `chunk` completes; `None`: the body has ended.
    fn take(&mut self, chunk: Option<&[u8]>, pieces: &mut Vec<String>) -> Result<(), BodyFault> {
        match self {
            Feed::Events(decoder) => {
                let mut events = Vec::new();
                let decoded = match chunk {
                    Some(chunk) => decoder.push(chunk, &mut events),
                    None => decoder.end(&mut events),
                };
                pieces.extend(events.into_iter().map(|event| event.data));
                decoded.map_err(sse_fault)
            }
            Feed::Lines(decoder) => {
                let decoded = match chunk {
                    Some(chunk) => decoder.push(chunk, pieces),
                    None => decoder.end(pieces),
                };
                decoded.map_err(|error| BodyFault::Malformed(error.to_string()))
            }
        }
    }
}

/// One streamed answer being read. Feed it what arrives after a 2xx head.
#[derive(Clone, Debug)]
pub struct StreamReader {
    api: Api,
    model: Option<String>,
    now: WallTime,
    headers: Vec<(String, String)>,
    feed: Feed,
    progress: Progress,
    /// `Done` or `Error` was given.
    is_over: bool,
}

impl StreamReader {
    /// `headers` are the answer's: an error event inside the stream may be explained by them.
    pub fn new(about: &Reading<'_>, headers: &[(String, String)]) -> StreamReader {
        StreamReader {
            api: about.api,
            model: about.model.map(str::to_owned),
            now: about.now,
            headers: headers.to_vec(),
            feed: Feed::of(about.api),
            progress: Progress::default(),
            is_over: false,
        }
    }

    /// Whether [`StreamItem::Done`] or [`StreamItem::Error`] has been given.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// What `chunk` completes. Nothing after the end.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<StreamItem> {
        self.read(Some(chunk))
    }

    /// The body has ended as HTTP ends one. At most what a last event gives, and an error if the answer is incomplete.
    pub fn end(&mut self) -> Vec<StreamItem> {
        let mut items = self.read(None);
        if !self.is_over {
            self.is_over = true;
            items.push(StreamItem::Error(Answer::fault("the stream ended without its terminal event")));
        }
        items
    }

    fn read(&mut self, chunk: Option<&[u8]>) -> Vec<StreamItem> {
        let (mut pieces, mut items) = (Vec::new(), Vec::new());
        if self.is_over {
            return items;
        }
        let taken = self.feed.take(chunk, &mut pieces);
        for piece in pieces {
            self.piece(&piece, &mut items);
        }
        if let Err(fault) = taken {
            self.fail(fault, &mut items);
        }
        items
    }

    fn piece(&mut self, piece: &str, items: &mut Vec<StreamItem>) {
        // Some proxies keep a connection busy with empty events.
        if self.is_over || piece.is_empty() {
            return;
        }
        let text = match self.api {
            Api::Openai | Api::Mistral => openai::stream_event(&mut self.progress, piece),
            Api::Anthropic => anthropic::stream_event(&mut self.progress, piece),
            Api::Ollama => ollama::stream_line(&mut self.progress, piece),
            Api::Qdrant => panic!("WIRE-1: a stream in a dialect that no request can be built for: {:?}", self.api),
        };
        match text {
            Ok(Some(text)) if !text.is_empty() => items.push(StreamItem::Text(text)),
            Ok(Some(_) | None) => {}
            Err(fault) => self.fail(fault, items),
        }
        if self.progress.is_done && !self.is_over {
            self.is_over = true;
            items.push(match self.progress.finish.take() {
                Some(finish) => StreamItem::Done { finish, usage: self.progress.usage },
                None => StreamItem::Error(Answer::fault("the stream ended without a finish reason")),
            });
        }
    }

    fn fail(&mut self, fault: BodyFault, items: &mut Vec<StreamItem>) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        let about = Reading {
            api: self.api,
            use_: ChainUse::Chat,
            model: self.model.as_deref(),
            inputs: 0,
            dims: None,
            key_worked: true,
            now: self.now,
        };
        items.push(StreamItem::Error(fault.into_answer(&about, &self.headers)));
    }
}

fn sse_fault(error: SseError) -> BodyFault {
    if let SseError::NotAStream { line } = &error {
        // Some servers answer a streamed request with an error as plain JSON under 200.
        let parsed = serde_json::from_str(line).ok().and_then(|value| ErrorBody::of_json(&value));
        return match parsed {
            Some(body) => BodyFault::Error(body),
            None => BodyFault::Malformed(format!("{error}: {line}")),
        };
    }
    BodyFault::Malformed(error.to_string())
}

#[cfg(test)]
mod tests;
