//! Good files, damaged at random: whatever comes in, the reader ends with a drill or with diagnostics that render.

use super::Scenario;
use super::tests::SAMPLES;
use proptest::prelude::*;

/// Reads, and does with the outcome what a caller would.
fn survives(text: &str) -> Result<(), TestCaseError> {
    match Scenario::read(text, "mutated.toml") {
        Ok(scenario) => {
            let drill = scenario.resolve(Some(3));
            prop_assert!(drill.faults.iter().all(|fault| fault.at < drill.duration));
            prop_assert!(drill.expects.iter().all(|expect| !expect.text.is_empty()));
        }
        Err(found) => {
            prop_assert!(!found.is_empty());
            let lines = text.matches('\n').count() as u32 + 1;
            for diagnostic in &found {
                prop_assert!((1..=lines).contains(&diagnostic.line) && diagnostic.column >= 1, "{diagnostic:?}");
                prop_assert!(diagnostic.span.end <= text.len());
                prop_assert!(diagnostic.render(true).contains('^') && !diagnostic.message.is_empty());
            }
            prop_assert!(found.is_sorted_by_key(|diagnostic| diagnostic.span.start));
        }
    }
    Ok(())
}

fn sample() -> impl Strategy<Value = &'static str> {
    prop::sample::select(SAMPLES.map(|(_, text)| text).to_vec())
}

/// Pieces that mean something to TOML or to a scenario.
const TOKENS: [&str; 40] = [
    "\"",
    "'",
    "\"\"\"",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ",",
    ".",
    "\n",
    "#",
    "\\",
    "0s",
    "\"0s\"",
    "\"1h\"",
    "\"366d\"",
    "-1",
    "0",
    "1e308",
    "nan",
    "inf",
    "true",
    "18446744073709551616",
    "0x7fffffffffffffff",
    "1979-05-27",
    "ü",
    "\u{feff}",
    "\u{0}",
    "\r",
    "[[fault]]\n",
    "[[expect]]\n",
    "[engine]\n",
    "kind = \"flap\"\n",
    "axis = \"cloud\"\n",
    "\"uniform(0s, 0s)\"",
    "\"date(-0s)\"",
    "\"a/b/c\"",
];

/// The text in words, blanks and signs; joined, it is the text again.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let class = |c: char| {
        if c.is_alphanumeric() || c == '_' {
            0
        } else if c == ' ' {
            1
        } else {
            2 + c as u32
        }
    };
    let mut last = None;
    for (at, c) in text.char_indices() {
        if last.is_some_and(|last| last != class(c)) {
            words.push(&text[start..at]);
            start = at;
        }
        last = Some(class(c));
    }
    words.push(&text[start..]);
    words
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_changed(text in sample(), edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        survives(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn stretches_deleted_or_doubled(
        text in sample(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 1..200usize, any::<bool>()), 1..4),
    ) {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, len, double) in cuts {
            let at = at.index(chars.len().max(1)).min(chars.len());
            let end = (at + len).min(chars.len());
            let piece: Vec<char> = chars[at..end].to_vec();
            chars.splice(at..end, if double { piece.repeat(2) } else { Vec::new() });
        }
        survives(&chars.into_iter().collect::<String>())?;
    }

    #[test]
    fn files_spliced(a in sample(), b in sample(), at in any::<prop::sample::Index>(), from in any::<prop::sample::Index>()) {
        let a: Vec<&str> = a.split_inclusive('\n').collect();
        let b: Vec<&str> = b.split_inclusive('\n').collect();
        let (head, tail) = (&a[..at.index(a.len())], &b[from.index(b.len())..]);
        survives(&head.iter().chain(tail).copied().collect::<String>())?;
    }

    #[test]
    fn words_exchanged(
        text in sample(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3u8), 1..8),
    ) {
        let mut words: Vec<&str> = words(text);
        for (at, other, how) in edits {
            let at = at.index(words.len());
            match how {
                0 => words[at] = TOKENS[other.index(TOKENS.len())],
                1 => words[at] = words[other.index(words.len())],
                _ => words.insert(at, TOKENS[other.index(TOKENS.len())]),
            }
        }
        survives(&words.concat())?;
    }

    #[test]
    fn values_exchanged(
        text in sample(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
    ) {
        // Keys keep their places, so that the file parses and the readers see strange values.
        let lines: Vec<&str> = text.lines().collect();
        let values: Vec<usize> = (0..lines.len()).filter(|i| lines[*i].contains(" = ")).collect();
        let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        for (to, from) in edits {
            let (to, from) = (values[to.index(values.len())], values[from.index(values.len())]);
            let key = lines[to].split_once(" = ").unwrap().0;
            changed[to] = format!("{key} = {}", lines[from].split_once(" = ").unwrap().1);
        }
        survives(&changed.join("\n"))?;
    }

    #[test]
    fn anything_at_all(text in "\\PC*") {
        survives(&text)?;
    }
}
