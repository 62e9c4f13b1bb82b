//! Decimal numbers as text, compared without rounding: `100.0000000000000000000001` is more than 100.

use std::cmp::Ordering;
use std::str::FromStr;

/// A decimal number of any length: an optional minus, `0.` digits, times ten to the power of `exponent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Without zeros at either end; empty for zero.
    digits: Vec<u8>,
    exponent: i64,
}

/// Exponents beyond this are refused rather than computed with.
const MAX_EXPONENT: i64 = i32::MAX as i64;

impl Decimal {
    /// How this number compares with a whole one.
    pub(super) fn compare(&self, other: i64) -> Ordering {
        let other = Self::from(other);
        match (self.sign(), other.sign()) {
            (a, b) if a != b => a.cmp(&b),
            (0, _) => Ordering::Equal,
            (sign, _) => {
                let magnitude = self.exponent.cmp(&other.exponent).then_with(|| self.digits.cmp(&other.digits));
                if sign < 0 { magnitude.reverse() } else { magnitude }
            }
        }
    }

    pub(super) fn is_within(&self, low: i64, high: i64) -> bool {
        self.compare(low).is_ge() && self.compare(high).is_le()
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    fn new(negative: bool, whole: &str, fraction: &str, exponent: i64) -> Self {
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let leading = digits.iter().take_while(|digit| **digit == b'0').count();
        let trailing = digits[leading..].iter().rev().take_while(|digit| **digit == b'0').count();
        let significant = digits[leading..digits.len() - trailing].to_vec();
        let exponent = exponent + whole.len() as i64 - leading as i64;
        Self { negative, digits: significant, exponent }
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self::new(value < 0, &value.unsigned_abs().to_string(), "", 0)
    }
}

impl FromStr for Decimal {
    type Err = ();

    /// `99.9`, `5.`, `.5`, `+7`, `1e-3`; neither `1_000` nor `0x10` nor `NaN`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], unsigned[at + 1..].parse::<i64>().map_err(drop)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
            return Err(());
        }
        if exponent.abs() > MAX_EXPONENT {
            return Err(());
        }
        Ok(Self::new(negative, whole, fraction, exponent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, other: i64, expected: Ordering) {
        let decimal: Decimal = text.parse().expect(text);
        assert_eq!(decimal.compare(other), expected, "{text} and {other}");
    }

    #[test]
    fn comparison_is_exact() {
        check("100", 100, Ordering::Equal);
        check("100.0000000000000000000001", 100, Ordering::Greater);
        check("99.99999999999999999999", 100, Ordering::Less);
        check("1e2", 100, Ordering::Equal);
        check("0.001e5", 100, Ordering::Equal);
        check("1e-3", 0, Ordering::Greater);
        check("-0.0", 0, Ordering::Equal);
        check("-1", 0, Ordering::Less);
        check("-2", -1, Ordering::Less);
        check("5.", 5, Ordering::Equal);
        check(".5", 1, Ordering::Less);
        check("+7", 7, Ordering::Equal);
        check("007", 7, Ordering::Equal);
        check("1e2000000000", 100, Ordering::Greater);
    }

    #[test]
    fn only_decimals_are_numbers() {
        for text in
            ["", ".", "+", "-", "1_000", "0x10", "NaN", "Inf", "1e", "1e5.5", "e5", "1 ", "1,5", "1e99999999999", "½"]
        {
            assert_eq!(text.parse::<Decimal>(), Err(()), "{text}");
        }
    }

    #[test]
    fn bounds_include_their_ends() {
        let percent = |text: &str| text.parse::<Decimal>().expect(text).is_within(0, 100);
        assert!(percent("0") && percent("100") && percent("50.5"));
        assert!(!percent("-0.1") && !percent("100.1"));
    }
}
