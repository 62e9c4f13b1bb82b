//! The kinds that Writ serves, as the API server knows them: their CustomResourceDefinitions.
//!
//! `manifests/crds` holds the same as files; a test keeps them equal. This room describes; `compile` understands.

mod definition;
mod kuma;
mod kyverno;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Every definition, those of a group in the order of their names.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut all = vec![kyverno::cluster_policy(), kyverno::policy(), kyverno::update_request()];
    all.extend(kuma::definitions());
    all
}
