//! What becomes of downstream when policies change.

use super::{ON_TRIGGER, SYNCHRONIZE, Stage, VALUE, base64, data_rule, stage};

fn clone_rule(name: &str) -> String {
    format!(
        r#"
- name: {name}
  {ON_TRIGGER}
  generate:
    apiVersion: v1
    kind: Secret
    name: "{name}-{{{{request.object.metadata.name}}}}"
    namespace: NS
    synchronize: true
    clone: {{namespace: NS, name: source}}
"#
    )
}

fn source(stage: &Stage<'_>) {
    stage.ns.kubectl(["create", "secret", "generic", "source", "--from-literal=value=1"]).ok();
}

#[test]
fn a_deleted_policy_takes_data_with_it() {
    let Some(stage) = stage("policy-gone") else { return };
    source(&stage);
    let orphan = data_rule("orphan", "synchronize: true\n    orphanDownstreamOnPolicyDelete: true");
    let rules = data_rule("sync", SYNCHRONIZE) + &data_rule("once", "") + &orphan + &clone_rule("copy");
    let policy = stage.policy(&rules);
    stage.trigger("a", "1");
    for name in ["sync-a", "once-a", "orphan-a", "copy-a"] {
        stage.appears("secret", name);
    }
    stage.delete("clusterpolicy", &policy);
    stage.disappears("secret", "sync-a");
    stage.fence();
    for name in ["once-a", "orphan-a", "copy-a"] {
        stage.is_there("secret", name);
    }

    // A policy of that name finds what is left, and keeps it in step again.
    stage.policy(&rules);
    stage.fence();
    stage.patch("secret", "orphan-a", r#"{"stringData": {"value": "mine"}}"#);
    stage.becomes("secret", "orphan-a", VALUE, &base64("1"));
}

#[test]
fn a_removed_rule_takes_its_data_with_it() {
    let Some(stage) = stage("rule-gone") else { return };
    source(&stage);
    let rules = data_rule("stays", SYNCHRONIZE) + &data_rule("goes", SYNCHRONIZE) + &clone_rule("copy");
    stage.policy(&rules);
    stage.trigger("a", "1");
    for name in ["stays-a", "goes-a", "copy-a"] {
        stage.appears("secret", name);
    }
    stage.policy(&data_rule("stays", SYNCHRONIZE));
    stage.disappears("secret", "goes-a");
    stage.fence();
    stage.is_there("secret", "stays-a");
    stage.is_there("secret", "copy-a");
}

#[test]
fn changed_data_reaches_every_object_at_once() {
    let Some(stage) = stage("data-changed") else { return };
    let rule = |value: &str| {
        let rule = |name: &str, more: &str| data_rule(name, more).replace("{{request.object.data.value}}", value);
        rule("sync", SYNCHRONIZE) + &rule("once", "")
    };
    stage.policy(&rule("first"));
    for name in ["a", "b"] {
        stage.trigger(name, "x");
        stage.becomes("secret", &format!("sync-{name}"), VALUE, &base64("first"));
        stage.appears("secret", &format!("once-{name}"));
    }
    stage.policy(&rule("second"));
    for name in ["a", "b"] {
        stage.becomes("secret", &format!("sync-{name}"), VALUE, &base64("second"));
    }
    stage.fence();
    assert_eq!(stage.field("secret", "once-a", VALUE), Some(base64("first")));
}

#[test]
fn other_targets_set_the_old_ones_free() {
    let Some(stage) = stage("retarget") else { return };
    stage.policy(&data_rule("out", SYNCHRONIZE));
    stage.trigger("a", "1");
    stage.appears("secret", "out-a");
    stage.policy(&data_rule("out", SYNCHRONIZE).replace("\"out-", "\"new-"));
    stage.becomes("secret", "out-a", r".metadata.labels.generate\.kyverno\.io/rule-name", "");
    let manager = r".metadata.labels.app\.kubernetes\.io/managed-by";
    assert_eq!(stage.field("secret", "out-a", manager).as_deref(), Some("kyverno"), "the other labels stay");
    stage.fence();
    stage.is_absent("secret", "new-a");
    stage.trigger("a", "2");
    stage.becomes("secret", "new-a", VALUE, &base64("2"));
    stage.delete("configmap", "a");
    stage.disappears("secret", "new-a");
    stage.fence();
    stage.is_there("secret", "out-a");
}

#[test]
fn the_mode_can_change() {
    let Some(stage) = stage("mode") else { return };
    stage.policy(&data_rule("out", ""));
    stage.trigger("a", "1");
    stage.appears("secret", "out-a");
    stage.patch("secret", "out-a", r#"{"stringData": {"value": "mine"}}"#);
    stage.policy(&data_rule("out", SYNCHRONIZE));
    stage.becomes("secret", "out-a", VALUE, &base64("1"));
    stage.policy(&data_rule("out", ""));
    stage.fence();
    stage.patch("secret", "out-a", r#"{"stringData": {"value": "mine"}}"#);
    stage.fence();
    assert_eq!(stage.field("secret", "out-a", VALUE), Some(base64("mine")));
}

#[test]
fn existing_triggers_count_where_the_rule_says_so() {
    let Some(stage) = stage("existing") else { return };
    stage.trigger("a", "1");
    let existing = "generateExisting: true";
    let rules = data_rule("new", SYNCHRONIZE)
        + &data_rule("old", &format!("{SYNCHRONIZE}\n    {existing}"))
        + &data_rule("once", existing);
    stage.policy(&rules);
    stage.becomes("secret", "old-a", VALUE, &base64("1"));
    stage.becomes("secret", "once-a", VALUE, &base64("1"));
    stage.fence();
    stage.is_absent("secret", "new-a");
    stage.trigger("a", "2");
    stage.becomes("secret", "new-a", VALUE, &base64("2"));
}

#[test]
fn a_bad_policy_is_set_aside_and_says_why() {
    let Some(stage) = stage("bad") else { return };
    let name = stage.ns.name.clone();
    stage.ns.owns("clusterpolicy", &name);
    let bad = data_rule("out", "synchronise: true");
    let yaml = format!(
        "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {{name: NS}}\nspec:\n  rules:\n{}",
        super::indent(&bad)
    );
    // Where the webhook is not asked for policies, the status tells.
    let answer = stage.ns.kubectl(["apply", "-f", "-"]).stdin(&yaml.replace("NS", &name)).run();
    if answer.success {
        stage.becomes("clusterpolicy", &name, ".status.conditions[*].status", "False");
    } else {
        assert!(answer.stderr.contains("synchronise"), "{}", answer.stderr);
    }
}

#[test]
fn a_namespaced_policy_stays_at_home() {
    let Some(stage) = stage("policy-ns") else { return };
    stage.apply(&format!(
        "apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {{name: home, namespace: NS}}\nspec:\n  rules:\n{}",
        super::indent(&data_rule("out", SYNCHRONIZE).replace(", namespaces: [NS]", ""))
    ));
    stage.becomes("policies.kyverno.io", "home", ".status.conditions[*].status", "True");
    let elsewhere = stage.cluster.namespace("elsewhere");
    elsewhere.kubectl(["create", "configmap", "b"]).ok();
    elsewhere.kubectl(["label", "configmap", "b", "make=yes"]).ok();
    stage.trigger("a", "1");
    stage.becomes("secret", "out-a", VALUE, &base64("1"));
    let label = r".metadata.labels.generate\.kyverno\.io/policy-namespace";
    assert_eq!(stage.field("secret", "out-a", label).as_deref(), Some(stage.ns.name.as_str()));
    stage.fence();
    stage.is_absent("secret", "out-b");
    stage.delete("policies.kyverno.io", "home");
    stage.disappears("secret", "out-a");
}
