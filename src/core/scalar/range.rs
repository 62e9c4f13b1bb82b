//! Ranges in condition values: `10-20`, `128Mi-512Mi`, `-10--5`, `1h-2h`; with `!-` the complement.

use super::duration::Duration;
use super::quantity::Quantity;

/// Two bounds, both inclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    low: Scalar,
    high: Scalar,
    /// Whether the range is everything outside the bounds.
    pub complement: bool,
}

/// What a text can be compared as. Neither is legal: such a text is in no range.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scalar {
    duration: Option<Duration>,
    quantity: Option<Quantity>,
}

impl Range {
    /// `None` if the text is not of the form `<n>-<n>` or `<n>!-<n>`.
    pub fn parse(text: &str) -> Option<Self> {
        let (low, rest) = bound(text)?;
        let (complement, rest) = match rest.strip_prefix("!-") {
            Some(rest) => (true, rest),
            None => (false, rest.strip_prefix('-')?),
        };
        let (high, rest) = bound(rest)?;
        rest.is_empty().then(|| Self { low: Scalar::read(low), high: Scalar::read(high), complement })
    }

    /// Whether the text lies between the bounds (or, for a complement, outside of them). A text that cannot be compared
    /// with a bound is neither.
    pub fn contains(&self, text: &str) -> bool {
        let value = Scalar::read(text);
        let (Some(low), Some(high)) = (value.compare(&self.low), value.compare(&self.high)) else {
            return false;
        };
        if self.complement { low.is_lt() || high.is_gt() } else { low.is_ge() && high.is_le() }
    }
}

impl Scalar {
    fn read(text: &str) -> Self {
        Self { duration: text.parse().ok(), quantity: text.parse().ok() }
    }

    /// As durations if both are, else as quantities if both are.
    fn compare(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self.duration, other.duration) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => Some(self.quantity?.cmp(&other.quantity?)),
        }
    }
}

/// Splits off an optional sign, digits, optional decimals and optional letters.
fn bound(text: &str) -> Option<(&str, &str)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut rest = digits(unsigned)?;
    if let Some(after) = rest.strip_prefix('.').and_then(digits) {
        rest = after;
    }
    rest = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    Some(text.split_at(text.len() - rest.len()))
}

/// What follows at least one digit.
fn digits(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn membership() {
        #[track_caller]
        fn check(range: &str, text: &str, expected: bool) {
            assert_eq!(Range::parse(range).expect(range).contains(text), expected, "{text} in {range}");
        }
        check("1-10", "5", true);
        check("7-10", "5", false);
        check("1.001-10", "1.002", true);
        check("0-10", "11", false);
        check("6-10", "5.5", false);
        check("128Mi-512Mi", "256Mi", true);
        check("128Mi-512Mi", "1Gi", false);
        check("-10-8", "-9", true);
        check("2-2", "2", true);
        check("-10--5", "-7", true);
        check("-10--5", "-4", false);
        check("1h-2h", "90m", true);
        check("1h-2h", "3h", false);
        check("1m-2m", "90s", true);
        check("1m-2m", "0.0015", true);
        check("1-10", "abc", false);
        check("1abc-2abc", "1", false);
        check("1!-10", "11", true);
        check("1!-10", "0", true);
        check("1!-10", "5", false);
        check("1!-10", "abc", false);
    }

    #[test]
    fn what_is_no_range() {
        for text in
            ["", "-", "1-", "-1", "1", "a-b", "1-2-3", "1 - 2", "1-2 ", "1.-2", "1--", "kube-system", "2021-01-02"]
        {
            assert_eq!(Range::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_range_and_its_complement_share_nothing(low in -50_i32..50, high in -50_i32..50, value in -60_i32..60) {
            let inside = Range::parse(&format!("{low}-{high}")).unwrap().contains(&value.to_string());
            let outside = Range::parse(&format!("{low}!-{high}")).unwrap().contains(&value.to_string());
            prop_assert_eq!(inside, !outside);
            prop_assert_eq!(inside, low <= value && value <= high);
        }
    }
}
