//! CustomResourceDefinitions: the forms that they are put together from, and those of group `kyverno.io`. The mesh kinds are
//! described where they are compiled, each in one record.

pub(crate) mod definition;
mod kyverno;
pub(crate) mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The CRDs of group `kyverno.io`, in the order of their names.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    vec![
        kyverno::cluster_policy(),
        kyverno::global_context_entry(),
        kyverno::policy(),
        kyverno::policy_exception(),
        kyverno::update_request(),
    ]
}
