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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::core::mesh::kind::{MergeRule, PolicyKind, ResourceType};
    use crate::core::mesh::meta::{ORIGIN, POLICY_ROLE, ResourceMeta};
    use crate::core::mesh::target_ref::{Pairs, ProxyTypes};

    static KIND: PolicyKind = PolicyKind {
        resource: ResourceType { kind: "MeshTest", short: "t", path: "meshtests" },
        order: 1,
        to: true,
        from: true,
        rules: true,
        single: false,
        from_as_rules: false,
        destinations: &[],
        merge: MergeRule::Fields,
    };

    fn pairs(list: &[(&str, &str)]) -> Pairs {
        list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn policy(name: &str, labels: &[(&str, &str)], top: TargetRef) -> MeshPolicy {
        let meta = ResourceMeta {
            kind: &KIND.resource,
            mesh: "default".to_owned(),
            name: name.to_owned(),
            labels: pairs(labels),
            created: None,
        };
        MeshPolicy { kind: &KIND, meta: Arc::new(meta), top, to: vec![], from: vec![], rules: vec![], single: None }
    }

    fn named(name: &str) -> ResourceRef {
        ResourceRef::Named { name: name.to_owned(), namespace: None }
    }

    fn dataplane(proxies: DataplaneRef, section: Option<&str>) -> TargetRef {
        TargetRef::Dataplane { proxies, section: section.map(str::to_owned) }
    }

    fn subset() -> TargetRef {
        TargetRef::MeshSubset { tags: pairs(&[("a", "b")]), labels: Pairs::new(), proxies: ProxyTypes::All }
    }

    fn gateway(tags: &[(&str, &str)]) -> TargetRef {
        TargetRef::MeshGateway { name: "g".to_owned(), tags: pairs(tags) }
    }

    /// Policies from the weakest to the strongest: each row differs from the next in one criterion only, or in one that
    /// counts more than those in which it is stronger.
    fn table() -> Vec<MeshPolicy> {
        let (mesh, every) = (TargetRef::WHOLE_MESH, DataplaneRef::Every);
        let labelled = DataplaneRef::Some(ResourceRef::Labelled(pairs(&[("app", "x")])));
        let one = DataplaneRef::Some(named("d"));
        let zone = (ORIGIN, "zone");
        vec![
            policy("b", &[(ORIGIN, "global"), (POLICY_ROLE, "workload-owner")], mesh.clone()),
            policy("b", &[], mesh.clone()),
            policy("a", &[], mesh.clone()),
            policy("b", &[(POLICY_ROLE, "producer")], mesh.clone()),
            policy("b", &[(POLICY_ROLE, "consumer")], mesh.clone()),
            policy("b", &[(POLICY_ROLE, "workload-owner")], mesh.clone()),
            policy("b", &[zone], mesh.clone()),
            policy("b", &[(ORIGIN, "global")], dataplane(every.clone(), None)),
            policy("a", &[(ORIGIN, "global")], dataplane(labelled, None)),
            policy("b", &[(ORIGIN, "global")], dataplane(every, Some("http"))),
            policy("b", &[(ORIGIN, "global")], dataplane(one.clone(), None)),
            policy("b", &[(ORIGIN, "global")], dataplane(one, Some("http"))),
            policy("b", &[(ORIGIN, "global")], subset()),
            policy("b", &[(ORIGIN, "global")], gateway(&[])),
            policy("b", &[(ORIGIN, "global")], TargetRef::MeshService { service: named("s"), section: None }),
            policy(
                "b",
                &[(ORIGIN, "global")],
                TargetRef::MeshServiceSubset { name: "s".to_owned(), tags: Pairs::new() },
            ),
            policy("b", &[(ORIGIN, "global")], TargetRef::MeshHttpRoute(named("r"))),
        ]
    }

    #[test]
    fn policies_have_a_total_order() {
        let table = table();
        for (low, weaker) in table.iter().enumerate() {
            for (high, stronger) in table.iter().enumerate() {
                assert_eq!(policy_key(weaker).cmp(&policy_key(stronger)), low.cmp(&high), "{low} and {high}");
                assert_eq!(inbound_key(weaker).cmp(&inbound_key(stronger)), low.cmp(&high), "{low} and {high}");
            }
        }
        // Of two gateways with more tags, before the role.
        let tagged = policy("b", &[], gateway(&[("a", "b")]));
        let plain = policy("b", &[(POLICY_ROLE, "producer")], gateway(&[]));
        assert!(policy_key(&tagged) > policy_key(&plain) && inbound_key(&tagged) < inbound_key(&plain));
    }

    #[test]
    fn entries_have_a_total_order() {
        let system = policy("b", &[], TargetRef::WHOLE_MESH);
        let smaller = policy("a", &[], TargetRef::WHOLE_MESH);
        let consumer = policy("b", &[(POLICY_ROLE, "consumer")], TargetRef::WHOLE_MESH);
        let service =
            |section: Option<&str>| TargetRef::MeshService { service: named("s"), section: section.map(str::to_owned) };
        let mesh = TargetRef::WHOLE_MESH;
        let external = TargetRef::MeshExternalService(named("e"));
        let multi_zone = TargetRef::MeshMultiZoneService { service: named("z"), section: None };
        let rows = [
            (&system, &mesh),
            (&smaller, &mesh),
            (&system, &service(None)),
            (&smaller, &service(None)),
            (&system, &service(Some("http"))),
            (&system, &external),
            (&system, &multi_zone),
            (&system, &TargetRef::MeshHttpRoute(named("r"))),
            // The role counts before the kind in `to`.
            (&consumer, &mesh),
        ];
        for (low, (policy, target)) in rows.iter().enumerate() {
            for (high, (other, other_target)) in rows.iter().enumerate() {
                assert_eq!(to_key(policy, target).cmp(&to_key(other, other_target)), low.cmp(&high), "{low}, {high}");
            }
        }
        // The kind in `from` counts before the name.
        assert!(from_key(&system, &subset()) > from_key(&smaller, &mesh));
        assert!(from_key(&smaller, &mesh) > from_key(&system, &mesh));
    }

    #[test]
    fn exact_matches_come_first() {
        let rank = |text: Value| match_rank(Some(&text));
        assert_eq!(rank(json!({"spiffeID": {"type": "Exact"}, "sni": {}})), 0);
        assert_eq!(rank(json!({"spiffeID": {"type": "Prefix"}})), 1);
        assert_eq!(rank(json!({"sni": {"type": "Exact"}})), 2);
        assert_eq!((rank(json!({})), match_rank(None)), (3, 3));
    }
}
