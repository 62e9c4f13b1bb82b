//! `writ apply`, `writ test` and `writ jp`, as somebody types them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::command::writ;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/generate");

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// A policy `p` of one rule `r` that runs with each request.
fn write_rule(folder: &Path, rule: &str) -> String {
    let head = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n";
    write(folder, "policy.yaml", &format!("{head}  background: false\n  rules:\n  - name: r\n{rule}"))
}

#[test]
fn every_case_folder_passes() {
    let out = writ(&["test", CASES]).expect(0).out;
    assert!(out.ends_with(" passed, 0 failed\n"), "{out}");
}

#[test]
fn a_failing_case_shows_the_difference() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["policy.yaml", "resources.yaml", "expected.yaml"] {
        let text = fs::read_to_string(format!("{CASES}/data-list/{file}")).expect("a file");
        write(
            folder.path(),
            &format!("case/{file}"),
            &text.replace("foo: bar", if file == "expected.yaml" { "foo: other" } else { "foo: bar" }),
        );
    }
    let ran = writ(&["test", &folder.path().display().to_string()]);
    let out = ran.expect(1).out;
    assert!(out.contains("v1 ConfigMap team-a/default-configmap differs:"), "{out}");
    assert!(out.contains("-  foo: other") && out.contains("+  foo: bar"), "{out}");
    assert!(out.ends_with("0 passed, 1 failed\n"), "{out}");
}

#[test]
fn a_case_that_expects_nothing_fails_and_no_case_cannot_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    writ(&["test", &path]).expect(2);
    let text = fs::read_to_string(format!("{CASES}/data-list/policy.yaml")).expect("a file");
    write(folder.path(), "policy.yaml", &text);
    assert!(writ(&["test", &path]).expect(1).out.contains("the case expects nothing"));
}

#[test]
fn cases_of_the_kyverno_command_line_run_too() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["policy.yaml", "resources.yaml"] {
        let text = fs::read_to_string(format!("{CASES}/data-list/{file}")).expect("a file");
        write(folder.path(), file, &text);
    }
    fs::rename(folder.path().join("policy.yaml"), folder.path().join("cpol.yaml")).expect("renamed");
    write(
        folder.path(),
        "made.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: default-configmap, namespace: team-a}\ndata: {foo: bar}\n",
    );
    let manifest = |result: &str| {
        format!(
            "name: t\npolicies: [cpol.yaml]\nresources: [resources.yaml]\nresults:\n- policy: data-list\n  rule: generate-multiple-targets\n  resources: [team-a]\n  generatedResource: made.yaml\n  kind: Namespace\n  result: {result}\n"
        )
    };
    let path = folder.path().display().to_string();
    write(folder.path(), "kyverno-test.yaml", &manifest("pass"));
    assert!(writ(&["test", &path]).expect(0).out.contains("(1 checked)"));
    write(folder.path(), "kyverno-test.yaml", &manifest("skip"));
    assert!(writ(&["test", &path]).expect(1).out.contains("was to be skipped"));
}

#[test]
fn apply_prints_objects_reasons_and_errors() {
    let case = format!("{CASES}/foreach-preconditions");
    let (policy, resources) = (format!("{case}/policy.yaml"), format!("{case}/resources.yaml"));
    let out = writ(&["apply", &policy, "-r", &resources, "-o", "json"]).expect(0).out;
    let printed: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(printed["generated"][0]["metadata"]["name"], json!("my-configmap-0"));
    assert_eq!(printed["skipped"][0]["trigger"], json!("v1 Pod team-b/other"));
    assert_eq!(printed["errors"], json!([]));

    let out = writ(&["apply", &policy, "-r", &resources, "-o", "yaml"]).expect(0).out;
    let documents = writ::core::yaml::read(&out);
    assert_eq!(documents.len(), 1, "{out}");

    let out = writ(&["apply", &policy, "-r", &resources]).expect(0).out;
    assert!(out.starts_with("v1 ConfigMap team-a/my-configmap-0  (policy foreach-preconditions, rule"), "{out}");
    assert!(out.ends_with("1 generated, 1 skipped, 0 failed\n"), "{out}");
}

#[test]
fn apply_says_why_a_rule_found_nothing_and_does_not_hide_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = write(folder.path(), "secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n");
    let out = writ(&["apply", &format!("{CASES}/data-list/policy.yaml"), "-r", &secret, "-o", "json"]).expect(0).out;
    let printed: Value = serde_json::from_str(&out).expect("JSON");
    let because = printed["skipped"][0]["because"].as_str().expect("a reason");
    assert!(because.starts_with("matches none of the 1 resources; v1 Secret default/s: "), "{because}");

    // One bad policy beside a good one: the good one runs, and the exit code tells.
    let namespace = format!("{CASES}/data-list/resources.yaml");
    let bad = format!("{CASES}/fail/gateway-without-namespace/policy.yaml");
    let good = format!("{CASES}/data-list/policy.yaml");
    let out = writ(&["apply", &bad, &good, "-r", &namespace, "-o", "json"]).expect(1).out;
    let printed: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(printed["generated"].as_array().map(Vec::len), Some(2));
    assert_eq!(printed["errors"][0]["line"], json!(29));
    writ(&["apply", &namespace, "-r", &namespace]).expect(2);
}

#[test]
fn values_change_the_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = write_rule(
        folder.path(),
        "    match: {any: [{resources: {kinds: [Namespace]}, subjects: [{kind: User, name: jane}]}]}
    generate:
      apiVersion: v1
      kind: ConfigMap
      name: made
      namespace: '{{ request.object.metadata.name }}'
      data: {data: {operation: '{{ request.operation }}', user: '{{ request.userInfo.username }}'}}
",
    );
    let values = write(folder.path(), "values.yaml", "kind: Values\nglobalValues: {request.operation: UPDATE}\n");
    let user = write(folder.path(), "user.yaml", "kind: UserInfo\nuserInfo: {username: jane}\n");
    let resources = format!("{CASES}/data-list/resources.yaml");
    let out = writ(&["apply", &policy, "-r", &resources, "-o", "json"]).expect(0).out;
    let printed: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(printed["generated"], json!([]), "nobody is not jane");
    let out =
        writ(&["apply", &policy, "-r", &resources, "-f", &values, "--userinfo", &user, "-o", "json"]).expect(0).out;
    let printed: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(printed["generated"][0]["data"], json!({"operation": "UPDATE", "user": "jane"}));
}

#[test]
fn values_of_loops_are_given_element_by_element() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = write_rule(
        folder.path(),
        "    match: {any: [{resources: {kinds: [Namespace]}}]}
    generate:
      foreach:
      - list: \"['a', 'b', 'c']\"
        context: [{name: env, configMap: {name: env, namespace: x}}]
        apiVersion: v1
        kind: ConfigMap
        name: 'made-{{ element }}'
        namespace: '{{ request.object.metadata.name }}'
        data: {data: {value: '{{ env.data.value }}'}}
",
    );
    let values = "kind: Values
policies:
- name: p
  rules:
  - name: r
    values: {env.data.value: all}
    foreachValues: {env.data.value: [one, two]}
";
    let values = write(folder.path(), "values.yaml", values);
    let resources = format!("{CASES}/data-list/resources.yaml");
    let out = writ(&["apply", &policy, "-r", &resources, "-f", &values, "-o", "json"]).expect(0).out;
    let printed: Value = serde_json::from_str(&out).expect("JSON");
    let found: Vec<_> =
        printed["generated"].as_array().expect("a list").iter().map(|made| &made["data"]["value"]).collect();
    assert_eq!(found, ["one", "two", "all"]);
}

#[test]
fn payloads_of_subresources_match_their_kinds() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = write_rule(
        folder.path(),
        "    match: {any: [{resources: {kinds: [Deployment/scale]}}]}
    generate:
      apiVersion: v1
      kind: ConfigMap
      name: '{{ request.object.metadata.name }}-{{ request.subResource }}'
      namespace: '{{ request.namespace }}'
      data: {data: {replicas: '{{ to_string(request.object.spec.replicas) }}'}}
",
    );
    let scale = write(
        folder.path(),
        "scale.yaml",
        "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web, namespace: shop}, spec: {replicas: 2}}\n",
    );
    let values = "kind: Values
subresources:
- subresource: {name: deployments/scale, kind: Scale, group: autoscaling, version: v1}
  parentResource: {name: deployments, kind: Deployment, group: apps, version: v1}
";
    let values = write(folder.path(), "values.yaml", values);
    let run = |arguments: &[&str]| -> Value {
        let arguments = [&["apply", &policy, "-r", &scale, "-o", "json"], arguments].concat();
        serde_json::from_str(&writ(&arguments).expect(0).out).expect("JSON")
    };
    assert_eq!(run(&[])["generated"], json!([]), "nobody knows what a Scale belongs to");
    let made = &run(&["-f", &values])["generated"][0];
    assert_eq!((&made["metadata"]["name"], &made["data"]["replicas"]), (&json!("web-scale"), &json!("2")));
}

#[test]
fn jp_queries_parses_and_explains() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = write(folder.path(), "in.yaml", "items: [{name: a}, {name: b}]\n");
    assert_eq!(
        writ(&["jp", "query", "items[].name", "-i", &input, "-o", "json"]).expect(0).out,
        "[\n  \"a\",\n  \"b\"\n]\n"
    );
    assert_eq!(writ(&["jp", "query", "length(items)", "-i", &input]).expect(0).out, "2\n");
    writ(&["jp", "query", "missing.key", "-i", &input]).expect(1);
    writ(&["jp", "query", "items[", "-i", &input]).expect(1);
    assert!(writ(&["jp", "parse", "a.b"]).expect(0).out.contains("field \"a\""));
    assert!(writ(&["jp", "function", "split"]).expect(0).out.starts_with("split(string, string) -> array[string]\n"));
    assert!(writ(&["jp", "function"]).expect(0).out.lines().count() > 70);
    let ran = writ(&["jp", "function", "splitt"]);
    assert!(ran.talk.contains("did you mean `split`?"), "{}", ran.talk);
    ran.expect(2);
}
