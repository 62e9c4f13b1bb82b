//! Times in conditions: a duration text, or a number of whole seconds.

use serde_json::Value;

use crate::core::scalar::duration::Duration;
use crate::core::scalar::number;

/// Nanoseconds, wide enough for any number of seconds that JSON holds exactly.
pub(super) type Nanos = i128;

const SECOND: f64 = 1e9;

/// Both operands as time, if at least one is a duration text and the other a duration text or a number. The text `0` is
/// a number that somebody quoted, not a duration.
pub(super) fn pair(key: &Value, value: &Value) -> Option<(Nanos, Nanos)> {
    match (duration(key), duration(value)) {
        (Some(key), Some(value)) => Some((key, value)),
        (Some(key), None) => Some((key, seconds(value)?)),
        (None, Some(value)) => Some((seconds(key)?, value)),
        (None, None) => None,
    }
}

/// One operand as time, `0` included.
pub(super) fn lenient(value: &Value) -> Option<Nanos> {
    match value {
        Value::String(text) => text.parse::<Duration>().ok().map(|duration| duration.as_nanos().into()),
        other => seconds(other),
    }
}

fn duration(value: &Value) -> Option<Nanos> {
    match value {
        Value::String(text) if text != "0" => lenient(value),
        _ => None,
    }
}

/// Whole seconds of a number, its fraction dropped.
fn seconds(value: &Value) -> Option<Nanos> {
    let number = value.as_number()?;
    let seconds = match number::whole(number) {
        Some(whole) => whole.into(),
        // Beyond the range of nanoseconds the cast stops at the end, which keeps the order.
        None => (number::float(number).trunc() as i128).clamp(i128::MIN / SECOND as i128, i128::MAX / SECOND as i128),
    };
    Some(seconds * SECOND as i128)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_side_must_be_a_duration() {
        let second = 1_000_000_000;
        for (key, value, expected) in [
            (json!("1h"), json!("60m"), Some((3600 * second, 3600 * second))),
            (json!("1h"), json!(3600.9), Some((3600 * second, 3600 * second))),
            (json!(60), json!("1m"), Some((60 * second, 60 * second))),
            (json!("1h"), json!("0"), None),
            (json!("0"), json!(0), None),
            (json!(1), json!(2), None),
            (json!("1h"), json!(true), None),
            (json!("1h"), json!("x"), None),
        ] {
            assert_eq!(pair(&key, &value), expected, "{key} {value}");
        }
        assert_eq!(lenient(&json!("0")), Some(0));
        assert_eq!(lenient(&json!(-1.5)), Some(-second));
        assert!(lenient(&json!(1e300)).is_some());
    }
}
