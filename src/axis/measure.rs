//! From measured facts to measured levels.
//!
//! The engine gathers [`Facts`] (plain values) whenever levels are measured; this turns them into four levels, each with
//! a sentence that says why. First match from the top of engine.md 2.1's table. Absent on purpose: when to measure, and
//! what happens to a measured level (`flap`).
//! **Source:** engine.md 2.1.

use crate::base::rules::{ChainRule, ChainUse};
use crate::base::{Axis, AxisLevels, EntryName, Level, Rules};
use serde::{Deserialize, Serialize};

/// One entry of a chat chain whose provider is enabled by configuration and not local.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedEntry {
    pub entry: EntryName,
    /// Its key turned out to be bad: the provider is disabled, the entry counts no more.
    pub bad_key: bool,
    /// Open or half-open.
    pub not_closed: bool,
    /// Its park exceeded 60 s and it has not served since.
    pub parked_long: bool,
}

/// An essential chain with at least one enabled entry that is not local.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EssentialChain {
    pub chain: String,
    /// Some entry of it serves, local ones included.
    pub serves: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudFacts {
    pub counted: Vec<CountedEntry>,
    pub essential: Vec<EssentialChain>,
    /// LLM dead letters not yet replayed or expired.
    pub dead_letters: u32,
    /// More than this many are ESSENTIAL.
    pub dead_letters_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// The database can be written.
    pub writable: bool,
    pub vector_store_not_closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingFacts {
    /// Embeddings are on by configuration.
    pub configured: bool,
    /// Some embedding entry serves.
    pub serves: bool,
    /// Some embedding entry's breaker is open or half-open.
    pub breaker_not_closed: bool,
    /// Backlog rows whose first try failed or was refused are waiting.
    pub backlog_waiting: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CcFacts {
    /// Starts in a row failed (spawn or sign-in), and none has worked since.
    pub failing: bool,
    /// That was so, and the answered sessions that end it are not complete.
    pub unavailable_unconfirmed: bool,
    /// A limit is in force, or not yet confirmed gone.
    pub limited: bool,
    /// The rolling hour's budget is used up.
    pub hour_used_up: bool,
    /// Starts in the hour reached 80 % of the budget and have not fallen below 60 % since.
    pub throttled: bool,
}

/// Everything that decides the measured levels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    pub cloud: CloudFacts,
    pub memory: MemoryFacts,
    pub embedding: EmbeddingFacts,
    pub cc: CcFacts,
}

/// The measured levels, and in one plain sentence each, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    pub levels: AxisLevels,
    pub cloud: String,
    pub memory: String,
    pub embedding: String,
    pub cc: String,
}

impl Measured {
    pub fn cause(&self, axis: Axis) -> &str {
        match axis {
            Axis::Cloud => &self.cloud,
            Axis::Memory => &self.memory,
            Axis::Embedding => &self.embedding,
            Axis::Cc => &self.cc,
        }
    }
}

pub fn measure(facts: &Facts) -> Measured {
    let Facts { cloud, memory, embedding, cc } = facts; // A new axis stops the build here.
    let (cloud_level, cloud) = measure_cloud(cloud);
    let (memory_level, memory) = measure_memory(*memory, *embedding);
    let (embedding_level, embedding) = measure_embedding(*embedding);
    let (cc_level, cc) = measure_cc(*cc);
    let levels = AxisLevels { cloud: cloud_level, memory: memory_level, embedding: embedding_level, cc: cc_level };
    Measured { levels, cloud, memory, embedding, cc }
}

/// The levels of a deployment in which nothing is wrong: no episode and no notice begins at these.
pub fn baseline(embeddings_configured: bool) -> AxisLevels {
    AxisLevels { memory: if embeddings_configured { Level::Normal } else { Level::FtsOnly }, ..AxisLevels::NORMAL }
}

/// The chains that ESSENTIAL looks at: chat chains that are marked essential (all of them, if none is), with at least one
/// entry whose provider is enabled and not local.
pub fn essential_chains(rules: &Rules) -> Vec<&ChainRule> {
    let chat = || rules.chains.iter().filter(|chain| chain.use_ == ChainUse::Chat);
    let none_marked = !chat().any(|chain| chain.essential);
    chat()
        .filter(|chain| none_marked || chain.essential)
        .filter(|chain| rules.entries(chain).iter().any(|entry| rules.counted_for_cloud(entry)))
        .collect()
}

/// The entries whose breakers move the cloud axis, each once, in order of name.
pub fn counted_entries(rules: &Rules) -> Vec<EntryName> {
    let mut entries: Vec<EntryName> = rules
        .chains
        .iter()
        .flat_map(|chain| rules.entries(chain))
        .filter(|entry| rules.counted_for_cloud(entry))
        .collect();
    entries.sort();
    entries.dedup();
    entries
}

fn measure_cloud(facts: &CloudFacts) -> (Level, String) {
    if facts.counted.is_empty() {
        return (Level::Normal, "no cloud entry is configured".to_owned());
    }
    let usable = || facts.counted.iter().filter(|entry| !entry.bad_key);
    if usable().next().is_none() {
        return (Level::Offline, "every key is bad".to_owned());
    }
    if usable().all(|entry| entry.not_closed) {
        return (Level::Offline, "no counted breaker is closed".to_owned());
    }
    if let Some(chain) = facts.essential.iter().find(|chain| !chain.serves) {
        return (Level::Essential, format!("no entry of chain {} serves", chain.chain));
    }
    if facts.dead_letters > facts.dead_letters_max {
        return (Level::Essential, format!("{} dead letters are waiting", facts.dead_letters));
    }
    let impaired: Vec<&str> =
        usable().filter(|entry| entry.not_closed || entry.parked_long).map(|entry| entry.entry.as_str()).collect();
    match impaired.as_slice() {
        [] => (Level::Normal, "every counted entry works".to_owned()),
        [one] => (Level::Fallback, format!("{one} is out")),
        many => (Level::Reduced, format!("{} are out", many.join(", "))),
    }
}

fn measure_memory(memory: MemoryFacts, embedding: EmbeddingFacts) -> (Level, String) {
    let (level, why) = if !memory.writable {
        (Level::Down, "the database cannot be written")
    } else if memory.vector_store_not_closed {
        (Level::WriteQueued, "the vector store's breaker is not closed")
    } else if !embedding.configured {
        (Level::FtsOnly, "embeddings are off by configuration")
    } else if !embedding.serves {
        (Level::FtsOnly, "queries cannot be embedded: no embedding entry serves")
    } else {
        (Level::Normal, "storage, vector store and query embedding work")
    };
    (level, why.to_owned())
}

fn measure_embedding(facts: EmbeddingFacts) -> (Level, String) {
    let (level, why) = if !facts.configured {
        (Level::Normal, "embeddings are off by configuration")
    } else if !facts.serves {
        (Level::Unavailable, "no embedding entry serves")
    } else if facts.breaker_not_closed {
        (Level::Queued, "an embedding breaker is not closed")
    } else if facts.backlog_waiting {
        (Level::Queued, "memories wait for their embedding")
    } else {
        (Level::Normal, "an embedding entry serves and nothing waits")
    };
    (level, why.to_owned())
}

fn measure_cc(facts: CcFacts) -> (Level, String) {
    let (level, why) = if facts.failing {
        (Level::Unavailable, "sessions fail to start")
    } else if facts.unavailable_unconfirmed {
        (Level::Unavailable, "sessions start again, not yet confirmed")
    } else if facts.limited {
        (Level::RateLimited, "a limit is in force or not yet confirmed gone")
    } else if facts.hour_used_up {
        (Level::RateLimited, "the hour's session budget is used up")
    } else if facts.throttled {
        (Level::Throttled, "the hour's session budget is nearly used up")
    } else {
        (Level::Normal, "sessions are within their budget")
    };
    (level, why.to_owned())
}

#[cfg(test)]
mod tests;
