//! Colours, where the reader is a terminal and hasn't asked for none.

/// What a piece of text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
    Doubt,
    Strong,
    Faint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// `no_color`: the environment says so (`NO_COLOR` set and not empty).
    pub fn new(terminal: bool, no_color: bool) -> Paint {
        Paint { on: terminal && !no_color }
    }

    pub fn text(self, tone: Tone, text: &str) -> String {
        if !self.on {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Doubt => "33",
            Tone::Strong => "1",
            Tone::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_colour_reaches_a_file_or_someone_who_asked_for_none() {
        assert_eq!(Paint::new(false, false).text(Tone::Good, "held"), "held");
        assert_eq!(Paint::new(true, true).text(Tone::Good, "held"), "held");
        assert_eq!(Paint::new(true, false).text(Tone::Good, "held"), "\x1b[32mheld\x1b[0m");
    }
}
