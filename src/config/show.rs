//! The effective configuration, as a file that says where each value is from, or as JSON.
//!
//! What [`toml`] prints is itself a configuration file: read again it gives the same configuration.
//! **Source:** engine.md 12.

use super::{Config, Origin, SETTINGS, Setting, entries, toml_string};
use serde::Serialize;

/// Values begin their comment here, where they are not longer.
const COMMENT_COLUMN: usize = 40;

/// One key, its value and its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Such as `"flap.hold"`.
    pub key: String,
    /// As TOML.
    pub value: String,
    pub default: String,
    /// `"default"`, `"FILE:LINE"`, `"--set"` or `"env NAME"`.
    pub from: String,
    pub unit: String,
    pub doc: String,
}

/// `data_dir`, `listen` and every setting, in the order of the documentation.
pub fn settings(config: &Config) -> Vec<Shown> {
    let defaults = Config::default();
    let own = [("data_dir", &config.data_dir, &defaults.data_dir), ("listen", &config.listen, &defaults.listen)];
    let own = own.map(|(key, value, default)| Shown {
        key: key.to_owned(),
        value: toml_string(value),
        default: toml_string(default),
        from: origin(config, key),
        unit: String::new(),
        doc: super::FILE_KEYS.iter().find(|row| row.name == key).map_or("", |row| row.doc).to_owned(),
    });
    let all = SETTINGS.iter().map(|setting| Shown {
        key: setting.path.to_owned(),
        value: setting.toml(&config.rules),
        default: setting.as_toml(setting.default),
        from: origin(config, setting.path),
        unit: setting.unit.to_owned(),
        doc: setting.doc.to_owned(),
    });
    own.into_iter().chain(all).collect()
}

fn origin(config: &Config, path: &str) -> String {
    match config.origins.get(path) {
        None => "default".to_owned(),
        Some(Origin::File { file, line }) => format!("{file}:{line}"),
        Some(Origin::CommandLine) => "--set".to_owned(),
        Some(Origin::Environment(name)) => format!("env {name}"),
    }
}

/// As a configuration file. `changed`: only what is not left at its default.
pub fn toml(config: &Config, changed: bool) -> String {
    let mut out = String::new();
    let mut section = "";
    let shown = settings(config);
    for row in shown.iter().filter(|row| !changed || row.from != "default") {
        let key = match Setting::named(&row.key) {
            Some(setting) => {
                if setting.section() != section {
                    section = setting.section();
                    out.push_str(&format!("\n[{section}]\n"));
                }
                setting.key()
            }
            None => row.key.as_str(),
        };
        let said = format!("{key} = {}", row.value);
        let was = if row.value == row.default { String::new() } else { format!(" (default {})", row.default) };
        out.push_str(&format!("{said:COMMENT_COLUMN$} # {}{was}\n", row.from));
    }
    for provider in &config.rules.providers {
        let pairs = [
            ("name", toml_string(&provider.name)),
            ("api", toml_string(provider.api.name())),
            ("base_url", toml_string(&provider.base_url)),
            ("key_env", toml_string(&provider.key_env)),
            ("models", strings(&provider.models)),
            ("local", provider.local.to_string()),
            ("enabled", provider.enabled.to_string()),
        ];
        let dims = provider.dims.map(|dims| ("dims", dims.to_string()));
        out.push_str(&block(
            "provider",
            &origin(config, &format!("provider.{}", provider.name)),
            pairs.into_iter().chain(dims),
        ));
    }
    for chain in &config.rules.chains {
        let pairs = [
            ("name", toml_string(&chain.name)),
            ("use", toml_string(entries::use_name(chain.use_))),
            ("entries", strings(&chain.entries)),
            ("essential", chain.essential.to_string()),
        ];
        out.push_str(&block("chain", &origin(config, &format!("chain.{}", chain.name)), pairs));
    }
    for channel in &config.rules.channels {
        let pairs = [("name", toml_string(&channel.name)), ("url", toml_string(&channel.url))];
        out.push_str(&block("channel", &origin(config, &format!("channel.{}", channel.name)), pairs));
    }
    out.trim_start().to_owned()
}

fn block<'k>(table: &str, from: &str, pairs: impl IntoIterator<Item = (&'k str, String)>) -> String {
    let header = format!("[[{table}]]");
    let mut out = format!("\n{header:COMMENT_COLUMN$} # {from}\n");
    for (key, value) in pairs {
        out.push_str(&format!("{key} = {value}\n"));
    }
    out
}

fn strings(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| toml_string(item)).collect();
    format!("[{}]", items.join(", "))
}

/// As one JSON object: `settings` with their origins, and the tables as the engine sees them.
pub fn json(config: &Config) -> String {
    let rules = &config.rules;
    let value = serde_json::json!({
        "settings": settings(config),
        "providers": rules.providers,
        "chains": rules.chains,
        "channels": rules.channels,
    });
    serde_json::to_string_pretty(&value).expect("plain values are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    #[test]
    fn what_is_shown_reads_back_as_the_same_configuration() {
        let text = "listen = \"127.0.0.1:1\"\n[flap]\nhold = \"5m\"\nexempt = [\"cc\"]\n[recovery]\nitem_every = [\"9s\"]\n\
                    [[provider]]\nname = \"a\"\napi = \"openai\"\nbase_url = \"http://a\"\nmodels = [\"m\"]\ndims = 8\n\
                    [[chain]]\nname = \"c\"\nuse = \"chat\"\nentries = [\"a/m\"]\n\
                    [[channel]]\nname = \"h\"\nurl = \"http://h/x\"\n";
        let config = load(text, "squall.toml").unwrap();
        for changed in [false, true] {
            let again = load(&toml(&config, changed), "shown.toml").unwrap();
            assert_eq!((&again.rules, &again.listen), (&config.rules, &config.listen));
        }
    }

    #[test]
    fn every_value_says_where_it_is_from() {
        let mut config = load("[flap]\nhold = \"5m\"\n", "squall.toml").unwrap();
        config.set("breaker.open", "90s").unwrap();
        config.set("listen", "127.0.0.1:9").unwrap();
        let from = |key: &str| settings(&config).into_iter().find(|row| row.key == key).unwrap().from;
        assert_eq!(from("flap.hold"), "squall.toml:2");
        assert_eq!(from("breaker.open"), "--set");
        assert_eq!(from("listen"), "--set");
        assert_eq!(from("flap.window"), "default");
        assert!(
            toml(&config, true)
                .contains("hold = \"5m\"                              # squall.toml:2 (default \"10m\")")
        );
        assert!(config.set("listen", "nowhere").is_err() && config.set("flap.holt", "1m").is_err());
    }
}
