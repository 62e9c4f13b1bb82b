//! MeshProxyPatch: changes of the finished Envoy configuration of the proxies it selects.

use serde_json::Value;

use super::target_ref::TargetRef;
use crate::core::envoy::modification::Modification;

/// The lists of all policies that select a proxy are joined, from the least to the most specific.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyPatch<D = Value> {
    pub target: TargetRef,
    pub modifications: Vec<Modification<D>>,
}
