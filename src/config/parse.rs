//! From text to a TOML tree whose every key and value knows its place, going on after a mistake.
//!
//! The TOML parser itself goes on after a bad value. Where it gives up (a key without a value, an unclosed header),
//! the line is blanked out and the rest is read again, so that mistakes further down are seen in the same run.

use super::diagnostic::{Complaint, Diagnostic};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A longer text is no configuration.
pub const TEXT_BYTES_MAX: usize = 4 << 20;
/// So many lines that stop the parser are stepped over; then the rest is left unread.
const ROUNDS_MAX: usize = 32;

/// A file's name and text, with its lines.
pub struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> Source<'a> {
    pub fn new(file: &'a str, text: &'a str) -> Source<'a> {
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Source { file, text, line_starts }
    }

    /// From 1.
    pub fn line(&self, offset: usize) -> u32 {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        u32::try_from(line).expect("a text within its limit has fewer lines")
    }

    /// The bytes of the line that holds `offset`, without its line break.
    fn line_range(&self, offset: usize) -> Range<usize> {
        let start = self.line_starts[self.line(offset) as usize - 1];
        let rest = &self.text[start..];
        start..start + rest.find('\n').unwrap_or(rest.len())
    }

    fn diagnostic(&self, span: Range<usize>, complaint: Complaint) -> Diagnostic {
        let floor = |mut at: usize| {
            at = at.min(self.text.len());
            while !self.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let span = floor(span.start)..floor(span.end.max(span.start));
        let line = self.line_range(span.start);
        let Complaint { message, help, allowed, suggestion } = complaint;
        let before = self.text.get(line.start..span.start).unwrap_or_default();
        Diagnostic {
            file: self.file.to_owned(),
            line: self.line(span.start),
            column: u32::try_from(before.chars().count()).expect("a text within its limit has shorter lines") + 1,
            message,
            help,
            allowed,
            suggestion,
            excerpt: self.text[line].trim_end_matches('\r').to_owned(),
            span,
        }
    }
}

/// Collects what is wrong in one file.
#[derive(Debug, Default)]
pub struct Problems {
    list: Vec<(Range<usize>, Complaint)>,
    /// Parts of the file could not be read: what seems to be missing may stand there.
    partial: bool,
    /// Nothing from here on could be read.
    cut_at: Option<usize>,
}

impl Problems {
    pub fn add(&mut self, span: Range<usize>, complaint: Complaint) {
        self.list.push((span, complaint));
    }

    /// As [`Problems::add`], for complaints that hold only if the whole file was read: something is missing, or a name
    /// is not declared.
    pub fn add_absent(&mut self, span: Range<usize>, complaint: Complaint) {
        if !self.partial {
            self.list.push((span, complaint));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// For a value that stands in no file.
    pub fn into_first(self) -> Option<Complaint> {
        self.list.into_iter().next().map(|(_, complaint)| complaint)
    }

    /// All of them with their places, in file order.
    pub fn into_diagnostics(mut self, source: &Source) -> Vec<Diagnostic> {
        self.list.sort_by_key(|(span, _)| span.start);
        self.list.into_iter().map(|(span, complaint)| source.diagnostic(span, complaint)).collect()
    }
}

/// The lines at which the parser stumbled; complaints about the tree at these places are echoes.
pub struct Syntax {
    problems: Problems,
    lines: Vec<u32>,
    /// Something was lost, not only misread.
    partial: bool,
}

impl Syntax {
    /// Joins what the readers of the tree found to what the parser found, in file order.
    pub fn join(self, source: &Source, tree: Problems) -> Vec<Diagnostic> {
        let Syntax { mut problems, lines, partial } = self;
        for (span, complaint) in tree.list {
            let echo = lines.contains(&source.line(span.start.min(source.text.len())));
            let unread = problems.cut_at.is_some_and(|cut| span.start >= cut);
            // The parser gives values that it lost no place.
            let nowhere = partial && span == (0..0);
            if !echo && !unread && !nowhere {
                problems.list.push((span, complaint));
            }
        }
        problems.into_diagnostics(source)
    }
}

/// Reads `source`, hands the tree to `read` with an empty list of problems, and gives back what `read` gave and
/// everything that is wrong.
pub fn with_tree<T>(
    source: &Source,
    read: impl FnOnce(&DeTable, &mut Problems) -> Option<T>,
) -> Result<T, Vec<Diagnostic>> {
    if source.text.len() > TEXT_BYTES_MAX {
        let complaint = Complaint::new(format!("the file is longer than {TEXT_BYTES_MAX} bytes"));
        return Err(vec![source.diagnostic(0..0, complaint)]);
    }
    let mut text = source.text.to_owned();
    let mut syntax = Syntax { problems: Problems::default(), lines: Vec::new(), partial: false };
    for round in 0.. {
        let (tree, errors) = DeTable::parse_recoverable(&text);
        let stopped_at = syntax.take(source, &tree, &errors);
        if let (Some(offset), true) = (stopped_at, round < ROUNDS_MAX) {
            let line = source.line_range(offset);
            text.replace_range(line.clone(), &" ".repeat(line.len()));
            continue;
        }
        let clean = syntax.problems.is_empty();
        let mut problems = Problems { partial: syntax.partial, ..Problems::default() };
        let value = read(tree.get_ref(), &mut problems);
        return match (value, clean && problems.is_empty()) {
            (Some(value), true) => Ok(value),
            (_, clean) => {
                assert!(!clean, "a reader that gives nothing says why");
                Err(syntax.join(source, problems))
            }
        };
    }
    unreachable!("the rounds end with a return")
}

impl Syntax {
    /// Notes the parser's errors, one a line, and tells where it gave up, if stepping over that line can help.
    fn take(&mut self, source: &Source, tree: &Spanned<DeTable>, errors: &[toml::de::Error]) -> Option<usize> {
        let mut errors: Vec<_> = errors.iter().map(|error| (error.span().unwrap_or(0..0), error.message())).collect();
        errors.sort_by_key(|(span, _)| span.start);
        let unclosed = |message: &str| {
            ["unclosed array,", "unclosed inline table,", "invalid multi-line"].iter().any(|m| message.starts_with(m))
        };
        // What follows something unclosed was swallowed by it: one error, where it opens, stands for all of them.
        let opening = errors
            .iter()
            .filter(|(_, message)| unclosed(message))
            .map(|(span, message)| (opening(tree.get_ref(), span.start).unwrap_or(span.start), *message))
            .min_by_key(|(at, _)| *at);
        let mut stopped_at = None;
        for (span, message) in errors {
            if opening.is_some_and(|(at, _)| span.start >= at) {
                break;
            }
            self.note(source, span.clone(), message);
            // A blank line stops nobody, so each round steps over another one.
            if gives_up(message) {
                stopped_at = stopped_at.or(Some(span.start));
            }
        }
        if let Some((at, message)) = opening {
            self.note(source, at..at + 1, message);
            self.problems.cut_at = Some(at);
        }
        stopped_at
    }

    /// The first error of a line stands for it.
    fn note(&mut self, source: &Source, span: Range<usize>, message: &str) {
        let line = source.line(span.start.min(source.text.len()));
        if self.lines.contains(&line) {
            return;
        }
        self.lines.push(line);
        let mut complaint = Complaint::new(message);
        let mut kept = keeps_value(message);
        if message.starts_with("string values must be quoted") {
            let text = source.text.get(span.clone()).map(str::trim).unwrap_or_default();
            kept = !text.is_empty();
            complaint = match kept {
                true => Complaint::new("a text needs quotes").help(format!("write {text:?}")),
                false => Complaint::new("a value is missing here"),
            };
        }
        self.partial |= !kept;
        self.problems.add(span, complaint);
    }
}

/// Whether key and value are in the tree in spite of the error.
fn keeps_value(message: &str) -> bool {
    [
        "duplicate key",
        "unexpected key or value",
        "invalid basic string",
        "invalid literal string",
        "missing escaped value",
    ]
    .iter()
    .any(|m| message.starts_with(m))
}

/// Whether the parser leaves the rest of the file unread, or reads it as part of something else.
fn gives_up(message: &str) -> bool {
    ["key with no value", "unclosed table", "unclosed array table", "missing key"]
        .iter()
        .any(|m| message.starts_with(m))
}

/// Where the outermost array, table or text that ends at `end` begins.
fn opening(table: &DeTable, end: usize) -> Option<usize> {
    fn look(value: &Spanned<DeValue>, end: usize) -> Option<usize> {
        let span = value.span();
        // A table under a header spans its header only, an inline one its braces.
        if span.end == end && span.start < end {
            return Some(span.start);
        }
        match value.get_ref() {
            DeValue::Array(items) => items.iter().find_map(|item| look(item, end)),
            DeValue::Table(table) => opening(table, end),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_) => None,
        }
    }
    table.iter().filter_map(|(_, value)| look(value, end)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str) -> Vec<(u32, String)> {
        let source = Source::new("f.toml", text);
        let read = with_tree(&source, |_, problems| {
            problems.add_absent(0..0, Complaint::new("absent"));
            Some(())
        });
        read.unwrap_err().into_iter().map(|d| (d.line, d.message)).collect()
    }

    #[test]
    fn every_line_that_does_not_parse_is_reported_once() {
        let lines = lines_of("a = 3h\nb = 1\nc\nd = 2\n[[e]\nf = oops\ng = 1 h = 2\n");
        let numbers: Vec<u32> = lines.iter().map(|(line, _)| *line).collect();
        assert_eq!(numbers, [1, 3, 5, 6, 7], "{lines:?}");
        assert_eq!(lines[0].1, "a text needs quotes");
    }

    #[test]
    fn something_unclosed_is_reported_where_it_opens_and_hides_what_it_swallowed() {
        for text in
            ["x = oops\na = [1, 2\nb = 1\n[c]\n", "x = oops\na = { b = 1\nc = 2\n", "x = oops\na = \"\"\"x\nb = 1\n"]
        {
            let numbers: Vec<u32> = lines_of(text).iter().map(|(line, _)| *line).collect();
            assert_eq!(numbers, [1, 2], "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_only_said_of_a_file_that_was_read_whole() {
        for whole in ["a = 1\n", "\na = 1h\n", "\na = 1\na = 2\n"] {
            assert!(lines_of(whole).contains(&(1, "absent".to_owned())), "{whole}");
        }
        assert!(lines_of("a = 1\nb == 1\n").iter().all(|(_, message)| message != "absent"));
        assert!(lines_of("a = 1\nb\n").iter().all(|(_, message)| message != "absent"));
    }

    #[test]
    fn places_are_counted_in_characters_and_from_one() {
        let source = Source::new("f.toml", "a = \"ä\"\r\nü = \"ö\" x\n");
        let at = source.text.find(" x").unwrap() + 1;
        let diagnostic = source.diagnostic(at..at + 1, Complaint::new("m"));
        assert_eq!((diagnostic.line, diagnostic.column), (2, 9));
        assert_eq!(source.diagnostic(0..1, Complaint::new("m")).excerpt, "a = \"ä\"");
        let end = source.diagnostic(9_999..9_999, Complaint::new("m"));
        assert_eq!((end.line, end.column), (3, 1));
    }
}
