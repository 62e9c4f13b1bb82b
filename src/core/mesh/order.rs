//! Precedence. Every list of confs is merged from the weakest to the strongest, and these keys put it in that order.
//!
//! The keys are totally ordered; lists are sorted stably, so that what they do not tell apart keeps the order of the store.

use std::cmp::Reverse;

use serde_json::Value;

use super::mesh_policy::MeshPolicy;
use super::meta::ResourceOrigin;
use super::policy::Role;
use super::target_ref::{DataplaneRef, ResourceRef, TargetRef};

/// How specific the proxies of a policy are, and where the policy comes from.
type Scope = (u8, (bool, bool), ResourceOrigin);

/// Of two policies with otherwise equal keys, the one with the smaller name wins.
type NameDescending<'p> = Reverse<&'p str>;

/// The precedence of whole policies.
pub fn policy_key(policy: &MeshPolicy) -> (Scope, usize, Role, NameDescending<'_>) {
    let tags = match &policy.top {
        TargetRef::MeshGateway { tags, .. } => tags.len(),
        _ => 0,
    };
    (scope(policy), tags, policy.meta.role(), name(policy))
}

/// The precedence of entries of `to`.
pub fn to_key<'p>(policy: &'p MeshPolicy, target: &TargetRef) -> (Scope, Role, u8, bool, NameDescending<'p>) {
    let section = matches!(target, TargetRef::MeshService { section: Some(_), .. });
    (scope(policy), policy.meta.role(), target.kind().rank(), section, name(policy))
}

/// The precedence of entries of `from`.
pub fn from_key<'p>(policy: &'p MeshPolicy, target: &TargetRef) -> (Scope, Role, u8, NameDescending<'p>) {
    (scope(policy), policy.meta.role(), target.kind().rank(), name(policy))
}

/// The precedence of entries of `rules`.
pub fn inbound_key(policy: &MeshPolicy) -> (Scope, Role, NameDescending<'_>) {
    (scope(policy), policy.meta.role(), name(policy))
}

/// The place of an inbound rule among those with other matches: the more exact the match, the earlier.
pub fn match_rank(matches: Option<&Value>) -> u8 {
    let Some(matches) = matches else { return 3 };
    match matches.pointer("/spiffeID/type").and_then(Value::as_str) {
        Some("Exact") => 0,
        Some(_) => 1,
        None if matches.get("sni").is_some() => 2,
        None => 3,
    }
}

fn scope(policy: &MeshPolicy) -> Scope {
    (policy.top.kind().rank(), dataplane_specificity(&policy.top), policy.meta.origin())
}

/// Whether a reference names its proxy, and whether it names a section. The peer compares these two in another way, which
/// is not an order.
fn dataplane_specificity(top: &TargetRef) -> (bool, bool) {
    match top {
        TargetRef::Dataplane { proxies, section } => {
            let named = matches!(proxies, DataplaneRef::Some(ResourceRef::Named { .. }));
            (named, section.is_some())
        }
        _ => (false, false),
    }
}

fn name(policy: &MeshPolicy) -> NameDescending<'_> {
    Reverse(policy.meta.display_name())
}
