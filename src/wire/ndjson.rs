//! Lines of JSON, decoded piece by piece: any chunk borders, LF or CRLF, empty lines passed over.
//!
//! **Source:** protocols.md C.4 (streaming).

use super::sse::LINE_BYTES_MAX;
use serde::de::IgnoredAny;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("a line of the stream is too long")]
    TooLong,
    #[error("the stream is not UTF-8")]
    NotUtf8,
}

#[derive(Clone, Debug, Default)]
pub struct Decoder {
    line: Vec<u8>,
    /// Some line has been seen.
    is_stream: bool,
}

impl Decoder {
    /// Adds the lines that `chunk` completes.
    ///
    /// **Errors:** what makes it no stream; lines before that point are added, and the decoder is of no use afterwards.
    pub fn push(&mut self, chunk: &[u8], lines: &mut Vec<String>) -> Result<(), LineError> {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let (piece, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |piece| (piece, true));
            if self.line.len() + piece.len() > LINE_BYTES_MAX {
                return Err(LineError::TooLong);
            }
            self.line.extend_from_slice(piece);
            if ends {
                self.end_line(lines)?;
            }
        }
        Ok(())
    }

    /// The connection has ended. A last line counts without its line end if it is whole, and if it is the only one: a
    /// body without any line end may be no stream at all.
    pub fn end(&mut self, lines: &mut Vec<String>) -> Result<(), LineError> {
        if !self.is_stream || serde_json::from_slice::<IgnoredAny>(&self.line).is_ok() {
            return self.end_line(lines);
        }
        self.line.clear();
        Ok(())
    }

    fn end_line(&mut self, lines: &mut Vec<String>) -> Result<(), LineError> {
        let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| LineError::NotUtf8)?;
        let line = line.trim();
        if !line.is_empty() {
            self.is_stream = true;
            lines.push(line.to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(body: &[u8], cut: usize) -> Result<Vec<String>, LineError> {
        let (mut decoder, mut lines) = (Decoder::default(), Vec::new());
        decoder.push(&body[..cut], &mut lines)?;
        decoder.push(&body[cut..], &mut lines)?;
        decoder.end(&mut lines)?;
        Ok(lines)
    }

    #[test]
    fn a_line_is_one_with_any_line_end_and_any_border() {
        for line_end in ["\n", "\r\n"] {
            let body = "{\"a\":\"ü\"}\n\n {\"b\":1}\n".replace('\n', line_end);
            for cut in 0..=body.len() {
                assert_eq!(decoded(body.as_bytes(), cut).unwrap(), ["{\"a\":\"ü\"}", "{\"b\":1}"], "{body:?} at {cut}");
            }
        }
    }

    #[test]
    fn a_last_line_without_an_end_counts_if_it_is_whole() {
        assert_eq!(decoded(b"{\"a\":1}\n{\"b\":2}", 0).unwrap(), ["{\"a\":1}", "{\"b\":2}"]);
        assert_eq!(decoded(b"{\"a\":1}\n{\"b\":", 0).unwrap(), ["{\"a\":1}"]);
        assert_eq!(decoded(b"<html>", 0).unwrap(), ["<html>"], "no stream at all");
    }

    #[test]
    fn what_is_no_text_or_has_no_end_is_given_up() {
        assert_eq!(decoded(b"{}\n\xff\n", 2), Err(LineError::NotUtf8));
        assert_eq!(decoded(&vec![b'x'; LINE_BYTES_MAX + 1], 9), Err(LineError::TooLong));
    }
}
