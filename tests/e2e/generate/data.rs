//! `data`: what the table of events does not show.

use serde_json::json;

use super::rules::{Policy, Rule, secret};
use super::{SOON, VALUE, base64, stage};
use crate::support::eventually;

#[test]
fn a_replacement_replaces_all_and_an_apply_leaves_what_others_own() {
    let Some(stage) = stage("adopt") else { return };
    for name in ["replace-a", "apply-a"] {
        let values = ["--from-literal=value=foreign", "--from-literal=more=x"];
        stage.ns.kubectl(["create", "secret", "generic", name].iter().chain(&values)).ok();
    }
    stage.policy(Rule::data("replace").synchronized());
    let apply = Policy::from(Rule::data("apply").synchronized()).with("useServerSideApply", json!(true));
    stage.policy(apply.named("NS-apply"));
    stage.trigger("a", "1");
    for name in ["replace-a", "apply-a"] {
        stage.becomes("secret", name, VALUE, &base64("1"));
    }
    assert_eq!(stage.field("secret", "replace-a", ".data.more"), Some(String::new()));
    assert_eq!(stage.field("secret", "apply-a", ".data.more"), Some(base64("x")));

    // Additions and taken labels are edits like any other.
    let edit = r#"{"stringData": {"more": "mine"}, "metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}"#;
    stage.patch("secret", "replace-a", edit);
    stage.becomes("secret", "replace-a", ".data.more", "");
    stage.becomes("secret", "replace-a", r".metadata.labels.app\.kubernetes\.io/managed-by", "kyverno");
}

#[test]
fn downstream_carries_the_labels_that_others_look_for() {
    let Some(stage) = stage("labels") else { return };
    let policy = stage.policy(Rule::data("out").synchronized());
    stage.trigger("a", "1");
    stage.appears("secret", "out-a");
    let labels = stage.field("secret", "out-a", ".metadata.labels").expect("there");
    let labels: serde_json::Value = serde_json::from_str(&labels).expect("labels are JSON");
    let uid = stage.field("configmap", "a", ".metadata.uid").expect("there");
    assert_eq!(
        labels,
        json!({
            "app.kubernetes.io/managed-by": "kyverno",
            "generate.kyverno.io/policy-name": policy,
            "generate.kyverno.io/policy-namespace": "",
            "generate.kyverno.io/rule-name": "out",
            "generate.kyverno.io/trigger-uid": uid,
            "generate.kyverno.io/trigger-group": "",
            "generate.kyverno.io/trigger-version": "v1",
            "generate.kyverno.io/trigger-kind": "ConfigMap",
            "generate.kyverno.io/trigger-namespace": stage.ns.name,
        })
    );
}

#[test]
fn stale_objects_are_pruned_where_the_policy_says_so() {
    let Some(stage) = stage("prune") else { return };
    let mut each = secret("each-{{element}}");
    each["data"] = json!({"stringData": {"value": "{{element}}"}});
    let named = Rule::data("named").making("name", json!("named-{{request.object.data.value | length(@)}}"));
    let rules = [Rule::foreach("each", each).synchronized(), named.synchronized()];
    stage.policy(Policy::from(rules).annotated("writ.dev/prune", "true"));
    stage.trigger("a", "x,y,z");
    for element in ["x", "y", "z"] {
        stage.becomes("secret", &format!("each-{element}"), VALUE, &base64(element));
    }
    stage.appears("secret", "named-5");
    stage.trigger("a", "x,z");
    stage.disappears("secret", "each-y");
    stage.disappears("secret", "named-5");
    stage.appears("secret", "named-3");
    stage.is_there("secret", "each-x");
}

/// What a rule draws by chance is drawn once for each trigger.
#[test]
fn chance_falls_once() {
    let Some(stage) = stage("chance") else { return };
    let drawn = json!({"stringData": {"value": "{{random('[a-z]{16}')}}"}});
    stage.policy(Rule::data("out").making("data", drawn).synchronized());
    stage.trigger("a", "1");
    stage.trigger("b", "1");
    stage.appears("secret", "out-a");
    stage.appears("secret", "out-b");
    let drawn = |name: &str| stage.field("secret", name, VALUE).expect("there");
    let (first, other) = (drawn("out-a"), drawn("out-b"));
    assert_ne!(first, other);
    stage.trigger("a", "2");
    stage.fence();
    assert_eq!(drawn("out-a"), first);
}

#[test]
fn dry_runs_tell_of_changes_and_ends() {
    let Some(stage) = stage("foretold") else { return };
    stage.policy(Rule::data("out").synchronized());
    stage.trigger("a", "1");
    stage.appears("secret", "out-a");
    let target = format!("v1 Secret {}/out-a", stage.ns.name);
    let tell = |command: &[&str], expected: &str| {
        eventually(SOON, expected, || {
            let answer = stage.ns.kubectl(command).run();
            let told = answer.stderr.contains(&format!("rule out: {expected} {target}"));
            if told { Ok(()) } else { Err(answer.stderr) }
        });
    };
    let patch = r#"{"data": {"value": "2"}}"#;
    tell(&["patch", "configmap", "a", "--type=merge", "-p", patch, "--dry-run=server"], "would update");
    tell(&["delete", "configmap", "a", "--dry-run=server"], "would delete");
    stage.fence();
    assert_eq!(stage.field("secret", "out-a", VALUE), Some(base64("1")), "a dry run changes nothing");
}
