//! The test bed itself: it cleans up whatever happens, clusters do not meet, and Writ's manifests are what an API server
//! takes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{self, ControlPlane, Writ, eventually, root, unique};

const SOON: Duration = Duration::from_secs(20);

/// Not a test of its own: the run that `nothing_outlives_a_killed_run` kills.
#[test]
fn a_run_that_is_killed() {
    if let Some(folder) = std::env::var_os("WRIT_TEST_HOLD") {
        let _held = ControlPlane::start_at(Path::new(&folder));
        std::thread::park();
    }
}

#[test]
fn nothing_outlives_a_killed_run() {
    if support::skipped() {
        return;
    }
    let folder = std::env::temp_dir().join(unique("writ-cluster-killed"));
    let mut run = Command::new(std::env::current_exe().expect("this test binary"))
        .args(["--exact", "testbed::a_run_that_is_killed"])
        .env("WRIT_TEST_HOLD", &folder)
        .stdout(Stdio::null())
        .spawn()
        .expect("a second run of this test binary");
    eventually(Duration::from_secs(90), "the second run's cluster", || {
        folder.join("kubeconfig").exists().then_some(()).ok_or("no kubeconfig yet")
    });
    assert!(!programs_in(&folder).is_empty(), "the programs name their folder on their command lines");
    run.kill().expect("kill -9");
    run.wait().expect("it is dead");
    eventually(SOON, "the end of everything", || match (folder.exists(), programs_in(&folder)) {
        (false, programs) if programs.is_empty() => Ok(()),
        (folder, programs) => Err(format!("folder there: {folder}, running: {programs:?}")),
    });
}

/// Command lines of running programs that mention the folder.
fn programs_in(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().expect("a path in UTF-8");
    let output = Command::new("ps").args(["-eo", "args"]).output().expect("ps");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().filter(|line| line.contains(folder)).map(str::to_owned).collect()
}

#[test]
fn control_planes_do_not_meet() {
    let (Some(one), Some(other)) = (support::cluster(), ControlPlane::start()) else {
        return;
    };
    let ns = other.namespace("mine");
    ns.kubectl(["create", "configmap", "note", "--from-literal=a=b"]).ok();
    let answer = one.kubectl(["get", "namespace", &ns.name]).run();
    assert!(!answer.success && answer.stderr.contains("NotFound"), "{answer:?}");
}

#[test]
fn a_namespace_ends_with_what_is_in_it() {
    let Some(cluster) = support::cluster() else { return };
    let ns = cluster.namespace("ends");
    let name = ns.name.clone();
    ns.accepts("{apiVersion: v1, kind: ConfigMap, metadata: {name: note}, data: {a: b}}");
    ns.rejects("{apiVersion: v1, kind: ConfigMap, metadata: {name: Not-A-Name}}", "a lowercase RFC 1123");
    drop(ns);
    eventually(SOON, "the namespace's end", || {
        let answer = cluster.kubectl(["get", "namespace", &name, "--ignore-not-found"]).run();
        if answer.success && answer.stdout.is_empty() { Ok(()) } else { Err(answer.stdout) }
    });
}

/// A real API server takes every overlay, and knows every field in it.
#[test]
fn every_overlay_installs() {
    let Some(cluster) = ControlPlane::start() else { return };
    cluster.kubectl(["create", "-f", "-"]).stdin(CERT_MANAGER).ok();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"]).ok();
    let mut folders = vec![root().join("manifests")];
    let overlays = std::fs::read_dir(root().join("manifests/overlays")).expect("overlays");
    folders.extend(overlays.map(|entry| entry.expect("an overlay").path()));
    for folder in folders {
        let folder = folder.to_str().expect("a path in UTF-8");
        let applied = cluster.kubectl(["apply", "-k", folder, "--validate=strict"]).run();
        assert!(applied.success, "{folder}: {applied:?}");
        assert!(!applied.stderr.contains("Warning"), "{folder}: {}", applied.stderr);
        // The definitions stay: a server takes seconds to forget each.
        let rendered = cluster.kubectl(["kustomize", folder]).ok();
        let others = rendered.split("\n---\n").filter(|object| !object.contains("\nkind: CustomResourceDefinition"));
        let others = others.collect::<Vec<_>>().join("\n---\n");
        cluster.kubectl(["delete", "-f", "-", "--ignore-not-found", "--timeout=60s"]).stdin(&others).ok();
    }
}

/// The rights of the service account are what Writ needs, and no more.
#[test]
fn rights_are_the_least() {
    // A cluster of its own: on the shared one other tests grant what their rules need.
    let Some(cluster) = ControlPlane::start() else { return };
    cluster.install(&root().join("manifests/overlays/local"));
    let writ = cluster.acting_as("writ-system", "writ");
    let may = |verb: &str, what: &str, namespace: &str| {
        writ.kubectl(["auth", "can-i", verb, what, "--namespace", namespace]).run().success
    };
    let webhook = "validatingwebhookconfigurations.admissionregistration.k8s.io";
    for (verb, what, namespace, expected) in [
        ("create", "secrets", "writ-system", false),
        ("get", "secrets/writ-certificates", "writ-system", true),
        ("watch", "secrets/writ-certificates", "writ-system", true),
        ("update", "secrets/writ-certificates", "writ-system", true),
        ("patch", "secrets/writ-certificates", "writ-system", false),
        ("watch", "secrets/writ-keys", "writ-system", true),
        ("update", "secrets/writ-keys", "writ-system", true),
        ("delete", "secrets/writ-keys", "writ-system", false),
        ("get", "secrets/writ-progress", "writ-system", false),
        ("get", "secrets/other", "writ-system", false),
        ("list", "secrets", "writ-system", false),
        ("create", "secrets", "default", false),
        ("get", "secrets/writ-certificates", "kube-system", false),
        ("patch", &format!("{webhook}/writ"), "default", true),
        ("patch", &format!("{webhook}/other"), "default", false),
        ("update", &format!("{webhook}/writ"), "default", false),
        ("update", &format!("{webhook}/writ-resources"), "default", true),
        ("patch", "mutatingwebhookconfigurations/writ", "default", true),
        ("patch", "mutatingwebhookconfigurations/writ-resources", "default", false),
        ("create", webhook, "default", false),
        ("delete", &format!("{webhook}/writ"), "default", false),
        ("list", "pods", "writ-system", false),
        ("create", "clusterrolebindings", "default", false),
        ("list", "namespaces", "default", true),
        ("delete", "namespaces/default", "default", false),
        ("create", "configmaps", "default", false),
        ("create", "configmaps", "writ-system", false),
        ("get", "configmaps/other", "writ-system", false),
        ("list", "configmaps", "writ-system", false),
        ("watch", "configmaps/writ", "writ-system", true),
        ("create", "leases.coordination.k8s.io", "writ-system", false),
        ("get", "customresourcedefinitions/x", "default", false),
        ("patch", "configmaps/writ-progress", "writ-system", true),
        ("update", "configmaps/writ-progress", "writ-system", false),
        ("update", "configmaps/other", "writ-system", false),
        ("update", "leases.coordination.k8s.io/writ", "writ-system", true),
        ("patch", "leases.coordination.k8s.io/writ", "writ-system", false),
        ("update", "leases.coordination.k8s.io/other", "writ-system", false),
        ("update", "clusterpolicies.kyverno.io/x", "default", false),
        ("delete", "updaterequests.kyverno.io", "writ-system", true),
        ("update", "updaterequests.kyverno.io", "writ-system", false),
        ("get", "updaterequests.kyverno.io/x", "writ-system", false),
        ("create", "updaterequests.kyverno.io", "default", false),
        ("patch", "events.events.k8s.io", "default", false),
    ] {
        assert_eq!(may(verb, what, namespace), expected, "{verb} {what} in {namespace}");
    }
}

/// What Writ makes at run time goes with the install. What rules made stays, if Writ ends before its definitions do.
#[test]
fn an_uninstall_takes_what_is_writs_and_leaves_what_rules_made() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &[]);
    cluster.kubectl(["apply", "-f", "-"]).stdin(GRANTED).ok();
    eventually(SOON, "the rights", || {
        let answer = cluster.kubectl(["auth", "can-i", "watch", "configmaps", "-A", AS_WRIT]).run();
        if answer.success { Ok(()) } else { Err(answer.stdout) }
    });
    cluster.kubectl(["apply", "-f", "-"]).stdin(POLICY).ok();
    cluster.kubectl(["create", "configmap", "trigger"]).ok();
    eventually(SOON, "what the rule makes", || {
        let answer = cluster.kubectl(["get", "configmap", "made"]).run();
        if answer.success { Ok(()) } else { Err(answer.stderr) }
    });
    cluster.kubectl(["get", "validatingwebhookconfiguration", "writ-resources"]).ok();

    assert!(writ.terminate().is_some_and(|status| status.success()));
    let folder = root().join("manifests/overlays/local").display().to_string();
    cluster.kubectl(["delete", "-k", &folder, "--wait=false"]).ok();
    eventually(Duration::from_secs(60), "the end of everything", || {
        let webhooks = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
        let left = cluster.kubectl(["get", webhooks, "--output=name"]).ok();
        // One definition stands for all: a server takes a minute to forget so many.
        let policies = cluster.kubectl(["get", "clusterpolicies"]).run();
        if left.is_empty() && !policies.success { Ok(()) } else { Err(format!("{left}{}", policies.stdout)) }
    });
    cluster.kubectl(["get", "configmap", "made"]).ok();
}

const AS_WRIT: &str = "--as=system:serviceaccount:writ-system:writ";

const GRANTED: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: uninstall-tests, labels: {rbac.writ.dev/aggregate: "true"}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, update, patch, delete]}]
"#;

const POLICY: &str = r#"
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: uninstall-tests}
spec:
  rules:
    - name: out
      match: {any: [{resources: {kinds: [ConfigMap], names: [trigger], namespaces: [default]}}]}
      generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: made, namespace: default, data: {data: {a: b}}}
"#;

/// As much of cert-manager as an API server needs to take its objects.
const CERT_MANAGER: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: Certificate, plural: certificates}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: issuers.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: Issuer, plural: issuers}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
