//! Reads one table against the list of its keys.
//!
//! [`Table::open`] says everything that is wrong with the table's keys and values; after it the accessors give values
//! that have their shape, or nothing where the key is absent or was refused.

use super::diagnostic::Complaint;
use super::parse::Problems;
use super::shape::{At, Key, Keys, integer, number, parse_bytes};
use crate::base::Span;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table whose keys were checked.
pub struct Table<'t> {
    /// As people know it, such as `[[fault]]`.
    pub name: &'static str,
    /// Its header, or its braces.
    pub span: Range<usize>,
    keys: Keys,
    kind: Option<&'t str>,
    values: BTreeMap<&'static str, Value<'t>>,
}

struct Value<'t> {
    key_span: Range<usize>,
    item: &'t Spanned<DeValue<'t>>,
    good: bool,
}

impl<'t> Table<'t> {
    /// Checks `table` against `keys`; `kind` narrows them to those of one kind.
    pub fn open(
        name: &'static str,
        table: &'t DeTable<'t>,
        span: Range<usize>,
        keys: Keys,
        kind: Option<&'t str>,
        problems: &mut Problems,
    ) -> Table<'t> {
        let mut values = BTreeMap::new();
        for (key, item) in table {
            let given = key.get_ref().as_ref();
            let rows: Vec<&Key> = rows(keys).filter(|row| row.name == given).collect();
            let Some(row) = rows.iter().find(|row| row.fits(kind)) else {
                problems.add(key.span(), misplaced(name, given, kind, keys, &rows));
                continue;
            };
            // Without a kind it is not known which of several shapes is meant.
            let sure = kind.is_some() || rows.len() == 1;
            let good = sure && row.shape.check(given, item, problems);
            values.insert(row.name, Value { key_span: key.span(), item, good });
        }
        for row in rows(keys).filter(|row| row.required && row.fits(kind)) {
            // Without a kind it is not known whether a key of some kinds only is missing.
            let sure = kind.is_some() || row.kinds.is_empty();
            if sure && !values.contains_key(row.name) {
                let of = kind.filter(|_| !row.kinds.is_empty()).map(|kind| format!(" of kind {kind:?}"));
                let of = of.unwrap_or_default();
                let message = format!("{name}{of} needs `{}`", row.name);
                let help = format!("{} It is {}.", row.doc, row.shape.describe());
                problems.add_absent(span.clone(), Complaint::new(message).help(help));
            }
        }
        Table { name, span, keys, kind, values }
    }

    /// The value of `key` if it is good. Asking for a key that no list has is a bug.
    pub fn item(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        let known = rows(self.keys).any(|row| row.name == key);
        assert!(known, "{} is read for `{key}`, which its list of keys does not have", self.name);
        self.values.get(key).filter(|value| value.good).map(|value| value.item)
    }

    /// Whether the key stands there, good or not.
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Whether the key stands there and was refused.
    pub fn is_bad(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(|value| !value.good)
    }

    pub fn kind(&self) -> Option<&'t str> {
        self.kind
    }

    /// Where the key stands; the table's own place without it.
    pub fn key_span(&self, key: &str) -> Range<usize> {
        self.values.get(key).map_or(self.span.clone(), |value| value.key_span.clone())
    }

    /// Where the value stands; the table's own place without it.
    pub fn value_span(&self, key: &str) -> Range<usize> {
        self.values.get(key).map_or(self.span.clone(), |value| value.item.span())
    }

    pub fn text(&self, key: &str) -> Option<&'t str> {
        self.item(key).and_then(text_of)
    }

    pub fn text_at(&self, key: &str) -> Option<At<&'t str>> {
        self.item(key).and_then(|item| Some(At { value: text_of(item)?, span: item.span() }))
    }

    pub fn flag(&self, key: &str) -> Option<bool> {
        self.item(key).and_then(|item| item.get_ref().as_bool())
    }

    pub fn count(&self, key: &str) -> Option<u64> {
        self.item(key).and_then(|item| integer(item.get_ref())).and_then(|number| u64::try_from(number).ok())
    }

    pub fn count_u32(&self, key: &str) -> Option<u32> {
        self.count(key).map(|count| u32::try_from(count).expect("the key's shape limits it"))
    }

    pub fn number(&self, key: &str) -> Option<f64> {
        self.item(key).and_then(|item| number(item.get_ref()))
    }

    pub fn time(&self, key: &str) -> Option<Span> {
        self.text(key).and_then(|text| text.parse().ok())
    }

    pub fn bytes(&self, key: &str) -> Option<u64> {
        self.text(key).and_then(parse_bytes)
    }

    /// The items of a list, or the one value; empty without the key.
    pub fn items(&self, key: &str) -> Vec<&'t Spanned<DeValue<'t>>> {
        self.item(key).map(items_of).unwrap_or_default()
    }

    /// The texts of a list, or the one text; empty without the key.
    pub fn texts(&self, key: &str) -> Vec<At<&'t str>> {
        let items = self.items(key).into_iter();
        items.filter_map(|item| Some(At { value: text_of(item)?, span: item.span() })).collect()
    }

    pub fn strings(&self, key: &str) -> Vec<String> {
        self.texts(key).into_iter().map(|text| text.value.to_owned()).collect()
    }

    /// The table under `key`, with its place.
    pub fn table(&self, key: &str) -> Option<(&'t DeTable<'t>, Range<usize>)> {
        self.item(key).and_then(|item| Some((item.get_ref().as_table()?, item.span())))
    }

    /// The tables of a list under `key`, with their places.
    pub fn tables(&self, key: &str) -> Vec<(&'t DeTable<'t>, Range<usize>)> {
        let items = self.items(key).into_iter();
        items.filter_map(|item| Some((item.get_ref().as_table()?, item.span()))).collect()
    }

    /// Exactly one of `keys` must stand there; gives it, if it does.
    pub fn exactly_one(&self, keys: &[&'static str], problems: &mut Problems) -> Option<&'static str> {
        let mut there: Vec<&'static str> = keys.iter().copied().filter(|key| self.has(key)).collect();
        there.sort_by_key(|key| self.key_span(key).start);
        let listed = keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        for more in there.iter().skip(1) {
            let message = format!("`{}` and `{more}` exclude each other", there[0]);
            problems.add(self.key_span(more), Complaint::new(message).help(format!("keep one of {listed}")));
        }
        if there.is_empty() {
            let of = self.kind.map(|kind| format!(" of kind {kind:?}")).unwrap_or_default();
            problems.add_absent(self.span.clone(), Complaint::new(format!("{}{of} needs one of {listed}", self.name)));
        }
        (there.len() == 1).then(|| there[0])
    }
}

pub fn rows(keys: Keys) -> impl Iterator<Item = &'static Key> {
    keys.iter().flat_map(|part| part.iter())
}

pub fn text_of<'t>(item: &'t Spanned<DeValue<'t>>) -> Option<&'t str> {
    item.get_ref().as_str()
}

fn items_of<'t>(item: &'t Spanned<DeValue<'t>>) -> Vec<&'t Spanned<DeValue<'t>>> {
    match item.get_ref().as_array() {
        Some(items) => items.iter().collect(),
        None => vec![item],
    }
}

/// Why a key can't stand in this table.
fn misplaced(name: &str, given: &str, kind: Option<&str>, keys: Keys, rows_of_name: &[&Key]) -> Complaint {
    let mut allowed: Vec<&str> = Vec::new();
    for row in rows(keys).filter(|row| row.fits(kind)) {
        if !allowed.contains(&row.name) {
            allowed.push(row.name);
        }
    }
    match kind {
        Some(kind) if !rows_of_name.is_empty() => {
            let mut having: Vec<&str> = Vec::new();
            for kind in rows_of_name.iter().flat_map(|row| row.kinds) {
                if !having.contains(kind) {
                    having.push(kind);
                }
            }
            let message = format!("`{given}` does not belong to {name} of kind {kind:?}");
            let mut complaint = Complaint::new(message).help(format!("kinds that have it: {}", having.join(", ")));
            complaint.allowed = allowed.into_iter().map(str::to_owned).collect();
            complaint
        }
        Some(_) | None => Complaint::unknown("key", given, allowed.iter()).in_table(name),
    }
}

impl Complaint {
    fn in_table(mut self, name: &str) -> Complaint {
        self.message.push_str(" in ");
        self.message.push_str(name);
        self
    }
}
