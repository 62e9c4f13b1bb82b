//! What loops share that keep a few objects of the install as they should be: calls with a time limit, streams that say when
//! to look again, and backoff.

use std::time::Duration;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tracing::warn;

use super::ClusterError;
use super::configurations::Configuration;

/// No single call may hold up the others for longer.
const CALL_TIME: Duration = Duration::from_secs(15);
/// Everything is compared anew at least this often, whatever the watches say.
pub(super) const RESYNC: Duration = Duration::from_secs(300);
/// What an API server takes to notice a changed webhook configuration: ready means that the first call succeeds.
pub(super) const SETTLE: Duration = Duration::from_millis(500);
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Says when something may have changed.
pub(super) type Changes = stream::SelectAll<stream::BoxStream<'static, ()>>;

/// Changes of the webhook configurations with these names, of either type.
pub(super) fn configuration_changes(client: &Client, names: &[String]) -> Changes {
    let validating = names.iter().map(|name| of_configuration::<ValidatingWebhookConfiguration>(client, name));
    let mutating = names.iter().map(|name| of_configuration::<MutatingWebhookConfiguration>(client, name));
    stream::select_all(validating.chain(mutating))
}

fn of_configuration<C: Configuration + 'static>(client: &Client, name: &str) -> stream::BoxStream<'static, ()> {
    touches::<C>(C::PLURAL, name, Api::all(client.clone()))
}

pub(super) fn secret_changes(client: &Client, namespace: &str, name: &str) -> stream::BoxStream<'static, ()> {
    touches::<Secret>("secrets", name, Api::namespaced(client.clone(), namespace))
}

/// Several changes that are known already are one.
pub(super) fn drain(changes: &mut Changes) {
    while changes.next().now_or_never().flatten().is_some() {}
}

pub(super) fn retry_pause(failures: u32) -> Duration {
    (FIRST_RETRY * (1 << failures.min(7))).min(LAST_RETRY)
}

/// A stream that says when an object may have changed; failures are told and retried for ever.
fn touches<K>(resource: &'static str, name: &str, api: Api<PartialObjectMeta<K>>) -> stream::BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let resource = format!("{resource}/{name}");
    watcher(api, watcher::Config::default().fields(&format!("metadata.name={name}")))
        .default_backoff()
        .filter_map(move |event| {
            let told = event.map(|_| ()).map_err(|error| ClusterError::of_watch(&resource, &error));
            if let Err(error) = &told {
                warn!(%error, "Watch interrupted");
            }
            std::future::ready(told.ok())
        })
        .boxed()
}

/// One call with its time limit and its errors sorted.
pub(super) async fn call<T>(
    verb: &'static str,
    resource: &str,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, ClusterError> {
    match timeout(CALL_TIME, call).await {
        Ok(result) => result.map_err(|error| ClusterError::of(verb, resource, &error)),
        Err(_elapsed) => Err(ClusterError::too_slow(verb, resource)),
    }
}
