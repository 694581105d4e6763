//! An expectation as one line for people: "cloud reaches FALLBACK within 0s..90s".
//!
//! **Source:** harness.md (`expectations` of the verdict).

use super::types::{Bound, EventFilter, Expectation};

/// Times as the file has them, so that the line shows what its author wrote.
#[derive(Clone, Debug, Default)]
pub struct Times {
    pub at: Option<String>,
    pub window: Option<String>,
}

pub fn text_of_expectation(what: &Expectation, times: &Times) -> String {
    let at = times.at.as_deref().unwrap_or_default();
    let window = times.window.as_deref().unwrap_or_default();
    let during = times.window.as_ref().map(|window| format!(" during {window}")).unwrap_or_default();
    match what {
        Expectation::Is { axis, level, .. } => format!("{axis} is {level} at {at}"),
        Expectation::Reaches { axis, level, .. } => format!("{axis} reaches {level} within {window}"),
        Expectation::Stays { axis, level, .. } => format!("{axis} stays {level}{during}"),
        Expectation::Never { axis, level, .. } => format!("{axis} is never {level}{during}"),
        Expectation::Levels { axis, levels, .. } => {
            let levels: Vec<&str> = levels.iter().map(|level| level.name()).collect();
            format!("{axis} takes exactly the levels {}{during}", levels.join(", "))
        }
        Expectation::Metric { metric, bound, .. } => format!("{metric} is {}{during}", amount(bound)),
        Expectation::Status { path, bound, .. } => format!("status {path} is {} at {at}", amount(bound)),
        Expectation::Outside { what, bound, .. } => format!("outside {what} is {} at {at}", amount(bound)),
        Expectation::Event { filter, count, .. } => {
            format!("event {} happens {} times{during}", filtered(filter), amount(count))
        }
        Expectation::Order(filters) => {
            let steps: Vec<String> = filters.iter().map(filtered).collect();
            format!("first {}", steps.join(", then "))
        }
        Expectation::Sometimes(name) => format!("{name} happens in some run"),
    }
}

fn amount(bound: &Bound) -> String {
    let Bound { at_least, at_most, equals } = bound;
    match (at_least, at_most, equals) {
        (Some(low), Some(high), _) => format!("{low} to {high}"),
        (Some(low), None, _) => format!("at least {low}"),
        (None, Some(high), _) => format!("at most {high}"),
        (None, None, Some(value)) => format!("exactly {value}"),
        (None, None, None) => "anything".into(),
    }
}

fn filtered(filter: &EventFilter) -> String {
    let fields: Vec<String> = filter
        .fields
        .iter()
        .map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name} = {text}"),
            None => format!("{name} = {value}"),
        })
        .collect();
    match fields.is_empty() {
        true => filter.event.clone(),
        false => format!("{} ({})", filter.event, fields.join(", ")),
    }
}
