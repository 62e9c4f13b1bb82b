//! Context entries whose values come from elsewhere.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use serde_json::json;

use super::rules::{Policy, Rule, secret};
use super::{SOON, Stage, VALUE, base64, stage};
use crate::support::eventually;

/// A service on loopback that answers every request with what `answer` makes of its body. It ends with the run.
fn start_service(answer: impl Fn(&str) -> String + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(respond(stream, &answer))));
    port
}

fn respond(mut stream: TcpStream, answer: &impl Fn(&str) -> String) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = answer(&String::from_utf8_lossy(&body));
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

#[test]
fn an_object_takes_its_data_from_a_service() {
    let Some(stage) = stage("service") else { return };
    if stage.cluster.folder().is_none() {
        return; // Writ is not on this host, so it cannot reach the service.
    }
    let port = start_service(|body| format!("{{\"echo\": {body}}}"));
    let url = format!("http://127.0.0.1:{port}/");
    let data = json!([{"key": "said", "value": "{{request.object.data.value}}"}]);
    let call = json!({"service": {"url": url}, "method": "POST", "data": data, "jmesPath": "echo.said"});
    // Nobody listens on port 1.
    let silent = json!({"service": {"url": "http://127.0.0.1:1/"}, "default": "instead"});
    let context = json!([{"name": "said", "apiCall": call}, {"name": "silent", "apiCall": silent}]);
    let made = secret("made-{{request.object.metadata.name}}");
    let rule = Rule::new("service", made).making("data", json!({"stringData": {"value": "{{said}} {{silent}}"}}));
    stage.policy(rule.with("context", context).synchronized());
    stage.trigger("a", "hello");
    stage.becomes("secret", "made-a", VALUE, &base64("hello instead"));
    stage.trigger("a", "again");
    stage.becomes("secret", "made-a", VALUE, &base64("again instead"));
}

impl Stage<'_> {
    /// Applies a global context entry named after the stage and waits until it is ready.
    fn entry(&self, spec: &serde_json::Value) -> String {
        let name = self.ns.name.clone();
        self.ns.owns("globalcontextentry", &name);
        self.apply(&entry(&name, spec));
        self.becomes("globalcontextentry", &name, ".status.conditions[*].status", "True");
        name
    }
}

fn entry(name: &str, spec: &serde_json::Value) -> String {
    let metadata = json!({"name": name});
    json!({"apiVersion": "kyverno.io/v2alpha1", "kind": "GlobalContextEntry", "metadata": metadata, "spec": spec})
        .to_string()
}

/// A rule whose Secret `NAME-TRIGGER` has what a global context entry says.
fn global(name: &str, reference: &str, query: &str) -> Rule {
    let context = json!([{"name": "found", "globalReference": {"name": reference, "jmesPath": query}}]);
    let made = secret(&format!("{name}-{{{{request.object.metadata.name}}}}"));
    let rule = Rule::new(name, made).making("data", json!({"stringData": {"value": "{{found}}"}}));
    rule.with("context", context).synchronized()
}

#[test]
fn objects_of_a_resource_are_at_hand_for_rules() {
    let Some(stage) = stage("global-list") else { return };
    let resource = json!({"group": "", "version": "v1", "resource": "services", "namespace": "NS"});
    let names = json!([{"name": "names", "jmesPath": "[].metadata.name"}]);
    stage.ns.kubectl(["create", "service", "clusterip", "one", "--tcp=80"]).ok();
    let entry = stage.entry(&json!({"kubernetesResource": resource, "projections": names}));
    assert!(stage.field("globalcontextentry", &entry, ".status.lastRefreshTime").is_some_and(|time| !time.is_empty()));

    let sorted = "sort(@) | join(',', @)";
    let rules = [
        global("all", &entry, "[].metadata.name | sort(@) | join(',', @)"),
        global("part", &format!("{entry}.names"), sorted),
    ];
    stage.policy(rules);
    // The entry lies in the namespace of this Policy.
    let home = global("home", &format!("{entry}.names"), sorted).on("namespaces", json!(null));
    stage.policy(Policy::from(home).named("NS-home").at_home());
    stage.trigger("a", "x");
    for name in ["all-a", "part-a", "home-a"] {
        stage.becomes("secret", name, VALUE, &base64("one"));
    }
    stage.ns.kubectl(["create", "service", "clusterip", "two", "--tcp=80"]).ok();
    // The data follows; rules see it when something sets them off.
    let mut round = 0;
    eventually(SOON, "both names", || {
        round += 1;
        stage.trigger("a", &round.to_string());
        let found = stage.field("secret", "part-a", VALUE);
        if found == Some(base64("one,two")) { Ok(()) } else { Err(format!("{found:?}")) }
    });

    // Elsewhere a Policy does not see it.
    let other = stage.beside("global-other");
    let away = global("away", &entry, "length(@)").on("namespaces", json!(null));
    let policy = other.policy(Policy::from(away).named("NS-away").at_home());
    other.trigger("b", "x");
    eventually(SOON, "an event about the boundary", || {
        let selector = format!("--field-selector=reason=PolicyError,regarding.name={policy}");
        let notes =
            other.ns.kubectl(["get", "events.events.k8s.io", &selector, "-o", "jsonpath={.items[*].note}"]).ok();
        if notes.contains("cannot leave") { Ok(()) } else { Err(notes) }
    });
    other.is_absent("secret", "away-b");
}

#[test]
fn the_answer_of_a_call_is_at_hand_for_rules() {
    let Some(stage) = stage("global-call") else { return };
    let call = |more: serde_json::Value| {
        let mut call = json!({"urlPath": "/api/v1/namespaces/NS/configmaps"});
        call.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        json!({"apiCall": call})
    };
    let name = format!("{}-refused", stage.ns.name);
    for (more, field) in [
        (json!({"refreshInterval": "soon"}), "spec.apiCall.refreshInterval"),
        (json!({"service": {"url": "http://a"}}), "spec.apiCall"),
    ] {
        stage.ns.rejects(&entry(&name, &call(more)).replace("NS", &stage.ns.name), field);
    }
    if stage.cluster.folder().is_none() {
        return; // Writ is not on this host, so it cannot reach the service.
    }
    let asked = Arc::new(AtomicU32::new(0));
    let count = asked.clone();
    let port = start_service(move |_| format!("{{\"count\": {}}}", count.fetch_add(1, Ordering::SeqCst) + 1));
    let service = json!({"service": {"url": format!("http://127.0.0.1:{port}/")}, "refreshInterval": "1s"});
    let entry = stage
        .entry(&json!({"apiCall": service, "projections": [{"name": "late", "jmesPath": "to_string(count > `2`)"}]}));
    let policy = stage.policy([global("call", &format!("{entry}.late"), "@"), global("unknown", "no-such-entry", "@")]);
    let mut round = 0;
    eventually(SOON, "the third answer", || {
        round += 1;
        stage.trigger("a", &round.to_string());
        let found = stage.field("secret", "call-a", VALUE);
        if found == Some(base64("true")) { Ok(()) } else { Err(format!("{found:?}")) }
    });
    assert!(asked.load(Ordering::SeqCst) >= 3);
    eventually(SOON, "an event about the unknown entry", || {
        let notes = stage.failures(&policy);
        if notes.contains("global context entry no-such-entry not found") { Ok(()) } else { Err(notes) }
    });
    // Without the entry the rule fails, and what it has made stays.
    stage.delete("globalcontextentry", &entry);
    eventually(SOON, "an event about the entry", || {
        round += 1;
        stage.trigger("a", &round.to_string());
        let notes = stage.failures(&policy);
        if notes.contains(&format!("global context entry {entry}.late not found")) { Ok(()) } else { Err(notes) }
    });
    stage.is_there("secret", "call-a");
}
