//! The difference between an object as it is and as it would be, for people to read.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use similar::{ChangeTag, TextDiff};

/// Fields that the API server keeps, or that say nothing about content.
const UNTOLD: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "selfLink",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Changed lines with three lines around them, as `+`, `-` and ` ` lines of YAML.
pub(super) fn changes(actual: &Value, wanted: &Value) -> Vec<String> {
    let (actual, wanted) = (to_text(actual), to_text(wanted));
    let diff = TextDiff::from_lines(&actual, &wanted);
    let mut lines = Vec::new();
    for (index, group) in diff.grouped_ops(3).iter().enumerate() {
        if index > 0 {
            lines.push("  …".to_owned());
        }
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let mark = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            lines.push(format!("{mark} {}", change.value().trim_end_matches('\n')));
        }
    }
    lines
}

fn to_text(object: &Value) -> String {
    serde_saphyr::to_string(&told(object)).unwrap_or_default()
}

/// The object without bookkeeping, and without the content of a Secret.
pub(super) fn told(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        fields.retain(|_, value| !value.is_null());
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !UNTOLD.contains(&name.as_str()));
    }
    if object["kind"] == "Secret" {
        for part in ["data", "stringData"] {
            if let Some(data) = object.get_mut(part).and_then(Value::as_object_mut) {
                hide(data);
            }
        }
        if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    object
}

/// Whether two secrets are the same can be seen, what they are cannot.
fn hide(data: &mut Map<String, Value>) {
    for value in data.values_mut() {
        let digest = Sha256::digest(value.to_string().as_bytes());
        *value = json!(format!("(hidden, {})", hex::encode(&digest[..4])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_lines_are_told() {
        let actual =
            json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}, "data": {"k": "v"}, "status": {}});
        let wanted = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "w"}});
        let lines = changes(&actual, &wanted);
        let changed: Vec<&String> = lines.iter().filter(|line| !line.starts_with(' ')).collect();
        assert_eq!(changed, ["-   k: v", "+   k: w"]);
        assert_eq!(changes(&actual, &actual), [""; 0]);
    }

    #[test]
    fn secrets_stay_secret() {
        let secret = |value: &str| json!({"kind": "Secret", "data": {"password": value}});
        let lines = changes(&secret("aHVudGVyMg=="), &secret("b3RoZXI=")).join("\n");
        assert!(lines.contains("hidden") && !lines.contains("aHVudGVyMg==") && !lines.contains("b3RoZXI="), "{lines}");
    }
}
