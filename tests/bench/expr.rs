//! Expressions, each beside the `jmespath` crate on the same document.
//!
//! The machine may be shared, so the two take turns in short rounds and the best round of each counts.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use writ::core::expr::{Expression, Runtime};

use crate::Report;

const EXPRESSIONS: &[(&str, &str)] = &[
    ("path", "metadata.labels.team"),
    ("index", "spec.containers[3].image"),
    ("projection", "spec.containers[*].ports[*].containerPort | []"),
    ("filter", "spec.containers[?name == 'c-17'].image | [0]"),
    ("functions", "length(spec.containers[?starts_with(name, 'c-1')])"),
];
const ROUNDS: usize = 40;

pub(crate) fn run(quick: bool) -> anyhow::Result<Report> {
    let times = if quick { 200 } else { 2_000 };
    let document = document();
    let variable =
        jmespath::Rcvar::new(jmespath::Variable::from_json(&document.to_string()).map_err(anyhow::Error::msg)?);
    let mut table = format!(
        "expressions\n  {:<12} {:>12} {:>12} {:>8}\n",
        "", "writ", "jmespath", "ratio"
    );
    let mut data = json!({});
    let mut missed = Vec::new();
    for (name, text) in EXPRESSIONS {
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
        let _ = writeln!(
            table,
            "  {name:<12} {best_ours:>12.0?} {best_theirs:>12.0?} {ratio:>8.1}"
        );
        data[*name] = json!({"writ_ns": best_ours.as_nanos() as u64, "jmespath_ns": best_theirs.as_nanos() as u64});
        if ratio < 1.0 {
            missed.push(format!(
                "expression `{text}` is slower than the jmespath crate: {best_ours:?}, {best_theirs:?}"
            ));
        }
    }
    Ok(Report { table, data, missed })
}

fn runtime() -> Runtime {
    Runtime::new(jiff::Timestamp::UNIX_EPOCH, 1)
}

/// A Deployment-like object with twenty containers.
fn document() -> Value {
    let containers: Vec<Value> = (0..20)
        .map(|index| {
            json!({
                "name": format!("c-{index}"), "image": format!("registry.example/app-{index}:1.{index}"),
                "ports": [{"containerPort": 8000 + index}, {"containerPort": 9000 + index}],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            })
        })
        .collect();
    json!({"metadata": {"name": "web", "labels": {"app": "web", "team": "red"}}, "spec": {"containers": containers}})
}
