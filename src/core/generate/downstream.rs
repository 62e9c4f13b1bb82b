//! Generated objects, read back: who made them, for which trigger, from which source.

use serde_json::{Map, Value};

use crate::core::resource::Gvk;

use super::error::PolicyKey;
use super::labels;

/// What the labels of a generated object say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    pub policy: PolicyKey,
    pub rule: String,
    pub trigger: TriggerRef,
    /// The source of a clone. Most objects are none, and there are many.
    pub source: Option<Box<SourceRef>>,
}

/// A source as far as labels know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceRef {
    pub uid: String,
    pub gvk: Gvk,
    pub namespace: Option<String>,
}

/// A trigger as far as labels know it. Releases of old stored its name, all others its UID; what has neither (a payload
/// without identity) cannot be found again.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TriggerRef {
    pub uid: String,
    pub gvk: Gvk,
    pub namespace: Option<String>,
    /// Empty unless known.
    pub name: String,
}

impl Marks {
    /// The marks of an object, if it is one of ours.
    pub fn read(object: &Value) -> Option<Self> {
        let labels = object.pointer("/metadata/labels")?.as_object()?;
        if text(labels, labels::MANAGED_BY) != labels::MANAGER {
            return None;
        }
        let (name, rule) = (text(labels, labels::POLICY_NAME), text(labels, labels::RULE_NAME));
        if name.is_empty() || rule.is_empty() {
            return None;
        }
        let some = |key: &str| Some(text(labels, key).to_owned()).filter(|text| !text.is_empty());
        Some(Self {
            policy: PolicyKey { namespace: some(labels::POLICY_NAMESPACE), name: name.to_owned() },
            rule: rule.to_owned(),
            trigger: TriggerRef {
                uid: text(labels, labels::TRIGGER_UID).to_owned(),
                gvk: Gvk {
                    group: text(labels, labels::TRIGGER_GROUP).to_owned(),
                    version: text(labels, labels::TRIGGER_VERSION).to_owned(),
                    kind: text(labels, labels::TRIGGER_KIND).to_owned(),
                },
                namespace: some(labels::TRIGGER_NAMESPACE),
                name: text(labels, labels::LEGACY_TRIGGER_NAME).to_owned(),
            },
            source: some(labels::SOURCE_UID).map(|uid| {
                let gvk = Gvk {
                    group: text(labels, labels::SOURCE_GROUP).to_owned(),
                    version: text(labels, labels::SOURCE_VERSION).to_owned(),
                    kind: text(labels, labels::SOURCE_KIND).to_owned(),
                };
                Box::new(SourceRef { uid, gvk, namespace: some(labels::SOURCE_NAMESPACE) })
            }),
        })
    }
}

impl TriggerRef {
    /// Of an object.
    pub fn of(object: &Value) -> Self {
        let key = crate::core::resource::ObjectKey::of(object);
        let uid = crate::core::resource::text_at(object, &["metadata", "uid"]).to_owned();
        Self { uid, gvk: key.gvk, namespace: key.namespace, name: key.name }
    }

    /// Whether there is any way to find it.
    pub fn is_findable(&self) -> bool {
        !(self.uid.is_empty() && self.name.is_empty())
    }
}

/// The selector of all objects that a rule of a policy has made; of all its rules without one.
pub fn selector(policy: &PolicyKey, rule: Option<&str>) -> String {
    let namespace = policy.namespace.as_deref().unwrap_or_default();
    let mut selector = format!(
        "{}={},{}={},{}={namespace}",
        labels::MANAGED_BY,
        labels::MANAGER,
        labels::POLICY_NAME,
        policy.name,
        labels::POLICY_NAMESPACE,
    );
    if let Some(rule) = rule {
        selector += &format!(",{}={rule}", labels::RULE_NAME);
    }
    selector
}

fn text<'l>(labels: &'l Map<String, Value>, key: &str) -> &'l str {
    labels.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marks_are_read_as_they_are_written() {
        let policy = PolicyKey { namespace: None, name: "p".into() };
        let gvk = Gvk::new("apps/v1", "Deployment");
        let cause =
            labels::Cause { policy: &policy, rule: "r", trigger: &gvk, trigger_namespace: "a", trigger_uid: "u-1" };
        let mut written = Map::new();
        labels::put(&mut written, cause, None);
        let marks = Marks::read(&json!({"metadata": {"labels": written}})).expect("ours");
        let trigger = TriggerRef { uid: "u-1".into(), gvk, namespace: Some("a".into()), name: String::new() };
        assert_eq!(marks, Marks { policy, rule: "r".into(), trigger, source: None });
    }

    #[test]
    fn others_are_not_ours() {
        for labels in [
            json!(null),
            json!({}),
            json!({"app.kubernetes.io/managed-by": "Helm", "generate.kyverno.io/policy-name": "p"}),
            json!({"app.kubernetes.io/managed-by": "kyverno", "generate.kyverno.io/policy-name": "p"}),
        ] {
            assert_eq!(Marks::read(&json!({"metadata": {"labels": labels}})), None);
        }
    }

    #[test]
    fn one_rule_is_selected_alone() {
        let policy = PolicyKey { namespace: Some("a".into()), name: "p".into() };
        assert_eq!(
            selector(&policy, Some("r")),
            "app.kubernetes.io/managed-by=kyverno,generate.kyverno.io/policy-name=p,\
             generate.kyverno.io/policy-namespace=a,generate.kyverno.io/rule-name=r"
        );
    }
}
