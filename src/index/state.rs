//! The policies and exceptions that are there, each compiled once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{RuleEntry, Snapshot};
use crate::compile::generate as compile;
use crate::core::generate::progress::{seconds, version_of};
use crate::core::generate::{Exception, ExceptionKey, Policy, PolicyKey};
use crate::core::kinds::Scope;
use crate::core::problem::Problem;
use crate::core::resource::{Gvk, text_at};
use crate::core::reviewed::ReviewState;

/// Answers where a kind lives, if that is known.
type Scopes<'s> = &'s dyn Fn(&Gvk) -> Option<Scope>;

/// The state.
#[derive(Debug, Default)]
pub struct Index {
    policies: BTreeMap<PolicyKey, Arc<Indexed>>,
    exceptions: BTreeMap<ExceptionKey, Stored>,
}

/// One exception: what was written, and what became of it. One with problems excepts nothing.
#[derive(Debug)]
struct Stored {
    spec: Value,
    exception: Option<Arc<Exception>>,
}

/// One policy: what was written, and what became of it.
#[derive(Clone, Debug)]
pub struct Indexed {
    pub key: PolicyKey,
    pub uid: String,
    /// The resource version at which its content was first seen.
    pub version: u64,
    /// Seconds since 1970.
    pub created: i64,
    pub document: Arc<Value>,
    pub review: ReviewState,
    /// Absent if there are problems, or if it must not run without a review.
    pub policy: Option<Arc<Policy>>,
    pub problems: Vec<Problem>,
}

/// What an `apply` did.
#[derive(Clone, Debug)]
pub struct Transition {
    pub old: Option<Arc<Indexed>>,
    pub new: Arc<Indexed>,
    /// Whether the content is other than before; if not, only bookkeeping or status changed.
    pub changed: bool,
}

impl Index {
    /// Takes a policy as it is stored.
    pub fn apply(&mut self, mut document: Value, review: ReviewState, kinds: Scopes<'_>) -> Transition {
        if let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let key = key_of(&document);
        let old = self.policies.get(&key).cloned();
        let changed = old.as_ref().is_none_or(|old| old.review != review || is_other(&old.document, &document));
        let mut new = Arc::new(match &old {
            Some(old) if !changed => Indexed { document: Arc::new(document), ..Indexed::clone(old) },
            _ => Indexed::compile(key.clone(), document, review, kinds),
        });
        put_under(&mut new, sound(&self.exceptions));
        self.policies.insert(key, new.clone());
        Transition { old, new, changed }
    }

    pub fn delete(&mut self, key: &PolicyKey) -> Option<Arc<Indexed>> {
        self.policies.remove(key)
    }

    /// Keeps the named policies of one sort (with or without namespace), and gives the others.
    pub fn retain(&mut self, namespaced: bool, present: &BTreeSet<PolicyKey>) -> Vec<Arc<Indexed>> {
        let gone = |key: &PolicyKey| key.namespace.is_some() == namespaced && !present.contains(key);
        let keys: Vec<PolicyKey> = self.policies.keys().filter(|key| gone(key)).cloned().collect();
        keys.iter().filter_map(|key| self.policies.remove(key)).collect()
    }

    /// Takes an exception as it is stored; gives its problems and the rules for which something changes.
    pub fn except(&mut self, key: ExceptionKey, document: &Value) -> (Vec<Problem>, Vec<RuleEntry>) {
        match self.store_exception(key, document) {
            Some(problems) => (problems, self.settle_exceptions()),
            None => (Vec::new(), Vec::new()),
        }
    }

    /// Takes all exceptions as they are stored, in place of those that it knows; gives the problems of those that are new and
    /// the rules for which something changes.
    pub fn except_only(
        &mut self,
        documents: &BTreeMap<ExceptionKey, Value>,
    ) -> (Vec<(ExceptionKey, Problem)>, Vec<RuleEntry>) {
        self.exceptions.retain(|key, _| documents.contains_key(key));
        let mut problems = Vec::new();
        for (key, document) in documents {
            let found = self.store_exception(key.clone(), document).into_iter().flatten();
            problems.extend(found.map(|problem| (key.clone(), problem)));
        }
        (problems, self.settle_exceptions())
    }

    /// Its problems; nothing if it is known. No rule is put under it yet.
    fn store_exception(&mut self, key: ExceptionKey, document: &Value) -> Option<Vec<Problem>> {
        let spec = document.get("spec").cloned().unwrap_or_default();
        if self.exceptions.get(&key).is_some_and(|known| known.spec == spec) {
            return None;
        }
        let (exception, findings) = compile::exception(document);
        self.exceptions.insert(key, Stored { spec, exception: exception.map(Arc::new) });
        Some(findings.errors)
    }

    /// Forgets an exception; gives the rules for which something changes.
    pub fn unexcept(&mut self, key: &ExceptionKey) -> Vec<RuleEntry> {
        match self.exceptions.remove(key) {
            Some(_) => self.settle_exceptions(),
            None => Vec::new(),
        }
    }

    /// Puts every rule under the exceptions that are for it; gives those for which they are other than before.
    fn settle_exceptions(&mut self) -> Vec<RuleEntry> {
        let exceptions = sound(&self.exceptions);
        self.policies.values_mut().flat_map(|indexed| put_under(indexed, exceptions.clone())).collect()
    }

    /// Compiles everything anew: other kinds are known now. Gives the policies that have other problems than before.
    pub fn recompile(&mut self, kinds: Scopes<'_>) -> Vec<Arc<Indexed>> {
        let mut others = Vec::new();
        for indexed in self.policies.values_mut() {
            let anew = Indexed::compile(indexed.key.clone(), Value::clone(&indexed.document), indexed.review, kinds);
            let anew = Arc::new(Indexed { version: indexed.version, ..anew });
            if anew.problems != indexed.problems {
                others.push(anew.clone());
            }
            *indexed = anew;
        }
        self.settle_exceptions();
        others
    }

    pub fn get(&self, key: &PolicyKey) -> Option<&Arc<Indexed>> {
        self.policies.get(key)
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(Snapshot::new(self.policies.clone()))
    }
}

impl Indexed {
    fn compile(key: PolicyKey, document: Value, review: ReviewState, kinds: Scopes<'_>) -> Self {
        let (policy, findings) = compile::policy_among(&document, kinds);
        Self {
            key,
            uid: text_at(&document, &["metadata", "uid"]).to_owned(),
            version: version_of(&document),
            created: seconds(text_at(&document, &["metadata", "creationTimestamp"])),
            review,
            policy: policy.filter(|_| review.runs()).map(Arc::new),
            problems: findings.errors,
            document: Arc::new(document),
        }
    }
}

/// The key of a policy document.
fn key_of(document: &Value) -> PolicyKey {
    let namespace = text_at(document, &["metadata", "namespace"]);
    PolicyKey {
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: text_at(document, &["metadata", "name"]).to_owned(),
    }
}

fn sound(exceptions: &BTreeMap<ExceptionKey, Stored>) -> impl Iterator<Item = &Arc<Exception>> + Clone {
    exceptions.values().filter_map(|stored| stored.exception.as_ref())
}

/// Puts the rules of a policy under exceptions; gives those for which they are other than before.
fn put_under<'e>(
    indexed: &mut Arc<Indexed>,
    exceptions: impl Iterator<Item = &'e Arc<Exception>> + Clone,
) -> Vec<RuleEntry> {
    let Some(before) = &indexed.policy else { return Vec::new() };
    let after = Arc::new(before.under(exceptions));
    let pairs = before.rules.iter().zip(&after.rules).filter(|(before, after)| !Arc::ptr_eq(before, after));
    let touched: Vec<RuleEntry> =
        pairs.map(|(_, rule)| RuleEntry { policy: after.clone(), rule: rule.clone() }).collect();
    if !touched.is_empty() {
        *indexed = Arc::new(Indexed { policy: Some(after), ..Indexed::clone(indexed) });
    }
    touched
}

fn is_other(old: &Value, new: &Value) -> bool {
    let part = |document: &Value, pointer: &str| document.pointer(pointer).cloned();
    ["/spec", "/metadata/annotations", "/metadata/uid"].iter().any(|pointer| part(old, pointer) != part(new, pointer))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::kinds;

    fn policy(name: &str, target: &str, version: &str) -> Value {
        json!({
            "apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy",
            "metadata": {"name": name, "uid": "u", "resourceVersion": version, "managedFields": [1]},
            "spec": {"rules": [{
                "name": "r",
                "match": {"any": [{"resources": {"kinds": ["Namespace"]}}]},
                "generate": {"apiVersion": "v1", "kind": "ConfigMap", "name": target, "namespace": "a", "data": {}},
            }]},
        })
    }

    fn apply(index: &mut Index, document: Value) -> Transition {
        reviewed_as(index, document, ReviewState::Reviewed)
    }

    fn reviewed_as(index: &mut Index, document: Value, review: ReviewState) -> Transition {
        index.apply(document, review, &|gvk| kinds::find(&gvk.group, &gvk.kind).map(|row| row.scope))
    }

    #[test]
    fn status_is_no_change() {
        let mut index = Index::default();
        assert!(apply(&mut index, policy("p", "x", "1")).changed);
        let mut again = policy("p", "x", "2");
        again["status"] = json!({"conditions": []});
        let transition = apply(&mut index, again);
        assert!(!transition.changed);
        assert_eq!(transition.new.version, 1, "the version of the content");
        assert!(transition.new.document.get("status").is_some());
        assert!(apply(&mut index, policy("p", "y", "3")).changed);
    }

    #[test]
    fn a_review_is_a_change() {
        let mut index = Index::default();
        let stored = reviewed_as(&mut index, policy("p", "x", "1"), ReviewState::Unreviewed);
        assert!(stored.new.policy.is_none() && stored.new.problems.is_empty());
        assert_eq!(index.snapshot().rules().count(), 0);
        assert!(!reviewed_as(&mut index, policy("p", "x", "2"), ReviewState::Unreviewed).changed);
        assert!(reviewed_as(&mut index, policy("p", "x", "3"), ReviewState::Reviewed).changed);
        assert_eq!(index.snapshot().rules().count(), 1);
        assert!(reviewed_as(&mut index, policy("p", "x", "4"), ReviewState::UnreviewedRuns).changed);
        assert_eq!(index.snapshot().rules().count(), 1, "the operator wants it to run");
    }

    #[test]
    fn a_bad_policy_is_set_aside() {
        let mut index = Index::default();
        let mut bad = policy("bad", "x", "1");
        bad["spec"]["rules"][0]["generate"]["nonsense"] = json!(1);
        let transition = apply(&mut index, bad);
        assert!(transition.new.policy.is_none() && !transition.new.problems.is_empty());
        apply(&mut index, policy("good", "x", "1"));
        assert_eq!(index.snapshot().rules().count(), 1);
    }

    fn exception(policy: &str) -> Value {
        json!({
            "apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": {"name": "e", "namespace": "a"},
            "spec": {
                "exceptions": [{"policyName": policy, "ruleNames": ["*"]}],
                "match": {"any": [{"resources": {"kinds": ["Namespace"]}}]},
            },
        })
    }

    #[test]
    fn exceptions_touch_the_rules_that_they_are_for() {
        let mut index = Index::default();
        apply(&mut index, policy("p", "x", "1"));
        apply(&mut index, policy("q", "x", "1"));
        let key = ExceptionKey { namespace: "a".into(), name: "e".into() };
        let rule = |index: &Index, policy: &str| {
            let key = PolicyKey { namespace: None, name: policy.into() };
            index.snapshot().rule(&key, "r").expect("a rule").rule
        };
        let touched = |touched: Vec<RuleEntry>| -> Vec<String> {
            touched.iter().map(|entry| entry.policy.key.to_string()).collect()
        };
        let (p, q) = (rule(&index, "p"), rule(&index, "q"));
        assert_eq!(touched(index.except(key.clone(), &exception("p")).1), ["p"]);
        assert!(!Arc::ptr_eq(&p, &rule(&index, "p")) && Arc::ptr_eq(&q, &rule(&index, "q")));
        assert_eq!(rule(&index, "p").exceptions.len(), 1);
        assert_eq!(index.except(key.clone(), &exception("p")).1.len(), 0, "nothing is new");
        assert_eq!(touched(index.except(key.clone(), &exception("*")).1), ["p", "q"], "the one of p is another now");

        apply(&mut index, policy("late", "x", "1"));
        assert_eq!(rule(&index, "late").exceptions.len(), 1, "policies may come after their exceptions");
        let mut bad = exception("*");
        bad["spec"]["match"] = json!({});
        let (problems, rules) = index.except(key.clone(), &bad);
        assert_eq!((problems.len(), rules.len()), (1, 3), "it excepts nothing any more");
        index.except(key.clone(), &exception("late"));
        assert_eq!(touched(index.except_only(&BTreeMap::new()).1), ["late"]);
        assert_eq!(index.unexcept(&key).len(), 0);
    }

    #[test]
    fn a_list_of_exceptions_touches_a_rule_once() {
        let mut index = Index::default();
        apply(&mut index, policy("p", "x", "1"));
        let key = |name: &str| ExceptionKey { namespace: "a".into(), name: name.into() };
        index.except(key("gone"), &exception("p"));
        let mut bad = exception("p");
        bad["spec"]["match"] = json!({});
        let listed = BTreeMap::from([(key("a"), exception("p")), (key("b"), exception("*")), (key("c"), bad)]);
        let (problems, touched) = index.except_only(&listed);
        assert_eq!(problems.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>(), ["a/c"]);
        let excepted = touched.iter().map(|entry| entry.rule.exceptions.len()).collect::<Vec<_>>();
        assert_eq!(excepted, [2], "one rule, under both at once");
        let (problems, touched) = index.except_only(&listed);
        assert_eq!((problems.len(), touched.len()), (0, 0), "nothing is new");
    }

    #[test]
    fn a_new_list_says_what_is_gone() {
        let mut index = Index::default();
        apply(&mut index, policy("a", "x", "1"));
        apply(&mut index, policy("b", "x", "1"));
        let present = BTreeSet::from([PolicyKey { namespace: None, name: "a".into() }]);
        assert_eq!(index.retain(true, &BTreeSet::new()).len(), 0, "the other sort");
        let gone: Vec<_> = index.retain(false, &present).iter().map(|gone| gone.key.to_string()).collect();
        assert_eq!(gone, ["b"]);
    }
}
