//! Reads `[[provider]]`, `[[channel]]` and `[[chain]]`: simulated servers, and the engine's entries for them.
//!
//! A provider's server answers at the host of its name, so the engine's entry for it is `http://NAME`; no key is sent.
//! One of api "webhook" is no provider: the engine's `notify.webhook_url` is set to it.
//! Without a `[[chain]]` of use "chat", a chain "default" asks every provider that can chat and has no `dims`, in file
//! order; without one of use "embedding", a chain "embedding" asks every provider that can embed and has `dims`, as
//! long as they share model and dims. A provider with `dims` is for embeddings unless a chain says otherwise.
//! Sessions work at the server of api "claude-code"; if none is given, one of that name is made.
//! **Source:** scenario.md; engine.md 5 (embedding chains).

use super::dist::{DIST, Dist, read_dist};
use super::types::{Allowance, Channel, Provider, ServerApi};
use squall::base::Rules;
use squall::base::rules::{Api, ChainRule, ChainUse, ChannelRule, ProviderRule};
use squall::config::entries::{self, DIMS, MODELS, NAME, ReadChain};
use squall::config::{Complaint, Key, Keys, Problems, Shape, Source, Table};
use std::ops::Range;
use toml::de::DeTable;

const APIS: [(&str, ServerApi, Option<Api>); 7] = [
    ("openai", ServerApi::Openai, Some(Api::Openai)),
    ("anthropic", ServerApi::Anthropic, Some(Api::Anthropic)),
    ("mistral", ServerApi::Mistral, Some(Api::Mistral)),
    ("ollama", ServerApi::Ollama, Some(Api::Ollama)),
    ("qdrant", ServerApi::Qdrant, Some(Api::Qdrant)),
    ("webhook", ServerApi::Webhook, None),
    ("claude-code", ServerApi::ClaudeCode, None),
];
const API_NAMES: [&str; 7] = [APIS[0].0, APIS[1].0, APIS[2].0, APIS[3].0, APIS[4].0, APIS[5].0, APIS[6].0];

/// Words that mean something as a fault's target, so no server can have them as its name.
pub const RESERVED: [&str; 7] = ["llm", "embedding", "internet", "disk", "engine", "clock", "webhook"];

pub const PROVIDER_KEYS: Keys = &[&[
    Key::required("name", NAME, "Its host name."),
    Key::required("api", Shape::OneOf(&API_NAMES), "What it speaks."),
    Key::optional("latency", DIST, LATENCY, "How long it takes to begin an answer."),
    Key::optional("models", MODELS, "[]", "Its models; faults may name \"provider/model\"."),
    Key::optional("limit", Shape::Table(ALLOWANCE_KEYS), "", "What it lets a customer do; without it, anything."),
    Key::optional("dims", DIMS, "", "Dimensions of its embeddings, or of what it stores."),
    Key::optional(
        "cold_start",
        DIST,
        "2s for api ollama",
        "How long the first request after a pause waits for its model.",
    ),
    Key::optional("local", Shape::Flag, "false", "Not counted for cloud, and outside of \"internet\"."),
]];

pub const CHANNEL_KEYS: Keys = &[&[
    Key::required("name", NAME, "Its host name."),
    Key::optional("latency", DIST, LATENCY, "How long it takes to begin an answer."),
]];

pub const ALLOWANCE_KEYS: Keys = &[&[
    Key::optional("requests_per_minute", Shape::count(1), "", "Requests a minute."),
    Key::optional("tokens_per_minute", Shape::count(1), "", "Tokens a minute."),
    Key::optional("concurrent", Shape::count(1), "", "Requests at the same time."),
]];

const LATENCY: &str = "300ms";
const COLD_START: &str = "2s";

/// As a scenario writes it.
pub fn api_name(server: ServerApi) -> &'static str {
    APIS.into_iter().find(|(_, own, _)| *own == server).expect("every API is in the list").0
}

/// The name of the server that sessions work at if none is given.
const CLAUDE_CODE: &str = "claude-code";

/// What the other tables of a scenario refer to.
pub struct Surroundings {
    pub providers: Vec<Provider>,
    pub channels: Vec<Channel>,
    /// With providers, chains and channels filled in.
    pub rules: Rules,
    /// Whether some load asks for streamed answers: known once the loads are read.
    pub streams: bool,
}

/// `rules` brings the settings; the lists of the file's tables bring the rest.
pub fn read_surroundings(root: &Table, mut rules: Rules, source: &Source, problems: &mut Problems) -> Surroundings {
    let mut providers = Vec::new();
    let mut channels = Vec::new();
    let mut names: Vec<(String, Range<usize>)> = Vec::new();
    for (table, span) in root.tables("provider") {
        if let Some((provider, rule, at)) = read_provider(table, span, source, problems) {
            if provider.api == ServerApi::Webhook {
                place_webhook(&provider.name, &providers, &at, &mut rules, problems);
            }
            names.push((provider.name.clone(), at));
            providers.push(provider);
            rules.providers.extend(rule);
        }
    }
    for (table, span) in root.tables("channel") {
        if let Some((channel, at)) = read_channel(table, span, source, problems) {
            names.push((channel.name.clone(), at));
            rules.channels.push(ChannelRule { name: channel.name.clone(), url: format!("http://{}/", channel.name) });
            channels.push(channel);
        }
    }
    for (name, span) in &names {
        if RESERVED.contains(&name.as_str()) {
            let help = format!("as a fault's target these words mean something else: {}", RESERVED.join(", "));
            problems.add(span.clone(), Complaint::new(format!("no server can be named {name:?}")).help(help));
        }
    }
    let places = names.iter().map(|(name, span)| (name.as_str(), span.clone()));
    entries::check_unique("provider or channel", places, problems);
    providers.extend(implied_claude_code(root, &providers));
    read_chains(root, &mut rules, problems);
    Surroundings { providers, channels, rules, streams: false }
}

/// The engine posts to the webhook's server, unless its settings say otherwise.
fn place_webhook(name: &str, before: &[Provider], at: &Range<usize>, rules: &mut Rules, problems: &mut Problems) {
    if before.iter().any(|provider| provider.api == ServerApi::Webhook) {
        problems.add(at.clone(), Complaint::new("there is another webhook, and the engine posts to one"));
    } else if rules.notify.webhook_url.is_empty() {
        rules.notify.webhook_url = format!("http://{name}/");
    }
}

fn read_provider(
    table: &DeTable,
    span: Range<usize>,
    source: &Source,
    problems: &mut Problems,
) -> Option<(Provider, Option<ProviderRule>, Range<usize>)> {
    let line = source.line(span.start);
    let table = Table::open("[[provider]]", table, span, PROVIDER_KEYS, None, problems);
    let limit = read_allowance(&table, "limit", problems);
    let name = table.text("name")?.to_owned();
    let api = table.text("api")?;
    let (text, server, api) = APIS.into_iter().find(|(own, ..)| *own == api).expect("the key's shape was checked");
    match server {
        ServerApi::Openai
        | ServerApi::Anthropic
        | ServerApi::Mistral
        | ServerApi::Ollama
        | ServerApi::ClaudeCode
        | ServerApi::Webhook => {}
        ServerApi::Qdrant => {
            let complaint = Complaint::new(format!("api {text:?} is not supported yet"));
            problems.add(table.value_span("api"), complaint);
        }
    }
    let models = table.strings("models");
    let model_places = table.texts("models").into_iter().map(|at| (at.value, at.span));
    entries::check_unique("model", model_places, problems);
    let (dims, local) = (table.count_u32("dims"), table.flag("local").unwrap_or(false));
    if dims.is_some() && server == ServerApi::Anthropic {
        let complaint = Complaint::new("api \"anthropic\" has no embeddings, so it has no `dims`");
        problems.add(table.key_span("dims"), complaint);
    }
    let rule = api.map(|api| ProviderRule {
        name: name.clone(),
        api,
        base_url: format!("http://{name}"),
        key_env: String::new(),
        models: models.clone(),
        local,
        enabled: true,
        dims,
    });
    let latency = read_dist(table.text("latency").unwrap_or(LATENCY)).expect("the key's shape was checked");
    let cold_start = read_cold_start(&table, server, problems);
    let provider = Provider { line, name, api: server, latency, models, limit, dims, local, cold_start };
    Some((provider, rule, table.value_span("name")))
}

/// Only Ollama loads its models when they are asked for.
fn read_cold_start(table: &Table, server: ServerApi, problems: &mut Problems) -> Option<Dist> {
    if server == ServerApi::Ollama {
        let text = table.text("cold_start").unwrap_or(COLD_START);
        return Some(read_dist(text).expect("the key's shape was checked"));
    }
    if table.has("cold_start") {
        let complaint =
            Complaint::new("`cold_start` is for api \"ollama\", which loads models when they are asked for");
        problems.add(table.key_span("cold_start"), complaint);
    }
    None
}

/// Sessions need somebody to work at.
fn implied_claude_code(root: &Table, providers: &[Provider]) -> Option<Provider> {
    let asked = root.tables("load").into_iter().any(|(load, _)| {
        load.get("kind").and_then(|kind| kind.get_ref().as_str()).is_some_and(|kind| kind == "session")
    });
    let given = providers.iter().any(|provider| provider.api == ServerApi::ClaudeCode || provider.name == CLAUDE_CODE);
    (asked && !given).then(|| Provider {
        line: 0,
        name: CLAUDE_CODE.to_owned(),
        api: ServerApi::ClaudeCode,
        latency: read_dist(LATENCY).expect("the default is one"),
        models: Vec::new(),
        limit: Allowance::default(),
        dims: None,
        local: false,
        cold_start: None,
    })
}

fn read_channel(
    table: &DeTable,
    span: Range<usize>,
    source: &Source,
    problems: &mut Problems,
) -> Option<(Channel, Range<usize>)> {
    let line = source.line(span.start);
    let table = Table::open("[[channel]]", table, span, CHANNEL_KEYS, None, problems);
    let latency = read_dist(table.text("latency").unwrap_or(LATENCY)).expect("the key's shape was checked");
    Some((Channel { line, name: table.text("name")?.to_owned(), latency }, table.value_span("name")))
}

/// The allowance under `key`; unlimited without it.
pub fn read_allowance(table: &Table, key: &str, problems: &mut Problems) -> Allowance {
    let Some((allowance, span)) = table.table(key) else { return Allowance::default() };
    if allowance.is_empty() {
        problems.add(span.clone(), Complaint::new(format!("`{key}` limits nothing")));
    }
    let allowance = Table::open("an allowance", allowance, span, ALLOWANCE_KEYS, None, problems);
    Allowance {
        requests_per_minute: allowance.count_u32("requests_per_minute"),
        tokens_per_minute: allowance.count_u32("tokens_per_minute"),
        concurrent: allowance.count_u32("concurrent"),
    }
}

fn read_chains(root: &Table, rules: &mut Rules, problems: &mut Problems) {
    let chains: Vec<ReadChain> = root
        .tables("chain")
        .into_iter()
        .filter_map(|(table, span)| entries::read_chain(table, span, problems))
        .collect();
    let places = chains.iter().map(|chain| (chain.rule.name.as_str(), chain.name_span.clone()));
    entries::check_unique("chain", places, problems);
    for chain in &chains {
        entries::check_chain(chain, &rules.providers, problems);
    }
    let implied = [implied_chat(&chains, &rules.providers), implied_embedding(&chains, &rules.providers)];
    for chain in implied.into_iter().flatten() {
        match chains.iter().find(|own| own.rule.name == chain.name) {
            Some(own) => {
                let message =
                    format!("{:?} is the name of the chain that is made when none of its use is given", chain.name);
                problems.add_absent(own.name_span.clone(), Complaint::new(message).help("give it another name"));
            }
            None => rules.chains.push(chain),
        }
    }
    rules.chains.extend(chains.into_iter().map(|chain| chain.rule));
}

fn implied_chat(chains: &[ReadChain], providers: &[ProviderRule]) -> Option<ChainRule> {
    let given = chains.iter().any(|chain| chain.rule.use_ == ChainUse::Chat);
    let able = providers.iter().filter(|provider| entries::can_chat(provider.api) && provider.dims.is_none());
    implied("default", ChainUse::Chat, given, able.collect())
}

/// Only providers that agree with the first in model and dims: vectors of others can't be compared with its own.
fn implied_embedding(chains: &[ReadChain], providers: &[ProviderRule]) -> Option<ChainRule> {
    let given = chains.iter().any(|chain| chain.rule.use_ == ChainUse::Embedding);
    let mut able: Vec<_> =
        providers.iter().filter(|provider| entries::can_embed(provider.api) && provider.dims.is_some()).collect();
    let first = able.first().map(|first| (first.models.first(), first.dims));
    able.retain(|provider| Some((provider.models.first(), provider.dims)) == first);
    implied("embedding", ChainUse::Embedding, given, able)
}

fn implied(name: &str, use_: ChainUse, given: bool, able: Vec<&ProviderRule>) -> Option<ChainRule> {
    let entries: Vec<String> = able.iter().map(|provider| provider.name.clone()).collect();
    (!given && !entries.is_empty()).then(|| ChainRule { name: name.into(), use_, entries, essential: false })
}
