//! Admission over HTTPS: `writ serve` on one core beside a bare hyper server that answers a constant on the same core.
//!
//! The machine may be shared and noisy, so the two take turns in short rounds, and what counts is the time on the core that
//! each spends on a request: on one core that is the throughput, and nobody else's work is in it.

mod bare;
mod client;
mod process;

use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use crate::Report;
use crate::reviews::{Write, pod, policy, review};
use client::{Load, Protocol, Sample};
use process::{Server, TestFiles};

pub(crate) use bare::{BARE_SERVER, serve_bare};

/// Writ may cost so much of the bare server's throughput.
const MOST_LOST: f64 = 0.30;
/// Resident before the first request.
const MOST_IDLE_MIB: f64 = 30.0;
/// From the start of the process to its first answer that it is ready.
const LONGEST_START: Duration = Duration::from_secs(1);
/// Requests per second of the paced run, half of what one core should carry.
const PACE: u32 = 5_000;

/// What is sent: an object that no policy is about, and a policy.
const BODIES: [(&str, MakeObject); 2] = [("pod", pod), ("policy", policy)];

type MakeObject = fn() -> Write;

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
    if mib(idle) >= MOST_IDLE_MIB {
        missed.push(format!("{:.1} MiB are resident idle, {MOST_IDLE_MIB:.0} MiB at most", mib(idle)));
    }
    if writ.ready_after >= LONGEST_START {
        missed.push(format!("ready {ready} ms after the start, {} ms at most", LONGEST_START.as_millis()));
    }
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
