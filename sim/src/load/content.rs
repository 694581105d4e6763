//! What is written in a request: given words, or generated ones that no other arrival has.

use crate::scenario::Content;

const WORDS: [&str; 16] = [
    "the", "harbour", "was", "quiet", "when", "seven", "boats", "came", "back", "with", "salt", "and", "letters",
    "from", "northern", "towns",
];

/// The content of arrival number `arrival` of the load at `line`. `bytes` pads or cuts generated content, never
/// given one.
pub fn content(of: &Content, line: u32, arrival: u64) -> String {
    if let Some(text) = &of.text {
        return text.clone();
    }
    let arrival = if of.repeat { 0 } else { arrival };
    let mut text = format!("load {line} arrival {arrival}");
    let Some(bytes) = of.bytes else { return text };
    let bytes = bytes as usize;
    let mut next = line as usize + usize::try_from(arrival).unwrap_or(0);
    while text.len() < bytes {
        text.push(' ');
        text.push_str(WORDS[next % WORDS.len()]);
        next += 1;
    }
    text.truncate(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_content_is_unique_unless_it_is_to_be_repeated() {
        let own = Content::default();
        assert_eq!(content(&own, 12, 3), "load 12 arrival 3");
        assert_ne!(content(&own, 12, 3), content(&own, 12, 4));
        let repeat = Content { repeat: true, ..Content::default() };
        assert_eq!(content(&repeat, 12, 3), content(&repeat, 12, 4));
        let given = Content { text: Some("hello".into()), bytes: Some(900), repeat: false };
        assert_eq!(content(&given, 12, 3), "hello");
    }

    #[test]
    fn padded_content_has_exactly_its_length() {
        let padded = Content { bytes: Some(500), ..Content::default() };
        assert_eq!(content(&padded, 12, 3).len(), 500);
        assert!(content(&padded, 12, 3).starts_with("load 12 arrival 3 "));
    }
}
