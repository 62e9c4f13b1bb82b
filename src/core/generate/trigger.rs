//! What a rule is evaluated for: an object, the request that brought it if there was one, and who asked.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::core::matching::{Operation, Request, Requester, Resource};
use crate::core::resource::{Gvk, ObjectKey, text_at};
use crate::core::selector::Labels;

/// A trigger. The document `request` that expressions see is assembled once and shared by all rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    request: Value,
    /// For a subresource, the kind that it belongs to.
    resource: Gvk,
    subresource: String,
    operation: Option<Operation>,
    requester: Option<Requester>,
    account: [Value; 2],
}

impl Trigger {
    /// An object that is simply there: nobody asked, and nothing is known of how it came about.
    pub fn background(object: Value) -> Self {
        let key = ObjectKey::of(&object);
        let request = Map::from_iter([
            ("object".to_owned(), object),
            ("oldObject".to_owned(), Value::Null),
            ("operation".to_owned(), "".into()),
            ("namespace".to_owned(), key.namespace.unwrap_or_default().into()),
            ("userInfo".to_owned(), Value::Object(Map::new())),
        ]);
        let request = Value::Object(request);
        Self {
            request,
            resource: key.gvk,
            subresource: String::new(),
            operation: None,
            requester: None,
            account: [Value::from(""), Value::from("")],
        }
    }

    /// An admission request, as JSON. `resource` is the kind that the request's resource belongs to, which for a
    /// subresource is not the kind of the payload. `roles` are those bound to the requester.
    pub fn admission(
        request: Map<String, Value>,
        resource: Gvk,
        roles: BTreeSet<String>,
        cluster_roles: BTreeSet<String>,
    ) -> Self {
        let mut request = Value::Object(request);
        let text = |path: &[&str]| text_at(&request, path).to_owned();
        let operation = Operation::parse(&text(&["operation"]));
        let subresource = text(&["subResource"]);
        let namespace = text(&["namespace"]);
        let username = text(&["userInfo", "username"]);
        let groups = request.pointer("/userInfo/groups").and_then(Value::as_array).into_iter().flatten();
        let groups = groups.filter_map(Value::as_str).map(str::to_owned).collect();
        let account = service_account(&username);
        let requester = Requester { username, groups, roles, cluster_roles };

        for side in ["object", "oldObject"] {
            settle(&mut request[side], &namespace);
        }
        for (name, roles) in [("roles", &requester.roles), ("clusterRoles", &requester.cluster_roles)] {
            if !roles.is_empty() {
                request[name] = roles.iter().map(String::as_str).collect();
            }
        }
        Self { request, resource, subresource, operation, requester: Some(requester), account }
    }

    /// The same request for the object as it is stored now.
    #[must_use]
    pub fn with_object(mut self, object: Value) -> Self {
        self.request["object"] = object;
        self
    }

    /// The document that expressions see as `request`.
    pub fn request(&self) -> &Value {
        &self.request
    }

    pub fn operation(&self) -> Option<Operation> {
        self.operation
    }

    pub fn requester(&self) -> Option<&Requester> {
        self.requester.as_ref()
    }

    /// The object as it is now; absent for a deletion.
    pub fn object(&self) -> Option<&Value> {
        present(&self.request["object"])
    }

    /// The object as it was before.
    pub fn old_object(&self) -> Option<&Value> {
        present(&self.request["oldObject"])
    }

    /// What matching looks at.
    pub fn resource(&self) -> Resource<'_> {
        let Gvk { group, version, kind } = &self.resource;
        Resource { group, version, kind, subresource: &self.subresource }
    }

    /// The object that the trigger is about, by everything that tells: the request, the object now and the object before.
    pub(super) fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        let sides = [Some(&self.request), self.object(), self.old_object()].into_iter().flatten();
        sides.enumerate().map(|(side, document)| {
            let text = |field: &str| match side {
                0 => text_at(document, &[field]).to_owned(),
                _ => text_at(document, &["metadata", field]).to_owned(),
            };
            let namespace = Some(text("namespace")).filter(|namespace| !namespace.is_empty());
            ObjectKey { gvk: self.resource.clone(), namespace, name: text("name") }
        })
    }

    pub(super) fn as_matching<'t>(&'t self, namespace_labels: Option<&'t dyn Labels>) -> Request<'t> {
        Request {
            resource: self.resource(),
            operation: self.operation,
            namespace: text_at(&self.request, &["namespace"]),
            object: self.object(),
            old_object: self.old_object(),
            requester: self.requester.as_ref(),
            namespace_labels,
        }
    }

    /// The request with the old object in place of the new one.
    pub(super) fn request_on_old(&self) -> Option<Value> {
        let old = self.old_object()?.clone();
        let mut request = self.request.clone();
        request["object"] = old;
        Some(request)
    }

    /// `serviceAccountName` and `serviceAccountNamespace`.
    pub(super) fn service_account(&self) -> (&Value, &Value) {
        (&self.account[0], &self.account[1])
    }
}

/// Absent, null and empty objects are no objects.
fn present(value: &Value) -> Option<&Value> {
    value.as_object().filter(|fields| !fields.is_empty()).map(|_| value)
}

/// Payloads of subresources name no namespace; the request does. A Namespace is in none.
fn settle(object: &mut Value, namespace: &str) {
    let is_namespace = Gvk::of(object) == Gvk::new("v1", "Namespace");
    let Some(fields) = object.as_object_mut().filter(|fields| !fields.is_empty()) else {
        return;
    };
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    if is_namespace {
        metadata.remove("namespace");
    } else if !namespace.is_empty() && metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().is_empty()
    {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
}

/// Name and namespace of the account behind a username; the prefix is only counted, not compared, as policies expect.
fn service_account(username: &str) -> [Value; 2] {
    const PREFIX: usize = "system:serviceaccount:".len();
    let rest = username.char_indices().nth(PREFIX).map_or("", |(start, _)| &username[start..]);
    let mut parts = rest.split(':');
    match (parts.next(), parts.next()) {
        (Some(namespace), Some(name)) => [name.into(), namespace.into()],
        _ => ["".into(), "".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(request: Value) -> Trigger {
        let request = request.as_object().expect("an object").clone();
        let resource = Gvk::new("v1", "Pod");
        Trigger::admission(request, resource, BTreeSet::from(["a:r".to_owned()]), BTreeSet::new())
    }

    #[test]
    fn roles_appear_only_if_there_are_any() {
        let trigger = admission(json!({
            "operation": "CREATE",
            "namespace": "a",
            "userInfo": {"username": "system:serviceaccount:ns:robot", "groups": ["g"]},
            "object": {"apiVersion": "v1", "kind": "PodExecOptions"},
        }));
        assert_eq!(trigger.request()["roles"], json!(["a:r"]));
        assert_eq!(trigger.request().get("clusterRoles"), None);
        assert_eq!(trigger.object().expect("there")["metadata"]["namespace"], json!("a"));
        assert_eq!(trigger.service_account(), (&json!("robot"), &json!("ns")));
        assert_eq!(trigger.requester().expect("known").groups, ["g"]);
        assert_eq!(trigger.operation(), Some(Operation::Create));
    }

    #[test]
    fn a_deletion_has_only_an_old_object() {
        let trigger = admission(json!({"operation": "DELETE", "object": null, "oldObject": {"kind": "Pod"}}));
        assert_eq!(trigger.object(), None);
        let on_old = trigger.request_on_old().expect("an old object");
        assert_eq!(on_old["object"], on_old["oldObject"]);
    }

    #[test]
    fn accounts_are_cut_from_the_username() {
        assert_eq!(service_account("jane"), [json!(""), json!("")]);
        assert_eq!(service_account("system:serviceaccount:ns"), [json!(""), json!("")]);
    }
}
