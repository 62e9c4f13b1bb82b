//! Rules of mesh policies: how long they take, and what a mesh takes in memory.
//!
//! Times are those that the thread spent on a core, and the best of some rounds counts: the machine may be shared.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use writ::core::mesh::kind::PolicyKind;
use writ::core::mesh::matching::{self, MatchedPolicies};
use writ::core::mesh::mesh_policy::MeshPolicy;
use writ::core::mesh::outbound::ResourceRules;
use writ::index::mesh::{MeshContents, MeshIndex};
use writ::inspect::{InspectRequest, answer};

use crate::{Report, on_core};

const POLICIES: usize = 200;
const PROXIES: usize = 1_000;
const MOST_SERVICES: usize = 4_000;
/// Services, and the longest time that the rules of one proxy may take.
const SIZES: &[(usize, Option<Duration>)] = &[
    (40, None),
    (400, None),
    (1_000, Some(Duration::from_millis(5))),
    (MOST_SERVICES, Some(Duration::from_millis(20))),
];

pub(crate) fn run(quick: bool) -> anyhow::Result<Report> {
    let rounds = if quick { 3 } else { 20 };
    let (mut data, mut missed) = (json!({}), Vec::new());
    // First, as memory that was used before would not count.
    let large = large_mesh(rounds)?;
    let mut table = format!(
        "mesh rules of one proxy, {POLICIES} policies, half by labels\n  {:>10} {:>10} {:>12} {:>14}\n",
        "services", "matched", "time", "per matched"
    );
    for (services, most) in SIZES {
        let row = to_rules(*services, rounds)?;
        let per_match = row.time / u32::try_from(row.matched.max(1))?;
        let _ = writeln!(table, "  {services:>10} {:>10} {:>12.1?} {per_match:>14.0?}", row.matched, row.time);
        data[services.to_string()] = json!({"matched": row.matched, "microseconds": row.time.as_micros() as u64});
        if let Some(most) = most.filter(|most| row.time > *most) {
            missed.push(format!("the rules of a proxy with {services} services take {:.1?}, not {most:?}", row.time));
        }
    }
    let _ = writeln!(table, "mesh of {PROXIES} proxies, {MOST_SERVICES} services, {POLICIES} policies");
    for (what, have, most) in large.times {
        let _ = writeln!(table, "  {what:<44} {have:>10.1?}   (at most {most:?})");
        data[what] = json!({"microseconds": have.as_micros() as u64});
        if have > most {
            missed.push(format!("{what}: {have:.1?}, not {most:?}"));
        }
    }
    let mebibytes = large.bytes as f64 / f64::from(1 << 20);
    let _ = writeln!(table, "  {:<44} {mebibytes:>7.1} MiB   (at most 64 MiB)", "memory of a snapshot");
    data["memory_bytes"] = large.bytes.into();
    if mebibytes > 64.0 {
        missed.push(format!("a snapshot takes {mebibytes:.1} MiB, not 64"));
    }
    Ok(Report { table, data, missed })
}

struct Row {
    matched: usize,
    time: Duration,
}

/// From policies in merge order to all rules for destinations.
fn to_rules(services: usize, rounds: usize) -> anyhow::Result<Row> {
    let mut index = MeshIndex::default();
    fill(&mut index, 1, services);
    let snapshot = index.snapshot();
    let kind = snapshot.kinds().policy("MeshTimeout").context("a kind")?;
    let mesh = snapshot.mesh("default").context("a mesh")?;
    let policies = selected(mesh, kind, "p-0")?;
    ensure!(policies.len() == POLICIES, "{} policies select the proxy", policies.len());
    // The clock of a thread ticks only now and then.
    let times = u32::try_from(20_000 / services)?.max(5);
    let (mut time, mut matched) = (Duration::MAX, 0);
    for _ in 0..rounds {
        let started = on_core()?;
        for _ in 0..times {
            let rules = build(mesh, kind, &policies)?;
            matched = rules.iter().map(|rule| rule.merged.origin.len()).sum();
        }
        time = time.min(on_core()?.saturating_sub(started) / times);
    }
    Ok(Row { matched, time })
}

fn selected(mesh: &MeshContents, kind: &PolicyKind, name: &str) -> anyhow::Result<Vec<Arc<MeshPolicy>>> {
    let dataplane = mesh.dataplane(name).context("a proxy")?;
    Ok(MatchedPolicies::find(mesh.policies(kind), &mesh.proxy(dataplane), mesh).policies)
}

fn build(mesh: &MeshContents, kind: &PolicyKind, policies: &[Arc<MeshPolicy>]) -> anyhow::Result<ResourceRules> {
    std::hint::black_box(matching::to_rules(kind, policies, mesh)?);
    Ok(ResourceRules::build(kind, policies.iter().map(AsRef::as_ref), mesh.resource(), mesh.destinations()))
}

struct LargeMesh {
    times: Vec<(&'static str, Duration, Duration)>,
    bytes: u64,
}

fn large_mesh(rounds: usize) -> anyhow::Result<LargeMesh> {
    let before = resident()?;
    let mut index = MeshIndex::default();
    fill(&mut index, PROXIES, MOST_SERVICES);
    let bytes = resident()?.saturating_sub(before);

    let (mut all, mut one, mut changed) = (Duration::MAX, Duration::MAX, Duration::MAX);
    let path = "/meshes/default/dataplanes/p-7/_rules";
    let request = InspectRequest { path, query: "", base: "" };
    for round in 0..rounds.min(5) {
        let started = on_core()?;
        index.apply(&policy(3, 1 + round));
        let snapshot = index.snapshot();
        let body = answer(&snapshot, &request).body;
        changed = changed.min(on_core()?.saturating_sub(started));
        ensure!(body.len() > MOST_SERVICES * 100, "{body:.200}");

        let (started, times) = (on_core()?, 5);
        for _ in 0..times {
            std::hint::black_box(answer(&snapshot, &request));
        }
        one = one.min(on_core()?.saturating_sub(started) / times);

        index.apply(&policy(3, 100 + round));
        let snapshot = index.snapshot();
        let (mesh, kind) = (snapshot.mesh("default").context("a mesh")?, snapshot.kinds().policy("MeshTimeout"));
        let kind = kind.context("a kind")?;
        let started = on_core()?;
        for dataplane in mesh.dataplanes() {
            std::hint::black_box(mesh.matches(kind, &mesh.proxy(dataplane)));
        }
        all = all.min(on_core()?.saturating_sub(started));
    }
    let times = vec![
        ("rules of all proxies", all, Duration::from_secs(1)),
        ("one Inspect answer, every destination in it", one, Duration::from_millis(20)),
        ("a changed policy, until an answer has it", changed, Duration::from_millis(50)),
    ];
    Ok(LargeMesh { times, bytes })
}

fn fill(index: &mut MeshIndex, proxies: usize, services: usize) {
    index.apply(&json!({"type": "Mesh", "name": "default"}));
    (0..services).for_each(|number| drop(index.apply(&service(number))));
    (0..POLICIES).for_each(|number| drop(index.apply(&policy(number, 1))));
    (0..proxies).for_each(|number| drop(index.apply(&proxy(number))));
}

fn service(number: usize) -> Value {
    json!({
        "type": "MeshService", "mesh": "default", "name": format!("service-{number}"),
        "labels": {"team": format!("team-{}", number % 20), "tier": format!("tier-{}", number % 7),
            "k8s.kuma.io/namespace": format!("namespace-{}", number % 50)},
        "spec": {"ports": [{"port": 80, "appProtocol": "http"}, {"port": 90, "appProtocol": "tcp"}]},
    })
}

/// Every second one is for services with a label, the others name one.
fn policy(number: usize, seconds: usize) -> Value {
    let target = match number % 4 {
        0 => json!({"kind": "MeshService", "labels": {"team": format!("team-{}", number % 20)}}),
        2 => json!({"kind": "MeshService", "labels": {"tier": format!("tier-{}", number % 7)}}),
        _ => json!({"kind": "MeshService", "name": format!("service-{number}"),
            "namespace": format!("namespace-{}", number % 50)}),
    };
    let conf = json!({"idleTimeout": format!("{seconds}s"), "http": {"requestTimeout": format!("{}s", number + 1)}});
    json!({
        "type": "MeshTimeout", "mesh": "default", "name": format!("timeout-{number}"),
        "spec": {"to": [{"targetRef": target, "default": conf}]},
    })
}

fn proxy(number: usize) -> Value {
    json!({
        "type": "Dataplane", "mesh": "default", "name": format!("p-{number}"),
        "labels": {"app": format!("app-{}", number % 100)},
        "networking": {"address": format!("10.0.{}.{}", number / 250, number % 250),
            "inbound": [{"port": 8080, "tags": {"kuma.io/service": format!("service-{number}"), "version": "1"}}]},
    })
}

/// The memory of this process.
fn resident() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split_whitespace().nth(1).context("an empty statm")?.parse()?;
    Ok(pages * 4096)
}
