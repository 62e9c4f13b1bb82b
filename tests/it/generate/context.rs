//! Context entries: scoping, defaults, what is fetched and what is not.

use serde_json::json;
use writ::core::generate::{Answer, Fetch};

use super::{config_map_rule, failure, made, policy};

/// A rule with these entries whose ConfigMap holds `{{ one }}`.
#[track_caller]
fn check(entries: &str, expected: serde_json::Value) {
    let rule = config_map_rule(&format!("    context: {entries}\n"), &[("v", "{{ one }}")]);
    assert_eq!(made(&rule, |_| Answer::Absent)["v"], expected, "{entries}");
}

#[track_caller]
fn refuse(entries: &str, expected: &str) {
    let rule = config_map_rule(&format!("    context: {entries}\n"), &[("v", "{{ one }}")]);
    let error = failure(&rule, |_| Answer::Absent);
    assert!(error.contains(expected), "{entries}: {error}");
}

#[test]
fn entries_see_what_stands_before_them() {
    check("[{name: one, variable: {value: one}}, {name: one, variable: {jmesPath: one}}]", json!("one"));
    check(
        "[{name: foo, variable: {value: foo}}, {name: one, variable: {jmesPath: foo}}, {name: foo, variable: {value: baz}}]",
        json!("foo"),
    );
    check(
        "[{name: one, variable: {value: first}}, {name: two, variable: {jmesPath: one}}, {name: one, variable: {value: second}}]",
        json!("second"),
    );
    refuse("[{name: one, variable: {jmesPath: two}}, {name: two, variable: {value: x}}]", "Unknown key \"two\"");
}

#[test]
fn variables_take_value_query_and_default() {
    check("[{name: one, variable: {value: {a: [1, 2]}, jmesPath: 'a[1]'}}]", json!(2));
    check("[{name: one, variable: {jmesPath: request.object.metadata.name}}]", json!("web"));
    check("[{name: one, variable: {jmesPath: request.object.nothing, default: d}}]", json!("d"));
    check("[{name: one, variable: {jmesPath: \"request.object.nothing || ''\", default: d}}]", json!(""));
    check("[{name: one, variable: {value: {a: 1}, jmesPath: b, default: d}}]", json!("d"));
    check("[{name: one, variable: {value: false}}]", json!(false));
    check("[{name: one, variable: {value: '{{ request.object.metadata.name }}-x'}}]", json!("web-x"));
    check(
        "[{name: k, variable: {value: name}}, {name: one, variable: {jmesPath: 'request.object.metadata.{{ k }}'}}]",
        json!("web"),
    );
    refuse("[{name: one, variable: {jmesPath: request.object.nothing}}]", "Unknown key \"nothing\"");
    refuse("[{name: one, variable: {value: {a: null}, jmesPath: a}}]", "evaluated to nil");
    // The default is for errors only; null is null.
    refuse("[{name: one, variable: {value: {a: null}, jmesPath: a, default: d}}]", "evaluated to nil");
    // A default that cannot be substituted fails even if it is not needed.
    refuse(
        "[{name: one, variable: {jmesPath: request.object.metadata.name, default: '{{ request.object.x }}'}}]",
        "Unknown key \"x\"",
    );
}

#[test]
fn what_nobody_reads_is_neither_computed_nor_fetched() {
    check(
        "[{name: broken, variable: {jmesPath: request.object.nothing}},
          {name: unread, configMap: {name: c, namespace: n}},
          {name: one, variable: {value: ok}}]",
        json!("ok"),
    );
}

#[test]
fn elements_do_not_leak_into_each_other() {
    let rule = super::pod_rule(
        "    context: [{name: foo, variable: {value: outer}}, {name: id, variable: {jmesPath: \"random('[a-z]{12}')\"}}]
    generate:
      foreach:
      - list: \"['a', 'b']\"
        context: [{name: foo, variable: {jmesPath: \"join('-', [foo, element])\"}}]
        apiVersion: v1
        kind: ConfigMap
        name: '{{ element }}'
        namespace: a
        data: {data: {foo: '{{ foo }}', id: '{{ id }}'}}
",
    );
    let trigger = writ::core::generate::Trigger::background(super::pod(json!({})));
    let Ok(writ::core::generate::Evaluation::Done(plan)) = super::evaluate(&rule, &trigger) else { panic!("a plan") };
    let data: Vec<_> = plan.targets.iter().map(|target| &target.body["data"]).collect();
    assert_eq!((&data[0]["foo"], &data[1]["foo"]), (&json!("outer-a"), &json!("outer-b")));
    assert_eq!(data[0]["id"], data[1]["id"], "a variable of the rule has one value");
}

#[test]
fn a_config_map_is_fetched_once_and_absence_is_an_error() {
    let rule = config_map_rule(
        "    context: [{name: c, configMap: {name: conf, namespace: '{{ request.namespace }}'}}]\n",
        &[("a", "{{ c.data.k }}"), ("b", "{{ c.metadata.name }}"), ("c", "{{ parse_yaml(c.data.y).z }}")],
    );
    let mut asked = 0;
    let found = made(&rule, |fetch| {
        asked += 1;
        assert_eq!(fetch.to_string(), "v1 ConfigMap a/conf");
        Answer::found(json!({"metadata": {"name": "conf"}, "data": {"k": "v", "y": "z: [1]"}, "binaryData": {}}))
    });
    assert_eq!(found, json!({"a": "v", "b": "conf", "c": [1]}));
    assert_eq!(asked, 1);
    assert!(failure(&rule, |_| Answer::Absent).contains("variable c: v1 ConfigMap a/conf not found"));
}

#[test]
fn calls_have_defaults_for_failures_only() {
    let rule =
        |call: &str| config_map_rule(&format!("    context: [{{name: c, apiCall: {call}}}]\n"), &[("v", "{{ c }}")]);
    let answer = |_: &_| Answer::found(json!({"items": [{"n": 1}, {"n": 2}]}));
    let plain = rule("{urlPath: '/api/v1/namespaces/{{ request.namespace }}/pods', jmesPath: 'items[].n'}");
    assert_eq!(made(&plain, answer)["v"], json!([1, 2]));
    assert!(failure(&plain, |_| Answer::Failed("down".into())).contains("GET /api/v1/namespaces/a/pods: down"));
    let defaulted = rule("{urlPath: /api/v1/pods, jmesPath: 'items[].n', default: none}");
    assert_eq!(made(&defaulted, |_| Answer::Failed("down".into()))["v"], json!("none"));
    let wrong = rule("{urlPath: /api/v1/pods, jmesPath: 'nothing.here', default: none}");
    assert!(failure(&wrong, answer).contains("Unknown key \"nothing\""));
    let outside = rule("{service: {url: 'https://example.com'}}");
    assert!(failure(&outside, answer).contains("calls of `example.com` are switched off"));
}

#[test]
fn a_posted_review_carries_its_data() {
    let rule = config_map_rule(
        "    context:
    - name: c
      apiCall:
        urlPath: /apis/authorization.k8s.io/v1/subjectaccessreviews
        method: POST
        data:
        - {key: kind, value: SubjectAccessReview}
        - {key: spec, value: {user: '{{ request.object.metadata.name }}', containers: '{{ request.object.spec.containers }}'}}
        jmesPath: status.allowed
",
        &[("v", "{{ c }}")],
    );
    let found = made(&rule, |fetch| {
        let writ::core::generate::Fetch::Call(call) = fetch else { panic!("{fetch}") };
        let body: serde_json::Value = serde_json::from_str(call.body().expect("a body")).expect("JSON");
        assert_eq!(body["spec"]["containers"][0]["name"], json!("x"));
        Answer::found(json!({"status": {"allowed": true}}))
    });
    assert_eq!(found["v"], json!(true));
}

#[test]
fn a_policy_of_a_namespace_reads_and_writes_only_there() {
    let policy = policy(
        "apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: p, namespace: a}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    context: [{name: c, configMap: {name: conf, namespace: \"{{ request.object.metadata.labels.ns || 'a' }}\"}}]
    generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: a, data: {data: {k: '{{ c.data.k }}'}}}
",
    );
    let evaluate = |labels: serde_json::Value| {
        let trigger = writ::core::generate::Trigger::background(super::pod(labels));
        super::evaluate_with(&policy.rules[0], &trigger, |_| Answer::found(json!({"data": {"k": "v"}})))
    };
    use writ::core::generate::Evaluation::{Done, NotApplicable};
    let Ok(Done(plan)) = evaluate(json!({})) else { panic!("a plan") };
    assert!(plan.failures.is_empty(), "{:?}", plan.failures);
    let Ok(Done(plan)) = evaluate(json!({"ns": "kube-system"})) else { panic!("a plan") };
    assert!(plan.failures[0].error.to_string().contains("cannot leave"), "{}", plan.failures[0].error);
    let mut elsewhere = super::pod(json!({}));
    elsewhere["metadata"]["namespace"] = json!("b");
    let trigger = writ::core::generate::Trigger::background(elsewhere);
    assert!(matches!(super::evaluate(&policy.rules[0], &trigger), Ok(NotApplicable { .. })));
}

#[test]
fn images_of_a_workload_have_parts() {
    let rule = config_map_rule(
        "",
        &[("tag", "{{ images.containers.x.tag }}"), ("all", "{{ images.containers.x.reference }}")],
    );
    let found = made(&rule, |_| Answer::Absent);
    assert_eq!(found, json!({"tag": "latest", "all": "docker.io/nginx:latest"}));
}

#[test]
fn hosts_are_looked_up_by_the_caller() {
    let rule = config_map_rule("", &[("v", "{{ is_external_url('http://example.com') }}")]);
    assert_eq!(
        made(&rule, |fetch| {
            assert!(matches!(fetch, Fetch::Host(host) if host.name() == "example.com"), "{fetch:?}");
            Answer::found(json!(["10.0.0.1"]))
        })["v"],
        json!(false)
    );
}

/// Offline there is nobody to call: such an entry is as good as not written, and a values file may stand in for it.
#[test]
fn what_needs_a_service_is_skipped_offline() {
    let rule = config_map_rule(
        "    context:
    - {name: one, variable: {value: earlier}}
    - {name: one, apiCall: {service: {url: 'https://example.com'}, default: unused}}
    - {name: two, globalReference: {name: entry}}
",
        &[("v", "{{ one }}"), ("w", "{{ two || 'none' }}")],
    );
    let evaluate = |given: serde_json::Value| {
        let mut facts = super::facts();
        facts.offline = true;
        facts.given = given.as_object().expect("an object").clone();
        let trigger = writ::core::generate::Trigger::background(super::pod(json!({})));
        let asked = |fetch: &_| panic!("nothing is to be asked: {fetch}");
        match writ::core::generate::drive(&rule, &trigger, &mut facts, asked) {
            Ok(writ::core::generate::Evaluation::Done(plan)) => plan.targets[0].body["data"].clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(evaluate(json!({})), json!({"v": "earlier", "w": "none"}));
    assert_eq!(evaluate(json!({"one": "given", "two": [1]})), json!({"v": "given", "w": [1]}));
}
