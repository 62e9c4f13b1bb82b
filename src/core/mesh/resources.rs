//! What policies select and refer to: meshes, proxies, gateways and destinations.

use std::fmt;
use std::sync::Arc;

use super::backend::BackendRef;
use super::meta::ResourceMeta;
use super::target_ref::Pairs;

/// A mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshResource {
    pub meta: Arc<ResourceMeta>,
    pub services: MeshServicesMode,
}

/// How far a mesh uses MeshServices instead of tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MeshServicesMode {
    #[default]
    Disabled,
    Everywhere,
    ReachableBackends,
    Exclusive,
}

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataplane {
    pub meta: Arc<ResourceMeta>,
    pub address: String,
    /// Inbounds of the workload, then listeners of a zone proxy.
    pub inbounds: Vec<Inbound>,
    /// Destinations that the proxy names itself.
    pub outbounds: Vec<BackendRef>,
    pub gateway: Option<GatewayProxy>,
    /// The destinations that the proxy may reach; `None` for all.
    pub reachable: Option<Vec<BackendRef>>,
}

/// Where a proxy takes traffic in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    pub listener: InboundListener,
    pub kind: InboundKind,
    /// Empty if it has none.
    pub name: String,
    pub protocol: String,
    pub tags: Pairs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboundKind {
    Workload,
    ZoneIngress,
    ZoneEgress,
}

/// The address and port of an inbound. Ordered by port first, as answers list them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboundListener {
    pub port: u32,
    pub address: String,
}

/// The part of a proxy that makes it a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayProxy {
    /// Configured by a MeshGateway; otherwise somebody else's gateway.
    pub builtin: bool,
    pub tags: Pairs,
}

/// A MeshGateway: the configuration of builtin gateway proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshGateway {
    pub meta: Arc<ResourceMeta>,
    pub selectors: Vec<Pairs>,
    pub tags: Pairs,
    pub listeners: Vec<GatewayListener>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayListener {
    pub port: u32,
    /// `*` if it takes every host.
    pub hostname: String,
    pub tags: Pairs,
}

/// A resource that `to` can refer to: a service of any kind, or a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub meta: Arc<ResourceMeta>,
    /// Empty for routes.
    pub ports: Vec<ServicePort>,
    /// The proxies behind a MeshService.
    pub selector: ProxySelector,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// What `sectionName` calls it: its name, or else its number.
    pub section: String,
    pub number: u32,
    pub protocol: String,
}

/// Which proxies serve a MeshService.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxySelector {
    #[default]
    None,
    Named(String),
    Tags(Pairs),
    Labels(Pairs),
}

impl MeshServicesMode {
    pub fn parse(name: &str) -> Self {
        match name {
            "Everywhere" => Self::Everywhere,
            "ReachableBackends" => Self::ReachableBackends,
            "Exclusive" => Self::Exclusive,
            _ => Self::Disabled,
        }
    }
}

impl Dataplane {
    pub fn is_builtin_gateway(&self) -> bool {
        self.gateway.as_ref().is_some_and(|gateway| gateway.builtin)
    }

    pub fn is_delegated_gateway(&self) -> bool {
        self.gateway.as_ref().is_some_and(|gateway| !gateway.builtin)
    }

    /// The inbound that a section name means, those of the workload first.
    pub fn inbound(&self, section: &str) -> Option<&Inbound> {
        self.inbounds.iter().find(|inbound| inbound.section() == section)
    }

    /// The tags of each inbound, and those of the gateway.
    pub fn tag_sets(&self) -> impl Iterator<Item = &Pairs> {
        let inbounds = self.inbounds.iter().filter(|inbound| inbound.kind == InboundKind::Workload);
        inbounds.map(|inbound| &inbound.tags).chain(self.gateway.iter().map(|gateway| &gateway.tags))
    }
}

impl Inbound {
    /// What `sectionName` calls it.
    pub fn section(&self) -> String {
        if self.name.is_empty() { self.listener.port.to_string() } else { self.name.clone() }
    }
}

impl ProxySelector {
    /// Whether a proxy is behind the service. The tags of any one inbound suffice.
    pub fn selects(&self, proxy: &Dataplane) -> bool {
        match self {
            Self::None => false,
            Self::Named(name) => proxy.meta.name == *name,
            Self::Tags(tags) => proxy.tag_sets().any(|set| tags_match(tags, set)),
            Self::Labels(labels) => labels.iter().all(|(key, value)| proxy.meta.labels.get(key) == Some(value)),
        }
    }
}

impl fmt::Display for InboundListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.address, self.port)
    }
}

/// Whether a set of tags carries every pair of a selector; `*` is any value.
pub fn tags_match(selector: &Pairs, tags: &Pairs) -> bool {
    selector.iter().all(|(key, wanted)| tags.get(key).is_some_and(|value| wanted == "*" || wanted == value))
}
