//! Rules for incoming traffic, by who calls. They are not merged: each names the match that it is for.

use std::sync::Arc;

use serde_json::Value;

use super::mesh_policy::MeshPolicy;
use super::order;
use super::outbound::RuleOrigin;

/// A rule of an inbound.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundRule {
    /// `None` holds for every caller.
    pub matches: Option<Arc<Value>>,
    pub conf: Arc<Value>,
    pub origin: RuleOrigin,
}

/// Builds the rules of policies that select an inbound. `from` stands for `rules` where it can only mean every caller.
pub fn build<'p>(policies: impl IntoIterator<Item = &'p MeshPolicy>) -> Vec<InboundRule> {
    let mut policies: Vec<&MeshPolicy> = policies.into_iter().filter(|policy| policy.kind.rules).collect();
    policies.sort_by_cached_key(|policy| order::inbound_key(policy));
    let mut rules = Vec::new();
    for policy in policies {
        let mut push = |matches: Option<&Arc<Value>>, conf: &Arc<Value>, index| {
            let origin = RuleOrigin { policy: policy.meta.clone(), index };
            rules.push(InboundRule { matches: matches.cloned(), conf: conf.clone(), origin });
        };
        for (index, entry) in policy.rules.iter().enumerate() {
            if entry.matches.is_empty() {
                push(None, &entry.conf, index);
            }
            entry.matches.iter().for_each(|one| push(Some(one), &entry.conf, index));
        }
        if policy.rules.is_empty() && policy.kind.from_as_rules {
            policy.from.iter().enumerate().for_each(|(index, entry)| push(None, &entry.conf, index));
        }
    }
    rules.sort_by_key(|rule| order::match_rank(rule.matches.as_deref()));
    rules
}
