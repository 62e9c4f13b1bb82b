//! What a policy refers to: proxies at its top level, destinations in `to`, sources in `from`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Tags or labels.
pub type Pairs = BTreeMap<String, String>;

/// The kinds a `targetRef` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetKind {
    Mesh,
    Dataplane,
    MeshSubset,
    MeshGateway,
    MeshService,
    MeshExternalService,
    MeshMultiZoneService,
    MeshServiceSubset,
    MeshHttpRoute,
    MeshTcpRoute,
}

/// A reference whose fields fit its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetRef {
    Mesh { proxies: ProxyTypes },
    Dataplane { proxies: DataplaneRef, section: Option<String> },
    MeshSubset { tags: Pairs, labels: Pairs, proxies: ProxyTypes },
    MeshGateway { name: String, tags: Pairs },
    MeshService { service: ResourceRef, section: Option<String> },
    MeshExternalService(ResourceRef),
    MeshMultiZoneService { service: ResourceRef, section: Option<String> },
    MeshServiceSubset { name: String, tags: Pairs },
    MeshHttpRoute(ResourceRef),
    MeshTcpRoute(ResourceRef),
}

/// Which resources of a kind are meant: one by name, or all that carry some labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceRef {
    /// Without a namespace the policy's own is meant.
    Named {
        name: String,
        namespace: Option<String>,
    },
    Labelled(Pairs),
}

/// Which proxies are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataplaneRef {
    Every,
    Some(ResourceRef),
    /// A namespace without a name selects no proxy.
    Nobody,
}

/// Which sorts of proxy a reference to the mesh covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyTypes {
    #[default]
    All,
    Sidecars,
    Gateways,
}

impl TargetKind {
    pub const ALL: [Self; 10] = [
        Self::Mesh,
        Self::Dataplane,
        Self::MeshSubset,
        Self::MeshGateway,
        Self::MeshService,
        Self::MeshExternalService,
        Self::MeshMultiZoneService,
        Self::MeshServiceSubset,
        Self::MeshHttpRoute,
        Self::MeshTcpRoute,
    ];

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mesh => "Mesh",
            Self::Dataplane => "Dataplane",
            Self::MeshSubset => "MeshSubset",
            Self::MeshGateway => "MeshGateway",
            Self::MeshService => "MeshService",
            Self::MeshExternalService => "MeshExternalService",
            Self::MeshMultiZoneService => "MeshMultiZoneService",
            Self::MeshServiceSubset => "MeshServiceSubset",
            Self::MeshHttpRoute => "MeshHTTPRoute",
            Self::MeshTcpRoute => "MeshTCPRoute",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// How specific a reference of this kind is; of two that apply the higher rank wins.
    pub fn rank(self) -> u8 {
        match self {
            Self::Mesh => 1,
            Self::Dataplane => 2,
            Self::MeshSubset => 3,
            Self::MeshGateway => 4,
            Self::MeshService => 5,
            Self::MeshExternalService => 6,
            Self::MeshMultiZoneService => 7,
            Self::MeshServiceSubset => 8,
            Self::MeshHttpRoute | Self::MeshTcpRoute => 9,
        }
    }

    pub fn is_route(self) -> bool {
        matches!(self, Self::MeshHttpRoute | Self::MeshTcpRoute)
    }
}

impl TargetRef {
    /// What an absent `targetRef` at the top level means.
    pub const WHOLE_MESH: Self = Self::Mesh { proxies: ProxyTypes::All };

    pub fn kind(&self) -> TargetKind {
        match self {
            Self::Mesh { .. } => TargetKind::Mesh,
            Self::Dataplane { .. } => TargetKind::Dataplane,
            Self::MeshSubset { .. } => TargetKind::MeshSubset,
            Self::MeshGateway { .. } => TargetKind::MeshGateway,
            Self::MeshService { .. } => TargetKind::MeshService,
            Self::MeshExternalService(_) => TargetKind::MeshExternalService,
            Self::MeshMultiZoneService { .. } => TargetKind::MeshMultiZoneService,
            Self::MeshServiceSubset { .. } => TargetKind::MeshServiceSubset,
            Self::MeshHttpRoute(_) => TargetKind::MeshHttpRoute,
            Self::MeshTcpRoute(_) => TargetKind::MeshTcpRoute,
        }
    }
}

impl TargetRef {
    /// The reference as users write it.
    pub fn to_json(&self) -> Value {
        let mut fields = json!({"kind": self.kind().name()});
        let mut put = |name: &str, value: Value| fields[name] = value;
        match self {
            Self::Mesh { proxies } => put_proxy_types(*proxies, &mut put),
            Self::MeshSubset { tags, labels, proxies } => {
                put_pairs("tags", tags, &mut put);
                put_pairs("labels", labels, &mut put);
                put_proxy_types(*proxies, &mut put);
            }
            Self::MeshGateway { name, tags } | Self::MeshServiceSubset { name, tags } => {
                put("name", name.as_str().into());
                put_pairs("tags", tags, &mut put);
            }
            Self::Dataplane { proxies, section } => {
                if let DataplaneRef::Some(resource) = proxies {
                    put_resource(resource, &mut put);
                }
                put_section(section.as_deref(), &mut put);
            }
            Self::MeshService { service, section } | Self::MeshMultiZoneService { service, section } => {
                put_resource(service, &mut put);
                put_section(section.as_deref(), &mut put);
            }
            Self::MeshExternalService(resource) | Self::MeshHttpRoute(resource) | Self::MeshTcpRoute(resource) => {
                put_resource(resource, &mut put);
            }
        }
        fields
    }
}

fn put_proxy_types(proxies: ProxyTypes, put: &mut impl FnMut(&str, Value)) {
    match proxies {
        ProxyTypes::All => {}
        ProxyTypes::Sidecars => put("proxyTypes", json!(["Sidecar"])),
        ProxyTypes::Gateways => put("proxyTypes", json!(["Gateway"])),
    }
}

fn put_pairs(name: &str, pairs: &Pairs, put: &mut impl FnMut(&str, Value)) {
    if !pairs.is_empty() {
        put(name, json!(pairs));
    }
}

fn put_resource(resource: &ResourceRef, put: &mut impl FnMut(&str, Value)) {
    match resource {
        ResourceRef::Labelled(labels) => put("labels", json!(labels)),
        ResourceRef::Named { name, namespace } => {
            put("name", name.as_str().into());
            if let Some(namespace) = namespace {
                put("namespace", namespace.as_str().into());
            }
        }
    }
}

fn put_section(section: Option<&str>, put: &mut impl FnMut(&str, Value)) {
    if let Some(section) = section {
        put("sectionName", section.into());
    }
}

impl ProxyTypes {
    pub fn include_gateways(self) -> bool {
        self != Self::Sidecars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_specific_kind_has_the_higher_rank() {
        let written: Vec<_> = TargetKind::ALL.iter().map(|kind| kind.rank()).collect();
        assert_eq!(written, [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]);
        for kind in TargetKind::ALL {
            assert_eq!(TargetKind::parse(kind.name()), Some(kind));
        }
        assert_eq!(TargetKind::parse("MeshGatewayRoute"), None);
    }
}
