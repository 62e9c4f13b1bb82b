//! UpdateRequests: work that is stored in the cluster because a rule asks for what only one replica has seen.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::core::integrity::{MacKey, MacPurpose, canonical};
use crate::core::matching::Operation;
use crate::core::resource::{Gvk, text_at};

use super::downstream::TriggerRef;
use super::error::PolicyKey;
use super::labels;

/// Holds the code by which Writ recognises a request as its own. Requests without a valid one are ignored, whoever wrote them.
pub const MAC: &str = "writ.dev/mac";

/// One piece of stored work: some rules of one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateRequest {
    pub policy: PolicyKey,
    pub entries: Vec<Entry>,
    /// The request that caused it; absent for work that no request caused.
    pub admission: Option<Admission>,
}

/// One rule and one trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub rule: String,
    pub trigger: TriggerRef,
    /// Downstream is to be removed.
    pub delete: bool,
}

/// An admission request with the roles of its author.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    pub request: Map<String, Value>,
    pub roles: BTreeSet<String>,
    pub cluster_roles: BTreeSet<String>,
}

impl Admission {
    pub fn operation(&self) -> Option<Operation> {
        Operation::parse(self.request.get("operation").and_then(Value::as_str).unwrap_or_default())
    }

    /// Group, version and plural name of the resource, and the subresource.
    pub fn resource(&self) -> (&str, &str, &str, &str) {
        let part =
            |name: &str| self.request.get("resource").map(|resource| text_at(resource, &[name])).unwrap_or_default();
        let subresource = self.request.get("subResource").and_then(Value::as_str).unwrap_or_default();
        (part("group"), part("version"), part("resource"), subresource)
    }

    /// The object as it was sent.
    pub fn object(&self) -> Option<&Value> {
        self.request.get("object").filter(|object| object.is_object())
    }

    /// The object as it was before.
    pub fn old_object(&self) -> Option<&Value> {
        self.request.get("oldObject").filter(|object| object.is_object())
    }

    /// The request without the content of Secrets, which must not lie in a second place. The object is read again when the work
    /// is done; of one that is gone then, or was another before, identity, labels and annotations remain.
    fn storable(&self) -> Map<String, Value> {
        let mut request = self.request.clone();
        let mut has_secret = false;
        for side in ["object", "oldObject"] {
            if let Some(Value::Object(object)) = request.get_mut(side)
                && is_secret(object)
            {
                has_secret = true;
                withhold(object);
            }
        }
        // What has changed cannot be told any more by comparing the two, so that it has is kept in this way.
        if has_secret
            && !self.changes_nothing()
            && let Some(Value::Object(metadata)) =
                request.get_mut("object").and_then(|object| object.get_mut("metadata"))
        {
            metadata.remove("resourceVersion");
        }
        request
    }

    /// Whether the request leaves the object as it is, so that waiting for a change would be in vain.
    pub fn changes_nothing(&self) -> bool {
        let plain = |object: Option<&Value>| {
            let mut object = object.cloned().unwrap_or_default();
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.remove("managedFields");
            }
            object
        };
        plain(self.object()) == plain(self.old_object())
    }
}

fn is_secret(object: &Map<String, Value>) -> bool {
    object.get("kind").is_some_and(|kind| kind == "Secret")
        && object.get("apiVersion").is_some_and(|version| version == "v1")
}

/// Removes what a Secret holds, from wherever it lies.
fn withhold(secret: &mut Map<String, Value>) {
    secret.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "type" | "immutable"));
    let Some(Value::Object(metadata)) = secret.get_mut("metadata") else { return };
    metadata.remove("managedFields");
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

impl UpdateRequest {
    /// Reads an object of kind UpdateRequest; nothing if it is not about generate rules.
    pub fn read(object: &Value) -> Option<Self> {
        let spec = object.get("spec")?;
        if text_at(spec, &["requestType"]) != "generate" {
            return None;
        }
        let policy = match text_at(spec, &["policy"]).split_once('/') {
            Some((namespace, name)) => PolicyKey { namespace: Some(namespace.to_owned()), name: name.to_owned() },
            None => PolicyKey { namespace: None, name: text_at(spec, &["policy"]).to_owned() },
        };
        let mut entries: Vec<Entry> = spec["ruleContext"].as_array().into_iter().flatten().map(read_entry).collect();
        // The form of older releases: one rule and one trigger beside the policy.
        if entries.is_empty() && !text_at(spec, &["rule"]).is_empty() {
            let legacy = json!({"rule": spec["rule"], "trigger": spec["resource"], "deleteDownstream": spec["deleteDownstream"]});
            entries.push(read_entry(&legacy));
        }
        let set = |value: &Value| -> BTreeSet<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let info = &spec["context"]["userInfo"];
        let request = spec.pointer("/context/admissionRequestInfo/admissionRequest").and_then(Value::as_object);
        let admission = request.filter(|request| !request.is_empty()).map(|request| Admission {
            request: request.clone(),
            roles: set(&info["roles"]),
            cluster_roles: set(&info["clusterRoles"]),
        });
        Some(Self { policy, entries, admission })
    }

    /// The object to create in the namespace of the install, with a code over all that it asks for.
    pub fn write_signed(&self, namespace: &str, key: &MacKey) -> Value {
        let mut object = self.write(namespace);
        let [namespace, spec] = signed_parts(&object);
        object["metadata"]["annotations"] = json!({MAC: key.sign(MacPurpose::UpdateRequest, &[&namespace, &spec])});
        object
    }

    /// Whether an object of kind UpdateRequest was written by Writ and still asks for the same.
    pub fn is_authentic(object: &Value, key: &MacKey) -> bool {
        let code = object.pointer("/metadata/annotations").and_then(|annotations| annotations.get(MAC)?.as_str());
        let [namespace, spec] = signed_parts(object);
        code.is_some_and(|code| key.verify(MacPurpose::UpdateRequest, &[&namespace, &spec], code))
    }

    fn write(&self, namespace: &str) -> Value {
        let entries = self.entries.iter().map(|entry| {
            let TriggerRef { uid, gvk, namespace, name } = &entry.trigger;
            json!({
                "rule": entry.rule,
                "trigger": {
                    "apiVersion": gvk.api_version(), "kind": gvk.kind, "namespace": namespace, "name": name, "uid": uid,
                },
                "deleteDownstream": entry.delete,
            })
        });
        let context = self.admission.as_ref().map_or_else(
            || json!({}),
            |admission| {
                let user = admission.request.get("userInfo").cloned().unwrap_or_else(|| json!({}));
                json!({
                    "userInfo": {"roles": admission.roles, "clusterRoles": admission.cluster_roles, "userInfo": user},
                    "admissionRequestInfo": {
                        "admissionRequest": admission.storable(),
                        "operation": admission.request.get("operation").cloned().unwrap_or_default(),
                    },
                })
            },
        );
        let labels = json!({labels::POLICY_NAME: self.policy.name});
        json!({
            "apiVersion": "kyverno.io/v2",
            "kind": "UpdateRequest",
            "metadata": {"generateName": "ur-", "namespace": namespace, "labels": labels},
            "spec": {
                "requestType": "generate",
                "policy": self.policy.to_string(),
                "ruleContext": entries.collect::<Vec<_>>(),
                "context": context,
                "deleteDownstream": false,
                "rule": "",
                "resource": {},
            },
        })
    }
}

/// Everything that decides what a request does: the namespace of the install and the whole spec, requester included.
fn signed_parts(object: &Value) -> [Vec<u8>; 2] {
    let namespace = text_at(object, &["metadata", "namespace"]).as_bytes().to_vec();
    [namespace, canonical(object.get("spec").unwrap_or(&Value::Null))]
}

fn read_entry(entry: &Value) -> Entry {
    let trigger = &entry["trigger"];
    let namespace = text_at(trigger, &["namespace"]);
    Entry {
        rule: text_at(entry, &["rule"]).to_owned(),
        trigger: TriggerRef {
            uid: text_at(trigger, &["uid"]).to_owned(),
            gvk: Gvk::new(text_at(trigger, &["apiVersion"]), text_at(trigger, &["kind"])),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: text_at(trigger, &["name"]).to_owned(),
        },
        delete: entry["deleteDownstream"] == true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_back() {
        let trigger = TriggerRef {
            uid: "u".into(),
            gvk: Gvk::new("apps/v1", "Deployment"),
            namespace: Some("a".into()),
            name: "web".into(),
        };
        let request =
            json!({"operation": "DELETE", "userInfo": {"username": "jane"}, "oldObject": {"kind": "Deployment"}});
        let admission = Admission {
            request: request.as_object().cloned().expect("an object"),
            roles: BTreeSet::from(["a:r".to_owned()]),
            cluster_roles: BTreeSet::new(),
        };
        let written = UpdateRequest {
            policy: PolicyKey { namespace: Some("a".into()), name: "p".into() },
            entries: vec![Entry { rule: "r".into(), trigger, delete: true }],
            admission: Some(admission),
        };
        let key = MacKey::new(&[7; 32]).expect("a key");
        let object = written.write_signed("writ-system", &key);
        assert_eq!(object["spec"]["policy"], json!("a/p"));
        assert_eq!(UpdateRequest::read(&object), Some(written));
        assert!(UpdateRequest::is_authentic(&object, &key));
        assert!(!UpdateRequest::is_authentic(&object, &MacKey::new(&[8; 32]).expect("a key")));
        let changes = [
            ("/spec/policy", json!("p")),
            ("/spec/ruleContext/0/rule", json!("other")),
            ("/spec/ruleContext/0/deleteDownstream", json!(false)),
            ("/spec/context/userInfo/roles", json!(["a:admin"])),
            ("/spec/context/admissionRequestInfo/admissionRequest/userInfo/username", json!("root")),
            ("/spec/context/admissionRequestInfo/admissionRequest/oldObject/kind", json!("Secret")),
            ("/metadata/namespace", json!("elsewhere")),
            ("/metadata/annotations/writ.dev~1mac", json!("")),
        ];
        for (path, value) in changes {
            let mut changed = object.clone();
            *changed.pointer_mut(path).expect(path) = value;
            assert!(!UpdateRequest::is_authentic(&changed, &key), "{path}");
        }
    }

    #[test]
    fn the_content_of_a_secret_is_not_stored() {
        let secret = |data: &str, version: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"k": data}, "stringData": {"l": "hidden"},
                "metadata": {
                    "name": "s", "namespace": "a", "uid": "u", "resourceVersion": version, "labels": {"x": "y"},
                    "managedFields": [{"hidden": 1}],
                    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hidden", "kept": "yes"},
                },
            })
        };
        let stored = |object: Value, old: Value| {
            let request = json!({"operation": "UPDATE", "object": object, "oldObject": old});
            let admission = Admission {
                request: request.as_object().cloned().expect("an object"),
                roles: BTreeSet::new(),
                cluster_roles: BTreeSet::new(),
            };
            let written = UpdateRequest {
                policy: PolicyKey { namespace: None, name: "p".into() },
                entries: Vec::new(),
                admission: Some(admission),
            };
            let object = written.write("writ-system");
            assert!(!object.to_string().contains("hidden"), "{object}");
            UpdateRequest::read(&object).and_then(|read| read.admission).expect("an admission request")
        };
        let changed = stored(secret("hidden-new", "1"), secret("hidden-old", "1"));
        assert!(!changed.changes_nothing());
        assert_eq!(changed.old_object().map(|old| text_at(old, &["metadata", "resourceVersion"])), Some("1"));
        assert_eq!(changed.object().map(|object| text_at(object, &["metadata", "annotations", "kept"])), Some("yes"));
        assert_eq!(changed.object().map(|object| text_at(object, &["metadata", "labels", "x"])), Some("y"));
        assert!(stored(secret("hidden", "1"), secret("hidden", "1")).changes_nothing());
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
        assert_eq!(stored(other.clone(), Value::Null).object(), Some(&other));
        assert_eq!(stored(Value::Null, secret("hidden", "1")).object(), None);
    }

    #[test]
    fn requests_of_others_may_say_less() {
        let object = json!({"spec": {
            "requestType": "generate", "policy": "p",
            "ruleContext": [{"rule": "r", "trigger": {"apiVersion": "v1", "kind": "Namespace", "name": "n"}}],
        }});
        let read = UpdateRequest::read(&object).expect("about generate");
        assert!(!read.entries[0].delete && read.admission.is_none());
        assert_eq!(UpdateRequest::read(&json!({"spec": {"requestType": "mutate"}})), None);
    }

    #[test]
    fn an_update_of_bookkeeping_changes_nothing() {
        let admission = |object: Value, old: Value| Admission {
            request: json!({"object": object, "oldObject": old}).as_object().cloned().expect("an object"),
            roles: BTreeSet::new(),
            cluster_roles: BTreeSet::new(),
        };
        let object = |fields: u8, data: u8| json!({"metadata": {"managedFields": [fields]}, "data": data});
        assert!(admission(object(1, 1), object(2, 1)).changes_nothing());
        assert!(!admission(object(1, 1), object(1, 2)).changes_nothing());
    }
}
