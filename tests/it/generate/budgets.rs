//! Hostile rules and objects: each ends in an error that names policy, rule and place, soon.

use serde_json::{Value, json};
use writ::core::generate::{Answer, Evaluation, Rule, Trigger, drive};

use crate::support::core_time::spent;

use super::{config_map_rule, facts, pod, pod_rule};

/// Seconds on a core that nothing may take; code without optimisation is allowed more.
const SOON: f64 = if cfg!(debug_assertions) { 8.0 } else { 1.0 };

#[track_caller]
fn check(rule: &Rule, object: Value, expected: &str) {
    let before = spent();
    let found = drive(rule, &Trigger::background(object), &mut facts(), |_| Answer::Absent);
    let error = match found {
        Ok(Evaluation::Done(plan)) => plan.failures.last().expect("a failure").error.to_string(),
        Err(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(spent() - before < SOON, "took {} s", spent() - before);
    assert!(error.contains(expected), "{error}");
    assert!(error.starts_with("policy p, rule r: spec.rules[0]"), "{error}");
}

#[test]
fn variables_that_double() {
    let mut entries = vec![json!({"name": "v0", "variable": {"value": "x".repeat(1024)}})];
    for level in 1..30 {
        let text = format!("{{{{ v{0} }}}}{{{{ v{0} }}}}", level - 1);
        entries.push(json!({"name": format!("v{level}"), "variable": {"value": text}}));
    }
    let rule = config_map_rule(&format!("    context: {}\n", Value::from(entries)), &[("v", "{{ v29 }}")]);
    check(&rule, pod(json!({})), "context size limit exceeded");
}

#[test]
fn a_chain_of_variables() {
    let mut entries = vec![json!({"name": "v0", "variable": {"value": "x"}})];
    for level in 1..1000 {
        entries.push(json!({"name": format!("v{level}"), "variable": {"jmesPath": format!("v{}", level - 1)}}));
    }
    let rule = config_map_rule(&format!("    context: {}\n", Value::from(entries)), &[("v", "{{ v999 }}")]);
    check(&rule, pod(json!({})), "more than 32 deep");
}

#[test]
fn text_that_includes_itself() {
    let rule = config_map_rule("", &[("v", "-{{ request.object.metadata.labels.me }}")]);
    check(&rule, pod(json!({"me": "{{ request.object.metadata.labels.me }}"})), "goes beyond");
    let twice = "{{ request.object.metadata.labels.me }} {{ request.object.metadata.labels.me }}";
    check(&rule, pod(json!({"me": twice})), "goes beyond");
}

#[test]
fn huge_lists() {
    let rule = pod_rule(
        "    generate: {foreach: [{list: request.object.spec.list, apiVersion: v1, kind: ConfigMap, name: 'x-{{ elementIndex }}', namespace: a}]}\n",
    );
    let mut object = pod(json!({}));
    object["spec"]["list"] = Value::Array(vec![json!(null); 200_000]);
    check(&rule, object, "more than 10000 elements");
}

#[test]
fn more_objects_than_a_rule_may_make() {
    let rule = pod_rule(
        "    generate: {foreach: [{list: request.object.spec.list, dataList: [
          {apiVersion: v1, kind: ConfigMap, name: 'a-{{ elementIndex }}', namespace: a},
          {apiVersion: v1, kind: ConfigMap, name: 'b-{{ elementIndex }}', namespace: a}]}]}\n",
    );
    let mut object = pod(json!({}));
    object["spec"]["list"] = Value::Array(vec![json!(1); 120]);
    let mut facts = facts();
    facts.limits.objects = 100;
    let Ok(Evaluation::Done(plan)) = drive(&rule, &Trigger::background(object), &mut facts, |_| Answer::Absent) else {
        panic!("a plan")
    };
    assert_eq!(plan.targets.len(), 100);
    assert!(plan.failures[0].error.to_string().contains("more than 100 objects"), "{}", plan.failures[0].error);
}

#[test]
fn a_large_source_in_many_places() {
    let rule = pod_rule(
        "    generate: {foreach: [{list: request.object.spec.list, apiVersion: v1, kind: Secret, name: s, namespace: 'n-{{ elementIndex }}', clone: {name: s, namespace: store}}]}\n",
    );
    let mut object = pod(json!({}));
    object["spec"]["list"] = Value::Array(vec![json!(1); 1000]);
    let source =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "A".repeat(1 << 20)}});
    let before = spent();
    let found = drive(&rule, &Trigger::background(object), &mut facts(), |_| Answer::found(source.clone()));
    let Ok(Evaluation::Done(plan)) = found else { panic!("a plan") };
    assert!(plan.targets.len() < 64, "{}", plan.targets.len());
    assert!(plan.failures[0].error.to_string().contains("bytes of generated objects"));
    assert!(spent() - before < SOON, "took {} s", spent() - before);
}

#[test]
fn expressions_that_grow() {
    let nested = (0..9).fold("request.object.spec.list".to_owned(), |inner, _| format!("[{inner}, {inner}][]"));
    let mut object = pod(json!({}));
    object["spec"]["list"] = Value::Array(vec![json!("x".repeat(100)); 1000]);
    let rule = config_map_rule("", &[("v", &format!("{{{{ {nested} }}}}"))]);
    check(&rule, object, "goes beyond");
}

#[test]
fn look_ups_that_never_end() {
    // Every answer names the next question.
    let entries: Vec<Value> = (0..100)
        .map(|level| {
            let path = match level {
                0 => "/api/v1/namespaces/a/pods/p".to_owned(),
                _ => format!("/api/v1/namespaces/a/pods/{{{{ c{}.next }}}}", level - 1),
            };
            json!({"name": format!("c{level}"), "apiCall": {"urlPath": path}})
        })
        .collect();
    let rule = config_map_rule(&format!("    context: {}\n", Value::from(entries)), &[("v", "{{ c99.next }}")]);
    let before = spent();
    let mut count = 0;
    let found = drive(&rule, &Trigger::background(pod(json!({}))), &mut facts(), |_| {
        count += 1;
        Answer::found(json!({"next": format!("p{count}")}))
    });
    assert!(spent() - before < SOON);
    let error = match found {
        Ok(Evaluation::Done(plan)) => plan.failures[0].error.to_string(),
        Err(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(error.contains("deep") || error.contains("rounds"), "{error}");
}

#[test]
fn regular_expressions_that_take_their_time() {
    let mut object = pod(json!({}));
    object["spec"]["text"] = json!("a".repeat(200_000));
    object["spec"]["list"] = (0..5000).map(|index| json!(format!("(x{index}{{1000}}y{{1000}}){{8}}"))).collect();
    object["spec"]["class"] = json!(format!("([{}]{{1000}}){{1000}}", "ab".repeat(100_000)));
    for expression in [
        // Each `a` is a match, and for each the rest of the text is read in search of a `b`.
        "regex_replace_all('.*b|a', request.object.spec.text, 'c')",
        "regex_replace_all_literal('a(.*b)?', request.object.spec.text, 'c')",
        // Each is another one that has to be compiled.
        "map(&regex_match(@, 'x'), request.object.spec.list)",
        // An automaton with many states that are alive at once, over a long text.
        "regex_match('(a{1,500}|a{1,499}|a{1,498}b)+c', request.object.spec.text)",
        "random(request.object.spec.class)",
    ] {
        check(&config_map_rule("", &[("v", &format!("{{{{ {expression} }}}}"))]), object.clone(), "goes beyond");
    }
}

#[test]
fn regular_expressions_that_are_cheap_stay_cheap() {
    let mut object = pod(json!({}));
    object["spec"]["text"] = json!("word and word, ".repeat(3000));
    let expression = "regex_replace_all('[a-z]+', request.object.spec.text, '$0-')";
    let rule = config_map_rule("", &[("v", &format!("{{{{ length({expression}) }}}}"))]);
    let found = drive(&rule, &Trigger::background(object), &mut facts(), |_| Answer::Absent);
    let Ok(Evaluation::Done(plan)) = found else { panic!("{found:?}") };
    assert_eq!(plan.failures, []);
    assert_eq!(plan.targets[0].body["data"]["v"], json!(3000 * 15 + 9000));
}

#[test]
fn comparisons_of_long_lists() {
    let mut object = pod(json!({}));
    object["spec"]["keys"] = (0..50_000).map(|index| json!(format!("k{index}"))).collect();
    object["spec"]["values"] = (0..50_000).map(|index| json!(format!("v{index}*"))).collect();
    object["spec"]["pattern"] = json!("a*".repeat(50_000) + "b");
    object["spec"]["text"] = json!("a".repeat(100_000));
    for (key, operator, value) in [
        ("keys", "AnyIn", "values"),
        ("keys", "In", "values"),
        ("text", "Equals", "pattern"),
        ("text", "AnyIn", "pattern"),
    ] {
        let conditions = format!(
            "    preconditions: {{all: [{{key: '{{{{ request.object.spec.{key} }}}}', operator: {operator}, \
             value: '{{{{ request.object.spec.{value} }}}}'}}]}}\n"
        );
        check(&config_map_rule(&conditions, &[("v", "x")]), object.clone(), "goes beyond");
    }
}
