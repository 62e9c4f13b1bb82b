//! The definitions on a real API server: it takes them all, and refuses by them what `writ validate` says it does.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use writ::compile;
use writ::core::yaml;

use crate::support::{ControlPlane, root};

/// Documents with faults of every sort that schemas know.
const DOCUMENTS: &[(&str, &str)] = &[
    ("MeshTimeout", "{to: [{targetRef: {kind: Mesh}, default: {idleTimeout: 1s}}], nothing: {}}"),
    ("MeshTimeout", "{to: [{targetRef: {kind: ''}, default: {idleTimeout: 5}}, {}, null]}"),
    ("MeshTimeout", "{to: [{targetRef: {labels: {a: 1}, tags: {b: null}, proxyTypes: [Sidecar, Zone]}}], from: null}"),
    ("MeshTimeout", "[]"),
    (
        "MeshRetry",
        "{to: [{targetRef: {kind: Mesh}, default: {http: {numRetries: 1.5, retryOn: [503]}, grpc: {retryOn: [X]}}}]}",
    ),
    (
        "MeshRetry",
        "{to: [{targetRef: {kind: Mesh}, default: {http: {hostSelectionMaxAttempts: 99999999999999999999}}}]}",
    ),
    ("MeshCircuitBreaker", "{rules: [{default: {connectionLimits: {maxConnections: 3000000000, maxRetries: 5.0}}}]}"),
    ("MeshCircuitBreaker", "{rules: [{default: {outlierDetection: {disabled: 'true', healthyPanicThreshold: 1.5}}}]}"),
    (
        "MeshHealthCheck",
        "{to: [{targetRef: {kind: Mesh}, default: {http: {requestHeadersToAdd: {set: [{name: a b}]}}}}]}",
    ),
    (
        "MeshAccessLog",
        "{to: [{targetRef: {kind: Mesh}}], rules: [{default: {backends: [{type: Tcp, tcp: {address: ''}}, {}]}}]}",
    ),
    ("MeshTrace", "{default: {backends: [{type: A}, {}], sampling: {client: null, random: 5.0, overall: true}}}"),
    ("MeshMetric", "{default: {applications: [{}], backends: [{type: Prometheus, prometheus: {}}]}}"),
    ("MeshFaultInjection", "{rules: [{}, {default: {http: [{abort: {}}]}}]}"),
    ("MeshRateLimit", "{rules: [{default: {local: {http: {requestRate: {num: '1'}}}}}]}"),
    (
        "MeshLoadBalancingStrategy",
        "{to: [{targetRef: {kind: Mesh}, default: {loadBalancer: {type: Maglev, maglev: {tableSize: 0}}}}]}",
    ),
    ("MeshTrafficPermission", "{rules: [{}, {default: {allow: [{spiffeID: {type: X}}, {}]}}]}"),
    ("MeshTLS", "{rules: [{default: {tlsCiphers: [RC4], mode: strict}}]}"),
    ("MeshPassthrough", "{default: {appendMatch: [{type: IP, value: a, protocol: null}, {protocol: udp}]}}"),
    ("MeshProxyPatch", "{}"),
    (
        "MeshProxyPatch",
        "{default: {appendModifications: [{virtualHost: {operation: Add}}, {cluster: {operation: X, value: {a: b}}}]}}",
    ),
    ("MeshHTTPRoute", "{to: [{targetRef: {kind: Mesh}}, {targetRef: {kind: Mesh}, default: {rules: [{}]}}]}"),
    (
        "MeshHTTPRoute",
        "{to: [{targetRef: {kind: Mesh}, rules: [{matches: {path: {}, methods: [FETCH]}}, {matches: a}]}]}",
    ),
    (
        "MeshHTTPRoute",
        "{to: [{targetRef: {kind: Mesh}, rules: [{matches: [{path: {type: X, value: ''}, headers: [{name: ''}, {name: A}]}]}]}]}",
    ),
    (
        "MeshHTTPRoute",
        "{to: [{targetRef: {kind: Mesh}, rules: [{default: {filters: [{requestRedirect: {hostname: '', port: 70000, \
         statusCode: 300, path: /x}}, {requestHeaderModifier: {set: [{name: a, value: b}, {name: a, value: c}]}}]}}]}]}",
    ),
    ("MeshTCPRoute", "{to: []}"),
    ("MeshTCPRoute", "{to: [{targetRef: {kind: Mesh}, rules: [{}, {}]}, {targetRef: {kind: Mesh}}]}"),
    ("MeshService", "{state: Asleep, ports: [{port: 80}, {port: 80}, {port: 80, appProtocol: http}, {}]}"),
    ("MeshExternalService", "{match: {port: 0, protocol: udp}, endpoints: [{address: ''}]}"),
    ("MeshMultiZoneService", "{ports: []}"),
];

#[test]
fn the_server_and_the_command_line_refuse_the_same() {
    let Some(cluster) = ControlPlane::start() else { return };
    let folder = root().join("manifests/crds");
    cluster.kubectl(["apply", "--validate=strict", "-k", folder.to_str().expect("a path in UTF-8")]).ok();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).ok();
    for (kind, spec) in DOCUMENTS {
        let document = document(kind, spec);
        let expected: BTreeSet<_> = compile::check(&document)
            .expect("a kind that is checked")
            .schema
            .iter()
            .map(|problem| problem.field.to_string().replace("[\"", ".").replace("\"]", ""))
            .collect();
        let create = ["create", "--dry-run=server", "--validate=ignore", "-f", "-"];
        let answer = cluster.kubectl(create).stdin(&document.to_string()).run();
        assert_eq!(refused_fields(&answer.stderr), expected, "{kind} {spec}: {answer:?}");
        assert_eq!(answer.success, expected.is_empty(), "{kind} {spec}: {answer:?}");
    }
}

#[test]
fn defaults_are_set_and_older_forms_survive() {
    let Some(cluster) = ControlPlane::start() else { return };
    let folder = root().join("manifests/crds");
    cluster.kubectl(["apply", "-k", folder.to_str().expect("a path in UTF-8")]).ok();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).ok();
    let stored = |kind: &str, spec: &str| -> Value {
        let create = ["create", "--dry-run=server", "--validate=ignore", "-o", "json", "-f", "-"];
        let answer = cluster.kubectl(create).stdin(&document(kind, spec).to_string()).ok();
        serde_json::from_str::<Value>(&answer).expect("JSON")["spec"].clone()
    };
    let target = r#"{"kind": "Mesh"}"#;
    let older = format!(
        "{{to: [{{targetRef: {target}, default: {{rules: [{{matches: {{path: {{prefix: /v1}}, headers: [{{name: a}}]}}, \
         filters: [{{requestRedirect: {{path: /x}}}}], backendRefs: [{{kind: MeshService, name: b}}], other: 1}}]}}}}]}}"
    );
    let expected = json!({"to": [{"targetRef": {"kind": "Mesh"}, "default": {"rules": [{
        "matches": {"path": {"prefix": "/v1"}, "headers": [{"name": "a", "type": "Exact"}]},
        "filters": [{"requestRedirect": {"path": "/x", "statusCode": 302}}],
        "backendRefs": [{"kind": "MeshService", "name": "b", "weight": 1}],
    }]}}]});
    assert_eq!(stored("MeshHTTPRoute", &older), expected);

    let patch = "{default: {appendModifications: [{cluster: {operation: patch, value: {connectTimeout: 1s}}}, \
                 {cluster: {operation: Patch, jsonPatches: [{op: replace, path: /a, value: null}]}}]}}";
    assert_eq!(stored("MeshProxyPatch", patch), yaml::read_value(patch).expect("YAML"));
}

fn document(kind: &str, spec: &str) -> Value {
    let spec = yaml::read_value(spec).expect("a test writes YAML");
    let metadata = json!({"name": "test", "namespace": "default"});
    json!({"apiVersion": "kuma.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
}

/// The fields in kubectl's account of a refusal. One line says that no alternative fits, and names no field.
fn refused_fields(stderr: &str) -> BTreeSet<String> {
    let Some((_, told)) = stderr.split_once(" is invalid: ") else { return BTreeSet::new() };
    let told = told.lines().map(|line| line.trim_start_matches("* ")).filter(|line| !line.starts_with("<nil>"));
    told.filter_map(|line| line.split_once(": ")).map(|(field, _)| field.to_owned()).collect()
}
