//! Policies that refer to a route which other proxies have.

use std::sync::Arc;

use crate::core::mesh::mesh_policy::MeshPolicy;
use crate::core::mesh::select::Proxy;
use crate::index::mesh::MeshContents;

/// Warns of every entry for a route that does not select this proxy, although the policy does.
pub(super) fn disjoint(mesh: &MeshContents, proxy: &Proxy<'_>, policies: &[Arc<MeshPolicy>]) -> Vec<String> {
    let mut warnings = Vec::new();
    for policy in policies {
        for (index, route) in routes(mesh, policy) {
            if !selects(mesh, route, proxy) {
                warnings.push(format!(
                    "{}: the route does not select this proxy, so the entry has no effect here",
                    reference(policy, index, route)
                ));
            }
        }
    }
    warnings
}

/// Warns of every entry for a route that shares no proxy with the policy.
pub(super) fn never_together(mesh: &MeshContents, policy: &MeshPolicy) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, route) in routes(mesh, policy) {
        let together = mesh.dataplanes().any(|dataplane| {
            let proxy = mesh.proxy(dataplane);
            selects(mesh, policy, &proxy) && selects(mesh, route, &proxy)
        });
        if !together {
            warnings.push(format!(
                "{}: no proxy is selected by both, so the entry has no effect",
                reference(policy, index, route)
            ));
        }
    }
    warnings
}

/// The routes that the entries of a policy refer to, with the positions of the entries.
fn routes<'m>(mesh: &'m MeshContents, policy: &'m MeshPolicy) -> impl Iterator<Item = (usize, &'m MeshPolicy)> {
    let entries = policy.to.iter().enumerate().filter(|(_, entry)| entry.target.kind().is_route());
    entries.flat_map(move |(index, entry)| {
        let resolved = mesh.destinations().resolve(&entry.target, &policy.meta);
        let routes = resolved.into_iter().filter_map(move |(slot, _)| mesh.route(&mesh.destinations().get(slot)?.meta));
        routes.map(move |route| (index, route))
    })
}

fn selects(mesh: &MeshContents, policy: &MeshPolicy, proxy: &Proxy<'_>) -> bool {
    proxy.select(&policy.meta, &policy.top, mesh).is_ok_and(|selection| !selection.is_empty())
}

fn reference(policy: &MeshPolicy, index: usize, route: &MeshPolicy) -> String {
    let (kind, name) = (policy.meta.kind.kind, &policy.meta.name);
    format!("{kind} {name}: to[{index}] refers to {} {}", route.meta.kind.kind, route.meta.name)
}
