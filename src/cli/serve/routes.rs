//! The routes of the mesh in memory: admission warns of policies that can never meet the route they are for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::warn;

use crate::cluster::discovery::Discovery;
use crate::cluster::kinds::ApiKind;
use crate::cluster::watch::{Event, follow};
use crate::cluster::{Api, Selection};
use crate::core::mesh::reach::Routes;
use crate::core::resource::{Gvk, ObjectKey};
use crate::index::RouteIndex;

/// How often to look whether the cluster has the kinds by now.
const LOOK: Duration = Duration::from_secs(1);

/// Follows the routes of a cluster.
pub(super) struct KnownRoutes {
    api: Api,
    discovery: Arc<Discovery>,
    index: Mutex<RouteIndex>,
    published: ArcSwap<Routes>,
}

impl KnownRoutes {
    pub(super) fn new(api: Api, discovery: Arc<Discovery>) -> Self {
        Self { api, discovery, index: Mutex::default(), published: ArcSwap::default() }
    }

    pub(super) fn current(&self) -> Arc<Routes> {
        self.published.load_full()
    }

    /// Works until it is dropped.
    pub(super) async fn run(&self) {
        tokio::join!(self.watch("MeshHTTPRoute"), self.watch("MeshTCPRoute"));
    }

    async fn watch(&self, kind: &str) {
        let kind = self.kind(&Gvk::new("kuma.io/v1alpha1", kind)).await;
        let (sender, mut events) = mpsc::channel(256);
        let following = follow(self.api.clone(), kind.clone(), Selection::default(), sender);
        let taking = async {
            let mut listed = BTreeSet::new();
            while let Some(event) = events.recv().await {
                self.take(&event, &kind, &mut listed);
            }
        };
        tokio::join!(following, taking);
    }

    /// A cluster may get its definitions later, or never.
    async fn kind(&self, gvk: &Gvk) -> Arc<ApiKind> {
        loop {
            if let Some(kind) = self.discovery.kinds().find(gvk) {
                return kind.clone();
            }
            sleep(LOOK).await;
        }
    }

    fn take(&self, event: &Event, kind: &ApiKind, listed: &mut BTreeSet<ObjectKey>) {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Listing => return listed.clear(),
            Event::Listed(object) => {
                listed.insert(index.apply(object));
                return;
            }
            Event::Synced { .. } => index.retain(&kind.gvk, listed),
            Event::Changed(object) => drop(index.apply(object)),
            Event::Deleted(object) => index.delete(object),
            Event::Trouble(error) => return warn!(%error, "What is known of routes may be out of date"),
        }
        self.published.store(index.snapshot());
    }
}
