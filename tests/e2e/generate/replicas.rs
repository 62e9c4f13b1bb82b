//! Several replicas, restarts, rest.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::rules::{Policy, Rule};
use super::{Stage, VALUE, base64, grant};
use crate::support::{ControlPlane, Writ, eventually};

/// How long the work may rest when the replica that does it is gone.
const TAKING_OVER: Duration = Duration::from_secs(15);

/// What happened while nobody worked is found out at the start: repaired where the rule synchronizes, made up for where it
/// does not, and nothing twice.
#[test]
fn a_killed_writ_comes_back_to_what_happened_meanwhile() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &[]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "restart");
    let drawn = json!({"stringData": {"value": "{{random('[a-z]{16}')}}"}});
    let chance = Rule::data("chance").making("data", drawn).synchronized();
    let target = stage.beside("restart-target");
    let list = Rule::clone_list("list", "many", &target.ns.name).synchronized();
    for source in ["stays", "goes"] {
        stage.source(source, "many", "1");
    }
    stage.policy([Rule::data("sync").synchronized(), Rule::data("once"), chance, list]);
    let short = stage.policy(Policy::from(Rule::data("short").synchronized()).named("NS-short"));
    for name in ["kept", "edited", "deleted", "ended"] {
        stage.trigger(name, "1");
        for rule in ["sync", "once", "short", "chance"] {
            stage.appears("secret", &format!("{rule}-{name}"));
        }
    }
    target.appears("secret", "goes");
    // Long enough for the memory to be written.
    eventually(Duration::from_secs(20), "the memory", || {
        let memory = cluster
            .kubectl(["get", "cm", "writ-progress", "-n", "writ-system", "-o", "jsonpath={.data.progress}"])
            .run();
        if memory.stdout.contains("-short") && memory.stdout.contains("cursor") { Ok(()) } else { Err(memory.stdout) }
    });
    stage.fence();
    std::thread::sleep(Duration::from_secs(6));
    writ.signal("KILL");
    drop(writ);

    stage.patch("secret", "sync-edited", r#"{"stringData": {"value": "mine"}}"#);
    stage.delete("secret", "sync-deleted");
    stage.delete("secret", "once-deleted");
    stage.delete("configmap", "ended");
    stage.delete("secret", "goes");
    stage.trigger("young", "1");
    stage.delete("clusterpolicy", &short);
    let version = |name: &str| stage.field("secret", name, ".metadata.resourceVersion");
    let versions = ["sync-kept", "chance-kept"].map(version);

    let _writ = Writ::start(&cluster, &[]);
    stage.becomes("secret", "sync-edited", VALUE, &base64("1"));
    stage.becomes("secret", "sync-deleted", VALUE, &base64("1"));
    stage.becomes("secret", "sync-young", VALUE, &base64("1"));
    stage.becomes("secret", "once-young", VALUE, &base64("1"));
    stage.disappears("secret", "sync-ended");
    stage.disappears("secret", "short-kept");
    target.disappears("secret", "goes");
    target.is_there("secret", "stays");
    stage.fence();
    stage.is_absent("secret", "once-deleted");
    stage.is_there("secret", "once-ended");
    assert_eq!(["sync-kept", "chance-kept"].map(version), versions, "written without need");
}

#[test]
fn another_replica_takes_over() {
    let Some(cluster) = ControlPlane::start() else { return };
    let first = Writ::start(&cluster, &[]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "takeover");
    stage.policy([Rule::data("out").synchronized(), Rule::data("once")]);
    let second = Writ::start_second(&cluster, &[]);
    stage.trigger("a", "1");
    stage.becomes("secret", "out-a", VALUE, &base64("1"));
    stage.appears("secret", "once-a");
    let leading = |writ: &Writ| writ.get("/metrics").expect("metrics").1.contains("\nwrit_leading 1");
    assert!(leading(&first) && !leading(&second), "two replicas at work, or none");

    first.signal("KILL");
    let killed = Instant::now();
    let missed: Vec<String> = (0..10).map(|index| format!("missed-{index}")).collect();
    missed.iter().for_each(|name| stage.trigger(name, "1"));
    stage.delete("secret", "out-a");
    eventually(TAKING_OVER, "the other replica to work", || if leading(&second) { Ok(()) } else { Err("not yet") });
    assert!(killed.elapsed() < TAKING_OVER, "taking over took {:?}", killed.elapsed());
    eventually(Duration::from_secs(20), "what was missed", || {
        let found = stage.ns.kubectl(["get", "secrets", "-o", "name"]).ok();
        let found: Vec<&str> = found.lines().collect();
        let names = missed.iter().map(String::as_str).chain(["a"]);
        let names = names.flat_map(|name| ["out", "once"].map(|rule| format!("secret/{rule}-{name}")));
        let missing: Vec<String> = names.filter(|name| !found.contains(&name.as_str())).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?}")) }
    });
    // Each object was written once: two for each trigger that was missed, and the one that was deleted.
    let written = |outcome: &str| count(&second, outcome);
    assert_eq!((written("created"), written("updated"), written("deleted")), (21, 0, 0));

    // One that is asked to end hands over at once.
    drop(first);
    let third = Writ::start(&cluster, &[]);
    let asked = Instant::now();
    second.terminate();
    stage.trigger("c", "1");
    stage.becomes("secret", "out-c", VALUE, &base64("1"));
    assert!(asked.elapsed() < Duration::from_secs(12), "handing over took {:?}", asked.elapsed());
    assert_eq!(count(&third, "updated"), 0);
}

/// Defaults, rewritten quantities and the status that others write are no reasons to write.
#[test]
fn a_cluster_at_rest_is_left_alone() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &[]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "rest");
    let other = |name: &str, api_version: &str, kind: &str, spec: Value| {
        let target = format!("{name}-{{{{request.object.metadata.name}}}}");
        let generate = json!({"apiVersion": api_version, "kind": kind, "name": target, "namespace": "NS"});
        Rule::new(name, generate).making("data", json!({"spec": spec})).synchronized()
    };
    let ports = json!({"selector": {"b": "c"}, "ports": [{"name": "z", "port": 443}, {"name": "a", "port": 80}]});
    // One million thousandths of a core are a thousand, and others count Secrets in the status.
    let quota = json!({"hard": {"requests.cpu": "1000000m", "count/secrets": "100"}});
    let traffic =
        json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{"ports": [{"port": 80}]}]});
    stage.policy([
        Rule::data("sync").synchronized(),
        Rule::data("once"),
        other("service", "v1", "Service", ports),
        other("quota", "v1", "ResourceQuota", quota),
        other("traffic", "networking.k8s.io/v1", "NetworkPolicy", traffic),
    ]);
    for name in ["a", "b", "c"] {
        stage.trigger(name, "1");
        for (kind, rule) in
            [("secret", "sync"), ("service", "service"), ("resourcequota", "quota"), ("networkpolicy", "traffic")]
        {
            stage.appears(kind, &format!("{rule}-{name}"));
        }
    }
    let used = || stage.field("resourcequota", "quota-a", ".status.used.count/secrets").unwrap_or_default();
    eventually(super::SOON, "a count", || if used().is_empty() { Err("none yet") } else { Ok(()) });
    stage.fence();
    // The memory of the last triggers may still be on its way.
    std::thread::sleep(Duration::from_secs(7));
    let before = (writes(&cluster), counts(&writ));
    std::thread::sleep(Duration::from_secs(60));
    assert_eq!((writes(&cluster), counts(&writ)), before);

    // A change of status alone.
    let counted = used();
    stage.ns.kubectl(["create", "secret", "generic", "mine"]).ok();
    eventually(super::SOON, "another count", || if used() == counted { Err("still the same") } else { Ok(()) });
    stage.fence();
    assert_eq!(count(&writ, "updated"), 0);
    // What is wanted is there: a look at it by another trigger event writes nothing either.
    stage.ns.kubectl(["annotate", "configmap", "a", "note=x"]).ok();
    stage.fence();
    assert_eq!(count(&writ, "updated"), 0);
}

/// How often anybody has written what, as the API server counts it. Leases are written to be held.
fn writes(cluster: &ControlPlane) -> Vec<String> {
    let metrics = cluster.kubectl(["get", "--raw", "/metrics"]).ok();
    let is_write = |line: &&str| {
        ["POST", "PUT", "PATCH", "APPLY", "DELETE"].iter().any(|verb| line.contains(&format!("verb=\"{verb}\"")))
    };
    let requests = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    let mut writes: Vec<String> =
        requests.filter(is_write).filter(|line| !line.contains("resource=\"leases\"")).map(str::to_owned).collect();
    writes.sort();
    assert!(!writes.is_empty(), "the API server counts nothing");
    writes
}

fn counts(writ: &Writ) -> Vec<String> {
    let (_, metrics) = writ.get("/metrics").expect("metrics");
    metrics.lines().filter(|line| line.starts_with("writ_generate_targets_total")).map(str::to_owned).collect()
}

/// How many targets have come to this end.
fn count(writ: &Writ, outcome: &str) -> u64 {
    let line = counts(writ).into_iter().find(|line| line.contains(&format!("\"{outcome}\"")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}
