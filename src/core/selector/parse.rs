//! From the wire form of a selector to [`LabelSelector`], with every problem found on the way.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{LabelSelector, LabelTest, Requirement, Test, Wildcards};
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::scalar::wildcard;

impl LabelSelector {
    /// Compiles `{matchLabels, matchExpressions}`; `None` if there were problems.
    pub fn parse(value: &Value, wildcards: Wildcards, path: &FieldPath, problems: &mut Vec<Problem>) -> Option<Self> {
        let before = problems.len();
        let Value::Object(fields) = value else {
            problems.push(Problem::new(path, Reason::Format, "must be an object with matchLabels or matchExpressions"));
            return None;
        };
        let mut selector = Self::default();
        match fields.get("matchLabels") {
            None | Some(Value::Null) => {}
            Some(Value::Object(labels)) => {
                let path = path.field("matchLabels");
                for (key, value) in labels {
                    selector.labels.extend(parse_label(key, value, wildcards, &path.key(key), problems));
                }
            }
            Some(_) => problems.push(Problem::new(path.field("matchLabels"), Reason::Format, "must be an object")),
        }
        match fields.get("matchExpressions") {
            None | Some(Value::Null) => {}
            Some(Value::Array(expressions)) => {
                let path = path.field("matchExpressions");
                for (index, expression) in expressions.iter().enumerate() {
                    selector.requirements.extend(parse_requirement(expression, &path.index(index), problems));
                }
            }
            Some(_) => problems.push(Problem::new(path.field("matchExpressions"), Reason::Format, "must be a list")),
        }
        for key in fields.keys().filter(|key| !matches!(key.as_str(), "matchLabels" | "matchExpressions")) {
            problems.push(Problem::new(
                path.field(key.clone()),
                Reason::Unknown,
                "a selector has matchLabels and matchExpressions",
            ));
        }
        (problems.len() == before).then_some(selector)
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
        problems.push(Problem::new(path, Reason::Format, "a label value must be a string; put it in quotes"));
        return None;
    };
    let pattern = wildcards == Wildcards::Allowed && (wildcard::is_pattern(key) || wildcard::is_pattern(value));
    // A pattern is sound if it would be with the wildcards replaced by an ordinary character.
    let plain = |text: &str| {
        if pattern { text.replace(['*', '?'], "0") } else { text.to_owned() }
    };
    let sound = check_key(&plain(key), path, problems) & check_value(&plain(value), path, problems);
    sound.then(|| LabelTest { key: key.to_owned(), value: value.to_owned(), pattern })
}

fn parse_requirement(value: &Value, path: &FieldPath, problems: &mut Vec<Problem>) -> Option<Requirement> {
    let Value::Object(fields) = value else {
        problems.push(Problem::new(path, Reason::Format, "must be an object with key, operator and values"));
        return None;
    };
    let key = fields.get("key").and_then(Value::as_str).unwrap_or_default();
    let sound = if key.is_empty() {
        problems.push(Problem::new(path.field("key"), Reason::Required, "name the label"));
        false
    } else {
        check_key(key, &path.field("key"), problems)
    };
    let values = parse_values(fields, path, problems);
    let listed = |values: BTreeSet<String>, problems: &mut Vec<Problem>| {
        if values.is_empty() {
            problems.push(Problem::new(path.field("values"), Reason::Required, "In and NotIn need at least one value"));
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
                problems.push(Problem::new(path.field("values"), Reason::Forbidden, message));
                return None;
            }
            if operator == "Exists" { Test::Exists } else { Test::DoesNotExist }
        }
        "" => {
            let message = "needs one of In, NotIn, Exists, DoesNotExist";
            problems.push(Problem::new(path.field("operator"), Reason::Required, message));
            return None;
        }
        other => {
            let message = format!("`{other}` is not one of In, NotIn, Exists, DoesNotExist");
            problems.push(Problem::new(path.field("operator"), Reason::Enum, message));
            return None;
        }
    };
    sound.then(|| Requirement { key: key.to_owned(), test })
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
                problems.push(Problem::new(path.index(index), Reason::Format, message));
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
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && end(text.bytes().next())
        && end(text.bytes().next_back())
}

fn is_dns_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn problems_name_their_place() {
        #[track_caller]
        fn check(selector: Value, wildcards: Wildcards, expected: &[(&str, Reason)]) {
            let mut problems = Vec::new();
            assert_eq!(LabelSelector::parse(&selector, wildcards, &FieldPath::root().field("s"), &mut problems), None);
            let found: Vec<_> = problems.iter().map(|p| (p.field.to_string(), p.reason)).collect();
            let expected: Vec<_> = expected.iter().map(|(field, reason)| ((*field).to_owned(), *reason)).collect();
            assert_eq!(found, expected);
        }
        use Reason::{Enum, Forbidden, Format, Required, Unknown};
        use Wildcards::{Allowed, Refused};
        check(json!([]), Allowed, &[("s", Format)]);
        check(json!({"matchlabels": {}}), Allowed, &[("s.matchlabels", Unknown)]);
        check(json!({"matchLabels": {"a": 1}}), Allowed, &[("s.matchLabels[\"a\"]", Format)]);
        check(json!({"matchLabels": {"a*": "b"}}), Refused, &[("s.matchLabels[\"a*\"]", Format)]);
        check(json!({"matchLabels": {"a b": "b"}}), Allowed, &[("s.matchLabels[\"a b\"]", Format)]);
        check(json!({"matchLabels": {"A_/a": "b"}}), Allowed, &[("s.matchLabels[\"A_/a\"]", Format)]);
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
}
