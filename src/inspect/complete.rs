//! Which destinations a view lists. The complete one spares clients the rules of fallback: it has an entry for everything
//! that has a conf.

use std::collections::HashMap;
use std::sync::Arc;

use super::view::{ResourceRuleView, Written, written};
use crate::core::mesh::meta::{ResourceKey, ResourceMeta};
use crate::core::mesh::outbound::{ResourceRule, ResourceRules};
use crate::core::mesh::select::Proxy;
use crate::index::mesh::{MeshContents, ProxyMatches};

/// The entries that policies refer to.
pub(super) fn sparse(rules: &ResourceRules) -> Vec<ResourceRuleView<'_>> {
    let mut parts = Parts::default();
    sorted(rules.iter().map(|rule| parts.entry(&rule.resource, &rule.section, rule)).collect())
}

/// Besides those, an entry for every destination that has the conf of another.
pub(super) fn complete<'m>(
    mesh: &'m MeshContents,
    proxy: &Proxy<'_>,
    matches: &'m ProxyMatches,
) -> Vec<ResourceRuleView<'m>> {
    let rules = &matches.to.by_resource;
    if rules.is_empty() {
        return Vec::new();
    }
    let mut parts = Parts::default();
    let mut entries: Vec<_> = rules.iter().map(|rule| parts.entry(&rule.resource, &rule.section, rule)).collect();
    // The routes of a gateway for its whole traffic are not routes to single services.
    let by_mesh = rules.mesh().filter(|_| !(matches.kind.is_route() && proxy.gateway.is_some()));
    for kind in matches.kind.destinations {
        for (slot, destination) in mesh.destinations().of_kind(kind.name()) {
            let meta = &*destination.meta;
            let is_listed = |key: &Arc<ResourceKey>| rules.get(key, "").is_some();
            if mesh.destinations().key(slot).is_some_and(is_listed) {
                continue;
            }
            let by_service = if kind.is_route() { service_rule(mesh, meta, rules) } else { None };
            if let Some(rule) = by_service.or(by_mesh) {
                entries.push(parts.entry(meta, "", rule));
            }
        }
    }
    sorted(entries)
}

/// The rule of the first destination of a route that has one.
fn service_rule<'m>(mesh: &MeshContents, route: &ResourceMeta, rules: &'m ResourceRules) -> Option<&'m ResourceRule> {
    let route = mesh.route(route)?;
    let destinations = mesh.destinations();
    route.to.iter().find_map(|to| {
        let resolved = destinations.resolve(&to.target, &route.meta);
        resolved
            .into_iter()
            .find_map(|(slot, section)| rules.lookup_own(&destinations.get(slot)?.meta.section_key(section)))
    })
}

/// What rules share, written once.
#[derive(Default)]
struct Parts {
    /// By the address of the shared conf, which the rules hold.
    written: HashMap<usize, (Written, Written)>,
}

impl Parts {
    fn entry<'m>(&mut self, resource: &'m ResourceMeta, section: &'m str, rule: &ResourceRule) -> ResourceRuleView<'m> {
        let shared = Arc::as_ptr(&rule.merged).addr();
        let (conf, origin) = self.written.entry(shared).or_insert_with(|| written(&rule.merged)).clone();
        ResourceRuleView { resource_meta: resource.into(), resource_section_name: section, conf, origin }
    }
}

fn sorted(mut entries: Vec<ResourceRuleView<'_>>) -> Vec<ResourceRuleView<'_>> {
    entries.sort_by(|one, other| one.sort_key().cmp(&other.sort_key()));
    entries
}
