//! MeshTCPRoute: where connections to a destination go.

use super::backend::BackendRef;
use super::target_ref::TargetRef;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpRoute {
    pub target: TargetRef,
    pub to: Vec<TcpRouteTo>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpRouteTo {
    pub target: TargetRef,
    /// The weighted destinations; none means the destination itself.
    pub backends: Vec<BackendRef>,
}
