//! Providers, chains and channels: the tables that a configuration file and a scenario read alike, and what must hold
//! between them.
//!
//! **Source:** engine.md 2.1 (entries), 5 (embedding chains), 12.

use super::diagnostic::Complaint;
use super::parse::Problems;
use super::shape::{At, Key, Keys, Shape};
use super::table::Table;
use super::url::{check_base_url, check_url};
use crate::base::rules::{Api, ChainRule, ChainUse, ChannelRule, ProviderRule};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::de::DeTable;

/// The largest number of dimensions of an embedding.
pub const DIMS_MAX: u64 = 65_536;
const NAME_CHARS_MAX: usize = 63;
const APIS: [&str; 5] =
    [Api::ALL[0].name(), Api::ALL[1].name(), Api::ALL[2].name(), Api::ALL[3].name(), Api::ALL[4].name()];
const USES: [(&str, ChainUse); 2] = [("chat", ChainUse::Chat), ("embedding", ChainUse::Embedding)];
const USE_NAMES: [&str; 2] = [USES[0].0, USES[1].0];

/// A name that is a host name too: small letters, digits and dashes.
pub const NAME: Shape = Shape::Written {
    what: "a name of small letters, digits and dashes",
    pattern: "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    check: check_name,
};

/// The entries of a chain, and the models of a provider, are texts without blanks.
pub const MODELS: Shape = Shape::List { of: &MODEL, min: 0, max: 100 };
const MODEL: Shape = Shape::Written { what: "a model's name", pattern: r"^\S+$", check: check_model };
const ENTRIES: Shape = Shape::List { of: &Shape::Text, min: 1, max: 100 };

pub const PROVIDER_KEYS: Keys = &[&[
    Key::required("name", NAME, "Under this name chains and reports know it."),
    Key::required("api", Shape::OneOf(&APIS), "What it speaks."),
    Key::required(
        "base_url",
        Shape::Written {
            what: "an address such as \"https://api.openai.com\"",
            pattern: "^https?://[^?#]*[^/?#]$",
            check: check_base_url,
        },
        "Where it answers; paths are appended, a `/v1` at its end is one of theirs.",
    ),
    Key::optional("key_env", Shape::FreeText, "", "The environment variable that holds its key; empty: none is sent."),
    Key::optional("models", MODELS, "[]", "Its models, each with a breaker of its own."),
    Key::optional("local", Shape::Flag, "false", "A local one never moves the cloud axis."),
    Key::optional("enabled", Shape::Flag, "true", "Whether it is used."),
    Key::optional("dims", DIMS, "", "Dimensions of its embeddings."),
]];
pub const DIMS: Shape = Shape::Count { min: 1, max: DIMS_MAX };

pub const CHAIN_KEYS: Keys = &[&[
    Key::required("name", NAME, "Under this name callers ask for it."),
    Key::required("use", Shape::OneOf(&USE_NAMES), "What it is for."),
    Key::required("entries", ENTRIES, "Whom to ask, in order: \"provider\" or \"provider/model\"."),
    Key::optional("essential", Shape::Flag, "false", "Without it the agent is no use."),
]];

pub const CHANNEL_KEYS: Keys = &[&[
    Key::required("name", NAME, "Under this name reports know it."),
    Key::required(
        "url",
        Shape::Written {
            what: "an address such as \"https://chat.example/hook\"",
            pattern: "^https?://",
            check: check_url,
        },
        "Messages are posted here.",
    ),
]];

fn check_name(text: &str) -> Result<(), Complaint> {
    let plain = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let ends = !text.starts_with('-') && !text.ends_with('-');
    match plain && ends && (1..=NAME_CHARS_MAX).contains(&text.len()) {
        true => Ok(()),
        false => Err(Complaint::new(format!("bad name {text:?}"))
            .help("names are host names: small letters, digits and dashes between them, at most 63")),
    }
}

fn check_model(text: &str) -> Result<(), Complaint> {
    match text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        true => Err(Complaint::new(format!("bad model name {text:?}: it is empty or has blanks"))),
        false => Ok(()),
    }
}

/// Every dialect's paths begin with their version, and most documents of compatible servers give it with the address.
fn without_version(base_url: &str) -> &str {
    base_url.strip_suffix("/v1").unwrap_or(base_url)
}

/// A chain and where its parts stand.
pub struct ReadChain {
    pub rule: ChainRule,
    pub name_span: Range<usize>,
    pub entries: Vec<At<String>>,
}

pub fn read_provider(
    table: &DeTable,
    span: Range<usize>,
    problems: &mut Problems,
) -> Option<(ProviderRule, Range<usize>)> {
    let table = Table::open("[[provider]]", table, span, PROVIDER_KEYS, None, problems);
    check_named_model(&table, problems);
    let rule = ProviderRule {
        name: table.text("name")?.to_owned(),
        api: table.text("api").and_then(Api::from_name)?,
        base_url: without_version(table.text("base_url").unwrap_or_default()).to_owned(),
        key_env: table.text("key_env").unwrap_or_default().to_owned(),
        models: table.strings("models"),
        local: table.flag("local").unwrap_or(false),
        enabled: table.flag("enabled").unwrap_or(true),
        dims: table.count_u32("dims"),
    };
    Some((rule, table.value_span("name")))
}

pub fn read_chain(table: &DeTable, span: Range<usize>, problems: &mut Problems) -> Option<ReadChain> {
    let table = Table::open("[[chain]]", table, span, CHAIN_KEYS, None, problems);
    let given = table.text("use")?;
    let use_ = USES.into_iter().find(|(name, _)| *name == given).expect("the key's shape was checked").1;
    let entries: Vec<At<String>> =
        table.texts("entries").into_iter().map(|at| At { value: at.value.to_owned(), span: at.span }).collect();
    let rule = ChainRule {
        name: table.text("name")?.to_owned(),
        use_,
        entries: entries.iter().map(|entry| entry.value.clone()).collect(),
        essential: table.flag("essential").unwrap_or(false),
    };
    Some(ReadChain { rule, name_span: table.value_span("name"), entries })
}

pub fn read_channel(
    table: &DeTable,
    span: Range<usize>,
    problems: &mut Problems,
) -> Option<(ChannelRule, Range<usize>)> {
    let table = Table::open("[[channel]]", table, span, CHANNEL_KEYS, None, problems);
    let rule =
        ChannelRule { name: table.text("name")?.to_owned(), url: table.text("url").unwrap_or_default().to_owned() };
    Some((rule, table.value_span("name")))
}

/// Says of each name that stands there before: once for every repetition.
pub fn check_unique<'n>(what: &str, names: impl IntoIterator<Item = (&'n str, Range<usize>)>, problems: &mut Problems) {
    let mut seen: BTreeMap<&str, ()> = BTreeMap::new();
    for (name, span) in names {
        if seen.insert(name, ()).is_some() {
            problems.add(span, Complaint::new(format!("there is another {what} named {name:?}")));
        }
    }
}

/// As it stands in a file.
pub fn use_name(use_: ChainUse) -> &'static str {
    USES.into_iter().find(|(_, own)| *own == use_).expect("every use has a name").0
}

/// Whether a request in this dialect must name a model; without one every call would be refused. Servers that speak as
/// OpenAI does often have a single model and need no name for it.
fn needs_model(api: Api) -> bool {
    match api {
        Api::Anthropic | Api::Mistral | Api::Ollama => true,
        Api::Openai | Api::Qdrant => false,
    }
}

fn check_named_model(table: &Table, problems: &mut Problems) {
    let Some(api) = table.text("api").and_then(Api::from_name).filter(|api| needs_model(*api)) else { return };
    if table.strings("models").is_empty() && !table.is_bad("models") {
        let complaint = Complaint::new(format!("a provider of api {:?} needs `models`", api.name()))
            .help("every request to it names a model; the first one is the default");
        problems.add_absent(table.value_span("api"), complaint);
    }
}

/// Whether the dialect has chat.
pub fn can_chat(api: Api) -> bool {
    match api {
        Api::Openai | Api::Anthropic | Api::Mistral | Api::Ollama => true,
        Api::Qdrant => false,
    }
}

/// Whether the dialect has embeddings.
pub fn can_embed(api: Api) -> bool {
    match api {
        Api::Openai | Api::Mistral | Api::Ollama => true,
        Api::Anthropic | Api::Qdrant => false,
    }
}

/// Entries name providers and models that are there and can do what the chain is for; all entries of an embedding
/// chain share model and dims.
pub fn check_chain(chain: &ReadChain, providers: &[ProviderRule], problems: &mut Problems) {
    let mut first: Option<(Option<&str>, u32, &str)> = None;
    check_unique("entry", chain.entries.iter().map(|entry| (entry.value.as_str(), entry.span.clone())), problems);
    for entry in &chain.entries {
        let Some((provider, model)) = find_entry(&entry.value, providers, &entry.span, problems) else { continue };
        let (able, of) = match chain.rule.use_ {
            ChainUse::Chat => (can_chat(provider.api), "chat"),
            ChainUse::Embedding => (can_embed(provider.api), "embedding"),
        };
        if !able {
            let message = format!("{:?} speaks {}, which has no {of}", provider.name, provider.api.name());
            problems.add(entry.span.clone(), Complaint::new(message));
            continue;
        }
        if chain.rule.use_ == ChainUse::Chat {
            continue;
        }
        let Some(dims) = provider.dims else {
            let message = format!("provider {:?} is in an embedding chain and has no `dims`", provider.name);
            problems.add_absent(entry.span.clone(), Complaint::new(message));
            continue;
        };
        let Some((model_of_first, dims_of_first, name)) = first else {
            first = Some((model, dims, &entry.value));
            continue;
        };
        if (model, dims) != (model_of_first, dims_of_first) {
            let message = format!("{:?} and {name:?} differ in model or dims", entry.value);
            let help = "vectors of different models can't be compared: all entries of an embedding chain share both";
            problems.add(entry.span.clone(), Complaint::new(message).help(help));
        }
    }
}

/// The provider and the model that `"provider"` or `"provider/model"` means, or a complaint.
pub fn find_entry<'p>(
    text: &'p str,
    providers: &'p [ProviderRule],
    span: &Range<usize>,
    problems: &mut Problems,
) -> Option<(&'p ProviderRule, Option<&'p str>)> {
    let (name, model) = match text.split_once('/') {
        Some((name, model)) => (name, Some(model)),
        None => (text, None),
    };
    let Some(provider) = providers.iter().find(|provider| provider.name == name) else {
        let names = providers.iter().map(|provider| &provider.name);
        problems.add_absent(span.clone(), Complaint::unknown("provider", name, names));
        return None;
    };
    match model {
        Some(model) if !provider.models.iter().any(|own| own == model) => {
            let mut complaint =
                Complaint::unknown("model", model, &provider.models).help(format!("of provider {name:?}"));
            if provider.models.is_empty() {
                complaint = complaint.help(format!("provider {name:?} declares no `models`"));
            }
            problems.add_absent(span.clone(), complaint);
            None
        }
        Some(model) => Some((provider, Some(model))),
        None => Some((provider, provider.models.first().map(String::as_str))),
    }
}
