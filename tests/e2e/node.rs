//! The image and the manifests as an admin installs them, on a node with real pods.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::support::{self, Cluster, eventually, root, unique};

const A_WHILE: Duration = Duration::from_secs(120);

/// An install is the whole cluster's, so one test at a time has it.
fn installed() -> Option<(&'static Cluster, MutexGuard<'static, ()>)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let cluster = support::node()?;
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    cluster.install(&root().join("manifests"));
    rolled_out(cluster);
    eventually(A_WHILE, "an API server that trusts Writ", || {
        let answer = cluster.kubectl(["apply", "--dry-run=server", "-f", "-"]).stdin(&template("probe", 0)).run();
        if answer.success { Ok(()) } else { Err(answer.stderr) }
    });
    Some((cluster, turn))
}

/// Waits until both replicas are ready and no older one is left.
#[track_caller]
fn rolled_out(cluster: &Cluster) {
    let status = writ(cluster, &["rollout", "status", "deployment/writ", "--timeout=120s"]).run();
    if !status.success {
        let pods = writ(cluster, &["describe", "pods"]).run().stdout;
        let logs = writ(cluster, &["logs", "--selector=app.kubernetes.io/name=writ", "--tail=50"]).run();
        panic!("{status:?}\n{pods}\n{}{}", logs.stdout, logs.stderr);
    }
    eventually(A_WHILE, "the end of older pods", || match pods(cluster).len() {
        2 => Ok(()),
        _ => Err(writ(cluster, &["get", "pods"]).run().stdout),
    });
}

fn writ(cluster: &Cluster, arguments: &[&str]) -> support::Kubectl {
    cluster.kubectl(["--namespace=writ-system"].iter().chain(arguments))
}

fn pods(cluster: &Cluster) -> Vec<String> {
    let names = writ(cluster, &["get", "pods", "--selector=app.kubernetes.io/name=writ", "--output=name"]).ok();
    names.lines().map(str::to_owned).collect()
}

fn template(name: &str, note: usize) -> String {
    format!(
        "apiVersion: kuma.io/v1alpha1
kind: ProxyTemplate
metadata: {{name: {name}, annotations: {{note: '{note}'}}}}
mesh: default
spec:
  selectors: [{{match: {{kuma.io/service: backend}}}}]
  conf:
    imports: [default-proxy]
    modifications: [{{cluster: {{operation: remove}}}}]
"
    )
}

#[test]
fn the_examples_are_judged_through_the_service() {
    let Some((cluster, _turn)) = installed() else { return };
    let ns = cluster.namespace("judged");
    for (example, accepted) in examples() {
        let text = std::fs::read_to_string(&example).expect("an example");
        let name = text.lines().find_map(|line| line.strip_prefix("  name: ")).expect("a name");
        ns.owns("proxytemplates.kuma.io", name);
        if accepted {
            ns.accepts(&text);
        } else {
            ns.rejects(&text, "is invalid: \n* spec.conf.modifications[");
        }
    }
}

fn examples() -> Vec<(std::path::PathBuf, bool)> {
    let files = |folder: &str| {
        let entries = std::fs::read_dir(root().join("manifests/examples").join(folder)).expect("examples");
        let files = entries.map(|entry| entry.expect("a file").path());
        files.filter(|file| file.extension().is_some_and(|end| end == "yaml")).collect::<Vec<_>>()
    };
    let (good, bad) = (files(""), files("refused"));
    assert!(!good.is_empty() && !bad.is_empty());
    good.into_iter().map(|file| (file, true)).chain(bad.into_iter().map(|file| (file, false))).collect()
}

#[test]
fn the_pods_have_no_more_than_they_need() {
    let Some((cluster, _turn)) = installed() else { return };
    // The namespace refuses what is not restricted, so the pods that run in it are.
    let loose = "{apiVersion: v1, kind: Pod, metadata: {name: loose}, spec: {containers: [{name: a, image: writ}]}}";
    let answer = writ(cluster, &["create", "--dry-run=server", "-f", "-"]).stdin(loose).run();
    assert!(!answer.success && answer.stderr.contains("violates PodSecurity \"restricted"), "{answer:?}");
    let read_only = "jsonpath={.items[*].spec.containers[*].securityContext.readOnlyRootFilesystem}";
    let selector = "--selector=app.kubernetes.io/name=writ";
    assert_eq!(writ(cluster, &["get", "pods", selector, "--output", read_only]).ok(), "true true");
    // On this machine one can look at the processes themselves.
    if cluster.folder().is_some() {
        let statuses = statuses_of("/writ serve");
        assert_eq!(statuses.len(), 2, "two replicas run");
        for status in statuses {
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                line.split_whitespace().next().unwrap_or_default().to_owned()
            };
            assert_eq!(field("Uid:"), "65532");
            assert_eq!(field("Gid:"), "65532");
            assert_eq!(field("CapEff:"), "0000000000000000");
            assert_eq!(field("CapBnd:"), "0000000000000000");
            assert_eq!(field("NoNewPrivs:"), "1");
            assert_eq!(field("Seccomp:"), "2");
        }
    }
}

/// `/proc/PID/status` of the processes whose command line begins so.
fn statuses_of(command: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("Linux").filter_map(Result::ok).map(|entry| entry.path());
    let is_it = |process: &Path| {
        std::fs::read(process.join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).replace('\0', " ").starts_with(command))
    };
    let found = processes.filter(|process| is_it(process));
    found.filter_map(|process| std::fs::read_to_string(process.join("status")).ok()).collect()
}

#[test]
fn deleting_a_pod_fails_no_request() {
    let Some((cluster, _turn)) = installed() else { return };
    under_a_stream_of_applies(cluster, || {
        for pod in pods(cluster) {
            writ(cluster, &["delete", &pod, "--timeout=60s"]).ok();
            rolled_out(cluster);
        }
    });
}

#[test]
fn a_rolling_restart_fails_no_request() {
    let Some((cluster, _turn)) = installed() else { return };
    under_a_stream_of_applies(cluster, || {
        writ(cluster, &["rollout", "restart", "deployment/writ"]).ok();
        rolled_out(cluster);
    });
}

/// Applies policies without a pause, before, while and after something happens. None may fail.
fn under_a_stream_of_applies(cluster: &Cluster, happens: impl FnOnce()) {
    let ns = cluster.namespace("stream");
    let (done, applied) = (AtomicBool::new(false), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                let name = unique("stream");
                ns.owns("proxytemplates.kuma.io", &name);
                while !done.load(Ordering::Relaxed) {
                    let note = applied.fetch_add(1, Ordering::Relaxed);
                    let answer = cluster.kubectl(["apply", "-f", "-"]).stdin(&template(&name, note)).run();
                    if !answer.success {
                        failures.lock().expect("nobody panics here").push(answer.stderr);
                    }
                }
            });
        }
        // However it ends, the threads must.
        let stop = StopOnDrop(&done);
        let go_on = |count: usize| {
            let goal = applied.load(Ordering::Relaxed) + count;
            while applied.load(Ordering::Relaxed) < goal {
                sleep(Duration::from_millis(10));
            }
        };
        go_on(10);
        happens();
        go_on(10);
        drop(stop);
    });
    let failures = failures.into_inner().expect("nobody panics here");
    let applied = applied.into_inner();
    assert!(failures.is_empty(), "{} of {applied} applies failed: {failures:#?}", failures.len());
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn uninstalling_leaves_nothing() {
    let Some((cluster, _turn)) = installed() else { return };
    let manifests = root().join("manifests");
    let manifests = manifests.to_str().expect("a path in UTF-8");
    assert!(!of_writ(cluster).is_empty());
    cluster.kubectl(["delete", "-k", manifests, "--timeout=120s"]).ok();
    eventually(A_WHILE, "the end of everything", || match of_writ(cluster) {
        left if left.is_empty() => Ok(()),
        left => Err(left.join("\n")),
    });
}

/// Everything in the cluster that has Writ in its name or namespace, of whatever kind, and the definitions of its kinds.
fn of_writ(cluster: &Cluster) -> Vec<String> {
    let kinds = cluster.kubectl(["api-resources", "--verbs=list", "--output=name"]).ok();
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    let columns = "--output=custom-columns=:.kind,:.metadata.namespace,:.metadata.name";
    let all = cluster.kubectl(["get", &kinds.join(","), "--all-namespaces", "--no-headers", columns]).ok();
    let is_ours = |line: &&str| ["writ", "kuma.io", "kyverno.io"].iter().any(|part| line.contains(part));
    all.lines().filter(is_ours).map(str::to_owned).collect()
}
