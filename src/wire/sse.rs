//! Server-sent events, decoded piece by piece: any chunk borders, LF, CRLF or CR, comments, data of several lines.
//!
//! Stricter than the standard in one point: a body whose first line is no field of the format is refused, so that a
//! gateway's page under a 200 does not read as an empty stream.
//! **Source:** WHATWG HTML, "Server-sent events"; simulation of `garbage` bodies in scenario.md.

/// Longest line and longest event.
pub const LINE_BYTES_MAX: usize = 1 << 20;
pub const EVENT_BYTES_MAX: usize = 4 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The `event:` field; empty if there was none.
    pub name: String,
    pub data: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// With the line that gave it away.
    #[error("not an event stream")]
    NotAStream { line: String },
    #[error("a line or an event of the stream is too long")]
    TooLong,
    #[error("the stream is not UTF-8")]
    NotUtf8,
}

#[derive(Clone, Debug, Default)]
pub struct Decoder {
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    /// The last byte was CR: an LF that follows belongs to it.
    after_cr: bool,
    /// Some line of the format has been seen.
    is_stream: bool,
}

impl Decoder {
    /// Adds the events that `chunk` completes.
    ///
    /// **Errors:** what makes it no stream; events before that point are added, and the decoder is of no use afterwards.
    pub fn push(&mut self, chunk: &[u8], events: &mut Vec<Event>) -> Result<(), SseError> {
        for byte in chunk {
            let follows_cr = std::mem::replace(&mut self.after_cr, *byte == b'\r');
            match byte {
                b'\n' if follows_cr => {}
                b'\n' | b'\r' => self.end_line(events)?,
                byte => {
                    if self.line.len() >= LINE_BYTES_MAX {
                        return Err(SseError::TooLong);
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(())
    }

    /// The connection has ended. An event whose lines are complete counts although its empty line is missing; a broken
    /// line does not.
    pub fn end(&mut self, events: &mut Vec<Event>) -> Result<(), SseError> {
        if !self.line.is_empty() && !self.is_stream {
            self.end_line(events)?; // A body without any line end may be no stream at all.
        }
        self.line.clear();
        self.end_event(events);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) -> Result<(), SseError> {
        let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| SseError::NotUtf8)?;
        let line = if self.is_stream { &line } else { line.trim_start_matches('\u{feff}') };
        if line.is_empty() {
            self.end_event(events);
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.data.len() + value.len() >= EVENT_BYTES_MAX {
                    return Err(SseError::TooLong);
                }
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            "event" => self.name = value.to_owned(),
            "" | "id" | "retry" => {} // A comment, and what only a reconnecting reader needs.
            _ if self.is_stream => {}
            _ => return Err(SseError::NotAStream { line: line.to_owned() }),
        }
        self.is_stream = true;
        Ok(())
    }

    fn end_event(&mut self, events: &mut Vec<Event>) {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            events.push(Event { name, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(body: &str, cut: usize) -> Vec<Event> {
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        decoder.push(&body.as_bytes()[..cut], &mut events).expect("a stream");
        decoder.push(&body.as_bytes()[cut..], &mut events).expect("a stream");
        decoder.end(&mut events).expect("a stream");
        events
    }

    #[test]
    fn an_event_of_several_lines_is_one_with_any_line_end_and_any_border() {
        let event = |name: &str, data: &str| Event { name: name.to_owned(), data: data.to_owned() };
        let expected = [event("add", "one\ntwo"), event("", ""), event("", " x:y")];
        for line_end in ["\n", "\r\n", "\r"] {
            let body = ": hello\n\nevent: add\ndata: one\ndata:two\nother: 1\n\nevent: unused\n\ndata\n\ndata:  x:y\n";
            let body = body.replace('\n', line_end);
            for cut in 0..=body.len() {
                assert_eq!(decoded(&body, cut), expected, "{body:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_was_complete_before_a_fault_is_kept() {
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        assert_eq!(decoder.push(b"data: a\n\ndata: \xff\n\n", &mut events), Err(SseError::NotUtf8));
        assert_eq!(events, [Event { name: String::new(), data: "a".to_owned() }]);
    }
}
