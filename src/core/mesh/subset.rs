//! Rules for sets of tags: `from`, and `to` where destinations are known by tags.
//!
//! Entries may overlap. The rules split what they cover into subsets, each with the merged conf of all entries that cover
//! it; for an element the first rule that holds is the one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::kind::MergeRule;
use super::merge::routes::matches_in;
use super::merge::{self, ConfOf};
use super::meta::ResourceMeta;
use super::outbound::RuleOrigin;
use super::target_ref::{Pairs, ResourceRef, TargetKind, TargetRef};

pub const SERVICE_TAG: &str = "kuma.io/service";

/// More groups or subsets than this are not built: their number grows exponentially with the tags in use.
const MAX_GROUPS: usize = 5_000;
const MAX_SUBSETS: usize = 20_000;
/// How many different sets of tags may overlap in one point.
const MAX_DEPTH: usize = 200;

/// A tag that an element has, or has not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubsetTag {
    pub key: String,
    pub value: String,
    pub not: bool,
}

/// An entry, in merge order.
#[derive(Clone, Debug)]
pub struct SubsetEntry {
    pub policy: Arc<ResourceMeta>,
    /// The position in the list of its policy.
    pub index: usize,
    pub target: TargetRef,
    pub conf: Arc<Value>,
}

/// The conf of a subset.
#[derive(Clone, Debug, PartialEq)]
pub struct SubsetRule {
    pub subset: Vec<SubsetTag>,
    pub conf: Value,
    /// The policies that contributed, weakest first.
    pub origin: Vec<Arc<ResourceMeta>>,
    /// The strongest entry for each list of matches of HTTP routes.
    pub origin_by_matches: BTreeMap<String, RuleOrigin>,
}

/// Why rules could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tags in use split the traffic into more than {0} subsets: use fewer tags")]
pub struct TooManySubsets(usize);

/// Whether elements of the kind are known by tags.
pub fn has_subset(kind: TargetKind) -> bool {
    use TargetKind::{Mesh, MeshService, MeshServiceSubset, MeshSubset};
    matches!(kind, Mesh | MeshSubset | MeshService | MeshServiceSubset)
}

/// Builds the rules of entries in merge order. With `negations`, also elements that lack a tag have rules of their own.
pub fn build(merge: MergeRule, entries: &[SubsetEntry], negations: bool) -> Result<Vec<SubsetRule>, TooManySubsets> {
    let entries: Vec<(&SubsetEntry, Vec<SubsetTag>)> = entries
        .iter()
        .filter(|entry| has_subset(entry.target.kind()))
        .map(|entry| (entry, subset_of(&entry.target)))
        .collect();
    let keys: BTreeSet<&str> = entries.iter().flat_map(|(_, subset)| subset).map(|tag| tag.key.as_str()).collect();
    let mut rules = Vec::new();
    if !negations && keys.len() <= 1 {
        let mut seen: BTreeSet<&Vec<SubsetTag>> = BTreeSet::new();
        for (_, subset) in &entries {
            if seen.insert(subset) {
                rules.extend(rule(merge, &entries, subset));
            }
        }
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.subset.len()));
    } else {
        let mut left = MAX_SUBSETS;
        for group in groups(&entries)? {
            let tags: BTreeSet<&SubsetTag> = group.iter().flat_map(|index| &entries[*index].1).collect();
            for subset in enumerate(&tags, &mut left)? {
                rules.extend(rule(merge, &entries, &subset));
            }
        }
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.subset.iter().filter(|tag| !tag.not).count()));
    }
    Ok(rules)
}

/// The rules of one subset: one, except for HTTP routes with hostnames.
fn rule(merge: MergeRule, entries: &[(&SubsetEntry, Vec<SubsetTag>)], subset: &[SubsetTag]) -> Vec<SubsetRule> {
    let covering = || entries.iter().filter(|(_, held)| contains(held, subset)).map(|(entry, _)| *entry);
    if covering().next().is_none() {
        return Vec::new();
    }
    let confs = merge::merge(merge, covering().map(|entry| ConfOf { target: Some(&entry.target), conf: &entry.conf }));
    let mut origin: Vec<Arc<ResourceMeta>> = Vec::new();
    let mut origin_by_matches = BTreeMap::new();
    for entry in covering() {
        if !origin.iter().any(|held| held.mesh == entry.policy.mesh && held.name == entry.policy.name) {
            origin.push(entry.policy.clone());
        }
        if merge == MergeRule::HttpRoutes {
            for (hash, _) in matches_in(&entry.conf) {
                let origin = RuleOrigin { policy: entry.policy.clone(), index: entry.index };
                origin_by_matches.insert(hash, origin);
            }
        }
    }
    let rule = |conf| SubsetRule {
        subset: subset.to_vec(),
        conf,
        origin: origin.clone(),
        origin_by_matches: origin_by_matches.clone(),
    };
    confs.into_iter().map(rule).collect()
}

fn subset_of(target: &TargetRef) -> Vec<SubsetTag> {
    let tag = |key: &str, value: &str| SubsetTag { key: key.to_owned(), value: value.to_owned(), not: false };
    let tags = |pairs: &Pairs| pairs.iter().map(|(key, value)| tag(key, value)).collect::<Vec<_>>();
    let mut subset = match target {
        TargetRef::MeshSubset { tags: pairs, .. } => tags(pairs),
        TargetRef::MeshService { service: ResourceRef::Named { name, .. }, .. } => vec![tag(SERVICE_TAG, name)],
        TargetRef::MeshService { .. } => vec![tag(SERVICE_TAG, "")],
        TargetRef::MeshServiceSubset { name, tags: pairs } => {
            let mut subset = tags(pairs);
            subset.retain(|tag| tag.key != SERVICE_TAG);
            subset.push(tag(SERVICE_TAG, name));
            subset
        }
        _ => Vec::new(),
    };
    subset.sort();
    subset
}

/// Whether every element of `inner` is one of `outer`.
pub fn contains(outer: &[SubsetTag], inner: &[SubsetTag]) -> bool {
    outer.iter().all(|tag| {
        let mut same_key = inner.iter().filter(|other| other.key == tag.key).peekable();
        same_key.peek().is_some()
            && same_key.all(|other| match (tag.not, other.not) {
                (false, true) => false,
                (true, false) => other.value != tag.value,
                _ => other.value == tag.value,
            })
    })
}

/// Whether some element may be in both. Subsets of references have no negations.
fn intersects(one: &[SubsetTag], other: &[SubsetTag]) -> bool {
    one.iter().all(|tag| other.iter().all(|held| held.key != tag.key || held.value == tag.value))
}

/// Groups of entries of which any two may share an element, each as large as it can be.
fn groups(entries: &[(&SubsetEntry, Vec<SubsetTag>)]) -> Result<Vec<Vec<usize>>, TooManySubsets> {
    // Entries for the same subset are always in the same groups.
    let mut nodes: Vec<(&[SubsetTag], Vec<usize>)> = Vec::new();
    let mut known: BTreeMap<&[SubsetTag], usize> = BTreeMap::new();
    for (index, (_, subset)) in entries.iter().enumerate() {
        let node = *known.entry(subset.as_slice()).or_insert_with(|| {
            nodes.push((subset.as_slice(), Vec::new()));
            nodes.len() - 1
        });
        nodes[node].1.push(index);
    }
    let count = nodes.len();
    let near = |one: usize| (0..count).filter(move |other| *other != one);
    let neighbours: Vec<BTreeSet<usize>> =
        (0..count).map(|one| near(one).filter(|other| intersects(nodes[one].0, nodes[*other].0)).collect()).collect();
    let mut found = Vec::new();
    extend_group(&mut Vec::new(), (0..count).collect(), BTreeSet::new(), &neighbours, &mut found)?;
    let entries_of = |group: Vec<usize>| {
        let mut members: Vec<usize> = group.iter().flat_map(|node| nodes[*node].1.iter().copied()).collect();
        members.sort_unstable();
        members
    };
    let mut groups: Vec<Vec<usize>> = found.into_iter().map(entries_of).collect();
    // Clients know the rules in this order: that of the joined positions as text.
    let name = |group: &Vec<usize>| group.iter().map(usize::to_string).collect::<Vec<_>>().join(":");
    groups.sort_by_cached_key(|group| std::cmp::Reverse(name(group)));
    Ok(groups)
}

/// Bron–Kerbosch with a pivot: all maximal cliques that contain `group`.
fn extend_group(
    group: &mut Vec<usize>,
    mut candidates: BTreeSet<usize>,
    mut excluded: BTreeSet<usize>,
    neighbours: &[BTreeSet<usize>],
    found: &mut Vec<Vec<usize>>,
) -> Result<(), TooManySubsets> {
    if candidates.is_empty() && excluded.is_empty() {
        found.push(group.clone());
    }
    if found.len() > MAX_GROUPS || group.len() > MAX_DEPTH {
        return Err(TooManySubsets(MAX_GROUPS));
    }
    let pivot = candidates.union(&excluded).max_by_key(|node| neighbours[**node].intersection(&candidates).count());
    let open: Vec<usize> = match pivot {
        Some(pivot) => candidates.difference(&neighbours[*pivot]).copied().collect(),
        None => Vec::new(),
    };
    for node in open {
        let near = &neighbours[node];
        group.push(node);
        extend_group(
            group,
            candidates.intersection(near).copied().collect(),
            excluded.intersection(near).copied().collect(),
            neighbours,
            found,
        )?;
        group.pop();
        candidates.remove(&node);
        excluded.insert(node);
    }
    Ok(())
}

/// All combinations of the tags: for each key one of its values, or none of them. The combination of the last values of all
/// keys comes last.
fn enumerate(tags: &BTreeSet<&SubsetTag>, left: &mut usize) -> Result<Vec<Vec<SubsetTag>>, TooManySubsets> {
    let mut keys: Vec<(&str, Vec<&SubsetTag>)> = Vec::new();
    for tag in tags {
        match keys.last_mut() {
            Some((key, values)) if *key == tag.key => values.push(tag),
            _ => keys.push((&tag.key, vec![tag])),
        }
    }
    let count = keys.iter().try_fold(1_usize, |count, (_, values)| count.checked_mul(values.len() + 1));
    *left = count.and_then(|count| left.checked_sub(count)).ok_or(TooManySubsets(MAX_SUBSETS))?;
    let mut digits = vec![0; keys.len()];
    let mut combinations = Vec::new();
    loop {
        // The first key counts fastest.
        for (digit, (_, values)) in digits.iter_mut().zip(&keys) {
            if *digit < values.len() {
                *digit += 1;
                break;
            }
            *digit = 0;
        }
        let mut combination = Vec::new();
        for (digit, (_, values)) in digits.iter().zip(&keys) {
            match values.len().checked_sub(digit + 1) {
                Some(index) => combination.extend(values.get(index).map(|tag| (*tag).clone())),
                None => combination.extend(values.iter().map(|tag| SubsetTag { not: true, ..(*tag).clone() })),
            }
        }
        combinations.push(combination);
        if digits.iter().all(|digit| *digit == 0) {
            return Ok(combinations);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::mesh::kind::MESH;
    use crate::core::mesh::target_ref::ProxyTypes;

    fn entry(tags: &[(&str, &str)], index: usize) -> SubsetEntry {
        let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let policy = ResourceMeta {
            kind: &MESH,
            mesh: String::new(),
            name: format!("p{index}"),
            labels: Pairs::new(),
            created: None,
        };
        SubsetEntry {
            policy: Arc::new(policy),
            index,
            target: TargetRef::MeshSubset { tags, labels: Pairs::new(), proxies: ProxyTypes::All },
            conf: Arc::new(json!({"by": index})),
        }
    }

    fn shown(rules: &[SubsetRule]) -> Vec<String> {
        let tag = |tag: &SubsetTag| format!("{}{}={}", if tag.not { "!" } else { "" }, tag.key, tag.value);
        let subset = |rule: &SubsetRule| rule.subset.iter().map(tag).collect::<Vec<_>>().join(",");
        rules.iter().map(|rule| format!("{}: {}", subset(rule), rule.conf["by"])).collect()
    }

    #[test]
    fn overlapping_entries_are_split() {
        let entries = [entry(&[("a", "1")], 0), entry(&[("b", "1")], 1)];
        let rules = build(MergeRule::Fields, &entries, true).unwrap();
        assert_eq!(shown(&rules), ["a=1,b=1: 1", "!a=1,b=1: 1", "a=1,!b=1: 0"]);
    }

    #[test]
    fn one_key_needs_no_split_for_destinations() {
        let entries = [entry(&[], 0), entry(&[("a", "1")], 1), entry(&[("a", "2")], 2), entry(&[("a", "1")], 3)];
        let rules = build(MergeRule::Fields, &entries, false).unwrap();
        assert_eq!(shown(&rules), ["a=1: 3", "a=2: 2", ": 0"]);
        assert_eq!(rules[0].origin.iter().map(|meta| meta.name.as_str()).collect::<Vec<_>>(), ["p0", "p1", "p3"]);
    }

    #[test]
    fn too_many_tags_are_an_error_and_not_the_end_of_memory() {
        let many: Vec<_> = (0..40).map(|index| entry(&[(&format!("k{index}"), "v")], index)).collect();
        assert!(build(MergeRule::Fields, &many, true).is_err());
        let deep: Vec<_> = (0..1_000).map(|index| entry(&[(&format!("k{index}"), "v")], index)).collect();
        assert!(build(MergeRule::Fields, &deep, true).is_err());
        // The usual large case: many callers by name.
        let callers: Vec<_> = (0..300).map(|index| entry(&[("s", &format!("v{index}"))], index)).collect();
        assert_eq!(build(MergeRule::Fields, &callers, true).unwrap().len(), 300);
    }
}
