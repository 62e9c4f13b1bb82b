//! Role bindings in memory, for rules that ask which roles a requester has. Nothing is watched until somebody asks.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::warn;

use super::kinds::ApiKind;
use super::watch::{Event, follow};
use super::{Api, Selection};
use crate::core::matching::Requester;
use crate::core::resource::ObjectKey;

/// What is bound to whom.
pub struct Bindings {
    api: Api,
    wanted: watch::Sender<bool>,
    synced: watch::Sender<[bool; 2]>,
    known: Arc<RwLock<BTreeMap<ObjectKey, Value>>>,
}

impl Bindings {
    pub fn new(api: Api) -> Self {
        Self { api, wanted: watch::Sender::new(false), synced: watch::Sender::new([false; 2]), known: Arc::default() }
    }

    /// Begins to watch, if that has not begun.
    pub fn want(&self) {
        self.wanted.send_if_modified(|wanted| !std::mem::replace(wanted, true));
    }

    /// Waits until everything is there, as long as that takes no longer than this.
    pub async fn ready(&self, longest: Duration) {
        let mut synced = self.synced.subscribe();
        // Too late or never: whoever asks gets what is known.
        let _ = timeout(longest, synced.wait_for(|synced| *synced == [true; 2])).await;
    }

    /// Adds the roles of a requester.
    pub fn collect(&self, requester: &mut Requester, namespace: &str) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let (bound, bound_everywhere): (Vec<_>, Vec<_>) = known.iter().partition(|(key, _)| key.namespace.is_some());
        let values = |list: Vec<(_, _)>| list.into_iter().map(|(_, value)| value).collect::<Vec<&Value>>();
        requester.bind_roles(namespace, values(bound), values(bound_everywhere));
    }

    /// Works until it is dropped.
    pub async fn run(&self) {
        // The sender is part of this object.
        let _ = self.wanted.subscribe().wait_for(|wanted| *wanted).await;
        tokio::join!(self.watch("RoleBinding", 0), self.watch("ClusterRoleBinding", 1));
    }

    async fn watch(&self, kind: &str, index: usize) {
        let kind = Arc::new(ApiKind::builtin("rbac.authorization.k8s.io/v1", kind));
        let (sender, mut events) = mpsc::channel(256);
        let following = follow(self.api.clone(), kind.clone(), Selection::default(), sender);
        let taking = async {
            let mut listed = Vec::new();
            while let Some(event) = events.recv().await {
                self.take(event, &kind, &mut listed, index);
            }
        };
        tokio::join!(following, taking);
    }

    fn take(&self, event: Event, kind: &ApiKind, listed: &mut Vec<ObjectKey>, index: usize) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Listing => listed.clear(),
            Event::Listed(object) => {
                let key = ObjectKey::of(&object);
                listed.push(key.clone());
                known.insert(key, slim(object));
            }
            Event::Synced { .. } => {
                known.retain(|key, _| key.gvk.kind != kind.gvk.kind || listed.contains(key));
                self.synced.send_modify(|synced| synced[index] = true);
            }
            Event::Changed(object) => {
                known.insert(ObjectKey::of(&object), slim(object));
            }
            Event::Deleted(object) => {
                known.remove(&ObjectKey::of(&object));
            }
            Event::Trouble(error) => warn!(%error, "Roles of requesters may be out of date"),
        }
    }
}

/// What is looked at, and no more.
fn slim(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| name == "namespace");
    }
    object
}
