//! Evaluations that have panicked. That is a fault of Writ; asked the same again, it would panic again, so a rule is not asked
//! about a trigger until one of them has changed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::work::identity;
use crate::core::generate::progress::version_of;
use crate::core::generate::{PolicyKey, Rule, Trigger, TriggerRef};
use crate::index::Snapshot;

/// Beyond that the list starts anew: it saves work, and is not needed to be safe.
const MOST: usize = 10_000;

/// The list of them.
#[derive(Default)]
pub(super) struct Panics(Mutex<BTreeMap<Asked, Versions>>);

/// A rule and a trigger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    policy: PolicyKey,
    rule: String,
    trigger: String,
}

/// As they were: the generation of the policy and the resource version of the trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Versions {
    policy: u64,
    trigger: u64,
}

impl Panics {
    pub(super) fn add(&self, snapshot: &Snapshot, rule: &Rule, trigger: &Trigger) {
        let mut list = self.list();
        if list.len() >= MOST {
            list.clear();
        }
        list.insert(asked(rule, trigger), versions(snapshot, rule, trigger));
    }

    /// Whether this very question led to a panic.
    pub(super) fn contain(&self, snapshot: &Snapshot, rule: &Rule, trigger: &Trigger) -> bool {
        let mut list = self.list();
        // Almost always.
        if list.is_empty() {
            return false;
        }
        let asked = asked(rule, trigger);
        match list.get(&asked) {
            Some(known) if *known == versions(snapshot, rule, trigger) => true,
            Some(_) => {
                list.remove(&asked);
                false
            }
            None => false,
        }
    }

    /// A rule of the policy that has panicked since the policy was last changed.
    pub(super) fn of(&self, snapshot: &Snapshot, policy: &PolicyKey) -> Option<String> {
        let generation = generation(snapshot, policy);
        let list = self.list();
        let mut found =
            list.iter().filter(|(asked, versions)| asked.policy == *policy && versions.policy == generation);
        found.next().map(|(asked, _)| asked.rule.clone())
    }

    fn list(&self) -> MutexGuard<'_, BTreeMap<Asked, Versions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn asked(rule: &Rule, trigger: &Trigger) -> Asked {
    let trigger = object(trigger).map(|object| identity(&TriggerRef::of(object))).unwrap_or_default();
    Asked { policy: rule.policy.clone(), rule: rule.name.clone(), trigger }
}

fn versions(snapshot: &Snapshot, rule: &Rule, trigger: &Trigger) -> Versions {
    Versions {
        policy: generation(snapshot, &rule.policy),
        trigger: object(trigger).map(version_of).unwrap_or_default(),
    }
}

fn object(trigger: &Trigger) -> Option<&Value> {
    trigger.object().or_else(|| trigger.old_object())
}

fn generation(snapshot: &Snapshot, policy: &PolicyKey) -> u64 {
    let document = snapshot.policy(policy).map(|indexed| &indexed.document);
    document.and_then(|document| document.pointer("/metadata/generation")?.as_u64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::core::generate::{Evaluation, Facts, InstallBounds, evaluate};
    use crate::core::kinds;
    use crate::core::reviewed::ReviewState;
    use crate::index::Index;

    fn snapshot(generation: u64, call: &str) -> Arc<Snapshot> {
        let rule = |name: &str, value: &str| {
            json!({
                "name": name,
                "match": {"any": [{"resources": {"kinds": ["Namespace"]}}]},
                "generate": {
                    "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": "a",
                    "data": {"data": {"k": value}},
                },
            })
        };
        let document = json!({
            "apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy",
            "metadata": {"name": "p", "uid": "u", "resourceVersion": "1", "generation": generation},
            "spec": {"rules": [rule("bad", call), rule("good", "v")]},
        });
        let mut index = Index::default();
        index.apply(document, ReviewState::Reviewed, &|gvk| kinds::find(&gvk.group, &gvk.kind).map(|row| row.scope));
        index.snapshot()
    }

    fn trigger(version: &str) -> Trigger {
        let metadata = json!({"name": "hidden", "uid": "u", "resourceVersion": version});
        Trigger::background(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
    }

    #[test]
    fn a_panic_ends_one_evaluation_and_is_not_repeated() {
        let key = PolicyKey { namespace: None, name: "p".to_owned() };
        let facts = Facts::new(Timestamp::UNIX_EPOCH, 0, InstallBounds::offline());
        let call = "{{ panic_in_test(request.object.metadata.name) }}";
        let first = snapshot(1, call);
        let (bad, good) =
            (first.rule(&key, "bad").expect("a rule").rule, first.rule(&key, "good").expect("a rule").rule);
        let error = evaluate(&bad, &trigger("1"), &facts).expect_err("a panic");
        assert!(error.is_panic() && error.to_string().contains("rule bad"), "{error}");
        assert!(matches!(evaluate(&good, &trigger("1"), &facts), Ok(Evaluation::Done(_))));

        let panics = Panics::default();
        assert!(!panics.contain(&first, &bad, &trigger("1")));
        panics.add(&first, &bad, &trigger("1"));
        assert_eq!(panics.of(&first, &key).as_deref(), Some("bad"));
        assert!(panics.contain(&first, &bad, &trigger("1")));
        assert!(!panics.contain(&first, &good, &trigger("1")));
        let second = snapshot(2, call);
        assert_eq!(panics.of(&second, &key), None, "the policy has changed");
        assert!(!panics.contain(&second, &bad, &trigger("1")), "the policy has changed");
        panics.add(&first, &bad, &trigger("1"));
        assert!(!panics.contain(&first, &bad, &trigger("2")), "the trigger has changed");
    }
}
