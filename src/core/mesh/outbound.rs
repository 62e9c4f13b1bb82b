//! Rules for real destinations: the conf of every service, section, route and mesh that entries of `to` refer to.
//!
//! The map is sparse. A destination without an entry of its own has that of the mesh; a section that of its service.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::destinations::{Destinations, Slot};
use super::kind::{MESH_EXTERNAL_SERVICE, MergeRule, PolicyKind};
use super::merge::routes::matches_in;
use super::merge::{self, ConfOf};
use super::mesh_policy::{MeshPolicy, PolicyEntry};
use super::meta::{ResourceKey, ResourceMeta};
use super::order;
use super::resources::MeshResource;
use super::target_ref::{TargetKind, TargetRef};

/// The entry of a policy that contributed to a conf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleOrigin {
    pub policy: Arc<ResourceMeta>,
    /// The position in `to`, `from` or `rules` of the policy.
    pub index: usize,
}

/// What the entries for one destination make together. Destinations with the same entries share it.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedConf {
    /// One conf, except for HTTP routes with hostnames.
    pub conf: Vec<Value>,
    /// Weakest first.
    pub origin: Vec<RuleOrigin>,
    /// The strongest entry for each list of matches of HTTP routes.
    pub origin_by_matches: BTreeMap<String, RuleOrigin>,
}

/// The rule of one destination.
#[derive(Clone, Debug)]
pub struct ResourceRule {
    pub resource: Arc<ResourceMeta>,
    /// Empty for the whole resource.
    pub section: String,
    pub merged: Arc<MergedConf>,
}

/// The rules of a kind of policy for the destinations of a proxy, by key.
#[derive(Clone, Debug, Default)]
pub struct ResourceRules {
    rules: BTreeMap<ResourceKey, ResourceRule>,
    mesh: Option<ResourceRule>,
}

/// An entry of `to`, with the policy that it is in.
#[derive(Clone, Copy, Debug)]
pub struct ToEntry<'p> {
    pub policy: &'p MeshPolicy,
    pub index: usize,
    pub entry: &'p PolicyEntry,
}

/// The entries of `to` in merge order.
pub fn sorted_entries<'p>(policies: impl IntoIterator<Item = &'p MeshPolicy>) -> Vec<ToEntry<'p>> {
    let entries = policies
        .into_iter()
        .flat_map(|policy| policy.to.iter().enumerate().map(move |(index, entry)| ToEntry { policy, index, entry }));
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_cached_key(|to| order::to_key(to.policy, &to.entry.target));
    entries
}

impl ResourceRules {
    /// Builds the rules of policies that select a proxy. Those for a route at their top level have no part in them.
    pub fn build<'p>(
        kind: &PolicyKind,
        policies: impl IntoIterator<Item = &'p MeshPolicy>,
        mesh: Option<&MeshResource>,
        destinations: &Destinations,
    ) -> Self {
        let policies = policies.into_iter().filter(|policy| policy.top.kind() != TargetKind::MeshHttpRoute);
        let entries = sorted_entries(policies);
        let covering = Covering::new(&entries, mesh, destinations);
        let mut shared: HashMap<Vec<u32>, Arc<MergedConf>> = HashMap::new();
        let mut merged = |list: Vec<u32>| {
            shared.entry(list).or_insert_with_key(|list| Arc::new(merge_entries(kind.merge, &entries, list))).clone()
        };
        let mut rules = BTreeMap::new();
        for (slot, sections) in &covering.by_slot {
            let Some(destination) = destinations.get(*slot) else { continue };
            for section in sections.keys() {
                let list = covering.of(sections, section, destination.meta.kind == &MESH_EXTERNAL_SERVICE);
                let rule = ResourceRule {
                    resource: destination.meta.clone(),
                    section: (*section).to_owned(),
                    merged: merged(list),
                };
                rules.insert(destination.meta.section_key(section), rule);
            }
        }
        let mesh = mesh.filter(|_| !covering.whole_mesh.is_empty()).map(|mesh| ResourceRule {
            resource: mesh.meta.clone(),
            section: String::new(),
            merged: merged(covering.whole_mesh.clone()),
        });
        Self { rules, mesh }
    }

    /// All rules, that of the mesh first, then in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &ResourceRule> {
        self.mesh.iter().chain(self.rules.values())
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.mesh.is_none()
    }

    /// The rule of exactly this resource or section.
    pub fn get(&self, key: &ResourceKey) -> Option<&ResourceRule> {
        self.rules.get(key)
    }

    /// The rule for everything that has none of its own.
    pub fn mesh(&self) -> Option<&ResourceRule> {
        self.mesh.as_ref()
    }

    /// The rule of a destination: its own, that of the whole service, or that of the mesh.
    pub fn lookup(&self, key: &ResourceKey) -> Option<&ResourceRule> {
        self.lookup_own(key).or(self.mesh())
    }

    /// The rule of a destination or of its service, without that of the mesh.
    pub fn lookup_own(&self, key: &ResourceKey) -> Option<&ResourceRule> {
        if let Some(rule) = self.get(key).filter(|rule| !rule.merged.conf.is_empty()) {
            return Some(rule);
        }
        let whole = (!key.section.is_empty()).then(|| key.clone().without_section());
        whole.and_then(|key| self.get(&key)).filter(|rule| !rule.merged.conf.is_empty())
    }
}

/// Which entries, by their position in merge order, cover what.
struct Covering<'d> {
    whole_mesh: Vec<u32>,
    by_slot: HashMap<Slot, BTreeMap<&'d str, Vec<u32>>>,
}

impl<'d> Covering<'d> {
    fn new(entries: &[ToEntry<'_>], mesh: Option<&MeshResource>, destinations: &'d Destinations) -> Self {
        let mut covering = Self { whole_mesh: Vec::new(), by_slot: HashMap::new() };
        for (position, to) in (0..).zip(entries) {
            if matches!(to.entry.target, TargetRef::Mesh { .. }) {
                if mesh.is_some() {
                    covering.whole_mesh.push(position);
                }
                continue;
            }
            for (slot, section) in destinations.resolve(&to.entry.target, &to.policy.meta) {
                covering.by_slot.entry(slot).or_default().entry(section).or_default().push(position);
            }
        }
        covering
    }

    /// The entries that cover a section, in merge order: those for the mesh, the service and the section.
    fn of(&self, sections: &BTreeMap<&str, Vec<u32>>, section: &str, ignores_sections: bool) -> Vec<u32> {
        let mut list = self.whole_mesh.clone();
        for (held, entries) in sections {
            if held.is_empty() || *held == section || ignores_sections {
                list.extend(entries);
            }
        }
        list.sort_unstable();
        list
    }
}

fn merge_entries(rule: MergeRule, entries: &[ToEntry<'_>], list: &[u32]) -> MergedConf {
    let covering = || list.iter().filter_map(|position| entries.get(*position as usize));
    let conf = merge::merge(rule, covering().map(|to| ConfOf { target: Some(&to.entry.target), conf: &to.entry.conf }));
    let mut origin: Vec<RuleOrigin> = Vec::new();
    let mut seen = HashSet::new();
    let mut origin_by_matches = BTreeMap::new();
    for to in covering() {
        let next = RuleOrigin { policy: to.policy.meta.clone(), index: to.index };
        if rule == MergeRule::HttpRoutes {
            origin_by_matches.extend(matches_in(&to.entry.conf).map(|(hash, _)| (hash, next.clone())));
        }
        if seen.insert((&to.policy.meta.mesh, &to.policy.meta.name, to.index)) {
            origin.push(next);
        }
    }
    MergedConf { conf, origin, origin_by_matches }
}
