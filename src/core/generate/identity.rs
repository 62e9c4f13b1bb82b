//! Who targets and sources are, read from patterns that have been substituted.

use serde_json::{Map, Value};

use crate::core::problem::FieldPath;
use crate::core::resource::{Gvk, ObjectKey};
use crate::core::selector::{LabelSelector, Wildcards};
use crate::core::shape::ValueShape;

use super::error::Cause;
use super::rule::Pattern;

/// A `cloneList` by kinds, substituted.
pub(super) struct Selection {
    /// The namespace that the copies go to.
    pub(super) target: String,
    pub(super) namespace: String,
    pub(super) kinds: Vec<Gvk>,
    pub(super) labels: LabelSelector,
}

impl Selection {
    pub(super) fn read(rendered: &Map<String, Value>) -> Result<Self, Cause> {
        let target = text(rendered, "namespace")?.to_owned();
        let empty = Map::new();
        let list = rendered.get("cloneList").and_then(Value::as_object).unwrap_or(&empty);
        let namespace = text(list, "namespace")?.to_owned();
        let kinds = list.get("kinds").and_then(Value::as_array).into_iter().flatten();
        let kinds = kinds.map(parse_kind).collect::<Result<_, _>>()?;
        let labels = match list.get("selector") {
            None | Some(Value::Null) => LabelSelector::default(),
            Some(selector) => {
                let mut problems = Vec::new();
                let parsed = LabelSelector::parse(
                    selector,
                    Wildcards::Refused,
                    &FieldPath::root().field("selector"),
                    &mut problems,
                );
                parsed.ok_or(Cause::Malformed("`selector` must become a label selector"))?
            }
        };
        Ok(Self { target, namespace, kinds, labels })
    }
}

/// `v1/Secret` or `apps/v1/Deployment`.
fn parse_kind(text: &Value) -> Result<Gvk, Cause> {
    let text = text.as_str().ok_or_else(|| Cause::NotText { field: "kinds", found: ValueShape::of(text) })?;
    match text.rsplit_once('/') {
        Some((api_version, kind)) => checked(api_version, kind),
        None => Err(Cause::Malformed("a kind needs its version, such as `v1/Secret`")),
    }
}

pub(super) fn key_of(identity: &Map<String, Value>, pattern: &Pattern) -> Result<ObjectKey, Cause> {
    let gvk = gvk_of(identity)?;
    let name = text(identity, "name")?;
    if name.is_empty() {
        return Err(Cause::Empty { field: "name" });
    }
    let namespace = text(identity, "namespace")?;
    if namespace.is_empty() && pattern.kinds.iter().any(|kind| !kind.namespace.is_empty()) {
        return Err(Cause::Empty { field: "namespace" });
    }
    Ok(ObjectKey { gvk, namespace: (!namespace.is_empty()).then(|| namespace.to_owned()), name: name.to_owned() })
}

pub(super) fn gvk_of(identity: &Map<String, Value>) -> Result<Gvk, Cause> {
    let (api_version, kind) = (text(identity, "apiVersion")?, text(identity, "kind")?);
    // A subresource after the kind only matters for rights.
    let kind = kind.split('/').next().unwrap_or(kind);
    match (api_version, kind) {
        ("", _) => Err(Cause::Empty { field: "apiVersion" }),
        (_, "") => Err(Cause::Empty { field: "kind" }),
        _ => checked(api_version, kind),
    }
}

/// An API version is read again where the object is written: one with more slashes, or with an empty part, would be another
/// kind there than the one that passes the gate.
fn checked(api_version: &str, kind: &str) -> Result<Gvk, Cause> {
    let parts: Vec<&str> = api_version.split('/').collect();
    if parts.len() > 2 || parts.contains(&"") {
        return Err(Cause::Malformed("`apiVersion` must become VERSION or GROUP/VERSION"));
    }
    Ok(Gvk::new(api_version, kind))
}

pub(super) fn source_key(gvk: &Gvk, namespace: &str, name: &str) -> Result<ObjectKey, Cause> {
    if name.is_empty() {
        return Err(Cause::Empty { field: "name of the source" });
    }
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    Ok(ObjectKey { gvk: gvk.clone(), namespace, name: name.to_owned() })
}

/// A field that must have become text; absent and null read as empty.
pub(super) fn text<'v>(fields: &'v Map<String, Value>, field: &'static str) -> Result<&'v str, Cause> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(Cause::NotText { field, found: ValueShape::of(other) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_version_is_the_same_when_it_is_read_again() {
        for good in ["v1", "apps/v1"] {
            assert_eq!(checked(good, "X").map(|gvk| gvk.api_version()), Ok(good.to_owned()));
        }
        for bad in ["/kyverno.io/v1", "/v1", "apps/", "a/b/c", "/"] {
            assert!(checked(bad, "ClusterPolicy").is_err(), "{bad}");
            assert!(parse_kind(&Value::from(format!("{bad}/ClusterPolicy"))).is_err(), "{bad}");
        }
    }
}
