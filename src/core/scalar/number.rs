//! Numbers as Go sees them in JSON: one numeric domain, integers exact, text without a needless fraction.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Integers up to here are exact as `f64`, so a whole float in this range may be stored as an integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The text of a JSON number: `5`, `2.5`, `1e+21`, `1e-7`. Never `1.0`.
pub fn text(number: &Number) -> String {
    if number.is_f64() { format(number.as_f64().unwrap_or_default()) } else { number.to_string() }
}

/// The text of a float in Go's JSON: plain shortest digits for 0 and from 1e-6 up to 1e21, exponent form elsewhere.
pub fn format(value: f64) -> String {
    // Of two shortest texts that are equally near, Go and the JSON encoder choose the even one, `Display` does not.
    let Some(number) = Number::from_f64(value) else {
        return value.to_string();
    };
    let text = number.to_string();
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => ("-", text),
        None => ("", text.as_str()),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    // The value is 0.digits times ten to this power.
    let point = exponent.parse().unwrap_or(0) + whole.len() as i32 - (all.len() - digits.len()) as i32;
    let digits = digits.trim_end_matches('0');
    sign.to_owned() + &lay_out(digits, point)
}

/// Writes `0.digits × 10^point`.
fn lay_out(digits: &str, point: i32) -> String {
    let count = digits.len() as i32;
    match point {
        _ if digits.is_empty() => "0".to_owned(),
        ..=-6 | 22.. => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            format!("{first}{dot}{rest}e{:+}", point - 1)
        }
        ..=0 => format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
        _ if point >= count => format!("{digits}{}", "0".repeat((point - count) as usize)),
        _ => {
            let (whole, fraction) = digits.split_at(point as usize);
            format!("{whole}.{fraction}")
        }
    }
}

/// A float as a JSON number, whole values as integers. `None` for what JSON cannot hold (NaN, infinities).
pub fn from_f64(value: f64) -> Option<Number> {
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

/// Orders two numbers: exactly when both are integers, as floats otherwise.
pub fn compare(a: &Number, b: &Number) -> Ordering {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        // A JSON number is never NaN, so there always is an order.
        _ => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
    }
}

/// Orders a number and a float; `None` if the float is NaN.
pub fn compare_f64(a: &Number, b: f64) -> Option<Ordering> {
    float(a).partial_cmp(&b)
}

/// Deep equality in which `1` and `1.0` are the same number.
pub fn equal_values(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal_values(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal_values(a, b)))
        }
        _ => a == b,
    }
}

/// The value of a number as a float.
pub fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

/// The value of a number if it is whole: `5` and `5.0`, not `5.5`.
pub fn whole(number: &Number) -> Option<i64> {
    match integer(number) {
        Some(value) => i64::try_from(value).ok(),
        None => {
            let value = float(number);
            (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i64)
        }
    }
}

/// Reads a float as Go's `ParseFloat` does: decimal forms, exponents, `inf`, `infinity`, `nan` in any case.
/// What overflows is refused.
pub fn parse(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let named = text.trim_start_matches(['+', '-']).starts_with(|first: char| first.is_ascii_alphabetic());
    let acceptable = if value.is_nan() { !text.starts_with(['+', '-']) } else { value.is_finite() || named };
    acceptable.then_some(value)
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn floats_print_as_go_json_prints_them() {
        for (value, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (5.0, "5"),
            (2.5, "2.5"),
            (-2.5, "-2.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-1.5e300, "-1.5e+300"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.25e-10, "1.25e-10"),
            (4.666666666666667, "4.666666666666667"),
            (-7.698538057288602e14, "-769853805728860.2"),
            (0.1, "0.1"),
            (12.05, "12.05"),
            (1.5e22, "1.5e+22"),
            (-0.0, "-0"),
        ] {
            assert_eq!(format(value), expected);
        }
    }

    #[test]
    fn integers_print_exactly() {
        assert_eq!(text(&Number::from(u64::MAX)), "18446744073709551615");
        assert_eq!(text(&Number::from(i64::MIN)), "-9223372036854775808");
        assert_eq!(text(&Number::from_f64(1.0).unwrap()), "1");
    }

    #[test]
    fn integers_compare_exactly_and_with_floats_by_value() {
        let compare = |a: Value, b: Value| compare(a.as_number().unwrap(), b.as_number().unwrap());
        assert_eq!(compare(json!(9007199254740993_i64), json!(9007199254740992_i64)), Ordering::Greater);
        assert_eq!(compare(json!(-1), json!(u64::MAX)), Ordering::Less);
        assert_eq!(compare(json!(1), json!(1.0)), Ordering::Equal);
        assert_eq!(compare(json!(1), json!(1.5)), Ordering::Less);
    }

    #[test]
    fn deep_equality_knows_one_numeric_domain() {
        assert!(equal_values(&json!({"a": [1, {"b": 2.0}]}), &json!({"a": [1.0, {"b": 2}]})));
        assert!(!equal_values(&json!([1, 2]), &json!([2, 1])));
        assert!(!equal_values(&json!({"a": 1}), &json!({"a": 1, "b": 2})));
        assert!(!equal_values(&json!(1), &json!("1")));
    }

    #[test]
    fn whole_numbers() {
        assert_eq!(whole(&Number::from(5)), Some(5));
        assert_eq!(whole(&Number::from_f64(5.0).unwrap()), Some(5));
        assert_eq!(whole(&Number::from_f64(5.5).unwrap()), None);
        assert_eq!(whole(&Number::from(u64::MAX)), None);
    }

    #[test]
    fn parse_accepts_what_go_accepts() {
        #[track_caller]
        fn check(text: &str, expected: Option<f64>) {
            assert_eq!(parse(text), expected, "{text}");
        }
        check("1e3", Some(1000.0));
        check("2.75", Some(2.75));
        check(".5", Some(0.5));
        check("5.", Some(5.0));
        check("+7", Some(7.0));
        check("inf", Some(f64::INFINITY));
        check("-Infinity", Some(f64::NEG_INFINITY));
        check("1e400", None);
        check("+nan", None);
        check("", None);
        check(" 1", None);
        check("1,5", None);
        check("abc", None);
        assert!(parse("NaN").is_some_and(f64::is_nan));
    }

    proptest! {
        #[test]
        fn printed_floats_read_back(value in proptest::num::f64::NORMAL | proptest::num::f64::ZERO) {
            prop_assert_eq!(parse(&format(value)), Some(value));
        }

        #[test]
        fn comparison_is_antisymmetric(a in any::<i64>(), b in any::<f64>()) {
            if let Some(b) = Number::from_f64(b) {
                let a = Number::from(a);
                prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            }
        }
    }
}
