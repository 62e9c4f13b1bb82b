//! `clone` and `cloneList` by kinds, in both modes.

use super::{ON_TRIGGER, Stage, VALUE, base64, stage};

fn source(stage: &Stage<'_>, name: &str, value: &str) {
    stage.apply(&format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: {name}, labels: {{copy: \"yes\"}}}}, stringData: {{value: \"{value}\"}}}}"
    ));
}

/// Copies Secret `source` to `NAME-TRIGGER`.
fn clone_rule(name: &str, more: &str) -> String {
    format!(
        r#"
- name: {name}
  {ON_TRIGGER}
  generate:
    apiVersion: v1
    kind: Secret
    name: "{name}-{{{{request.object.metadata.name}}}}"
    namespace: NS
    clone: {{namespace: NS, name: source}}
    {more}
"#
    )
}

#[test]
fn synchronized_clones_follow_their_source() {
    let Some(stage) = stage("clone-sync") else { return };
    source(&stage, "source", "1");
    stage.policy(&clone_rule("copy", "synchronize: true"));
    stage.trigger("a", "x");
    stage.becomes("secret", "copy-a", VALUE, &base64("1"));
    stage.becomes("secret", "source", r".metadata.labels.generate\.kyverno\.io/clone-source", "");
    let (uid, label) =
        (stage.field("secret", "source", ".metadata.uid"), r".metadata.labels.generate\.kyverno\.io/source-uid");
    assert_eq!(stage.field("secret", "copy-a", label), uid);

    source(&stage, "source", "2");
    stage.becomes("secret", "copy-a", VALUE, &base64("2"));
    stage.patch("secret", "copy-a", r#"{"stringData": {"value": "mine"}}"#);
    stage.becomes("secret", "copy-a", VALUE, &base64("2"));
    stage.delete("secret", "copy-a");
    stage.becomes("secret", "copy-a", VALUE, &base64("2"));

    stage.delete("secret", "source");
    stage.disappears("secret", "copy-a");
    // A new source is not the old one: the next event of the trigger counts.
    source(&stage, "source", "3");
    stage.fence();
    stage.is_absent("secret", "copy-a");
    stage.trigger("a", "y");
    stage.becomes("secret", "copy-a", VALUE, &base64("3"));
    stage.delete("configmap", "a");
    stage.disappears("secret", "copy-a");
}

#[test]
fn one_shot_clones_stay_as_they_are() {
    let Some(stage) = stage("clone-once") else { return };
    source(&stage, "source", "1");
    stage.policy(&clone_rule("copy", ""));
    stage.trigger("a", "x");
    stage.becomes("secret", "copy-a", VALUE, &base64("1"));
    source(&stage, "source", "2");
    stage.fence();
    assert_eq!(stage.field("secret", "copy-a", VALUE), Some(base64("1")));
    stage.delete("secret", "source");
    stage.fence();
    stage.is_there("secret", "copy-a");
    stage.delete("configmap", "a");
    stage.fence();
    stage.is_there("secret", "copy-a");
}

#[test]
fn a_source_that_is_itself_generated_is_followed() {
    let Some(stage) = stage("clone-chain") else { return };
    source(&stage, "source", "1");
    let second = format!(
        r#"
- name: second
  {ON_TRIGGER}
  generate:
    apiVersion: v1
    kind: Secret
    name: "second-{{{{request.object.metadata.name}}}}"
    namespace: NS
    synchronize: true
    clone: {{namespace: NS, name: "copy-{{{{request.object.metadata.name}}}}"}}
"#
    );
    stage.policy(&(clone_rule("copy", "synchronize: true") + &second));
    stage.trigger("a", "x");
    stage.becomes("secret", "copy-a", VALUE, &base64("1"));
    stage.becomes("secret", "second-a", VALUE, &base64("1"));
    source(&stage, "source", "2");
    stage.becomes("secret", "copy-a", VALUE, &base64("2"));
    stage.becomes("secret", "second-a", VALUE, &base64("2"));
}

#[test]
fn a_missing_source_is_told_and_tried_again_for_a_while() {
    let Some(stage) = stage("clone-missing") else { return };
    let policy = stage.policy(&clone_rule("copy", "synchronize: true"));
    stage.trigger("a", "x");
    crate::support::eventually(super::SOON, "an event about the missing source", || {
        let selector = format!("--field-selector=reason=PolicyError,regarding.name={policy}");
        let notes = stage
            .cluster
            .kubectl(["get", "events.events.k8s.io", "-n", "default", &selector, "-o", "jsonpath={.items[*].note}"])
            .run();
        if notes.stdout.contains("source v1 Secret") { Ok(()) } else { Err(format!("{notes:?}")) }
    });
    source(&stage, "source", "1");
    stage.trigger("a", "y");
    stage.becomes("secret", "copy-a", VALUE, &base64("1"));
}

#[test]
fn a_list_of_clones_loses_only_what_lost_its_source() {
    let Some(stage) = stage("clone-list") else { return };
    let target = stage.cluster.namespace("clone-list-target");
    source(&stage, "one", "1");
    source(&stage, "two", "2");
    stage.policy(&format!(
        r#"
- name: list
  {ON_TRIGGER}
  generate:
    namespace: {}
    synchronize: true
    cloneList:
      namespace: NS
      kinds: [v1/Secret]
      selector: {{matchLabels: {{copy: "yes"}}}}
"#,
        target.name
    ));
    stage.trigger("a", "x");
    let there = Stage { cluster: stage.cluster, ns: target, fences: std::cell::Cell::default() };
    there.becomes("secret", "one", VALUE, &base64("1"));
    there.becomes("secret", "two", VALUE, &base64("2"));
    source(&stage, "one", "changed");
    there.becomes("secret", "one", VALUE, &base64("changed"));
    stage.delete("secret", "one");
    there.disappears("secret", "one");
    stage.fence();
    there.is_there("secret", "two");
    // A source that no longer matches leaves its copy behind.
    stage.patch("secret", "two", r#"{"metadata": {"labels": {"copy": "no"}}}"#);
    stage.fence();
    there.is_there("secret", "two");
    stage.delete("clusterpolicy", &stage.ns.name.clone());
    there.disappears("secret", "two");
}
