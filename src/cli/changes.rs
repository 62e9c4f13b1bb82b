//! The difference between an object as it is and as it would be, for people to read.
//!
//! `writ plan` and `writ explain` read with the permissions of whoever runs them, so a difference shows nothing that they could
//! not read themselves. The content of Secrets is hidden all the same: the output may end up in a pull request.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
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

/// Whether two secrets are the same can be seen, what they are cannot: the key of the hash is new in each run, so nobody who
/// reads the output can try out guesses.
fn hide(data: &mut Map<String, Value>) {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    for value in data.values_mut() {
        *value = json!(format!("(hidden, {:08x})", KEY.hash_one(value.to_string()) as u32));
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

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
        let plain = Sha256::digest(json!("aHVudGVyMg==").to_string().as_bytes());
        assert!(!lines.contains(&hex::encode(&plain[..4])), "guesses can be tried out: {lines}");
        assert_eq!(changes(&secret("a"), &secret("a")), [""; 0]);
    }
}
