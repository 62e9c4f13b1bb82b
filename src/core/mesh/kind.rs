//! The kinds of the mesh: what resources of a kind are called, and what policies of a kind can say.
//!
//! A record is plain data. The list of policy kinds is made where policies are compiled; the engine gets it as a
//! [`KindTable`].

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::target_ref::TargetKind;

/// A kind of resource. Two values with one name are the same kind.
#[derive(Clone, Copy, Debug)]
pub struct ResourceType {
    /// As users write it in `kind` or `type`.
    pub kind: &'static str,
    /// As it stands in a KRI.
    pub short: &'static str,
    /// The plural in lower case, as it stands in URLs.
    pub path: &'static str,
}

/// A kind of targetRef policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyKind {
    pub resource: ResourceType,
    /// The position of the kind among the policies of a proxy; no two kinds share one.
    pub order: u16,
    /// Whether a policy has `to`, and so on.
    pub to: bool,
    pub from: bool,
    pub rules: bool,
    /// One conf for the whole proxy, in `default`.
    pub single: bool,
    /// An entry of `from` counts as a rule without matches: it can only mean the whole mesh.
    pub from_as_rules: bool,
    /// The kinds that `to[].targetRef` may name.
    pub destinations: &'static [TargetKind],
    pub merge: MergeRule,
}

/// How the confs of several entries become one. Lists whose name starts with `append` are joined by every rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRule {
    /// Field by field, as RFC 7396 merges documents: a list replaces a list.
    Fields,
    /// The conf of an entry is `{rules, hostnames}`; rules with equal matches become one.
    HttpRoutes,
    /// The conf of an entry is `{rules}`, of which the first counts.
    TcpRoutes,
}

pub const MESH: ResourceType = resource("Mesh", "m", "meshes");
pub const DATAPLANE: ResourceType = resource("Dataplane", "dp", "dataplanes");
pub const MESH_GATEWAY: ResourceType = resource("MeshGateway", "mgw", "meshgateways");
pub const MESH_SERVICE: ResourceType = resource("MeshService", "msvc", "meshservices");
pub const MESH_EXTERNAL_SERVICE: ResourceType = resource("MeshExternalService", "extsvc", "meshexternalservices");
pub const MESH_MULTI_ZONE_SERVICE: ResourceType = resource("MeshMultiZoneService", "mzsvc", "meshmultizoneservices");

/// The kinds that are not policies and have a KRI.
pub const RESOURCE_TYPES: &[ResourceType] = &[
    MESH,
    DATAPLANE,
    MESH_GATEWAY,
    MESH_SERVICE,
    MESH_EXTERNAL_SERVICE,
    MESH_MULTI_ZONE_SERVICE,
    resource("ZoneIngress", "zi", "zoneingresses"),
    resource("ZoneEgress", "ze", "zoneegresses"),
    resource("Zone", "z", "zones"),
    resource("Workload", "wl", "workloads"),
    resource("MeshIdentity", "mid", "meshidentities"),
    resource("MeshTrust", "mtrust", "meshtrusts"),
];

/// All kinds: the given policy kinds in their order, and [`RESOURCE_TYPES`].
#[derive(Clone, Debug)]
pub struct KindTable {
    policies: Vec<&'static PolicyKind>,
}

const fn resource(kind: &'static str, short: &'static str, path: &'static str) -> ResourceType {
    ResourceType { kind, short, path }
}

impl KindTable {
    pub fn new(policies: impl IntoIterator<Item = &'static PolicyKind>) -> Self {
        let mut policies: Vec<_> = policies.into_iter().collect();
        policies.sort_by_key(|kind| kind.order);
        Self { policies }
    }

    /// The policy kinds, in the order in which they are applied to a proxy and shown.
    pub fn policies(&self) -> impl Iterator<Item = &'static PolicyKind> {
        self.policies.iter().copied()
    }

    pub fn policy(&self, kind: &str) -> Option<&'static PolicyKind> {
        self.policies().find(|policy| policy.resource.kind == kind)
    }

    pub fn policy_by_path(&self, path: &str) -> Option<&'static PolicyKind> {
        self.policies().find(|policy| policy.resource.path == path)
    }

    /// The kind with this name, of policies and of others.
    pub fn resource(&self, kind: &str) -> Option<&'static ResourceType> {
        self.resources().find(|resource| resource.kind == kind)
    }

    /// The kind with this short name, of policies and of others.
    pub fn resource_by_short(&self, short: &str) -> Option<&'static ResourceType> {
        self.resources().find(|resource| resource.short == short)
    }

    pub fn resources(&self) -> impl Iterator<Item = &'static ResourceType> {
        RESOURCE_TYPES.iter().chain(self.policies().map(|policy| &policy.resource))
    }
}

impl PolicyKind {
    /// Whether other policies can refer to policies of this kind in `to`.
    pub fn is_route(&self) -> bool {
        matches!(self.merge, MergeRule::HttpRoutes | MergeRule::TcpRoutes)
    }
}

impl PartialEq for ResourceType {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Eq for ResourceType {}

impl PartialOrd for ResourceType {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ResourceType {
    fn cmp(&self, other: &Self) -> Ordering {
        self.kind.cmp(other.kind)
    }
}

impl Hash for ResourceType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}
