//! `data`, in both modes.

use super::{ON_TRIGGER, SYNCHRONIZE, VALUE, base64, data_rule, stage};

#[test]
fn synchronized_data_follows_its_trigger_and_nobody_else() {
    let Some(stage) = stage("data-sync") else { return };
    stage.policy(&data_rule("out", SYNCHRONIZE));
    stage.trigger("a", "1");
    stage.becomes("secret", "out-a", VALUE, &base64("1"));

    // The trigger changes, with and without the target there.
    stage.trigger("a", "2");
    stage.becomes("secret", "out-a", VALUE, &base64("2"));

    // Users edit, add and delete; all of it is undone.
    stage.patch("secret", "out-a", r#"{"stringData": {"value": "mine"}}"#);
    stage.becomes("secret", "out-a", VALUE, &base64("2"));
    stage.patch(
        "secret",
        "out-a",
        r#"{"stringData": {"more": "mine"}, "metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}"#,
    );
    stage.becomes("secret", "out-a", ".data.more", "");
    stage.becomes("secret", "out-a", r".metadata.labels.app\.kubernetes\.io/managed-by", "kyverno");
    stage.delete("secret", "out-a");
    stage.becomes("secret", "out-a", VALUE, &base64("2"));

    // The trigger does not match any more, matches again, and goes.
    stage.patch("configmap", "a", r#"{"metadata": {"labels": {"make": "no"}}}"#);
    stage.disappears("secret", "out-a");
    stage.patch("configmap", "a", r#"{"metadata": {"labels": {"make": "yes"}}}"#);
    stage.becomes("secret", "out-a", VALUE, &base64("2"));
    stage.delete("configmap", "a");
    stage.disappears("secret", "out-a");
}

#[test]
fn one_shot_data_is_made_once() {
    let Some(stage) = stage("data-once") else { return };
    stage.policy(&data_rule("out", ""));
    stage.trigger("a", "1");
    stage.becomes("secret", "out-a", VALUE, &base64("1"));

    stage.trigger("a", "2");
    stage.patch("secret", "out-a", r#"{"stringData": {"more": "mine"}}"#);
    stage.fence();
    assert_eq!(stage.field("secret", "out-a", VALUE), Some(base64("1")), "a one-shot object stays as it was made");
    assert_eq!(stage.field("secret", "out-a", ".data.more"), Some(base64("mine")));

    stage.delete("secret", "out-a");
    stage.fence();
    stage.is_absent("secret", "out-a");
    // The next change of the trigger makes it again.
    stage.trigger("a", "3");
    stage.becomes("secret", "out-a", VALUE, &base64("3"));

    stage.patch("configmap", "a", r#"{"metadata": {"labels": {"make": "no"}}}"#);
    stage.fence();
    stage.is_there("secret", "out-a");
    stage.delete("configmap", "a");
    stage.fence();
    stage.is_there("secret", "out-a");
}

#[test]
fn what_is_there_is_adopted_or_left() {
    let Some(stage) = stage("adopt") else { return };
    for name in ["sync-a", "once-a"] {
        stage
            .ns
            .kubectl(["create", "secret", "generic", name, "--from-literal=value=foreign", "--from-literal=more=x"])
            .ok();
    }
    stage.policy(&(data_rule("sync", SYNCHRONIZE) + &data_rule("once", "")));
    stage.trigger("a", "1");
    stage.becomes("secret", "sync-a", VALUE, &base64("1"));
    assert_eq!(stage.field("secret", "sync-a", ".data.more"), Some(String::new()), "a replacement replaces all");
    stage.fence();
    assert_eq!(stage.field("secret", "once-a", VALUE), Some(base64("foreign")));
    assert_eq!(stage.field("secret", "once-a", ".metadata.labels"), Some(String::new()), "not even labelled");
}

#[test]
fn downstream_carries_the_labels_that_others_look_for() {
    let Some(stage) = stage("labels") else { return };
    let policy = stage.policy(&data_rule("out", SYNCHRONIZE));
    stage.trigger("a", "1");
    stage.appears("secret", "out-a");
    let labels = stage.field("secret", "out-a", ".metadata.labels").expect("there");
    let labels: serde_json::Value = serde_json::from_str(&labels).expect("labels are JSON");
    let uid = stage.field("configmap", "a", ".metadata.uid").expect("there");
    assert_eq!(
        labels,
        serde_json::json!({
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
fn preconditions_that_fail_take_only_their_own_rule_back() {
    let Some(stage) = stage("conditions") else { return };
    let conditional = data_rule("cond", SYNCHRONIZE)
        + r#"  preconditions: {all: [{key: "{{request.object.data.value}}", operator: NotEquals, value: "off"}]}"#
        + "\n";
    stage.policy(&(conditional + &data_rule("always", SYNCHRONIZE)));
    stage.trigger("a", "1");
    stage.appears("secret", "cond-a");
    stage.appears("secret", "always-a");
    stage.trigger("a", "off");
    stage.disappears("secret", "cond-a");
    stage.becomes("secret", "always-a", VALUE, &base64("off"));
    stage.trigger("a", "on");
    stage.becomes("secret", "cond-a", VALUE, &base64("on"));
}

#[test]
fn another_name_leaves_the_old_object() {
    let Some(stage) = stage("rename") else { return };
    let rule = |name: &str, more: &str| {
        format!(
            r#"
- name: {name}
  {ON_TRIGGER}
  generate:
    apiVersion: v1
    kind: Secret
    name: "{name}-{{{{request.object.data.value}}}}"
    namespace: NS
    synchronize: true
    data: {{stringData: {{value: "x"}}}}
    {more}
"#
        )
    };
    stage.policy(&rule("kept", ""));
    stage.trigger("a", "one");
    stage.appears("secret", "kept-one");
    stage.trigger("a", "two");
    stage.appears("secret", "kept-two");
    stage.fence();
    stage.is_there("secret", "kept-one");
    stage.delete("configmap", "a");
    stage.disappears("secret", "kept-one");
    stage.disappears("secret", "kept-two");
}

#[test]
fn stale_objects_are_pruned_where_the_policy_says_so() {
    let Some(stage) = stage("prune") else { return };
    let name = stage.ns.name.clone();
    stage.ns.owns("clusterpolicy", &name);
    stage.apply(&format!(
        r#"
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {{name: NS, annotations: {{writ.dev/prune: "true"}}}}
spec:
  rules:
    - name: each
      {ON_TRIGGER}
      generate:
        synchronize: true
        foreach:
          - list: "request.object.data.value | split(@, ',')"
            apiVersion: v1
            kind: Secret
            name: "each-{{{{element}}}}"
            namespace: NS
            data: {{stringData: {{value: "{{{{element}}}}"}}}}
"#
    ));
    stage.ready(&name);
    stage.trigger("a", "x,y,z");
    for element in ["x", "y", "z"] {
        stage.becomes("secret", &format!("each-{element}"), VALUE, &base64(element));
    }
    stage.trigger("a", "x,z");
    stage.disappears("secret", "each-y");
    stage.is_there("secret", "each-x");
}
