//! What may change in a policy that is already there.
//!
//! Objects in the cluster carry the name of the rule that made them. A rule that suddenly means other triggers under its old
//! name would leave them behind unexplained, so its identity is fixed; a change of targets is allowed, with a warning.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::core::problem::{FieldPath, Problem, Reason};

/// What an update means for the objects that the old policy has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing that matters.
    Free,
    /// The targets of some rule are others now; the old ones are no longer followed.
    TargetsChanged { warning: String },
    /// A rule changed what must not change.
    Refused(Vec<Problem>),
}

const TARGETS_CHANGED: &str = "no synchronization will be performed to the old target resource upon policy updates; delete it or remove its labels by hand";

/// The two fingerprints of a generate rule.
struct Fingerprint<'p> {
    name: &'p str,
    index: usize,
    /// Target identity, clone and cloneList.
    targets: Value,
    /// Everything else: name, match, exclude, context, preconditions, skipBackgroundRequests.
    identity: Value,
}

/// Compares two versions of a policy, as documents.
pub fn compare(old: &Value, new: &Value) -> Change {
    let synchronized = rules(old).any(|(_, rule)| rule["generate"]["synchronize"] == true);
    let fingerprints = |policy| -> Vec<Fingerprint<'_>> {
        rules(policy).map(|(index, rule)| Fingerprint::of(index, rule, synchronized)).collect()
    };
    let (old, new) = (fingerprints(old), fingerprints(new));
    if old.iter().any(|old| new.iter().all(|new| new.targets != old.targets)) {
        return Change::TargetsChanged { warning: TARGETS_CHANGED.to_owned() };
    }
    // A rule with the same targets that was not there before is the old one, changed. If there is none, the old one was
    // removed, which is always allowed.
    let mut added: Vec<&Fingerprint<'_>> = new.iter().filter(|new| is_new(new, &old)).collect();
    let mut problems = Vec::new();
    for gone in old.iter().filter(|old| is_new(old, &new)) {
        let Some(position) = added.iter().position(|added| added.targets == gone.targets) else {
            continue;
        };
        let changed = added.swap_remove(position);
        let field = FieldPath::root().field("spec").field("rules").index(changed.index);
        let message = format!(
            "name, match (if a rule synchronizes), exclude, preconditions, context and skipBackgroundRequests of generate rule \
             `{}` cannot change; add a rule under another name with targets of its own",
            gone.name
        );
        problems.push(Problem::new(&field, Reason::Forbidden, message));
    }
    if problems.is_empty() { Change::Free } else { Change::Refused(problems) }
}

/// The rules that are in both versions under one name, but with other targets: what they made before is no longer theirs.
pub fn retargeted(old: &Value, new: &Value) -> BTreeSet<String> {
    let fingerprints = |policy| -> Vec<Fingerprint<'_>> {
        rules(policy).map(|(index, rule)| Fingerprint::of(index, rule, true)).collect()
    };
    let (old, new) = (fingerprints(old), fingerprints(new));
    let other = |old: &&Fingerprint<'_>| new.iter().any(|new| new.name == old.name && new.targets != old.targets);
    old.iter().filter(other).map(|rule| rule.name.to_owned()).collect()
}

fn is_new(rule: &Fingerprint<'_>, among: &[Fingerprint<'_>]) -> bool {
    among.iter().all(|other| other.identity != rule.identity)
}

/// The generate rules of a policy with their places.
fn rules(policy: &Value) -> impl Iterator<Item = (usize, &Map<String, Value>)> {
    let rules = policy.get("spec").and_then(|spec| spec.get("rules")).and_then(Value::as_array);
    let objects = rules.into_iter().flatten().enumerate().filter_map(|(index, rule)| Some((index, rule.as_object()?)));
    objects.filter(|(_, rule)| rule.get("generate").is_some_and(Value::is_object))
}

impl<'p> Fingerprint<'p> {
    fn of(index: usize, rule: &'p Map<String, Value>, synchronized: bool) -> Self {
        let mut identity = rule.clone();
        let mut targets = identity.remove("generate").unwrap_or_default();
        if !synchronized {
            identity.remove("match");
        }
        if let Value::Object(targets) = &mut targets {
            for free in ["data", "foreach", "synchronize", "orphanDownstreamOnPolicyDelete", "generateExisting"] {
                targets.remove(free);
            }
            for item in targets.get_mut("dataList").and_then(Value::as_array_mut).into_iter().flatten() {
                item.as_object_mut().map(|item| item.remove("data"));
            }
        }
        let name = rule.get("name").and_then(Value::as_str).unwrap_or_default();
        Self { name, index, targets, identity: Value::Object(identity) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(name: &str, generate: Value) -> Value {
        json!({"name": name, "match": {"any": [{"resources": {"kinds": ["Namespace"]}}]}, "generate": generate})
    }

    fn policy(rules: &[Value]) -> Value {
        json!({"spec": {"rules": rules}})
    }

    fn data(target: &str, body: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": target, "synchronize": true, "data": body})
    }

    #[test]
    fn bodies_and_switches_are_free() {
        let old = policy(&[rule("a", data("x", json!({"k": 1})))]);
        let mut generate = data("x", json!({"k": 2}));
        generate["synchronize"] = json!(false);
        generate["generateExisting"] = json!(true);
        assert_eq!(compare(&old, &policy(&[rule("a", generate)])), Change::Free);
        let lists = |body: u8| json!({"dataList": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "data": {"k": body}}]});
        assert_eq!(compare(&policy(&[rule("a", lists(1))]), &policy(&[rule("a", lists(2))])), Change::Free);
    }

    #[test]
    fn other_targets_are_allowed_with_the_known_warning() {
        let old = policy(&[rule("a", data("x", json!({})))]);
        let Change::TargetsChanged { warning } = compare(&old, &policy(&[rule("a", data("y", json!({})))])) else {
            panic!("a changed name is a changed target");
        };
        assert!(
            warning.starts_with("no synchronization will be performed to the old target resource upon policy updates")
        );
    }

    #[test]
    fn rules_with_other_targets_are_named() {
        let old = policy(&[rule("a", data("x", json!({"k": 1}))), rule("b", data("x", json!({})))]);
        let new = policy(&[rule("a", data("x", json!({"k": 2}))), rule("b", data("y", json!({})))]);
        assert_eq!(retargeted(&old, &new), BTreeSet::from(["b".to_owned()]));
        assert_eq!(retargeted(&old, &policy(&[])), BTreeSet::new());
    }

    #[test]
    fn the_rule_itself_is_fixed() {
        let old = policy(&[rule("a", data("x", json!({})))]);
        let mut changed = rule("a", data("x", json!({})));
        changed["match"]["any"][0]["resources"]["kinds"] = json!(["Secret"]);
        assert!(matches!(compare(&old, &policy(&[changed.clone()])), Change::Refused(_)));
        assert!(matches!(compare(&old, &policy(&[rule("b", data("x", json!({})))])), Change::Refused(_)));

        // Without a synchronized rule the match may change.
        let mut old = old;
        old["spec"]["rules"][0]["generate"]["synchronize"] = json!(false);
        assert_eq!(compare(&old, &policy(&[changed])), Change::Free);
    }

    #[test]
    fn rules_come_and_go() {
        let foreach = json!({"synchronize": true, "foreach": []});
        let both = policy(&[rule("a", foreach.clone()), rule("b", foreach.clone())]);
        let one = policy(&[rule("a", foreach)]);
        assert_eq!(compare(&both, &one), Change::Free);
        assert_eq!(compare(&one, &both), Change::Free);
        assert_eq!(compare(&json!({}), &one), Change::Free);
    }
}
