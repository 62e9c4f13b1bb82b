//! Admission over HTTPS: `writ serve` on one core beside a bare hyper server that answers a constant on the same core.
//!
//! The machine may be shared and noisy, so the two take turns in short rounds and what counts is the ratio within a round.

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

pub(crate) fn run(quick: bool) -> anyhow::Result<Report> {
    let (rounds, time) = if quick {
        (2, Duration::from_millis(500))
    } else {
        (6, Duration::from_secs(2))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let files = TestFiles::make()?;
    let writ = Server::writ(&files).context("starting writ serve")?;
    let bare = Server::bare(&files).context("starting the bare server")?;
    let idle = writ.resident_kib()?;

    let mut lines = vec![
        "HTTPS AdmissionReviews, server on one core".to_owned(),
        format!(
            "{:<14} {:<9} {:>10} {:>10} {:>7} {:>9} {:>9}",
            "body", "protocol", "bare /s", "writ /s", "ratio", "p50 ms", "p99 ms"
        ),
    ];
    let (mut data, mut missed) = (Vec::new(), Vec::new());
    for (name, object) in &BODIES {
        let body = review(object());
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let mut pairs = Vec::new();
            for _round in 0..rounds {
                let load = |server: &Server| Load {
                    port: server.port,
                    protocol,
                    body: &body,
                    files: &files,
                };
                let bare_sample = runtime.block_on(load(&bare).saturate(time))?;
                let writ_sample = runtime.block_on(load(&writ).saturate(time))?;
                pairs.push((bare_sample, writ_sample));
            }
            let ratio = median(pairs.iter().map(|(bare, writ)| writ.per_second / bare.per_second));
            let best = |pick: fn(&(Sample, Sample)) -> f64| pairs.iter().map(pick).fold(0.0, f64::max);
            let (bare_best, writ_best) = (best(|pair| pair.0.per_second), best(|pair| pair.1.per_second));
            let p50 = median(pairs.iter().map(|(_, writ)| writ.p50_ms));
            let p99 = median(pairs.iter().map(|(_, writ)| writ.p99_ms));
            let protocol = protocol.name();
            lines.push(format!(
                "{name:<14} {protocol:<9} {bare_best:>10.0} {writ_best:>10.0} {ratio:>7.2} {p50:>9.2} {p99:>9.2}"
            ));
            data.push(json!({
                "body": name, "protocol": protocol, "bare_per_second": bare_best, "writ_per_second": writ_best,
                "ratio": ratio, "p50_ms": p50, "p99_ms": p99,
            }));
            if ratio < 1.0 - MOST_LOST {
                missed.push(format!(
                    "{name} over {protocol} costs {:.0} % of a bare server",
                    (1.0 - ratio) * 100.0
                ));
            }
        }
    }
    let body = review(pod());
    let load = Load {
        port: writ.port,
        protocol: Protocol::Http1,
        body: &body,
        files: &files,
    };
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
    Ok(Report {
        table: lines.join("\n"),
        data,
        missed,
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The review that an API server sends for the creation of an object.
fn review(object: Value) -> Vec<u8> {
    let kind = object["kind"].clone();
    let group = object["apiVersion"]
        .as_str()
        .and_then(|version| version.split_once('/'))
        .map_or("", |it| it.0);
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

fn policy() -> Value {
    let modification = |index: usize| {
        json!({"cluster": {
            "operation": "add",
            "value": {
                "name": format!("cluster-{index}"), "connectTimeout": "5s", "type": "STATIC", "lbPolicy": "ROUND_ROBIN",
                "loadAssignment": {
                    "clusterName": format!("cluster-{index}"),
                    "endpoints": [{"lbEndpoints": [{"endpoint": {"address": {"socketAddress": {
                        "address": "127.0.0.1", "portValue": 9000 + index}}}}]}],
                },
                "circuitBreakers": {"thresholds": [{"maxConnections": 1024, "maxPendingRequests": 1024, "maxRetries": 3}]},
            },
        }})
    };
    json!({
        "apiVersion": "kuma.io/v1alpha1", "kind": "ProxyTemplate", "metadata": {"name": "many-clusters"}, "mesh": "default",
        "spec": {
            "selectors": [{"match": {"kuma.io/service": "backend"}}],
            "conf": {"imports": ["default-proxy"], "modifications": (0..10).map(modification).collect::<Vec<_>>()},
        },
    })
}
