//! The rules of proxies. Those for destinations depend on the selected policies alone, so proxies that the same policies
//! select share them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::contents::MeshContents;
use crate::core::mesh::kind::PolicyKind;
use crate::core::mesh::matching::{self, MatchedPolicies};
use crate::core::mesh::mesh_policy::MeshPolicy;
use crate::core::mesh::outbound::ResourceRules;
use crate::core::mesh::select::Proxy;
use crate::core::mesh::subset::{SubsetRule, TooManySubsets};

/// How many different selections of policies have their rules kept, for each kind.
const KEPT: usize = 64;

/// The rules of one kind for the destinations of a proxy.
#[derive(Debug)]
pub struct ToRules {
    /// For destinations that are known by tags.
    pub by_tags: Result<Vec<SubsetRule>, TooManySubsets>,
    /// For real destinations.
    pub by_resource: ResourceRules,
}

/// The policies of one kind on one proxy, with their rules for destinations.
#[derive(Clone, Debug)]
pub struct ProxyMatches {
    pub kind: &'static PolicyKind,
    pub matched: MatchedPolicies,
    pub to: Arc<ToRules>,
}

/// Rules by the selection of policies that they are built from.
#[derive(Debug, Default)]
pub(super) struct RuleCache {
    /// The addresses of the policies, which live as long as the cache does.
    by_selection: Mutex<HashMap<Vec<usize>, Arc<ToRules>>>,
}

impl MeshContents {
    /// The policies of a kind that select a proxy, and their rules.
    pub fn matches(&self, kind: &'static PolicyKind, proxy: &Proxy<'_>) -> ProxyMatches {
        let matched = MatchedPolicies::find(self.policies(kind), proxy, self);
        let to = self.to_rules(kind, &matched.policies);
        ProxyMatches { kind, matched, to }
    }

    /// The rules for destinations of policies in merge order.
    pub fn to_rules(&self, kind: &PolicyKind, policies: &[Arc<MeshPolicy>]) -> Arc<ToRules> {
        let Some(cache) = self.cache(kind) else { return Arc::new(self.build(kind, policies)) };
        let selection: Vec<usize> = policies.iter().map(|policy| Arc::as_ptr(policy).addr()).collect();
        let held = || cache.by_selection.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = held().get(&selection) {
            return rules.clone();
        }
        let rules = Arc::new(self.build(kind, policies));
        let mut held = held();
        if held.len() >= KEPT {
            held.clear();
        }
        held.insert(selection, rules.clone());
        rules
    }

    fn build(&self, kind: &PolicyKind, policies: &[Arc<MeshPolicy>]) -> ToRules {
        if !kind.to {
            return ToRules { by_tags: Ok(Vec::new()), by_resource: ResourceRules::default() };
        }
        let by_resource =
            ResourceRules::build(kind, policies.iter().map(Arc::as_ref), self.resource(), self.destinations());
        ToRules { by_tags: matching::to_rules(kind, policies, self), by_resource }
    }
}
