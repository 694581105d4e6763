//! What is wrong in a file or a setting, and how to say it to a person.
//!
//! A [`Complaint`] is the matter itself; a [`Diagnostic`] is a complaint with its place in a file. Readers collect them
//! all before they give up, so that one run shows every mistake.
//! **Source:** scenario.md (first paragraph).

use serde::Serialize;
use std::fmt::{self, Write};
use std::ops::Range;

/// Something wrong with a value, wherever it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Complaint {
    pub message: String,
    pub help: Option<String>,
    /// Everything that would have been right, if that is a list.
    pub allowed: Vec<String>,
    /// The one among them that was probably meant.
    pub suggestion: Option<String>,
}

/// A complaint at its place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub file: String,
    /// Bytes of the file.
    pub span: Range<usize>,
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    pub message: String,
    pub help: Option<String>,
    pub allowed: Vec<String>,
    pub suggestion: Option<String>,
    /// The text of the line.
    pub excerpt: String,
}

/// More allowed values than this are not printed one by one.
const ALLOWED_SHOWN_MAX: usize = 24;
/// A longer line is cut around the place.
const EXCERPT_CHARS_MAX: usize = 160;

impl Complaint {
    pub fn new(message: impl Into<String>) -> Complaint {
        Complaint { message: message.into(), ..Complaint::default() }
    }

    pub fn help(mut self, help: impl Into<String>) -> Complaint {
        self.help = Some(help.into());
        self
    }

    /// `what` is unknown: names what was given, what is allowed and what was probably meant.
    pub fn unknown<S: AsRef<str>>(what: &str, given: &str, allowed: impl IntoIterator<Item = S>) -> Complaint {
        Complaint::new(format!("unknown {what} {given:?}")).closest(given, allowed)
    }

    /// Adds the list of allowed values, and the one among them that `given` probably meant.
    pub fn closest<S: AsRef<str>>(mut self, given: &str, allowed: impl IntoIterator<Item = S>) -> Complaint {
        self.allowed = allowed.into_iter().map(|text| text.as_ref().to_owned()).collect();
        self.suggestion = closest(given, &self.allowed);
        self
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for note in notes(&self.help, &self.allowed, &self.suggestion) {
            write!(f, "; {note}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Complaint {}

impl Diagnostic {
    /// As text for a terminal or a log: place, message, the line with a mark under the text, and what would help.
    pub fn render(&self, colour: bool) -> String {
        let paint = |code: &str, text: &str| match colour {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        };
        let mut out = String::new();
        let place = format!("{}:{}:{}:", self.file, self.line, self.column);
        let _ = writeln!(out, "{} {} {}", paint("1", &place), paint("1;31", "error:"), paint("1", &self.message));
        let number = self.line.to_string();
        let edge = " ".repeat(number.len());
        let (excerpt, mark) = self.marked();
        let bar = paint("34", "|");
        let _ = writeln!(out, "{edge} {bar}");
        let _ = writeln!(out, "{} {bar} {excerpt}", paint("34", &number));
        let _ = writeln!(out, "{edge} {bar} {}", paint("31", &mark));
        for note in notes(&self.help, &self.allowed, &self.suggestion) {
            let _ = writeln!(out, "{edge} {} {note}", paint("34", "="));
        }
        out
    }

    /// The line, cut if it is long, and a line of carets under the span.
    fn marked(&self) -> (String, String) {
        let chars: Vec<char> =
            self.excerpt.chars().map(|c| if c == '\t' || c.is_control() { ' ' } else { c }).collect();
        let column = (self.column as usize - 1).min(chars.len());
        let from = column.saturating_sub(EXCERPT_CHARS_MAX / 2);
        let to = (from + EXCERPT_CHARS_MAX).min(chars.len());
        let excerpt: String = chars[from..to].iter().collect();
        let start = self.excerpt.char_indices().nth(column).map_or(self.excerpt.len(), |(at, _)| at);
        let end = (start + self.span.len()).min(self.excerpt.len());
        let len = self.excerpt.get(start..end).map_or(1, |text| text.chars().count());
        let len = len.clamp(1, (to - column.min(to)).max(1));
        (excerpt.trim_end().to_owned(), format!("{}{}", " ".repeat(column - from), "^".repeat(len)))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

fn notes(help: &Option<String>, allowed: &[String], suggestion: &Option<String>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(suggestion) = suggestion {
        notes.push(format!("did you mean {suggestion:?}?"));
    }
    // A long list helps only someone who has no better hint.
    if !allowed.is_empty() && (allowed.len() <= ALLOWED_SHOWN_MAX || suggestion.is_none()) {
        let shown = &allowed[..allowed.len().min(ALLOWED_SHOWN_MAX)];
        let more = allowed.len() - shown.len();
        let tail = if more > 0 { format!(", and {more} more") } else { String::new() };
        notes.push(format!("allowed: {}{tail}", shown.join(", ")));
    }
    if let Some(help) = help {
        notes.push(format!("help: {help}"));
    }
    notes
}

/// The candidate that `given` was probably meant to be; the first among equals.
pub fn closest(given: &str, candidates: &[String]) -> Option<String> {
    let given = given.to_lowercase();
    let mut best: Option<(usize, &String)> = None;
    for candidate in candidates {
        let distance = strsim::damerau_levenshtein(&given, &candidate.to_lowercase());
        // Up to a third of the letters may be wrong.
        let near = distance <= (candidate.chars().count().max(given.chars().count()) / 3).max(1);
        if near && best.is_none_or(|(other, _)| distance < other) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(excerpt: &str, column: u32, len: usize) -> Diagnostic {
        Diagnostic {
            file: "drill.toml".into(),
            span: 100..100 + len,
            line: 12,
            column,
            message: "unknown provider \"opnai\"".into(),
            help: None,
            allowed: vec!["openai".into(), "anthropic".into()],
            suggestion: Some("openai".into()),
            excerpt: excerpt.into(),
        }
    }

    #[test]
    fn the_mark_stands_under_the_offending_text() {
        let text = diagnostic("target = \"opnai\"", 10, 7).render(false);
        let expected = "\
drill.toml:12:10: error: unknown provider \"opnai\"
   |
12 | target = \"opnai\"
   |          ^^^^^^^
   = did you mean \"openai\"?
   = allowed: openai, anthropic
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_mark_past_the_end_or_inside_a_very_long_line_still_fits() {
        for (excerpt, column, len) in [("", 1, 0), ("ab", 3, 0), ("äöü", 4, 9), (&*"x".repeat(5_000), 4_000, 900)] {
            let text = diagnostic(excerpt, column, len).render(false);
            assert!(text.lines().all(|line| line.chars().count() < 200), "{text}");
            assert!(text.contains('^'), "{text}");
        }
    }

    #[test]
    fn colour_is_only_there_when_asked_for() {
        let diagnostic = diagnostic("target = \"opnai\"", 10, 7);
        assert!(!diagnostic.render(false).contains('\u{1b}'));
        assert!(diagnostic.render(true).contains('\u{1b}'));
    }

    #[test]
    fn a_guess_is_made_only_for_something_near() {
        let names: Vec<String> = ["openai", "anthropic"].map(String::from).to_vec();
        assert_eq!(closest("OpenAi", &names).as_deref(), Some("openai"));
        assert_eq!(closest("antropic", &names).as_deref(), Some("anthropic"));
        assert_eq!(closest("mistral", &names), None);
        assert_eq!(closest("", &names), None);
    }
}
