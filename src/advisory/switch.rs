//! The opt-out variable's text: `SQUALL_DEGRADED_ADVISORY`, also `CPERSONA_DEGRADED_ADVISORY`.
//!
//! Reading the environment is `main`'s; this only understands what stood there. **Source:** engine.md 10.

/// The variables, the first one set counts.
pub const VARIABLES: [&str; 2] = ["SQUALL_DEGRADED_ADVISORY", "CPERSONA_DEGRADED_ADVISORY"];

/// Neither a yes nor a no: warn, and it means on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is none of true, 1, yes, on, false, 0, no, off: the degraded advisory stays on")]
pub struct NotASwitch {
    pub value: String,
}

/// Reads a switch's text: trimmed, any case. **Errors:** [`NotASwitch`] means on.
pub fn parse(text: &str) -> Result<bool, NotASwitch> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(NotASwitch { value: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_and_no_are_understood_in_any_case_and_anything_else_is_said_aloud() {
        for (text, read) in [("TRUE", true), (" 1", true), ("Yes", true), ("on\n", true)] {
            assert_eq!(parse(text), Ok(read), "{text:?}");
        }
        for text in ["false", "0 ", "NO", "Off"] {
            assert_eq!(parse(text), Ok(false), "{text:?}");
        }
        for text in ["", "2", "disable", "tru"] {
            assert_eq!(parse(text), Err(NotASwitch { value: text.to_owned() }));
        }
    }
}
