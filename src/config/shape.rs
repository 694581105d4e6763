//! What a key may hold: one description that reads values, refuses wrong ones and becomes the schema.

use super::diagnostic::Complaint;
use super::parse::Problems;
use crate::base::Span;
use std::ops::Range;
use toml::Spanned;
use toml::de::DeValue;

/// The kind of value a key takes, limits included.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A text that is not empty.
    Text,
    /// A text that may be empty.
    FreeText,
    Flag,
    Count {
        min: u64,
        max: u64,
    },
    Number {
        min: f64,
        max: f64,
    },
    /// `"90s"`, `"2m30s"`.
    Span {
        min: Span,
        max: Span,
    },
    /// `"16MiB"`, `"64KiB"`, `"512B"`.
    Bytes {
        min: u64,
        max: u64,
    },
    OneOf(&'static [&'static str]),
    /// A text with a form of its own. `what` says it to people, `pattern` to a schema, `check` decides.
    Written {
        what: &'static str,
        pattern: &'static str,
        check: fn(&str) -> Result<(), Complaint>,
    },
    List {
        of: &'static Shape,
        min: usize,
        max: usize,
    },
    /// One value, or a list of them.
    OneOrList(&'static Shape),
    /// Several shapes that TOML's types tell apart.
    Either(&'static [Shape]),
    Table(Keys),
    Tables(Keys),
    /// A text, a number or a flag.
    Scalar,
}

/// The longest span a key takes: a year and a day.
pub const SPAN_MAX: Span = Span::from_days(366);

/// A list of a table's keys, in parts, so that tables can share some.
pub type Keys = &'static [&'static [Key]];

/// One key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub name: &'static str,
    pub shape: Shape,
    pub required: bool,
    /// The kinds of the table it belongs to; empty: all.
    pub kinds: &'static [&'static str],
    /// What holds without it, as text; empty: nothing, or the sentence says it.
    pub default: &'static str,
    pub doc: &'static str,
}

impl Key {
    pub const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Key {
        Key { name, shape, required: true, kinds: &[], default: "", doc }
    }
    pub const fn optional(name: &'static str, shape: Shape, default: &'static str, doc: &'static str) -> Key {
        Key { name, shape, required: false, kinds: &[], default, doc }
    }
    /// Only in tables of these kinds.
    pub const fn only(mut self, kinds: &'static [&'static str]) -> Key {
        self.kinds = kinds;
        self
    }
    pub fn fits(&self, kind: Option<&str>) -> bool {
        self.kinds.is_empty() || kind.is_none_or(|kind| self.kinds.contains(&kind))
    }
}

impl Shape {
    pub const fn count(min: u64) -> Shape {
        Shape::Count { min, max: u32::MAX as u64 }
    }
    /// A share of something.
    pub const RATIO: Shape = Shape::Number { min: 0.0, max: 1.0 };
    pub const SPAN: Shape = Shape::Span { min: Span::ZERO, max: SPAN_MAX };
    pub const SPAN_POSITIVE: Shape = Shape::Span { min: Span::from_ms(1), max: SPAN_MAX };
    pub const TEXTS: Shape = Shape::List { of: &Shape::Text, min: 0, max: 1_000 };

    /// For people, after "must be".
    pub fn describe(&self) -> String {
        match self {
            Shape::Text => "a text".into(),
            Shape::FreeText => "a text".into(),
            Shape::Flag => "true or false".into(),
            Shape::Count { .. } => "a whole number".into(),
            Shape::Number { .. } => "a number".into(),
            Shape::Span { .. } => "a duration such as \"90s\" or \"2m30s\"".into(),
            Shape::Bytes { .. } => "a size such as \"16MiB\"".into(),
            Shape::OneOf(names) => format!("one of {}", names.join(", ")),
            Shape::Written { what, .. } => (*what).into(),
            Shape::List { of, .. } => format!("a list, each {}", of.describe()),
            Shape::OneOrList(of) => format!("{}, or a list of such", of.describe()),
            Shape::Either(shapes) => shapes.iter().map(Shape::describe).collect::<Vec<_>>().join(", or "),
            Shape::Table(_) => "a table".into(),
            Shape::Tables(_) => "a list of tables".into(),
            Shape::Scalar => "a text, a number, or true or false".into(),
        }
    }

    /// Checks `value`, itself and its parts; tells whether nothing was wrong. Tables are only checked to be tables:
    /// their readers open them.
    pub fn check(&self, key: &str, value: &Spanned<DeValue>, problems: &mut Problems) -> bool {
        let before = problems.len();
        let list = if let Shape::List { of, min, max } = self {
            Some((*of, *min, *max))
        } else if let Shape::OneOrList(of) = self {
            Some((*of, 1, LIST_MAX))
        } else {
            None
        };
        if let (Some((of, min, max)), DeValue::Array(items)) = (list, value.get_ref()) {
            if items.len() < min || items.len() > max {
                let message = format!("`{key}` takes {min} to {max} values, not {}", items.len());
                problems.add(value.span(), Complaint::new(message));
            }
            for item in items.iter().take(max) {
                of.check(key, item, problems);
            }
        } else if let Err(complaint) = self.check_one(key, value.get_ref()) {
            problems.add(value.span(), complaint);
        }
        problems.len() == before
    }

    fn check_one(&self, key: &str, value: &DeValue) -> Result<(), Complaint> {
        let wrong = || {
            let found = value.type_str();
            Complaint::new(format!("`{key}` must be {}, not a value of type {found}", self.describe()))
        };
        let quoted = |text: String| wrong().help(format!("write \"{text}s\", with quotes and a unit"));
        match (self, value) {
            (Shape::Text, DeValue::String(text)) if text.trim().is_empty() => {
                Err(Complaint::new(format!("`{key}` is empty")))
            }
            (Shape::Text | Shape::FreeText, DeValue::String(_)) => Ok(()),
            (Shape::Flag, DeValue::Boolean(_)) => Ok(()),
            (Shape::Count { min, max }, DeValue::Integer(_)) => match integer(value) {
                Some(number) if (i128::from(*min)..=i128::from(*max)).contains(&number) => Ok(()),
                Some(_) | None => Err(out_of_range(key, &shown(value), min, max)),
            },
            (Shape::Number { min, max }, DeValue::Integer(_) | DeValue::Float(_)) => match number(value) {
                Some(number) if (*min..=*max).contains(&number) => Ok(()),
                Some(_) | None => Err(out_of_range(key, &shown(value), min, max)),
            },
            (Shape::Span { .. }, DeValue::Integer(number)) => Err(quoted(number.to_string())),
            (Shape::Span { min, max }, DeValue::String(text)) => match text.parse::<Span>() {
                Ok(span) if (*min..=*max).contains(&span) => Ok(()),
                Ok(_) => Err(out_of_range(key, text, min, max)),
                Err(error) => Err(Complaint::new(format!("`{key}`: {error}"))),
            },
            (Shape::Bytes { min, max }, DeValue::String(text)) => match parse_bytes(text) {
                Some(bytes) if (*min..=*max).contains(&bytes) => Ok(()),
                Some(_) => Err(out_of_range(key, text, &show_bytes(*min), &show_bytes(*max))),
                None => Err(Complaint::new(format!("`{key}`: {text:?} is no size"))
                    .help("write a whole number and a unit (B, KiB, MiB, GiB), such as \"16MiB\"")),
            },
            (Shape::OneOf(names), DeValue::String(text)) => match names.contains(&text.as_ref()) {
                true => Ok(()),
                false => Err(Complaint::new(format!("unknown value {text:?} for `{key}`")).closest(text, *names)),
            },
            (Shape::Written { check, .. }, DeValue::String(text)) => check(text),
            (Shape::Written { what, .. }, DeValue::Integer(number)) if what.contains("duration") => {
                Err(quoted(number.to_string()))
            }
            (Shape::OneOrList(of), _) => of.check_one(key, value),
            (Shape::Either(shapes), _) => {
                let fits = shapes.iter().find(|shape| shape.takes_type_of(value));
                fits.ok_or_else(wrong)?.check_one(key, value)
            }
            (Shape::Table(_), DeValue::Table(_)) => Ok(()),
            (Shape::Tables(_), DeValue::Array(items)) if items.iter().all(|item| item.get_ref().is_table()) => Ok(()),
            (Shape::Tables(_), DeValue::Table(_)) => {
                Err(wrong().help(format!("write [[{key}]], with two brackets on each side")))
            }
            (Shape::Scalar, DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_)) => {
                match value.is_integer() || value.is_float() {
                    true if number(value).is_none_or(|number| !number.is_finite()) => Err(wrong()),
                    true | false => Ok(()),
                }
            }
            (_, _) => Err(wrong()),
        }
    }

    fn takes_type_of(&self, value: &DeValue) -> bool {
        match self {
            Shape::Text
            | Shape::FreeText
            | Shape::Span { .. }
            | Shape::Bytes { .. }
            | Shape::OneOf(_)
            | Shape::Written { .. } => value.is_str(),
            Shape::Flag => value.is_bool(),
            Shape::Count { .. } => value.is_integer(),
            Shape::Number { .. } => value.is_integer() || value.is_float(),
            Shape::List { .. } | Shape::Tables(_) => value.is_array(),
            Shape::OneOrList(of) => value.is_array() || of.takes_type_of(value),
            Shape::Either(shapes) => shapes.iter().any(|shape| shape.takes_type_of(value)),
            Shape::Table(_) => value.is_table(),
            Shape::Scalar => !value.is_array() && !value.is_table() && !value.is_datetime(),
        }
    }
}

/// The most values of a list that says no number of its own.
const LIST_MAX: usize = 1_000;

fn out_of_range(key: &str, given: &str, min: &dyn std::fmt::Display, max: &dyn std::fmt::Display) -> Complaint {
    Complaint::new(format!("`{key}` must be from {min} to {max}, not {given}"))
}

/// A number as written, without its quotes or separators.
fn shown(value: &DeValue) -> String {
    match value {
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::String(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            value.type_str().to_owned()
        }
    }
}

pub fn integer(value: &DeValue) -> Option<i128> {
    let integer = value.as_integer()?;
    i128::from_str_radix(integer.as_str(), integer.radix()).ok()
}

pub fn number(value: &DeValue) -> Option<f64> {
    match value.as_float() {
        Some(float) => float.as_str().parse().ok(),
        None => integer(value).map(|integer| integer as f64),
    }
}

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// `"16MiB"` as a number of bytes.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)))?;
    let number = number.trim_end();
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| number.parse::<u64>().ok()?.checked_mul(unit)).flatten()
}

/// The shortest text that [`parse_bytes`] reads as `bytes`.
pub fn show_bytes(bytes: u64) -> String {
    let (unit, size) =
        UNITS.into_iter().find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size)).unwrap_or(("B", 1));
    format!("{}{unit}", bytes / size)
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct At<T> {
    pub value: T,
    pub span: Range<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_reads_back_what_it_shows() {
        for bytes in [0, 1, 1_023, 1_024, 64 << 10, 8 << 20, (16 << 20) + 1, 3 << 30] {
            assert_eq!(parse_bytes(&show_bytes(bytes)), Some(bytes), "{bytes}");
        }
        for text in ["", "16", "MiB", "-1B", "1.5MiB", "16 MB", "99999999999999999999B", "99999999999999GiB"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }

    fn complaints(shape: Shape, value: &str) -> usize {
        let value = DeValue::parse(value).unwrap();
        let mut problems = Problems::default();
        assert_eq!(shape.check("k", &value, &mut problems), problems.is_empty());
        problems.len()
    }

    #[test]
    fn each_shape_takes_its_values_and_refuses_others() {
        let short = Shape::List { of: &Shape::RATIO, min: 1, max: 3 };
        let either = Shape::Either(&[Shape::Count { min: 10, max: 100 }, Shape::OneOf(&["A", "B"])]);
        let size = Shape::Bytes { min: 1 << 20, max: 1 << 30 };
        for (shape, good, bad) in [
            (Shape::Text, &["\"a\""][..], &["\" \"", "1", "[\"a\"]"][..]),
            (Shape::Flag, &["true"], &["\"true\"", "1"]),
            (Shape::count(1), &["1", "0x10", "1_000"], &["0", "-1", "1.0", "99999999999999999999999", "\"1\""]),
            (Shape::RATIO, &["0", "1", "0.5"], &["1.1", "-0.1", "nan", "inf", "\"0.5\""]),
            (Shape::SPAN_POSITIVE, &["\"1s\""], &["\"0s\"", "\"1\"", "90", "\"400d\""]),
            (size, &["\"16MiB\""], &["\"1KiB\"", "\"2GiB\"", "16", "\"x\""]),
            (Shape::OneOf(&["a", "b"]), &["\"a\""], &["\"c\"", "1"]),
            (short, &["[0.1]", "[0, 1, 1]"], &["[]", "[0, 0, 0, 0]", "0.5", "[2.0]"]),
            (Shape::OneOrList(&Shape::Text), &["\"a\"", "[\"a\", \"b\"]"], &["[]", "1", "[1]"]),
            (either, &["10", "\"A\""], &["9", "\"C\"", "1.5", "[10]"]),
            (Shape::Scalar, &["1", "\"\"", "true", "1.5"], &["nan", "[1]", "1979-05-27"]),
        ] {
            for value in good {
                assert_eq!(complaints(shape, value), 0, "{shape:?} {value}");
            }
            for value in bad {
                assert_eq!(complaints(shape, value), 1, "{shape:?} {value}");
            }
        }
        assert_eq!(complaints(short, "[2.0, 0.5, 3.0]"), 2);
    }
}
