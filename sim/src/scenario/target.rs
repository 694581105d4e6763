//! Whom a fault hits: words and names become [`Target`]s, or complaints.
//!
//! **Source:** scenario.md (`target`).

use super::fault_keys::{BODIES, Group};
use super::surroundings::{Surroundings, api_name};
use super::types::{Provider, ServerApi, Target};
use super::vocabulary::has_refusal;
use squall::base::rules::{ChainUse, ProviderRule};
use squall::config::entries::find_entry;
use squall::config::{At, Complaint, Problems};

/// What a fault of some kind can be aimed at.
pub struct Aim<'k> {
    pub kind: &'k str,
    pub group: Group,
    /// Of a fault of kind garbage.
    pub body: Option<&'k str>,
    /// Of a fault of kind errors that names one.
    pub refusal: Option<&'k str>,
}

/// Words that stand for parts of the world that no fault can hit yet.
const UNSUPPORTED: [&str; 3] = ["disk", "engine", "clock"];

/// Kinds of answers that a channel's server can give too.
const CHANNEL_KINDS: [&str; 3] = ["errors", "hang", "slow"];
/// Kinds of answers that sessions get from the server they work at.
const SESSION_KINDS: [&str; 4] = ["session_limit", "errors", "hang", "slow"];

/// Kinds of answers that a webhook's receiver can give. It streams nothing and has no allowance.
const WEBHOOK_KINDS: [&str; 7] = ["errors", "hang", "slow", "cut", "garbage", "poison", "storm"];

pub fn read_targets(targets: &[At<&str>], aim: &Aim, around: &Surroundings, problems: &mut Problems) -> Vec<Target> {
    let read = |target| {
        let found = read_target(target, aim, around, problems)?;
        check_sense(target, &found, aim, around, problems);
        Some(found)
    };
    targets.iter().filter_map(read).collect()
}

/// A fault that can't do anything to those it is aimed at is a mistake.
fn check_sense(at: &At<&str>, target: &Target, aim: &Aim, around: &Surroundings, problems: &mut Problems) {
    let hit: Vec<&Provider> = around.providers.iter().filter(|provider| is_meant(target, provider, around)).collect();
    let any_in = |use_| hit.iter().any(|provider| is_in_chain(around, use_, &provider.name));
    let text = at.value;
    let mut wrong = |message: String, help: &str| {
        problems.add_absent(at.span.clone(), Complaint::new(message).help(help.to_owned()));
    };
    if aim.body.is_some_and(|body| BODIES[3..].contains(&body)) && !any_in(ChainUse::Embedding) {
        let body = aim.body.unwrap_or_default();
        wrong(format!("body {body:?} is for embeddings, and {text:?} gives none"), "aim it at an embedding provider");
    }
    if aim.kind == "stream_error" && !any_in(ChainUse::Chat) {
        wrong(format!("only chat is streamed, and {text:?} has none"), "aim it at a provider of a chat chain");
    }
    let Some(refusal) = aim.refusal else { return };
    if let Some(other) = hit.iter().find(|provider| !has_refusal(provider.api, refusal)) {
        let message = format!("{:?} speaks {}, which has no refusal {refusal:?}", other.name, api_name(other.api));
        wrong(message, "name the providers that have it, or another refusal");
    } else if !has_refusal(ServerApi::Openai, refusal) && hits_channels(target, around) {
        wrong(format!("a channel has no refusal {refusal:?}"), "name the providers that have it");
    }
}

fn is_meant(target: &Target, provider: &Provider, around: &Surroundings) -> bool {
    match target {
        Target::Provider(name) | Target::Model { provider: name, .. } => provider.name == *name,
        Target::Llm => is_in_chain(around, ChainUse::Chat, &provider.name),
        Target::Embedding => is_in_chain(around, ChainUse::Embedding, &provider.name),
        Target::Internet => !provider.local,
        Target::Webhook => provider.api == ServerApi::Webhook,
        Target::Channel(_) => false,
    }
}

fn hits_channels(target: &Target, around: &Surroundings) -> bool {
    match target {
        Target::Channel(_) => true,
        Target::Internet => !around.channels.is_empty(),
        Target::Provider(_) | Target::Model { .. } | Target::Llm | Target::Embedding | Target::Webhook => false,
    }
}

fn read_target(target: &At<&str>, aim: &Aim, around: &Surroundings, problems: &mut Problems) -> Option<Target> {
    let text = target.value;
    let absent = |problems: &mut Problems, message: String| {
        problems.add_absent(target.span.clone(), Complaint::new(message));
        None
    };
    if UNSUPPORTED.contains(&text) {
        let known_as_server = around.providers.iter().any(|provider| provider.name == text);
        if !known_as_server {
            let message = format!("target {text:?} is not supported yet");
            problems.add(target.span.clone(), Complaint::new(message));
        }
        return None;
    }
    match text {
        "llm" if !around.rules.chains.iter().any(|chain| chain.use_ == ChainUse::Chat) => {
            absent(problems, "\"llm\" hits nobody: there is no chat chain".into())
        }
        "llm" => Some(Target::Llm),
        "embedding" if !around.rules.chains.iter().any(|chain| chain.use_ == ChainUse::Embedding) => {
            absent(problems, "\"embedding\" hits nobody: there is no embedding chain".into())
        }
        "embedding" => Some(Target::Embedding),
        "internet" if around.channels.is_empty() && around.providers.iter().all(|provider| provider.local) => {
            absent(problems, "\"internet\" hits nobody: there is no channel, and every provider is local".into())
        }
        "internet" => Some(Target::Internet),
        _ if around.channels.iter().any(|channel| channel.name == text) => {
            let able = can_have("a channel", &CHANNEL_KINDS, target, aim, problems);
            able.then(|| Target::Channel(text.to_owned()))
        }
        _ if around.providers.iter().any(|own| own.name == text && own.api == ServerApi::ClaudeCode) => {
            let able = can_have("a server of sessions", &SESSION_KINDS, target, aim, problems);
            able.then(|| Target::Provider(text.to_owned()))
        }
        _ if aim.kind == "session_limit" => {
            let message = format!("{text:?} is no server that sessions work at");
            let help =
                "name the provider of api \"claude-code\"; a drill with sessions that has none gets \"claude-code\"";
            problems.add_absent(target.span.clone(), Complaint::new(message).help(help));
            None
        }
        _ if text == "webhook" || webhooks(around).any(|provider| provider.name == text) => {
            if webhooks(around).next().is_none() {
                return absent(problems, "\"webhook\" hits nobody: there is no provider of api \"webhook\"".into());
            }
            let able = can_have("a webhook", &WEBHOOK_KINDS, target, aim, problems);
            able.then_some(Target::Webhook)
        }
        _ => {
            let (provider, model) = match text.contains('/') {
                true => find_entry(text, &around.rules.providers, &target.span, problems)?,
                false => (find_server(target, around, problems)?, None),
            };
            let Some(model) = model else { return Some(Target::Provider(provider.name.clone())) };
            if aim.group == Group::Network {
                let message = format!("a fault of kind {:?} hits a whole host, not one model", aim.kind);
                let help = format!("write {:?}", provider.name);
                problems.add(target.span.clone(), Complaint::new(message).help(help));
                return None;
            }
            Some(Target::Model { provider: provider.name.clone(), model: model.to_owned() })
        }
    }
}

/// Complains if not.
fn can_have(who: &str, kinds: &[&str], target: &At<&str>, aim: &Aim, problems: &mut Problems) -> bool {
    let able = aim.group == Group::Network || kinds.contains(&aim.kind);
    if !able {
        let message = format!("{who} can't have a fault of kind {:?}", aim.kind);
        let help = format!("it can have network faults, {}", kinds.join(", "));
        problems.add(target.span.clone(), Complaint::new(message).help(help));
    }
    able
}

fn webhooks(around: &Surroundings) -> impl Iterator<Item = &Provider> {
    around.providers.iter().filter(|provider| provider.api == ServerApi::Webhook)
}

fn find_server<'a>(target: &At<&str>, around: &'a Surroundings, problems: &mut Problems) -> Option<&'a ProviderRule> {
    let found = around.rules.providers.iter().find(|provider| provider.name == target.value);
    if found.is_none() {
        let providers = around.providers.iter().map(|provider| provider.name.as_str());
        let channels = around.channels.iter().map(|channel| channel.name.as_str());
        let names = providers.chain(channels).chain(["llm", "embedding", "internet"]);
        problems.add_absent(target.span.clone(), Complaint::unknown("target", target.value, names));
    }
    found
}

fn is_in_chain(around: &Surroundings, use_: ChainUse, provider: &str) -> bool {
    let chains = around.rules.chains.iter().filter(|chain| chain.use_ == use_);
    chains.flat_map(|chain| around.rules.entries(chain)).any(|entry| entry.provider() == provider)
}
