//! Policies as they come, change and go: what the table of events does not show.

use serde_json::json;

use super::rules::{Policy, Rule};
use super::{SOON, VALUE, base64, label, stage};
use crate::support::eventually;

#[test]
fn existing_triggers_count_where_the_rule_says_so() {
    let Some(stage) = stage("existing") else { return };
    stage.trigger("a", "1");
    stage.policy([Rule::data("new").synchronized(), Rule::data("old").synchronized().for_existing()]);
    stage.becomes("secret", "old-a", VALUE, &base64("1"));
    stage.fence();
    stage.is_absent("secret", "new-a");
    stage.trigger("a", "2");
    stage.becomes("secret", "new-a", VALUE, &base64("2"));
}

/// The operation of what exists is nobody's: a rule that asks for it can say so.
#[test]
fn existing_triggers_count_for_rules_that_ask_for_the_operation() {
    let Some(stage) = stage("existing-asked") else { return };
    stage.trigger("old", "1");
    let rule = |name: &str| Rule::data(name).only_if("{{request.operation || 'BACKGROUND'}}", "BACKGROUND");
    stage.policy([rule("existing").for_existing(), rule("new")]);
    stage.becomes("secret", "existing-old", VALUE, &base64("1"));
    stage.fence();
    stage.is_absent("secret", "new-old");
}

/// A policy may be there before the kinds that it is about.
#[test]
fn kinds_that_come_after_their_policy_are_met() {
    let Some(stage) = stage("late-kinds") else { return };
    let group = format!("{}.example.org", stage.ns.name);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "NS-widgets",
        "labels": {"rbac.kyverno.io/aggregate-to-background-controller": "true"}},
        "rules": [{"apiGroups": [&group], "resources": ["widgets"], "verbs": ["get", "list", "watch"]}]});
    stage.ns.owns("clusterrole", &format!("{}-widgets", stage.ns.name));
    stage.apply(&role.to_string());
    let rule = Rule::data("out").on("kinds", json!([format!("{group}/v1/Widget")])).on("selector", json!(null));
    let rule = rule.making("data", json!({"stringData": {"value": "{{request.object.spec.value}}"}}));
    stage.policy(rule.synchronized());

    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget"});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    stage.ns.owns("customresourcedefinition", &format!("widgets.{group}"));
    stage.apply(&definition.to_string());
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "a"},
        "spec": {"value": "1"}});
    eventually(SOON, "the kind", || {
        let answer = stage.ns.kubectl(["apply", "-f", "-"]).stdin(&widget.to_string()).run();
        if answer.success { Ok(()) } else { Err(answer.stderr) }
    });
    stage.becomes("secret", "out-a", VALUE, &base64("1"));
    stage.delete(&format!("widgets.{group}"), "a");
    stage.disappears("secret", "out-a");
}

#[test]
fn a_bad_policy_is_refused_and_says_why() {
    let Some(stage) = stage("bad") else { return };
    let refused = |rules: Vec<Rule>, because: &str| {
        let policy = Policy::from(rules).to_string().replace("NS", &stage.ns.name);
        stage.ns.rejects(&policy, because);
    };
    refused(vec![Rule::data("out").making("synchronise", json!(true))], "synchronise");
    refused(vec![Rule::clone("out").making("clone", json!({"namespace": "NS"}))], "clone.name");
    refused(vec![Rule::data("out").making("clone", json!({"namespace": "NS", "name": "x"}))], "clone");
}

#[test]
fn a_namespaced_policy_stays_at_home() {
    let Some(stage) = stage("policy-ns") else { return };
    let rule = Rule::data("out").on("namespaces", json!(null)).synchronized();
    stage.policy(Policy::from(rule).at_home().named("home"));
    let elsewhere = stage.beside("elsewhere");
    elsewhere.trigger("b", "1");
    stage.trigger("a", "1");
    stage.becomes("secret", "out-a", VALUE, &base64("1"));
    assert_eq!(stage.field("secret", "out-a", &label("policy-namespace")), Some(stage.ns.name.clone()));
    stage.fence();
    stage.is_absent("secret", "out-b");
    stage.delete("policies.kyverno.io", "home");
    stage.disappears("secret", "out-a");
}

/// A rule that makes other targets starts anew; what it made before is nobody's.
#[test]
fn other_targets_set_the_old_ones_free() {
    let Some(stage) = stage("retarget") else { return };
    stage.policy(Rule::data("out").synchronized());
    stage.trigger("a", "1");
    stage.appears("secret", "out-a");
    let new = json!("new-{{request.object.metadata.name}}");
    stage.policy(Rule::data("out").making("name", new).synchronized());
    stage.becomes("secret", "out-a", &label("rule-name"), "");
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

/// Rules that look alike to those who compare targets can still be removed one by one.
#[test]
fn one_of_two_equal_loops_can_be_removed() {
    let Some(stage) = stage("equal-rules") else { return };
    let rule = |name: &str| {
        let mut entry = super::rules::secret(&format!("{name}-{{{{element}}}}"));
        entry["data"] = json!({"stringData": {"value": "1"}});
        Rule::foreach(name, entry).synchronized()
    };
    stage.policy([rule("stays"), rule("goes")]);
    stage.trigger("a", "x");
    stage.appears("secret", "stays-x");
    stage.appears("secret", "goes-x");
    stage.policy(rule("stays"));
    stage.disappears("secret", "goes-x");
    stage.fence();
    stage.is_there("secret", "stays-x");
}
