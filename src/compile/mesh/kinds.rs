//! The policy kinds of the mesh, as the rule engine and the Inspect API know them.

use std::sync::LazyLock;

use crate::core::mesh::kind::{KindTable, MergeRule, PolicyKind, ResourceType};
use crate::core::mesh::target_ref::TargetKind::{
    self, Mesh, MeshExternalService, MeshHttpRoute, MeshMultiZoneService, MeshService, MeshTcpRoute,
};

/// All kinds.
pub fn kinds() -> &'static KindTable {
    static TABLE: LazyLock<KindTable> = LazyLock::new(|| KindTable::new(POLICIES));
    &TABLE
}

const SERVICES: &[TargetKind] = &[MeshService, MeshExternalService, MeshMultiZoneService];
const MESH_AND_SERVICES: &[TargetKind] = &[Mesh, MeshService, MeshExternalService, MeshMultiZoneService];
const ALL: &[TargetKind] = &[Mesh, MeshService, MeshExternalService, MeshMultiZoneService, MeshHttpRoute, MeshTcpRoute];
const WITHOUT_EXTERNAL: &[TargetKind] = &[Mesh, MeshService, MeshMultiZoneService, MeshHttpRoute, MeshTcpRoute];

const fn kind(order: u16, kind: &'static str, short: &'static str, path: &'static str) -> PolicyKind {
    PolicyKind {
        resource: ResourceType { kind, short, path },
        order,
        to: false,
        from: false,
        rules: false,
        single: false,
        from_as_rules: false,
        destinations: &[],
        merge: MergeRule::Fields,
    }
}

const fn to(destinations: &'static [TargetKind], kind: PolicyKind) -> PolicyKind {
    PolicyKind { to: true, destinations, ..kind }
}

const fn inbound(kind: PolicyKind) -> PolicyKind {
    PolicyKind { from: true, rules: true, from_as_rules: true, ..kind }
}

const fn single(kind: PolicyKind) -> PolicyKind {
    PolicyKind { single: true, ..kind }
}

static POLICIES: &[PolicyKind] = &[
    PolicyKind { merge: MergeRule::HttpRoutes, ..to(SERVICES, kind(100, "MeshHTTPRoute", "mhttpr", "meshhttproutes")) },
    PolicyKind { merge: MergeRule::TcpRoutes, ..to(SERVICES, kind(200, "MeshTCPRoute", "mtcpr", "meshtcproutes")) },
    inbound(kind(300, "MeshTLS", "mtls", "meshtlses")),
    to(WITHOUT_EXTERNAL, kind(400, "MeshLoadBalancingStrategy", "mlbs", "meshloadbalancingstrategies")),
    single(kind(500, "MeshPassthrough", "mp", "meshpassthroughs")),
    to(ALL, inbound(kind(600, "MeshAccessLog", "mal", "meshaccesslogs"))),
    single(kind(700, "MeshTrace", "mtr", "meshtraces")),
    PolicyKind {
        from_as_rules: false,
        ..to(&[Mesh], inbound(kind(800, "MeshFaultInjection", "mfi", "meshfaultinjections")))
    },
    to(&[Mesh], inbound(kind(900, "MeshRateLimit", "mrl", "meshratelimits"))),
    to(ALL, inbound(kind(1000, "MeshTimeout", "mt", "meshtimeouts"))),
    PolicyKind {
        from_as_rules: false,
        ..inbound(kind(1100, "MeshTrafficPermission", "mtp", "meshtrafficpermissions"))
    },
    to(MESH_AND_SERVICES, kind(1200, "MeshHealthCheck", "mhc", "meshhealthchecks")),
    to(MESH_AND_SERVICES, inbound(kind(1300, "MeshCircuitBreaker", "mcb", "meshcircuitbreakers"))),
    to(ALL, kind(1400, "MeshRetry", "mr", "meshretries")),
    single(kind(1500, "MeshMetric", "mm", "meshmetrics")),
    single(kind(9999, "MeshProxyPatch", "mpp", "meshproxypatches")),
];
