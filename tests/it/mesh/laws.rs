//! Laws that hold for every document: no input panics, and the same input gives the same findings in the same order.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use writ::compile;
use writ::compile::mesh::admission::{ControlPlane, Mode, Operation, Request, defaults, review};
use writ::core::json::Document;

/// Keys and values that policies have, so that documents get past the first check.
const KEYS: &[&str] = &[
    "targetRef",
    "to",
    "from",
    "rules",
    "default",
    "kind",
    "name",
    "namespace",
    "labels",
    "tags",
    "sectionName",
    "proxyTypes",
    "matches",
    "path",
    "type",
    "value",
    "method",
    "methods",
    "headers",
    "queryParams",
    "filters",
    "backendRefs",
    "weight",
    "port",
    "requestHeaderModifier",
    "requestRedirect",
    "urlRewrite",
    "requestMirror",
    "backendRef",
    "hostname",
    "hostnames",
    "prefix",
    "http",
    "tcp",
    "grpc",
    "connectionTimeout",
    "requestTimeout",
    "local",
    "requestRate",
    "num",
    "interval",
    "backends",
    "file",
    "openTelemetry",
    "endpoint",
    "datadog",
    "url",
    "appendMatch",
    "protocol",
    "appendModifications",
    "cluster",
    "httpFilter",
    "operation",
    "match",
    "jsonPatches",
    "op",
    "spiffeID",
    "sni",
    "allow",
    "hashPolicies",
    "loadBalancer",
    "localityAwareness",
    "crossZone",
    "failover",
    "percentage",
    "retryOn",
    "outlierDetection",
    "detectors",
    "sidecar",
    "profiles",
    "include",
];
const TEXTS: &[&str] = &[
    "",
    "Mesh",
    "MeshService",
    "MeshHTTPRoute",
    "MeshGateway",
    "Dataplane",
    "Exact",
    "PathPrefix",
    "/",
    "a",
    "*.a",
    "1.2.3.4/8",
    "5s",
    "-1h",
    "99.9",
    "1e999999999",
    "RequestRedirect",
    "Tcp",
    "http://[",
    "spiffe://a",
    "Add",
    "patch",
    "{",
    "é",
    "10.0.0.1",
    "GET",
    "Domain",
    "Prometheus",
    "Regex",
    "((",
    "{a: *b}",
    "% ",
    "[::1]:1",
];

fn documents() -> impl Strategy<Value = Value> {
    let text = prop_oneof![prop::sample::select(TEXTS).prop_map(str::to_owned), ".{0,12}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 96, 6, |inner| {
        let key = prop_oneof![4 => prop::sample::select(KEYS).prop_map(str::to_owned), 1 => ".{0,6}"];
        let object = prop::collection::btree_map(key, inner.clone(), 0..8)
            .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>()));
        prop_oneof![2 => object, 1 => prop::collection::vec(inner, 0..4).prop_map(Value::from)]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_document_gets_an_answer_and_always_the_same(spec in documents(), metadata in documents()) {
        let others = ["ProxyTemplate", "MeshService", "MeshExternalService", "MeshMultiZoneService"];
        for kind in compile::mesh::kinds().policies().map(|policy| policy.resource.kind).chain(others) {
            let object = json!({"apiVersion": "kuma.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec});
            let findings = compile::check(&object).expect("a kind that is served");
            prop_assert_eq!(Some(findings), compile::check(&object));

            let universal = json!({"type": kind, "name": "x", "mesh": "default", "spec": spec});
            prop_assert!(compile::check(&universal).is_some());
        }
    }

    #[test]
    fn every_request_gets_an_answer(object in documents(), namespace in ".{0,4}") {
        let plane = ControlPlane {
            mode: Mode::Zone { name: "a".to_owned(), federated: true },
            system_namespace: "s".to_owned(),
            privileged: Vec::new(),
        };
        let mut object = object;
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), json!("kuma.io/v1alpha1"));
            fields.insert("kind".to_owned(), json!("MeshTimeout"));
        }
        let document = Document::from(&object);
        let object = document.root();
        let request = Request { operation: Operation::Create, user: "u", namespace: &namespace, object };
        let _ = (review(&request, &plane), defaults(&request, &plane));
    }

    #[test]
    fn what_compiles_has_no_errors_and_the_other_way_round(spec in documents()) {
        let object = json!({"apiVersion": "kuma.io/v1alpha1", "kind": "MeshHTTPRoute", "metadata": {}, "spec": spec});
        let (route, findings) = compile::mesh::http_route(&object);
        prop_assert_eq!(route.is_some(), findings.errors.is_empty() && findings.schema.is_empty(), "{:?}", findings);
    }
}
