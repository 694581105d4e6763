//! What a notice is about.
//!
//! **Source:** engine.md 8 (notices); events.md (`notice.sent`).

use super::level::{Axis, Level};
use super::name::EntryName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What people are told about an axis. Written as a level's name, `up` or `tripping`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeWhat {
    /// The axis is back at its baseline.
    Up,
    /// A breaker opens again and again.
    Tripping,
    /// The axis is worse than it was.
    #[serde(untagged)]
    Level(Level),
}

impl fmt::Display for NoticeWhat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoticeWhat::Up => f.write_str("up"),
            NoticeWhat::Tripping => f.write_str("tripping"),
            NoticeWhat::Level(level) => level.fmt(f),
        }
    }
}

/// One thing that a notice says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticePart {
    pub axis: Axis,
    pub what: NoticeWhat,
    /// Whose breaker is tripping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntryName>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_one_word_and_reads_back() {
        for (what, word) in [
            (NoticeWhat::Up, "up"),
            (NoticeWhat::Tripping, "tripping"),
            (NoticeWhat::Level(Level::RateLimited), "RATE_LIMITED"),
        ] {
            assert_eq!(what.to_string(), word);
            let json = serde_json::to_string(&what).unwrap();
            assert_eq!(json, format!("{word:?}"));
            assert_eq!(serde_json::from_str::<NoticeWhat>(&json).unwrap(), what);
        }
        assert!(serde_json::from_str::<NoticeWhat>("\"down\"").is_err());
    }
}
