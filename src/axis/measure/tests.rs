//! The table of engine.md 2.1, row by row.

use super::*;
use crate::base::rules::{Api, ProviderRule};

const WELL: &str = "";

/// One entry per word: `""` is well, `"x"` not closed, `"p"` parked long, `"k"` a bad key.
fn counted(words: &[&str]) -> Vec<CountedEntry> {
    let entry = |(n, word): (usize, &&str)| CountedEntry {
        entry: EntryName::new(&format!("e{n}")),
        bad_key: word.contains('k'),
        not_closed: word.contains('x'),
        parked_long: word.contains('p'),
    };
    words.iter().enumerate().map(entry).collect()
}

fn cloud(words: &[&str], essential_serve: &[bool], dead_letters: u32) -> Level {
    let essential =
        essential_serve.iter().map(|serves| EssentialChain { chain: "c".to_owned(), serves: *serves }).collect();
    let facts = CloudFacts { counted: counted(words), essential, dead_letters, dead_letters_max: 25 };
    measure_cloud(&facts).0
}

#[test]
fn the_cloud_level_follows_its_table_from_the_top() {
    use Level::{Essential, Fallback, Normal, Offline, Reduced};
    for (words, essential, dead_letters, level) in [
        (&[WELL, WELL, WELL][..], &[true][..], 0, Normal),
        (&["x", WELL, WELL], &[true], 0, Fallback),
        (&["p", WELL, WELL], &[true], 0, Fallback),
        (&["xp", WELL, WELL], &[true], 0, Fallback),
        (&["x", "p", WELL], &[true], 0, Reduced),
        (&["p", "p", "p"], &[true], 0, Reduced),
        (&["x", "x", WELL], &[true], 0, Reduced),
        (&["x", "x", WELL], &[true, false], 0, Essential),
        (&[WELL, WELL, WELL], &[false], 0, Essential),
        (&[WELL], &[true], 25, Normal),
        (&[WELL], &[true], 26, Essential),
        (&["x", "x", "p"], &[false], 0, Essential),
        (&["x", "x", "x"], &[false], 26, Offline),
        (&["x"], &[true], 0, Offline),
        (&["x", "k"], &[true], 0, Offline),
        (&[WELL, "k"], &[true], 0, Normal),
        (&["kx", "k"], &[false], 0, Offline),
        (&["k"], &[false], 0, Offline),
        (&[], &[], 0, Normal),
    ] {
        assert_eq!(cloud(words, essential, dead_letters), level, "{words:?} {essential:?} {dead_letters}");
    }
}

#[test]
fn a_cloud_without_entries_says_so() {
    assert_eq!(measure_cloud(&CloudFacts::default()), (Level::Normal, "no cloud entry is configured".to_owned()));
}

fn bits<const N: usize>() -> impl Iterator<Item = [bool; N]> {
    (0..1_u32 << N).map(|n| std::array::from_fn(|bit| n & (1 << bit) != 0))
}

#[test]
fn memory_and_embedding_follow_their_tables_in_every_combination() {
    for [writable, vector_store_not_closed, configured, serves, breaker_not_closed, backlog_waiting] in bits::<6>() {
        let memory = MemoryFacts { writable, vector_store_not_closed };
        let embedding = EmbeddingFacts { configured, serves, breaker_not_closed, backlog_waiting };
        let facts = Facts { cloud: CloudFacts::default(), memory, embedding, cc: CcFacts::default() };
        let levels = measure(&facts).levels;
        let memory_expected = match (writable, vector_store_not_closed, configured && serves) {
            (false, _, _) => Level::Down,
            (true, true, _) => Level::WriteQueued,
            (true, false, false) => Level::FtsOnly,
            (true, false, true) => Level::Normal,
        };
        let embedding_expected = match (configured, serves, breaker_not_closed || backlog_waiting) {
            (false, _, _) | (true, true, false) => Level::Normal,
            (true, false, _) => Level::Unavailable,
            (true, true, true) => Level::Queued,
        };
        assert_eq!((levels.memory, levels.embedding), (memory_expected, embedding_expected), "{facts:?}");
    }
}

#[test]
fn cc_follows_its_table_in_every_combination() {
    for [unavailable_unconfirmed, limited, hour_used_up, throttled] in bits::<4>() {
        for failing in [false, true] {
            let facts = CcFacts { failing, unavailable_unconfirmed, limited, hour_used_up, throttled };
            let expected = if failing || unavailable_unconfirmed {
                Level::Unavailable
            } else if limited || hour_used_up {
                Level::RateLimited
            } else if throttled {
                Level::Throttled
            } else {
                Level::Normal
            };
            assert_eq!(measure_cc(facts).0, expected, "{facts:?}");
        }
    }
}

#[test]
fn a_deployment_without_embeddings_is_at_its_baseline_when_nothing_is_wrong() {
    for configured in [false, true] {
        let facts = Facts {
            cloud: CloudFacts::default(),
            memory: MemoryFacts { writable: true, vector_store_not_closed: false },
            embedding: EmbeddingFacts {
                configured,
                serves: configured,
                breaker_not_closed: false,
                backlog_waiting: false,
            },
            cc: CcFacts::default(),
        };
        assert_eq!(measure(&facts).levels, baseline(configured));
    }
    assert_eq!(baseline(false).memory, Level::FtsOnly);
}

fn rules(chains: &[(&str, ChainUse, &[&str], bool)]) -> Rules {
    let provider = |name: &str, local, enabled| ProviderRule {
        name: name.to_owned(),
        api: Api::Openai,
        base_url: String::new(),
        key_env: String::new(),
        models: vec!["m".to_owned()],
        local,
        enabled,
        dims: None,
    };
    let chain = |(name, use_, entries, essential): &(&str, ChainUse, &[&str], bool)| ChainRule {
        name: (*name).to_owned(),
        use_: *use_,
        entries: entries.iter().map(|entry| (*entry).to_owned()).collect(),
        essential: *essential,
    };
    Rules {
        providers: vec![provider("cloud", false, true), provider("local", true, true), provider("off", false, false)],
        chains: chains.iter().map(chain).collect(),
        ..Rules::default()
    }
}

fn essential(rules: &Rules) -> Vec<&str> {
    essential_chains(rules).into_iter().map(|chain| chain.name.as_str()).collect()
}

#[test]
fn with_no_chain_marked_essential_every_chat_chain_is() {
    use ChainUse::{Chat, Embedding};
    let chains =
        [("a", Chat, &["cloud"][..], false), ("b", Chat, &["cloud"], false), ("e", Embedding, &["cloud"], false)];
    assert_eq!(essential(&rules(&chains)), ["a", "b"]);
    let marked = [("a", Chat, &["cloud"][..], false), ("b", Chat, &["cloud"], true)];
    assert_eq!(essential(&rules(&marked)), ["b"]);
}

#[test]
fn essential_looks_only_at_chains_with_an_enabled_entry_that_is_not_local() {
    use ChainUse::Chat;
    let chains = [
        ("local", Chat, &["local"][..], false),
        ("mixed", Chat, &["local", "cloud"], false),
        ("off", Chat, &["off"], false),
    ];
    assert_eq!(essential(&rules(&chains)), ["mixed"]);
}

#[test]
fn an_entry_counts_once_under_its_resolved_name() {
    use ChainUse::{Chat, Embedding};
    let chains = [
        ("a", Chat, &["cloud", "local", "off"][..], false),
        ("b", Chat, &["cloud/m", "cloud/n"], false),
        ("e", Embedding, &["cloud/embed"], false),
    ];
    assert_eq!(counted_entries(&rules(&chains)), ["cloud/m", "cloud/n"].map(EntryName::new));
}
