//! The policies of one kind that select a proxy, and the rules that they make there.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::kind::PolicyKind;
use super::merge::merge_fields;
use super::merge::routes::matches_in;
use super::mesh_policy::MeshPolicy;
use super::meta::ResourceMeta;
use super::order;
use super::resources::InboundListener;
use super::select::{Proxy, RouteLookup};
use super::subset::{self, SubsetEntry, SubsetRule, TooManySubsets};
use super::target_ref::{Pairs, ProxyTypes, ResourceRef, TargetRef};

/// The tag that stands for a rule of a route in the subsets of older policies.
const MATCHES_TAG: &str = "__rule-matches-hash__";

/// The policies of one kind on one proxy, each list in merge order.
#[derive(Clone, Debug, Default)]
pub struct MatchedPolicies {
    pub policies: Vec<Arc<MeshPolicy>>,
    /// By inbound, and by listener of a builtin gateway.
    pub by_inbound: BTreeMap<InboundListener, Vec<Arc<MeshPolicy>>>,
    /// By listener and hostname of a builtin gateway, in the order of the store.
    pub by_hostname: BTreeMap<(InboundListener, String), Vec<Arc<MeshPolicy>>>,
    pub warnings: Vec<String>,
}

/// A conf for the whole proxy.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyRule {
    pub conf: Value,
    /// Weakest first.
    pub origin: Vec<Arc<ResourceMeta>>,
}

impl MatchedPolicies {
    /// Finds the policies that select a proxy. Shadow policies select none.
    pub fn find<'m>(
        policies: impl IntoIterator<Item = &'m Arc<MeshPolicy>>,
        proxy: &Proxy<'_>,
        routes: &impl RouteLookup,
    ) -> Self {
        let mut matched = Self::default();
        for policy in policies {
            if policy.meta.is_shadow() {
                continue;
            }
            let selection = match proxy.select(&policy.meta, &policy.top, routes) {
                Ok(selection) if selection.is_empty() => continue,
                Ok(selection) => selection,
                Err(error) => {
                    let (mesh, name) = (&policy.meta.mesh, &policy.meta.name);
                    let warning =
                        format!("unable to resolve TargetRef on policy: mesh:{mesh} name:{name} error:\"{error}\"");
                    matched.warnings.push(warning);
                    continue;
                }
            };
            matched.policies.push(policy.clone());
            for inbound in selection.inbounds {
                push_once(matched.by_inbound.entry(inbound).or_default(), policy);
            }
            for index in selection.listeners {
                let Some(listener) = proxy.listener(index) else { continue };
                let hostname = proxy.gateway.and_then(|gateway| gateway.listeners.get(index));
                let hostname = hostname.map(|listener| listener.hostname.clone()).unwrap_or_default();
                push_once(matched.by_inbound.entry(listener.clone()).or_default(), policy);
                push_once(matched.by_hostname.entry((listener, hostname)).or_default(), policy);
            }
        }
        sort(&mut matched.policies);
        matched.by_inbound.values_mut().for_each(sort);
        matched
    }
}

fn push_once(list: &mut Vec<Arc<MeshPolicy>>, policy: &Arc<MeshPolicy>) {
    if list.last().is_none_or(|last| !Arc::ptr_eq(last, policy)) {
        list.push(policy.clone());
    }
}

fn sort(policies: &mut Vec<Arc<MeshPolicy>>) {
    let mut sorted: Vec<&Arc<MeshPolicy>> = policies.iter().collect();
    sorted.sort_by_cached_key(|policy| order::policy_key(policy));
    *policies = sorted.into_iter().cloned().collect();
}

/// The rules for destinations that are known by tags, from policies in merge order.
pub fn to_rules(
    kind: &PolicyKind,
    policies: &[Arc<MeshPolicy>],
    routes: &impl RouteLookup,
) -> Result<Vec<SubsetRule>, TooManySubsets> {
    let mut entries = Vec::new();
    for policy in policies {
        // Such a policy is for real resources, and none of its entries is for tags.
        if policy.to.iter().any(|entry| entry.target.kind().is_route()) {
            continue;
        }
        match &policy.top {
            TargetRef::MeshHttpRoute(ResourceRef::Named { name, .. }) => {
                if let Some(route) = routes.http_route(name) {
                    entries.extend(route_entries(policy, route));
                }
            }
            _ => entries.extend(policy.to.iter().enumerate().map(|(index, entry)| SubsetEntry {
                policy: policy.meta.clone(),
                index,
                target: entry.target.clone(),
                conf: entry.conf.clone(),
            })),
        }
    }
    subset::build(kind.merge, &entries, false)
}

/// The entries of a policy for a route at its top level: each holds for every rule of the route.
fn route_entries(policy: &MeshPolicy, route: &MeshPolicy) -> Vec<SubsetEntry> {
    let mut entries = Vec::new();
    for to in &route.to {
        for (hash, _) in matches_in(&to.conf) {
            let tags = Pairs::from([(MATCHES_TAG.to_owned(), hash)]);
            let target = match &to.target {
                TargetRef::Mesh { .. } | TargetRef::MeshSubset { .. } => {
                    TargetRef::MeshSubset { tags, labels: Pairs::new(), proxies: ProxyTypes::All }
                }
                TargetRef::MeshService { service: ResourceRef::Named { name, .. }, .. } => {
                    TargetRef::MeshServiceSubset { name: name.clone(), tags }
                }
                _ => TargetRef::MeshServiceSubset { name: String::new(), tags },
            };
            entries.extend(policy.to.iter().enumerate().map(|(index, entry)| SubsetEntry {
                policy: policy.meta.clone(),
                index,
                target: target.clone(),
                conf: entry.conf.clone(),
            }));
        }
    }
    entries
}

/// The entries of `from` in merge order.
pub fn from_entries(policies: &[Arc<MeshPolicy>]) -> Vec<SubsetEntry> {
    let mut entries: Vec<_> = policies
        .iter()
        .flat_map(|policy| policy.from.iter().enumerate().map(move |(index, entry)| (policy, index, entry)))
        .collect();
    entries.sort_by_cached_key(|(policy, _, entry)| order::from_key(policy, &entry.target));
    let entries = entries.into_iter().map(|(policy, index, entry)| SubsetEntry {
        policy: policy.meta.clone(),
        index,
        target: entry.target.clone(),
        conf: entry.conf.clone(),
    });
    entries.collect()
}

/// The rules for callers of an inbound, from policies that select it.
pub fn from_rules(kind: &PolicyKind, policies: &[Arc<MeshPolicy>]) -> Result<Vec<SubsetRule>, TooManySubsets> {
    subset::build(kind.merge, &from_entries(policies), true)
}

/// The conf of the whole proxy, from policies in merge order.
pub fn proxy_rule(policies: &[Arc<MeshPolicy>]) -> Option<ProxyRule> {
    let with_conf = || policies.iter().filter_map(|policy| Some((policy, policy.single.as_ref()?)));
    with_conf().next()?;
    let mut origin: Vec<Arc<ResourceMeta>> = Vec::new();
    for (policy, _) in with_conf() {
        if !origin.iter().any(|held| held.name == policy.meta.name && held.mesh == policy.meta.mesh) {
            origin.push(policy.meta.clone());
        }
    }
    Some(ProxyRule { conf: merge_fields(with_conf().map(|(_, conf)| &**conf)), origin })
}
