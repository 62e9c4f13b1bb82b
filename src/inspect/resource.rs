//! Resources by their KRI, and what kinds there are.

use serde::Serialize;
use serde_json::{Map, Value};

use super::error::InspectError;
use super::view::json;
use crate::core::mesh::kind::{KindTable, MESH};
use crate::core::mesh::meta::ResourceKey;
use crate::index::mesh::MeshSnapshot;

#[derive(Serialize)]
struct Types {
    resources: Vec<TypeView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TypeView {
    name: &'static str,
    scope: &'static str,
    path: &'static str,
    short_name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<PolicyView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PolicyView {
    is_target_ref: bool,
    has_to_target_ref: bool,
    has_from_target_ref: bool,
    has_rules_target_ref: bool,
    is_from_as_rules: bool,
}

/// The resource with a KRI. A section in it does not count.
pub(super) fn by_kri(snapshot: &MeshSnapshot, kri: &str) -> Result<String, InspectError> {
    let key = ResourceKey::parse(kri, snapshot.kinds()).map_err(InspectError::Kri)?;
    let mesh = if *key.kind == MESH { &key.name } else { &key.mesh };
    let stored = snapshot.contents(mesh).and_then(|contents| contents.document(&key));
    let stored = stored.ok_or(InspectError::NotFound("Could not retrieve a resource"))?;
    let document: Value = serde_json::from_str(&stored.text).unwrap_or_default();
    Ok(json(&universal(&document, &stored.name, mesh, *key.kind == MESH)))
}

/// A resource in the form that does not depend on Kubernetes.
fn universal(document: &Value, name: &str, mesh: &str, is_mesh: bool) -> Value {
    if document.get("apiVersion").is_none() {
        return document.clone();
    }
    let mut resource =
        Map::from_iter([("type".to_owned(), document["kind"].clone()), ("name".to_owned(), name.into())]);
    if !is_mesh {
        resource.insert("mesh".to_owned(), mesh.into());
    }
    if let Some(labels) = document.pointer("/metadata/labels") {
        resource.insert("labels".to_owned(), labels.clone());
    }
    for field in ["spec", "status"] {
        if let Some(value) = document.get(field) {
            resource.insert(field.to_owned(), value.clone());
        }
    }
    Value::Object(resource)
}

pub(super) fn types(kinds: &KindTable) -> String {
    let mut resources: Vec<_> = kinds
        .resources()
        .map(|resource| TypeView {
            name: resource.kind,
            scope: if ["Mesh", "Zone", "ZoneIngress", "ZoneEgress"].contains(&resource.kind) {
                "Global"
            } else {
                "Mesh"
            },
            path: resource.path,
            short_name: resource.short,
            policy: kinds.policy(resource.kind).map(|policy| PolicyView {
                is_target_ref: true,
                has_to_target_ref: policy.to,
                has_from_target_ref: policy.from,
                has_rules_target_ref: policy.rules,
                is_from_as_rules: policy.from_as_rules,
            }),
        })
        .collect();
    resources.sort_by_key(|resource| resource.name);
    json(&Types { resources })
}
