//! Which requests the API server has to send to the webhook: policies × the kinds of the cluster → webhook entries.
//!
//! A rule that the watch can serve costs ordinary writes nothing: its entry is asked on dry runs only, for the preview. A rule
//! that needs what only admission knows is asked always. Entries name no kind that no rule is about, and are sorted, so that
//! the same policies give the same configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::core::catalog::{ApiResource, Catalog};
use crate::core::kinds::Scope;
use crate::core::matching::{Block, Filter, Operation, Operations, RuleMatch};

use super::error::PolicyKey;
use super::rule::{Policy, Rule};
use super::way::Way;

/// One webhook entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub purpose: Purpose,
    /// Set for a policy that has conditions of its own.
    pub policy: Option<PolicyKey>,
    /// The namespaces of the Policies that the entry is for; none for ClusterPolicies, whose entries are for all of them.
    pub namespaces: BTreeSet<String>,
    pub rules: Vec<HookRule>,
    /// Name and CEL expression.
    pub match_conditions: Vec<(String, String)>,
    pub timeout_seconds: u8,
}

/// What an entry is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Every request: it may carry facts that a rule needs.
    Intake,
    /// Dry runs: the answer says what would be generated.
    Preview,
}

/// Resources with the same group, version, scope and operations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookRule {
    pub group: String,
    pub version: String,
    pub scope: HookScope,
    pub operations: Vec<Operation>,
    /// Plural names, with their subresource.
    pub resources: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookScope {
    Namespaced,
    All,
}

/// How long an API server waits for a policy that does not say otherwise: fail-open entries must not hold anybody up.
const TIMEOUT_SECONDS: u8 = 5;
/// API servers wait no longer.
const LONGEST_TIMEOUT: u8 = 30;
/// The longest that a Policy may ask for: its author is a tenant, and others write to the namespace too.
const LONGEST_NAMESPACED_TIMEOUT: u8 = 5;
/// The condition of preview entries.
pub const DRY_RUN: (&str, &str) = ("dry-run", "has(request.dryRun) && request.dryRun");

/// The entries for these policies, sorted: those for everybody first, then those of single policies by name.
pub fn hooks<'p>(policies: impl IntoIterator<Item = &'p Arc<Policy>>, catalog: &Catalog) -> Vec<Hook> {
    type Key = (Option<PolicyKey>, Option<String>, Purpose);
    let mut wanted: BTreeMap<Key, Wanted> = BTreeMap::new();
    for policy in policies {
        let own = (!policy.webhook.match_conditions.is_empty()).then(|| policy.key.clone());
        for rule in &policy.rules {
            let purpose = Purpose::of(rule);
            let namespace = policy.key.namespace.clone();
            let longest = if namespace.is_some() { LONGEST_NAMESPACED_TIMEOUT } else { LONGEST_TIMEOUT };
            let entry = wanted.entry((own.clone(), namespace, purpose)).or_default();
            entry.add(rule, purpose, catalog, policy.key.namespace.is_some());
            // Who shares an entry gets at least what each of them asked for, or what is usual.
            let timeout = policy.webhook.timeout_seconds.unwrap_or(TIMEOUT_SECONDS).min(longest);
            entry.timeout = entry.timeout.max(timeout);
            if own.is_some() {
                entry.conditions.clone_from(&policy.webhook.match_conditions);
            }
        }
    }
    let mut hooks: Vec<Hook> = Vec::new();
    for ((policy, namespace, purpose), wanted) in wanted {
        let hook = wanted.hook(policy, namespace.into_iter().collect(), purpose);
        // Namespaces whose Policies ask for the same share an entry: a configuration has no room for thousands.
        match hooks.iter_mut().find(|known| known.is_shared_with(&hook)) {
            Some(known) => known.namespaces.extend(hook.namespaces),
            None => hooks.push(hook),
        }
    }
    hooks.retain(|hook| !hook.rules.is_empty());
    hooks
}

impl Hook {
    fn is_shared_with(&self, other: &Self) -> bool {
        let namespaced = |hook: &Self| hook.policy.is_none() && !hook.namespaces.is_empty();
        namespaced(self)
            && namespaced(other)
            && (self.purpose, &self.rules, &self.match_conditions, self.timeout_seconds)
                == (other.purpose, &other.rules, &other.match_conditions, other.timeout_seconds)
    }
}

#[derive(Default)]
struct Wanted {
    operations: BTreeMap<(String, String, HookScope, String), Operations>,
    conditions: Vec<(String, String)>,
    timeout: u8,
}

impl Wanted {
    fn add(&mut self, rule: &Rule, purpose: Purpose, catalog: &Catalog, namespaced: bool) {
        for filter in rule.matching.matching.filters() {
            for selector in &filter.kinds {
                for resource in catalog.select(selector) {
                    let operations = asked(filter, &rule.matching, resource, purpose);
                    if operations.is_empty() {
                        continue;
                    }
                    let scope = match resource.scope {
                        // A selector of namespaces lets all cluster-scoped objects pass, and a Policy is for none of them.
                        Scope::Cluster if namespaced => continue,
                        Scope::Namespaced => HookScope::Namespaced,
                        Scope::Cluster => HookScope::All,
                    };
                    let key = (resource.group.clone(), resource.version.clone(), scope, resource.path());
                    let known = self.operations.entry(key).or_default();
                    operations.iter().for_each(|operation| known.insert(operation));
                }
            }
        }
    }

    fn hook(self, policy: Option<PolicyKey>, namespaces: BTreeSet<String>, purpose: Purpose) -> Hook {
        let mut grouped: BTreeMap<(String, String, HookScope, Vec<Operation>), BTreeSet<String>> = BTreeMap::new();
        for ((group, version, scope, path), operations) in self.operations {
            grouped.entry((group, version, scope, operations.iter().collect())).or_default().insert(path);
        }
        let rules = grouped.into_iter().map(|((group, version, scope, operations), resources)| HookRule {
            group,
            version,
            scope,
            operations,
            resources: resources.into_iter().collect(),
        });
        let mut match_conditions = self.conditions;
        if purpose == Purpose::Preview {
            match_conditions.insert(0, (DRY_RUN.0.to_owned(), DRY_RUN.1.to_owned()));
        }
        let rules = rules.collect();
        Hook { purpose, policy, namespaces, rules, match_conditions, timeout_seconds: self.timeout }
    }
}

impl Purpose {
    fn of(rule: &Rule) -> Self {
        match rule.way() {
            Way::Admission => Self::Intake,
            Way::Watch => Self::Preview,
        }
    }
}

/// The operations on a resource that a filter can accept, less those that an exclude takes away entirely.
fn asked(filter: &Filter, rule: &RuleMatch, resource: &ApiResource, purpose: Purpose) -> Operations {
    let listed = |operation: &Operation| filter.operations.is_empty() || filter.operations.contains(*operation);
    // A connection cannot be tried without being made.
    let possible = |operation: &Operation| purpose == Purpose::Intake || *operation != Operation::Connect;
    let excluded = |operation: &Operation| match &rule.exclude {
        Some(Block::Any(filters)) => filters.iter().any(|filter| takes_away(filter, resource, *operation)),
        _ => false,
    };
    Operation::ALL
        .into_iter()
        .filter(|operation| listed(operation) && possible(operation) && !excluded(operation))
        .collect()
}

/// Whether an exclude filter asks for nothing but kinds and operations, and these are among them.
fn takes_away(filter: &Filter, resource: &ApiResource, operation: Operation) -> bool {
    let bare = Filter { kinds: filter.kinds.clone(), operations: filter.operations, ..Filter::default() };
    *filter == bare
        && (!filter.kinds.is_empty() || !filter.operations.is_empty())
        && (filter.operations.is_empty() || filter.operations.contains(operation))
        && (filter.kinds.is_empty() || filter.kinds.iter().any(|kind| kind.matches(&resource.as_resource())))
}
