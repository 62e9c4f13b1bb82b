//! What is matched: a request with its resource, its objects and its requester.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Operation;
use crate::core::selector::Labels;

/// What a request is about. For a subresource, the kind is that of the resource it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
}

/// Who asks, with the roles that are bound to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    pub username: String,
    pub groups: Vec<String>,
    /// As `namespace:name`.
    pub roles: BTreeSet<String>,
    pub cluster_roles: BTreeSet<String>,
}

/// One request, or one object that is looked at without a request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub resource: Resource<'a>,
    /// Unknown where no request was recorded.
    pub operation: Option<Operation>,
    /// Of the request; the object's own namespace wins where it has one.
    pub namespace: &'a str,
    pub object: Option<&'a Value>,
    pub old_object: Option<&'a Value>,
    /// Unknown where no request was recorded.
    pub requester: Option<&'a Requester>,
    /// Of the object's namespace, if somebody has looked.
    pub namespace_labels: Option<&'a dyn Labels>,
}

/// One object of a request.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) request: &'a Request<'a>,
    metadata: Option<&'a Map<String, Value>>,
}

impl Requester {
    /// Collects the roles of this user from bindings, as JSON objects. A ClusterRole that is bound in a namespace counts
    /// only for requests there.
    pub fn bind_roles<'b>(
        &mut self,
        request_namespace: &str,
        role_bindings: impl IntoIterator<Item = &'b Value>,
        cluster_role_bindings: impl IntoIterator<Item = &'b Value>,
    ) {
        for binding in role_bindings {
            let namespace = binding.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
            if !self.is_subject_of(binding, namespace) {
                continue;
            }
            match role_ref(binding) {
                ("Role", name) => {
                    self.roles.insert(format!("{namespace}:{name}"));
                }
                ("ClusterRole", name) if namespace == request_namespace => {
                    self.cluster_roles.insert(name.to_owned());
                }
                _ => {}
            }
        }
        for binding in cluster_role_bindings {
            if let ("ClusterRole", name) = role_ref(binding)
                && self.is_subject_of(binding, "")
            {
                self.cluster_roles.insert(name.to_owned());
            }
        }
    }

    fn is_subject_of(&self, binding: &Value, namespace: &str) -> bool {
        let subjects = binding.get("subjects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        subjects.iter().any(|subject| {
            let text = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or_default();
            match text("kind") {
                "User" => text("name") == self.username,
                "Group" => self.groups.iter().any(|group| group == text("name")),
                "ServiceAccount" => {
                    let own = text("namespace");
                    let namespace = if own.is_empty() { namespace } else { own };
                    self.username.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
                        == Some((namespace, text("name")))
                }
                _ => false,
            }
        })
    }
}

fn role_ref(binding: &Value) -> (&str, &str) {
    let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    (text("/roleRef/kind"), text("/roleRef/name"))
}

impl<'a> Candidate<'a> {
    /// `None` if there is no object: nothing matches that.
    pub(super) fn new(request: &'a Request<'a>, object: Option<&'a Value>) -> Option<Self> {
        let fields = object?.as_object().filter(|fields| !fields.is_empty())?;
        Some(Self { request, metadata: fields.get("metadata").and_then(Value::as_object) })
    }

    pub(super) fn is_namespace(&self) -> bool {
        self.request.resource.group.is_empty() && self.request.resource.kind == "Namespace"
    }

    /// The name, or what the name will be generated from.
    pub(super) fn name(&self) -> &'a str {
        let name = self.text("name");
        if name.is_empty() { self.text("generateName") } else { name }
    }

    /// Empty for what lives in no namespace, Namespaces included.
    pub(super) fn namespace(&self) -> &'a str {
        if self.is_namespace() {
            return "";
        }
        let namespace = self.text("namespace");
        if namespace.is_empty() { self.request.namespace } else { namespace }
    }

    pub(super) fn labels(&self) -> Option<&'a Map<String, Value>> {
        self.map("labels")
    }

    pub(super) fn annotations(&self) -> Option<&'a Map<String, Value>> {
        self.map("annotations")
    }

    fn text(&self, key: &str) -> &'a str {
        self.metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str).unwrap_or_default()
    }

    fn map(&self, key: &str) -> Option<&'a Map<String, Value>> {
        self.metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(namespace: &str, role: (&str, &str), subjects: Value) -> Value {
        json!({
            "metadata": {"name": "b", "namespace": namespace},
            "roleRef": {"kind": role.0, "name": role.1},
            "subjects": subjects,
        })
    }

    #[test]
    fn roles_come_from_bindings() {
        let mut requester = Requester {
            username: "system:serviceaccount:team:bot".into(),
            groups: vec!["devs".into()],
            ..Requester::default()
        };
        let user = json!([{"kind": "User", "name": "system:serviceaccount:team:bot"}]);
        let group = json!([{"kind": "Group", "name": "other"}, {"kind": "Group", "name": "devs"}]);
        let account = json!([{"kind": "ServiceAccount", "name": "bot"}]);
        let role_bindings = [
            binding("team", ("Role", "by-user"), user.clone()),
            binding("team", ("Role", "by-account"), account.clone()),
            binding("other", ("Role", "account-elsewhere"), account),
            binding("other", ("Role", "by-group"), group.clone()),
            binding("here", ("ClusterRole", "view"), group.clone()),
            binding("other", ("ClusterRole", "edit"), group.clone()),
            binding("here", ("Role", "d*"), json!([{"kind": "Group", "name": "d*"}])),
        ];
        let cluster_role_bindings = [
            binding(
                "",
                ("ClusterRole", "admin"),
                json!([{"kind": "ServiceAccount", "name": "bot", "namespace": "team"}]),
            ),
            binding("", ("ClusterRole", "nobody"), json!(null)),
        ];
        requester.bind_roles("here", &role_bindings, &cluster_role_bindings);
        let texts = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>();
        assert_eq!(texts(&requester.roles), ["other:by-group", "team:by-account", "team:by-user"]);
        assert_eq!(texts(&requester.cluster_roles), ["admin", "view"]);
    }
}
