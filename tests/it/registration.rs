//! Policies to webhook entries.

use std::sync::Arc;

use serde_json::{Value, json};

use writ::compile::generate;
use writ::core::catalog::Catalog;
use writ::core::generate::Policy;
use writ::core::generate::registration::{DRY_RUN, Hook, HookRule, hooks};

fn policy(spec: Value) -> Arc<Policy> {
    let mut document = json!({
        "apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"},
        "spec": {"background": false},
    });
    document["spec"].as_object_mut().expect("an object").extend(spec.as_object().cloned().expect("an object"));
    let (policy, findings) = generate::policy(&document);
    Arc::new(policy.unwrap_or_else(|| panic!("{findings:?}")))
}

fn rule(name: &str, matching: Value, exclude: Value, value: &str) -> Value {
    let mut rule = json!({
        "name": name, "match": {"any": [{"resources": matching}]},
        "generate": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": "n", "data": {"data": {"k": value}}},
    });
    if !exclude.is_null() {
        rule["exclude"] = json!({"any": [{"resources": exclude}]});
    }
    rule
}

/// `purpose[policy] group/version scope operations resources; …`
fn told(hooks: &[Hook]) -> Vec<String> {
    let rule = |rule: &HookRule| {
        let operations: Vec<&str> = rule.operations.iter().map(|operation| operation.as_str()).collect();
        let HookRule { group, version, scope, resources, .. } = rule;
        format!("{group}/{version} {scope:?} {} {}", operations.join("+"), resources.join("+"))
    };
    let hook = |hook: &Hook| {
        let policy = hook.policy.as_ref().map(|policy| format!("[{policy}]")).unwrap_or_default();
        let rules: Vec<String> = hook.rules.iter().map(rule).collect();
        format!("{:?}{policy} {}", hook.purpose, rules.join("; "))
    };
    hooks.iter().map(hook).collect()
}

#[track_caller]
fn check(rules: &[Value], expected: &[&str]) {
    assert_eq!(told(&hooks(&[policy(json!({"rules": rules}))], &Catalog::builtin())), expected);
}

#[test]
fn a_rule_that_the_watch_can_serve_is_previewed_only() {
    check(
        &[rule("a", json!({"kinds": ["Namespace"]}), json!(null), "{{request.object.metadata.name}}")],
        &["Preview /v1 All CREATE+UPDATE+DELETE namespaces"],
    );
}

#[test]
fn facts_of_admission_need_every_request() {
    let all = "CREATE+UPDATE+DELETE+CONNECT";
    check(
        &[rule("a", json!({"kinds": ["Secret"]}), json!(null), "{{request.userInfo.username}}")],
        &[&format!("Intake /v1 Namespaced {all} secrets")],
    );
    check(
        &[rule("a", json!({"kinds": ["Pod/exec"]}), json!(null), "")],
        &[&format!("Intake /v1 Namespaced {all} pods/exec")],
    );
    check(
        &[rule("a", json!({"kinds": ["Pod"], "operations": ["DELETE"]}), json!(null), "")],
        &["Intake /v1 Namespaced DELETE pods+pods/ephemeralcontainers"],
    );
}

#[test]
fn rules_of_one_resource_are_joined() {
    check(
        &[
            rule("a", json!({"kinds": ["Secret"], "operations": ["CREATE"]}), json!(null), ""),
            rule("b", json!({"kinds": ["Secret"], "operations": ["DELETE"]}), json!(null), ""),
            rule("c", json!({"kinds": ["ConfigMap"], "operations": ["DELETE", "CREATE"]}), json!(null), ""),
            rule("d", json!({"kinds": ["apps/*/Deploy*"]}), json!(null), ""),
        ],
        &[
            "Intake /v1 Namespaced CREATE+DELETE configmaps+secrets",
            "Preview apps/v1 Namespaced CREATE+UPDATE+DELETE deployments",
        ],
    );
}

#[test]
fn what_is_always_excluded_is_not_asked_for() {
    let kinds = json!({"kinds": ["Secret", "ConfigMap"], "operations": ["CREATE", "UPDATE"]});
    check(
        &[rule("a", kinds.clone(), json!({"kinds": ["Secret"], "operations": ["UPDATE"]}), "")],
        &["Intake /v1 Namespaced CREATE secrets; /v1 Namespaced CREATE+UPDATE configmaps"],
    );
    check(
        &[rule("a", kinds, json!({"kinds": ["Secret"], "names": ["x"]}), "")],
        &["Intake /v1 Namespaced CREATE+UPDATE configmaps+secrets"],
    );
}

#[test]
fn unknown_kinds_ask_for_nothing() {
    check(&[rule("a", json!({"kinds": ["example.org/v1/Widget"]}), json!(null), "")], &[]);
}

#[test]
fn conditions_give_a_policy_its_own_entry() {
    let own = policy(json!({
        "rules": [rule("a", json!({"kinds": ["Namespace"]}), json!(null), "")],
        "webhookConfiguration": {"timeoutSeconds": 7, "matchConditions": [{"name": "n", "expression": "true"}]},
    }));
    let shared = policy(json!({"rules": [rule("a", json!({"kinds": ["Secret"]}), json!(null), "")]}));
    let hooks = hooks(&[own, shared], &Catalog::builtin());
    // Only the API server knows which requests its conditions let through, so it is asked to send them.
    assert_eq!(
        told(&hooks),
        [
            "Preview /v1 Namespaced CREATE+UPDATE+DELETE secrets",
            "Intake[p] /v1 All CREATE+UPDATE+DELETE+CONNECT namespaces"
        ]
    );
    let pair = |name: &str, expression: &str| (name.to_owned(), expression.to_owned());
    assert_eq!(hooks[0].match_conditions, [pair(DRY_RUN.0, DRY_RUN.1)]);
    assert_eq!(hooks[1].match_conditions, [pair("n", "true")]);
    assert_eq!([hooks[0].timeout_seconds, hooks[1].timeout_seconds], [5, 7]);
}

#[test]
fn nobody_is_given_less_time_because_of_others() {
    let asking = |seconds: Value| {
        let rules = [rule("a", json!({"kinds": ["Secret"]}), json!(null), "")];
        policy(json!({"rules": rules, "webhookConfiguration": {"timeoutSeconds": seconds}}))
    };
    let told = |policies: &[Value]| -> u8 {
        let policies: Vec<_> = policies.iter().cloned().map(asking).collect();
        hooks(&policies, &Catalog::builtin())[0].timeout_seconds
    };
    assert_eq!(told(&[json!(1)]), 1);
    assert_eq!(told(&[json!(null)]), 5);
    assert_eq!(told(&[json!(1), json!(null)]), 5, "who asks for nothing gets what is usual");
    assert_eq!(told(&[json!(null), json!(2), json!(30)]), 30);
}

/// A Policy in a namespace with a rule for these kinds.
fn namespaced(namespace: &str, kinds: Value, timeout: u8) -> Arc<Policy> {
    let document = json!({
        "apiVersion": "kyverno.io/v1", "kind": "Policy", "metadata": {"name": "p", "namespace": namespace},
        "spec": {
            "background": false,
            "webhookConfiguration": {"timeoutSeconds": timeout},
            "rules": [{
                "name": "r", "match": {"any": [{"resources": {"kinds": kinds}}]},
                "generate": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": namespace,
                    "data": {"data": {"k": "{{request.userInfo.username}}"}}},
            }],
        },
    });
    let (policy, findings) = generate::policy(&document);
    Arc::new(policy.unwrap_or_else(|| panic!("{findings:?}")))
}

#[test]
fn a_policy_is_asked_about_in_its_namespace_only_and_for_five_seconds_at_most() {
    let cluster = policy(json!({
        "background": false,
        "webhookConfiguration": {"timeoutSeconds": 20},
        "rules": [rule("a", json!({"kinds": ["Secret"]}), json!(null), "{{request.userInfo.username}}")],
    }));
    let policies = [
        cluster,
        namespaced("a", json!(["Secret"]), 30),
        namespaced("b", json!(["Secret"]), 30),
        namespaced("c", json!(["Pod"]), 1),
    ];
    let hooks = hooks(&policies, &Catalog::builtin());
    let found: Vec<_> = hooks
        .iter()
        .map(|hook| {
            let resources: Vec<&str> = hook.rules.iter().flat_map(|rule| &rule.resources).map(String::as_str).collect();
            let namespaces: Vec<&str> = hook.namespaces.iter().map(String::as_str).collect();
            format!("{} {} {}", namespaces.join("+"), resources.join("+"), hook.timeout_seconds)
        })
        .collect();
    assert_eq!(found, [" secrets 20", "a+b secrets 5", "c pods+pods/ephemeralcontainers 1"]);
}
