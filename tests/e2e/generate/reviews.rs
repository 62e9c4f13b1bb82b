//! Policies that were stored without Writ, and policies that are absent.

use serde_json::{Value, json};

use super::rules::{Policy, Rule};
use super::{SOON, Stage, VALUE, base64, grant};
use crate::support::{ControlPlane, Writ, eventually};

const READY: &str = ".status.conditions[*].status";
const REASON: &str = ".status.conditions[*].reason";

/// The value of a metric, with its labels.
fn metric(writ: &Writ, name: &str) -> Option<u64> {
    let (_, metrics) = writ.get("/metrics").expect("metrics");
    metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Stores a policy as somebody did before Writ was installed: no webhook is asked.
fn store_without_review(stage: &Stage<'_>, policy: &Policy) -> String {
    let name = policy.name().replace("NS", &stage.ns.name);
    for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        stage.cluster.kubectl(["delete", kind, "writ", "--ignore-not-found"]).ok();
    }
    // The API server hears of that a moment later.
    eventually(SOON, "a policy without a review", || {
        let text = policy.to_string().replace("NS", &stage.ns.name);
        let answer = stage.ns.kubectl(["apply", "-f", "-"]).stdin(&text).run();
        match stage.field("clusterpolicy", &name, ".metadata.annotations.writ\\.dev/reviewed").as_deref() {
            Some("") => Ok(()),
            other => Err(format!("{other:?} {}", answer.stderr)),
        }
    });
    name
}

#[test]
fn what_nobody_has_reviewed_runs_only_if_the_operator_says_so() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &[]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "unreviewed");
    stage.policy(Policy::from(Rule::data("known").synchronized()).named("NS-known"));
    stage.trigger("a", "1");
    stage.becomes("secret", "known-a", VALUE, &base64("1"));
    writ.terminate();
    let early = store_without_review(&stage, &Policy::from(Rule::data("early").synchronized()).named("NS-early"));

    let writ = Writ::start(&cluster, &[]);
    stage.becomes("clusterpolicy", &early, REASON, "Unreviewed");
    stage.becomes("clusterpolicy", &early, READY, "False");
    stage.trigger("b", "1");
    stage.becomes("secret", "known-b", VALUE, &base64("1"));
    stage.fence();
    stage.is_absent("secret", "early-b");
    eventually(SOON, "the metric", || match metric(&writ, "writ_policies_unreviewed{kind=\"ClusterPolicy\"}") {
        Some(1) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert!(writ.log().contains("Policy not reviewed"), "{}", writ.log());
    writ.terminate();

    let writ = Writ::start_again(&cluster, &["--run-unreviewed-policies"]);
    stage.becomes("clusterpolicy", &early, READY, "True");
    stage.becomes("clusterpolicy", &early, REASON, "Unreviewed");
    stage.trigger("c", "1");
    stage.becomes("secret", "early-c", VALUE, &base64("1"));
    writ.terminate();

    // What it has made stays as it is, until somebody updates the policy.
    let writ = Writ::start_again(&cluster, &[]);
    stage.becomes("clusterpolicy", &early, READY, "False");
    stage.delete("configmap", "c");
    stage.fence();
    stage.is_there("secret", "early-c");
    stage.patch("clusterpolicy", &early, r#"{"metadata": {"labels": {"team": "a"}}}"#);
    stage.becomes("clusterpolicy", &early, REASON, "Succeeded");
    stage.disappears("secret", "early-c");
    stage.trigger("d", "1");
    stage.becomes("secret", "early-d", VALUE, &base64("1"));
    eventually(SOON, "the metric", || match metric(&writ, "writ_policies_unreviewed{kind=\"ClusterPolicy\"}") {
        Some(0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

#[test]
fn policies_that_went_with_their_crd_take_nothing_along() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &[]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "crd");
    let policy = stage.policy(Rule::data("out").synchronized());
    stage.trigger("a", "1");
    stage.becomes("secret", "out-a", VALUE, &base64("1"));
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/crds");
    cluster.kubectl(["delete", "crd", "clusterpolicies.kyverno.io"]).ok();
    eventually(SOON, "the log", || {
        let log = writ.log();
        if log.contains("Policy went with its CRD") { Ok(()) } else { Err(log) }
    });
    // Longer than the grace period of these tests: without the kind nothing is known about its objects.
    stage.trigger("b", "1");
    eventually(SOON, "an attempt that fails", || {
        let log = writ.log();
        if log.contains("Cannot finish a chore") { Ok(()) } else { Err(log) }
    });
    stage.is_there("secret", "out-a");
    // With the CRD back and the policy restored nothing has happened.
    cluster.kubectl(["apply", "--server-side", "--force-conflicts", "-k", crds]).ok();
    cluster.kubectl(["wait", "--for=condition=Established", "crd/clusterpolicies.kyverno.io"]).ok();
    let uid = stage.field("secret", "out-a", ".metadata.uid");
    eventually(SOON, "the policy", || {
        let text = Policy::from(Rule::data("out").synchronized()).to_string().replace("NS", &stage.ns.name);
        let answer = stage.ns.kubectl(["apply", "-f", "-"]).stdin(&text).run();
        if answer.success { Ok(()) } else { Err(answer.stderr) }
    });
    stage.becomes("clusterpolicy", &policy, READY, "True");
    stage.trigger("c", "1");
    stage.becomes("secret", "out-c", VALUE, &base64("1"));
    assert_eq!(stage.field("secret", "out-a", ".metadata.uid"), uid, "it was deleted and made again");
    stage.delete("clusterpolicy", &policy);
    stage.disappears("secret", "out-a");
}

/// Policies that are absent when Writ starts may be restored: nothing is deleted at once, and never most of it.
#[test]
fn downstream_of_an_absent_policy_is_deleted_late_and_under_guard() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &[]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "absent");
    let few = stage.policy(Policy::from(Rule::data("few").synchronized()).named("NS-few"));
    let on = json!({"matchLabels": {"many": "yes"}});
    let many = stage.policy(Policy::from(Rule::data("many").on("selector", on).synchronized()).named("NS-many"));
    stage.trigger("a", "1");
    stage.becomes("secret", "few-a", VALUE, &base64("1"));
    let names: Vec<String> = (0..8).map(|index| format!("t{index}")).collect();
    for name in &names {
        let metadata = json!({"name": name, "labels": {"many": "yes"}});
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": "1"}});
        stage.apply(&body.to_string());
        stage.appears("secret", &format!("many-{name}"));
    }
    eventually(SOON, "the checkpoint", || {
        let path = "jsonpath={.data}";
        let text = cluster.kubectl(["get", "cm", "writ-progress", "-n", "writ-system", "-o", path]).ok();
        let data: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let progress = data["progress"].as_str().unwrap_or_default();
        let known = progress.contains("-many") && progress.contains("-few");
        if known && !data["leader"].as_str().unwrap_or_default().is_empty() { Ok(()) } else { Err(text) }
    });
    writ.terminate();
    stage.delete("clusterpolicy", &few);
    stage.delete("clusterpolicy", &many);

    let writ = Writ::start_again(&cluster, &["--absent-policy-grace=1h"]);
    stage.policy(Policy::from(Rule::data("other").synchronized()).named("NS-other"));
    stage.trigger("b", "1");
    stage.becomes("secret", "other-b", VALUE, &base64("1"));
    stage.fence();
    stage.is_there("secret", "few-a");
    writ.terminate();

    let writ = Writ::start_again(&cluster, &["--delete-brake=2"]);
    stage.disappears("secret", "few-a");
    eventually(SOON, "the guard", || match metric(&writ, "writ_generate_deletions_held_total") {
        Some(1..) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let left = names.iter().filter(|name| stage.field("secret", &format!("many-{name}"), VALUE).is_some()).count();
    assert_eq!(left, 4, "half of them may go, the rest is held");
}

/// Somebody else's write of the checkpoint neither stops the leader nor outlives its next write.
#[test]
fn the_checkpoint_is_the_leaders() {
    let Some(cluster) = ControlPlane::start() else { return };
    let _writ = Writ::start(&cluster, &[]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "checkpoint");
    stage.policy(Rule::data("once"));
    let data = || {
        let path = "jsonpath={.data}";
        let text = cluster.kubectl(["get", "cm", "writ-progress", "-n", "writ-system", "-o", path]).ok();
        serde_json::from_str::<Value>(&text).unwrap_or_default()
    };
    let stored = |what: &str| {
        eventually(SOON, what, || {
            let data = data();
            if data["progress"].as_str().unwrap_or_default().contains("checkpoint") {
                Ok(())
            } else {
                Err(data.to_string())
            }
        });
    };
    stored("the checkpoint");
    let leader = data()["leader"].clone();
    let patch = r#"{"data": {"progress": "[]", "leader": "former"}}"#;
    cluster.kubectl(["patch", "cm", "writ-progress", "-n", "writ-system", "--type=merge", "-p", patch]).ok();
    stage.trigger("a", "1");
    stage.appears("secret", "once-a");
    stored("the checkpoint of the leader");
    assert_eq!(data()["leader"], leader);
}
