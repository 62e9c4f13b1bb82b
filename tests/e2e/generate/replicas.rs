//! Several replicas, restarts, rest.

use std::time::{Duration, Instant};

use super::{SYNCHRONIZE, Stage, VALUE, base64, data_rule, grant};
use crate::support::{ControlPlane, Writ};

/// What happened while nobody worked is found out at the start: repaired where the rule synchronizes, made up for where it
/// does not, and nothing twice.
#[test]
fn a_killed_writ_comes_back_to_what_happened_meanwhile() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &[]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "restart");
    let rules = data_rule("sync", SYNCHRONIZE) + &data_rule("once", "");
    let policy = stage.policy(&rules);
    let gone = stage.cluster.namespace("gone");
    stage.apply(&format!(
        "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {{name: NS-short}}\nspec:\n  rules:\n{}",
        super::indent(&data_rule("short", SYNCHRONIZE))
    ));
    stage.ready(&format!("{}-short", stage.ns.name));
    for name in ["kept", "edited", "deleted", "ended"] {
        stage.trigger(name, "1");
        for rule in ["sync", "once", "short"] {
            stage.appears("secret", &format!("{rule}-{name}"));
        }
    }
    // Long enough for the memory to be written.
    crate::support::eventually(Duration::from_secs(20), "the memory", || {
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
    stage.trigger("young", "1");
    stage.delete("clusterpolicy", &format!("{}-short", stage.ns.name));
    let version = stage.field("secret", "sync-kept", ".metadata.resourceVersion");

    let _writ = Writ::start(&cluster, &[]);
    stage.becomes("secret", "sync-edited", VALUE, &base64("1"));
    stage.becomes("secret", "sync-deleted", VALUE, &base64("1"));
    stage.becomes("secret", "sync-young", VALUE, &base64("1"));
    stage.becomes("secret", "once-young", VALUE, &base64("1"));
    stage.disappears("secret", "sync-ended");
    stage.disappears("secret", "short-kept");
    stage.fence();
    stage.is_absent("secret", "once-deleted");
    stage.is_there("secret", "once-ended");
    assert_eq!(stage.field("secret", "sync-kept", ".metadata.resourceVersion"), version, "written without need");
    drop((policy, gone));
}

#[test]
fn another_replica_takes_over() {
    let Some(cluster) = ControlPlane::start() else { return };
    let first = Writ::start(&cluster, &[]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "takeover");
    stage.policy(&data_rule("out", SYNCHRONIZE));
    let second = Writ::start_second(&cluster, &[]);
    stage.trigger("a", "1");
    stage.becomes("secret", "out-a", VALUE, &base64("1"));
    let leading = |writ: &Writ| writ.get("/metrics").expect("metrics").1.contains("\nwrit_leading 1");
    assert!(leading(&first) && !leading(&second), "two replicas at work, or none");

    first.signal("KILL");
    let killed = Instant::now();
    stage.trigger("b", "1");
    stage.delete("secret", "out-a");
    crate::support::eventually(Duration::from_secs(20), "the work of the other replica", || {
        let both = ["out-a", "out-b"].map(|name| stage.field("secret", name, VALUE) == Some(base64("1")));
        if both == [true, true] { Ok(()) } else { Err("not yet") }
    });
    assert!(killed.elapsed() < Duration::from_secs(15), "taking over took {:?}", killed.elapsed());

    // One that is asked to end hands over at once.
    drop(first);
    let third = Writ::start(&cluster, &[]);
    let asked = Instant::now();
    second.terminate();
    stage.trigger("c", "1");
    stage.becomes("secret", "out-c", VALUE, &base64("1"));
    assert!(asked.elapsed() < Duration::from_secs(12), "handing over took {:?}", asked.elapsed());
    drop(third);
}

#[test]
fn a_cluster_at_rest_is_left_alone() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &[]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "rest");
    stage.policy(&(data_rule("sync", SYNCHRONIZE) + &data_rule("once", "")));
    for name in ["a", "b", "c"] {
        stage.trigger(name, "1");
        stage.appears("secret", &format!("sync-{name}"));
    }
    stage.fence();
    let versions = || {
        let everything = "cpol,secret,cm,limitrange";
        let path = "jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
        cluster.kubectl(["get", everything, "-A", "-o", path]).ok()
    };
    // The memory of the last triggers may still be on its way.
    std::thread::sleep(Duration::from_secs(7));
    let (before, written) = (versions(), counts(&writ));
    std::thread::sleep(Duration::from_secs(8));
    assert_eq!(versions(), before);
    assert_eq!(counts(&writ), written);
}

fn counts(writ: &Writ) -> Vec<String> {
    let (_, metrics) = writ.get("/metrics").expect("metrics");
    metrics.lines().filter(|line| line.starts_with("writ_generate_targets_total")).map(str::to_owned).collect()
}
