//! Kubernetes label selectors, with or without wildcards in `matchLabels`.
//!
//! A selector does not know whose labels it looks at: objects, namespaces and mesh resources all come in as [`Labels`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value};

use crate::core::problem::{FieldPath, Problem, Reason};
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
    /// Compiles `{matchLabels, matchExpressions}`; `None` if there were problems.
    pub fn parse(value: &Value, wildcards: Wildcards, path: &FieldPath, problems: &mut Vec<Problem>) -> Option<Self> {
        let before = problems.len();
        let Value::Object(fields) = value else {
            problems.push(Problem::new(
                path,
                Reason::Format,
                "must be an object with matchLabels or matchExpressions",
            ));
            return None;
        };
        let mut selector = Self::default();
        match fields.get("matchLabels") {
            None | Some(Value::Null) => {}
            Some(Value::Object(labels)) => {
                let path = path.field("matchLabels");
                for (key, value) in labels {
                    selector
                        .labels
                        .extend(parse_label(key, value, wildcards, &path.key(key), problems));
                }
            }
            Some(_) => problems.push(Problem::new(
                &path.field("matchLabels"),
                Reason::Format,
                "must be an object",
            )),
        }
        match fields.get("matchExpressions") {
            None | Some(Value::Null) => {}
            Some(Value::Array(expressions)) => {
                let path = path.field("matchExpressions");
                for (index, expression) in expressions.iter().enumerate() {
                    selector
                        .requirements
                        .extend(parse_requirement(expression, &path.index(index), problems));
                }
            }
            Some(_) => problems.push(Problem::new(
                &path.field("matchExpressions"),
                Reason::Format,
                "must be a list",
            )),
        }
        for key in fields
            .keys()
            .filter(|key| !matches!(key.as_str(), "matchLabels" | "matchExpressions"))
        {
            problems.push(Problem::new(
                &path.field(key.clone()),
                Reason::Unknown,
                "a selector has matchLabels and matchExpressions",
            ));
        }
        (problems.len() == before).then_some(selector)
    }

    /// A selector for exactly these labels.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let test = |(key, value): (&str, &str)| LabelTest {
            key: key.into(),
            value: value.into(),
            pattern: false,
        };
        let mut labels: Vec<LabelTest> = labels.into_iter().map(test).collect();
        labels.sort_by(|a, b| a.key.cmp(&b.key));
        Self {
            labels,
            requirements: Vec::new(),
        }
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
        let label = self
            .labels
            .iter()
            .find(|test| !test.matches(labels))
            .map(ToString::to_string);
        label.or_else(|| {
            self.requirements
                .iter()
                .find(|test| !test.matches(labels))
                .map(ToString::to_string)
        })
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
        self.iter()
            .any(|(key, value)| value.as_str().is_some_and(|value| test(key, value)))
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

fn parse_label(
    key: &str,
    value: &Value,
    wildcards: Wildcards,
    path: &FieldPath,
    problems: &mut Vec<Problem>,
) -> Option<LabelTest> {
    let Some(value) = value.as_str() else {
        problems.push(Problem::new(
            path,
            Reason::Format,
            "a label value must be a string; put it in quotes",
        ));
        return None;
    };
    let pattern = wildcards == Wildcards::Allowed && (wildcard::is_pattern(key) || wildcard::is_pattern(value));
    // A pattern is sound if it would be with the wildcards replaced by an ordinary character.
    let plain = |text: &str| {
        if pattern {
            text.replace(['*', '?'], "0")
        } else {
            text.to_owned()
        }
    };
    let sound = check_key(&plain(key), path, problems) & check_value(&plain(value), path, problems);
    sound.then(|| LabelTest {
        key: key.to_owned(),
        value: value.to_owned(),
        pattern,
    })
}

fn parse_requirement(value: &Value, path: &FieldPath, problems: &mut Vec<Problem>) -> Option<Requirement> {
    let Value::Object(fields) = value else {
        problems.push(Problem::new(
            path,
            Reason::Format,
            "must be an object with key, operator and values",
        ));
        return None;
    };
    let key = fields.get("key").and_then(Value::as_str).unwrap_or_default();
    let sound = if key.is_empty() {
        problems.push(Problem::new(&path.field("key"), Reason::Required, "name the label"));
        false
    } else {
        check_key(key, &path.field("key"), problems)
    };
    let values = parse_values(fields, path, problems);
    let listed = |values: BTreeSet<String>, problems: &mut Vec<Problem>| {
        if values.is_empty() {
            problems.push(Problem::new(
                &path.field("values"),
                Reason::Required,
                "In and NotIn need at least one value",
            ));
            return None;
        }
        Some(values)
    };
    let operator = fields.get("operator").and_then(Value::as_str).unwrap_or_default();
    let test = match operator {
        "In" => Test::In(listed(values?, problems)?),
        "NotIn" => Test::NotIn(listed(values?, problems)?),
        "Exists" | "DoesNotExist" => {
            if !values?.is_empty() {
                let message = format!("{operator} takes no values");
                problems.push(Problem::new(&path.field("values"), Reason::Forbidden, message));
                return None;
            }
            if operator == "Exists" {
                Test::Exists
            } else {
                Test::DoesNotExist
            }
        }
        "" => {
            let message = "needs one of In, NotIn, Exists, DoesNotExist";
            problems.push(Problem::new(&path.field("operator"), Reason::Required, message));
            return None;
        }
        other => {
            let message = format!("`{other}` is not one of In, NotIn, Exists, DoesNotExist");
            problems.push(Problem::new(&path.field("operator"), Reason::Enum, message));
            return None;
        }
    };
    sound.then(|| Requirement {
        key: key.to_owned(),
        test,
    })
}

fn parse_values(
    fields: &Map<String, Value>,
    path: &FieldPath,
    problems: &mut Vec<Problem>,
) -> Option<BTreeSet<String>> {
    let path = path.field("values");
    let items = match fields.get("values") {
        None | Some(Value::Null) => return Some(BTreeSet::new()),
        Some(Value::Array(items)) => items,
        Some(_) => {
            problems.push(Problem::new(&path, Reason::Format, "must be a list of strings"));
            return None;
        }
    };
    let mut values = BTreeSet::new();
    let mut sound = true;
    for (index, item) in items.iter().enumerate() {
        match item.as_str() {
            Some(text) => {
                sound &= check_value(text, &path.index(index), problems);
                values.insert(text.to_owned());
            }
            None => {
                sound = false;
                let message = "a label value must be a string; put it in quotes";
                problems.push(Problem::new(&path.index(index), Reason::Format, message));
            }
        }
    }
    sound.then_some(values)
}

/// `[prefix/]name` as Kubernetes wants label keys.
fn check_key(key: &str, path: &FieldPath, problems: &mut Vec<Problem>) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let sound = !name.is_empty() && is_label_text(name) && prefix.is_none_or(is_dns_subdomain);
    if !sound {
        let message = format!(
            "`{key}` is not a label key: up to 63 letters, digits, `-`, `_`, `.`, after an optional DNS prefix and `/`"
        );
        problems.push(Problem::new(path, Reason::Format, message));
    }
    sound
}

fn check_value(value: &str, path: &FieldPath, problems: &mut Vec<Problem>) -> bool {
    let sound = is_label_text(value);
    if !sound {
        let message = format!("`{value}` is not a label value: up to 63 letters, digits, `-`, `_`, `.`");
        problems.push(Problem::new(path, Reason::Format, message));
    }
    sound
}

fn is_label_text(text: &str) -> bool {
    let end = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && end(text.bytes().next())
        && end(text.bytes().next_back())
}

fn is_dns_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
    fn problems_name_their_place() {
        #[track_caller]
        fn check(selector: Value, wildcards: Wildcards, expected: &[(&str, Reason)]) {
            let mut problems = Vec::new();
            assert_eq!(
                LabelSelector::parse(&selector, wildcards, &FieldPath::root().field("s"), &mut problems),
                None
            );
            let found: Vec<_> = problems.iter().map(|p| (p.field.to_string(), p.reason)).collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|(field, reason)| ((*field).to_owned(), *reason))
                .collect();
            assert_eq!(found, expected);
        }
        use Reason::{Enum, Forbidden, Format, Required, Unknown};
        use Wildcards::{Allowed, Refused};
        check(json!([]), Allowed, &[("s", Format)]);
        check(json!({"matchlabels": {}}), Allowed, &[("s.matchlabels", Unknown)]);
        check(
            json!({"matchLabels": {"a": 1}}),
            Allowed,
            &[("s.matchLabels[\"a\"]", Format)],
        );
        check(
            json!({"matchLabels": {"a*": "b"}}),
            Refused,
            &[("s.matchLabels[\"a*\"]", Format)],
        );
        check(
            json!({"matchLabels": {"a b": "b"}}),
            Allowed,
            &[("s.matchLabels[\"a b\"]", Format)],
        );
        check(
            json!({"matchLabels": {"A_/a": "b"}}),
            Allowed,
            &[("s.matchLabels[\"A_/a\"]", Format)],
        );
        check(
            json!({"matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["b"]},
                {"key": "a", "operator": "Is"},
                {"operator": "Exists"},
                {"key": "a"},
                {"key": "a", "operator": "In", "values": ["ok", 1, "-"]},
                "a",
            ]}),
            Allowed,
            &[
                ("s.matchExpressions[0].values", Required),
                ("s.matchExpressions[1].values", Forbidden),
                ("s.matchExpressions[2].operator", Enum),
                ("s.matchExpressions[3].key", Required),
                ("s.matchExpressions[4].operator", Required),
                ("s.matchExpressions[5].values[1]", Format),
                ("s.matchExpressions[5].values[2]", Format),
                ("s.matchExpressions[6]", Format),
            ],
        );
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
