//! What readers see: every compiled rule, found by kind or by name, and what has to be watched for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Indexed;
use crate::core::generate::{Mode, Output, Policy, PolicyKey, Reach, Rule, Targets, Way};
use crate::core::matching::{KindIndex, KindSelector, Resource};
use crate::core::resource::Gvk;

/// Everything, at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    policies: BTreeMap<PolicyKey, Arc<Indexed>>,
    rules: KindIndex<RuleEntry>,
}

/// A rule in its policy.
#[derive(Clone, Debug)]
pub struct RuleEntry {
    pub policy: Arc<Policy>,
    pub rule: Arc<Rule>,
}

/// What has to be watched, in the words of the policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    pub triggers: BTreeSet<(KindSelector, Option<String>)>,
    pub downstream: BTreeSet<(Gvk, Option<String>)>,
    pub sources: BTreeSet<(Gvk, Option<String>)>,
}

impl Snapshot {
    pub(super) fn new(policies: BTreeMap<PolicyKey, Arc<Indexed>>) -> Self {
        let mut rules = KindIndex::default();
        for policy in policies.values().filter_map(|indexed| indexed.policy.as_ref()) {
            for rule in &policy.rules {
                rules.insert(&rule.matching.matching, RuleEntry { policy: policy.clone(), rule: rule.clone() });
            }
        }
        Self { policies, rules }
    }

    /// The rules with a kind selector for this resource.
    pub fn candidates(&self, resource: &Resource<'_>) -> impl Iterator<Item = &RuleEntry> {
        self.rules.candidates(resource)
    }

    pub fn policy(&self, key: &PolicyKey) -> Option<&Arc<Indexed>> {
        self.policies.get(key)
    }

    pub fn policies(&self) -> impl Iterator<Item = &Arc<Indexed>> {
        self.policies.values()
    }

    pub fn rule(&self, policy: &PolicyKey, rule: &str) -> Option<RuleEntry> {
        let policy = self.policies.get(policy)?.policy.as_ref()?;
        let rule = policy.rules.iter().find(|found| found.name == rule)?;
        Some(RuleEntry { policy: policy.clone(), rule: rule.clone() })
    }

    pub fn rules(&self) -> impl Iterator<Item = RuleEntry> {
        let policies = self.policies.values().filter_map(|indexed| indexed.policy.as_ref());
        policies.flat_map(|policy| {
            policy.rules.iter().map(move |rule| RuleEntry { policy: policy.clone(), rule: rule.clone() })
        })
    }

    pub fn wants(&self) -> Wants {
        let mut wants = Wants::default();
        for RuleEntry { rule, .. } in self.rules() {
            let within = match &rule.reach {
                Reach::Cluster => None,
                Reach::Namespace(namespace) => Some(namespace.clone()),
            };
            // A one-shot rule that hears of its triggers through admission has nothing to look out for.
            if rule.synchronize || rule.way() == Way::Watch {
                let kinds = rule.matching.matching.kinds().filter(|kind| kind.subresource.is_empty());
                wants.triggers.extend(kinds.map(|kind| (kind.clone(), within.clone())));
            }
            if rule.synchronize {
                for (mode, gvk) in target_kinds(&rule) {
                    if mode != Mode::Data {
                        wants.sources.insert((gvk.clone(), within.clone()));
                    }
                    wants.downstream.insert((gvk, within.clone()));
                }
            }
        }
        wants
    }
}

/// The kinds that a rule writes, as far as they are known before it runs.
fn target_kinds(rule: &Rule) -> Vec<(Mode, Gvk)> {
    let outputs: Vec<&Output> = match &rule.targets {
        Targets::Once(output) => vec![output],
        Targets::Foreach(loops) => loops.iter().map(|entry| &entry.output).collect(),
    };
    let kinds = outputs.into_iter().flat_map(|output| {
        let patterns = output.patterns().iter().flat_map(|pattern| &pattern.kinds);
        patterns.map(move |kind| (output.mode(), &kind.api_version, kind.kind.split('/').next().unwrap_or_default()))
    });
    let fixed = kinds.filter(|(_, version, kind)| !version.contains("{{") && !kind.contains("{{") && !kind.is_empty());
    fixed.map(|(mode, version, kind)| (mode, Gvk::new(version, kind))).collect()
}
