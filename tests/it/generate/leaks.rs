//! What messages show. Every text of the trigger and of everything that is looked up is a marker; rules fail in as many ways as
//! there are, and no message shows a marker.

use serde_json::{Value, json};
use writ::core::generate::{Answer, Evaluation, Fetch, Trigger};

use super::{config_map_rule, evaluate_with, pod_rule, request};

const MARKER: &str = "hidden-";

/// A Pod whose every value is a marker, except for what makes it one.
fn trigger() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web", "namespace": "a", "uid": "u",
            "labels": {"l": "hidden-label"}, "annotations": {"a": "hidden-annotation"},
        },
        "data": {
            "text": "hidden-text", "list": ["hidden-one", "hidden-two"], "object": {"hidden-key": "hidden-value"},
            "call": "{{ hidden_function(@) }}", "path": "{{ request.object.hidden_field.x }}", "broken": "{{ hidden( }}",
            "json": "{\"hidden\": ", "yaml": "hidden: [", "range": "hidden-range ||", "url": "hidden://", "regex": "hidden(",
            "image": "hidden image", "time": "hidden-time", "pem": "-----BEGIN hidden-----\nAA\n-----END hidden-----\n",
        },
        "spec": {"containers": [{"name": "hidden-container", "image": "hidden image"}]},
    })
}

fn answer(fetch: &Fetch) -> Answer {
    match fetch {
        Fetch::Object(_) => Answer::found(json!({"data": {"k": "hidden-configured"}, "kind": "ConfigMap"})),
        Fetch::List(_) => Answer::found(json!([{"kind": "Secret", "metadata": "hidden-metadata"}])),
        Fetch::Call(_) => Answer::found(json!({"hidden-items": ["hidden-item"], "kind": "hidden-kind"})),
        _ => Answer::Absent,
    }
}

/// Everything that users may get to read about an evaluation.
fn told(evaluation: Result<Evaluation, impl std::error::Error>) -> Vec<String> {
    match evaluation {
        Err(error) => vec![error.to_string(), format!("{error:?}")],
        Ok(Evaluation::Done(plan)) => {
            let failures = plan.failures.iter();
            let failures = failures.flat_map(|failure| [failure.error.to_string(), format!("{:?}", failure.error)]);
            failures.chain(plan.notes).collect()
        }
        Ok(Evaluation::Skipped { because } | Evaluation::Lost { because } | Evaluation::NotApplicable { because }) => {
            vec![because]
        }
        Ok(other) => panic!("{other:?}"),
    }
}

#[track_caller]
fn check(rule: &writ::core::generate::Rule) {
    for trigger in [Trigger::background(trigger()), request("DELETE", Value::Null, trigger())] {
        let told = told(evaluate_with(rule, &trigger, answer));
        assert!(!told.is_empty(), "nothing failed");
        for message in told {
            assert!(!message.contains(MARKER) && !message.contains("hidden"), "{message}");
        }
    }
}

#[test]
fn no_failing_expression_shows_a_value() {
    let expressions = [
        "add('x', request.object.data.text)",
        "sum(request.object.data.list)",
        "multiply(request.object.data.text, request.object.data.text)",
        "split(request.object.data.object, 'x')",
        "join('x', request.object.data.object)",
        "to_boolean(request.object.data.text)",
        "base64_decode(request.object.data.text)",
        "parse_json(request.object.data.json)",
        "parse_yaml(request.object.data.yaml)",
        "semver_compare('1.0.0', request.object.data.range)",
        "is_external_url(request.object.data.url)",
        "regex_match(request.object.data.regex, 'x')",
        "random(request.object.data.regex)",
        "image_normalize(request.object.data.image)",
        "time_add(request.object.data.time, '1h')",
        "time_parse(request.object.data.time, request.object.data.text)",
        "time_since('', request.object.data.time, '')",
        "x509_decode(request.object.data.pem)",
        "object_from_lists([request.object.data], ['x'])",
        "keys(object_from_lists(request.object.data.list, ['x'])).y.z | split(@, 'x')",
        "split(object_from_lists(request.object.data.list, ['x']), 'y')",
        "sort_by(request.object.data.list, &x)",
        "images.containers.x",
        "configured.nothing | split(@, 'x')",
        "called.items[0].x | split(@, 'x')",
        "split(called, 'x')",
        "split(@, 'x')",
        "lookup(request.object.data.list, request.object.data.text)",
        "truncate(request.object.data.text, request.object.data.text)",
        "round(`1.5`, request.object.data.text)",
    ];
    let context = "    context:\n    - {name: configured, configMap: {name: c, namespace: a}}\n    \
                   - {name: called, apiCall: {urlPath: /api/v1/namespaces/a/pods}}\n";
    for expression in expressions {
        check(&config_map_rule(context, &[("v", &format!("{{{{ {expression} }}}}"))]));
        check(&config_map_rule(context, &[("v", &format!("x {{{{ {expression} }}}}"))]));
        let computed = format!("    context:\n    - {{name: v, variable: {{jmesPath: \"{expression}\"}}}}\n");
        let inner = computed.replace("    context:\n", context);
        check(&config_map_rule(&inner, &[("v", "{{ v }}")]));
    }
}

#[test]
fn no_text_that_a_value_brings_along_is_shown() {
    for text in [
        "x {{ request.object.data.call }}",
        "x {{ request.object.data.path }}",
        "x {{ request.object.data.broken }}",
        "{{ request.object.data }}",
        "{{ \"{{ request.object.data.text }}\" }}",
        "{{ request.object.data.\"{{ request.object.data.text }}\" }}",
        "{{ split(request.object.data, '{{ request.object.data.text }}') }}",
        "{{ {{ request.object.data.text }}(@) }}",
        "{{- request.object.data.object }}",
        "x {{- request.object.data.object }}",
    ] {
        check(&config_map_rule("", &[("v", text)]));
    }
    let computed =
        "    context:\n    - {name: v, variable: {value: 1, jmesPath: \"{{ request.object.data.text }}(\"}}\n";
    check(&config_map_rule(computed, &[("v", "{{ v }}")]));
}

#[test]
fn no_condition_that_fails_shows_a_value() {
    for (key, operator, value) in [
        ("{{ request.object.data.text }}", "Equals", "x"),
        ("{{ request.object.data.list }}", "AllIn", "{{ request.object.data.object }}"),
        ("x-{{ request.object.data.text }}", "AnyIn", "{{ request.object.data.list }}"),
        ("{{ request.object.data.text }}", "GreaterThan", "{{ request.object.data.text }}"),
        ("{{ split(request.object.data, 'x') }}", "Equals", "x"),
    ] {
        let conditions = format!(
            "    preconditions: {{all: [{{key: \"{key}\", operator: {operator}, value: \"{value}\"}}]}}\n    \
             context:\n    - {{name: v, variable: {{value: x}}}}\n"
        );
        check(&config_map_rule(&conditions, &[("v", "x")]));
    }
}

#[test]
fn no_target_that_cannot_be_made_shows_a_value() {
    let generate = |fields: &str| pod_rule(&format!("    generate: {fields}\n"));
    let target = "apiVersion: v1, kind: ConfigMap, name: made, namespace: a";
    for fields in [
        "{apiVersion: v1, kind: ConfigMap, namespace: a, name: \"{{ request.object.data.list }}\", data: {}}",
        "{apiVersion: v1, kind: ConfigMap, name: made, namespace: \"{{ request.object.data }}\", data: {}}",
        &format!("{{{target}, data: {{kind: \"{{{{ request.object.data.text }}}}\"}}}}"),
        &format!("{{{target}, data: {{metadata: \"{{{{ request.object.data.list }}}}\"}}}}"),
        &format!("{{{target}, data: {{metadata: {{labels: \"{{{{ request.object.data.text }}}}\"}}}}}}"),
        "{namespace: x, cloneList: {namespace: a, kinds: [\"{{ request.object.data.text }}\"]}}",
        "{namespace: x, cloneList: {namespace: a, kinds: [v1/Secret], selector: {matchLabels: {x: \"{{ request.object.data.url }}\"}}}}",
    ] {
        check(&generate(fields));
    }
}

#[test]
fn no_look_up_that_fails_shows_a_value() {
    for entry in [
        "apiCall: {urlPath: \"/x/{{ request.object.data.text }}\"}",
        "apiCall: {urlPath: \"/api/v1/namespaces/a/pods?watch=true&labelSelector={{ request.object.data.text }}\"}",
        "apiCall: {urlPath: \"/api/v1/pods?labelSelector={{ request.object.data.text }}\", jmesPath: x.y}",
        "apiCall: {service: {url: \"http://x.svc/{{ request.object.data.text }}?{{ request.object.data.text }}\"}}",
        "apiCall: {service: {url: \"{{ request.object.data.text }}\"}}",
        "configMap: {name: \"{{ request.object.data.list }}\", namespace: a}",
        "globalReference: {name: \"{{ request.object.data.list }}\"}",
        "imageRegistry: {reference: \"{{ request.object.data.image }}\"}",
        "imageRegistry: {reference: \"{{ request.object.data.list }}\"}",
    ] {
        let context = format!("    context:\n    - {{name: v, {entry}}}\n");
        check(&config_map_rule(&context, &[("v", "{{ v.x.y | split(@, 'x') }}")]));
    }
}
