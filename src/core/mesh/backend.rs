//! Where a route sends traffic.

use super::target_ref::TargetRef;

/// One weighted destination of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendRef {
    /// A MeshService, MeshServiceSubset, MeshExternalService or MeshMultiZoneService.
    pub target: TargetRef,
    /// A backend of weight 0 gets no traffic.
    pub weight: u64,
    pub port: Option<u32>,
}

impl BackendRef {
    /// The weight of a backend that states none.
    pub const DEFAULT_WEIGHT: u64 = 1;

    /// The name that the translation from the Gateway API writes for a backend it cannot find.
    pub const UNRESOLVED: &'static str = "kuma.io/unresolved-backend";
}
