//! An API server that does not answer, and deletions that nobody asked for.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::rules::Rule;
use super::{Stage, VALUE, base64, grant};
use crate::support::{ControlPlane, Writ, eventually};

/// The process of a control plane by the name of its program.
fn process(cluster: &ControlPlane, program: &str) -> String {
    let folder = cluster.folder().expect("a local control plane").to_str().expect("a path in UTF-8").to_owned();
    let entries = std::fs::read_dir("/proc").expect("Linux");
    let found = entries.filter_map(Result::ok).find(|entry| {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        command.split('\0').next().is_some_and(|name| name.ends_with(program)) && command.contains(&folder)
    });
    found.expect("the program runs").file_name().to_string_lossy().into_owned()
}

fn signal(process: &str, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), process]).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot signal {process}");
}

#[test]
fn work_goes_on_when_the_api_server_is_back() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &[]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "outage");
    stage.policy(Rule::data("out").synchronized());
    stage.trigger("a", "1");
    stage.becomes("secret", "out-a", VALUE, &base64("1"));
    let server = process(&cluster, "kube-apiserver");
    signal(&server, "STOP");
    // Longer than the lease lasts.
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(writ.get("/healthz").expect("alive").0, 200);
    signal(&server, "CONT");
    eventually(Duration::from_secs(30), "the API server", || {
        let answer = cluster.kubectl(["get", "--raw", "/readyz"]).run();
        if answer.success { Ok(()) } else { Err(answer.stderr) }
    });
    stage.trigger("b", "1");
    eventually(Duration::from_secs(30), "the work to go on", || match stage.field("secret", "out-b", VALUE) {
        Some(value) if value == base64("1") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    stage.delete("secret", "out-a");
    stage.becomes("secret", "out-a", VALUE, &base64("1"));
}

/// One label on one namespace must not empty a cluster.
#[test]
fn a_mass_deletion_is_held_and_shown() {
    let Some(cluster) = ControlPlane::start() else { return };
    let writ = Writ::start(&cluster, &["--delete-brake", "2"]);
    grant(&cluster);
    let stage = Stage::new(&cluster, "brake");
    stage.ns.kubectl(["create", "configmap", "switch", "--from-literal=state=on"]).ok();
    let switch = json!([{"name": "switch", "configMap": {"name": "switch", "namespace": "NS"}}]);
    stage.policy(Rule::data("out").with("context", switch).only_if("{{switch.data.state}}", "on").synchronized());
    let names: Vec<String> = (0..8).map(|index| format!("t{index}")).collect();
    for name in &names {
        stage.trigger(name, "1");
        stage.appears("secret", &format!("out-{name}"));
    }
    stage.patch("configmap", "switch", r#"{"data": {"state": "off"}}"#);
    for name in &names {
        stage.trigger(name, "2");
    }
    eventually(super::SOON, "the brake", || {
        let (_, metrics) = writ.get("/metrics").map_err(|error| error.to_string())?;
        let held = metrics.lines().find(|line| line.starts_with("writ_generate_deletions_held_total"));
        match held.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()) {
            Some(1..) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    stage.fence();
    let left = names.iter().filter(|name| stage.field("secret", &format!("out-{name}"), VALUE).is_some()).count();
    assert_eq!(left, 4, "half of them may go, the rest is held");

    // A deletion that somebody asks for is not held.
    stage.delete("configmap", &names[7]);
    stage.disappears("secret", &format!("out-{}", names[7]));
}
