//! Policies of the parts of a proxy: the whole of it, one inbound, one outbound, one route of an outbound.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::error::InspectError;
use super::view::{KriView, json, kris};
use crate::core::mesh::inbound;
use crate::core::mesh::kind::{KindTable, MergeRule};
use crate::core::mesh::matching::{self, MatchedPolicies};
use crate::core::mesh::merge::routes::matches_hash;
use crate::core::mesh::meta::{ResourceKey, ResourceMeta};
use crate::core::mesh::outbound::{MergedConf, ResourceRules};
use crate::core::mesh::resources::Dataplane;
use crate::index::mesh::MeshContents;

#[derive(Serialize)]
struct Policies<T> {
    policies: Vec<T>,
}

#[derive(Serialize)]
struct ConfOfKind<C> {
    kind: &'static str,
    conf: C,
    origins: Vec<KriView>,
}

#[derive(Serialize)]
struct RulesOfKind<R> {
    kind: &'static str,
    rules: Vec<R>,
    origins: Vec<KriView>,
}

#[derive(Serialize)]
struct InboundRuleOfKind<'m> {
    kri: String,
    conf: &'m Value,
}

#[derive(Serialize)]
struct Routes {
    routes: Vec<RulesOfKind<RouteRule>>,
}

#[derive(Serialize)]
struct RouteRule {
    kri: String,
    matches: Value,
    conf: Value,
}

/// Confs for the whole proxy.
pub(super) fn of_proxy(mesh: &MeshContents, kinds: &KindTable, dataplane: &Dataplane) -> String {
    let proxy = mesh.proxy(dataplane);
    let mut policies = Vec::new();
    for kind in kinds.policies().filter(|kind| kind.single) {
        let matched = MatchedPolicies::find(mesh.policies(kind), &proxy, mesh);
        if let Some(rule) = matching::proxy_rule(&matched.policies) {
            let origins = kris(rule.origin.iter().map(AsRef::as_ref));
            policies.push(ConfOfKind { kind: kind.resource.kind, conf: rule.conf, origins });
        }
    }
    json(&Policies { policies })
}

/// Rules of one inbound. Of the KRI only the section counts.
pub(super) fn of_inbound(
    mesh: &MeshContents,
    kinds: &KindTable,
    dataplane: &Dataplane,
    kri: &str,
) -> Result<String, InspectError> {
    let key = ResourceKey::parse(kri, kinds).map_err(InspectError::Kri)?;
    let inbound = dataplane.inbound(&key.section).ok_or_else(|| InspectError::UnknownInbound(key.section.clone()))?;
    let proxy = mesh.proxy(dataplane);
    let mut policies = Vec::new();
    for kind in kinds.policies().filter(|kind| kind.rules) {
        let matched = MatchedPolicies::find(mesh.policies(kind), &proxy, mesh);
        let selecting = matched.by_inbound.get(&inbound.listener).into_iter().flatten();
        let rules = inbound::build(selecting.map(AsRef::as_ref));
        if rules.is_empty() {
            continue;
        }
        let mut origins: Vec<&ResourceMeta> = Vec::new();
        for rule in &rules {
            if !origins.iter().any(|held| held.name == rule.origin.policy.name) {
                origins.push(&rule.origin.policy);
            }
        }
        let origins = kris(origins);
        policies.push((kind.resource.kind, rules, origins));
    }
    let policies = policies.iter().map(|(kind, rules, origins)| RulesOfKind {
        kind,
        rules: rules
            .iter()
            .map(|rule| InboundRuleOfKind { kri: rule.origin.policy.key().to_string(), conf: &rule.conf })
            .collect(),
        origins: origins.clone(),
    });
    Ok(json(&Policies { policies: policies.collect() }))
}

/// Confs of one destination.
pub(super) fn of_outbound(
    mesh: &MeshContents,
    kinds: &KindTable,
    dataplane: &Dataplane,
    kri: &str,
) -> Result<String, InspectError> {
    let key = ResourceKey::parse(kri, kinds).map_err(InspectError::Kri)?;
    Ok(confs(mesh, kinds, dataplane, true, |rules| rules.lookup(&key).map(|rule| rule.merged.clone())))
}

/// Confs of requests on one route to one destination: those of the route, or else those of the destination.
pub(super) fn of_route(
    mesh: &MeshContents,
    kinds: &KindTable,
    dataplane: &Dataplane,
    outbound: &str,
    route: &str,
) -> Result<String, InspectError> {
    let outbound = ResourceKey::parse(outbound, kinds).map_err(InspectError::Kri)?;
    let route = ResourceKey::parse(route, kinds).map_err(InspectError::Kri)?;
    Ok(confs(mesh, kinds, dataplane, false, |rules| {
        let rule = rules.lookup_own(&route).or_else(|| rules.lookup(&outbound));
        rule.map(|rule| rule.merged.clone())
    }))
}

fn confs(
    mesh: &MeshContents,
    kinds: &KindTable,
    dataplane: &Dataplane,
    with_routes: bool,
    lookup: impl Fn(&ResourceRules) -> Option<Arc<MergedConf>>,
) -> String {
    let proxy = mesh.proxy(dataplane);
    let mut policies = Vec::new();
    for kind in kinds.policies().filter(|kind| kind.to && (with_routes || !kind.is_route())) {
        if let Some(merged) = lookup(&mesh.matches(kind, &proxy).to.by_resource) {
            let origins = kris(merged.origin.iter().map(|origin| &*origin.policy));
            policies.push(ConfOfKind { kind: kind.resource.kind, conf: merged.conf.clone(), origins });
        }
    }
    json(&Policies { policies })
}

/// The routes of one destination.
pub(super) fn routes(
    mesh: &MeshContents,
    kinds: &KindTable,
    dataplane: &Dataplane,
    kri: &str,
) -> Result<String, InspectError> {
    let key = ResourceKey::parse(kri, kinds).map_err(InspectError::Kri)?;
    let proxy = mesh.proxy(dataplane);
    let mut routes = Vec::new();
    for kind in kinds.policies().filter(|kind| kind.is_route()) {
        let matches = mesh.matches(kind, &proxy);
        let Some(rule) = matches.to.by_resource.lookup(&key) else { continue };
        let merged = &rule.merged;
        let rules = merged.conf.iter().flat_map(|conf| match kind.merge {
            MergeRule::HttpRoutes => http_rules(conf, merged),
            _ => vec![RouteRule { kri: String::new(), matches: Value::Null, conf: conf["default"].clone() }],
        });
        let rules = rules.collect();
        let mut origins: Vec<&ResourceMeta> = Vec::new();
        for origin in &merged.origin {
            if !origins.iter().any(|held| held.name == origin.policy.name) {
                origins.push(&origin.policy);
            }
        }
        routes.push(RulesOfKind { kind: kind.resource.kind, rules, origins: kris(origins) });
    }
    Ok(json(&Routes { routes }))
}

fn http_rules(conf: &Value, merged: &MergedConf) -> Vec<RouteRule> {
    let rules = conf.get("rules").and_then(Value::as_array).into_iter().flatten();
    let show = |rule: &Value| {
        let origin = merged.origin_by_matches.get(&matches_hash(&rule["matches"]));
        RouteRule {
            kri: origin.map(|origin| origin.policy.key().to_string()).unwrap_or_default(),
            matches: rule["matches"].clone(),
            conf: rule["default"].clone(),
        }
    };
    rules.map(show).collect()
}
