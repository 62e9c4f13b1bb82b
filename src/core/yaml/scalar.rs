//! What an unquoted word means: YAML 1.1 as Go's reader understands it, which is what kubectl and the API server's tools use.

use serde_json::{Number, Value};

/// The value of a plain scalar, or of one with a core tag (`str`, `int`, `float`, `bool`, `null`).
pub(super) fn resolve(tag: Option<&str>, text: &str) -> Result<Value, String> {
    if tag == Some("str") || tag == Some("binary") {
        return Ok(Value::from(text));
    }
    let value = resolve_untagged(text)?;
    match (tag, &value) {
        (None | Some("timestamp"), _)
        | (Some("bool"), Value::Bool(_))
        | (Some("null"), Value::Null)
        | (Some("float"), Value::Number(_)) => {}
        (Some("int"), Value::Number(number)) if !number.is_f64() => {}
        (Some(tag @ ("bool" | "null" | "int" | "float")), _) => return Err(format!("`{text}` is not a !!{tag}")),
        (Some(_), _) => return Ok(Value::from(text)),
    }
    match value {
        Value::Number(number) if tag == Some("float") => {
            Ok(number.as_f64().and_then(Number::from_f64).map_or(Value::Null, Value::Number))
        }
        value => Ok(value),
    }
}

/// Whether a reader of YAML 1.2 would see something else.
pub(super) fn is_ambiguous(text: &str, resolved: &Value) -> bool {
    match resolved {
        Value::Bool(_) => !matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE"),
        Value::Number(_) => {
            let digits = text.trim_start_matches(['+', '-']);
            text.contains('_')
                || digits.starts_with("0b")
                || digits.starts_with("0B")
                || (digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| (b'0'..=b'7').contains(&b)))
        }
        _ => false,
    }
}

fn resolve_untagged(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(Value::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(Value::Bool(false));
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => return Err(format!("`{text}` has no JSON form; quote it if text is meant")),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Ok(Value::from(text));
    }
    let plain = text.replace('_', "");
    if let Some(integer) = integer(&plain) {
        return Ok(Value::Number(integer));
    }
    if is_float(&plain) {
        let parsed: Option<f64> = plain.parse().ok();
        return match parsed.and_then(Number::from_f64) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(format!("`{text}` is too large for a number; quote it if text is meant")),
        };
    }
    Ok(Value::from(text))
}

/// Decimal, or with a base as Go spells it: `0x1f`, `0o17`, `0b11`, and a bare leading zero for octal.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(hex) = lower.strip_prefix("0x") {
        (16, hex)
    } else if let Some(octal) = lower.strip_prefix("0o") {
        (8, octal)
    } else if let Some(binary) = lower.strip_prefix("0b") {
        (2, binary)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0i64.checked_sub_unsigned(magnitude).map(Number::from);
    }
    Some(Number::from(magnitude))
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && all_digits(fraction),
        Some((whole, fraction)) => all_digits(whole) && all_digits(fraction),
        None => !mantissa.is_empty() && all_digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    mantissa_fits && exponent_fits
}
