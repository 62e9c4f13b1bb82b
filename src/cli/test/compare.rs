//! Expected objects against generated ones, with a difference that people can read.

use std::collections::BTreeMap;

use serde_json::Value;
use similar::TextDiff;

use crate::core::generate::labels::MANAGED_BY;
use crate::core::resource::ObjectKey;

const OWN_PREFIX: &str = "generate.kyverno.io/";

/// What is missing, superfluous or different.
pub(super) fn objects(expected: &[Value], generated: &[&Value]) -> Vec<String> {
    let mut failures = Vec::new();
    let mut left: BTreeMap<ObjectKey, Vec<&Value>> = BTreeMap::new();
    for object in generated {
        left.entry(ObjectKey::of(object)).or_default().push(object);
    }
    for object in expected {
        let key = ObjectKey::of(object);
        match left.get_mut(&key).and_then(Vec::pop) {
            Some(found) => failures.extend(difference(object, found).map(|lines| format!("{key} differs:\n{lines}"))),
            None => failures.push(format!("{key} was not generated")),
        }
    }
    for (key, objects) in left {
        failures.extend(objects.iter().map(|_| format!("{key} was generated, but not expected")));
    }
    failures
}

/// A unified difference of the two as YAML; nothing if they are the same.
pub(super) fn difference(expected: &Value, found: &Value) -> Option<String> {
    let found = if names_own_labels(expected) { found.clone() } else { without_own_labels(found) };
    if *expected == found {
        return None;
    }
    let yaml = |value: &Value| serde_saphyr::to_string(value).unwrap_or_else(|_| format!("{value:#}"));
    let (expected, found) = (yaml(expected), yaml(&found));
    let diff = TextDiff::from_lines(&expected, &found);
    Some(diff.unified_diff().context_radius(3).header("expected", "generated").to_string())
}

fn is_own(key: &str) -> bool {
    key == MANAGED_BY || key.starts_with(OWN_PREFIX)
}

fn names_own_labels(object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    labels.is_some_and(|labels| labels.keys().any(|key| is_own(key)))
}

fn without_own_labels(object: &Value) -> Value {
    let mut object = object.clone();
    let mut empty = false;
    if let Some(labels) = object.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| !is_own(key));
        empty = labels.is_empty();
    }
    if empty && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("labels");
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config_map(name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a"}, "data": {"k": value}})
    }

    fn labelled(mut object: Value) -> Value {
        object["metadata"]["labels"] =
            json!({"app.kubernetes.io/managed-by": "kyverno", "generate.kyverno.io/rule-name": "r"});
        object
    }

    #[test]
    fn labels_count_only_if_they_are_named() {
        assert_eq!(difference(&config_map("x", "1"), &labelled(config_map("x", "1"))), None);
        let mut other = labelled(config_map("x", "1"));
        other["metadata"]["labels"]["generate.kyverno.io/rule-name"] = json!("other");
        assert!(difference(&labelled(config_map("x", "1")), &other).is_some());
    }

    #[test]
    fn every_kind_of_difference_is_told() {
        let (same, changed, extra) = (config_map("same", "1"), config_map("changed", "2"), config_map("extra", "1"));
        let expected = [config_map("same", "1"), config_map("changed", "1"), config_map("missing", "1")];
        let failures = objects(&expected, &[&same, &changed, &extra]);
        assert_eq!(failures.len(), 3, "{failures:?}");
        assert!(failures[0].starts_with("v1 ConfigMap a/changed differs:"), "{failures:?}");
        assert_eq!(failures[1], "v1 ConfigMap a/missing was not generated");
        assert_eq!(failures[2], "v1 ConfigMap a/extra was generated, but not expected");
    }
}
