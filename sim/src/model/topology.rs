//! Who stands where: entries, chains and what they count for, resolved once from the rules in force.

use squall::base::rules::{Api, ChainUse};
use squall::base::{EntryName, Rules};

/// How far the evidence of a park reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Entry,
    Provider,
    /// Every provider with the same key.
    Key,
}

#[derive(Clone, Debug)]
pub struct Place {
    pub name: EntryName,
    /// Its provider is enabled by configuration.
    pub enabled: bool,
    pub local: bool,
    /// Its breaker moves the cloud axis.
    pub counted: bool,
    /// It stands in an embedding chain.
    pub embedding: bool,
    pub vector: bool,
    key: String,
}

#[derive(Clone, Debug)]
pub struct Chain {
    pub chat: bool,
    /// Of the chat chains: marked so, or none is.
    pub essential: bool,
    pub places: Vec<usize>,
}

#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// In the order of their names.
    pub places: Vec<Place>,
    pub chains: Vec<Chain>,
}

impl Topology {
    pub fn new(rules: &Rules) -> Topology {
        let mut names: Vec<EntryName> = Vec::new();
        for provider in &rules.providers {
            if provider.models.is_empty() {
                names.push(EntryName::new(&provider.name));
            }
            names.extend(provider.models.iter().map(|model| EntryName::of(&provider.name, Some(model))));
        }
        names.extend(rules.chains.iter().flat_map(|chain| rules.entries(chain)));
        names.sort();
        names.dedup();

        let none_marked = !rules.chains.iter().any(|chain| chain.use_ == ChainUse::Chat && chain.essential);
        let chains: Vec<Chain> = rules
            .chains
            .iter()
            .map(|chain| Chain {
                chat: chain.use_ == ChainUse::Chat,
                essential: chain.use_ == ChainUse::Chat && (chain.essential || none_marked),
                places: rules
                    .entries(chain)
                    .iter()
                    .map(|entry| names.binary_search(entry).expect("every entry of a chain was collected above"))
                    .collect(),
            })
            .collect();

        let places = names.iter().enumerate().map(|(at, name)| place(rules, &chains, at, name)).collect();
        Topology { places, chains }
    }

    pub fn find(&self, entry: &EntryName) -> Option<usize> {
        self.places.binary_search_by(|place| place.name.cmp(entry)).ok()
    }

    /// Whether evidence at `source` that reaches so far is about `other`.
    pub fn reaches(&self, source: usize, reach: Reach, other: usize) -> bool {
        let (from, to) = (&self.places[source], &self.places[other]);
        let same_provider = from.name.provider() == to.name.provider();
        match reach {
            Reach::Entry => source == other,
            Reach::Provider => same_provider,
            Reach::Key => same_provider || (!from.key.is_empty() && from.key == to.key),
        }
    }

    /// Whether embeddings are configured at all.
    pub fn embeds(&self) -> bool {
        self.places.iter().any(|place| place.embedding && place.enabled)
    }
}

fn place(rules: &Rules, chains: &[Chain], at: usize, name: &EntryName) -> Place {
    let provider = rules.provider(name.provider());
    let enabled = provider.is_some_and(|provider| provider.enabled);
    let local = provider.is_some_and(|provider| provider.local);
    let stands_in = |chat: bool| chains.iter().any(|chain| chain.chat == chat && chain.places.contains(&at));
    Place {
        name: name.clone(),
        enabled,
        local,
        counted: enabled && !local && stands_in(true),
        embedding: stands_in(false),
        vector: provider.is_some_and(|provider| provider.api == Api::Qdrant),
        key: provider.map(|provider| provider.key_env.clone()).unwrap_or_default(),
    }
}
