//! Rules for real destinations: the conf of every service, section, route and mesh that entries of `to` refer to.
//!
//! The map is sparse. A destination without an entry of its own has that of the mesh; a section that of its service.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;
use smallvec::SmallVec;

use super::destinations::Destinations;
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
    /// The rules of a resource: the whole of it, and sections.
    rules: BTreeMap<Arc<ResourceKey>, SmallVec<[ResourceRule; 1]>>,
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
        let entries = Entries::new(kind.merge, sorted_entries(policies));
        let covering = Covering::new(&entries.list, mesh, destinations);
        // Destinations that the same entries cover share the result, and the entries for the mesh cover all of them.
        let mut shared: HashMap<Vec<u32>, Arc<MergedConf>> = HashMap::new();
        let mut merged = |own: Vec<u32>| {
            let merge = |own: &Vec<u32>| {
                let mut list = [covering.whole_mesh.as_slice(), own.as_slice()].concat();
                list.sort_unstable();
                Arc::new(entries.merge(&list))
            };
            shared.entry(own).or_insert_with_key(merge).clone()
        };
        let mut rules = BTreeMap::new();
        for (slot, sections) in (0..).zip(&covering.by_slot).filter(|(_, sections)| !sections.is_empty()) {
            let (Some(destination), Some(key)) = (destinations.get(slot), destinations.key(slot)) else { continue };
            let ignores_sections = *destination.meta.kind == MESH_EXTERNAL_SERVICE;
            let rule = |section: &str| ResourceRule {
                resource: destination.meta.clone(),
                section: section.to_owned(),
                merged: merged(covering_section(sections, section, ignores_sections)),
            };
            let mut of_resource: SmallVec<[ResourceRule; 1]> =
                sections.iter().map(|(section, _)| *section).map(rule).collect();
            of_resource.sort_by(|one, other| one.section.cmp(&other.section));
            rules.insert(key.clone(), of_resource);
        }
        let mesh = mesh.filter(|_| !covering.whole_mesh.is_empty()).map(|mesh| ResourceRule {
            resource: mesh.meta.clone(),
            section: String::new(),
            merged: merged(Vec::new()),
        });
        Self { rules, mesh }
    }

    /// All rules, that of the mesh first, then in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &ResourceRule> {
        self.mesh.iter().chain(self.rules.values().flatten())
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.mesh.is_none()
    }

    /// The rule of exactly this section of a resource; the key's own section does not count.
    pub fn get(&self, key: &ResourceKey, section: &str) -> Option<&ResourceRule> {
        let of_resource =
            if key.section.is_empty() { self.rules.get(key) } else { self.rules.get(&key.clone().without_section()) };
        of_resource?.iter().find(|rule| rule.section == section)
    }

    /// The rule for everything that has none of its own.
    pub fn mesh(&self) -> Option<&ResourceRule> {
        self.mesh.as_ref()
    }

    /// The rule of a destination: its own, that of the whole service, or that of the mesh.
    pub fn lookup(&self, key: &ResourceKey) -> Option<&ResourceRule> {
        self.lookup_own(key).or(self.mesh())
    }

    /// The rule of a destination or of its service, without that of the mesh. One without a conf counts as none.
    pub fn lookup_own(&self, key: &ResourceKey) -> Option<&ResourceRule> {
        let found = |section: &str| self.get(key, section).filter(|rule| !rule.merged.conf.is_empty());
        found(&key.section).or_else(|| found(""))
    }
}

/// The entries for each section of a destination.
type Sections<'d> = SmallVec<[(&'d str, Vec<u32>); 1]>;

/// Which entries, by their position in merge order, cover what.
struct Covering<'d> {
    whole_mesh: Vec<u32>,
    /// By slot; most destinations have one section, the whole.
    by_slot: Vec<Sections<'d>>,
}

impl<'d> Covering<'d> {
    fn new(entries: &[ToEntry<'_>], mesh: Option<&MeshResource>, destinations: &'d Destinations) -> Self {
        let mut covering = Self { whole_mesh: Vec::new(), by_slot: vec![SmallVec::new(); destinations.end()] };
        for (position, to) in (0..).zip(entries) {
            if matches!(to.entry.target, TargetRef::Mesh { .. }) {
                if mesh.is_some() {
                    covering.whole_mesh.push(position);
                }
                continue;
            }
            for (slot, section) in destinations.resolve(&to.entry.target, &to.policy.meta) {
                let Some(sections) = covering.by_slot.get_mut(slot as usize) else { continue };
                match sections.iter_mut().find(|(held, _)| *held == section) {
                    Some((_, list)) => list.push(position),
                    None => sections.push((section, vec![position])),
                }
            }
        }
        covering
    }
}

/// The entries that cover a section, besides those for the mesh: those for the whole and for the section.
fn covering_section(sections: &[(&str, Vec<u32>)], section: &str, ignores_sections: bool) -> Vec<u32> {
    let covers = |held: &str| held.is_empty() || held == section || ignores_sections;
    let mut list: Vec<u32> =
        sections.iter().filter(|(held, _)| covers(held)).flat_map(|(_, entries)| entries.iter().copied()).collect();
    list.sort_unstable();
    list
}

/// The entries of `to` in merge order, and how lists of them are merged.
struct Entries<'p> {
    rule: MergeRule,
    list: Vec<ToEntry<'p>>,
    /// For each entry the first one with the same origin: stores may hold two policies with one name.
    same_origin: Vec<u32>,
}

impl<'p> Entries<'p> {
    fn new(rule: MergeRule, list: Vec<ToEntry<'p>>) -> Self {
        let mut first = HashMap::new();
        let same_origin = (0..)
            .zip(&list)
            .map(|(position, to)| {
                let origin = (to.policy.meta.mesh.as_str(), to.policy.meta.name.as_str(), to.index);
                *first.entry(origin).or_insert(position)
            })
            .collect();
        Self { rule, list, same_origin }
    }

    fn merge(&self, positions: &[u32]) -> MergedConf {
        let covering = || positions.iter().filter_map(|position| self.list.get(*position as usize));
        let confs = covering().map(|to| ConfOf { target: Some(&to.entry.target), conf: &to.entry.conf });
        let conf = merge::merge(self.rule, confs);
        let mut origin_by_matches = BTreeMap::new();
        if self.rule == MergeRule::HttpRoutes {
            for to in covering() {
                origin_by_matches.extend(matches_in(&to.entry.conf).map(|(hash, _)| (hash, to.origin())));
            }
        }
        let is_first = |position: &&u32| {
            let first = self.same_origin.get(**position as usize);
            first == Some(*position) || first.is_some_and(|first| positions.binary_search(first).is_err())
        };
        let origins = positions.iter().filter(is_first).filter_map(|position| self.list.get(*position as usize));
        MergedConf { conf, origin: origins.map(ToEntry::origin).collect(), origin_by_matches }
    }
}

impl ToEntry<'_> {
    fn origin(&self) -> RuleOrigin {
        RuleOrigin { policy: self.policy.meta.clone(), index: self.index }
    }
}
