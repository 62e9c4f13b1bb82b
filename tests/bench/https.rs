//! Admission over HTTPS: `writ serve` on one core beside a bare hyper server that answers a constant on the same core.
//!
//! The machine may be shared and noisy, so the two take turns in short rounds, and what counts is the time on the core that
//! each spends on a request: on one core that is the throughput, and nobody else's work is in it.

mod bare;
mod client;
mod process;

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use crate::Report;
use client::{Load, Protocol, Sample};
use process::{Server, TestFiles};

pub(crate) use bare::{BARE_SERVER, serve_bare};

/// Writ may cost so much of the bare server's throughput.
const MOST_LOST: f64 = 0.30;
/// Requests per second of the paced run, half of what one core should carry.
const PACE: u32 = 5_000;

/// What is sent: an object that no policy is about, and a policy.
const BODIES: [(&str, MakeObject); 2] = [("pod", pod), ("policy", policy)];

type MakeObject = fn() -> Value;

/// One round: the bare server, then Writ, each with the microseconds on the core that a request cost.
type Pair = ((Sample, f64), (Sample, f64));

pub(crate) fn run(quick: bool) -> anyhow::Result<Report> {
    let (rounds, time) = if quick { (2, Duration::from_millis(500)) } else { (6, Duration::from_secs(2)) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let files = TestFiles::make()?;
    let writ = Server::writ(&files).context("starting writ serve")?;
    let bare = Server::bare(&files).context("starting the bare server")?;
    let idle = writ.resident_kib()?;

    let mut lines = vec![
        "HTTPS AdmissionReviews, server on one core".to_owned(),
        format!(
            "{:<8} {:<9} {:>8} {:>8} {:>11} {:>11} {:>6} {:>8} {:>8}",
            "body", "protocol", "bare /s", "writ /s", "bare us cpu", "writ us cpu", "ratio", "p50 ms", "p99 ms"
        ),
    ];
    let (mut data, mut missed) = (Vec::new(), Vec::new());
    for (name, object) in &BODIES {
        let body = review(object());
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let round = |server: &Server| -> anyhow::Result<(Sample, f64)> {
                let load = Load { port: server.port, protocol, body: &body, files: &files };
                let before = server.cpu()?;
                let sample = runtime.block_on(load.saturate(time))?;
                let cost = (server.cpu()? - before) / sample.requests.max(1);
                Ok((sample, cost.as_secs_f64() * 1e6))
            };
            let mut pairs = Vec::new();
            for _round in 0..rounds {
                pairs.push((round(&bare)?, round(&writ)?));
            }
            let best = |pick: fn(&Pair) -> f64| pairs.iter().map(pick).fold(0.0, f64::max);
            let (bare_best, writ_best) = (best(|pair| pair.0.0.per_second), best(|pair| pair.1.0.per_second));
            let middle = |pick: fn(&Pair) -> f64| median(pairs.iter().map(pick));
            let (bare_cost, writ_cost) = (middle(|pair| pair.0.1), middle(|pair| pair.1.1));
            let ratio = middle(|pair| pair.0.1 / pair.1.1);
            let (p50, p99) = (middle(|pair| pair.1.0.p50_ms), middle(|pair| pair.1.0.p99_ms));
            let protocol = protocol.name();
            lines.push(format!(
                "{name:<8} {protocol:<9} {bare_best:>8.0} {writ_best:>8.0} {bare_cost:>11.1} {writ_cost:>11.1} \
                 {ratio:>6.2} {p50:>8.2} {p99:>8.2}"
            ));
            data.push(json!({
                "body": name, "protocol": protocol, "bare_per_second": bare_best, "writ_per_second": writ_best,
                "bare_cpu_us": bare_cost, "writ_cpu_us": writ_cost, "ratio": ratio, "p50_ms": p50, "p99_ms": p99,
            }));
            if ratio < 1.0 - MOST_LOST {
                let lost = (1.0 - ratio) * 100.0;
                missed.push(format!("a {name} over {protocol} costs {lost:.0} % of a bare server's throughput"));
            }
        }
    }
    let body = review(pod());
    let load = Load { port: writ.port, protocol: Protocol::Http1, body: &body, files: &files };
    let paced = runtime.block_on(load.pace(PACE, time * 2))?;
    let loaded = writ.resident_kib()?;
    let (ready, mib) = (writ.ready_after.as_millis(), |kib: u64| kib as f64 / 1024.0);
    lines.push(format!(
        "at {:.0} /s: p50 {:.2} ms, p99 {:.2} ms; start to ready {ready} ms; resident {:.1} MiB idle, {:.1} MiB after load",
        paced.per_second, paced.p50_ms, paced.p99_ms, mib(idle), mib(loaded)
    ));
    let data = json!({
        "saturated": data,
        "paced": {"per_second": paced.per_second, "p50_ms": paced.p50_ms, "p99_ms": paced.p99_ms},
        "ready_ms": ready as u64, "idle_kib": idle, "loaded_kib": loaded,
    });
    Ok(Report { table: lines.join("\n"), data, missed })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The review that an API server sends for the creation of an object.
fn review(object: Value) -> Vec<u8> {
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
            "name": object["metadata"]["name"], "namespace": "team-a", "operation": "CREATE", "dryRun": false,
            "userInfo": {
                "username": "system:serviceaccount:kube-system:replicaset-controller",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
            },
            "object": object, "oldObject": null, "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    });
    review.to_string().into_bytes()
}

fn pod() -> Value {
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
    json!({
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
    })
}

/// What an API server sends for `kubectl apply` of a template: the content, the copy of it that kubectl keeps in an
/// annotation, and the fields that the API server manages.
fn policy() -> Value {
    let content = json!({
        "selectors": [{"match": {"kuma.io/service": "backend", "version": "v2"}}],
        "conf": {
            "imports": ["default-proxy"],
            "modifications": [
                {"cluster": {
                    "operation": "patch", "match": {"origin": "outbound"},
                    "value": {"connectTimeout": "3s", "circuitBreakers": {"thresholds": [{"maxConnections": 1024}]}},
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
    metadata["generation"] = json!(7);
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
