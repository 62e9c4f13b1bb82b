//! `AnyIn`, `AllIn`, `AnyNotIn`, `AllNotIn`, and the older `In` and `NotIn`.
//!
//! A value that the operator cannot read makes the condition false, the negated operators included.

use std::borrow::Cow;

use serde_json::Value;

use crate::core::scalar::range::Range;
use crate::core::scalar::{json_text, number, wildcard};

/// Which keys must, or must not, be among the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    AnyIn,
    AllIn,
    AnyNotIn,
    AllNotIn,
    /// Deprecated: exact for lists, no ranges.
    In,
    /// Deprecated: exact for lists, no ranges.
    NotIn,
}

impl Member {
    pub(super) fn holds(self, key: &Value, value: &Value) -> bool {
        match key {
            Value::Array(keys) => match self {
                Self::In | Self::NotIn => self.holds_exactly(keys, value),
                _ => {
                    let keys: Vec<Cow<'_, str>> = keys.iter().map(text).collect();
                    self.holds_for_list(&keys, value)
                }
            },
            Value::String(_) | Value::Number(_) | Value::Bool(_) => self.holds_for_one(&text(key), value),
            Value::Null | Value::Object(_) => false,
        }
    }

    fn negated(self) -> bool {
        matches!(self, Self::AnyNotIn | Self::AllNotIn | Self::NotIn)
    }

    fn holds_for_one(self, key: &str, value: &Value) -> bool {
        let member = match value {
            Value::Array(items) => Some(items.iter().any(|item| alike(&text(item), key))),
            Value::String(pattern) if wildcard::matches(pattern, key) => Some(true),
            Value::String(other) if matches!(self, Self::In | Self::NotIn) => {
                strings(other).map(|list| list.iter().any(|item| item == key))
            }
            Value::String(other) => match Values::read(other) {
                Some(Values::Range(range)) => Some(range.contains(key)),
                Some(Values::List(list)) => Some(list.iter().any(|item| item == key)),
                None => None,
            },
            _ => None,
        };
        member.is_some_and(|member| member != self.negated())
    }

    fn holds_for_list(self, keys: &[Cow<'_, str>], value: &Value) -> bool {
        let values = match value {
            Value::Array(items) => Some(Values::List(items.iter().map(|item| text(item).into_owned()).collect())),
            Value::String(only) if keys.len() == 1 && keys[0] == *only && self == Self::AnyIn => return true,
            Value::String(only) if keys.len() == 1 && keys[0] == *only && self == Self::AnyNotIn => return false,
            Value::String(text) => Values::read(text),
            Value::Number(_) | Value::Bool(_) if matches!(self, Self::AnyIn | Self::AnyNotIn) => {
                Some(Values::List(vec![text(value).into_owned()]))
            }
            _ => None,
        };
        let Some(values) = values else { return false };
        let mut keys = keys.iter();
        match self {
            Self::AnyIn | Self::In => keys.any(|key| values.have(key)),
            Self::AllIn => keys.all(|key| values.have(key)),
            Self::AnyNotIn | Self::NotIn => keys.any(|key| !values.have(key)),
            Self::AllNotIn => !keys.any(|key| values.have(key)),
        }
    }

    /// The deprecated operators on a list: texts only, compared exactly.
    fn holds_exactly(self, keys: &[Value], value: &Value) -> bool {
        let keys: Option<Vec<&str>> = keys.iter().map(Value::as_str).collect();
        let Some(keys) = keys else { return false };
        let values: Option<Vec<String>> = match value {
            Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
            // True for NotIn as well: existing policies have been running with it.
            Value::String(only) if keys == [only.as_str()] => return true,
            Value::String(list) => strings(list),
            _ => None,
        };
        let Some(values) = values else { return false };
        let subset = keys.iter().all(|key| values.iter().any(|value| value == key));
        subset != self.negated()
    }
}

/// What a value text stands for beside a list of keys.
enum Values {
    Range(Range),
    List(Vec<String>),
}

impl Values {
    /// A range, a JSON list of texts, or itself. `None` for any other JSON.
    fn read(text: &str) -> Option<Self> {
        if let Some(range) = Range::parse(text).filter(|range| !range.complement) {
            return Some(Self::Range(range));
        }
        if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
            return strings(text).map(Self::List);
        }
        Some(Self::List(vec![text.to_owned()]))
    }

    fn have(&self, key: &str) -> bool {
        match self {
            Self::Range(range) => range.contains(key),
            Self::List(list) => list.iter().any(|value| alike(value, key)),
        }
    }
}

/// Whether one is a pattern for the other.
fn alike(a: &str, b: &str) -> bool {
    wildcard::matches(a, b) || wildcard::matches(b, a)
}

/// A JSON list of texts.
fn strings(text: &str) -> Option<Vec<String>> {
    serde_json::from_str(text).ok()
}

/// A member of a list as text.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) => Cow::Owned(number::text(number)),
        Value::Null => Cow::Borrowed("<nil>"),
        other => Cow::Owned(json_text::encode(other)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Member::{AllIn, AllNotIn, AnyIn, AnyNotIn, In, NotIn};
    use super::*;

    #[track_caller]
    fn check(key: Value, member: Member, value: Value, expected: bool) {
        assert_eq!(member.holds(&key, &value), expected, "{key} {member:?} {value}");
    }

    #[test]
    fn known_cases() {
        check(json!(5), AnyIn, json!("1-10"), true);
        check(json!([1, 5]), AnyIn, json!("7-10"), false);
        check(json!([1.002, 1.222]), AnyIn, json!("1.001-10"), true);
        check(json!(["1*"]), AnyIn, json!(["1.1.1.1", "2.2.2.2"]), true);
        check(json!("1.1.1.1"), AnyIn, json!(["1*"]), true);
        check(json!([3, 2]), AllIn, json!("1-10"), true);
        check(json!(["1.1.1.1", "5.5.5.5"]), AllIn, json!(["1.1.1.1"]), false);
        check(json!([1, 5, 11]), AnyNotIn, json!("0-10"), true);
        check(json!([1, 5, 7]), AnyNotIn, json!("0-10"), false);
        check(json!(5.5), AllNotIn, json!("6-10"), true);
        check(json!([2, 6]), AllNotIn, json!("5-10"), false);
        check(json!(64), AllNotIn, json!("64"), false);
        check(json!(["kube-system", "default"]), AnyNotIn, json!("kube-system"), true);
        check(json!([]), AnyNotIn, json!(["default", "kyverno"]), false);
        check(json!(""), AnyNotIn, json!(["default", "kyverno"]), true);
        check(json!(true), AnyNotIn, json!(true), false);
        check(json!("256Mi"), AnyIn, json!("128Mi-512Mi"), true);
        check(json!(-9), AnyIn, json!("-10-8"), true);
        check(json!(2), AnyIn, json!("2-2"), true);
    }

    #[test]
    fn one_key_any_and_all_are_the_same() {
        #[track_caller]
        fn both(key: Value, value: Value, member: Option<bool>) {
            for operator in [AnyIn, AllIn] {
                check(key.clone(), operator, value.clone(), member == Some(true));
            }
            for operator in [AnyNotIn, AllNotIn] {
                check(key.clone(), operator, value.clone(), member == Some(false));
            }
        }
        both(json!("a"), json!(["b", "?"]), Some(true));
        both(json!("a*"), json!(["abc"]), Some(true));
        both(json!("a"), json!([]), Some(false));
        both(json!("abc"), json!("a*"), Some(true));
        both(json!("a*"), json!("abc"), Some(false));
        both(json!("5"), json!("7-10"), Some(false));
        both(json!("abc"), json!("7-10"), Some(false));
        both(json!("a"), json!(r#"["a", "b"]"#), Some(true));
        both(json!("a"), json!(r#"["?"]"#), Some(false));
        both(json!("a"), json!("[1]"), None);
        both(json!("6"), json!("5"), None);
        both(json!("a"), json!("b"), Some(false));
        both(json!(5), json!([5.0]), Some(true));
        both(json!(1000000), json!(["1000000"]), Some(true));
        both(json!(true), json!(["true"]), Some(true));
        both(json!("<nil>"), json!([null]), Some(true));
        for value in [json!(5), json!(true), json!({}), json!(null)] {
            both(json!("5"), value, None);
        }
        both(json!({}), json!(["*"]), None);
    }

    #[test]
    fn lists_of_keys() {
        check(json!([]), AllIn, json!(["a"]), true);
        check(json!([]), AnyIn, json!(["a"]), false);
        check(json!([]), AllNotIn, json!(["a"]), true);
        check(json!(["a", "b"]), AllIn, json!(["?"]), true);
        check(json!(["a", "b"]), AllNotIn, json!(["c", "b"]), false);
        check(json!(["a", "b"]), AllNotIn, json!(["c"]), true);
        check(json!(["a"]), AnyIn, json!("a"), true);
        check(json!(["a"]), AnyNotIn, json!("a"), false);
        check(json!(["5"]), AnyIn, json!("5"), true);
        check(json!(["5", "6"]), AnyIn, json!("5"), false);
        check(json!(["5"]), AllIn, json!("5"), false);
        check(json!(["a", "b"]), AnyIn, json!(r#"["b"]"#), true);
        check(json!(["a", "b"]), AllNotIn, json!(r#"{"a": 1}"#), false);
        check(json!([5, 6]), AnyIn, json!(5), true);
        check(json!([5, 6]), AllIn, json!(5), false);
        check(json!([5, 6]), AnyNotIn, json!(5), true);
        check(json!([5, 6]), AllNotIn, json!(7), false);
        check(json!([true]), AnyIn, json!(true), true);
        check(json!(["a"]), AnyIn, json!(null), false);
        check(json!(["a"]), AnyNotIn, json!({}), false);
        check(json!([null]), AnyIn, json!(["<nil>"]), true);
    }

    #[test]
    fn the_deprecated_operators_are_exact_on_lists() {
        check(json!(["a"]), In, json!(["a", "b"]), true);
        check(json!(["a", "c"]), In, json!(["a", "b"]), false);
        check(json!(["a*"]), In, json!(["abc"]), false);
        check(json!([]), In, json!(["a"]), true);
        check(json!([]), NotIn, json!(["a"]), false);
        check(json!(["a", "c"]), NotIn, json!(["a", "b"]), true);
        check(json!(["a"]), NotIn, json!(["a", "b"]), false);
        check(json!(["a"]), In, json!("a"), true);
        check(json!(["a"]), NotIn, json!("a"), true);
        check(json!(["a"]), In, json!(r#"["a"]"#), true);
        check(json!(["a", "b"]), In, json!("a"), false);
        check(json!(["a", "b"]), NotIn, json!("a"), false);
        check(json!([1]), In, json!([1]), false);
        check(json!([1]), NotIn, json!([2]), false);
    }

    #[test]
    fn the_deprecated_operators_on_one_key_know_no_ranges() {
        check(json!("a"), In, json!(["?"]), true);
        check(json!("abc"), In, json!("a*"), true);
        check(json!(5), In, json!("1-10"), false);
        check(json!(5), NotIn, json!("1-10"), false);
        check(json!("a"), In, json!(r#"["a"]"#), true);
        check(json!("b"), NotIn, json!(r#"["a"]"#), true);
        check(json!("b"), NotIn, json!("a"), false);
        check(json!("b"), NotIn, json!(["a"]), true);
    }
}
