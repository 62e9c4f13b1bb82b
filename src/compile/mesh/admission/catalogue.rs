//! The kinds of group `kuma.io`: where each may be written, and by which control plane.

use crate::compile::mesh::record;
use crate::core::json::{Json, Tree};
use crate::core::mesh::kind::PolicyKind;

/// What is known of the kind of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Catalogued {
    pub(super) name: &'static str,
    pub(super) scope: Scope,
    pub(super) writers: Writers,
    /// Whether it came with labels for mesh, origin and role, instead of a field for the mesh.
    pub(super) is_new: bool,
    pub(super) only_in_system_namespace: bool,
    pub(super) policy: Option<&'static PolicyKind>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scope {
    Mesh,
    Global,
}

/// Which control planes may write it, when there is a global one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Writers {
    Global,
    Zone,
    Both,
}

const fn new(name: &'static str, writers: Writers) -> Catalogued {
    Catalogued { name, scope: Scope::Mesh, writers, is_new: true, only_in_system_namespace: false, policy: None }
}

const fn system(name: &'static str) -> Catalogued {
    Catalogued { only_in_system_namespace: true, ..new(name, Writers::Both) }
}

const fn older(name: &'static str, scope: Scope, writers: Writers) -> Catalogued {
    Catalogued { scope, is_new: false, ..new(name, writers) }
}

/// All kinds but the targetRef policies.
const KINDS: &[Catalogued] = &[
    new("MeshService", Writers::Zone),
    new("MeshMultiZoneService", Writers::Global),
    new("MeshZoneAddress", Writers::Zone),
    system("MeshExternalService"),
    system("MeshIdentity"),
    system("MeshTrust"),
    system("MeshOpenTelemetryBackend"),
    Catalogued { scope: Scope::Global, ..system("HostnameGenerator") },
    older("Mesh", Scope::Global, Writers::Global),
    older("Zone", Scope::Global, Writers::Both),
    older("Dataplane", Scope::Mesh, Writers::Zone),
    older("DataplaneInsight", Scope::Mesh, Writers::Zone),
    older("ZoneIngress", Scope::Global, Writers::Zone),
    older("ZoneIngressInsight", Scope::Global, Writers::Zone),
    older("ZoneEgress", Scope::Global, Writers::Zone),
    older("ZoneEgressInsight", Scope::Global, Writers::Zone),
    older("CircuitBreaker", Scope::Mesh, Writers::Global),
    older("ExternalService", Scope::Mesh, Writers::Global),
    older("FaultInjection", Scope::Mesh, Writers::Global),
    older("HealthCheck", Scope::Mesh, Writers::Global),
    older("MeshGateway", Scope::Mesh, Writers::Global),
    older("MeshGatewayRoute", Scope::Mesh, Writers::Global),
    older("ProxyTemplate", Scope::Mesh, Writers::Global),
    older("RateLimit", Scope::Mesh, Writers::Global),
    older("Retry", Scope::Mesh, Writers::Global),
    older("Timeout", Scope::Mesh, Writers::Global),
    older("TrafficLog", Scope::Mesh, Writers::Global),
    older("TrafficPermission", Scope::Mesh, Writers::Global),
    older("TrafficRoute", Scope::Mesh, Writers::Global),
    older("TrafficTrace", Scope::Mesh, Writers::Global),
    older("VirtualOutbound", Scope::Mesh, Writers::Global),
];

impl Catalogued {
    /// What is known of the object's kind; `None` for a kind of somebody else.
    pub(super) fn of(object: Json<'_>) -> Option<Self> {
        let group = object.get("apiVersion")?.as_text()?.split('/').next()?;
        Self::find(group, object.get("kind")?.as_text()?)
    }

    pub(super) fn find(group: &str, kind: &str) -> Option<Self> {
        if group != "kuma.io" {
            return None;
        }
        if let Some(policy) = record::kinds().policy(kind) {
            return Some(Self { policy: Some(policy), ..new(policy.resource.kind, Writers::Both) });
        }
        KINDS.iter().find(|known| known.name == kind).copied()
    }
}
