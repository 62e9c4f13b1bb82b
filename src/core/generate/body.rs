//! Bodies of targets: what the target itself decides, and what a clone must leave behind.

use serde_json::{Map, Value};

use crate::core::resource::ObjectKey;
use crate::core::shape::ValueShape;

use super::diff::BOOKKEEPING;
use super::error::Cause;

/// Name, namespace and version come from the target whatever the body says; a kind only if the body has none.
pub(super) fn dress(body: &mut Map<String, Value>, key: &ObjectKey) -> Result<(), Cause> {
    match body.get("kind") {
        None | Some(Value::Null) => {}
        Some(kind) if *kind == key.gvk.kind => {}
        Some(other) => {
            return Err(Cause::OtherKind { body: ValueShape::of(other), target: key.gvk.kind.clone() });
        }
    }
    body.insert("apiVersion".to_owned(), key.gvk.api_version().into());
    body.insert("kind".to_owned(), key.gvk.kind.as_str().into());
    let metadata = body.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let Value::Object(metadata) = metadata else {
        return Err(Cause::NotObject { what: "metadata", found: ValueShape::of(metadata) });
    };
    metadata.insert("name".to_owned(), key.name.as_str().into());
    match &key.namespace {
        Some(namespace) => metadata.insert("namespace".to_owned(), namespace.as_str().into()),
        None => metadata.remove("namespace"),
    };
    Ok(())
}

/// What a clone carries over: everything but what belongs to one object alone. Owners stay within their namespace;
/// finalizers are left behind, because whoever set them does not know the copy.
pub(super) fn strip(source: &Value, same_namespace: bool) -> Map<String, Value> {
    let mut body = source.as_object().cloned().unwrap_or_default();
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        for field in BOOKKEEPING.iter().chain(&["finalizers"]) {
            metadata.remove(*field);
        }
        if !same_namespace {
            metadata.remove("ownerReferences");
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::resource::Gvk;

    fn key(namespace: Option<&str>) -> ObjectKey {
        ObjectKey { gvk: Gvk::new("v1", "Secret"), namespace: namespace.map(str::to_owned), name: "s".into() }
    }

    #[test]
    fn the_target_decides_who_it_is() {
        #[track_caller]
        fn check(body: Value, namespace: Option<&str>, expected: Value) {
            let mut body = body.as_object().expect("an object").clone();
            assert_eq!(dress(&mut body, &key(namespace)).map(|()| Value::Object(body)), Ok(expected));
        }
        let full = |metadata: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
        check(json!({}), Some("a"), full(json!({"name": "s", "namespace": "a"})));
        check(json!({"metadata": null}), None, full(json!({"name": "s"})));
        check(
            json!({"apiVersion": "v9", "kind": "Secret", "metadata": {"name": "x", "namespace": "b", "annotations": {}}}),
            Some("a"),
            full(json!({"name": "s", "namespace": "a", "annotations": {}})),
        );
        check(json!({"metadata": {"namespace": "b"}}), None, full(json!({"name": "s"})));
    }

    #[test]
    fn another_kind_in_the_body_is_an_error() {
        let mut body = json!({"kind": "ConfigMap"}).as_object().expect("an object").clone();
        let expected = Cause::OtherKind { body: ValueShape::Text(9), target: "Secret".into() };
        assert_eq!(dress(&mut body, &key(None)), Err(expected));
        let mut body = json!({"metadata": []}).as_object().expect("an object").clone();
        assert!(matches!(dress(&mut body, &key(None)), Err(Cause::NotObject { what: "metadata", .. })));
    }

    #[test]
    fn a_clone_leaves_behind_what_is_the_sources_own() {
        let source = json!({
            "metadata": {
                "name": "s", "uid": "u", "resourceVersion": "1", "creationTimestamp": "t", "managedFields": [], "selfLink": "x",
                "finalizers": ["f"], "generation": 2, "labels": {"a": "b"}, "ownerReferences": [{"uid": "o"}],
            },
            "data": {"k": "v"}, "type": "Opaque",
        });
        let expected = |metadata: Value| json!({"metadata": metadata, "data": {"k": "v"}, "type": "Opaque"});
        assert_eq!(Value::Object(strip(&source, false)), expected(json!({"name": "s", "labels": {"a": "b"}})));
        assert_eq!(
            Value::Object(strip(&source, true)),
            expected(json!({"name": "s", "labels": {"a": "b"}, "ownerReferences": [{"uid": "o"}]}))
        );
    }
}
