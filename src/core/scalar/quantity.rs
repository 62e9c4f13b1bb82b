//! Kubernetes quantities: `500m`, `12Ki`, `1.5Gi`, `1e3`. Exact decimal arithmetic, printed in the format they came in.
//!
//! A value is an integer of up to 38 digits times a power of ten. Whatever would not fit is refused, never rounded; the
//! only rounding is the one that Kubernetes does, up to a billionth.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// An exact decimal number with the notation it was written in. Equality and order look at the number alone.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    mantissa: i128,
    /// Decimals: the value is `mantissa × 10^-scale`. Kept as written, because division rounds to the written decimals.
    scale: i32,
    format: Format,
}

/// The notation of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `500m`, `12`, `3k`
    Decimal,
    /// `12Ki`
    Binary,
    /// `12e3`
    Exponent,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    #[error("`{text}` is not a quantity such as 500m, 2, 12Ki or 1e3")]
    Syntax { text: String },
    #[error("the quantity needs more than 38 digits")]
    Overflow,
    #[error("a quantity cannot be divided by zero")]
    DivisionByZero,
    #[error("modulo needs whole quantities")]
    NotWhole,
}

/// The finest scale: a billionth.
const NANO: i32 = 9;
/// Exponents beyond this are refused.
const LARGEST_EXPONENT: i32 = 1000;
/// Up to this many digits Kubernetes keeps the scale of the text; a longer one is brought to nano.
const SHORT_DIGITS: usize = 18;
const DECIMAL_SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// The nearest float.
    pub fn to_f64(&self) -> f64 {
        // Printing and reading rounds correctly once; scaling by powers of ten would round twice.
        format!("{}e{}", self.mantissa, -self.scale)
            .parse()
            .unwrap_or(f64::INFINITY)
    }

    /// The sum, in this quantity's format (the other's if this one is zero).
    pub fn checked_add(self, other: Self) -> Result<Self, QuantityError> {
        let (a, b, scale) = align(&self, &other).ok_or(QuantityError::Overflow)?;
        let mantissa = a.checked_add(b).ok_or(QuantityError::Overflow)?;
        Ok(Self {
            mantissa,
            scale,
            format: if self.is_zero() { other.format } else { self.format },
        })
    }

    /// The difference, in this quantity's format (the other's if this one is zero).
    pub fn checked_sub(self, other: Self) -> Result<Self, QuantityError> {
        let mantissa = other.mantissa.checked_neg().ok_or(QuantityError::Overflow)?;
        self.checked_add(Self { mantissa, ..other })
    }

    pub fn checked_mul(self, factor: f64) -> Result<Self, QuantityError> {
        let factor = Self::from_scalar(factor)?;
        let mantissa = self
            .mantissa
            .checked_mul(factor.mantissa)
            .ok_or(QuantityError::Overflow)?;
        Ok(Self {
            mantissa,
            scale: self.scale + factor.scale,
            format: self.format,
        }
        .round_up_to_nano())
    }

    /// Divides and truncates toward zero at the decimals that either operand was written with.
    pub fn checked_div(self, divisor: f64) -> Result<Self, QuantityError> {
        let divisor = Self::from_scalar(divisor)?;
        if divisor.is_zero() {
            return Err(QuantityError::DivisionByZero);
        }
        let scale = self.scale.max(divisor.scale).max(0);
        // self / divisor × 10^scale = mantissa / mantissa × 10^shift
        let shift = scale - self.scale + divisor.scale;
        let (mut a, mut b) = (self.mantissa, divisor.mantissa);
        if shift >= 0 {
            a = shift_left(a, shift).ok_or(QuantityError::Overflow)?;
        } else {
            b = shift_left(b, -shift).ok_or(QuantityError::Overflow)?;
        }
        Ok(Self {
            mantissa: a / b,
            scale,
            format: self.format,
        })
    }

    /// How often `other` fits into this quantity.
    pub fn ratio(self, other: Self) -> Result<f64, QuantityError> {
        if other.is_zero() {
            return Err(QuantityError::DivisionByZero);
        }
        Ok(self.to_f64() / other.to_f64())
    }

    /// What remains of a whole quantity after taking the other out as often as possible; the sign is this quantity's.
    pub fn checked_rem(self, other: Self) -> Result<Self, QuantityError> {
        if other.is_zero() {
            return Err(QuantityError::DivisionByZero);
        }
        let (a, b) = (self.whole()?, other.whole()?);
        Ok(Self {
            mantissa: a.wrapping_rem(b),
            scale: 0,
            format: self.format,
        })
    }

    fn whole(&self) -> Result<i128, QuantityError> {
        let (mantissa, scale) = strip_zeros(self.mantissa, self.scale);
        if scale > 0 {
            return Err(QuantityError::NotWhole);
        }
        shift_left(mantissa, -scale).ok_or(QuantityError::Overflow)
    }

    fn from_scalar(scalar: f64) -> Result<Self, QuantityError> {
        super::number::format(scalar).parse()
    }

    fn round_up_to_nano(self) -> Self {
        if self.scale <= NANO {
            return self;
        }
        let mantissa = match self.scale - NANO {
            excess @ ..=38 => {
                let unit = 10_i128.pow(excess as u32);
                self.mantissa / unit + (self.mantissa % unit).signum()
            }
            _ => self.mantissa.signum(),
        };
        Self {
            mantissa,
            scale: NANO,
            ..self
        }
    }
}

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
        Ok(if negative {
            Self {
                mantissa: -magnitude.mantissa,
                ..magnitude
            }
        } else {
            magnitude
        })
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
    let mantissa: i128 = if digits.is_empty() {
        0
    } else {
        digits.parse().map_err(|_| QuantityError::Overflow)?
    };
    let mantissa = mantissa.checked_add(i128::from(carry)).ok_or(QuantityError::Overflow)?;
    let scale = i32::try_from(scale).map_err(|_| QuantityError::Overflow)?;
    Ok(Quantity {
        mantissa,
        scale: if mantissa == 0 { scale.max(0) } else { scale },
        format,
    })
}

fn parse_binary(whole: &str, fraction: &str, power: u32) -> Result<Quantity, QuantityError> {
    let cap = Quantity {
        mantissa: i128::from(i64::MAX),
        scale: 0,
        format: Format::Binary,
    };
    if whole.len() > 19 {
        return Ok(cap);
    }
    let factor = 1_i128 << (10 * power);
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| QuantityError::Overflow)?
    };
    let units = whole * factor;
    let significant = fraction.trim_end_matches('0');
    if significant.is_empty() {
        let scale = if fraction.is_empty() { 0 } else { NANO };
        let exact = Quantity {
            mantissa: units,
            scale: 0,
            format: Format::Binary,
        };
        return Ok(if exact > cap {
            cap
        } else {
            Quantity {
                mantissa: shift_left(units, scale).unwrap_or(units),
                scale,
                ..exact
            }
        });
    }
    if significant.len() > 19 {
        return Err(QuantityError::Overflow);
    }
    let part: i128 = significant.parse().map_err(|_| QuantityError::Overflow)?;
    let part = Quantity {
        mantissa: part * factor,
        scale: significant.len() as i32,
        format: Format::Binary,
    };
    let value = part
        .checked_add(Quantity { mantissa: units, ..cap })
        .map(Quantity::round_up_to_nano);
    let value = match value {
        Ok(value) if value <= cap => value,
        _ => return Ok(cap),
    };
    // Less than one has no binary notation.
    let below_one = value.mantissa < 10_i128.pow(NANO as u32) && value.scale == NANO;
    Ok(if below_one {
        Quantity {
            format: Format::Decimal,
            ..value
        }
    } else {
        value
    })
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

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        if let Some((a, b, _)) = align(self, other) {
            return a.cmp(&b);
        }
        // They differ by more digits than fit: the sign decides, then the one that had to be enlarged.
        let signs = self.mantissa.signum().cmp(&other.mantissa.signum());
        let larger = if self.scale < other.scale {
            Ordering::Greater
        } else {
            Ordering::Less
        };
        signs.then(if self.mantissa < 0 { larger.reverse() } else { larger })
    }
}

/// Both mantissas at the finer of the two scales.
fn align(a: &Quantity, b: &Quantity) -> Option<(i128, i128, i32)> {
    let (am, a_scale) = if a.is_zero() {
        (0, b.scale)
    } else {
        (a.mantissa, a.scale)
    };
    let (bm, b_scale) = if b.is_zero() {
        (0, a.scale)
    } else {
        (b.mantissa, b.scale)
    };
    let scale = a_scale.max(b_scale);
    if let (Some(a), Some(b)) = (shift_left(am, scale - a_scale), shift_left(bm, scale - b_scale)) {
        return Some((a, b, scale));
    }
    // Trailing zeros may have taken the room.
    let (am, a_scale) = strip_zeros(am, a_scale);
    let (bm, b_scale) = strip_zeros(bm, b_scale);
    let scale = a_scale.max(b_scale);
    Some((
        shift_left(am, scale - a_scale)?,
        shift_left(bm, scale - b_scale)?,
        scale,
    ))
}

fn shift_left(mantissa: i128, places: i32) -> Option<i128> {
    if mantissa == 0 {
        return Some(0);
    }
    10_i128.checked_pow(u32::try_from(places).ok()?)?.checked_mul(mantissa)
}

fn strip_zeros(mut mantissa: i128, mut scale: i32) -> (i128, i32) {
    while mantissa != 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        scale -= 1;
    }
    (mantissa, scale)
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
            assert_eq!(
                text.parse::<Quantity>(),
                Err(QuantityError::Syntax { text: text.into() }),
                "{text}"
            );
        }
        assert_eq!("1e100000".parse::<Quantity>(), Err(QuantityError::Overflow));
        assert_eq!(
            "1234567890123456789012345678901234567891".parse::<Quantity>(),
            Err(QuantityError::Overflow)
        );
    }

    #[test]
    fn sums_and_differences() {
        #[track_caller]
        fn check(a: &str, b: &str, sum: &str, difference: &str) {
            let (a, b) = (quantity(a), quantity(b));
            let results = (
                a.checked_add(b).unwrap().to_string(),
                a.checked_sub(b).unwrap().to_string(),
            );
            assert_eq!((results.0.as_str(), results.1.as_str()), (sum, difference));
        }
        check("12Ki", "13Ki", "25Ki", "-1Ki");
        check("12Ki", "13", "12301", "12275");
        check("16Ei", "0", "9223372036854775807", "9223372036854775807");
        check("12E", "0", "12E", "12E");
        check("9E", "9E", "18E", "0");
        check("8Ei", "8Ei", "18446744073709551614", "0");
        check("1Ki", "0.5", "1024500m", "1023500m");
        check("0", "2Ki", "2Ki", "-2Ki");
        check("500m", "500m", "1", "0");
        check("1e30", "0", "1e30", "1e30");
        assert_eq!(
            quantity("1e100").checked_add(quantity("1n")),
            Err(QuantityError::Overflow)
        );
    }

    #[test]
    fn products_quotients_and_remainders() {
        let text = |result: Result<Quantity, QuantityError>| result.unwrap().to_string();
        assert_eq!(text(quantity("12Ki").checked_mul(2.0)), "24Ki");
        assert_eq!(text(quantity("12Ki").checked_mul(2.5)), "30Ki");
        assert_eq!(text(quantity("12").checked_mul(2.5)), "30");
        assert_eq!(text(quantity("1n").checked_mul(0.5)), "1n");
        assert_eq!(text(quantity("1").checked_mul(1e30)), "1000000000000E");
        assert_eq!(text(quantity("12Ki").checked_div(3.0)), "4Ki");
        assert_eq!(text(quantity("1").checked_div(3.0)), "0");
        assert_eq!(text(quantity("1.00").checked_div(3.0)), "330m");
        assert_eq!(text(quantity("-7").checked_div(2.0)), "-3");
        assert_eq!(text(quantity("5k").checked_div(2.0)), "2500");
        assert_eq!(text(quantity("1M").checked_div(1e6)), "1");
        assert_eq!(quantity("12Ki").ratio(quantity("200")), Ok(61.44));
        assert_eq!(quantity("8").ratio(quantity("3")), Ok(8.0 / 3.0));
        assert_eq!(text(quantity("12Ki").checked_rem(quantity("5Ki"))), "2Ki");
        assert_eq!(text(quantity("-7").checked_rem(quantity("2.0"))), "-1");
        assert_eq!(quantity("4").checked_rem(quantity("1.5")), Err(QuantityError::NotWhole));
        assert_eq!(
            quantity("4").checked_rem(quantity("0")),
            Err(QuantityError::DivisionByZero)
        );
        assert_eq!(quantity("4").checked_div(0.0), Err(QuantityError::DivisionByZero));
        assert_eq!(quantity("4").ratio(quantity("0m")), Err(QuantityError::DivisionByZero));
    }

    #[test]
    fn order_is_by_value() {
        assert_eq!(quantity("1024"), quantity("1Ki"));
        assert_eq!(quantity("1Gi"), quantity("1024Mi"));
        assert_eq!(quantity("500m"), quantity("0.5"));
        assert!(quantity("1025") > quantity("1Ki"));
        assert!(quantity("100") > quantity("10"));
        assert!(quantity("1e900") > quantity("99E"));
        assert!(quantity("-1e900") < quantity("1n"));
        assert!(quantity("-1e900") < quantity("-1n"));
        assert!(quantity("0") < quantity("1e900"));
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
        fn subtraction_undoes_addition(a in any::<i64>(), b in any::<i64>(), m in 0_i32..9) {
            let a = Quantity { mantissa: a.into(), scale: m, format: Format::Decimal };
            let b = Quantity { mantissa: b.into(), scale: 2, format: Format::Decimal };
            prop_assert_eq!(a.checked_add(b).unwrap().checked_sub(b).unwrap(), a);
        }

        #[test]
        fn no_text_panics(text in "[-+]?[0-9]{0,45}[.]?[0-9]{0,45}[numkMGTPEKie]{0,2}[-+]?[0-9]{0,9}") {
            if let Ok(value) = text.parse::<Quantity>() {
                let _ = (value.to_string(), value.checked_mul(1e300), value.checked_div(1e-300), value.checked_add(value));
            }
        }
    }
}
