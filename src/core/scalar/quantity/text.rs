//! How quantities are read and written.

use std::fmt;
use std::str::FromStr;

use super::{Format, NANO, Quantity, QuantityError, shift_left, strip_zeros};

/// Exponents beyond this are refused.
const LARGEST_EXPONENT: i32 = 1000;
/// Up to this many digits Kubernetes keeps the scale of the text; a longer one is brought to nano.
const SHORT_DIGITS: usize = 18;
const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let syntax = || QuantityError::Syntax { text: text.to_owned() };
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(syntax());
        }
        let whole = whole.trim_start_matches('0');
        let magnitude = match parse_suffix(suffix).ok_or_else(syntax)? {
            Suffix::Decimal(exponent) => parse_decimal(whole, fraction, exponent, Format::Decimal)?,
            Suffix::Exponent(exponent) => parse_decimal(whole, fraction, exponent, Format::Exponent)?,
            Suffix::Binary(power) => parse_binary(whole, fraction, power)?,
        };
        Ok(if negative { Self { mantissa: -magnitude.mantissa, ..magnitude } } else { magnitude })
    }
}

enum Suffix {
    Decimal(i32),
    Exponent(i32),
    /// The power of 1024.
    Binary(u32),
}

fn parse_suffix(suffix: &str) -> Option<Suffix> {
    if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some(Suffix::Decimal(*exponent));
    }
    if let Some(power) = BINARY_SUFFIXES.iter().position(|name| *name == suffix) {
        return Some(Suffix::Binary(power as u32));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    exponent.parse().ok().map(Suffix::Exponent)
}

fn parse_decimal(whole: &str, fraction: &str, exponent: i32, format: Format) -> Result<Quantity, QuantityError> {
    if exponent > LARGEST_EXPONENT {
        return Err(QuantityError::Overflow);
    }
    let mut digits = format!("{whole}{fraction}");
    let mut scale = fraction.len() as i64 - i64::from(exponent);
    let mut carry = false;
    if scale > i64::from(NANO) || digits.len() > SHORT_DIGITS {
        // Finer than a billionth: rounded away from zero.
        let excess = usize::try_from(scale - i64::from(NANO)).unwrap_or(0).min(digits.len());
        let dropped = digits.split_off(digits.len() - excess);
        carry = dropped.bytes().any(|digit| digit != b'0');
        let padding = usize::try_from(i64::from(NANO) - scale).unwrap_or(0);
        // A long number is brought to nano if that fits, as Kubernetes does.
        if scale < i64::from(NANO) && digits.trim_start_matches('0').len() + padding <= 37 {
            digits.extend(std::iter::repeat_n('0', padding));
            scale = i64::from(NANO);
        }
        scale = scale.min(i64::from(NANO));
    }
    while digits.len() > 37 && digits.ends_with('0') {
        digits.pop();
        scale -= 1;
    }
    let mantissa: i128 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| QuantityError::Overflow)? };
    let mantissa = mantissa.checked_add(i128::from(carry)).ok_or(QuantityError::Overflow)?;
    let scale = i32::try_from(scale).map_err(|_| QuantityError::Overflow)?;
    Ok(Quantity { mantissa, scale: if mantissa == 0 { scale.max(0) } else { scale }, format })
}

fn parse_binary(whole: &str, fraction: &str, power: u32) -> Result<Quantity, QuantityError> {
    let cap = Quantity { mantissa: i128::from(i64::MAX), scale: 0, format: Format::Binary };
    if whole.len() > 19 {
        return Ok(cap);
    }
    // Kubernetes keeps the written decimals of what is sure to fit into 15 digits, and brings the rest to nano.
    let short = fraction.is_empty() && whole.len() as u32 + 3 * power < 15;
    let factor = 1_i128 << (10 * power);
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| QuantityError::Overflow)? };
    let units = Quantity { mantissa: whole * factor, ..cap };
    if short {
        return Ok(units);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 19 {
        return Err(QuantityError::Overflow);
    }
    let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| QuantityError::Overflow)? };
    let part = Quantity { mantissa: part * factor, scale: fraction.len() as i32, ..cap };
    let value = match part.checked_add(units).map(Quantity::round_up_to_nano) {
        Ok(value) if value <= cap => value.at_nano(),
        _ => return Ok(cap),
    };
    // Less than one has no binary notation.
    let below_one = value.mantissa < 10_i128.pow(NANO as u32);
    Ok(if below_one { Quantity { format: Format::Decimal, ..value } } else { value })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let (mut mantissa, scale) = strip_zeros(self.mantissa, self.scale);
        let mut exponent = -scale;
        if self.format == Format::Binary
            && exponent >= 0
            && let Some(mut whole) = shift_left(mantissa, exponent)
            && whole.unsigned_abs() >= 1024
        {
            let mut power = 0;
            while power + 1 < BINARY_SUFFIXES.len() && whole % 1024 == 0 {
                whole /= 1024;
                power += 1;
            }
            return write!(f, "{whole}{}", BINARY_SUFFIXES[power]);
        }
        let mut zeros = exponent.rem_euclid(3);
        exponent -= zeros;
        if self.format != Format::Exponent {
            // There is no suffix above E.
            let above = (exponent - 18).max(0);
            zeros += above;
            exponent -= above;
        }
        while zeros > 0
            && let Some(shifted) = mantissa.checked_mul(10)
        {
            mantissa = shifted;
            zeros -= 1;
        }
        write!(f, "{mantissa}")?;
        (0..zeros).try_for_each(|_| f.write_str("0"))?;
        match DECIMAL_SUFFIXES.iter().find(|(_, power)| *power == exponent) {
            Some((suffix, _)) if self.format != Format::Exponent => f.write_str(suffix),
            _ if exponent == 0 => Ok(()),
            _ => write!(f, "e{exponent}"),
        }
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn canonical_text() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            assert_eq!(quantity(text).to_string(), expected, "{text}");
        }
        check("0", "0");
        check("-0Ki", "0");
        check("0.5", "500m");
        check(".5", "500m");
        check("5.", "5");
        check("1000", "1k");
        check("1500", "1500");
        check("+7", "7");
        check("007", "7");
        check("500m", "500m");
        check("1000m", "1");
        check("1.50", "1500m");
        check("12E", "12E");
        check("1000E", "1000E");
        check("24576", "24576");
        check("24Ki", "24Ki");
        check("1024Ki", "1Mi");
        check("1.5Ki", "1536");
        check("1.5Gi", "1536Mi");
        check("0.5Ki", "512");
        check("0.0001Ki", "102400u");
        check("16Ei", "9223372036854775807");
        check("-16Ei", "-9223372036854775807");
        check("99999999999999999999999999999999999999999Ki", "9223372036854775807");
        check("1e3", "1e3");
        check("1E3", "1e3");
        check("12e4", "120e3");
        check("1e-4", "100e-6");
        check("5e0", "5");
        check("1e30", "1e30");
        check("0.1n", "1n");
        check("-0.1n", "-1n");
        check("1.0000000001", "1000000001n");
        check("1e-100", "1e-9");
        check("1e-99999999", "1e-9");
        check("0.00000000000000000000000000000000000000000000000000001", "1n");
        check("123456789012345678901234567890", "123456789012345678901234567890");
    }

    #[test]
    fn refusals() {
        for text in [
            "", "-", ".", "k", "1K", "1 Ki", " 1", "1_000", "1ki", "1i", "1e", "1e+", "1.1.1", "1Kii", "0x10", "--1",
            "1e1.5", "abc",
        ] {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError::Syntax { text: text.into() }), "{text}");
        }
        assert_eq!("1e100000".parse::<Quantity>(), Err(QuantityError::Overflow));
        assert_eq!("1234567890123456789012345678901234567891".parse::<Quantity>(), Err(QuantityError::Overflow));
    }

    proptest! {
        #[test]
        fn printing_keeps_the_value(
            mantissa in any::<i64>(),
            suffix in prop::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Gi", "Ei", "e3", "e-5"]),
        ) {
            let value = quantity(&format!("{mantissa}{suffix}"));
            let printed = value.to_string();
            prop_assert_eq!(quantity(&printed), value);
            prop_assert_eq!(quantity(&printed).to_string(), printed);
        }

        #[test]
        fn no_text_panics(text in "[-+]?[0-9]{0,45}[.]?[0-9]{0,45}[numkMGTPEKie]{0,2}[-+]?[0-9]{0,9}") {
            if let Ok(value) = text.parse::<Quantity>() {
                let _ = (value.to_string(), value.checked_mul(1e300), value.checked_div(1e-300), value.checked_add(value));
            }
        }
    }
}
