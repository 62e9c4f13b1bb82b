//! Keeps `caBundle` right in the webhook configurations that point to Writ.
//!
//! Only entries that call our Service (or a URL) are touched, entry by entry: the rest of a configuration is never
//! written back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch as JsonPatch;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::info;

use crate::cluster::error::ClusterError;

use super::call;

/// How often somebody else may be faster before we take a breath.
const MOST_CONFLICTS: usize = 5;

/// A kind of webhook configuration.
pub(super) trait Configuration:
    Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync
{
    const PLURAL: &'static str;

    /// Whom each entry calls.
    fn calls(&self) -> impl Iterator<Item = &WebhookClientConfig>;
}

impl Configuration for ValidatingWebhookConfiguration {
    const PLURAL: &'static str = "validatingwebhookconfigurations";

    fn calls(&self) -> impl Iterator<Item = &WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config)
    }
}

impl Configuration for MutatingWebhookConfiguration {
    const PLURAL: &'static str = "mutatingwebhookconfigurations";

    fn calls(&self) -> impl Iterator<Item = &WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config)
    }
}

/// Which configurations are ours, and which of their entries.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Names; there may be a configuration of either kind.
    pub configurations: Vec<String>,
    pub namespace: String,
    pub service: String,
}

/// Whether a configuration had to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    None,
    Written,
}

/// Puts the bundle into every configuration that lacks it. One that does not exist trusts nobody and needs nothing.
pub(super) async fn ensure(client: &Client, target: &Target, bundle: &str) -> Result<Change, ClusterError> {
    let validating = ensure_all::<ValidatingWebhookConfiguration>(client, target, bundle).await?;
    let mutating = ensure_all::<MutatingWebhookConfiguration>(client, target, bundle).await?;
    Ok(validating.max(mutating))
}

async fn ensure_all<C: Configuration>(client: &Client, target: &Target, bundle: &str) -> Result<Change, ClusterError> {
    let mut change = Change::None;
    let api = Api::<C>::all(client.clone());
    for name in &target.configurations {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match ensure_one(&api, name, target, bundle).await {
                Ok(done) => break change = change.max(done),
                Err(ClusterError::Conflict { .. }) if attempts < MOST_CONFLICTS => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(change)
}

async fn ensure_one<C: Configuration>(
    api: &Api<C>,
    name: &str,
    target: &Target,
    bundle: &str,
) -> Result<Change, ClusterError> {
    let resource = format!("{}/{name}", C::PLURAL);
    let Some(found) = call("get", &resource, api.get_opt(name)).await? else {
        return Ok(Change::None);
    };
    let Some(patch) = repair(&found, target, bundle) else {
        return Ok(Change::None);
    };
    let (params, patch) = (PatchParams::apply("writ"), Patch::Json::<()>(patch));
    match call("patch", &resource, api.patch(name, &params, &patch)).await {
        Ok(_) => {
            info!(resource, "CA bundle written");
            Ok(Change::Written)
        }
        // A failed test on the version is told like any other refusal: what is there now says which of them it was.
        Err(refusal @ ClusterError::Rejected { .. }) => {
            let now = call("get", &resource, api.get_opt(name)).await?;
            match now.is_some_and(|now| now.resource_version() == found.resource_version()) {
                true => Err(refusal),
                false => Err(ClusterError::Conflict { resource }),
            }
        }
        Err(error) => Err(error),
    }
}

/// The patch that puts the bundle where it is missing. It holds for the version that was read and for no other.
fn repair(configuration: &impl Configuration, target: &Target, bundle: &str) -> Option<JsonPatch> {
    let mut operations = Vec::new();
    for (index, entry) in configuration.calls().enumerate() {
        let ours = match &entry.service {
            Some(service) => service.name == target.service && service.namespace == target.namespace,
            None => entry.url.is_some(),
        };
        if !ours || entry.ca_bundle.as_ref().is_some_and(|found| found.0 == bundle.as_bytes()) {
            continue;
        }
        let path = format!("/webhooks/{index}/clientConfig/caBundle");
        operations.push(json!({"op": "add", "path": path, "value": STANDARD.encode(bundle)}));
    }
    if operations.is_empty() {
        return None;
    }
    let version = json!({"op": "test", "path": "/metadata/resourceVersion", "value": configuration.resource_version()});
    operations.insert(0, version);
    Some(serde_json::from_value(operations.into()).expect("these are operations of a JSON patch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_our_entries_alone() {
        let service = |namespace: &str, bundle: Option<&str>| {
            let mut entry = json!({
                "name": "a.writ.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": "writ", "namespace": namespace}},
            });
            if let Some(bundle) = bundle {
                entry["clientConfig"]["caBundle"] = STANDARD.encode(bundle).into();
            }
            entry
        };
        let configuration = json!({
            "metadata": {"name": "writ", "resourceVersion": "7"},
            "webhooks": [
                service("ns", Some("good")), service("ns", None), service("other", None), service("ns", Some("bad")),
            ],
        });
        check(&serde_json::from_value::<ValidatingWebhookConfiguration>(configuration.clone()).unwrap());
        check(&serde_json::from_value::<MutatingWebhookConfiguration>(configuration).unwrap());
    }

    #[track_caller]
    fn check(configuration: &impl Configuration) {
        let target = Target { configurations: Vec::new(), namespace: "ns".into(), service: "writ".into() };
        let patch = repair(configuration, &target, "good").unwrap();
        assert_eq!(
            serde_json::to_value(patch).unwrap(),
            json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "Z29vZA=="},
                {"op": "add", "path": "/webhooks/3/clientConfig/caBundle", "value": "Z29vZA=="},
            ])
        );
        let target = Target { service: "none".into(), ..target };
        assert!(repair(configuration, &target, "good").is_none());
    }
}
