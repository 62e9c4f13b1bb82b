//! Gives policies the annotation that says that admission has reviewed them. What the client sent in its place never counts.

use serde_json::{Value, json};

use super::review::{Status, Verdict};
use crate::core::integrity::MacKey;
use crate::core::reviewed::{REVIEWED, annotation};

/// The key that admission signs with.
#[derive(Clone, Copy, Debug)]
pub enum ReviewKey<'k> {
    /// There is no cluster, so nothing runs the policies either.
    Offline,
    /// The Secret with the key was not read yet.
    Missing,
    Known(&'k MacKey),
}

/// The operations that give an object this annotation, or none.
pub(super) fn operations(object: &Value, wanted: Option<&str>) -> Vec<Value> {
    let path = format!("/metadata/annotations/{}", REVIEWED.replace('/', "~1"));
    let annotations = object.pointer("/metadata/annotations").filter(|annotations| annotations.is_object());
    match wanted {
        Some(code) if annotation(object) == code => Vec::new(),
        Some(code) if annotations.is_some() => vec![json!({"op": "add", "path": path, "value": code})],
        Some(code) => vec![json!({"op": "add", "path": "/metadata/annotations", "value": {REVIEWED: code}})],
        None if annotations.is_some_and(|annotations| annotations.get(REVIEWED).is_some()) => {
            vec![json!({"op": "remove", "path": path})]
        }
        None => Vec::new(),
    }
}

/// Allows with a patch, if there is anything to patch.
pub(super) fn patched(operations: &[Value]) -> Verdict {
    match operations {
        [] => Verdict::allow(),
        operations => Verdict { patch: Some(Value::from(operations).to_string().into_bytes()), ..Verdict::allow() },
    }
}

/// The answer while the key is missing: stored now, the policy would never run.
pub(super) fn no_key() -> Verdict {
    let message = "the policy cannot be marked as reviewed: the Secret with Writ's keys was not read yet; try again";
    Verdict::deny(Status::failure(503, "ServiceUnavailable", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(metadata: Value, wanted: Option<&str>, expected: Value) {
        let mut object = json!({"metadata": metadata});
        let operations = operations(&object, wanted);
        let patch: json_patch::Patch = serde_json::from_value(Value::from(operations)).expect("a patch");
        json_patch::patch(&mut object, &patch).expect("it applies");
        assert_eq!(object["metadata"], expected);
    }

    #[test]
    fn the_annotation_of_the_client_is_overwritten() {
        check(json!({}), Some("c"), json!({"annotations": {REVIEWED: "c"}}));
        check(json!({"annotations": null}), Some("c"), json!({"annotations": {REVIEWED: "c"}}));
        check(json!({"annotations": {"a": "b"}}), Some("c"), json!({"annotations": {"a": "b", REVIEWED: "c"}}));
        check(json!({"annotations": {REVIEWED: "x"}}), Some("c"), json!({"annotations": {REVIEWED: "c"}}));
        check(json!({"annotations": {REVIEWED: "x"}}), None, json!({"annotations": {}}));
        check(json!({}), None, json!({}));
    }
}
