//! The JSON Schema of scenario files (draft 2020-12), made from the same lists of keys that the reader checks against.
//!
//! `scenarios/scenario.schema.json` is this text; a test keeps it current. Tables with kinds become one branch per
//! kind, each closed, so that an editor offers the keys of the kind at hand.
//! **Source:** scenario.md (first paragraph).

use super::fault_keys::KINDS;
use super::read::ROOT_KEYS;
use serde_json::{Map, Value, json};
use squall::base::Span;
use squall::config::table::rows;
use squall::config::{Key, Keys, SETTINGS, Setting, Shape};

const SPAN_PATTERN: &str = r"^\s*(\d+(ms|s|m|h|d))+\s*$";
const BYTES_PATTERN: &str = r"^\s*\d+\s*(B|KiB|MiB|GiB)\s*$";

/// The schema as it is committed: indented, with a line break at its end.
pub fn schema_text() -> String {
    let mut text = serde_json::to_string_pretty(&schema()).expect("a schema has no keys that JSON lacks");
    text.push('\n');
    text
}

pub fn schema() -> Value {
    let mut schema = object([
        ("$schema", json!("https://json-schema.org/draft/2020-12/schema")),
        ("title", json!("squall scenario")),
        (
            "description",
            json!("One file is one outage drill: what breaks when, under which load, and what must be true."),
        ),
    ]);
    schema.extend(closed(ROOT_KEYS, None));
    schema["properties"]["engine"] = engine();
    Value::Object(schema)
}

/// The engine's settings by section.
fn engine() -> Value {
    let sections = Setting::sections().into_iter().map(|section| {
        let own = SETTINGS.iter().filter(|setting| setting.section() == section);
        let keys: Map<String, Value> = own
            .map(|setting| {
                let unit = if setting.unit.is_empty() { String::new() } else { format!(" Unit: {}.", setting.unit) };
                let doc = format!("{}{unit}", setting.doc);
                (
                    setting.key().to_owned(),
                    described(shape(setting.key(), &setting.shape), &doc, &setting.shape, setting.default),
                )
            })
            .collect();
        (section.to_owned(), json!({ "type": "object", "properties": keys, "additionalProperties": false }))
    });
    json!({
        "type": "object",
        "description": "The engine's configuration over its defaults.",
        "properties": Map::from_iter(sections),
        "additionalProperties": false,
    })
}

/// A table: closed, or one closed branch per kind.
fn table(keys: Keys) -> Value {
    if rows(keys).next().is_none() {
        return json!({ "type": "object" });
    }
    let kinds = kinds_of(keys);
    if kinds.is_empty() {
        return Value::Object(closed(keys, None));
    }
    let branches: Vec<Value> = kinds.into_iter().map(|kind| Value::Object(closed(keys, Some(kind)))).collect();
    json!({ "type": "object", "oneOf": branches })
}

/// The kinds that the table's keys belong to: all that its `kind` lists, else those its keys name.
fn kinds_of(keys: Keys) -> Vec<&'static str> {
    if let Some(Key { shape: Shape::OneOf(names), .. }) = rows(keys).find(|row| row.name == "kind") {
        return names.to_vec();
    }
    let mut kinds: Vec<&str> = Vec::new();
    for kind in rows(keys).flat_map(|row| row.kinds) {
        if !kinds.contains(kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn closed(keys: Keys, kind: Option<&'static str>) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for row in rows(keys).filter(|row| row.fits(kind)) {
        let mut value = described(shape(row.name, &row.shape), row.doc, &row.shape, row.default);
        if let (Some(kind), "kind") = (kind, row.name) {
            let unsupported = KINDS.iter().any(|(name, _, able)| *name == kind && !able);
            value = json!({ "const": kind, "description": if unsupported { "Not supported yet." } else { row.doc } });
        }
        properties.insert(row.name.to_owned(), value);
        if row.required {
            required.push(row.name);
        }
    }
    let mut table = object([("type", json!("object")), ("properties", Value::Object(properties))]);
    if !required.is_empty() {
        table.insert("required".into(), json!(required));
    }
    table.insert("additionalProperties".into(), json!(false));
    table
}

fn described(mut value: Value, doc: &str, shape: &Shape, default: &str) -> Value {
    value["description"] = json!(doc);
    if let Some(default) = default_value(shape, default) {
        value["default"] = default;
    }
    value
}

/// The default's text as a value of the shape; `None` where the sentence says it.
fn default_value(shape: &Shape, text: &str) -> Option<Value> {
    if text.is_empty() {
        return None;
    }
    match shape {
        Shape::Flag | Shape::Count { .. } | Shape::Number { .. } => serde_json::from_str(text).ok(),
        Shape::List { of, .. } => {
            let items = text.trim_matches(['[', ']']).split(',').map(str::trim).filter(|item| !item.is_empty());
            Some(items.filter_map(|item| default_value(of, item)).collect())
        }
        Shape::Text
        | Shape::FreeText
        | Shape::Span { .. }
        | Shape::Bytes { .. }
        | Shape::OneOf(_)
        | Shape::Written { .. }
        | Shape::Scalar => Some(json!(text)),
        Shape::OneOrList(of) => default_value(of, text),
        Shape::Either(_) => Some(json!(text)),
        Shape::Table(_) | Shape::Tables(_) => None,
    }
}

fn shape(key: &str, of: &Shape) -> Value {
    match of {
        Shape::Text => json!({ "type": "string", "pattern": r"\S" }),
        Shape::FreeText => json!({ "type": "string" }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Count { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Shape::Span { min, .. } => {
            let positive = if *min > Span::ZERO { "a duration above zero" } else { "a duration" };
            json!({ "type": "string", "pattern": SPAN_PATTERN, "title": positive })
        }
        Shape::Bytes { .. } => json!({ "type": "string", "pattern": BYTES_PATTERN, "title": "a size" }),
        Shape::OneOf(names) => json!({ "enum": names }),
        Shape::Written { what, pattern, .. } => json!({ "type": "string", "pattern": pattern, "title": what }),
        Shape::List { of, min, max } => {
            json!({ "type": "array", "items": shape(key, of), "minItems": min, "maxItems": max })
        }
        Shape::OneOrList(of) => {
            json!({ "anyOf": [shape(key, of), { "type": "array", "items": shape(key, of), "minItems": 1 }] })
        }
        Shape::Either(shapes) => json!({ "anyOf": shapes.iter().map(|of| shape(key, of)).collect::<Vec<_>>() }),
        Shape::Table(keys) => match key {
            "where" => json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } }),
            _ => table(keys),
        },
        Shape::Tables(keys) => json!({ "type": "array", "items": table(keys) }),
        Shape::Scalar => json!({ "type": ["string", "number", "boolean"] }),
    }
}

fn object<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::SAMPLES;
    use std::path::{Path, PathBuf};

    fn scenarios() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios")
    }

    #[test]
    fn the_committed_schema_is_the_one_the_reader_uses() {
        let committed = std::fs::read_to_string(scenarios().join("scenario.schema.json")).unwrap_or_default();
        assert!(
            committed == schema_text(),
            "it is not: write the output of `squall schema` to scenarios/scenario.schema.json"
        );
    }

    /// Says what of `value` the schema does not allow, by the keywords that this schema uses, patterns apart.
    fn refused(schema: &Value, value: &Value, path: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (keyword, rule) in schema.as_object().expect("a schema is an object") {
            match keyword.as_str() {
                "$schema" | "title" | "description" | "default" | "properties" | "pattern" => {}
                "type" => {
                    let fits = |name: &str| match name {
                        "object" => value.is_object(),
                        "array" => value.is_array(),
                        "string" => value.is_string(),
                        "integer" => value.is_i64() || value.is_u64(),
                        "number" => value.is_number(),
                        "boolean" => value.is_boolean(),
                        other => panic!("type {other}"),
                    };
                    let names = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                    if !names.iter().any(|name| fits(name.as_str().unwrap())) {
                        found.push(format!("{path}: not of type {rule}"));
                    }
                }
                "const" if value != rule => found.push(format!("{path}: not {rule}")),
                "enum" if !rule.as_array().unwrap().contains(value) => found.push(format!("{path}: none of {rule}")),
                "const" | "enum" => {}
                "minimum" if value.as_f64() < rule.as_f64() => found.push(format!("{path}: below {rule}")),
                "maximum" if value.as_f64() > rule.as_f64() => found.push(format!("{path}: above {rule}")),
                "minimum" | "maximum" | "maxItems" => {}
                "minItems" => {
                    if value.as_array().is_some_and(|items| (items.len() as u64) < rule.as_u64().unwrap()) {
                        found.push(format!("{path}: too short"));
                    }
                }
                "items" => {
                    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                        found.extend(refused(rule, item, &format!("{path}[{i}]")));
                    }
                }
                "required" => {
                    for key in rule.as_array().unwrap() {
                        if value.get(key.as_str().unwrap()).is_none() {
                            found.push(format!("{path}: no {key}"));
                        }
                    }
                }
                "additionalProperties" => {
                    for (key, inner) in value.as_object().into_iter().flatten() {
                        let path = format!("{path}.{key}");
                        match schema.get("properties").and_then(|own| own.get(key)) {
                            Some(own) => found.extend(refused(own, inner, &path)),
                            None if *rule == json!(false) => found.push(format!("{path}: unknown key")),
                            None => found.extend(refused(rule, inner, &path)),
                        }
                    }
                }
                "anyOf" | "oneOf" => {
                    let branches: Vec<Vec<String>> =
                        rule.as_array().unwrap().iter().map(|branch| refused(branch, value, path)).collect();
                    let fitting = branches.iter().filter(|found| found.is_empty()).count();
                    if fitting == 0 || (keyword == "oneOf" && fitting != 1) {
                        found.push(format!("{path}: fits {fitting} branches: {branches:?}"));
                    }
                }
                other => panic!("keyword {other}"),
            }
        }
        found
    }

    fn as_json(text: &str) -> Value {
        serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap()
    }

    #[test]
    fn every_sample_and_every_shipped_scenario_fits_the_schema() {
        let schema = schema();
        let mut files: Vec<(String, String)> = SAMPLES.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
        let mut folders = vec![scenarios()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "toml") {
                    files.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
                }
            }
        }
        for (name, text) in files {
            assert_eq!(refused(&schema, &as_json(&text), &name), Vec::<String>::new());
        }
    }

    #[test]
    fn the_schema_refuses_what_the_reader_refuses() {
        let schema = schema();
        for text in [
            "duration = \"1m\"\n",
            "title = \"t\"\nduration = 60\n",
            "title = \"t\"\nduration = \"1m\"\ntypo = 1\n",
            "title = \"t\"\nduration = \"1m\"\nengine.flap.hodl = \"1m\"\n",
            "title = \"t\"\nduration = \"1m\"\n[[load]]\nkind = \"status\"\nclass = \"foreground\"\n",
            "title = \"t\"\nduration = \"1m\"\n[[fault]]\nkind = \"slow\"\ntarget = \"a\"\nstatus = 503\n",
            "title = \"t\"\nduration = \"1m\"\n[[expect]]\naxis = \"cloud\"\nis = \"NORMAL\"\nwithin = [\"0s\", \"1s\"]\n",
            "title = \"t\"\nduration = \"1m\"\n[[expect]]\nsometimes = \"never\"\n",
        ] {
            assert!(!refused(&schema, &as_json(text), "").is_empty(), "{text}");
            assert!(crate::scenario::Scenario::read(text, "a").is_err(), "{text}");
        }
    }

    #[test]
    fn every_pattern_takes_the_text_the_reader_takes() {
        // No pattern engine here: only that each is anchored or looks for one character, so none is empty by mistake.
        fn patterns(value: &Value, found: &mut Vec<String>) {
            if let Some(pattern) = value.get("pattern").and_then(Value::as_str) {
                found.push(pattern.to_owned());
            }
            for inner in value.as_object().into_iter().flatten().map(|(_, inner)| inner) {
                patterns(inner, found);
            }
            for inner in value.as_array().into_iter().flatten() {
                patterns(inner, found);
            }
        }
        let mut found = Vec::new();
        patterns(&schema(), &mut found);
        assert!(found.len() > 50);
        assert!(found.iter().all(|pattern| pattern.starts_with('^') || pattern == r"\S"), "{found:?}");
    }
}
