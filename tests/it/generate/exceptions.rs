//! Exceptions: what is refused of them, what they take out of rules, and how the commands show it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use writ::compile;
use writ::core::generate::{Answer, Evaluation, Exception, Rule, Trigger};
use writ::core::problem::Reason;

use super::{evaluate, evaluate_with, pod, policy, request};
use crate::support::command::writ;

/// An exception for rule `r` of ClusterPolicy `p` and Pods called `web`.
fn sample() -> Value {
    json!({
        "apiVersion": "kyverno.io/v2",
        "kind": "PolicyException",
        "metadata": {"name": "e", "namespace": "team"},
        "spec": {
            "exceptions": [{"policyName": "p", "ruleNames": ["r"]}],
            "match": {"any": [{"resources": {"kinds": ["Pod"], "names": ["web"]}}]},
        },
    })
}

fn changed(changes: &[(&str, Value)]) -> Value {
    let mut document = sample();
    for (pointer, value) in changes {
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        document.pointer_mut(parent).expect("a parent")[field] = value.clone();
    }
    document
}

#[track_caller]
fn check(changes: &[(&str, Value)], expected: &[(&str, Reason)]) {
    let findings = compile::check(&changed(changes)).expect("a kind that is served");
    let found: Vec<_> = findings.errors.iter().map(|error| (error.field.to_string(), error.reason)).collect();
    let expected: Vec<_> = expected.iter().map(|(field, reason)| ((*field).to_owned(), *reason)).collect();
    assert_eq!(found, expected, "{:#?}", findings.errors);
}

#[track_caller]
fn warns(changes: &[(&str, Value)], field: &str, part: &str) {
    let findings = compile::check(&changed(changes)).expect("a kind that is served");
    assert_eq!(findings.errors, []);
    let told =
        findings.warnings.iter().any(|warning| warning.field.to_string() == field && warning.message.contains(part));
    assert!(told, "{:#?}", findings.warnings);
}

#[test]
fn every_part_is_checked() {
    check(&[], &[]);
    check(&[("/apiVersion", json!("kyverno.io/v2beta1"))], &[]);
    check(&[("/metadata/name", json!(""))], &[("metadata.name", Reason::Required)]);
    check(&[("/spec/exceptions", json!([]))], &[("spec.exceptions", Reason::Required)]);
    check(&[("/spec/exceptions", json!(null))], &[("spec.exceptions", Reason::Required)]);
    check(&[("/spec/exceptions/0/policyName", json!(""))], &[("spec.exceptions[0].policyName", Reason::Required)]);
    check(&[("/spec/exceptions/0/ruleNames", json!([]))], &[("spec.exceptions[0].ruleNames", Reason::Required)]);
    check(&[("/spec/exceptions/0/ruleNames", json!([""]))], &[("spec.exceptions[0].ruleNames[0]", Reason::Required)]);
    check(&[("/spec/exceptions/0/ruleName", json!("r"))], &[("spec.exceptions[0].ruleName", Reason::Unknown)]);
    check(&[("/spec/match", json!(null))], &[("spec.match", Reason::Required)]);
    check(&[("/spec/match", json!({"any": []}))], &[("spec.match.any", Reason::Empty)]);
    check(
        &[("/spec/match/any/0/resources/kinds", json!("Pod"))],
        &[("spec.match.any[0].resources.kinds", Reason::Format)],
    );
    check(&[("/spec/conditions", json!([]))], &[("spec.conditions", Reason::Format)]);
    let conditions = |condition: Value| [("/spec/conditions", json!({"all": [condition]}))];
    check(
        &conditions(json!({"key": "a", "operator": "Equals"})),
        &[("spec.conditions.all[0].value", Reason::Required)],
    );
    check(
        &conditions(json!({"key": "a", "operator": "Same", "value": "a"})),
        &[("spec.conditions.all[0].operator", Reason::Enum)],
    );
    check(
        &conditions(json!({"key": "{{ a | }}", "operator": "Equals", "value": "a"})),
        &[("spec.conditions.all[0].key", Reason::Format)],
    );
    check(
        &conditions(json!({"key": "{{ config.x }}", "operator": "Equals", "value": "a"})),
        &[("spec.conditions.all[0].key", Reason::Unknown)],
    );
    check(&[("/spec/background", json!("no"))], &[("spec.background", Reason::Format)]);
    check(&[("/spec/sometimes", json!(1))], &[("spec.sometimes", Reason::Unknown)]);
    warns(&[("/spec/podSecurity", json!([]))], "spec.podSecurity", "validate rules");
}

#[test]
fn who_asks_is_known_only_while_a_request_is_handled() {
    let subjects = ("/spec/match/any/0/subjects", json!([{"kind": "User", "name": "jane"}]));
    let user = json!({"key": "{{ request.userInfo.username }}", "operator": "Equals", "value": "jane"});
    let conditions = ("/spec/conditions", json!({"any": [user]}));
    let (admission, field) = (("/spec/background", json!(false)), "spec.conditions.any[0].key");
    check(std::slice::from_ref(&subjects), &[("spec.match", Reason::Context)]);
    check(std::slice::from_ref(&conditions), &[(field, Reason::Context)]);
    let message = "takes nothing out of rules that do not ask for such things themselves";
    warns(&[subjects, admission.clone()], "spec.match", message);
    warns(&[conditions, admission], "spec.conditions", message);
    warns(&[("/spec/match/any/0/resources/operations", json!(["CREATE"]))], "spec.match", message);
}

/// Rule `r` of ClusterPolicy `p` for Pods, under an exception.
#[track_caller]
fn excepted(changes: &[(&str, Value)], fields: &str) -> Arc<Rule> {
    let text = format!(
        "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {{name: p}}\nspec:\n  rules:\n  - name: r\n\
         \x20   match: {{any: [{{resources: {{kinds: [Pod], selector: {{matchLabels: {{make: 'yes'}}}}}}}}]}}\n{fields}\
         \x20   generate: {{apiVersion: v1, kind: ConfigMap, name: made, namespace: a}}\n"
    );
    let (exception, findings) = compile::generate::exception(&changed(changes));
    let exception: Arc<Exception> = Arc::new(exception.unwrap_or_else(|| panic!("{:?}", findings.errors)));
    policy(&text).under([&exception].into_iter()).rules.remove(0)
}

#[track_caller]
fn comes_to(rule: &Rule, trigger: &Trigger, expected: &str) {
    let found = match evaluate(rule, trigger) {
        Ok(Evaluation::Done(_)) => "done".to_owned(),
        Ok(Evaluation::Excepted { by }) => format!("exception {by}"),
        Ok(Evaluation::NotApplicable { .. }) => "none".to_owned(),
        other => format!("{other:?}"),
    };
    assert_eq!(found, expected);
}

#[test]
fn an_exception_comes_before_match_and_conditions_of_the_rule() {
    let (on, off) = (|| pod(json!({"make": "yes"})), || pod(json!({"make": "no"})));
    let rule = excepted(&[], "");
    comes_to(&rule, &Trigger::background(on()), "exception team/e");
    comes_to(&rule, &request("UPDATE", off(), on()), "exception team/e");
    comes_to(&rule, &request("DELETE", Value::Null, on()), "exception team/e");
    let mut other = on();
    other["metadata"]["name"] = json!("other");
    comes_to(&rule, &Trigger::background(other), "done");
    let broken = "    preconditions: {all: [{key: '{{ request.object.x }}', operator: Equals, value: b}]}\n";
    comes_to(&excepted(&[], broken), &Trigger::background(on()), "exception team/e");
    comes_to(&excepted(&[("/spec/exceptions/0/ruleNames", json!(["s"]))], ""), &Trigger::background(on()), "done");
    comes_to(
        &excepted(&[("/spec/exceptions/0/policyName", json!("?"))], ""),
        &Trigger::background(on()),
        "exception team/e",
    );
}

/// Whatever an exception for a whole namespace says, a rule is not about other kinds than its own.
#[test]
fn what_a_rule_is_not_about_needs_no_exception() {
    let rule = excepted(&[("/spec/match/any/0/resources", json!({"namespaces": ["a"]}))], "");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "a"}});
    comes_to(&rule, &Trigger::background(secret), "none");
    comes_to(&rule, &Trigger::background(pod(json!({"make": "yes"}))), "exception team/e");
}

#[test]
fn conditions_decide_as_preconditions_do() {
    let condition = |key: &str| {
        let condition = json!({"key": key, "operator": "Equals", "value": "low"});
        excepted(&[("/spec/conditions", json!({"all": [condition]}))], "")
    };
    let rule = condition("{{ request.object.metadata.labels.tier || '' }}");
    comes_to(&rule, &Trigger::background(pod(json!({"make": "yes", "tier": "low"}))), "exception team/e");
    comes_to(&rule, &Trigger::background(pod(json!({"make": "yes", "tier": "high"}))), "done");
    // Whoever asks for a label means the objects that have it.
    let rule = condition("{{ request.object.metadata.labels.tier }}");
    comes_to(&rule, &Trigger::background(pod(json!({"make": "yes"}))), "done");
    comes_to(&rule, &Trigger::background(pod(json!({"make": "yes", "tier": "low"}))), "exception team/e");
}

#[test]
fn an_exception_for_somebody_is_none_for_everybody() {
    let subjects = ("/spec/match/any/0/subjects", json!([{"kind": "User", "name": "jane"}]));
    let rule = excepted(&[subjects, ("/spec/background", json!(false))], "");
    comes_to(&rule, &Trigger::background(pod(json!({"make": "yes"}))), "done");
}

#[test]
fn labels_of_the_namespace_are_fetched_for_an_exception() {
    let selector = json!({"kinds": ["Pod"], "namespaceSelector": {"matchLabels": {"team": "x"}}});
    let rule = excepted(&[("/spec/match/any/0/resources", selector)], "");
    let trigger = Trigger::background(pod(json!({"make": "yes"})));
    let with = |labels: Value| {
        evaluate_with(&rule, &trigger, |fetch| {
            assert_eq!(fetch.to_string(), "v1 Namespace a");
            Answer::found(json!({"metadata": {"name": "a", "labels": labels}}))
        })
    };
    assert!(matches!(with(json!({"team": "x"})), Ok(Evaluation::Excepted { .. })));
    assert!(matches!(with(json!({"team": "y"})), Ok(Evaluation::Done(_))));
}

const POLICY: &str = "apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: '{{ request.object.metadata.name }}'}
";
const PODS: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: a}}
---
{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: a}}
";

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}

#[test]
fn apply_shows_what_is_excepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (policy, pods) = (write(folder.path(), "p.yaml", POLICY), write(folder.path(), "pods.yaml", PODS));
    let exception = write(folder.path(), "e.yaml", &sample().to_string());
    let both = write(folder.path(), "both.yaml", &format!("{}\n---\n{POLICY}", sample()));
    let plain = writ(&["apply", &policy, "-r", &pods]).expect(0).out;
    assert!(plain.ends_with("2 generated, 0 skipped, 0 failed\n"), "{plain}");
    for arguments in [&["apply", &policy, "-r", &pods, "--exception", &exception][..], &["apply", &both, "-r", &pods]] {
        let out = writ(arguments).expect(0).out;
        assert!(out.contains("skipped: policy p, rule r, trigger v1 Pod a/web: exception team/e\n"), "{out}");
        assert!(
            out.contains("v1 ConfigMap other/made") && out.ends_with("1 generated, 1 skipped, 0 failed\n"),
            "{out}"
        );
    }
    let bad = write(folder.path(), "bad.yaml", &changed(&[("/spec/exceptions", json!([]))]).to_string());
    let ran = writ(&["apply", &policy, "-r", &pods, "--exception", &bad, "-o", "json"]).expect(1);
    let printed: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(printed["errors"][0]["field"], json!("spec.exceptions"));
}

#[test]
fn validate_knows_exceptions() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = write(folder.path(), "good.yaml", &sample().to_string());
    writ(&["validate", &good]).expect(0);
    let entry = ("/spec/exceptions/0/ruleNames", json!(null));
    let bad = write(folder.path(), "bad.yaml", &changed(&[entry]).to_string());
    let out = writ(&["validate", &bad]).expect(1).out;
    assert!(out.contains("PolicyException e: spec.exceptions[0].ruleNames: name at least one rule"), "{out}");
}

#[test]
fn cases_may_have_exceptions() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("cpol.yaml", POLICY), ("pods.yaml", PODS), ("e.yaml", &sample().to_string())] {
        write(folder.path(), name, text);
    }
    write(folder.path(), "web.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: a}}");
    let manifest = |exceptions: &str| {
        format!(
            "name: t\npolicies: [cpol.yaml]\nresources: [web.yaml]\nexceptions: [{exceptions}]\nresults:\n\
             - {{policy: p, rule: r, resources: [web], kind: Pod, result: skip}}\n"
        )
    };
    let path = folder.path().display().to_string();
    write(folder.path(), "kyverno-test.yaml", &manifest("e.yaml"));
    assert!(writ(&["test", &path]).expect(0).out.contains("(1 checked)"));
    write(folder.path(), "kyverno-test.yaml", &manifest(""));
    assert!(writ(&["test", &path]).expect(1).out.contains("was to be skipped"));

    let own = tempfile::tempdir().expect("a folder");
    for (name, text) in [("policy.yaml", POLICY), ("resources.yaml", PODS), ("exceptions.yaml", &sample().to_string())]
    {
        write(own.path(), name, text);
    }
    write(own.path(), "expected.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: made, namespace: other}}");
    write(own.path(), "outcome.yaml", "skipped: [{rule: r, because: exception team/e}]");
    writ(&["test", &own.path().display().to_string()]).expect(0);
}
