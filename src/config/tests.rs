use super::*;
use crate::base::Span;
use crate::base::rules::{Api, ChainUse, FlapCount};

const GOOD: &str = r#"
data_dir = "/var/lib/squall"

[flap]
hold = "5m"
count = "runs"
exempt = ["cc"]

[recovery]
item_every = ["9s", "3s"]

[disk]
ballast = "32MiB"

[[provider]]
name = "openai"
api = "openai"
base_url = "https://api.openai.com"
key_env = "OPENAI_API_KEY"
models = ["gpt-4"]

[[provider]]
name = "local"
api = "ollama"
base_url = "http://127.0.0.1:11434"
models = ["nomic-embed-text"]
local = true
dims = 768

[[chain]]
name = "default"
use = "chat"
entries = ["openai/gpt-4", "local"]
essential = true

[[chain]]
name = "vectors"
use = "embedding"
entries = ["local"]

[[channel]]
name = "chat"
url = "https://hooks.example/a"
"#;

fn wrong(text: &str) -> Vec<(u32, String)> {
    load(text, "squall.toml").unwrap_err().into_iter().map(|d| (d.line, d.message)).collect()
}

#[test]
fn a_whole_file_is_read() {
    let config = load(GOOD, "squall.toml").unwrap();
    assert_eq!((config.data_dir.as_str(), config.listen.as_str()), ("/var/lib/squall", "127.0.0.1:7878"));
    let rules = &config.rules;
    assert_eq!(rules.flap.hold, Span::from_mins(5));
    assert_eq!(rules.flap.count, FlapCount::Runs);
    assert_eq!(rules.recovery.item_every, [Span::from_secs(9), Span::from_secs(3)]);
    assert_eq!(rules.disk.ballast, 32 << 20);
    assert_eq!(rules.flap.window, Rules::default().flap.window);
    assert_eq!(rules.providers.len(), 2);
    assert_eq!(rules.providers[1].api, Api::Ollama);
    assert!(rules.chains[0].essential && rules.chains[0].use_ == ChainUse::Chat);
    assert_eq!(rules.channels[0].url, "https://hooks.example/a");
}

#[test]
fn an_empty_file_means_the_defaults() {
    assert_eq!(load("", "squall.toml"), Ok(Config::default()));
}

#[test]
fn dotted_keys_and_nested_tables_mean_the_same() {
    let rules = |text: &str| load(text, "a").unwrap().rules;
    let dotted = rules("flap.hold = \"5m\"\n");
    assert_eq!(dotted, rules("[flap]\nhold = \"5m\"\n"));
    assert_eq!(dotted, rules("flap = { hold = \"5m\" }\n"));
}

#[test]
fn every_mistake_of_a_file_is_said_once_at_its_line() {
    let text = r#"listen = "nowhere"
[flap]
hold = 600
hodl = "5m"
[flop]
[breaker]
rate = 1.5
open = "2h"
[[provider]]
name = "a"
api = "opnai"
base_url = "http://a"
[[provider]]
name = "b"
api = "ollama"
base_url = "http://b/"
dims = 768
[[provider]]
name = "c"
api = "openai"
base_url = "http://c"
dims = 1024
[[chain]]
name = "x"
use = "chat"
entries = ["bb", "b/llama"]
[[chain]]
name = "x"
use = "embedding"
entries = ["b", "c"]
"#;
    let lines: Vec<u32> = wrong(text).iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 3, 4, 5, 7, 8, 11, 15, 16, 26, 26, 28, 30]);
}

#[test]
fn unknown_keys_sections_and_values_come_with_a_guess() {
    let guess = |text: &str| load(text, "a").unwrap_err()[0].suggestion.clone();
    assert_eq!(guess("[flap]\nhodl = \"5m\"\n").as_deref(), Some("hold"));
    assert_eq!(guess("[flop]\n").as_deref(), Some("flap"));
    assert_eq!(guess("[flap]\ncount = \"change\"\n").as_deref(), Some("changes"));
    assert_eq!(guess("data_dri = \"x\"\n").as_deref(), Some("data_dir"));
    assert_eq!(guess("[[providr]]\n").as_deref(), Some("provider"));
}

#[test]
fn an_embedding_chain_of_one_model_and_size_is_accepted_and_any_other_refused() {
    let file = |models: [&str; 2], dims: [u32; 2]| {
        format!(
            "[[provider]]\nname = \"a\"\napi = \"ollama\"\nbase_url = \"http://a\"\nmodels = [{:?}]\ndims = {}\n\
             [[provider]]\nname = \"b\"\napi = \"openai\"\nbase_url = \"http://b\"\nmodels = [{:?}]\ndims = {}\n\
             [[chain]]\nname = \"e\"\nuse = \"embedding\"\nentries = [\"a\", \"b\"]\n",
            models[0], dims[0], models[1], dims[1]
        )
    };
    assert!(load(&file(["m", "m"], [768, 768]), "a").is_ok());
    assert!(wrong(&file(["m", "n"], [768, 768]))[0].1.contains("differ"));
    assert!(wrong(&file(["m", "m"], [768, 1024]))[0].1.contains("differ"));
}

#[test]
fn anthropic_has_no_embeddings_and_a_vector_store_no_chat() {
    let file = |api: &str, use_: &str| {
        format!(
            "[[provider]]\nname = \"a\"\napi = {api:?}\nbase_url = \"http://a\"\ndims = 8\nmodels = [\"m\"]\n\
             [[chain]]\nname = \"e\"\nuse = {use_:?}\nentries = [\"a\"]\n"
        )
    };
    assert!(wrong(&file("anthropic", "embedding"))[0].1.contains("no embedding"));
    assert!(wrong(&file("qdrant", "chat"))[0].1.contains("no chat"));
    assert!(load(&file("openai", "embedding"), "a").is_ok());
}

#[test]
fn a_provider_whose_api_wants_a_model_must_declare_one() {
    let file = |api: &str, models: &str| {
        format!("[[provider]]\nname = \"a\"\napi = {api:?}\nbase_url = \"http://a\"\n{models}")
    };
    for api in ["anthropic", "mistral", "ollama"] {
        for models in ["", "models = []\n"] {
            assert_eq!(wrong(&file(api, models)), [(3, format!("a provider of api {api:?} needs `models`"))]);
        }
        assert!(load(&file(api, "models = [\"m\"]\n"), "a").is_ok());
        assert_eq!(wrong(&file(api, "models = [7]\n")).len(), 1, "one mistake, one complaint");
    }
    assert!(load(&file("openai", ""), "a").is_ok(), "a server with a single model needs no name for it");
}

#[test]
fn a_setting_is_set_by_its_path_with_or_without_quotes() {
    let mut rules = Rules::default();
    for (path, value) in [
        ("flap.hold", "5m"),
        ("flap.window", "\"20m\""),
        ("breaker.rate", "0.5"),
        ("queue.parallel", "8"),
        ("advisory.enabled", "false"),
        ("flap.exempt", "[cc, \"cloud\"]"),
        ("recovery.item_every", "9s, 3s"),
        ("disk.ballast", "1MiB"),
        ("notify.webhook_url", "http://hook/"),
        ("flap.count", "runs"),
    ] {
        set(&mut rules, path, value).unwrap_or_else(|complaint| panic!("{path}={value}: {complaint}"));
    }
    assert_eq!(rules.flap.hold, Span::from_mins(5));
    assert_eq!(rules.flap.window, Span::from_mins(20));
    assert_eq!(rules.flap.exempt.len(), 2);
    assert_eq!(rules.recovery.item_every, [Span::from_secs(9), Span::from_secs(3)]);
    assert!(!rules.advisory.enabled);
}

#[test]
fn a_setting_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut rules = Rules::default();
    for (path, value) in [
        ("flap.hodl", "5m"),
        ("flap.hold", "5"),
        ("flap.hold", "0s"),
        ("breaker.rate", "1.5"),
        ("breaker.rate", "nan"),
        ("queue.parallel", "0"),
        ("queue.parallel", "many"),
        ("retry.factor", "0.5"),
        ("retry.jitter", "-1"),
        ("advisory.enabled", "maybe"),
        ("advisory.evidence_chars_max", "39"),
        ("flap.exempt", "[clouds]"),
        ("recovery.item_every", "[]"),
        ("flap.count", "a\"b\\c\n\u{0}"),
    ] {
        assert!(set(&mut rules, path, value).is_err(), "{path}={value}");
    }
    assert_eq!(rules, Rules::default());
    let complaint = set(&mut rules, "flap.hodl", "5m").unwrap_err().to_string();
    assert!(complaint.contains("did you mean \"flap.hold\"?"), "{complaint}");
}

#[test]
fn settings_that_contradict_each_other_are_found_once_all_are_set() {
    let mut rules = Rules::default();
    set(&mut rules, "breaker.open", "1h").unwrap();
    assert_eq!(contradictions(&rules).len(), 1);
    set(&mut rules, "breaker.open_max", "2h").unwrap();
    assert!(contradictions(&rules).is_empty());
}

#[test]
fn an_address_may_end_with_the_version_as_documents_of_compatible_servers_give_it() {
    let read = |url: &str| {
        let text = format!("[[provider]]\nname = \"a\"\napi = \"openai\"\nbase_url = {url:?}\n");
        load(&text, "squall.toml").unwrap().rules.providers[0].base_url.clone()
    };
    assert_eq!(read("https://openrouter.ai/api/v1"), "https://openrouter.ai/api");
    assert_eq!(read("https://api.openai.com"), "https://api.openai.com");
}
