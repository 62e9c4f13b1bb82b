//! What an API server sends: some 5 KB for a new object that no policy is about, and for a policy that somebody changes.

use serde_json::{Value, json};

/// What an object is to become, and what it was.
pub(crate) struct Write {
    object: Value,
    old: Option<Value>,
}

/// The review that an API server sends for it.
pub(crate) fn review(write: Write) -> Vec<u8> {
    let Write { object, old } = write;
    let (operation, options) = if old.is_some() { ("UPDATE", "UpdateOptions") } else { ("CREATE", "CreateOptions") };
    let kind = object["kind"].clone();
    let group = object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |it| it.0);
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": group, "version": "v1", "kind": kind},
            "resource": {"group": group, "version": "v1", "resource": "things"},
            "requestKind": {"group": group, "version": "v1", "kind": kind},
            "name": object["metadata"]["name"], "namespace": "team-a", "operation": operation, "dryRun": false,
            "userInfo": {
                "username": "system:serviceaccount:kube-system:replicaset-controller",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
            },
            "object": object, "oldObject": old, "options": {"apiVersion": "meta.k8s.io/v1", "kind": options},
        },
    });
    review.to_string().into_bytes()
}

/// A new pod.
pub(crate) fn pod() -> Write {
    let container = |index: usize| {
        json!({
            "name": format!("container-{index}"), "image": "registry.example/team-a/service:1.2.3",
            "env": [
                {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                {"name": "LOG_LEVEL", "value": "info"}, {"name": "REGION", "value": "eu-central-1"},
            ],
            "ports": [{"containerPort": 8080 + index, "name": "http", "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "50m", "memory": "64Mi"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "token"}],
        })
    };
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "service-7d9f8b6c5-x2x7k", "namespace": "team-a",
            "labels": {"app.kubernetes.io/name": "service", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "7d9f8b6c5"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
        },
        "spec": {
            "containers": (0..6).map(container).collect::<Vec<_>>(),
            "serviceAccountName": "service", "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        },
    });
    Write { object, old: None }
}

/// A template whose time-out was changed.
pub(crate) fn policy() -> Write {
    Write { object: template("3s", 7), old: Some(template("5s", 6)) }
}

/// A template as `kubectl apply` leaves it: the content, the copy of it that kubectl keeps in an annotation, and the
/// fields that the API server manages.
fn template(connect_timeout: &str, generation: u32) -> Value {
    let content = json!({
        "selectors": [{"match": {"kuma.io/service": "backend", "version": "v2"}}],
        "conf": {
            "imports": ["default-proxy"],
            "modifications": [
                {"cluster": {
                    "operation": "patch", "match": {"origin": "outbound"},
                    "value": {"connectTimeout": connect_timeout, "circuitBreakers": {"thresholds": [{"maxConnections": 1024}]}},
                }},
                {"httpFilter": {
                    "operation": "addBefore",
                    "match": {"name": "envoy.filters.http.router", "listenerName": "inbound:127.0.0.1:8080"},
                    "value": {"name": "envoy.filters.http.cors", "typedConfig": {
                        "@type": "type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors"}},
                }},
                {"networkFilter": {"operation": "remove", "match": {"name": "envoy.filters.network.rbac"}}},
            ],
        },
    });
    let mut applied = json!({
        "apiVersion": "kuma.io/v1alpha1", "kind": "ProxyTemplate", "mesh": "default",
        "metadata": {"name": "backend-tuning", "annotations": {"team": "payments"}, "labels": {"app.kubernetes.io/part-of": "shop"}},
        "spec": content,
    });
    let copy = applied.to_string() + "\n";
    let fields = json!({
        "f:mesh": {},
        "f:metadata": {
            "f:annotations": {".": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {}, "f:team": {}},
            "f:labels": {".": {}, "f:app.kubernetes.io/part-of": {}},
        },
        "f:spec": {".": {}, "f:conf": {}, "f:selectors": {}},
    });
    let metadata = &mut applied["metadata"];
    metadata["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = Value::from(copy);
    metadata["uid"] = json!("8f3c5c0e-6f2e-4c55-9f0e-5b1f1d0f7a11");
    metadata["resourceVersion"] = json!("184467");
    metadata["generation"] = json!(generation);
    metadata["creationTimestamp"] = json!("2026-11-16T11:00:00Z");
    metadata["managedFields"] = ["kubectl-client-side-apply", "kubectl-edit"]
        .map(|manager| {
            json!({"manager": manager, "operation": "Update", "apiVersion": "kuma.io/v1alpha1",
                   "time": "2026-11-16T11:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields})
        })
        .into_iter()
        .collect();
    applied
}
