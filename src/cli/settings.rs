//! Puts the configuration together from file, environment and `--set`, and shows it.

use super::Format;
use crate::advisory::switch;
use crate::config::{self, Config, Origin, contradictions, show};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Where transitions are posted to; the first variable that is set counts, an empty one means nowhere.
const WEBHOOK_VARIABLES: [&str; 2] = ["SQUALL_STATUS_WEBHOOK_URL", "GENESIS_STATUS_WEBHOOK_URL"];
const WEBHOOK_KEY: &str = "notify.webhook_url";

/// Later ones win: defaults, the file, the environment, `sets`.
///
/// **Errors:** everything that is wrong, as text for a terminal.
pub fn read(file: Option<&Path>, sets: &[String], env: &dyn Fn(&str) -> Option<String>) -> Result<Config, String> {
    let mut config = match file {
        None => Config::default(),
        Some(path) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| unreadable(&name, &error))?;
            config::load(&text, &name).map_err(|diagnostics| {
                let shown: Vec<String> = diagnostics.iter().map(|one| format!("{}\n", one.render(false))).collect();
                shown.concat()
            })?
        }
    };
    if let Some((name, value)) = switch::VARIABLES.into_iter().find_map(|name| Some((name, env(name)?))) {
        config.rules.advisory.enabled = switch::parse(&value).unwrap_or_else(|error| {
            eprintln!("squalld: {name}: {error}");
            true
        });
        config.origins.insert("advisory.enabled".to_owned(), Origin::Environment(name.to_owned()));
    }
    let mut complaints = String::new();
    if let Some((name, value)) = WEBHOOK_VARIABLES.into_iter().find_map(|name| Some((name, env(name)?))) {
        match config::set(&mut config.rules, WEBHOOK_KEY, value.trim()) {
            Ok(()) => _ = config.origins.insert(WEBHOOK_KEY.to_owned(), Origin::Environment(name.to_owned())),
            Err(complaint) => _ = writeln!(complaints, "squalld: {name}: {complaint}"),
        }
    }
    for given in sets {
        let said = match given.split_once('=') {
            Some((key, value)) => config.set(key.trim(), value.trim()).map_err(|complaint| complaint.to_string()),
            None => Err("it has no `=`; write KEY=VALUE, such as flap.hold=5m".to_owned()),
        };
        if let Err(why) = said {
            let _ = writeln!(complaints, "squalld: --set {given}: {why}");
        }
    }
    if complaints.is_empty() {
        for (_, _, complaint) in contradictions(&config.rules) {
            let _ = writeln!(complaints, "squalld: {complaint}");
        }
    }
    if complaints.is_empty() { Ok(config) } else { Err(complaints) }
}

fn unreadable(name: &str, error: &std::io::Error) -> String {
    let mut text = format!("squalld: {name} cannot be read: {error}\n");
    if error.kind() == std::io::ErrorKind::NotFound {
        text.push_str("  deploy/squall.toml is an example; `squalld config show` prints all defaults as a file\n");
    }
    text
}

pub(super) fn show(config: &Config, changed: bool, format: Format) -> ExitCode {
    let text = match format {
        Format::Toml => show::toml(config, changed),
        Format::Json => show::json(config),
    };
    print(text.trim_end())
}

pub(super) fn checked(config: &Config, path: &Path) -> ExitCode {
    let rules = &config.rules;
    print(&format!(
        "{}: good; {} providers, {} chains, {} channels, {} values of its own",
        path.display(),
        rules.providers.len(),
        rules.chains.len(),
        rules.channels.len(),
        show::settings(config).iter().filter(|row| row.from != "default").count(),
    ))
}

/// A reader that has gone away (`| head`) is no failure.
fn print(text: &str) -> ExitCode {
    use std::io::Write as _;
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("squalld: stdout: {error}");
            ExitCode::FAILURE
        }
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}
