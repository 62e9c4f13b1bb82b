//! `foreach`, `dataList`, `cloneList.list` and look-ups.

use serde_json::json;

use super::rules::{Policy, Rule, secret};
use super::{VALUE, base64, stage};

/// A Secret that is made from data.
fn item(name: &str, value: &str) -> serde_json::Value {
    let mut item = secret(name);
    item["data"] = json!({"stringData": {"value": value}});
    item
}

/// A copy of a Secret of the stage.
fn copy(source: &str, target: &str) -> serde_json::Value {
    let source = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "NS", "name": source});
    json!({"source": source, "target": {"namespace": "NS", "name": target}})
}

#[test]
fn every_item_of_a_data_list_is_made_and_goes() {
    let Some(stage) = stage("data-list") else { return };
    let value = "{{request.object.data.value}}";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "map", "namespace": "NS", "data": {"data": {"value": value}}});
    let list = json!([item("one", value), map]);
    let policy = stage.policy(Rule::new("list", json!({"dataList": list})).synchronized());
    stage.trigger("a", "1");
    stage.becomes("secret", "one", VALUE, &base64("1"));
    stage.becomes("configmap", "map", VALUE, "1");
    stage.trigger("a", "2");
    stage.becomes("secret", "one", VALUE, &base64("2"));
    stage.becomes("configmap", "map", VALUE, "2");
    stage.delete("configmap", "map");
    stage.becomes("configmap", "map", VALUE, "2");
    stage.delete("clusterpolicy", &policy);
    stage.disappears("secret", "one");
    stage.disappears("configmap", "map");
}

/// One item that cannot be made does not stop the others, and the policy is told.
#[test]
fn an_item_that_fails_is_told_and_stops_no_other() {
    let Some(stage) = stage("data-list-fails") else { return };
    let list = json!([item("bad", "{{request.object.data.missing}}"), item("good", "x"), item("good", "again")]);
    let policy = stage.policy(Rule::new("list", json!({"dataList": list})));
    stage.trigger("a", "1");
    stage.becomes("secret", "good", VALUE, &base64("x"));
    crate::support::eventually(super::SOON, "an event about both", || {
        let notes = stage.failures(&policy);
        if notes.contains("missing") && notes.contains("good") { Ok(()) } else { Err(notes) }
    });
    stage.is_absent("secret", "bad");
}

#[test]
fn every_copy_of_a_clone_list_follows_its_own_source() {
    let Some(stage) = stage("clone-each") else { return };
    stage.source("one", "x", "1");
    stage.source("two", "x", "2");
    let list = json!({"list": [copy("one", "copy-one"), copy("two", "copy-two-{{request.object.metadata.name}}")]});
    let policy = stage.policy(Rule::new("each", json!({"cloneList": list})).synchronized());
    stage.trigger("a", "x");
    stage.becomes("secret", "copy-one", VALUE, &base64("1"));
    stage.becomes("secret", "copy-two-a", VALUE, &base64("2"));
    stage.source("two", "x", "3");
    stage.becomes("secret", "copy-two-a", VALUE, &base64("3"));
    stage.delete("secret", "one");
    stage.disappears("secret", "copy-one");
    stage.fence();
    stage.is_there("secret", "copy-two-a");
    // Unlike a single clone, a list goes with its policy.
    stage.delete("clusterpolicy", &policy);
    stage.disappears("secret", "copy-two-a");
}

#[test]
fn every_element_gets_all_of_its_objects() {
    let Some(stage) = stage("foreach") else { return };
    stage.source("source", "x", "1");
    let words = "request.object.data.value | split(@, ',')";
    let made = [item("one-{{elementIndex}}", "{{element}}"), item("two-{{elementIndex}}", "{{element}}!")];
    let foreach = json!([
        {"list": words, "dataList": made},
        {"list": words, "cloneList": [copy("source", "copy-{{element}}"), copy("source", "again-{{element}}")],
         "preconditions": {"all": [{"key": "{{element}}", "operator": "NotEquals", "value": "y"}]}},
    ]);
    stage.policy(Rule::new("each", json!({"foreach": foreach})).synchronized());
    stage.trigger("a", "x,y");
    for (name, value) in
        [("one-0", "x"), ("two-0", "x!"), ("one-1", "y"), ("two-1", "y!"), ("copy-x", "1"), ("again-x", "1")]
    {
        stage.becomes("secret", name, VALUE, &base64(value));
    }
    stage.fence();
    stage.is_absent("secret", "copy-y");
    stage.source("source", "x", "2");
    stage.becomes("secret", "again-x", VALUE, &base64("2"));

    // A list that shrinks leaves what was made; the end of the trigger takes all of it.
    stage.trigger("a", "x");
    stage.fence();
    stage.is_there("secret", "one-1");
    stage.delete("configmap", "a");
    for name in ["one-0", "two-0", "one-1", "two-1", "copy-x", "again-x"] {
        stage.disappears("secret", name);
    }
}

#[test]
fn a_changed_loop_reaches_the_triggers_of_what_it_made() {
    let Some(stage) = stage("foreach-changed") else { return };
    let rule = |prefix: &str| Rule::foreach("each", item(&format!("{prefix}-{{{{element}}}}"), "1")).synchronized();
    stage.policy(rule("old"));
    stage.trigger("a", "x");
    stage.appears("secret", "old-x");
    stage.policy(rule("new"));
    stage.becomes("secret", "new-x", VALUE, &base64("1"));
    stage.fence();
    stage.is_there("secret", "old-x");
    stage.delete("configmap", "a");
    stage.disappears("secret", "old-x");
    stage.disappears("secret", "new-x");
}

/// A one-shot loop makes what is missing when something happens to its trigger, and takes nothing away.
#[test]
fn a_loop_that_does_not_synchronize_keeps_what_it_made() {
    let Some(stage) = stage("loop-once") else { return };
    let entry = |name: &str, value: &str| Rule::foreach("loop", item(&format!("{name}-{{{{element}}}}"), value));
    stage.policy(entry("out", "1"));
    stage.trigger("t", "a,b");
    stage.appears("secret", "out-a");
    stage.appears("secret", "out-b");
    stage.trigger("t", "b");
    stage.policy(entry("other", "2"));
    stage.fence();
    assert_eq!(stage.field("secret", "out-a", VALUE), Some(base64("1")));
    assert_eq!(stage.field("secret", "out-b", VALUE), Some(base64("1")));
    stage.is_absent("secret", "other-b");
    stage.trigger("t", "b,c");
    stage.becomes("secret", "other-c", VALUE, &base64("2"));
    stage.becomes("secret", "other-b", VALUE, &base64("2"));
    stage.is_absent("secret", "other-a");
}

#[test]
fn context_is_read_when_the_rule_runs() {
    let Some(stage) = stage("context") else { return };
    stage.ns.kubectl(["create", "configmap", "settings", "--from-literal=color=red"]).ok();
    let call =
        json!({"urlPath": "/api/v1/namespaces/NS/configmaps", "jmesPath": "length(items[?metadata.name=='settings'])"});
    let context = json!([
        {"name": "settings", "configMap": {"name": "settings", "namespace": "NS"}},
        {"name": "names", "apiCall": call},
    ]);
    let data = json!({"stringData": {"value": "{{settings.data.color}} {{names}}"}});
    stage.policy(Rule::data("out").with("context", context).making("data", data).synchronized());
    stage.trigger("a", "x");
    stage.becomes("secret", "out-a", VALUE, &base64("red 1"));
}

/// Only what happens to a trigger sets rules off; what else they look at is read then.
#[test]
fn the_labels_of_a_namespace_count_when_something_happens_in_it() {
    let Some(stage) = stage("namespace-labels") else { return };
    let team = json!({"matchLabels": {"team": "NS"}});
    stage.policy(Rule::data("out").on("namespaceSelector", team).synchronized());
    let ns = stage.ns.name.clone();
    stage.trigger("a", "1");
    stage.cluster.kubectl(["label", "namespace", &ns, &format!("team={ns}")]).ok();
    stage.fence();
    stage.is_absent("secret", "out-a");
    stage.trigger("a", "2");
    stage.becomes("secret", "out-a", VALUE, &base64("2"));
    stage.cluster.kubectl(["label", "namespace", &ns, "team-"]).ok();
    stage.fence();
    stage.is_there("secret", "out-a");
    stage.trigger("a", "3");
    stage.disappears("secret", "out-a");
}

#[test]
fn one_of_several_rules_applies_where_the_policy_says_so() {
    let Some(stage) = stage("apply-one") else { return };
    let first = Rule::data("first").only_if("{{request.object.data.value}}", "1").synchronized();
    let rules = [first, Rule::data("second").synchronized()];
    stage.policy(Policy::from(rules).with("applyRules", json!("One")));
    stage.trigger("a", "1");
    stage.appears("secret", "first-a");
    stage.trigger("b", "2");
    stage.appears("secret", "second-b");
    stage.fence();
    stage.is_absent("secret", "second-a");
    stage.is_absent("secret", "first-b");
}
