//! Which kinds each place of each policy takes.

use super::Place;
use crate::core::mesh::policy::{PolicyKind, Role};
use crate::core::mesh::target_ref::TargetKind::{
    self, Dataplane, Mesh, MeshExternalService, MeshGateway, MeshHttpRoute, MeshMultiZoneService, MeshService,
    MeshServiceSubset, MeshSubset, MeshTcpRoute,
};

/// What a backend of a route may be.
pub(in crate::compile) const BACKENDS: &[TargetKind] =
    &[MeshService, MeshServiceSubset, MeshExternalService, MeshMultiZoneService];

/// What a mirrored request may go to.
pub(in crate::compile) const MIRRORS: &[TargetKind] = &[MeshService, MeshServiceSubset];

/// The kinds that the places of one policy take.
pub(in crate::compile) struct Places {
    policy: PolicyKind,
    /// At the top level.
    top: &'static [TargetKind],
    /// At the top level of system policies, besides.
    top_of_system: &'static [TargetKind],
    /// Whether a MeshGateway at the top level may select listeners by tags.
    listener_tags: bool,
    to: &'static [TargetKind],
    /// What `to` takes instead when the top level has one of these kinds.
    to_below: Option<(&'static [TargetKind], &'static [TargetKind])>,
    from: &'static [TargetKind],
}

const NONE: &[TargetKind] = &[];
const MESH: &[TargetKind] = &[Mesh];
const PROXIES: &[TargetKind] = &[Mesh, MeshSubset, Dataplane];
const PROXIES_AND_SERVICES: &[TargetKind] = &[Mesh, MeshSubset, MeshService, MeshServiceSubset, Dataplane];
const PROXIES_SERVICES_GATEWAYS: &[TargetKind] =
    &[Mesh, MeshSubset, MeshGateway, MeshService, MeshServiceSubset, Dataplane];
const SOURCES: &[TargetKind] = &[Mesh, MeshSubset, MeshService, MeshServiceSubset];
const SERVICES: &[TargetKind] = &[MeshService, MeshExternalService, MeshMultiZoneService];
const DESTINATIONS: &[TargetKind] = &[Mesh, MeshService, MeshExternalService, MeshMultiZoneService];
const DESTINATIONS_AND_ROUTES: &[TargetKind] =
    &[Mesh, MeshService, MeshExternalService, MeshMultiZoneService, MeshHttpRoute, MeshTcpRoute];
const GATEWAYS: &[TargetKind] = &[MeshGateway];
const GATEWAYS_AND_ROUTES: &[TargetKind] = &[MeshGateway, MeshHttpRoute];

/// A policy that selects proxies and says nothing of sources or destinations.
const fn single(policy: PolicyKind, top: &'static [TargetKind], top_of_system: &'static [TargetKind]) -> Places {
    Places { policy, top, top_of_system, listener_tags: false, to: NONE, to_below: None, from: NONE }
}

const PLACES: &[Places] = &[
    Places {
        listener_tags: true,
        to: SERVICES,
        to_below: Some((GATEWAYS, MESH)),
        ..single(PolicyKind::HttpRoute, PROXIES_AND_SERVICES, GATEWAYS)
    },
    Places {
        listener_tags: true,
        to: SERVICES,
        to_below: Some((GATEWAYS, MESH)),
        ..single(PolicyKind::TcpRoute, PROXIES_AND_SERVICES, GATEWAYS)
    },
    Places { from: MESH, ..single(PolicyKind::Tls, PROXIES, NONE) },
    Places {
        listener_tags: true,
        to: &[Mesh, MeshService, MeshMultiZoneService, MeshHttpRoute, MeshTcpRoute],
        to_below: Some((GATEWAYS, &[Mesh, MeshService, MeshMultiZoneService])),
        ..single(PolicyKind::LoadBalancingStrategy, PROXIES_SERVICES_GATEWAYS, NONE)
    },
    single(PolicyKind::Passthrough, PROXIES, NONE),
    Places {
        listener_tags: true,
        to: DESTINATIONS_AND_ROUTES,
        to_below: Some((GATEWAYS, MESH)),
        from: MESH,
        ..single(PolicyKind::AccessLog, PROXIES_SERVICES_GATEWAYS, NONE)
    },
    single(PolicyKind::Trace, PROXIES_AND_SERVICES, GATEWAYS),
    Places {
        listener_tags: true,
        to: MESH,
        from: SOURCES,
        ..single(PolicyKind::FaultInjection, PROXIES_AND_SERVICES, GATEWAYS)
    },
    Places {
        listener_tags: true,
        to: MESH,
        from: MESH,
        ..single(PolicyKind::RateLimit, PROXIES_AND_SERVICES, GATEWAYS_AND_ROUTES)
    },
    Places {
        listener_tags: true,
        to: DESTINATIONS_AND_ROUTES,
        to_below: Some((GATEWAYS_AND_ROUTES, &[Mesh, MeshExternalService])),
        from: MESH,
        ..single(PolicyKind::Timeout, PROXIES_AND_SERVICES, GATEWAYS_AND_ROUTES)
    },
    Places { from: SOURCES, ..single(PolicyKind::TrafficPermission, PROXIES_AND_SERVICES, NONE) },
    Places {
        listener_tags: true,
        to: DESTINATIONS,
        ..single(PolicyKind::HealthCheck, PROXIES_SERVICES_GATEWAYS, NONE)
    },
    Places {
        listener_tags: true,
        to: DESTINATIONS,
        from: MESH,
        ..single(PolicyKind::CircuitBreaker, PROXIES_SERVICES_GATEWAYS, NONE)
    },
    Places {
        listener_tags: true,
        to: DESTINATIONS_AND_ROUTES,
        to_below: Some((GATEWAYS_AND_ROUTES, &[Mesh, MeshExternalService])),
        ..single(PolicyKind::Retry, PROXIES_AND_SERVICES, GATEWAYS_AND_ROUTES)
    },
    Places { listener_tags: true, ..single(PolicyKind::Metric, PROXIES_AND_SERVICES, GATEWAYS) },
    single(PolicyKind::ProxyPatch, PROXIES_AND_SERVICES, GATEWAYS),
];

impl Places {
    pub(in crate::compile) fn of(policy: PolicyKind) -> &'static Self {
        PLACES.iter().find(|places| places.policy == policy).expect("the table has a row for every policy")
    }

    pub(in crate::compile) fn top(&self, role: Role, inbound: bool) -> Place {
        let of_system = if role == Role::System { self.top_of_system } else { NONE };
        let kinds = self.top.iter().chain(of_system).copied().collect();
        Place { listener_tags: self.listener_tags, inbound, hint: hint_at_top, kinds, ..Place::of(NONE) }
    }

    pub(in crate::compile) fn to(&self, top: Option<TargetKind>) -> Place {
        let kinds = match (self.to_below, top) {
            (Some((below, kinds)), Some(top)) if below.contains(&top) => kinds,
            _ => self.to,
        };
        Place::of(kinds)
    }

    pub(in crate::compile) fn from(&self) -> Place {
        Place::of(self.from)
    }
}

fn hint_at_top(kind: TargetKind) -> Option<&'static str> {
    match kind {
        MeshHttpRoute | MeshTcpRoute => Some("name the route in `spec.to[].targetRef`"),
        MeshGateway => Some("only policies in the system namespace may select a gateway"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_its_row() {
        for policy in PolicyKind::ALL {
            let rows = PLACES.iter().filter(|places| places.policy == policy);
            assert_eq!(rows.count(), 1, "{policy:?}");
        }
    }

    #[test]
    fn roles_limit_the_top_level() {
        let kinds = |policy, role| Places::of(policy).top(role, false).kinds;
        assert!(kinds(PolicyKind::Timeout, Role::System).contains(&MeshHttpRoute));
        for role in [Role::Producer, Role::Consumer, Role::WorkloadOwner] {
            assert!(!kinds(PolicyKind::Timeout, role).contains(&MeshHttpRoute));
            assert!(!kinds(PolicyKind::Timeout, role).contains(&MeshGateway));
            assert!(kinds(PolicyKind::Timeout, role).contains(&MeshService));
            assert!(kinds(PolicyKind::HealthCheck, role).contains(&MeshGateway));
        }
        for policy in PolicyKind::ALL {
            assert!(!kinds(policy, Role::System).contains(&MeshTcpRoute), "{policy:?}");
        }
    }

    #[test]
    fn the_top_level_limits_to() {
        let kinds = |policy, top| Places::of(policy).to(Some(top)).kinds;
        assert_eq!(*kinds(PolicyKind::HttpRoute, MeshGateway), [Mesh]);
        assert_eq!(*kinds(PolicyKind::HttpRoute, Mesh), *SERVICES);
        assert_eq!(*kinds(PolicyKind::Timeout, MeshHttpRoute), [Mesh, MeshExternalService]);
        for policy in PolicyKind::ALL {
            let to = kinds(policy, Mesh);
            assert_eq!(to.contains(&MeshTcpRoute), to.contains(&MeshHttpRoute), "{policy:?}");
        }
    }
}
