//! Sees when generated objects are stored: watches of their metadata, shared by all measurements.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::task::JoinHandle;

/// The label by which rules and the bare client say which round wrote an object.
pub(super) const ROUND: &str = "round";

/// Kind, namespace, name.
type Key = (u8, String, String);

pub(super) struct Observer {
    /// When an object was first seen with a round, and with which.
    seen: Arc<Mutex<HashMap<Key, (u32, Instant)>>>,
    watches: [JoinHandle<()>; 2],
}

impl Observer {
    pub(super) fn start(client: kube::Client) -> Self {
        let seen = Arc::default();
        let watches = [
            tokio::spawn(watch::<ConfigMap>(client.clone(), 0, Arc::clone(&seen))),
            tokio::spawn(watch::<NetworkPolicy>(client, 1, Arc::clone(&seen))),
        ];
        Self { seen, watches }
    }

    /// Waits until each namespace has both objects of this name, as the round wrote them; gives when the later one came.
    pub(super) async fn wait(
        &self,
        namespaces: &[String],
        name: &str,
        round: u32,
        patience: Duration,
    ) -> anyhow::Result<Vec<Instant>> {
        let start = Instant::now();
        loop {
            let found = self.moments(namespaces, name, round);
            let missing = found.iter().filter(|moment| moment.is_none()).count();
            if missing == 0 {
                return Ok(found.into_iter().flatten().collect());
            }
            if start.elapsed() > patience {
                bail!("{missing} of {} namespaces still lack objects of round {round}", namespaces.len());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn moments(&self, namespaces: &[String], name: &str, round: u32) -> Vec<Option<Instant>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let moment = |kind: u8, namespace: &String| {
            let (found, at) = seen.get(&(kind, namespace.clone(), name.to_owned()))?;
            (*found == round).then_some(*at)
        };
        namespaces.iter().map(|namespace| Some(moment(0, namespace)?.max(moment(1, namespace)?))).collect()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

async fn watch<K>(client: Client, kind: u8, seen: Arc<Mutex<HashMap<Key, (u32, Instant)>>>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + for<'de> serde::Deserialize<'de> + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(client);
    let changes = watcher(api, watcher::Config::default().labels(ROUND)).default_backoff().applied_objects();
    let mut changes = std::pin::pin!(changes);
    while let Some(change) = changes.next().await {
        let Ok(object) = change else { continue };
        let Some(round) = object.labels().get(ROUND).and_then(|round| round.parse().ok()) else {
            continue;
        };
        let key = (kind, object.namespace().unwrap_or_default(), object.name_any());
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.get(&key).is_some_and(|(known, _)| *known == round);
        if !known {
            seen.insert(key, (round, Instant::now()));
        }
    }
}
