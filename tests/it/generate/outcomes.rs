//! What a rule comes to: the table of new and old objects, preconditions, loops and sources.

use serde_json::{Value, json};
use writ::core::generate::{Answer, Evaluation, Fetch, Mode, Trigger, Way};

use super::{config_map_rule, evaluate, evaluate_with, pod, pod_rule, request};

const ONE: &str = "    generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: a}\n";

#[track_caller]
fn check(rule: &str, trigger: &Trigger, expected: &str) {
    let rule = pod_rule(&format!("{rule}{ONE}"));
    let found = match evaluate(&rule, trigger) {
        Ok(Evaluation::Done(_)) => "pass",
        Ok(Evaluation::Skipped { .. }) => "skip",
        Ok(Evaluation::Lost { .. }) => "lost",
        Ok(Evaluation::Excepted { .. }) => "excepted",
        Ok(Evaluation::NotApplicable { .. }) => "none",
        Ok(Evaluation::OutOfReach { .. }) => "out of reach",
        Ok(Evaluation::Needs(_)) => "needs",
        Err(_) => "error",
    };
    assert_eq!(found, expected, "{trigger:?}");
}

#[test]
fn preconditions_look_at_the_new_object_and_then_at_the_old_one() {
    let wanted = "    preconditions: {all: [{key: \"{{ request.object.metadata.labels.on || '' }}\", operator: Equals, value: 'yes'}]}\n";
    let (yes, no) = (|| pod(json!({"on": "yes"})), || pod(json!({"on": "no"})));
    check(wanted, &request("CREATE", yes(), Value::Null), "pass");
    check(wanted, &request("CREATE", no(), Value::Null), "skip");
    check(wanted, &request("UPDATE", yes(), no()), "pass");
    check(wanted, &request("UPDATE", no(), yes()), "lost");
    check(wanted, &request("UPDATE", no(), no()), "skip");
    check(wanted, &Trigger::background(yes()), "pass");
    check(wanted, &Trigger::background(no()), "skip");
}

#[test]
fn a_match_that_is_gone_is_lost() {
    let excluded = "    exclude: {any: [{resources: {selector: {matchLabels: {skip: me}}}}]}\n";
    let (plain, skipped) = (|| pod(json!({})), || pod(json!({"skip": "me"})));
    check(excluded, &request("UPDATE", plain(), Value::Null), "pass");
    check(excluded, &request("UPDATE", skipped(), plain()), "lost");
    check(excluded, &request("UPDATE", skipped(), skipped()), "none");
    check(excluded, &request("DELETE", Value::Null, plain()), "lost");
    check(excluded, &request("DELETE", Value::Null, skipped()), "none");
}

#[test]
fn a_deletion_triggers_only_rules_that_list_it() {
    let text = |operations: &str, conditions: &str| {
        super::rule(&format!(
            "  - name: r\n    match: {{any: [{{resources: {{kinds: [Pod], operations: {operations}}}}}]}}\n{conditions}\
             \x20   generate: {{apiVersion: v1, kind: ConfigMap, name: '{{{{ request.object.metadata.name }}}}', namespace: a}}\n"
        ))
    };
    let deletion = request("DELETE", Value::Null, pod(json!({})));
    let Ok(Evaluation::Done(plan)) = evaluate(&text("[DELETE]", ""), &deletion) else { panic!("a deletion is listed") };
    assert_eq!(plan.targets[0].key.name, "web");
    let never = "    preconditions: {all: [{key: a, operator: Equals, value: b}]}\n";
    assert!(matches!(evaluate(&text("[DELETE]", never), &deletion), Ok(Evaluation::Skipped { .. })));
    assert!(matches!(evaluate(&text("[CREATE]", ""), &deletion), Ok(Evaluation::NotApplicable { .. })));
    // Nobody knows how an object came about that is simply there.
    let there = Trigger::background(pod(json!({})));
    assert!(matches!(evaluate(&text("[CREATE]", ""), &there), Ok(Evaluation::NotApplicable { .. })));
}

#[test]
fn a_condition_that_cannot_be_evaluated_is_an_error() {
    let broken =
        "    preconditions: {all: [{key: '{{ request.object.metadata.labels.x }}', operator: Equals, value: b}]}\n";
    check(broken, &Trigger::background(pod(json!({}))), "error");
}

#[test]
fn an_error_points_at_the_condition() {
    let good = "{key: a, operator: Equals, value: a}";
    let bad = "{key: a, operator: AnyIn, value: [b, '{{ request.object.metadata.labels.x }}']}";
    for (conditions, field) in [
        (format!("{{all: [{good}, {bad}]}}"), "spec.rules[0].preconditions.all[1].value"),
        (format!("{{any: [{bad}], all: [{good}]}}"), "spec.rules[0].preconditions.any[0].value"),
        (format!("[{good}, {good}, {bad}]"), "spec.rules[0].preconditions[2].value"),
    ] {
        let rule = pod_rule(&format!("    preconditions: {conditions}\n{ONE}"));
        let error = evaluate(&rule, &Trigger::background(pod(json!({})))).expect_err("an error");
        assert_eq!(error.field.to_string(), field);
    }
}

#[test]
fn labels_of_the_namespace_are_fetched_only_if_asked_for() {
    let rule = super::rule(
        "  - name: r\n    match: {any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {team: x}}}}]}\n    generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: a}\n",
    );
    let trigger = Trigger::background(pod(json!({})));
    let mut asked = Vec::new();
    let namespace = json!({"metadata": {"name": "a", "labels": {"team": "x"}}});
    let found = evaluate_with(&rule, &trigger, |fetch| {
        asked.push(fetch.to_string());
        Answer::found(namespace.clone())
    });
    assert!(matches!(found, Ok(Evaluation::Done(_))), "{found:?}");
    assert_eq!(asked, ["v1 Namespace a"]);
    assert!(matches!(evaluate(&rule, &trigger), Ok(Evaluation::NotApplicable { .. })));
}

#[test]
fn one_bad_element_does_not_stop_the_others() {
    let rule = pod_rule(
        "    generate:
      foreach:
      - list: \"['a', `null`, 'b', 'b', `5`]\"
        data: {data: {index: '{{ to_string(elementIndex) }}'}}
        apiVersion: v1
        kind: ConfigMap
        name: '{{ element }}'
        namespace: a
      - list: request.object.missing
        apiVersion: v1
        kind: ConfigMap
        name: never
        namespace: a
      - list: \"'single'\"
        apiVersion: v1
        kind: Secret
        name: '{{ element }}-{{ elementIndex }}'
        namespace: a
",
    );
    let Ok(Evaluation::Done(plan)) = evaluate(&rule, &Trigger::background(pod(json!({})))) else { panic!("a plan") };
    let names: Vec<_> = plan.targets.iter().map(|target| target.key.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "single-0"]);
    assert_eq!(plan.targets[1].body["data"]["index"], json!("2"), "a null element keeps its index");
    let failures: Vec<_> = plan.failures.iter().map(|failure| failure.place.to_string()).collect();
    assert_eq!(failures, ["foreach entry 0, element 3", "foreach entry 0, element 4", "foreach entry 1"]);
    assert!(plan.failures[0].error.to_string().contains("is wanted twice"), "{}", plan.failures[0].error);
    assert!(plan.failures[1].error.to_string().contains("`name` must become text"), "{}", plan.failures[1].error);
    assert_eq!(plan.failures[2].error.field.to_string(), "spec.rules[0].generate.foreach[1].list");
}

#[test]
fn sources_are_asked_for_in_one_round() {
    let rule = pod_rule(
        "    generate:
      foreach:
      - list: \"['a', 'b', 'c']\"
        apiVersion: v1
        kind: Secret
        name: copy-{{ element }}
        namespace: x
        clone: {name: '{{ element }}', namespace: store}
",
    );
    let trigger = Trigger::background(pod(json!({})));
    let Ok(Evaluation::Needs(needs)) = writ::core::generate::evaluate(&rule, &trigger, &super::facts()) else {
        panic!("sources are not known yet")
    };
    let needs: Vec<_> = needs.iter().map(ToString::to_string).collect();
    assert_eq!(needs, ["v1 Secret store/a", "v1 Secret store/b", "v1 Secret store/c"]);

    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "store", "uid": "s"}});
    let found = evaluate_with(&rule, &trigger, |fetch| match fetch.to_string().ends_with("/a") {
        true => Answer::found(secret.clone()),
        false => Answer::Absent,
    });
    let Ok(Evaluation::Done(plan)) = found else { panic!("a plan") };
    assert_eq!(plan.targets.len(), 1);
    assert_eq!((plan.targets[0].mode, plan.failures.len()), (Mode::Clone, 2));
    assert_eq!(plan.targets[0].source.as_ref().expect("a source").uid, "s");
    assert!(plan.failures[0].error.to_string().ends_with("source v1 Secret store/b does not exist"));
}

#[test]
fn selected_sources_keep_their_names_and_skip_their_own_namespace() {
    let rule = |namespace: &str| {
        pod_rule(&format!(
            "    generate:\n      namespace: {namespace}\n      cloneList: {{namespace: store, kinds: [v1/Secret], selector: {{matchLabels: {{copy: 'yes'}}}}}}\n"
        ))
    };
    let secret =
        |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "store"}});
    let list = json!([secret("b"), secret("a")]);
    let trigger = Trigger::background(pod(json!({})));
    let plan = |namespace: &str| {
        let found = evaluate_with(&rule(namespace), &trigger, |fetch| {
            assert_eq!(fetch.to_string(), "list of v1 Secret in namespace store by labels");
            assert!(matches!(fetch, Fetch::List(list) if list.selector() == "copy=yes"), "{fetch:?}");
            Answer::found(list.clone())
        });
        match found {
            Ok(Evaluation::Done(plan)) => plan,
            other => panic!("{other:?}"),
        }
    };
    let keys: Vec<_> = plan("x").targets.iter().map(|target| target.key.to_string()).collect();
    assert_eq!(keys, ["v1 Secret x/a", "v1 Secret x/b"]);
    assert!(plan("store").targets.is_empty());
}

#[test]
fn labels_that_are_no_text_become_text() {
    let rule = pod_rule(
        "    generate:\n      foreach:\n      - list: \"['a']\"\n        apiVersion: v1\n        kind: ConfigMap\n        name: x\n        namespace: a\n        data: {metadata: {labels: {index: '{{ elementIndex }}', mine: 'yes'}}}\n",
    );
    let Ok(Evaluation::Done(plan)) = evaluate(&rule, &Trigger::background(pod(json!({})))) else { panic!("a plan") };
    let labels = &plan.targets[0].body["metadata"]["labels"];
    assert_eq!((&labels["index"], &labels["mine"]), (&json!("0"), &json!("yes")));
    assert_eq!(labels["generate.kyverno.io/trigger-kind"], json!("Pod"));
    assert_eq!(labels["generate.kyverno.io/trigger-namespace"], json!("a"));
}

#[test]
fn a_plan_is_a_function_of_its_facts() {
    let rule = config_map_rule("", &[("r", "{{ random('[a-z]{16}') }}"), ("t", "{{ time_now_utc() }}")]);
    let made = || super::made(&rule, |_| Answer::Absent);
    assert_eq!(made(), made());
    assert_eq!(made()["t"], json!("2024-02-29T12:00:00Z"));
}

#[test]
fn rules_that_need_a_request_say_so() {
    /// How the rule gets to know of its triggers, and whether it can be asked again without a request.
    #[track_caller]
    fn check(filter: &str, condition: &str, text: &str, expected: (Way, bool)) {
        let generate =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": "a", "data": {"k": text}});
        let conditions = json!({"all": [{"key": condition, "operator": "Equals", "value": "CREATE"}]});
        let rule = super::rule(&format!(
            "  - name: r\n    match: {{any: [{filter}]}}\n    preconditions: {conditions}\n    generate: {generate}\n"
        ));
        assert_eq!((rule.way(), !rule.needs_request), expected, "{filter} {condition} {text}");
    }
    let pods = "{resources: {kinds: [Pod]}}";
    check(pods, "x", "{{ request.object.metadata.name }} {{ request.namespace }}", (Way::Watch, true));
    check(pods, "x", "{{ request.operation }}", (Way::Admission, false));
    check(pods, "x", "{{ request.userInfo.username }}", (Way::Admission, false));
    check(pods, "x", "{{ request.oldObject.metadata.name }}", (Way::Admission, false));
    check(pods, "{{ request.operation }}", "x", (Way::Admission, true));
    check(pods, "{{ request.userInfo.username }}", "x", (Way::Admission, false));
    check("{resources: {kinds: [Pod], operations: [CREATE]}}", "x", "x", (Way::Admission, true));
    check("{resources: {kinds: [Pod/exec]}}", "x", "x", (Way::Admission, true));
    check("{resources: {kinds: [Pod]}, clusterRoles: [admin]}", "x", "x", (Way::Admission, true));
}
