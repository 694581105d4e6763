//! Names of entries: what a breaker, a park or an attempt belongs to.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// `"provider"`, or `"provider/model"` where the provider declares models. Cheap to clone; ordered by text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryName(Arc<str>);

impl EntryName {
    pub fn new(text: &str) -> EntryName {
        EntryName(text.into())
    }
    pub fn of(provider: &str, model: Option<&str>) -> EntryName {
        match model {
            Some(model) => EntryName(format!("{provider}/{model}").into()),
            None => EntryName(provider.into()),
        }
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
    pub fn provider(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(provider, _)| provider)
    }
    pub fn model(&self) -> Option<&str> {
        self.0.split_once('/').map(|(_, model)| model)
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
