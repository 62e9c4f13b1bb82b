//! The kinds that Writ serves, as the API server knows them: their CustomResourceDefinitions.
//!
//! `manifests/crds` holds the same as files; a test keeps them equal. This room describes; `compile` understands.

mod definition;
mod kuma;
mod kyverno;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

pub use schema::is_duration;

/// Every definition, those of a group in the order of their names.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut all = vec![
        kyverno::cluster_policy(),
        kyverno::global_context_entry(),
        kyverno::policy(),
        kyverno::policy_exception(),
        kyverno::update_request(),
    ];
    all.extend(kuma::definitions());
    all
}

/// The kinds of group `kuma.io`.
pub fn mesh_kinds() -> impl Iterator<Item = &'static str> {
    kuma::KINDS.iter().map(|kind| kind.name)
}

/// The schema of such a kind, as its definition has it; `None` for any other.
pub fn mesh_schema(kind: &str) -> Option<Value> {
    kuma::KINDS.iter().find(|known| known.name == kind).map(kuma::Kind::schema)
}
