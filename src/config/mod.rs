//! Reads the engine's configuration: `squall.toml`, a scenario's `[engine]` table, and single settings by path.
//!
//! Everything wrong in a file is said at once, with its place, what would be right and what was probably meant.
//! [`setting::SETTINGS`] is the one list of all keys; the parts (spans, shapes, tables) serve the scenario reader too.
//! **Source:** engine.md 12; scenario.md (first paragraph).

pub mod diagnostic;
pub mod entries;
pub mod parse;
pub mod setting;
pub mod shape;
pub mod show;
pub mod table;
mod url;

pub use diagnostic::{Complaint, Diagnostic};
pub use parse::{Problems, Source, with_tree};
pub use setting::{SETTINGS, Setting, contradictions};
pub use shape::{At, Key, Keys, Shape};
pub use table::Table;

use crate::base::Rules;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What `squall.toml` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub data_dir: String,
    /// Address and port of the HTTP server.
    pub listen: String,
    pub rules: Rules,
    /// Where each value is from, by its path (`"flap.hold"`, `"listen"`, `"provider.openai"`); absent: the default.
    pub origins: BTreeMap<String, Origin>,
}

/// Where a value is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The configuration file; lines count from 1.
    File { file: String, line: u32 },
    /// `--set` on the command line.
    CommandLine,
    /// The environment variable of this name.
    Environment(String),
}

impl Default for Config {
    fn default() -> Config {
        Config { data_dir: DATA_DIR.into(), listen: LISTEN.into(), rules: Rules::default(), origins: BTreeMap::new() }
    }
}

impl Config {
    /// Sets one key over whatever the file said: a setting by its path, `data_dir` or `listen`.
    ///
    /// **Errors:** an unknown key, or a value that does not fit; nothing is changed.
    pub fn set(&mut self, path: &str, value: &str) -> Result<(), Complaint> {
        match path {
            "data_dir" if value.is_empty() => return Err(Complaint::new("`data_dir` is empty")),
            "data_dir" => value.clone_into(&mut self.data_dir),
            "listen" => {
                check_listen(value)?;
                value.clone_into(&mut self.listen);
            }
            setting => set(&mut self.rules, setting, value)?,
        }
        self.origins.insert(path.to_owned(), Origin::CommandLine);
        Ok(())
    }
}

const DATA_DIR: &str = "./squall-data";
const LISTEN: &str = "127.0.0.1:7878";

/// The keys of a configuration file beside the sections of settings.
pub const FILE_KEYS: &[Key] = &[
    Key::optional("data_dir", Shape::Text, DATA_DIR, "Database, status file and ballast stand here."),
    Key::optional(
        "listen",
        Shape::Written { what: "an address with a port", pattern: r"^.+:\d+$", check: check_listen },
        LISTEN,
        "Address and port of the HTTP server.",
    ),
    Key::optional("provider", Shape::Tables(entries::PROVIDER_KEYS), "", "Whom calls can be sent to."),
    Key::optional("chain", Shape::Tables(entries::CHAIN_KEYS), "", "Who is asked, in which order."),
    Key::optional("channel", Shape::Tables(entries::CHANNEL_KEYS), "", "Where messages to the user go."),
];

/// Reads a whole configuration file.
///
/// **Errors:** everything that is wrong with it, in file order.
pub fn load(text: &str, file: &str) -> Result<Config, Vec<Diagnostic>> {
    let source = Source::new(file, text);
    with_tree(&source, |tree, problems| Some(read_file(tree, &source, problems)))
}

fn read_file(tree: &DeTable, source: &Source, problems: &mut Problems) -> Config {
    let own = |key: &Spanned<_>| FILE_KEYS.iter().any(|row| row.name == AsRef::<str>::as_ref(key.get_ref()));
    let (own, sections): (DeTable, DeTable) = tree.clone().into_iter().partition(|(key, _)| own(key));
    let table = Table::open("the file", &own, 0..0, &[FILE_KEYS], None, problems);
    let mut config = Config::default();
    let mut origins = BTreeMap::new();
    let mut from = |path: String, place: &Range<usize>| {
        origins.insert(path, Origin::File { file: source.file.to_owned(), line: source.line(place.start) });
    };
    for key in ["data_dir", "listen"] {
        if tree.contains_key(key) {
            from(key.to_owned(), &table.value_span(key));
        }
    }
    if let Some(dir) = table.text("data_dir") {
        config.data_dir = dir.to_owned();
    }
    if let Some(listen) = table.text("listen") {
        config.listen = listen.to_owned();
    }
    let rules = &mut config.rules;
    let others: Vec<&str> = FILE_KEYS.iter().map(|row| row.name).collect();
    for (path, place) in read_settings(&sections, &others, rules, problems) {
        from(path.to_owned(), &place);
    }

    let providers: Vec<_> = table
        .tables("provider")
        .into_iter()
        .filter_map(|(table, span)| entries::read_provider(table, span, problems))
        .collect();
    let names = providers.iter().map(|(rule, span)| (rule.name.as_str(), span.clone()));
    entries::check_unique("provider", names, problems);
    providers.iter().for_each(|(rule, place)| from(format!("provider.{}", rule.name), place));
    rules.providers = providers.into_iter().map(|(rule, _)| rule).collect();

    let chains: Vec<_> = table
        .tables("chain")
        .into_iter()
        .filter_map(|(table, span)| entries::read_chain(table, span, problems))
        .collect();
    let names = chains.iter().map(|chain| (chain.rule.name.as_str(), chain.name_span.clone()));
    entries::check_unique("chain", names, problems);
    for chain in &chains {
        from(format!("chain.{}", chain.rule.name), &chain.name_span);
        entries::check_chain(chain, &rules.providers, problems);
    }
    rules.chains = chains.into_iter().map(|chain| chain.rule).collect();

    let channels: Vec<_> = table
        .tables("channel")
        .into_iter()
        .filter_map(|(table, span)| entries::read_channel(table, span, problems))
        .collect();
    let names = channels.iter().map(|(rule, span)| (rule.name.as_str(), span.clone()));
    entries::check_unique("channel", names, problems);
    channels.iter().for_each(|(rule, place)| from(format!("channel.{}", rule.name), place));
    rules.channels = channels.into_iter().map(|(rule, _)| rule).collect();
    config.origins = origins;
    config
}

/// Reads the sections of settings in `table`, such as a scenario's `[engine]`, over `rules`.
pub fn apply_engine_table(table: &DeTable, rules: &mut Rules, problems: &mut Problems) {
    read_settings(table, &[], rules, problems);
}

/// Gives what was set, with its place. `others`: keys that the surrounding table may have too, for guesses at what was
/// meant.
fn read_settings(
    table: &DeTable,
    others: &[&str],
    rules: &mut Rules,
    problems: &mut Problems,
) -> Vec<(&'static str, Range<usize>)> {
    let mut places: Vec<(&'static str, Range<usize>)> = Vec::new();
    for (section, value) in table {
        let name = section.get_ref().as_ref();
        if !Setting::sections().contains(&name) {
            let allowed = others.iter().copied().chain(Setting::sections());
            let mut complaint = Complaint::unknown("section", name, allowed);
            if FILE_KEYS.iter().any(|row| row.name == name) && others.is_empty() {
                complaint = complaint.help("only the engine's settings stand here");
            }
            problems.add(section.span(), complaint);
            continue;
        }
        let DeValue::Table(keys) = value.get_ref() else {
            let message = format!("`{name}` is a section: write its keys under it, such as [{name}]");
            problems.add(value.span(), Complaint::new(message));
            continue;
        };
        for (key, value) in keys {
            match Setting::named(&format!("{name}.{}", key.get_ref())) {
                Some(setting) => {
                    setting.read(value, rules, problems);
                    places.push((setting.path, value.span()));
                }
                None => {
                    let own = SETTINGS.iter().filter(|setting| setting.section() == name).map(Setting::key);
                    problems.add(key.span(), Complaint::unknown(&format!("key of [{name}]"), key.get_ref(), own));
                }
            }
        }
    }
    for (small, large, complaint) in contradictions(rules) {
        let place = places.iter().filter(|(path, _)| *path == small || *path == large).max_by_key(|(_, at)| at.start);
        // What other layers of configuration said is theirs to answer for.
        if let Some((_, span)) = place {
            problems.add(span.clone(), complaint);
        }
    }
    places
}

/// Sets one setting by its path, as in `--set engine.flap.hold=5m` without the `engine.`; quotes are optional.
///
/// **Errors:** unknown path, or a value that does not fit; `rules` is unchanged. Whether settings contradict each
/// other is for [`contradictions`], once all of them are set.
pub fn set(rules: &mut Rules, path: &str, value: &str) -> Result<(), Complaint> {
    let Some(setting) = Setting::named(path) else {
        return Err(Complaint::unknown("setting", path, SETTINGS.iter().map(|setting| setting.path)));
    };
    let text = match setting.shape {
        Shape::List { .. } => quoted_items(value),
        Shape::Flag | Shape::Count { .. } | Shape::Number { .. } => value.to_owned(),
        Shape::Text
        | Shape::FreeText
        | Shape::Span { .. }
        | Shape::Bytes { .. }
        | Shape::OneOf(_)
        | Shape::Written { .. } => toml_string(value.trim().trim_matches('"')),
        Shape::OneOrList(_) | Shape::Either(_) | Shape::Table(_) | Shape::Tables(_) | Shape::Scalar => {
            unreachable!("no setting has this shape")
        }
    };
    let quoted = toml_string(value);
    let reading = DeValue::parse(&text).or_else(|_| DeValue::parse(&quoted));
    let reading = reading.expect("an escaped text is TOML");
    let mut problems = Problems::default();
    setting.read(&reading, rules, &mut problems);
    problems.into_first().map_or(Ok(()), Err)
}

/// `text` as a TOML string.
fn toml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\U{:08X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `[a, b]` or `a, b` as a list of texts.
fn quoted_items(text: &str) -> String {
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    let items =
        inner.split(',').map(str::trim).filter(|item| !item.is_empty()).map(|item| toml_string(item.trim_matches('"')));
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn check_listen(text: &str) -> Result<(), Complaint> {
    match text.parse::<std::net::SocketAddr>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Complaint::new(format!("{text:?} is no address with a port")).help("such as \"127.0.0.1:7878\"")),
    }
}

#[cfg(test)]
mod tests;
