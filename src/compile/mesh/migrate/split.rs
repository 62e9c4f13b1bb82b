//! A policy for both directions becomes two: in Kuma 3 `rules` cannot stand beside `to`.

use serde_json::{Value, json};

use super::template::OF_THE_STORED_OBJECT;
use super::work::{Work, policy_kind};
use crate::compile::{Form, identify};
use crate::core::problem::FieldPath;
use crate::core::yaml::edit::{self, Edit};

/// The kinds whose policies may have both directions, for the same proxies.
const SPLIT: &[&str] = &["MeshTimeout", "MeshAccessLog", "MeshCircuitBreaker"];
/// What the second policy is called, behind the name of the first.
const SUFFIX: &str = "-inbound";
/// What says more of the first policy than the second one may repeat.
const OF_THE_NAME: &[&str] = &["kuma.io/display-name", "kubectl.kubernetes.io/last-applied-configuration"];

/// The two halves of a policy: the text that keeps the name and `to`, and the one that gets `from` and a new name.
pub(super) struct Halves {
    pub(super) outbound: String,
    pub(super) inbound: String,
    pub(super) name: String,
}

/// Splits a policy, if that is what keeps its `from` from becoming `rules`. `is_taken` knows the names of the others.
pub(super) fn split(work: &Work<'_>, is_taken: impl Fn(&str, &str) -> bool) -> Option<Halves> {
    let (text, object) = (&work.text, &work.value);
    let identity = identify(object)?;
    if !SPLIT.contains(&policy_kind(object, &identity)??.resource.kind) {
        return None;
    }
    let spec = object.get("spec")?;
    let is_filled = |list: &str| spec.get(list).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let is_for_all = |entry: &Value| entry.get("targetRef") == Some(&json!({"kind": "Mesh"}));
    let from_all = spec.get("from").and_then(Value::as_array).is_some_and(|from| from.iter().all(is_for_all));
    let name = format!("{}{SUFFIX}", identity.name);
    // Two documents cannot stand in a list, nor in a file that is written with braces, as JSON is.
    let one_by_nature = text.trim_start().starts_with('{') || !work.object.root.steps().is_empty();
    if !is_filled("to") || !is_filled("from") || !from_all || one_by_nature || is_taken(identity.kind, &name) {
        return None;
    }
    let root = FieldPath::root();
    let of_spec = |list: &'static str| Edit::Remove { at: root.field("spec").field(list) };
    let mut second = vec![of_spec("to")];
    second.extend(forget_the_first(object, identity.form));
    let named = match identity.form {
        Form::Kubernetes => root.field("metadata").field("name"),
        Form::Universal => root.field("name"),
    };
    second.push(Edit::Set { at: named, value: Value::from(name.as_str()) });
    let (outbound, _) = edit::apply(text, object, &[of_spec("from")]).ok()?;
    let (inbound, _) = edit::apply(text, object, &second).ok()?;
    Some(Halves { outbound, inbound, name })
}

fn forget_the_first(object: &Value, form: Form) -> Vec<Edit> {
    let root = FieldPath::root();
    let (holder, path) = match form {
        Form::Kubernetes => (object.get("metadata"), root.field("metadata")),
        Form::Universal => (Some(object), root),
    };
    let Some(holder) = holder else { return Vec::new() };
    let mut gone: Vec<_> =
        OF_THE_STORED_OBJECT.iter().filter(|name| holder.get(**name).is_some()).map(|name| path.field(*name)).collect();
    for map in ["labels", "annotations"] {
        let has = |name: &&&str| holder.get(map).is_some_and(|map| map.get(**name).is_some());
        gone.extend(OF_THE_NAME.iter().filter(has).map(|name| path.field(map).key(*name)));
    }
    gone.into_iter().map(|at| Edit::Remove { at }).collect()
}
