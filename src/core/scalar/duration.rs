//! Durations in Go's notation: `1h30m`, `1.5s`, `-300ms`, `0`. Signed nanoseconds, no days, no spaces.

use std::fmt;
use std::str::FromStr;

/// A signed span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    #[error("`{text}` is not a duration such as 1h30m, 1.5s or 300ms")]
    Syntax { text: String },
    #[error("`{text}` has no unit: write one of ns, us, ms, s, m, h after the number")]
    MissingUnit { text: String },
    #[error("`{text}` has the unknown unit `{unit}`: use ns, us, ms, s, m or h")]
    UnknownUnit { text: String, unit: String },
    #[error("the duration is beyond 292 years")]
    Overflow,
    #[error("a duration cannot be divided by zero")]
    DivisionByZero,
}

impl DurationError {
    /// The message without the text that was read, which may be the content of a Secret.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "is not a duration such as 1h30m, 1.5s or 300ms",
            Self::MissingUnit { .. } => "has no unit: write one of ns, us, ms, s, m, h after the number",
            Self::UnknownUnit { .. } => "has an unknown unit: use ns, us, ms, s, m or h",
            Self::Overflow => "the duration is beyond 292 years",
            Self::DivisionByZero => "a duration cannot be divided by zero",
        }
    }
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The magnitude of the most negative duration.
const LIMIT: u64 = 1 << 63;

impl Duration {
    pub const ZERO: Self = Self(0);
    pub const MIN: Self = Self(i64::MIN);
    pub const MAX: Self = Self(i64::MAX);

    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// `None` beyond 292 years.
    pub fn from_secs(seconds: i64) -> Option<Self> {
        seconds.checked_mul(SECOND as i64).map(Self)
    }

    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Seconds with their fraction, rounded the way Go rounds them: whole seconds first, then the rest.
    pub fn as_secs_f64(self) -> f64 {
        let second = SECOND as i64;
        (self.0 / second) as f64 + (self.0 % second) as f64 / SECOND as f64
    }

    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    pub fn checked_add(self, other: Self) -> Result<Self, DurationError> {
        self.0.checked_add(other.0).map(Self).ok_or(DurationError::Overflow)
    }

    pub fn checked_sub(self, other: Self) -> Result<Self, DurationError> {
        self.0.checked_sub(other.0).map(Self).ok_or(DurationError::Overflow)
    }

    /// Multiplies in float seconds and drops what is finer than a nanosecond.
    pub fn checked_mul(self, factor: f64) -> Result<Self, DurationError> {
        Self::from_secs_f64(self.as_secs_f64() * factor)
    }

    /// Divides in float seconds and drops what is finer than a nanosecond.
    pub fn checked_div(self, divisor: f64) -> Result<Self, DurationError> {
        if divisor == 0.0 {
            return Err(DurationError::DivisionByZero);
        }
        Self::from_secs_f64(self.as_secs_f64() / divisor)
    }

    /// How often `other` fits into this duration.
    pub fn ratio(self, other: Self) -> Result<f64, DurationError> {
        if other.0 == 0 {
            return Err(DurationError::DivisionByZero);
        }
        Ok(self.as_secs_f64() / other.as_secs_f64())
    }

    /// What remains after taking `other` out as often as possible, with the sign of this duration.
    pub fn checked_rem(self, other: Self) -> Result<Self, DurationError> {
        if other.0 == 0 {
            return Err(DurationError::DivisionByZero);
        }
        Ok(Self(self.0.wrapping_rem(other.0)))
    }

    fn from_secs_f64(seconds: f64) -> Result<Self, DurationError> {
        let nanos = seconds * SECOND as f64;
        // Both bounds are exact as floats; the upper one is the first value that does not fit.
        if nanos >= -(LIMIT as f64) && nanos < LIMIT as f64 {
            Ok(Self(nanos as i64))
        } else {
            Err(DurationError::Overflow)
        }
    }
}

impl FromStr for Duration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let syntax = || DurationError::Syntax { text: text.to_owned() };
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(syntax());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (whole, after) = digits(rest);
            let (fraction, after) = match after.strip_prefix('.') {
                Some(after) => digits(after),
                None => ("", after),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(syntax());
            }
            let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            if unit.is_empty() {
                return Err(DurationError::MissingUnit { text: text.to_owned() });
            }
            let nanos = unit_nanos(unit)
                .ok_or_else(|| DurationError::UnknownUnit { text: text.to_owned(), unit: unit.to_owned() })?;
            let part = part_nanos(whole, fraction, nanos).ok_or(DurationError::Overflow)?;
            total = total.checked_add(part).filter(|total| *total <= LIMIT).ok_or(DurationError::Overflow)?;
            rest = after;
        }
        match (negative, i64::try_from(total)) {
            (false, Ok(nanos)) => Ok(Self(nanos)),
            (true, Ok(nanos)) => Ok(Self(-nanos)),
            (true, Err(_)) => Ok(Self::MIN),
            (false, Err(_)) => Err(DurationError::Overflow),
        }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if nanos == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        if nanos < SECOND {
            let (unit, name) = match nanos {
                ..MICROSECOND => (1, "ns"),
                MICROSECOND..MILLISECOND => (MICROSECOND, "µs"),
                _ => (MILLISECOND, "ms"),
            };
            return write_decimal(f, nanos, unit, name);
        }
        let (hours, minutes) = (nanos / HOUR, nanos / MINUTE % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write_decimal(f, nanos % MINUTE, SECOND, "s")
    }
}

/// Writes `nanos` in units with as many decimals as needed.
fn write_decimal(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    let fraction = nanos % unit;
    if fraction > 0 {
        let width = unit.ilog10() as usize;
        let decimals = format!("{fraction:0width$}");
        write!(f, ".{}", decimals.trim_end_matches('0'))?;
    }
    f.write_str(name)
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter look alike; both are in use.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

fn part_nanos(whole: &str, fraction: &str, unit: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos = whole.checked_mul(unit).filter(|nanos| *nanos <= LIMIT)?;
    let (mut numerator, mut scale) = (0_u64, 1.0_f64);
    for digit in fraction.bytes() {
        // Digits that no longer fit are finer than any unit needs.
        let Some(next) = numerator.checked_mul(10).and_then(|n| n.checked_add(u64::from(digit - b'0'))) else {
            break;
        };
        if next > LIMIT {
            break;
        }
        (numerator, scale) = (next, scale * 10.0);
    }
    // Floats on purpose: a third of an hour written with 19 digits is 20 minutes in Go.
    let part = (numerator as f64 * (unit as f64 / scale)) as u64;
    nanos.checked_add(part).filter(|nanos| *nanos <= LIMIT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn duration(text: &str) -> Duration {
        text.parse().unwrap()
    }

    #[test]
    fn parse_and_print() {
        #[track_caller]
        fn check(text: &str, nanos: i64, printed: &str) {
            let parsed = duration(text);
            assert_eq!((parsed.as_nanos(), parsed.to_string().as_str()), (nanos, printed), "{text}");
        }
        check("0", 0, "0s");
        check("-0", 0, "0s");
        check("0s", 0, "0s");
        check("1h", 3_600_000_000_000, "1h0m0s");
        check("60m", 3_600_000_000_000, "1h0m0s");
        check("100s", 100_000_000_000, "1m40s");
        check("1.5s", 1_500_000_000, "1.5s");
        check("300ms", 300_000_000, "300ms");
        check("1500us", 1_500_000, "1.5ms");
        check("2µs", 2_000, "2µs");
        check("2\u{3bc}s", 2_000, "2µs");
        check("7ns", 7, "7ns");
        check("-1h30m", -5_400_000_000_000, "-1h30m0s");
        check("+5s", 5_000_000_000, "5s");
        check(".5h", 1_800_000_000_000, "30m0s");
        check("5.s", 5_000_000_000, "5s");
        check("1h1m1.000000001s", 3_661_000_000_001, "1h1m1.000000001s");
        check("0.3333333333333333333h", 1_200_000_000_000, "20m0s");
        check("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s");
        check("180h10m", 648_600_000_000_000, "180h10m0s");
    }

    #[test]
    fn refusals_name_the_fault() {
        #[track_caller]
        fn check(text: &str, expected: DurationError) {
            assert_eq!(text.parse::<Duration>(), Err(expected), "{text}");
        }
        for text in ["", "-", ".s", "abc", " 1s", "1s 2s", "--1s"] {
            assert!(
                matches!(
                    text.parse::<Duration>(),
                    Err(DurationError::Syntax { .. } | DurationError::UnknownUnit { .. })
                ),
                "{text}"
            );
        }
        check("5", DurationError::MissingUnit { text: "5".into() });
        check("1h5", DurationError::MissingUnit { text: "1h5".into() });
        check("1d", DurationError::UnknownUnit { text: "1d".into(), unit: "d".into() });
        check("9223372036854775808ns", DurationError::Overflow);
        check("3000000h", DurationError::Overflow);
        check("99999999999999999999h", DurationError::Overflow);
    }

    #[test]
    fn arithmetic() {
        assert_eq!(duration("12s").checked_add(duration("13s")).unwrap().to_string(), "25s");
        assert_eq!(duration("12s").checked_sub(duration("13s")).unwrap().to_string(), "-1s");
        assert_eq!(duration("40s").checked_mul(2.5).unwrap().to_string(), "1m40s");
        assert_eq!(duration("12s").ratio(duration("5s")), Ok(2.4));
        assert_eq!(duration("13s").checked_rem(duration("2s")).unwrap().to_string(), "1s");
        assert_eq!(duration("-13s").checked_rem(duration("2s")).unwrap().to_string(), "-1s");
        assert_eq!(duration("10s").checked_div(4.0).unwrap().to_string(), "2.5s");
        assert_eq!(Duration::MAX.checked_add(duration("1ns")), Err(DurationError::Overflow));
        assert_eq!(Duration::MIN.checked_sub(duration("1ns")), Err(DurationError::Overflow));
        assert_eq!(Duration::MAX.checked_mul(2.0), Err(DurationError::Overflow));
        assert_eq!(duration("1s").checked_mul(f64::NAN), Err(DurationError::Overflow));
        assert_eq!(duration("1s").checked_div(0.0), Err(DurationError::DivisionByZero));
        assert_eq!(duration("1s").ratio(Duration::ZERO), Err(DurationError::DivisionByZero));
        assert_eq!(duration("1s").checked_rem(Duration::ZERO), Err(DurationError::DivisionByZero));
        assert_eq!(Duration::MIN.checked_rem(Duration::from_nanos(-1)), Ok(Duration::ZERO));
    }

    proptest! {
        #[test]
        fn printed_durations_read_back(nanos in any::<i64>()) {
            let value = Duration::from_nanos(nanos);
            prop_assert_eq!(value.to_string().parse(), Ok(value));
        }

        #[test]
        fn no_text_panics(text in "[-+]?[0-9.]{0,25}[a-zµ]{0,3}.{0,3}") {
            let _ = text.parse::<Duration>();
        }
    }
}
