//! The labels by which generated objects are found again. Keys and values are those of Kyverno, so objects that it made go
//! on being managed.
//!
//! Names of triggers and sources never become labels, only UIDs: names may be longer than a label value can be.

use serde_json::{Map, Value};

use crate::core::resource::Gvk;

use super::error::PolicyKey;
use super::plan::Source;

pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const MANAGER: &str = "kyverno";
pub const POLICY_NAME: &str = "generate.kyverno.io/policy-name";
pub const POLICY_NAMESPACE: &str = "generate.kyverno.io/policy-namespace";
pub const RULE_NAME: &str = "generate.kyverno.io/rule-name";
pub const TRIGGER_UID: &str = "generate.kyverno.io/trigger-uid";
pub const TRIGGER_GROUP: &str = "generate.kyverno.io/trigger-group";
pub const TRIGGER_VERSION: &str = "generate.kyverno.io/trigger-version";
pub const TRIGGER_KIND: &str = "generate.kyverno.io/trigger-kind";
pub const TRIGGER_NAMESPACE: &str = "generate.kyverno.io/trigger-namespace";
pub const SOURCE_UID: &str = "generate.kyverno.io/source-uid";
pub const SOURCE_GROUP: &str = "generate.kyverno.io/source-group";
pub const SOURCE_VERSION: &str = "generate.kyverno.io/source-version";
pub const SOURCE_KIND: &str = "generate.kyverno.io/source-kind";
pub const SOURCE_NAMESPACE: &str = "generate.kyverno.io/source-namespace";
pub const CLONE_SOURCE: &str = "generate.kyverno.io/clone-source";

/// Read on objects of older releases, never written.
pub const LEGACY_TRIGGER_NAME: &str = "generate.kyverno.io/trigger-name";
/// Read on objects of older releases, never written.
pub const LEGACY_SOURCE_NAME: &str = "generate.kyverno.io/source-name";

/// Whether an object carries the mark of a source.
pub fn is_source(object: &Value) -> bool {
    object.pointer("/metadata/labels").is_some_and(|labels| labels.get(CLONE_SOURCE).is_some())
}

/// Who caused an object.
#[derive(Clone, Copy, Debug)]
pub struct Cause<'c> {
    pub policy: &'c PolicyKey,
    pub rule: &'c str,
    pub trigger: &'c Gvk,
    pub trigger_namespace: &'c str,
    pub trigger_uid: &'c str,
}

/// Puts the labels on an object. Labels that are there stay, unless a key is ours; one that is no text becomes text, because
/// the API server takes nothing else. Empty values are written too: selectors ask for `key=`.
pub fn put(labels: &mut Map<String, Value>, cause: Cause<'_>, source: Option<&Source>) {
    for value in labels.values_mut().filter(|value| !value.is_string()) {
        *value = Value::String(match &*value {
            Value::Null => String::new(),
            other => crate::core::scalar::json_text::embed(other),
        });
    }
    let Cause { policy, rule, trigger, trigger_namespace, trigger_uid } = cause;
    let mut set = |key: &str, value: &str| {
        labels.insert(key.to_owned(), Value::from(value));
    };
    set(MANAGED_BY, MANAGER);
    set(POLICY_NAME, &policy.name);
    set(POLICY_NAMESPACE, policy.namespace.as_deref().unwrap_or_default());
    set(RULE_NAME, rule);
    set(TRIGGER_UID, trigger_uid);
    set(TRIGGER_GROUP, &trigger.group);
    set(TRIGGER_VERSION, &trigger.version);
    set(TRIGGER_KIND, &trigger.kind);
    set(TRIGGER_NAMESPACE, trigger_namespace);
    if let Some(source) = source {
        set(SOURCE_UID, &source.uid);
        set(SOURCE_GROUP, &source.gvk.group);
        set(SOURCE_VERSION, &source.gvk.version);
        set(SOURCE_KIND, &source.gvk.kind);
        set(SOURCE_NAMESPACE, source.namespace.as_deref().unwrap_or_default());
        // The source is marked before it is copied, and the mark is copied with it.
        set(CLONE_SOURCE, "");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn users_labels_stay_as_text_and_ours_win() {
        let mut labels = json!({"n": 5, "t": true, "z": null, "keep": "x", MANAGED_BY: "Helm"});
        let policy = PolicyKey { namespace: None, name: "p".into() };
        let trigger = Gvk::new("v1", "Namespace");
        let cause = Cause { policy: &policy, rule: "r", trigger: &trigger, trigger_namespace: "", trigger_uid: "u-1" };
        put(labels.as_object_mut().expect("an object"), cause, None);
        assert_eq!(
            labels,
            json!({
                "n": "5", "t": "true", "z": "", "keep": "x",
                "app.kubernetes.io/managed-by": "kyverno",
                "generate.kyverno.io/policy-name": "p",
                "generate.kyverno.io/policy-namespace": "",
                "generate.kyverno.io/rule-name": "r",
                "generate.kyverno.io/trigger-uid": "u-1",
                "generate.kyverno.io/trigger-group": "",
                "generate.kyverno.io/trigger-version": "v1",
                "generate.kyverno.io/trigger-kind": "Namespace",
                "generate.kyverno.io/trigger-namespace": "",
            })
        );
    }
}
