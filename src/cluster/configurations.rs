//! Keeps `caBundle` and the token in the path right in the webhook configurations that call Writ.
//!
//! Only entries that call our Service (or a URL) are touched, field by field: the rest of a configuration is never written
//! back. The manifests leave both fields out, so that applying them again leaves what is written here.

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

use super::ClusterError;
use super::upkeep::call;
use crate::core::webhook_token::{EntryPath, WebhookTokens, WebhookType, without_token};

/// Write conflicts before a pause.
const MOST_CONFLICTS: usize = 8;

/// What entries must say.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// The CA certificates (PEM).
    Bundle(&'a str),
    Path(TokenPath<'a>),
}

/// A path with a token that is in force.
#[derive(Clone, Copy)]
pub(super) struct TokenPath<'a> {
    pub tokens: &'a WebhookTokens,
    /// The token to write.
    pub called: &'a str,
    pub entries: &'a [EntryPath],
}

/// A kind of webhook configuration.
pub(super) trait Configuration:
    Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync
{
    const PLURAL: &'static str;
    const TYPE: WebhookType;

    /// The name of each entry, and whom it calls.
    fn calls(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)>;
}

impl Configuration for ValidatingWebhookConfiguration {
    const PLURAL: &'static str = "validatingwebhookconfigurations";
    const TYPE: WebhookType = WebhookType::Validating;

    fn calls(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)> {
        self.webhooks.iter().flatten().map(|webhook| (webhook.name.as_str(), &webhook.client_config))
    }
}

impl Configuration for MutatingWebhookConfiguration {
    const PLURAL: &'static str = "mutatingwebhookconfigurations";
    const TYPE: WebhookType = WebhookType::Mutating;

    fn calls(&self) -> impl Iterator<Item = (&str, &WebhookClientConfig)> {
        self.webhooks.iter().flatten().map(|webhook| (webhook.name.as_str(), &webhook.client_config))
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

/// Writes into every configuration what it lacks. One that does not exist calls no service and needs nothing.
pub(super) async fn ensure(client: &Client, target: &Target, wanted: Wanted<'_>) -> Result<Change, ClusterError> {
    let validating = ensure_all::<ValidatingWebhookConfiguration>(client, target, wanted).await?;
    let mutating = ensure_all::<MutatingWebhookConfiguration>(client, target, wanted).await?;
    Ok(validating.max(mutating))
}

async fn ensure_all<C: Configuration>(
    client: &Client,
    target: &Target,
    wanted: Wanted<'_>,
) -> Result<Change, ClusterError> {
    let mut change = Change::None;
    let api = Api::<C>::all(client.clone());
    for name in &target.configurations {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match ensure_one(&api, name, target, wanted).await {
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
    wanted: Wanted<'_>,
) -> Result<Change, ClusterError> {
    let resource = format!("{}/{name}", C::PLURAL);
    let Some(found) = call("get", &resource, api.get_opt(name)).await? else {
        return Ok(Change::None);
    };
    let Some(patch) = repair(&found, target, wanted) else {
        return Ok(Change::None);
    };
    let (params, patch) = (PatchParams::apply("writ"), Patch::Json::<()>(patch));
    match call("patch", &resource, api.patch(name, &params, &patch)).await {
        Ok(_) => {
            match wanted {
                Wanted::Bundle(_) => info!(resource, "CA bundle written"),
                Wanted::Path(_) => info!(resource, "Webhook paths written"),
            }
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

/// The patch that writes what is missing. It holds for the version that was read and for no other.
fn repair<C: Configuration>(configuration: &C, target: &Target, wanted: Wanted<'_>) -> Option<JsonPatch> {
    let mut operations = Vec::new();
    for (index, (name, entry)) in configuration.calls().enumerate() {
        let ours = match &entry.service {
            Some(service) => service.name == target.service && service.namespace == target.namespace,
            None => entry.url.is_some(),
        };
        let change = match wanted {
            _ if !ours => None,
            Wanted::Bundle(bundle) => repair_bundle(entry, bundle),
            Wanted::Path(path) => repair_path(C::TYPE, name, entry, path),
        };
        if let Some((field, value)) = change {
            operations
                .push(json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/{field}"), "value": value}));
        }
    }
    if operations.is_empty() {
        return None;
    }
    let version = json!({"op": "test", "path": "/metadata/resourceVersion", "value": configuration.resource_version()});
    operations.insert(0, version);
    Some(serde_json::from_value(operations.into()).expect("these are operations of a JSON patch"))
}

fn repair_bundle(entry: &WebhookClientConfig, bundle: &str) -> Option<(&'static str, String)> {
    let same = entry.ca_bundle.as_ref().is_some_and(|found| found.0 == bundle.as_bytes());
    (!same).then(|| ("caBundle", STANDARD.encode(bundle)))
}

/// A path that carries the token already, or one that is accepted while replicas do not agree on the time, is left alone.
fn repair_path(
    kind: WebhookType,
    name: &str,
    entry: &WebhookClientConfig,
    path: TokenPath<'_>,
) -> Option<(&'static str, String)> {
    let TokenPath { tokens, called, entries } = path;
    let url = entry.url.as_deref().map(split_url);
    let present = match (&entry.service, url) {
        (Some(service), _) => service.path.as_deref().unwrap_or_default(),
        (None, Some((_, path))) => path,
        (None, None) => return None,
    };
    let listed = entries.iter().find(|(listed, entry, _)| *listed == kind && *entry == name);
    let base = listed.map_or_else(|| without_token(present), |(_, _, base)| base);
    let carried = tokens.base_path(present) == Some(base);
    if carried && (present.ends_with(called) || present.ends_with(tokens.current.reveal())) {
        return None;
    }
    Some(match url {
        Some((origin, _)) => ("url", format!("{origin}{base}/{called}")),
        None => ("service/path", format!("{base}/{called}")),
    })
}

/// Scheme and host of a URL, and its path.
pub(super) fn split_url(url: &str) -> (&str, &str) {
    let start = url.find("://").map_or(0, |scheme| scheme + 3);
    url.split_at(url[start..].find('/').map_or(url.len(), |slash| start + slash))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::Value;

    use super::*;
    use crate::core::webhook_token::{PreviousToken, TOKEN_BYTES, WebhookToken};

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
        let patch = repair(configuration, &target, Wanted::Bundle("good")).unwrap();
        assert_eq!(
            serde_json::to_value(patch).unwrap(),
            json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "Z29vZA=="},
                {"op": "add", "path": "/webhooks/3/clientConfig/caBundle", "value": "Z29vZA=="},
            ])
        );
        let target = Target { service: "none".into(), ..target };
        assert!(repair(configuration, &target, Wanted::Bundle("good")).is_none());
    }

    const ENTRIES: &[EntryPath] = &[
        (WebhookType::Validating, "policies.writ.dev", "/validate"),
        (WebhookType::Mutating, "policies.writ.dev", "/default"),
    ];

    fn token(byte: u8) -> WebhookToken {
        WebhookToken::new(&[byte; TOKEN_BYTES])
    }

    /// What is written for an entry with this client configuration.
    fn written(kind: WebhookType, name: &str, client: Value, called: u8) -> Option<String> {
        let previous = Some(PreviousToken { token: token(1), switched_at: None });
        let tokens = WebhookTokens { current: token(2), since: Timestamp::UNIX_EPOCH, previous };
        let called = token(called);
        let path = TokenPath { tokens: &tokens, called: called.reveal(), entries: ENTRIES };
        let entry: WebhookClientConfig = serde_json::from_value(client).unwrap();
        repair_path(kind, name, &entry, path).map(|(field, value)| format!("{field}={value}"))
    }

    #[test]
    fn urls_keep_their_host() {
        assert_eq!(split_url("https://localhost:9443/validate"), ("https://localhost:9443", "/validate"));
        assert_eq!(split_url("https://localhost:9443"), ("https://localhost:9443", ""));
    }

    #[test]
    fn entries_get_the_path_of_their_name_and_keep_it_through_a_rotation() {
        let [old, new, stranger] = [1, 2, 3].map(|byte| token(byte).reveal().to_owned());
        let service = |path: &str| json!({"service": {"name": "writ", "namespace": "ns", "path": path}});
        let check = |path: &str, called, expected: Option<String>| {
            assert_eq!(
                written(WebhookType::Validating, "policies.writ.dev", service(path), called),
                expected,
                "{path}"
            );
        };
        // The manifests name no path, and older ones one without a token.
        for path in ["", "/validate", "/other", &format!("/validate/{stranger}"), &format!("/other/{new}")] {
            check(path, 1, Some(format!("service/path=/validate/{old}")));
        }
        check(&format!("/validate/{old}"), 1, None);
        check(&format!("/validate/{new}"), 1, None);
        check(&format!("/validate/{old}"), 2, Some(format!("service/path=/validate/{new}")));
        let mutating = written(WebhookType::Mutating, "policies.writ.dev", service(""), 2);
        assert_eq!(mutating, Some(format!("service/path=/default/{new}")));
        let unlisted = written(WebhookType::Validating, "own.example", service(&format!("/validate/fail/{old}")), 2);
        assert_eq!(unlisted, Some(format!("service/path=/validate/fail/{new}")));
        let url = |url: &str| written(WebhookType::Validating, "policies.writ.dev", json!({"url": url}), 2);
        assert_eq!(url("https://localhost:9443"), Some(format!("url=https://localhost:9443/validate/{new}")));
        assert_eq!(url(&format!("https://localhost:9443/validate/{new}")), None);
    }
}
