//! Whether a value lies within an expectation's bounds.

use super::expect::same;
use crate::scenario::Bound;
use serde_json::Value;

/// All parts that are given hold. A list counts as its length; a value that is no number is neither at least nor at
/// most anything.
pub fn meets(bound: &Bound, value: &Value) -> bool {
    let Bound { at_least, at_most, equals } = bound;
    let number = match value {
        Value::Array(items) => Some(items.len() as f64),
        Value::Object(items) => Some(items.len() as f64),
        Value::Number(number) => number.as_f64(),
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    };
    at_least.is_none_or(|least| number.is_some_and(|number| number >= least))
        && at_most.is_none_or(|most| number.is_some_and(|number| number <= most))
        && equals.as_ref().is_none_or(|wanted| match number {
            Some(number) => same(wanted, &Value::from(number)),
            None => same(wanted, value),
        })
}

/// The value as one word for people.
pub fn describe(value: &Value) -> String {
    match value {
        Value::Null => "not there".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("{} of them", items.len()),
        Value::Object(items) => format!("{} of them", items.len()),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_parts_of_a_bound_must_hold() {
        let bound = Bound { at_least: Some(2.0), at_most: Some(3.0), equals: None };
        assert!(meets(&bound, &json!(2)) && meets(&bound, &json!(3.0)) && meets(&bound, &json!(["a", "b"])));
        assert!(!meets(&bound, &json!(1)) && !meets(&bound, &json!(4)));
    }

    #[test]
    fn what_is_no_number_meets_no_limit() {
        let bound = Bound { at_most: Some(3.0), ..Bound::default() };
        assert!(!meets(&bound, &json!(null)) && !meets(&bound, &json!("two")));
        let text = Bound { equals: Some(json!("FALLBACK")), ..Bound::default() };
        assert!(meets(&text, &json!("FALLBACK")) && !meets(&text, &json!("NORMAL")));
    }
}
