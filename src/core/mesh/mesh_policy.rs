//! A policy of any kind as the rule engine reads it.

use std::sync::Arc;

use serde_json::Value;

use super::kind::PolicyKind;
use super::meta::ResourceMeta;
use super::target_ref::TargetRef;

/// A compiled policy. Its confs are normalised: schema defaults are filled in, durations are in Go's form, and a field
/// with null is left out.
#[derive(Clone, Debug)]
pub struct MeshPolicy {
    pub kind: &'static PolicyKind,
    pub meta: Arc<ResourceMeta>,
    /// The proxies that the policy selects; [`TargetRef::WHOLE_MESH`] if it names none.
    pub top: TargetRef,
    /// By destination.
    pub to: Vec<PolicyEntry>,
    /// By caller.
    pub from: Vec<PolicyEntry>,
    /// For incoming traffic.
    pub rules: Vec<InboundEntry>,
    /// The conf of the whole proxy, of a kind that has one.
    pub single: Option<Arc<Value>>,
}

/// An entry of `to` or `from`.
#[derive(Clone, Debug)]
pub struct PolicyEntry {
    pub target: TargetRef,
    /// `default`; an empty object if there is none. For MeshHTTPRoute `{rules, hostnames}`, for MeshTCPRoute `{rules}`.
    pub conf: Arc<Value>,
}

/// An entry of `rules`.
#[derive(Clone, Debug)]
pub struct InboundEntry {
    /// `{spiffeID: {type, value}, sni: {type, value}}` each; any one suffices, none means every caller.
    pub matches: Vec<Arc<Value>>,
    pub conf: Arc<Value>,
}
