//! Single values of a document: read leniently, written in the one canonical way.
//!
//! A refusal is a reason without a place; the caller knows where it is.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_PAD_INDIFFERENT, URL_SAFE_PAD_INDIFFERENT};
use serde_json::{Number, Value};

use super::schema::{Enum, Scalar};
use crate::core::json::{Leaf, Shape};
use crate::core::nearest::nearest;

/// The canonical form of a scalar.
pub(super) fn read<'v>(scalar: Scalar, shape: Shape<'v>) -> Result<Leaf<'v>, String> {
    match scalar {
        Scalar::Bool => match shape {
            Shape::Bool(flag) => Ok(Leaf::Bool(flag)),
            _ => Err(format!("{} is not a boolean; write true or false, without quotes", shown(shape))),
        },
        Scalar::String => match shape {
            Shape::Text(text) => Ok(Leaf::Text(text.into())),
            Shape::Number(_) | Shape::Bool(_) => Err(format!("{} is not text; put it in quotes", shown(shape))),
            _ => Err(format!("{} is not text", shown(shape))),
        },
        Scalar::Bytes => match shape.as_text().and_then(read_bytes) {
            Some(bytes) => Ok(Leaf::Text(STANDARD.encode(bytes).into())),
            None => Err(format!("{} is not base64 text", shown(shape))),
        },
        Scalar::Float | Scalar::Double => {
            let number = read_float(shape).ok_or_else(|| format!("{} is not a number", shown(shape)))?;
            write_float(scalar, number).ok_or_else(|| format!("{} is too large for a float", shown(shape)))
        }
        Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 => {
            let whole = read_whole(shape).ok_or_else(|| format!("{} is not a whole number", shown(shape)))?;
            let (least, most) = bounds(scalar);
            if whole < least || whole > most {
                return Err(format!("{whole} is outside {least} to {most}"));
            }
            Ok(write_whole(scalar, whole))
        }
    }
}

/// What an absent value of this type means.
pub(super) fn zero(scalar: Scalar) -> Leaf<'static> {
    match scalar {
        Scalar::Bool => Leaf::Bool(false),
        Scalar::String | Scalar::Bytes => Leaf::Text("".into()),
        Scalar::Int64 | Scalar::Uint64 => Leaf::Text("0".into()),
        Scalar::Int32 | Scalar::Uint32 | Scalar::Float | Scalar::Double => Leaf::Number(0.into()),
    }
}

/// Is this canonical value the zero of its type?
pub(super) fn is_zero(scalar: Scalar, shape: Shape<'_>) -> bool {
    match (scalar, shape) {
        (Scalar::Int64 | Scalar::Uint64, Shape::Text(text)) => text == "0",
        (_, Shape::Text(text)) => text.is_empty(),
        (_, Shape::Number(number)) => number.as_i64() == Some(0),
        (_, Shape::Bool(value)) => !value,
        _ => false,
    }
}

/// The canonical form of a map's key.
pub(super) fn read_key<'v>(scalar: Scalar, key: &'v str) -> Result<Cow<'v, str>, String> {
    match scalar {
        Scalar::Bool if matches!(key, "true" | "false") => Ok(key.into()),
        Scalar::Bool => Err(format!("{} is not a boolean key", shown(Shape::Text(key)))),
        Scalar::String | Scalar::Bytes | Scalar::Float | Scalar::Double => Ok(key.into()),
        _ => match read(scalar, Shape::Text(key))? {
            Leaf::Text(text) => Ok(text),
            other => Ok(shown(other.shape()).into()),
        },
    }
}

/// The canonical form of an enum value: its name, or its number if the enum does not declare it.
pub(super) fn read_enum(declared: &Enum, shape: Shape<'_>) -> Result<Leaf<'static>, String> {
    let number = match shape {
        Shape::Text(name) => declared.number(name).ok_or_else(|| {
            let names = declared.values.iter().map(|(name, _)| *name);
            match nearest(name, names.clone()) {
                Some(near) => format!("unknown value {}; did you mean {near}?", shown(shape)),
                None => {
                    let known: Vec<&str> = names.take(12).collect();
                    format!("unknown value {}; known: {}", shown(shape), known.join(", "))
                }
            }
        })?,
        _ => read_whole(shape)
            .and_then(|number| i32::try_from(number).ok())
            .ok_or_else(|| format!("{} is neither a name nor a number of an enum", shown(shape)))?,
    };
    Ok(declared.name_of(number).map_or_else(|| Leaf::Number(number.into()), |name| Leaf::Text(name.into())))
}

/// A double as protobuf prints it: without a fraction if it has none.
pub(super) fn write_double(number: f64) -> Option<Leaf<'static>> {
    // Up to here every whole double is exact, and prints in full.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let negative_zero = number == 0.0 && number.is_sign_negative();
    #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
    if number.fract() == 0.0 && number.abs() <= EXACT && !negative_zero {
        return Some(Leaf::Number((number as i64).into()));
    }
    Number::from_f64(number).map(Leaf::Number)
}

/// The value in a message: short, as JSON.
pub(super) fn shown(shape: Shape<'_>) -> String {
    const LONGEST: usize = 60;
    match shape {
        Shape::Null => "null".to_owned(),
        Shape::Bool(flag) => flag.to_string(),
        Shape::Number(number) => number.to_string(),
        Shape::Object => "an object".to_owned(),
        Shape::List => "a list".to_owned(),
        Shape::Text(text) if text.chars().count() > LONGEST => {
            format!("{}…", Value::from(text.chars().take(LONGEST).collect::<String>()))
        }
        Shape::Text(text) => Value::from(text).to_string(),
    }
}

pub(super) fn read_bytes(text: &str) -> Option<Vec<u8>> {
    STANDARD_PAD_INDIFFERENT.decode(text).or_else(|_| URL_SAFE_PAD_INDIFFERENT.decode(text)).ok()
}

/// A whole number: `7`, `7.0`, `7e0` or `"7"`, but not `"7.0"`.
pub(super) fn read_whole(shape: Shape<'_>) -> Option<i128> {
    match shape {
        Shape::Number(number) => number.as_i128().or_else(|| {
            let float = number.as_f64()?;
            // Wide enough for every integer type, narrow enough for the cast.
            #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^65")]
            (float.fract() == 0.0 && float.abs() < 36_893_488_147_419_103_232.0).then_some(float as i128)
        }),
        Shape::Text(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let leading_zero = digits.len() > 1 && digits.starts_with('0');
            if plain && !leading_zero { text.parse().ok() } else { None }
        }
        _ => None,
    }
}

pub(super) fn read_float(shape: Shape<'_>) -> Option<f64> {
    match shape {
        Shape::Number(number) => number.as_f64(),
        Shape::Text("NaN") => Some(f64::NAN),
        Shape::Text("Infinity") => Some(f64::INFINITY),
        Shape::Text("-Infinity") => Some(f64::NEG_INFINITY),
        // The grammar of JSON, which is narrower than Rust's.
        Shape::Text(number) => serde_json::from_str::<Number>(number).ok()?.as_f64(),
        _ => None,
    }
}

fn write_float(scalar: Scalar, number: f64) -> Option<Leaf<'static>> {
    if number.is_nan() {
        return Some(Leaf::Text("NaN".into()));
    }
    if number.is_infinite() {
        return Some(Leaf::Text(if number > 0.0 { "Infinity" } else { "-Infinity" }.into()));
    }
    if scalar == Scalar::Double {
        return write_double(number);
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the nearest float is what is wanted")]
    let float = number as f32;
    // By way of its text, so that 0.1 stays 0.1 and does not grow the digits of a double.
    if float.is_finite() { write_double(float.to_string().parse().ok()?) } else { None }
}

fn bounds(scalar: Scalar) -> (i128, i128) {
    match scalar {
        Scalar::Int32 => (i32::MIN.into(), i32::MAX.into()),
        Scalar::Uint32 => (0, u32::MAX.into()),
        Scalar::Uint64 => (0, u64::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}

/// 64 bits as text, because a JSON reader may lose the last of them.
fn write_whole(scalar: Scalar, whole: i128) -> Leaf<'static> {
    match (scalar, i64::try_from(whole)) {
        (Scalar::Int32 | Scalar::Uint32, Ok(number)) => Leaf::Number(number.into()),
        _ => Leaf::Text(whole.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::json::Tree;

    #[track_caller]
    fn check(scalar: Scalar, value: Value, expected: Option<Value>) {
        let read = read(scalar, value.shape()).ok();
        assert_eq!(read.as_ref().map(Leaf::shape), expected.as_ref().map(Tree::shape), "{scalar:?} {value}");
    }

    #[test]
    fn integers() {
        check(Scalar::Uint32, json!(1024), Some(json!(1024)));
        check(Scalar::Uint32, json!("1024"), Some(json!(1024)));
        check(Scalar::Uint32, json!(1024.0), Some(json!(1024)));
        check(Scalar::Uint32, json!(1e3), Some(json!(1000)));
        check(Scalar::Uint32, json!("-0"), Some(json!(0)));
        check(Scalar::Int32, json!("-7"), Some(json!(-7)));
        check(Scalar::Int64, json!(7), Some(json!("7")));
        check(Scalar::Uint64, json!(u64::MAX), Some(json!("18446744073709551615")));
        check(Scalar::Uint64, json!("18446744073709551616"), None);
        check(Scalar::Int64, json!(i64::MIN), Some(json!("-9223372036854775808")));
        check(Scalar::Int32, json!(2_147_483_648_u32), None);
        for value in [json!("1024.0"), json!("1e3"), json!(1.5), json!(-1), json!(1e30), json!(""), json!("010")] {
            check(Scalar::Uint32, value, None);
        }
        for value in
            [json!("+7"), json!(" 7"), json!("-"), json!("--7"), json!(true), json!([]), json!({}), json!("0x10")]
        {
            check(Scalar::Uint32, value, None);
        }
    }

    #[test]
    fn floats() {
        check(Scalar::Double, json!(1.5), Some(json!(1.5)));
        check(Scalar::Double, json!(1.0), Some(json!(1)));
        check(Scalar::Double, json!("1e3"), Some(json!(1000)));
        check(Scalar::Double, json!(1e300), Some(json!(1e300)));
        check(Scalar::Double, json!("NaN"), Some(json!("NaN")));
        check(Scalar::Double, json!("-Infinity"), Some(json!("-Infinity")));
        check(Scalar::Float, json!(0.1), Some(json!(0.1)));
        check(Scalar::Float, json!(16_777_217), Some(json!(16_777_216)));
        check(Scalar::Float, json!(1e300), None);
        for value in [json!("inf"), json!("nan"), json!(".5"), json!("+1"), json!(""), json!(true), json!({})] {
            check(Scalar::Double, value, None);
        }
    }

    #[test]
    fn texts_bytes_and_booleans() {
        check(Scalar::String, json!("yes"), Some(json!("yes")));
        check(Scalar::String, json!(1), None);
        check(Scalar::String, json!(true), None);
        check(Scalar::Bool, json!(true), Some(json!(true)));
        check(Scalar::Bool, json!("true"), None);
        check(Scalar::Bool, json!(1), None);
        check(Scalar::Bytes, json!("+/8="), Some(json!("+/8=")));
        check(Scalar::Bytes, json!("-_8"), Some(json!("+/8=")));
        check(Scalar::Bytes, json!("a b"), None);
        check(Scalar::Bytes, json!([1]), None);
    }

    #[test]
    fn keys_are_typed() {
        assert_eq!(read_key(Scalar::String, "a b"), Ok("a b".into()));
        assert_eq!(read_key(Scalar::Int64, "-5"), Ok("-5".into()));
        assert_eq!(read_key(Scalar::Uint32, "5"), Ok("5".into()));
        assert_eq!(read_key(Scalar::Bool, "true"), Ok("true".into()));
        assert!(read_key(Scalar::Uint32, "-5").is_err());
        assert!(read_key(Scalar::Int64, "five").is_err());
        assert!(read_key(Scalar::Bool, "yes").is_err());
    }

    #[test]
    fn refusals_say_what_to_do() {
        let reason = |scalar, value: Value| read(scalar, value.shape()).unwrap_err();
        assert_eq!(
            reason(Scalar::Bool, json!("yes")),
            r#""yes" is not a boolean; write true or false, without quotes"#
        );
        assert_eq!(reason(Scalar::String, json!(8080)), "8080 is not text; put it in quotes");
        assert_eq!(reason(Scalar::Uint32, json!(-1)), "-1 is outside 0 to 4294967295");
        assert!(reason(Scalar::Bytes, json!("é".repeat(500))).len() < 200);
    }
}
