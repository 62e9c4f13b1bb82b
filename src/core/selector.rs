//! Kubernetes label selectors, with or without wildcards in `matchLabels`.
//!
//! A selector does not know whose labels it looks at: objects, namespaces and mesh resources all come in as [`Labels`].

mod parse;
mod query;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value};

use crate::core::scalar::wildcard;

/// A compiled selector: everything in it must hold. An empty one holds always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    labels: Vec<LabelTest>,
    requirements: Vec<Requirement>,
}

/// One entry of `matchLabels`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelTest {
    key: String,
    value: String,
    /// Whether either side holds a wildcard.
    pattern: bool,
}

/// One entry of `matchExpressions`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

/// What `*` and `?` in `matchLabels` mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wildcards {
    /// Patterns, as in the match and exclude blocks of generate rules.
    Allowed,
    /// Illegal characters, as everywhere in Kubernetes.
    Refused,
}

/// A set of labels.
pub trait Labels {
    fn label(&self, key: &str) -> Option<&str>;

    /// Whether some label passes the test.
    fn any_label(&self, test: &mut dyn FnMut(&str, &str) -> bool) -> bool;
}

impl LabelSelector {
    /// A selector for exactly these labels.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let test = |(key, value): (&str, &str)| LabelTest { key: key.into(), value: value.into(), pattern: false };
        let mut labels: Vec<LabelTest> = labels.into_iter().map(test).collect();
        labels.sort_by(|a, b| a.key.cmp(&b.key));
        Self { labels, requirements: Vec::new() }
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.requirements.is_empty()
    }

    /// Whether some entry of `matchLabels` is a pattern.
    pub fn has_wildcards(&self) -> bool {
        self.labels.iter().any(|test| test.pattern)
    }

    pub fn matches(&self, labels: &dyn Labels) -> bool {
        self.labels.iter().all(|test| test.matches(labels)) && self.requirements.iter().all(|test| test.matches(labels))
    }

    /// The first part that does not hold, in words.
    pub fn mismatch(&self, labels: &dyn Labels) -> Option<String> {
        let label = self.labels.iter().find(|test| !test.matches(labels)).map(ToString::to_string);
        label.or_else(|| self.requirements.iter().find(|test| !test.matches(labels)).map(ToString::to_string))
    }
}

impl fmt::Display for LabelSelector {
    /// The notation of `kubectl get -l`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for test in &self.labels {
            write!(f, "{comma}{test}")?;
            comma = ",";
        }
        for test in &self.requirements {
            write!(f, "{comma}{test}")?;
            comma = ",";
        }
        Ok(())
    }
}

impl LabelTest {
    fn matches(&self, labels: &dyn Labels) -> bool {
        if !self.pattern {
            return labels.label(&self.key) == Some(self.value.as_str());
        }
        labels.any_label(&mut |key, value| wildcard::matches(&self.key, key) && wildcard::matches(&self.value, value))
    }
}

impl fmt::Display for LabelTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

impl Requirement {
    fn matches(&self, labels: &dyn Labels) -> bool {
        let label = labels.label(&self.key);
        match &self.test {
            Test::In(values) => label.is_some_and(|label| values.contains(label)),
            Test::NotIn(values) => label.is_none_or(|label| !values.contains(label)),
            Test::Exists => label.is_some(),
            Test::DoesNotExist => label.is_none(),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.test {
            Test::In(values) => write!(f, "{} in ({})", self.key, list(values)),
            Test::NotIn(values) => write!(f, "{} notin ({})", self.key, list(values)),
            Test::Exists => f.write_str(&self.key),
            Test::DoesNotExist => write!(f, "!{}", self.key),
        }
    }
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }

    fn any_label(&self, test: &mut dyn FnMut(&str, &str) -> bool) -> bool {
        self.iter().any(|(key, value)| test(key, value))
    }
}

/// The labels of a JSON object; entries that are no text are no labels.
impl Labels for Map<String, Value> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    fn any_label(&self, test: &mut dyn FnMut(&str, &str) -> bool) -> bool {
        self.iter().any(|(key, value)| value.as_str().is_some_and(|value| test(key, value)))
    }
}

impl<L: Labels> Labels for Option<&L> {
    fn label(&self, key: &str) -> Option<&str> {
        self.and_then(|labels| labels.label(key))
    }

    fn any_label(&self, test: &mut dyn FnMut(&str, &str) -> bool) -> bool {
        self.is_some_and(|labels| labels.any_label(test))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::problem::FieldPath;

    #[track_caller]
    fn parse(value: Value) -> LabelSelector {
        let mut problems = Vec::new();
        let selector = LabelSelector::parse(&value, Wildcards::Allowed, &FieldPath::root(), &mut problems);
        selector.unwrap_or_else(|| panic!("{problems:?}"))
    }

    #[test]
    fn selectors_match_labels() {
        #[track_caller]
        fn check(selector: Value, labels: Value, expected: bool) {
            let selector = parse(selector);
            let labels = labels.as_object().unwrap();
            assert_eq!(selector.matches(labels), expected, "{selector} on {labels:?}");
            assert_eq!(selector.mismatch(labels).is_none(), expected);
        }
        let labels = || json!({"app": "web", "tier": "front", "empty": ""});
        check(json!({}), json!({}), true);
        check(json!({"matchLabels": {"app": "web"}}), labels(), true);
        check(json!({"matchLabels": {"app": "web", "tier": "back"}}), labels(), false);
        check(json!({"matchLabels": {"app": "w*"}}), labels(), true);
        check(json!({"matchLabels": {"a*": "front"}}), labels(), false);
        check(json!({"matchLabels": {"*": "*"}}), labels(), true);
        check(json!({"matchLabels": {"*": "*"}}), json!({}), false);
        check(json!({"matchLabels": {"tie?": "?ront"}}), labels(), true);
        check(json!({"matchLabels": {"empty": ""}}), labels(), true);
        check(json!({"matchLabels": {"app": "web"}}), json!({"app": 1}), false);
        let expression = |operator: &str, key: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        check(expression("In", "app", json!(["db", "web"])), labels(), true);
        check(expression("In", "other", json!(["web"])), labels(), false);
        check(expression("NotIn", "app", json!(["web"])), labels(), false);
        check(expression("NotIn", "other", json!(["web"])), labels(), true);
        check(expression("Exists", "app", json!(null)), labels(), true);
        check(expression("Exists", "other", json!([])), labels(), false);
        check(expression("DoesNotExist", "other", json!(null)), labels(), true);
        check(expression("DoesNotExist", "app", json!(null)), labels(), false);
        check(expression("In", "app", json!(["w.b"])), json!({"app": "web"}), false);
    }

    #[test]
    fn absent_labels_are_no_labels() {
        let none: Option<&Map<String, Value>> = None;
        assert!(parse(json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]})).matches(&none));
        assert!(!parse(json!({"matchLabels": {"a": "b"}})).matches(&none));
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        assert!(LabelSelector::from_labels([("a", "b")]).matches(&labels));
    }

    #[test]
    fn selectors_print_as_kubectl_takes_them() {
        let selector = parse(json!({
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["y", "x"]},
                {"key": "d", "operator": "NotIn", "values": ["z"]},
                {"key": "e", "operator": "Exists"},
                {"key": "f", "operator": "DoesNotExist"},
            ],
        }));
        assert_eq!(selector.to_string(), "a=1,b=2,c in (x,y),d notin (z),e,!f");
    }
}
