//! What one mesh holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::MeshKey;
use super::rules::RuleCache;
use crate::core::mesh::destinations::Destinations;
use crate::core::mesh::kind::{DATAPLANE, MESH, MESH_GATEWAY, PolicyKind, ResourceType};
use crate::core::mesh::mesh_policy::MeshPolicy;
use crate::core::mesh::meta::{ResourceKey, ResourceMeta};
use crate::core::mesh::resources::{Dataplane, Destination, MeshGateway, MeshResource};
use crate::core::mesh::select::{Proxy, RouteLookup};

const HTTP_ROUTE: &str = "MeshHTTPRoute";

/// The resources of one mesh, each kind in the order of names. Parts are shared until they change.
#[derive(Clone, Debug, Default)]
pub struct MeshContents {
    mesh: Option<Arc<MeshResource>>,
    dataplanes: Arc<BTreeMap<String, Arc<Dataplane>>>,
    gateways: Arc<BTreeMap<String, Arc<MeshGateway>>>,
    destinations: Arc<Destinations>,
    policies: BTreeMap<u16, KindPolicies>,
    documents: Arc<BTreeMap<(&'static ResourceType, String), StoredResource>>,
}

/// A resource as it was given, in compact form.
#[derive(Clone, Debug)]
pub struct StoredResource {
    /// The core name.
    pub name: Arc<str>,
    pub text: Arc<str>,
}

/// The policies of one kind.
#[derive(Clone, Debug)]
struct KindPolicies {
    kind: &'static PolicyKind,
    by_name: Arc<BTreeMap<String, Arc<MeshPolicy>>>,
    /// Rules that have been built from them, and from nothing that has changed since.
    rules: Arc<RuleCache>,
}

impl MeshContents {
    pub fn resource(&self) -> Option<&MeshResource> {
        self.mesh.as_deref()
    }

    pub fn dataplane(&self, name: &str) -> Option<&Arc<Dataplane>> {
        self.dataplanes.get(name)
    }

    pub fn dataplanes(&self) -> impl Iterator<Item = &Arc<Dataplane>> {
        self.dataplanes.values()
    }

    pub fn gateway(&self, name: &str) -> Option<&Arc<MeshGateway>> {
        self.gateways.get(name)
    }

    pub fn destinations(&self) -> &Destinations {
        &self.destinations
    }

    pub fn policies(&self, kind: &PolicyKind) -> impl Iterator<Item = &Arc<MeshPolicy>> {
        self.policies.get(&kind.order).into_iter().flat_map(|policies| policies.by_name.values())
    }

    pub fn policy(&self, kind: &PolicyKind, name: &str) -> Option<&Arc<MeshPolicy>> {
        self.policies.get(&kind.order)?.by_name.get(name)
    }

    /// The route that is a destination.
    pub fn route(&self, meta: &ResourceMeta) -> Option<&MeshPolicy> {
        let of_kind = self.policies.values().find(|policies| policies.kind.resource == *meta.kind)?;
        of_kind.by_name.get(&meta.name).map(Arc::as_ref)
    }

    /// A proxy with its gateway.
    pub fn proxy<'m>(&'m self, dataplane: &'m Dataplane) -> Proxy<'m> {
        Proxy::new(dataplane, self.gateways.values().map(Arc::as_ref))
    }

    /// The resource with a key, whatever its section. Of several it is the oldest, then the one with the smallest name.
    pub fn document(&self, key: &ResourceKey) -> Option<&StoredResource> {
        let wanted = key.clone().without_section();
        let metas = self.dataplanes.values().map(|dataplane| &dataplane.meta);
        let metas = metas.chain(self.gateways.values().map(|gateway| &gateway.meta));
        let metas = metas.chain(self.mesh.iter().map(|mesh| &mesh.meta));
        let policies = self.policies.values().flat_map(|policies| policies.by_name.values());
        let metas = metas.chain(policies.map(|policy| &policy.meta));
        let metas = metas.filter(|meta| *meta.kind == *wanted.kind && meta.key() == wanted);
        let oldest = metas.min_by_key(|meta| (meta.created.unwrap_or(i64::MAX), meta.name.as_str()));
        let meta = oldest.or_else(|| self.destinations.by_key(&wanted).map(|destination| &destination.meta))?;
        self.documents.get(&(meta.kind, meta.name.clone()))
    }

    pub(super) fn cache(&self, kind: &PolicyKind) -> Option<&Arc<RuleCache>> {
        self.policies.get(&kind.order).map(|policies| &policies.rules)
    }

    pub(super) fn has(&self, key: &MeshKey) -> bool {
        self.documents.contains_key(&(key.kind, key.name.clone()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    pub(super) fn names_of(&self, kind: &ResourceType) -> impl Iterator<Item = (&'static ResourceType, &str)> {
        self.documents.keys().filter(move |(held, _)| *held == kind).map(|(kind, name)| (*kind, name.as_str()))
    }

    pub(super) fn remember(&mut self, key: &MeshKey, document: &Value) {
        let stored = StoredResource { name: key.name.as_str().into(), text: document.to_string().into() };
        Arc::make_mut(&mut self.documents).insert((key.kind, key.name.clone()), stored);
    }

    pub(super) fn set_mesh(&mut self, mesh: Option<MeshResource>) {
        self.mesh = mesh.map(Arc::new);
        self.forget_rules();
    }

    pub(super) fn insert_dataplane(&mut self, dataplane: Dataplane) {
        Arc::make_mut(&mut self.dataplanes).insert(dataplane.meta.name.clone(), Arc::new(dataplane));
    }

    pub(super) fn insert_gateway(&mut self, gateway: MeshGateway) {
        Arc::make_mut(&mut self.gateways).insert(gateway.meta.name.clone(), Arc::new(gateway));
    }

    pub(super) fn insert_destination(&mut self, destination: Destination) {
        Arc::make_mut(&mut self.destinations).insert(Arc::new(destination));
        self.forget_rules();
    }

    pub(super) fn insert_policy(&mut self, policy: MeshPolicy) {
        let kind = policy.kind;
        let policies = self.policies.entry(kind.order).or_insert_with(|| KindPolicies {
            kind,
            by_name: Arc::default(),
            rules: Arc::default(),
        });
        Arc::make_mut(&mut policies.by_name).insert(policy.meta.name.clone(), Arc::new(policy));
        policies.rules = Arc::default();
    }

    pub(super) fn remove(&mut self, key: &MeshKey) {
        Arc::make_mut(&mut self.documents).remove(&(key.kind, key.name.clone()));
        if *key.kind == MESH {
            self.set_mesh(None);
        } else if *key.kind == DATAPLANE {
            Arc::make_mut(&mut self.dataplanes).remove(&key.name);
        } else if *key.kind == MESH_GATEWAY {
            Arc::make_mut(&mut self.gateways).remove(&key.name);
        } else {
            if Arc::make_mut(&mut self.destinations).remove(key.kind, &key.name) {
                self.forget_rules();
            }
            for policies in self.policies.values_mut() {
                let is_held = policies.by_name.get(&key.name).is_some_and(|policy| *policy.meta.kind == *key.kind);
                if is_held {
                    Arc::make_mut(&mut policies.by_name).remove(&key.name);
                    policies.rules = Arc::default();
                }
            }
        }
    }

    /// Rules of all kinds are built anew: what they refer to has changed.
    fn forget_rules(&mut self) {
        self.policies.values_mut().for_each(|policies| policies.rules = Arc::default());
    }
}

impl RouteLookup for MeshContents {
    fn http_route(&self, name: &str) -> Option<&MeshPolicy> {
        let routes = self.policies.values().find(|policies| policies.kind.resource.kind == HTTP_ROUTE)?;
        routes.by_name.values().find(|route| route.meta.display_name() == name).map(Arc::as_ref)
    }
}
