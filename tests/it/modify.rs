//! `writ modify` as somebody types it, on the resources of `tests/cases/modify`; a real Envoy takes what comes out.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::envoy::takes_bootstrap;
use crate::support::command::writ;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");

/// The resources after a policy, and how often its modifications have hit.
fn modified(policy: &str) -> (Vec<Value>, Vec<u64>) {
    let envoy = format!("{CASES}/modify/envoy.yaml");
    let out = writ(&["modify", "-f", policy, "--envoy", &envoy, "-o", "json"]).expect(0).out;
    let printed: Value = serde_json::from_str(&out).expect("JSON");
    let hits = printed["hits"].as_array().expect("a list").iter().filter_map(|hit| hit["hits"].as_u64()).collect();
    (printed["resources"].as_array().expect("a list").clone(), hits)
}

/// What one of the templates that are accepted makes of the resources.
fn example(name: &str) -> (Vec<Value>, Vec<u64>) {
    modified(&format!("{CASES}/proxy-template/accepted/{name}.yaml"))
}

fn written(folder: &Path, kind: &str, content: &str) -> String {
    let path = folder.join(format!("{kind}.yaml"));
    let head = format!("apiVersion: kuma.io/v1alpha1\nkind: {kind}\nmesh: default\nmetadata: {{name: p}}\nspec:\n");
    fs::write(&path, head + content).expect("a file");
    path.display().to_string()
}

#[track_caller]
fn found<'r>(resources: &'r [Value], name: &str) -> &'r Value {
    let of_name = |resource: &&Value| resource["resource"]["name"] == name;
    &resources.iter().find(of_name).unwrap_or_else(|| panic!("no {name} in {resources:?}"))["resource"]
}

#[track_caller]
fn assert_envoy_takes(resources: &[Value]) {
    let of = |kind: &str| -> Vec<_> {
        let bare = |resource: &Value| {
            let mut bare = resource["resource"].clone();
            bare.as_object_mut().expect("a mapping").remove("@type");
            bare
        };
        resources.iter().filter(|resource| resource["type"] == kind).map(bare).collect()
    };
    takes_bootstrap(&json!({"staticResources": {"clusters": of("Cluster"), "listeners": of("Listener")}}));
}

#[test]
fn the_examples_of_templates() {
    let (all, hits) = example("example-1-add-a-new-cluster");
    assert_eq!((hits, all.len()), (vec![1], 6));
    assert_eq!(found(&all, "localhost:9901")["connectTimeout"], "5s");
    assert_envoy_takes(&all);

    let (all, hits) = example("example-2-remove-route-from-the");
    let manager = &found(&all, "outbound:127.0.0.1:3000")["filterChains"][0]["filters"][0]["typedConfig"];
    assert_eq!((hits, &manager["routeConfig"]), (vec![1], &json!({"name": "backend"})));
    assert_envoy_takes(&all);

    let (all, hits) = example("example-3-patch-cluster");
    assert_eq!((hits, &found(&all, "backend")["connectTimeout"]), (vec![1], &json!("3s")));
    assert_envoy_takes(&all);

    let (all, hits) = example("example-4-add-http-jwt-filter");
    let manager = &found(&all, "inbound:127.0.0.1:1234")["filterChains"][0]["filters"][1]["typedConfig"];
    let names: Vec<_> = manager["httpFilters"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|filter| filter["name"].as_str())
        .collect();
    assert_eq!((hits, names), (vec![1], vec!["envoy.filters.http.jwt_authn", "envoy.filters.http.router"]));

    let (all, hits) = example("example-5-add-network-filters-on");
    let filters = &found(&all, "inbound:127.0.0.1:5000")["filterChains"][0]["filters"];
    assert_eq!((hits, &filters[1]["name"]), (vec![1], &json!("envoy.filters.network.local_ratelimit")));

    let (all, hits) = example("example-6-remove-network-filter");
    let filters = found(&all, "inbound:127.0.0.1:1234")["filterChains"][0]["filters"].as_array().expect("a list");
    assert_eq!((hits, filters.len()), (vec![1], 1));
    assert_envoy_takes(&all);

    let (all, hits) = example("example-7-patch-http-connection-manager");
    let manager = &found(&all, "inbound:127.0.0.1:1234")["filterChains"][0]["filters"][1]["typedConfig"];
    assert_eq!((hits, &manager["requestTimeout"], &manager["statPrefix"]), (vec![1], &json!("3s"), &json!("web")));
    assert_envoy_takes(&all);

    let (all, hits) = example("example-8-remove-all-clusters");
    assert_eq!((hits, all.iter().filter(|resource| resource["type"] == "Cluster").count()), (vec![2], 0));
}

#[test]
fn what_is_left_out_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let template = written(
        folder.path(),
        "ProxyTemplate",
        "  selectors: [{match: {kuma.io/service: '*'}}]
  conf:
    resources:
    - {name: s, version: v1, resource: \"{'@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret, name: s}\"}
",
    );
    let envoy = folder.path().join("envoy.yaml");
    let resources = "- {type: Cluster, resource: {name: a, connectTimeout: 1s}}
- {type: Cluster, resource: {name: a, connectTimeout: 2s}}
- {type: Cluster, resource: {'@type': type.googleapis.com/envoy.config.listener.v3.Listener, name: b}}
";
    fs::write(&envoy, resources).expect("a file");
    let run = writ(&["modify", "-f", &template, "--envoy", &envoy.display().to_string()]).expect(0);
    for told in [
        "envoy.yaml:2: warning: [1]: Cluster `a` was given before; this one replaces it",
        "it is read as a Cluster",
        "conf.resources[0]: is of a type that is not shown here; it is left out",
    ] {
        assert!(run.talk.contains(told), "{told} is not in {}", run.talk);
    }
    assert!(run.out.contains("2s") && !run.out.contains("1s"), "{}", run.out);
}

#[test]
fn patches_come_before_the_template() {
    let folder = tempfile::tempdir().expect("a folder");
    let template = written(
        folder.path(),
        "ProxyTemplate",
        "  selectors: [{match: {kuma.io/service: '*'}}]
  conf:
    modifications:
    - cluster: {operation: patch, match: {name: new}, value: {connectTimeout: 2s}}
",
    );
    let patch = written(
        folder.path(),
        "MeshProxyPatch",
        "  targetRef: {kind: Mesh}
  default:
    appendModifications:
    - cluster: {operation: Add, value: '{name: new, type: STATIC, connectTimeout: 1s}'}
    - listener: {operation: Patch, match: {tags: {kuma.io/service: '*'}}, jsonPatches: [{op: add, path: /perConnectionBufferLimitBytes, value: 4096}]}
",
    );
    let envoy = format!("{CASES}/modify/envoy.yaml");
    let out = writ(&["modify", "-f", &template, "-f", &patch, "--envoy", &envoy, "-o", "json"]).expect(0).out;
    let printed: Value = serde_json::from_str(&out).expect("JSON");
    let all = printed["resources"].as_array().expect("a list");
    assert_eq!(found(all, "new")["connectTimeout"], "2s");
    assert_eq!(found(all, "inbound:127.0.0.1:1234")["perConnectionBufferLimitBytes"], 4096);
    let hits: Vec<_> =
        printed["hits"].as_array().expect("a list").iter().map(|hit| (&hit["policy"], &hit["hits"])).collect();
    let (patch, template) = (json!("MeshProxyPatch p"), json!("ProxyTemplate p"));
    assert_eq!(hits, [(&patch, &json!(1)), (&patch, &json!(1)), (&template, &json!(1))]);
    assert_envoy_takes(all);
}

#[test]
fn what_cannot_be_done_is_told_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let envoy = format!("{CASES}/modify/envoy.yaml");
    let template = written(
        folder.path(),
        "ProxyTemplate",
        "  selectors: [{match: {kuma.io/service: '*'}}]
  conf:
    modifications:
    - cluster: {operation: remove, match: {name: nobody}}
    - networkFilter:
        operation: patch
        match: {name: envoy.filters.network.rbac}
        value: |
          name: x
          typedConfig: {'@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy}
",
    );
    let ran = writ(&["modify", "-f", &template, "--envoy", &envoy]);
    let place = format!("{template}:10: error: ProxyTemplate p: spec.conf.modifications[1].networkFilter: the filter");
    assert!(ran.talk.contains(&place), "{}", ran.talk);
    assert_eq!(ran.expect(1).out, "", "half a result is none");

    let bad =
        written(folder.path(), "MeshProxyPatch", "  default: {appendModifications: [{cluster: {operation: Add}}]}\n");
    let ran = writ(&["modify", "-f", &bad, "--envoy", &envoy]);
    assert!(ran.talk.contains("appendModifications[0].cluster.value: required"), "{}", ran.talk);
    ran.expect(1);

    let strange = folder.path().join("envoy.yaml");
    fs::write(&strange, "- {type: Secret, resource: {name: a}}\n- {type: Cluster, resource: {connectTimeout: soon}}\n")
        .expect("a file");
    let patch = written(
        folder.path(),
        "MeshProxyPatch",
        "  default: {appendModifications: [{cluster: {operation: Remove}}]}\n",
    );
    let ran = writ(&["modify", "-f", &patch, "--envoy", &strange.display().to_string()]);
    assert!(ran.talk.contains("[0].type: unknown value `Secret`; known: Cluster, Listener"), "{}", ran.talk);
    assert!(ran.talk.contains("[1].resource: not a valid Envoy Cluster: connectTimeout"), "{}", ran.talk);
    ran.expect(1);

    writ(&["modify", "-f", &envoy, "--envoy", &envoy]).expect(2);
    let other = folder.path().join("other.yaml");
    fs::copy(&template, &other).expect("a copy");
    writ(&["modify", "-f", &template, "-f", &other.display().to_string(), "--envoy", &envoy]).expect(2);
}

#[test]
fn people_get_a_list_that_can_be_given_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let envoy = format!("{CASES}/modify/envoy.yaml");
    let template = format!("{CASES}/proxy-template/accepted/example-3-patch-cluster.yaml");
    let ran = writ(&["modify", "-f", &template, "--envoy", &envoy]);
    assert!(ran.talk.contains("spec.conf.modifications[0].cluster: 1 hit"), "{}", ran.talk);
    let again = folder.path().join("again.yaml");
    let out = ran.expect(0).out;
    fs::write(&again, &out).expect("a file");
    assert_eq!(writ(&["modify", "-f", &template, "--envoy", &again.display().to_string()]).expect(0).out, out);
}
