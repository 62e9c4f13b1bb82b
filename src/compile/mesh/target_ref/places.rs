//! Which kinds each place of a policy takes.

use super::Place;
use crate::core::mesh::policy::Role;
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
    /// At the top level.
    pub(in crate::compile) top: &'static [TargetKind],
    /// At the top level of system policies, besides.
    pub(in crate::compile) top_of_system: &'static [TargetKind],
    /// Whether a MeshGateway at the top level may select listeners by tags.
    pub(in crate::compile) listener_tags: bool,
    /// What `to` takes instead when the top level has one of these kinds.
    pub(in crate::compile) to_below: Option<(&'static [TargetKind], &'static [TargetKind])>,
    pub(in crate::compile) from: &'static [TargetKind],
}

pub(in crate::compile) const NONE: &[TargetKind] = &[];
pub(in crate::compile) const MESH: &[TargetKind] = &[Mesh];
pub(in crate::compile) const PROXIES: &[TargetKind] = &[Mesh, MeshSubset, Dataplane];
pub(in crate::compile) const PROXIES_AND_SERVICES: &[TargetKind] =
    &[Mesh, MeshSubset, MeshService, MeshServiceSubset, Dataplane];
pub(in crate::compile) const PROXIES_SERVICES_GATEWAYS: &[TargetKind] =
    &[Mesh, MeshSubset, MeshGateway, MeshService, MeshServiceSubset, Dataplane];
pub(in crate::compile) const SOURCES: &[TargetKind] = &[Mesh, MeshSubset, MeshService, MeshServiceSubset];
pub(in crate::compile) const SERVICES: &[TargetKind] = &[MeshService, MeshExternalService, MeshMultiZoneService];
pub(in crate::compile) const DESTINATIONS: &[TargetKind] =
    &[Mesh, MeshService, MeshExternalService, MeshMultiZoneService];
pub(in crate::compile) const DESTINATIONS_AND_ROUTES: &[TargetKind] =
    &[Mesh, MeshService, MeshExternalService, MeshMultiZoneService, MeshHttpRoute, MeshTcpRoute];
pub(in crate::compile) const GATEWAYS: &[TargetKind] = &[MeshGateway];
pub(in crate::compile) const GATEWAYS_AND_ROUTES: &[TargetKind] = &[MeshGateway, MeshHttpRoute];

impl Places {
    /// A policy that selects proxies and says nothing of sources.
    pub(in crate::compile) const fn at_top(top: &'static [TargetKind]) -> Self {
        Self { top, top_of_system: NONE, listener_tags: false, to_below: None, from: NONE }
    }

    pub(in crate::compile) fn top(&self, role: Role, inbound: bool) -> Place {
        let of_system = if role == Role::System { self.top_of_system } else { NONE };
        let kinds = self.top.iter().chain(of_system).copied().collect();
        Place { listener_tags: self.listener_tags, inbound, hint: hint_at_top, kinds, ..Place::of(NONE) }
    }

    /// Those of `to`, which takes `destinations` unless the top level narrows them.
    pub(in crate::compile) fn to(&self, destinations: &'static [TargetKind], top: Option<TargetKind>) -> Place {
        let kinds = match (self.to_below, top) {
            (Some((below, kinds)), Some(top)) if below.contains(&top) => kinds,
            _ => destinations,
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
