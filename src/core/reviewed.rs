//! Which stored policies admission has reviewed: their annotation carries a code over what they say.
//!
//! The mutating webhook sets the annotation, whatever the client sent; the validating webhook checks the author before the
//! object is stored. A policy that was stored without Writ has no valid code, so it is unknown whether its author may do what
//! its rules do.

use serde_json::{Map, Value, json};

use super::integrity::{MacKey, MacPurpose};
use super::resource::{Gvk, is_ending, text_at};

/// Where the code is.
pub const REVIEWED: &str = "writ.dev/reviewed";

/// kubectl keeps a copy of the object here. The copy changes nothing about the policy.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Labels and annotations below these domains change what a policy does; all others are bookkeeping.
const DOMAINS: [&str; 3] = ["writ.dev", "kyverno.io", "kuma.io"];
/// Fields outside of a policy's content: the API server may serve it in another version, and status has its own path.
const OUTSIDE: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// Whether a stored policy, exception or global context entry runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewState {
    Reviewed,
    /// Its author is unknown, and the operator wants it to run all the same.
    UnreviewedRuns,
    Unreviewed,
    /// It is in the namespace of the install, which no policy may touch.
    InNamespaceOfInstall,
}

/// Decides which stored objects run.
#[derive(Clone, Debug)]
pub struct ReviewCheck {
    /// Without a key nothing counts as reviewed.
    pub key: Option<MacKey>,
    pub run_unreviewed: bool,
    /// The namespace of the install.
    pub namespace: String,
}

impl ReviewState {
    pub fn runs(self) -> bool {
        matches!(self, Self::Reviewed | Self::UnreviewedRuns)
    }

    pub fn is_unreviewed(self) -> bool {
        matches!(self, Self::Unreviewed | Self::UnreviewedRuns)
    }

    /// What an operator has to know; nothing about a reviewed object.
    pub fn notice(self) -> Option<&'static str> {
        match self {
            Self::Reviewed => None,
            Self::UnreviewedRuns => Some(
                "stored without a review of its author; runs because of --run-unreviewed-policies; update it to have it reviewed",
            ),
            Self::Unreviewed => {
                Some("stored without a review of its author; does not run; update it to have it reviewed")
            }
            Self::InNamespaceOfInstall => Some("does not run: policies in the namespace of the install never do"),
        }
    }
}

impl ReviewCheck {
    pub fn state(&self, object: &Value) -> ReviewState {
        if text_at(object, &["metadata", "namespace"]) == self.namespace && text_at(object, &["kind"]) == "Policy" {
            return ReviewState::InNamespaceOfInstall;
        }
        match self.key.as_ref().is_some_and(|key| is_reviewed(key, object)) {
            true => ReviewState::Reviewed,
            false if self.run_unreviewed => ReviewState::UnreviewedRuns,
            false => ReviewState::Unreviewed,
        }
    }
}

/// Whether admission has reviewed this object exactly as it is.
pub fn is_reviewed(key: &MacKey, object: &Value) -> bool {
    let code = annotation(object);
    !code.is_empty() && with_parts(object, |parts| key.verify(MacPurpose::ReviewedPolicy, parts, code))
}

/// The code of an object as it is.
pub fn code(key: &MacKey, object: &Value) -> String {
    with_parts(object, |parts| key.sign(MacPurpose::ReviewedPolicy, parts))
}

/// The annotation that the mutating webhook gives to an object; nothing if the object must not have one.
pub fn wanted_annotation(key: &MacKey, object: &Value, old: Option<&Value>) -> Option<String> {
    match old {
        // The author is not checked here: the update may only take a finalizer away. So the review stays what it was.
        Some(old) if is_bookkeeping_at_the_end(object, old) => {
            Some(annotation(old).to_owned()).filter(|code| !code.is_empty())
        }
        _ => Some(code(key, object)),
    }
}

/// Whether the update of a reviewed policy leaves its content as it is, so that the review still holds.
pub fn keeps_review(key: &MacKey, object: &Value, old: &Value) -> bool {
    is_reviewed(key, old) && content(object) == content(old)
}

/// Whether an object that is being deleted is updated without any change of content, labels or annotations. Whoever waits
/// for its end removes a finalizer this way, and nothing must prevent that.
pub fn is_bookkeeping_at_the_end(object: &Value, old: &Value) -> bool {
    let rest = |object: &Value| (fields(object), entries(object, "labels"), entries(object, "annotations"));
    is_ending(object) && rest(object) == rest(old)
}

/// The code that an object carries; empty if there is none.
pub fn annotation(object: &Value) -> &str {
    text_at(object, &["metadata", "annotations", REVIEWED])
}

fn with_parts<T>(object: &Value, read: impl FnOnce(&[&[u8]]) -> T) -> T {
    let Gvk { group, kind, .. } = Gvk::of(object);
    let content = content(object).to_string();
    let text = |field: &str| text_at(object, &["metadata", field]).as_bytes();
    read(&[group.as_bytes(), kind.as_bytes(), text("namespace"), text("name"), content.as_bytes()])
}

/// Everything that decides what the policy does. Keys are sorted, so equal content gives equal text.
fn content(object: &Value) -> Value {
    let of_policy = |field: &str| -> Map<String, Value> {
        entries(object, field).into_iter().filter(|(name, _)| is_setting(name)).collect()
    };
    json!({"labels": of_policy("labels"), "annotations": of_policy("annotations"), "fields": fields(object)})
}

fn fields(object: &Value) -> Map<String, Value> {
    let fields = object.as_object().into_iter().flatten().filter(|(name, _)| !OUTSIDE.contains(&name.as_str()));
    fields.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Labels or annotations, without the code itself and kubectl's copy.
fn entries(object: &Value, field: &str) -> Map<String, Value> {
    let all = object.pointer(&format!("/metadata/{field}")).and_then(Value::as_object).into_iter().flatten();
    let kept = all.filter(|(name, _)| *name != REVIEWED && *name != LAST_APPLIED);
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn is_setting(name: &str) -> bool {
    let domain = name.split_once('/').map_or("", |(domain, _)| domain);
    DOMAINS.iter().any(|known| domain.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> MacKey {
        MacKey::new(&[byte; 32]).expect("32 bytes")
    }

    fn policy() -> Value {
        json!({
            "apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy",
            "metadata": {"name": "p", "resourceVersion": "7", "annotations": {"note": "a", "writ.dev/prune": "true"}},
            "spec": {"rules": [{"name": "r"}]}, "status": {"ready": true},
        })
    }

    fn reviewed(mut object: Value) -> Value {
        object["metadata"]["annotations"][REVIEWED] = code(&key(1), &object).into();
        object
    }

    #[test]
    fn a_review_holds_for_what_was_reviewed() {
        let stored = reviewed(policy());
        assert!(is_reviewed(&key(1), &stored));
        assert!(!is_reviewed(&key(2), &stored), "another install");
        assert!(!is_reviewed(&key(1), &policy()), "no code");
        #[track_caller]
        fn check(stored: &Value, pointer: &str, value: Value, expected: bool) {
            let mut changed = stored.clone();
            *changed.pointer_mut(pointer).expect("a field") = value;
            assert_eq!(is_reviewed(&key(1), &changed), expected, "{pointer}");
        }
        for (pointer, value, expected) in [
            ("/spec/rules/0/name", json!("other"), false),
            ("/metadata/name", json!("q"), false),
            ("/metadata/annotations/writ.dev~1prune", json!("false"), false),
            ("/kind", json!("Policy"), false),
            ("/metadata/annotations/note", json!("b"), true),
            ("/metadata/resourceVersion", json!("8"), true),
            ("/status", json!({}), true),
            ("/apiVersion", json!("kyverno.io/v2beta1"), true),
        ] {
            check(&stored, pointer, value, expected);
        }
        let mut moved = stored.clone();
        moved["metadata"]["namespace"] = json!("a");
        assert!(!is_reviewed(&key(1), &moved), "a code is for one object");
        let mut labelled = stored;
        labelled["metadata"]["labels"] = json!({"kuma.io/policy-role": "system"});
        assert!(!is_reviewed(&key(1), &labelled), "labels of the mesh change what a policy does");
    }

    #[test]
    fn what_nobody_reviewed_runs_only_if_operators_say_so() {
        let check = |run_unreviewed: bool, key: Option<MacKey>, object: &Value| {
            ReviewCheck { key, run_unreviewed, namespace: "writ-system".into() }.state(object)
        };
        assert_eq!(check(false, Some(key(1)), &reviewed(policy())), ReviewState::Reviewed);
        assert_eq!(check(false, Some(key(1)), &policy()), ReviewState::Unreviewed);
        assert_eq!(check(true, Some(key(1)), &policy()), ReviewState::UnreviewedRuns);
        assert_eq!(check(false, None, &reviewed(policy())), ReviewState::Unreviewed);
        let mut inside = policy();
        inside["kind"] = json!("Policy");
        inside["metadata"]["namespace"] = json!("writ-system");
        assert_eq!(check(true, Some(key(1)), &reviewed(inside.clone())), ReviewState::InNamespaceOfInstall);
        inside["kind"] = json!("PolicyException");
        assert_eq!(check(false, Some(key(1)), &reviewed(inside)), ReviewState::Reviewed, "exceptions may live there");
    }

    #[test]
    fn settings_are_told_by_their_domain() {
        for (name, expected) in [
            ("kuma.io/mesh", true),
            ("k8s.kuma.io/namespace", true),
            ("pod-policies.kyverno.io/autogen-controllers", true),
            ("writ.dev/prune", true),
            ("notkuma.io/mesh", false),
            ("app.kubernetes.io/managed-by", false),
            ("team", false),
        ] {
            assert_eq!(is_setting(name), expected, "{name}");
        }
    }

    #[test]
    fn bookkeeping_keeps_a_review_and_gives_none() {
        let (old, mut new) = (reviewed(policy()), reviewed(policy()));
        new["metadata"]["finalizers"] = json!(["a"]);
        new["metadata"]["annotations"]["note"] = json!("b");
        assert!(keeps_review(&key(1), &new, &old));
        assert!(!keeps_review(&key(1), &new, &policy()), "nobody has reviewed the old one");
        new["spec"]["rules"] = json!([]);
        assert!(!keeps_review(&key(1), &new, &old));
    }

    #[test]
    fn the_end_of_an_unreviewed_policy_does_not_review_it() {
        let mut ending = policy();
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut forged = ending.clone();
        forged["metadata"]["annotations"][REVIEWED] = json!("00");
        assert!(is_bookkeeping_at_the_end(&forged, &ending));
        assert_eq!(wanted_annotation(&key(1), &forged, Some(&ending)), None);
        let mut changed = ending.clone();
        changed["spec"]["rules"] = json!([]);
        assert_eq!(wanted_annotation(&key(1), &changed, Some(&ending)), Some(code(&key(1), &changed)));
        let mut labelled = ending.clone();
        labelled["metadata"]["labels"] = json!({"team": "a"});
        assert!(!is_bookkeeping_at_the_end(&labelled, &ending), "any label counts");
        assert!(!is_bookkeeping_at_the_end(&policy(), &policy()), "only at the end");
    }
}
