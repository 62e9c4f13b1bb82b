//! Expressions, each beside the `jmespath` crate on the same document.
//!
//! The machine may be shared, so the two take turns in short rounds and the best round of each counts.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use writ::core::expr::{Expression, Runtime};

use crate::Report;

/// Name, expression, and how many times faster than the crate's `search` it has to be.
const EXPRESSIONS: &[(&str, &str, f64)] = &[
    ("path", "metadata.labels.team", 100.0),
    ("index", "spec.containers[3].image", 100.0),
    ("projection", "spec.containers[*].ports[*].containerPort | []", 1.0),
    ("filter", "spec.containers[?name == 'c-7'].image | [0]", 20.0),
    ("functions", "length(spec.containers[?starts_with(name, 'c-1')])", 1.0),
];
const ROUNDS: usize = 40;

pub(crate) fn run(quick: bool) -> anyhow::Result<Report> {
    let times = if quick { 200 } else { 2_000 };
    let document = document();
    let size = document.to_string().len();
    ensure!((9_000..12_000).contains(&size), "the document has {size} bytes, not about 10,000");
    let variable =
        jmespath::Rcvar::new(jmespath::Variable::from_json(&document.to_string()).map_err(anyhow::Error::msg)?);
    let mut table = format!("expressions\n  {:<12} {:>12} {:>12} {:>8}\n", "", "writ", "jmespath", "ratio");
    let mut data = json!({});
    let mut missed = Vec::new();
    for (name, text, target) in EXPRESSIONS {
        let ours = Expression::compile(text).with_context(|| format!("`{text}`"))?;
        let theirs = jmespath::compile(text).map_err(|error| anyhow::anyhow!("`{text}`: {error}"))?;
        let found = ours.search_json(&document, &runtime())?;
        let wanted = serde_json::to_value(theirs.search(&variable).map_err(|error| anyhow::anyhow!("{error}"))?)?;
        ensure!(found == wanted, "`{text}`: {found} and {wanted} differ");

        let (mut best_ours, mut best_theirs) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            let started = Instant::now();
            for _ in 0..times {
                std::hint::black_box(ours.search(&document, &runtime())?);
            }
            best_ours = best_ours.min(started.elapsed() / times);
            let started = Instant::now();
            for _ in 0..times {
                std::hint::black_box(theirs.search(&variable).map_err(|error| anyhow::anyhow!("{error}"))?);
            }
            best_theirs = best_theirs.min(started.elapsed() / times);
        }
        let ratio = best_theirs.as_secs_f64() / best_ours.as_secs_f64();
        let _ = writeln!(table, "  {name:<12} {best_ours:>12.0?} {best_theirs:>12.0?} {ratio:>8.1}");
        data[*name] = json!({"writ_ns": best_ours.as_nanos() as u64, "jmespath_ns": best_theirs.as_nanos() as u64});
        if ratio < *target {
            missed.push(format!(
                "expression `{text}` is {ratio:.0} times as fast as the jmespath crate, not {target:.0}"
            ));
        }
    }
    Ok(Report { table, data, missed })
}

fn runtime() -> Runtime {
    Runtime::new(jiff::Timestamp::UNIX_EPOCH, 1)
}

/// A Deployment of 10 KB: as many containers as a mesh and its helpers put there, each with what containers have.
fn document() -> Value {
    let container = |index: usize| {
        let variable =
            |name: &str| json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": "settings", "key": name}}});
        let probe =
            json!({"httpGet": {"path": "/healthz", "port": 8080}, "initialDelaySeconds": 5, "periodSeconds": 10});
        json!({
            "name": format!("c-{index}"), "image": format!("registry.example/team/app-{index}:1.{index}"),
            "ports": [{"name": "http", "containerPort": 8000 + index}, {"name": "admin", "containerPort": 9000 + index}],
            "env": [variable("LOG_LEVEL"), variable("REGION"), variable("FEATURES")],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
            "livenessProbe": probe, "readinessProbe": probe,
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}, {"name": "cache", "mountPath": "/var/cache"}],
            "securityContext": {"runAsNonRoot": true, "readOnlyRootFilesystem": true},
        })
    };
    let containers: Vec<Value> = (0..10).map(container).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web", "team": "red"}},
        "spec": {"containers": containers},
    })
}
