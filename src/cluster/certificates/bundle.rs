//! Keeps `caBundle` right in the webhook configurations that point to Writ.
//!
//! Only entries that call our Service (or a URL) in configurations with our label are touched, entry by entry: the rest
//! of a configuration is never written back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch as JsonPatch;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::info;

use crate::cluster::client::describe;
use crate::cluster::error::ClusterError;

use super::call;

/// How often somebody else may be faster before we take a breath.
const MOST_CONFLICTS: usize = 5;

/// Which configurations are ours, and which of their entries.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub selector: String,
    pub namespace: String,
    pub service: String,
}

/// A kind of webhook configuration.
pub(super) trait Configuration: ResourceExt<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug {
    const RESOURCE: &'static str;
    /// The client configuration of each entry, in order.
    fn entries(&self) -> Vec<&WebhookClientConfig>;
}

impl Configuration for ValidatingWebhookConfiguration {
    const RESOURCE: &'static str = "validatingwebhookconfigurations";
    fn entries(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }
}

impl Configuration for MutatingWebhookConfiguration {
    const RESOURCE: &'static str = "mutatingwebhookconfigurations";
    fn entries(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }
}

/// Puts the bundle into every configuration that lacks it.
pub(super) async fn ensure(client: &Client, target: &Target, bundle: &str) -> Result<(), ClusterError> {
    for _attempt in 0..MOST_CONFLICTS {
        let both = async {
            ensure_kind::<ValidatingWebhookConfiguration>(client, target, bundle).await?;
            ensure_kind::<MutatingWebhookConfiguration>(client, target, bundle).await
        };
        match both.await {
            Err(ClusterError::Conflict { .. }) => {}
            other => return other,
        }
    }
    Err(ClusterError::Conflict { resource: "the webhook configurations".to_owned() })
}

async fn ensure_kind<C: Configuration>(client: &Client, target: &Target, bundle: &str) -> Result<(), ClusterError> {
    let api = Api::<C>::all(client.clone());
    let params = ListParams::default().labels(&target.selector);
    let found = call("list", C::RESOURCE, api.list(&params)).await?;
    for configuration in &found {
        let Some(patch) = repair(configuration, target, bundle) else { continue };
        let name = configuration.name_any();
        let resource = describe(C::RESOURCE, configuration);
        let (params, patch) = (PatchParams::apply("writ"), Patch::Json::<()>(patch));
        match call("patch", &resource, api.patch(&name, &params, &patch)).await {
            // The test on the version failed: somebody else was faster.
            Err(ClusterError::Rejected { resource, .. }) => return Err(ClusterError::Conflict { resource }),
            other => other?,
        };
        info!(kind = C::RESOURCE, name, "CA bundle written");
    }
    Ok(())
}

/// The patch that puts the bundle where it is missing. It holds for the version that was read and for no other.
fn repair<C: Configuration>(configuration: &C, target: &Target, bundle: &str) -> Option<JsonPatch> {
    let mut operations = Vec::new();
    for (index, entry) in configuration.entries().into_iter().enumerate() {
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
        let configuration: ValidatingWebhookConfiguration = serde_json::from_value(json!({
            "metadata": {"name": "writ", "resourceVersion": "7"},
            "webhooks": [
                service("ns", Some("good")), service("ns", None), service("other", None), service("ns", Some("bad")),
            ],
        }))
        .unwrap();
        let target = Target { selector: String::new(), namespace: "ns".into(), service: "writ".into() };
        let patch = repair(&configuration, &target, "good").unwrap();
        assert_eq!(
            serde_json::to_value(patch).unwrap(),
            json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "Z29vZA=="},
                {"op": "add", "path": "/webhooks/3/clientConfig/caBundle", "value": "Z29vZA=="},
            ])
        );
        let target = Target { service: "none".into(), ..target };
        assert!(repair(&configuration, &target, "good").is_none());
    }
}
