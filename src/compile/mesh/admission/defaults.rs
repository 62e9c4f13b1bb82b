//! Labels and the annotation that every stored object has, as the difference to what was sent.

use std::collections::BTreeMap;

use ::json_patch::{AddOperation, PatchOperation};
use jsonptr::PointerBuf;
use serde_json::{Map, Value};

use crate::core::json::{Json, Tree};

use super::catalogue::{Catalogued, Scope, Writers};
use super::{
    ControlPlane, DEFAULT_MESH, MESH_LABEL, Mode, ORIGIN_LABEL, ROLE_LABEL, Refusal, RefusalKind, Request, ZONE_LABEL,
    fault_of_mesh_name, label, name_of, permission, role,
};

const ENVIRONMENT_LABEL: &str = "kuma.io/env";
const NAMESPACE_LABEL: &str = "k8s.kuma.io/namespace";
const PROXY_TYPE_LABEL: &str = "kuma.io/proxy-type";
const NAME_ANNOTATION: &str = "kuma.io/display-name";

/// The operations that complete the object; none for a kind of somebody else.
pub fn defaults(request: &Request<'_>, plane: &ControlPlane) -> Result<Vec<PatchOperation>, Refusal> {
    let Some(kind) = Catalogued::of(request.object) else {
        return Ok(Vec::new());
    };
    permission::check(request, &kind, plane)?;
    let labels = wanted_labels(request, &kind, plane)?;
    let mut operations = Vec::new();
    complete(request.object, "labels", labels, &mut operations);
    let name = name_of(request.object);
    if !name.is_empty() {
        complete(request.object, "annotations", [(NAME_ANNOTATION, name.to_owned())].into(), &mut operations);
    }
    Ok(operations)
}

/// The labels that the object must have and does not, or not with this value.
fn wanted_labels(
    request: &Request<'_>,
    kind: &Catalogued,
    plane: &ControlPlane,
) -> Result<BTreeMap<&'static str, String>, Refusal> {
    let object = request.object;
    let namespace = object.at(&["metadata", "namespace"]).and_then(Tree::as_text).unwrap_or(request.namespace);
    let mut labels = BTreeMap::new();
    let mut unless_there = |name, value: &str| {
        if label(object, name).is_none() {
            labels.insert(name, value.to_owned());
        }
    };
    if kind.scope == Scope::Mesh {
        let mesh = object.get("mesh").and_then(Tree::as_text).filter(|mesh| !mesh.is_empty()).unwrap_or(DEFAULT_MESH);
        // No label can have any other value: the review tells better what is wrong than the API server would.
        if fault_of_mesh_name(mesh).is_none() {
            unless_there(MESH_LABEL, mesh);
        }
    }
    let origin = label(object, ORIGIN_LABEL);
    if let Mode::Zone { name, .. } = &plane.mode
        && kind.writers != Writers::Global
    {
        unless_there(ORIGIN_LABEL, "zone");
        if origin != Some("global") {
            unless_there(ZONE_LABEL, name);
            unless_there(ENVIRONMENT_LABEL, "kubernetes");
        }
    }
    if plane.is_local(origin) {
        if !namespace.is_empty() {
            unless_there(NAMESPACE_LABEL, namespace);
        }
        if kind.name == "Dataplane" {
            let gateway = object.at(&["spec", "networking", "gateway"]).is_some_and(|gateway| !gateway.is_null());
            unless_there(PROXY_TYPE_LABEL, if gateway { "gateway" } else { "sidecar" });
        }
        if kind.policy.is_some() {
            let role = role(object, namespace, &plane.system_namespace);
            let role = role.map_err(|error| Refusal::new(RefusalKind::Internal, error.to_string()))?;
            // The role is computed, never taken from the user.
            labels.insert(ROLE_LABEL, role.name().to_owned());
        }
    }
    Ok(labels)
}

/// Adds operations that bring entries into a map of the metadata.
fn complete(
    object: Json<'_>,
    map: &'static str,
    entries: BTreeMap<&'static str, String>,
    operations: &mut Vec<PatchOperation>,
) {
    let present = object.at(&["metadata", map]).filter(|present| present.is_object());
    let missing = entries
        .into_iter()
        .filter(|(name, value)| present.and_then(|present| present.get(name)).and_then(Tree::as_text) != Some(value));
    let mut add = |tokens: &[&str], value: Value| {
        operations
            .push(PatchOperation::Add(AddOperation { path: PointerBuf::from_tokens(tokens.iter().copied()), value }));
    };
    let mut created = present.is_some();
    for (name, value) in missing {
        if !created {
            add(&["metadata", map], Value::Object(Map::new()));
            created = true;
        }
        add(&["metadata", map, name], Value::String(value));
    }
}
