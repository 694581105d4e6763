//! What a state is, apart from when it is and how its attempts are numbered.
//!
//! Machines and models print themselves; of the text a moment counts as its distance from now, an attempt by the order
//! in which it is first named, a generation by whether it is the present one.

use crate::BEGIN_MS;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};

pub struct Fingerprint {
    now: u64,
    generation: Option<u64>,
    /// Names of facts that are for people only: no later step looks at them.
    shown_only: &'static [&'static str],
    attempts: Vec<u64>,
    hasher: DefaultHasher,
    text: String,
}

impl Fingerprint {
    /// `generation`: the present one, if the machine has any.
    pub fn new(now: u64, generation: Option<u64>, shown_only: &'static [&'static str]) -> Fingerprint {
        let (hasher, text) = (DefaultHasher::new(), String::new());
        Fingerprint { now, generation, shown_only, attempts: Vec::new(), hasher, text }
    }

    pub fn add(&mut self, part: &impl std::fmt::Debug) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        write!(text, "{part:?}").expect("text can be written to a string");
        self.fold(text.as_bytes());
        self.text = text;
    }

    pub fn done(self) -> u64 {
        self.hasher.finish()
    }

    fn fold(&mut self, text: &[u8]) {
        let (mut at, mut hashed) = (0, 0);
        // The last word before a number says what it is.
        let mut word: &[u8] = b"";
        while at < text.len() {
            let begin = at;
            if text[at].is_ascii_digit() {
                let mut number = 0_u64;
                while at < text.len() && text[at].is_ascii_digit() {
                    number = number * 10 + u64::from(text[at] - b'0');
                    at += 1;
                }
                self.hasher.write(&text[hashed..begin]);
                hashed = at;
                self.number(word, number);
            } else if text[at].is_ascii_alphabetic() || text[at] == b'_' {
                while at < text.len() && (text[at].is_ascii_alphanumeric() || text[at] == b'_') {
                    at += 1;
                }
                // The type around a number is no name for it.
                if &text[begin..at] != b"MonoTime" && &text[begin..at] != b"Some" {
                    word = &text[begin..at];
                }
            } else {
                at += 1;
            }
        }
        self.hasher.write(&text[hashed..]);
    }

    fn number(&mut self, word: &[u8], number: u64) {
        if self.shown_only.iter().any(|shown| shown.as_bytes() == word) {
            return;
        }
        if number > BEGIN_MS / 2 {
            return self.hasher.write_i64(number as i64 - self.now as i64);
        }
        match word {
            b"generation" => self.hasher.write_u8(u8::from(Some(number) == self.generation)),
            b"attempt" | b"streak" => {
                let known = self.attempts.iter().position(|attempt| *attempt == number);
                let place = known.unwrap_or_else(|| {
                    self.attempts.push(number);
                    self.attempts.len() - 1
                });
                self.hasher.write_usize(place);
            }
            _ => self.hasher.write_u64(number),
        }
    }
}

#[test]
fn a_state_a_day_later_with_other_numbers_is_the_same_state() {
    #[derive(Debug)]
    #[expect(dead_code, reason = "what counts is what it prints")]
    struct State {
        until: Option<u64>,
        attempt: u64,
        trips: u32,
    }
    let of = |now: u64, state: State| {
        let mut print = Fingerprint::new(now, None, &[]);
        print.add(&state);
        print.done()
    };
    let state = |until, attempt, trips| State { until: Some(BEGIN_MS + until), attempt, trips };
    let first = of(BEGIN_MS, state(5, 1, 2));
    assert_eq!(first, of(BEGIN_MS + 86_400_000, state(86_400_005, 77, 2)));
    for other in [state(6, 1, 2), state(5, 1, 3)] {
        assert_ne!(first, of(BEGIN_MS, other));
    }
}
