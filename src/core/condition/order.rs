//! `GreaterThan` and its like, and their older forms for durations only.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::span;
use crate::core::scalar::quantity::Quantity;
use crate::core::scalar::{number, semver};

/// How the key must stand to the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Relation {
    pub(super) fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
        }
    }
}

/// How key and value stand to each other, if they can be compared at all.
pub(super) fn compare(key: &Value, value: &Value) -> Option<Ordering> {
    match key {
        Value::Number(number) => compare_number(key, number, value),
        Value::String(text) => {
            if let Some((key, value)) = span::pair(key, value) {
                return Some(key.cmp(&value));
            }
            compare_quantities(text, value).or_else(|| match number::parse(text) {
                Some(float) => compare_float(float, value),
                None => compare_versions(text, value),
            })
        }
        _ => None,
    }
}

/// Both as durations, numbers being whole seconds.
pub(super) fn compare_durations(key: &Value, value: &Value) -> Option<Ordering> {
    Some(span::lenient(key)?.cmp(&span::lenient(value)?))
}

fn compare_number(key: &Value, number: &Number, value: &Value) -> Option<Ordering> {
    match value {
        Value::Number(value) => Some(number::compare(number, value)),
        Value::String(text) => match span::pair(key, value) {
            Some((key, value)) => Some(key.cmp(&value)),
            None => number::compare_f64(number, number::parse(text)?),
        },
        _ => None,
    }
}

/// A key that was a number in quotes.
fn compare_float(key: f64, value: &Value) -> Option<Ordering> {
    match number::from_f64(key) {
        Some(number) => compare_number(&Value::Number(number.clone()), &number, value),
        None => key.partial_cmp(&match value {
            Value::Number(value) => number::float(value),
            Value::String(text) => number::parse(text)?,
            _ => return None,
        }),
    }
}

fn compare_quantities(key: &str, value: &Value) -> Option<Ordering> {
    let key: Quantity = key.parse().ok()?;
    let value: Quantity = value.as_str()?.parse().ok()?;
    Some(key.cmp(&value))
}

fn compare_versions(key: &str, value: &Value) -> Option<Ordering> {
    Some(semver::compare(&semver::parse(key)?, &semver::parse(value.as_str()?)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(key: Value, value: Value, expected: Option<Ordering>) {
        assert_eq!(compare(&key, &value), expected, "{key} and {value}");
    }

    const GREATER: Option<Ordering> = Some(Ordering::Greater);
    const EQUAL: Option<Ordering> = Some(Ordering::Equal);
    const LESS: Option<Ordering> = Some(Ordering::Less);

    #[test]
    fn texts_and_numbers_are_read_by_the_key() {
        check(json!("1025"), json!("1Ki"), GREATER);
        check(json!("2h"), json!(3600), GREATER);
        check(json!(3600), json!("30m"), GREATER);
        check(json!("10"), json!(1), GREATER);
        check(json!("100"), json!("10"), GREATER);
        check(json!("500m"), json!("0.5"), EQUAL);
        check(json!("1.5.5"), json!("1.5.0"), GREATER);
        check(json!("1.5.5-rc.1"), json!("1.5.5"), LESS);
        check(json!(-5), json!(-10), GREATER);
        check(json!(1), json!(10), LESS);
        check(json!(1), json!("10"), LESS);
        check(json!("10"), json!("1h"), LESS);
        check(json!("1e300"), json!("1"), GREATER);
        check(json!("inf"), json!(1), GREATER);
    }

    #[test]
    fn a_cpu_quantity_against_a_number_is_minutes() {
        check(json!("500m"), json!(1), GREATER);
        check(json!("500m"), json!("1"), LESS);
    }

    #[test]
    fn what_cannot_be_compared() {
        check(json!("not-a-number"), json!(5), None);
        check(json!(5), json!("not-a-number"), None);
        check(json!(5), json!(true), None);
        check(json!(true), json!(1), None);
        check(json!([2]), json!(1), None);
        check(json!({}), json!(1), None);
        check(json!("1.5.5"), json!(1), None);
        check(json!("v1.5.5"), json!("v1.5.0"), None);
        check(json!("nan"), json!(1), None);
        check(json!("1h"), json!([]), None);
    }

    #[test]
    fn relations() {
        let accepted = |relation: Relation| {
            [Ordering::Less, Ordering::Equal, Ordering::Greater].map(|order| relation.accepts(order))
        };
        assert_eq!(accepted(Relation::Greater), [false, false, true]);
        assert_eq!(accepted(Relation::GreaterOrEqual), [false, true, true]);
        assert_eq!(accepted(Relation::Less), [true, false, false]);
        assert_eq!(accepted(Relation::LessOrEqual), [true, true, false]);
    }

    #[test]
    fn durations() {
        for (key, value, expected) in [
            (json!("61m"), json!("1h"), GREATER),
            (json!(120), json!("1m"), GREATER),
            (json!("60m"), json!("1h"), EQUAL),
            (json!(1.9), json!("1s"), EQUAL),
            (json!(2), json!(1), GREATER),
            (json!("0"), json!(0), EQUAL),
            (json!("5"), json!("1s"), None),
            (json!(true), json!("1s"), None),
            (json!("1s"), json!(["1s"]), None),
        ] {
            assert_eq!(compare_durations(&key, &value), expected, "{key} and {value}");
        }
    }
}
