//! `_rules`: everything that policies say about one proxy.

use std::collections::BTreeMap;

use serde_json::Value;

use super::complete;
use super::error::InspectError;
use super::path::parameter;
use super::view::{FromRuleView, HttpMatch, InboundRulesView, InboundView, InspectRule, InspectRules, json};
use super::warnings;
use crate::core::mesh::inbound::{self, InboundRule};
use crate::core::mesh::kind::{KindTable, MergeRule};
use crate::core::mesh::matching::{self, ProxyRule};
use crate::core::mesh::merge::routes::matches_in;
use crate::core::mesh::resources::{Dataplane, GatewayProxy, InboundListener, MeshGateway, MeshServicesMode};
use crate::core::mesh::select::Proxy;
use crate::core::mesh::subset::SubsetRule;
use crate::index::mesh::{MeshContents, ProxyMatches};

/// How many destinations are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Every destination of the mesh that has a conf.
    Complete,
    /// Only what policies refer to, as the engine keeps it.
    Sparse,
}

impl View {
    pub(super) fn of(query: &str) -> Self {
        if parameter(query, "view").as_deref() == Some("sparse") { Self::Sparse } else { Self::Complete }
    }
}

/// The body for a proxy.
pub(super) fn of_proxy(mesh: &MeshContents, kinds: &KindTable, dataplane: &Dataplane, view: View) -> String {
    show(mesh, kinds, &mesh.proxy(dataplane), view)
}

/// The body for a MeshGateway: that of a proxy which it would select.
pub(super) fn of_gateway(
    mesh: &MeshContents,
    kinds: &KindTable,
    gateway: &MeshGateway,
    view: View,
) -> Result<String, InspectError> {
    let tags = gateway.selectors.first().ok_or(InspectError::GatewayWithoutSelectors)?;
    let dataplane = Dataplane {
        meta: gateway.meta.clone(),
        address: String::new(),
        inbounds: Vec::new(),
        outbounds: Vec::new(),
        gateway: Some(GatewayProxy { builtin: true, tags: tags.clone() }),
        reachable: None,
    };
    Ok(show(mesh, kinds, &Proxy { dataplane: &dataplane, gateway: Some(gateway) }, view))
}

/// The rules of one kind that are built for this proxy alone.
struct Built {
    matches: ProxyMatches,
    proxy: Option<ProxyRule>,
    from: Vec<(InboundListener, Vec<SubsetRule>)>,
    inbound: Vec<(InboundListener, Vec<InboundRule>)>,
    warnings: Vec<String>,
}

fn show(mesh: &MeshContents, kinds: &KindTable, proxy: &Proxy<'_>, view: View) -> String {
    let built: Vec<Built> = kinds.policies().map(|kind| build(mesh, proxy, mesh.matches(kind, proxy))).collect();
    let by_tags = mesh.resource().is_none_or(|mesh| mesh.services != MeshServicesMode::Exclusive);
    let mut rules = Vec::new();
    for built in &built {
        let Built { matches, proxy: proxy_rule, from, inbound, warnings } = built;
        let to_rules = matches.to.by_tags.iter().flatten().filter(|_| by_tags);
        let to_resource_rules = match view {
            View::Sparse => complete::sparse(&matches.to.by_resource),
            View::Complete => complete::complete(mesh, proxy, matches),
        };
        let rule = InspectRule {
            r#type: matches.kind.resource.kind,
            proxy_rule: proxy_rule.as_ref().map(Into::into),
            to_rules: to_rules.map(Into::into).collect(),
            to_resource_rules,
            from_rules: from
                .iter()
                .map(|(listener, rules)| FromRuleView {
                    inbound: inbound_view(proxy, listener),
                    rules: rules.iter().map(Into::into).collect(),
                })
                .collect(),
            inbound_rules: inbound
                .iter()
                .map(|(listener, rules)| InboundRulesView {
                    inbound: inbound_view(proxy, listener),
                    rules: rules.iter().map(Into::into).collect(),
                })
                .collect(),
            warnings: warnings.clone(),
        };
        let is_empty = rule.proxy_rule.is_none()
            && rule.to_rules.is_empty()
            && rule.to_resource_rules.is_empty()
            && rule.from_rules.is_empty()
            && rule.inbound_rules.is_empty();
        if !is_empty {
            rules.push(rule);
        }
    }
    json(&InspectRules { resource: (&*proxy.dataplane.meta).into(), rules, http_matches: http_matches(&built) })
}

fn build(mesh: &MeshContents, proxy: &Proxy<'_>, matches: ProxyMatches) -> Built {
    let kind = matches.kind;
    let mut warnings = matches.matched.warnings.clone();
    if let Err(error) = &matches.to.by_tags {
        warnings.push(format!("unable to build to-rules: {error}"));
    }
    let (mut from, mut inbound) = (Vec::new(), Vec::new());
    for (listener, policies) in &matches.matched.by_inbound {
        if kind.from {
            match matching::from_rules(kind, policies) {
                Ok(rules) if rules.is_empty() => {}
                Ok(rules) => from.push((listener.clone(), rules)),
                Err(error) => warnings.push(format!("unable to build from-rules of {listener}: {error}")),
            }
        }
        let rules = inbound::build(policies.iter().map(AsRef::as_ref));
        if !rules.is_empty() {
            inbound.push((listener.clone(), rules));
        }
    }
    warnings.extend(warnings::disjoint(mesh, proxy, &matches.matched.policies));
    let proxy = matching::proxy_rule(&matches.matched.policies);
    Built { matches, proxy, from, inbound, warnings }
}

fn inbound_view<'m>(proxy: &Proxy<'m>, listener: &InboundListener) -> InboundView<'m> {
    let (name, tags) = proxy.inbound(listener);
    InboundView { name, port: listener.port, tags }
}

/// Every list of matches in the routes of the proxy, in the order of hashes.
fn http_matches(built: &[Built]) -> Vec<HttpMatch<'_>> {
    let routes = built.iter().map(|built| &built.matches).filter(|matches| matches.kind.merge == MergeRule::HttpRoutes);
    let confs = routes.flat_map(|matches| {
        let by_tags = matches.to.by_tags.iter().flatten().map(|rule| &rule.conf);
        by_tags.chain(matches.to.by_resource.iter().flat_map(|rule| &rule.merged.conf))
    });
    let matches: BTreeMap<String, &Value> = confs.flat_map(matches_in).collect();
    matches.into_iter().map(|(hash, matches)| HttpMatch { hash, r#match: matches }).collect()
}
