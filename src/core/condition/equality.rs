//! `Equals`. Not symmetric: the key says how the value is read.

use serde_json::Value;

use super::span;
use crate::core::scalar::quantity::Quantity;
use crate::core::scalar::{number, wildcard};

pub(super) fn equal(key: &Value, value: &Value) -> bool {
    match (key, value) {
        (Value::Number(key), Value::Number(value)) => number::compare(key, value).is_eq(),
        (Value::Number(key), Value::String(value)) => {
            number::parse(value).and_then(|value| number::compare_f64(key, value)).is_some_and(|order| order.is_eq())
        }
        (Value::String(text), _) => match span::pair(key, value) {
            Some((key, value)) => key == value,
            None => value.as_str().is_some_and(|value| equal_texts(text, value)),
        },
        (Value::Bool(key), Value::Bool(value)) => key == value,
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => number::equal_values(key, value),
        _ => false,
    }
}

/// As quantities if the key is one (then a pattern in the value is not tried), else by wildcard.
fn equal_texts(key: &str, value: &str) -> bool {
    match key.parse::<Quantity>() {
        Ok(key) => value.parse::<Quantity>().is_ok_and(|value| key == value),
        Err(_) => wildcard::matches(value, key),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Operator;
    use super::*;

    #[track_caller]
    fn check(key: Value, value: Value, expected: bool) {
        assert_eq!(Operator::Equals.holds(&key, &value), expected, "{key} Equals {value}");
        assert_eq!(Operator::NotEquals.holds(&key, &value), !expected, "{key} NotEquals {value}");
    }

    #[test]
    fn texts_are_durations_then_quantities_then_patterns() {
        check(json!("1024"), json!("1Ki"), true);
        check(json!("1h"), json!("60m"), true);
        check(json!("1h"), json!(3600), true);
        check(json!("1h"), json!(3600.7), true);
        check(json!("1h"), json!(3601), false);
        check(json!("1.5.2"), json!("1.5.*"), true);
        check(json!("1Gi"), json!("1024Mi"), true);
        check(json!("100Mi"), json!("not-a-quantity"), false);
        check(json!("123"), json!("12*"), false);
        check(json!("0"), json!("0.0"), true);
        check(json!("abc"), json!("a?c"), true);
        check(json!("a?c"), json!("abc"), false);
        check(json!(""), json!(""), true);
        check(json!(""), json!("*"), true);
    }

    #[test]
    fn numbers() {
        check(json!(1), json!("2"), false);
        check(json!(42), json!("42"), true);
        check("3.14".parse().unwrap(), json!("3.14"), true);
        check(json!(1), json!(1.0), true);
        check(json!(1), json!("one"), false);
        check(json!(3600), json!("1h"), false);
        check(json!(9007199254740993_i64), json!(9007199254740992_i64), false);
    }

    #[test]
    fn a_number_key_reads_texts_but_a_text_key_reads_no_numbers() {
        check(json!(5), json!("5"), true);
        check(json!("5"), json!(5), false);
    }

    #[test]
    fn other_types_are_equal_to_their_own_kind_only() {
        check(json!(true), json!(true), true);
        check(json!(true), json!(false), false);
        check(json!(true), json!("true"), false);
        check(json!("true"), json!(true), false);
        check(json!(["foo", "bar"]), json!(["foo", "bar"]), true);
        check(json!(["foo", "bar"]), json!(["bar", "foo"]), false);
        check(json!(["foo"]), json!(["f*"]), false);
        check(json!({"a": {"b": 1}}), json!({"a": {"b": 1.0}}), true);
        check(json!({"a": 1}), json!({"a": 2}), false);
        check(json!({}), json!([]), false);
        for key in [json!(1), json!("a"), json!(true), json!([]), json!({})] {
            check(key, json!(null), false);
        }
    }
}
