//! Generate rules: the engine through compiled policies, and the commands that run it over files.

mod budgets;
mod commands;
mod context;
mod exceptions;
mod leaks;
mod outcomes;
mod validation;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use writ::compile;
use writ::core::generate::{Answer, Evaluation, Facts, Fetch, InstallBounds, Policy, Rule, RuleError, Trigger, drive};
use writ::core::resource::Gvk;
use writ::core::yaml;

/// A policy that compiles, from YAML.
#[track_caller]
fn policy(text: &str) -> Policy {
    let document = yaml::read_value(text).expect("good YAML");
    let (policy, findings) = compile::generate::policy(&document);
    policy.unwrap_or_else(|| panic!("{:?}", findings.errors))
}

/// The first rule of a ClusterPolicy `p` with these rules, written as YAML below `rules:`.
#[track_caller]
fn rule(rules: &str) -> Arc<Rule> {
    let text = format!(
        "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {{name: p}}\nspec:\n  background: false\n  rules:\n{rules}"
    );
    policy(&text).rules.remove(0)
}

/// A rule `r` for Pods: its own fields as YAML, indented by four.
#[track_caller]
fn pod_rule(fields: &str) -> Arc<Rule> {
    rule(&format!("  - name: r\n    match: {{any: [{{resources: {{kinds: [Pod]}}}}]}}\n{fields}"))
}

/// A rule that puts values of expressions into one ConfigMap.
#[track_caller]
fn config_map_rule(fields: &str, data: &[(&str, &str)]) -> Arc<Rule> {
    let entries: Map<String, Value> = data.iter().map(|(key, text)| ((*key).to_owned(), Value::from(*text))).collect();
    let generate = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "made", "namespace": "a", "data": {"data": entries},
    });
    pod_rule(&format!("{fields}    generate: {generate}\n"))
}

fn pod(labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "a", "uid": "u", "labels": labels},
        "spec": {"containers": [{"name": "x", "image": "nginx"}]},
    })
}

fn facts() -> Facts {
    Facts::new("2024-02-29T12:00:00Z".parse().expect("a time"), 1, InstallBounds::offline())
}

/// An admission request by nobody.
fn request(operation: &str, object: Value, old: Value) -> Trigger {
    let kind = if object.is_null() { &old } else { &object };
    let gvk = Gvk::of(kind);
    let request = json!({"operation": operation, "namespace": "a", "object": object, "oldObject": old, "userInfo": {}});
    let request = request.as_object().expect("an object").clone();
    Trigger::admission(request, gvk, Default::default(), Default::default())
}

/// Evaluates with a world in which nothing exists.
fn evaluate(rule: &Rule, trigger: &Trigger) -> Result<Evaluation, RuleError> {
    evaluate_with(rule, trigger, |_| Answer::Absent)
}

fn evaluate_with(
    rule: &Rule,
    trigger: &Trigger,
    answer: impl FnMut(&Fetch) -> Answer,
) -> Result<Evaluation, RuleError> {
    drive(rule, trigger, &mut facts(), answer)
}

/// The data of the one ConfigMap that a rule makes for a Pod.
#[track_caller]
fn made(rule: &Rule, answer: impl FnMut(&Fetch) -> Answer) -> Value {
    match evaluate_with(rule, &Trigger::background(pod(json!({}))), answer) {
        Ok(Evaluation::Done(plan)) if plan.failures.is_empty() => plan.targets[0].body["data"].clone(),
        Ok(Evaluation::Done(plan)) => panic!("{}", plan.failures[0].error),
        other => panic!("{other:?}"),
    }
}

/// The error of the one target that a rule fails to make for a Pod.
#[track_caller]
fn failure(rule: &Rule, answer: impl FnMut(&Fetch) -> Answer) -> String {
    match evaluate_with(rule, &Trigger::background(pod(json!({}))), answer) {
        Ok(Evaluation::Done(plan)) => plan.failures.first().expect("a failure").error.to_string(),
        Err(error) => error.to_string(),
        other => panic!("{other:?}"),
    }
}
