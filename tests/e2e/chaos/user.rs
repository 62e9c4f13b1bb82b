//! The user's hand on the cluster, and eyes. Tries again while the API server is away.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::support::Cluster;

pub(super) const NAMESPACE: &str = "chaos";
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct User {
    runtime: Runtime,
    client: Client,
}

/// How a call went.
#[derive(Debug)]
pub(super) struct Done<T> {
    /// What it gave; nothing if the object is not there.
    pub(super) found: Option<T>,
    /// It took one attempt.
    pub(super) at_once: bool,
}

impl User {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let runtime = Runtime::new().expect("a runtime");
        let folder = cluster.folder().expect("a local control plane");
        let client = runtime.block_on(connect(&folder.join("kubeconfig")));
        Self { runtime, client }
    }

    pub(super) fn create<K>(&self, object: &K) -> Done<K>
    where
        K: Kind,
    {
        let api: Api<K> = self.api();
        let name = object.meta().name.clone().expect("a name");
        self.insist(async || match api.create(&PostParams::default(), object).await {
            // The answer of an earlier attempt was lost.
            Err(kube::Error::Api(refusal)) if refusal.code == 409 => api.get(&name).await,
            answer => answer,
        })
    }

    pub(super) fn patch<K: Kind>(&self, name: &str, patch: &Value) -> Done<K> {
        let api: Api<K> = self.api();
        self.insist(async || api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await)
    }

    pub(super) fn delete<K: Kind>(&self, name: &str) -> Done<()> {
        let api: Api<K> = self.api();
        self.insist(async || api.delete(name, &DeleteParams::default()).await.map(drop))
    }

    pub(super) fn list<K: Kind>(&self) -> BTreeMap<String, K> {
        let api: Api<K> = self.api();
        let list = self.insist(async || api.list(&ListParams::default()).await).found;
        let objects = list.map(|list| list.items).unwrap_or_default();
        objects
            .into_iter()
            .map(|object| (object.meta().name.clone().unwrap_or_default(), object))
            .filter(|(name, _)| name != "kube-root-ca.crt")
            .collect()
    }

    /// Requests that are stored for later, in any namespace.
    pub(super) fn stored_requests(&self) -> Vec<String> {
        let kind = GroupVersionKind::gvk("kyverno.io", "v2", "UpdateRequest");
        let resource = ApiResource::from_gvk_with_plural(&kind, "updaterequests");
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let list = self.insist(async || api.list(&ListParams::default()).await).found;
        let requests = list.map(|list| list.items).unwrap_or_default();
        requests.iter().map(|request| request.data.to_string()).collect()
    }

    /// All objects of the namespace with their versions.
    pub(super) fn versions(&self) -> BTreeMap<String, Option<String>> {
        fn of<K: Kind>(kind: &str, objects: BTreeMap<String, K>) -> impl Iterator<Item = (String, Option<String>)> {
            let version = |object: &K| object.meta().resource_version.clone();
            objects.into_iter().map(move |(name, object)| (format!("{kind} {name}"), version(&object)))
        }
        of("ConfigMap", self.list::<ConfigMap>()).chain(of("Secret", self.list::<Secret>())).collect()
    }

    fn api<K: Kind>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn insist<T: Debug>(&self, attempt: impl AsyncFn() -> kube::Result<T>) -> Done<T> {
        let start = Instant::now();
        let mut at_once = true;
        loop {
            let error = match self.runtime.block_on(attempt()) {
                Ok(found) => {
                    return Done { found: Some(found), at_once };
                }
                Err(kube::Error::Api(refusal)) if refusal.code == 404 => return Done { found: None, at_once },
                Err(error) => error,
            };
            assert!(start.elapsed() < PATIENCE, "the API server does not take it: {error}");
            at_once = false;
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What the user handles.
pub(super) trait Kind:
    Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + Serialize + DeserializeOwned + Clone + Debug
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Serialize
        + for<'de> Deserialize<'de>
        + Clone
        + Debug
{
}

async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a configuration");
    config.read_timeout = Some(Duration::from_secs(30));
    Client::try_from(config).expect("a client")
}
