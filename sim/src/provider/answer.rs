//! An answer before it goes onto the wire, and the ways in which faults spoil it.

use super::handle::CutAt;
use crate::scenario::Garbage;
use crate::world::http::{Body, End, Reply};
use bytes::Bytes;
use squall::base::Span;

/// Between two tokens of a stream.
pub const TOKEN_EVERY: Span = Span::from_ms(20);

/// What a server says to one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// Written one after another; a whole answer is a single piece.
    pub pieces: Vec<Piece>,
    pub streamed: bool,
    pub cut: bool,
    /// The wait that it states.
    pub wait_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub text: String,
    /// It brings one more token, so it comes [`TOKEN_EVERY`] after the piece before.
    pub token: bool,
}

impl Piece {
    pub fn token(text: String) -> Piece {
        Piece { text, token: true }
    }
    pub fn plain(text: String) -> Piece {
        Piece { text, token: false }
    }
    /// A token for each word, the blank before it included; `written`: as the dialect writes a text.
    pub fn tokens(words: &[&str], mut written: impl FnMut(&str) -> String) -> impl Iterator<Item = Piece> {
        words
            .iter()
            .enumerate()
            .map(move |(i, word)| Piece::token(if i == 0 { written(word) } else { written(&format!(" {word}")) }))
    }
}

impl Answer {
    pub fn whole(status: u16, content_type: &str, body: String) -> Answer {
        Answer {
            status,
            headers: vec![("content-type".into(), content_type.into())],
            pieces: vec![Piece::plain(body)],
            streamed: false,
            cut: false,
            wait_ms: None,
        }
    }

    pub fn json(status: u16, body: &impl serde::Serialize) -> Answer {
        let body = serde_json::to_string(body).expect("answers have no keys or numbers that JSON lacks");
        Answer::whole(status, "application/json", body)
    }

    pub fn html(status: u16, page: String) -> Answer {
        Answer::whole(status, "text/html; charset=UTF-8", page)
    }

    pub fn events(pieces: Vec<Piece>) -> Answer {
        Answer::stream("text/event-stream; charset=utf-8", pieces).header("cache-control", "no-cache")
    }

    /// One JSON document a line.
    pub fn lines(pieces: Vec<Piece>) -> Answer {
        Answer::stream("application/x-ndjson", pieces)
    }

    fn stream(content_type: &str, pieces: Vec<Piece>) -> Answer {
        Answer { pieces, streamed: true, ..Answer::whole(200, content_type, String::new()) }
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Answer {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The body as it would be without interruption.
    pub fn body(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    /// Puts `body` in place of the answer's own, with a content type that fits it.
    pub fn with_body(mut self, body: &str) -> Answer {
        let content_type = match body.trim_start().chars().next() {
            Some('{' | '[') => "application/json",
            Some('<') => "text/html; charset=UTF-8",
            Some(_) | None => "text/plain; charset=utf-8",
        };
        self.set_content_type(content_type);
        self.pieces = vec![Piece::plain(body.to_owned())];
        self.streamed = false;
        self
    }

    fn set_content_type(&mut self, content_type: &str) {
        self.headers.retain(|(name, _)| name != "content-type");
        self.headers.push(("content-type".into(), content_type.into()));
    }

    /// The connection breaks off in the middle of the body. Before the first token means: after the head of the
    /// answer and whatever a stream says before its first token; of a whole body nothing is sent.
    pub fn cut(mut self, at: CutAt) -> Answer {
        self.cut = true;
        let first_token = match at {
            CutAt::BeforeFirstToken if self.streamed => self.pieces.iter().position(|piece| piece.token),
            CutAt::BeforeFirstToken => Some(0),
            CutAt::Bytes(_) | CutAt::Half => None,
        };
        let len: usize = self.pieces.iter().map(|piece| piece.text.len()).sum();
        match at {
            CutAt::BeforeFirstToken => self.pieces.truncate(first_token.unwrap_or(self.pieces.len())),
            CutAt::Bytes(bytes) => self.keep(usize::try_from(bytes).unwrap_or(usize::MAX)),
            CutAt::Half => self.keep(len / 2),
        }
        self
    }

    /// Keeps the first `bytes` of the body.
    fn keep(&mut self, bytes: usize) {
        let mut left = bytes;
        for piece in &mut self.pieces {
            let mut end = left.min(piece.text.len());
            while !piece.text.is_char_boundary(end) {
                end -= 1;
            }
            left -= end;
            if end < piece.text.len() {
                left = 0;
            }
            piece.text.truncate(end);
        }
        self.pieces.retain(|piece| !piece.text.is_empty());
    }

    /// After `tokens` tokens the stream ends, in good order, with `error` as its last event. An answer that is not
    /// streamed stays as it is.
    pub fn fail_after(mut self, tokens: u32, error: String) -> Answer {
        if !self.streamed {
            return self;
        }
        let keep = self.pieces.iter().scan(0, |seen, piece| {
            *seen += u32::from(piece.token);
            (*seen <= tokens).then_some(())
        });
        let keep = keep.count();
        self.pieces.truncate(keep);
        self.pieces.push(Piece::plain(error));
        self
    }

    /// A 200 that is no answer. Spoiled vectors are not made here but where vectors are.
    pub fn spoil(mut self, garbage: Garbage) -> Answer {
        match garbage {
            Garbage::Html => {
                let page = "<!DOCTYPE html>\n<html><head><title>Just a moment...</title></head>\
                            <body><h1>Checking your browser</h1></body></html>\n";
                self.with_body(page)
            }
            Garbage::Empty => {
                self.pieces.clear();
                self.streamed = false;
                self
            }
            Garbage::TruncatedJson => {
                let len = self.body().len();
                self.keep(len * 3 / 5);
                self
            }
            Garbage::Nan | Garbage::Zero | Garbage::WrongDims | Garbage::FewerVectors => self,
        }
    }

    /// From the first byte to the last.
    pub fn duration(&self) -> Span {
        let pauses = self.pieces.iter().skip(1).filter(|piece| self.streamed && piece.token).count();
        Span::from_ms(TOKEN_EVERY.ms() * pauses as u64)
    }

    /// The answer as the simulated server sends it.
    pub fn into_reply(self) -> Reply {
        let Answer { status, headers, pieces, streamed, cut, wait_ms: _ } = self;
        let body = if streamed || cut {
            let chunks = pieces.into_iter().enumerate().map(|(i, piece)| {
                let pause = if i > 0 && streamed && piece.token { TOKEN_EVERY } else { Span::ZERO };
                (pause, Bytes::from(piece.text))
            });
            Body::Chunks { chunks: chunks.collect(), end: if cut { End::Cut } else { End::Complete } }
        } else {
            Body::Whole(Bytes::from(pieces.into_iter().map(|piece| piece.text).collect::<String>()))
        };
        Reply { status, headers, body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Answer {
        Answer::events(vec![
            Piece::plain("head ".into()),
            Piece::token("one ".into()),
            Piece::token("two ".into()),
            Piece::plain("end".into()),
        ])
    }

    #[test]
    fn a_cut_stream_keeps_exactly_what_came_before_the_cut() {
        assert_eq!(stream().cut(CutAt::BeforeFirstToken).body(), "head ");
        assert_eq!(stream().cut(CutAt::Bytes(7)).body(), "head on");
        assert_eq!(stream().cut(CutAt::Bytes(0)).body(), "");
        assert_eq!(stream().cut(CutAt::Bytes(7_000)).body(), "head one two end");
        assert_eq!(stream().cut(CutAt::Half).body(), "head one");
        assert_eq!(Answer::json(200, &serde_json::json!({})).cut(CutAt::BeforeFirstToken).body(), "");
    }

    #[test]
    fn an_error_inside_a_stream_is_its_last_event() {
        assert_eq!(stream().fail_after(0, "E".into()).body(), "head E");
        assert_eq!(stream().fail_after(1, "E".into()).body(), "head one E");
        assert_eq!(stream().fail_after(9, "E".into()).body(), "head one two endE");
        let whole = Answer::json(200, &serde_json::json!({}));
        assert_eq!(whole.clone().fail_after(0, "E".into()), whole);
    }

    #[test]
    fn a_stream_takes_one_pause_per_token() {
        assert_eq!(stream().duration(), Span::from_ms(40));
        let Body::Chunks { chunks, end: End::Complete } = stream().into_reply().body else { panic!("a stream") };
        assert_eq!(chunks.iter().map(|(pause, _)| pause.ms()).collect::<Vec<_>>(), [0, 20, 20, 0]);
    }

    #[test]
    fn garbage_is_never_the_answer_it_stands_for() {
        let answer = Answer::json(200, &serde_json::json!({"text": "long enough to be cut"}));
        let cut = answer.clone().spoil(Garbage::TruncatedJson);
        assert!(!cut.cut && serde_json::from_str::<serde_json::Value>(&cut.body()).is_err());
        assert_eq!(answer.clone().spoil(Garbage::Empty).body(), "");
        assert!(answer.spoil(Garbage::Html).body().starts_with("<!DOCTYPE html>"));
    }
}
