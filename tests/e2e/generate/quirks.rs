//! Where others go wrong: requests that are refused after all, triggers that are generated themselves, rules that only
//! admission can serve.

use std::time::{Duration, Instant};

use serde_json::json;

use super::rules::{Policy, Rule};
use super::{SOON, Stage, VALUE, base64, stage};
use crate::support::eventually;

/// Refuses every request for an object with the label `refuse: "yes"`, beside and not before everybody else.
fn refuse(stage: &Stage<'_>) {
    stage.ns.owns("validatingwebhookconfiguration", &stage.ns.name);
    stage.apply(
        &json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "NS"},
            "webhooks": [{
                "name": "refuse.example.org",
                "clientConfig": {"url": "https://127.0.0.1:1/nobody"},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "NS"}},
                "objectSelector": {"matchLabels": {"refuse": "yes"}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        })
        .to_string(),
    );
    let refused =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "labels": {"refuse": "yes"}}});
    eventually(SOON, "refusals", || {
        let answer = stage.ns.kubectl(["create", "--dry-run=server", "-f", "-"]).stdin(&refused.to_string()).run();
        if answer.success { Err("not yet refused") } else { Ok(()) }
    });
}

/// A rule that hears of its triggers from admission, before they are stored.
fn told_by_admission(rule: Rule) -> Policy {
    let conditions = json!({"all": [
        {"key": "{{request.operation}}", "operator": "AnyNotIn", "value": ["CONNECT"]},
        {"key": "{{request.object.data.value || ''}}", "operator": "NotEquals", "value": "off"},
    ]});
    rule.with("preconditions", conditions).into()
}

#[test]
fn a_request_that_is_refused_after_all_leaves_no_traces() {
    let Some(stage) = stage("refused") else { return };
    let policy = stage.policy(told_by_admission(Rule::data("out").synchronized()));
    stage.trigger("a", "1");
    stage.becomes("secret", "out-a", VALUE, &base64("1"));
    refuse(&stage);

    let created = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "1"},
        "metadata": {"name": "never", "labels": {"make": "yes", "refuse": "yes"}}});
    assert!(!stage.ns.kubectl(["create", "-f", "-"]).stdin(&created.to_string()).run().success);
    for patch in [
        r#"{"metadata": {"labels": {"make": "no", "refuse": "yes"}}}"#,
        r#"{"metadata": {"labels": {"refuse": "yes"}}, "data": {"value": "off"}}"#,
    ] {
        let answer = stage.ns.kubectl(["patch", "configmap", "a", "--type=merge", "-p", patch]).run();
        assert!(!answer.success, "{}", answer.stdout);
    }
    stage.requests_are_done(&policy);
    stage.fence();
    stage.is_absent("secret", "out-never");
    assert_eq!(stage.field("secret", "out-a", VALUE), Some(base64("1")));

    // The same changes, not refused.
    stage.patch("configmap", "a", r#"{"data": {"value": "off"}}"#);
    stage.disappears("secret", "out-a");
    stage.patch("configmap", "a", r#"{"data": {"value": "2"}}"#);
    stage.becomes("secret", "out-a", VALUE, &base64("2"));
    stage.delete("configmap", "a");
    stage.disappears("secret", "out-a");
}

#[test]
fn a_trigger_that_is_itself_generated_is_a_trigger_like_any_other() {
    let Some(stage) = stage("generated") else { return };
    let middle = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "middle", "namespace": "NS"});
    let labelled =
        json!({"metadata": {"labels": {"level": "two"}}, "data": {"value": "{{request.object.data.value}}"}});
    let second = json!({"matchLabels": {"level": "two"}});
    stage.policy([
        Rule::new("first", middle).making("data", labelled),
        Rule::data("second").on("selector", second).with("skipBackgroundRequests", json!(false)).synchronized(),
    ]);
    stage.trigger("a", "1");
    stage.becomes("secret", "second-middle", VALUE, &base64("1"));
    stage.delete("configmap", "middle");
    stage.disappears("secret", "second-middle");
}

#[test]
fn our_own_writes_set_nothing_off_unless_the_rule_says_so() {
    let Some(stage) = stage("own-writes") else { return };
    let middle = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "middle", "namespace": "NS"});
    let labelled = json!({"metadata": {"labels": {"level": "two"}}, "data": {"value": "x"}});
    stage.policy([
        Rule::new("first", middle).making("data", labelled),
        Rule::data("second").on("selector", json!({"matchLabels": {"level": "two"}})).synchronized(),
    ]);
    stage.trigger("a", "1");
    stage.appears("configmap", "middle");
    stage.fence();
    stage.is_absent("secret", "second-middle");
}

/// What was made for a request cannot be made again without it: nobody tries, and nobody complains.
#[test]
fn what_needs_a_request_is_not_repeated_without_one() {
    let Some(stage) = stage("requester") else { return };
    let data =
        json!({"stringData": {"value": "{{request.userInfo.username || 'nobody'}} {{request.object.data.value}}"}});
    let policy = Policy::from(Rule::data("out").making("data", data).synchronized()).with("background", json!(false));
    let policy = stage.policy(policy);
    stage.trigger("a", "1");
    stage.appears("secret", "out-a");
    let made = stage.field("secret", "out-a", VALUE).expect("there");
    assert!(!made.starts_with(&base64("nob")), "{made}");
    stage.fence();
    assert_eq!(stage.field("secret", "out-a", VALUE).as_deref(), Some(made.as_str()));

    stage.patch("secret", "out-a", r#"{"stringData": {"value": "mine"}}"#);
    stage.fence();
    assert_eq!(stage.field("secret", "out-a", VALUE), Some(base64("mine")));
    stage.trigger("a", "2");
    eventually(SOON, "the next request", || match stage.field("secret", "out-a", VALUE) {
        Some(value) if value != base64("mine") && value != made => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(stage.failures(&policy), "");
    stage.requests_are_done(&policy);
}

#[test]
fn a_failure_of_what_admission_tells_is_told() {
    let Some(stage) = stage("told") else { return };
    let data = json!({"stringData": {"value": "{{request.operation}} {{request.object.data.missing}}"}});
    let policy = stage.policy(Rule::data("out").making("data", data));
    stage.trigger("a", "1");
    eventually(SOON, "an event about the failure", || {
        let notes = stage.failures(&policy);
        if notes.contains("missing") { Ok(()) } else { Err(notes) }
    });
    stage.requests_are_done(&policy);
}

/// What a rule has made is its own affair, also where a sibling makes objects of the same kind for the same trigger.
#[test]
fn a_rule_that_loses_its_trigger_takes_nothing_from_its_sibling() {
    let Some(stage) = stage("sibling") else { return };
    let fickle = Rule::data("fickle").only_if("{{request.object.data.value}}", "on").synchronized();
    stage.policy([fickle, Rule::data("steady").synchronized()]);
    stage.trigger("a", "on");
    stage.appears("secret", "fickle-a");
    stage.appears("secret", "steady-a");
    let uid = stage.field("secret", "steady-a", ".metadata.uid");
    stage.trigger("a", "off");
    stage.disappears("secret", "fickle-a");
    stage.becomes("secret", "steady-a", VALUE, &base64("off"));
    stage.fence();
    assert_eq!(stage.field("secret", "steady-a", ".metadata.uid"), uid, "it was taken away, and made again");
}

/// What the webhook cannot tell without looking things up is found out when the work is done.
#[test]
fn a_trigger_is_lost_also_where_that_takes_a_look_up() {
    let Some(stage) = stage("looked-up") else { return };
    let home = json!({"matchLabels": {"kubernetes.io/metadata.name": "NS"}});
    let policy = stage.policy(told_by_admission(Rule::data("out").on("namespaceSelector", home).synchronized()));
    for name in ["changed", "deleted"] {
        stage.trigger(name, "1");
        stage.appears("secret", &format!("out-{name}"));
    }
    stage.patch("configmap", "changed", r#"{"data": {"value": "off"}}"#);
    stage.disappears("secret", "out-changed");
    stage.delete("configmap", "deleted");
    stage.disappears("secret", "out-deleted");
    stage.requests_are_done(&policy);
}

/// A finalizer is no way to get rid of what was made for a trigger.
#[test]
fn a_trigger_that_is_being_deleted_keeps_its_downstream() {
    let Some(stage) = stage("slow-end") else { return };
    stage.policy(Rule::data("out").synchronized());
    stage.trigger("a", "1");
    stage.appears("secret", "out-a");
    stage.patch("configmap", "a", r#"{"metadata": {"finalizers": ["example.org/hold"]}}"#);
    stage.ns.kubectl(["delete", "configmap", "a", "--wait=false"]).ok();
    stage.becomes("configmap", "a", ".metadata.deletionGracePeriodSeconds", "0");
    stage.fence();
    stage.is_there("secret", "out-a");
    stage.delete("secret", "out-a");
    stage.becomes("secret", "out-a", VALUE, &base64("1"));
    stage.patch("configmap", "a", r#"{"data": {"value": "2"}}"#);
    stage.becomes("secret", "out-a", VALUE, &base64("2"));
    stage.patch("configmap", "a", r#"{"metadata": {"finalizers": []}}"#);
    stage.disappears("configmap", "a");
    stage.disappears("secret", "out-a");
}

/// Another writer who undoes what we write is answered, but ever more slowly.
#[test]
fn a_contest_with_another_writer_slows_down() {
    let Some(stage) = stage("contest") else { return };
    stage.policy(Rule::data("out").synchronized());
    stage.trigger("a", "1");
    stage.appears("secret", "out-a");
    let until = Instant::now() + Duration::from_secs(8);
    let mut changes = 0;
    while Instant::now() < until {
        if stage.field("secret", "out-a", ".metadata.annotations.mine").is_some_and(|mine| mine.is_empty()) {
            stage.patch("secret", "out-a", r#"{"metadata": {"annotations": {"mine": "yes"}}}"#);
            changes += 1;
        }
    }
    assert!((5..=12).contains(&changes), "{changes} changes were undone in eight seconds");
}

/// Only the API server can evaluate the conditions of a webhook.
#[test]
fn requests_that_conditions_hold_back_set_nothing_off() {
    let Some(stage) = stage("conditions") else { return };
    let expression = "object == null || !has(object.data) || object.data.value != 'held'";
    let conditions = json!({"matchConditions": [{"name": "not-held", "expression": expression}]});
    let policy = Policy::from(Rule::data("out").synchronized()).with("webhookConfiguration", conditions);
    let policy = stage.policy(policy);
    stage.trigger("a", "held");
    stage.trigger("b", "1");
    stage.becomes("secret", "out-b", VALUE, &base64("1"));
    stage.requests_are_done(&policy);
    stage.fence();
    stage.is_absent("secret", "out-a");
}

/// What was made for a request that is about no stored object ends with its rule all the same.
#[test]
fn what_a_nameless_trigger_has_made_goes_with_the_policy() {
    let Some(stage) = stage("nameless") else { return };
    let rule = Rule::new("out", super::rules::secret("made")).making("data", json!({"stringData": {"value": "1"}}));
    let rule = rule.on("kinds", json!(["Pod/exec"])).on("selector", json!(null)).synchronized();
    let policy = stage.policy(rule);
    stage.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: example.org/a}]}}",
    );
    // Nothing runs on a control plane without nodes, but the request is admitted before anybody finds out.
    eventually(SOON, "what a command in a pod sets off", || {
        stage.ns.kubectl(["exec", "a", "--", "true"]).run();
        stage.field("secret", "made", ".metadata.name").ok_or("not there")
    });
    assert_eq!(stage.field("secret", "made", &super::label("trigger-uid")).as_deref(), Some(""));
    stage.requests_are_done(&policy);
    stage.delete("clusterpolicy", &policy);
    stage.disappears("secret", "made");
}
