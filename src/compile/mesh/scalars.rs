//! Scalars of wire documents: flags, whole numbers, decimals, durations, words out of a list; each checked at its field.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::RangeInclusive;

use serde_json::Number;

use super::decimal::Decimal;
use crate::compile::Findings;
use crate::compile::reader::Node;
use crate::core::json::{Shape, Tree};
use crate::core::problem::Reason;
use crate::core::scalar::duration::Duration;

/// The whole numbers that a field of the type can hold.
pub(super) const INT32: RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;
pub(super) const UINT32: RangeInclusive<i64> = 0..=u32::MAX as i64;

impl<'v, T: Tree<'v>> Node<'v, T> {
    pub(super) fn flag(&self, findings: &mut Findings) -> Option<bool> {
        match self.value()?.shape() {
            Shape::Bool(flag) => Some(flag),
            other => {
                self.mistyped("true or false", other, findings);
                None
            }
        }
    }

    /// A whole number of the given type.
    pub(super) fn integer(&self, fits: RangeInclusive<i64>, findings: &mut Findings) -> Option<i64> {
        match self.value()?.shape() {
            Shape::Number(number) if !number.is_f64() || whole(number).is_some() => {
                let integer = number.as_i64().or_else(|| whole(number)).filter(|integer| fits.contains(integer));
                if integer.is_none() {
                    let message = format!("malformed: {number} is outside {} to {}", fits.start(), fits.end());
                    findings.refuse(self.path, Reason::Format, message);
                }
                integer
            }
            other => {
                self.mistyped("a whole number", other, findings);
                None
            }
        }
    }

    /// A whole number, or text that holds a decimal one.
    pub(super) fn decimal(&self, findings: &mut Findings) -> Option<Decimal> {
        let text = match self.value()?.shape() {
            Shape::Text(text) => Cow::Borrowed(text),
            Shape::Number(number) if !number.is_f64() => Cow::Owned(self.integer(INT32, findings)?.to_string()),
            other => {
                self.mistyped("a number, or text such as \"99.5\"", other, findings);
                return None;
            }
        };
        let decimal = text.parse().ok();
        if decimal.is_none() {
            findings.refuse(self.path, Reason::Format, format!("malformed: `{text}` is not a decimal number"));
        }
        decimal
    }

    pub(super) fn duration(&self, findings: &mut Findings) -> Option<Duration> {
        match self.text(findings)?.parse() {
            Ok(duration) => Some(duration),
            Err(error) => {
                findings.refuse(self.path, Reason::Format, format!("malformed: {error}"));
                None
            }
        }
    }

    pub(super) fn positive_duration(&self, findings: &mut Findings) -> Option<Duration> {
        let duration = self.duration(findings)?;
        if duration <= Duration::ZERO {
            findings.refuse(self.path, Reason::NotPositive, format!("{duration} is not above 0s"));
        }
        Some(duration)
    }

    pub(super) fn natural_duration(&self, findings: &mut Findings) -> Option<Duration> {
        let duration = self.duration(findings)?;
        if duration.is_negative() {
            findings.refuse(self.path, Reason::Negative, format!("{duration} is below 0s"));
        }
        Some(duration)
    }

    pub(super) fn positive_integer(&self, fits: RangeInclusive<i64>, findings: &mut Findings) -> Option<i64> {
        let integer = self.integer(fits, findings)?;
        if integer <= 0 {
            findings.refuse(self.path, Reason::NotPositive, format!("{integer} is not above 0"));
        }
        Some(integer)
    }

    /// A whole number that the schema lets through and the policy bounds further.
    pub(super) fn bounded_integer(
        &self,
        fits: RangeInclusive<i64>,
        bounds: RangeInclusive<i64>,
        findings: &mut Findings,
    ) -> Option<i64> {
        let integer = self.integer(fits, findings)?;
        if !bounds.contains(&integer) {
            let message = format!("{integer} is outside [{},{}]", bounds.start(), bounds.end());
            findings.refuse(self.path, Reason::Range, message);
        }
        Some(integer)
    }

    /// A decimal between 0 and 100.
    pub(super) fn percentage(&self, findings: &mut Findings) -> Option<Decimal> {
        let decimal = self.decimal(findings)?;
        if !decimal.is_within(0, 100) {
            findings.refuse(self.path, Reason::Range, "outside [0,100]");
        }
        Some(decimal)
    }

    /// A decimal that compares with zero as one of `accepted`.
    pub(super) fn decimal_above(&self, accepted: &[Ordering], findings: &mut Findings) -> Option<Decimal> {
        let decimal = self.decimal(findings)?;
        if !accepted.contains(&decimal.compare(0)) {
            let bound = if accepted.contains(&Ordering::Equal) { "below 0" } else { "not above 0" };
            findings.refuse(self.path, Reason::NotPositive, bound);
        }
        Some(decimal)
    }

    /// One of the known words; an absent one is reported as empty text.
    pub(super) fn word(&self, known: &[&'static str], findings: &mut Findings) -> Option<&'static str> {
        let given = self.text(findings).unwrap_or_default();
        let word = known.iter().find(|word| **word == given).copied();
        if word.is_none() {
            findings.refuse(self.path, Reason::Enum, unknown_word(&given, known));
        }
        word
    }

    /// One of the known words, where the schema has refused any other.
    pub(super) fn schema_word(&self, known: &[&'static str], findings: &mut Findings) -> Option<&'static str> {
        let given = self.text(findings)?;
        known.iter().find(|word| **word == given).copied()
    }

    /// Whether this is a list with something in it.
    pub(super) fn is_filled_list(&self) -> bool {
        self.value().is_some_and(|list| list.is_list() && list.count() > 0)
    }

    /// Whether there is anything in it: text, a list or a mapping that is not empty, or any other value.
    pub(super) fn is_filled(&self) -> bool {
        self.value().is_some_and(|value| match value.shape() {
            Shape::Text(text) => !text.is_empty(),
            Shape::List | Shape::Object => value.count() > 0,
            _ => true,
        })
    }
}

/// The whole number that is written with a fraction of zero or an exponent: `8080.0`, `8e3`.
fn whole(number: &Number) -> Option<i64> {
    let number = number.as_f64()?;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

/// Whole numbers up to here are exact in a float.
const EXACT: f64 = 9_007_199_254_740_991.0;

fn unknown_word(given: &str, known: &[&'static str]) -> String {
    let known = known.join(", ");
    if given.is_empty() {
        format!("missing; known: {known}")
    } else {
        format!("unknown value `{given}`; known: {known}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::compile::way::Ways;

    /// Whether reading this value gives something, and the classes of what is found.
    fn read<T>(
        value: &Value,
        read: impl Fn(&Node<'_, &Value>, &mut Findings) -> Option<T>,
    ) -> (bool, Vec<&'static str>) {
        let mut findings = Findings::default();
        let ways = Ways::default();
        let given = read(&Node::new(Some(value), ways.root()), &mut findings).is_some();
        (given, findings.errors.iter().map(|problem| problem.reason.as_str()).collect())
    }

    #[test]
    fn whole_numbers() {
        for (value, expected) in [
            (json!(5), (true, vec![])),
            (json!(null), (false, vec![])),
            (json!(-1), (false, vec!["FORMAT"])),
            (json!(4294967296_u64), (false, vec!["FORMAT"])),
            (json!(u64::MAX), (false, vec!["FORMAT"])),
            (json!(5.0), (true, vec![])),
            (json!(8e3), (true, vec![])),
            (json!(5.5), (false, vec!["FORMAT"])),
            (json!(1e300), (false, vec!["FORMAT"])),
            (json!("5"), (false, vec!["FORMAT"])),
            (json!([5]), (false, vec!["FORMAT"])),
        ] {
            assert_eq!(read(&value, |node, findings| node.integer(UINT32, findings)), expected, "{value}");
        }
    }

    #[test]
    fn numbers_or_text() {
        for (value, expected) in [
            (json!(99), (true, vec![])),
            (json!("99.9"), (true, vec![])),
            (json!("100.0000000000000000000001"), (true, vec!["RANGE"])),
            (json!(-1), (true, vec!["RANGE"])),
            (json!(99.9), (false, vec!["FORMAT"])),
            (json!(3000000000_u64), (false, vec!["FORMAT"])),
            (json!("1_000"), (false, vec!["FORMAT"])),
            (json!(""), (false, vec!["FORMAT"])),
            (json!(true), (false, vec!["FORMAT"])),
        ] {
            assert_eq!(read(&value, |node, findings| node.percentage(findings)), expected, "{value}");
        }
    }

    #[test]
    fn durations() {
        for (value, expected) in [
            (json!("1h30m"), (true, vec![])),
            (json!("+5s"), (true, vec![])),
            (json!(0), (true, vec![])),
            (json!("-1s"), (true, vec!["NEG"])),
            (json!("1d"), (false, vec!["FORMAT"])),
            (json!(""), (false, vec!["FORMAT"])),
            (json!(5), (false, vec!["FORMAT"])),
            (json!({}), (false, vec!["FORMAT"])),
        ] {
            assert_eq!(read(&value, |node, findings| node.natural_duration(findings)), expected, "{value}");
        }
    }

    #[test]
    fn flags() {
        assert_eq!(read(&json!(false), |node, findings| node.flag(findings)), (true, vec![]));
        assert_eq!(read(&json!("true"), |node, findings| node.flag(findings)), (false, vec!["FORMAT"]));
    }
}
