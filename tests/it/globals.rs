//! Global context entries: what is refused, and how they are filled, from an API server on loopback that answers as it is told.

use std::collections::BTreeMap;
use std::future::pending;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::{Request, Response};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use writ::cluster::discovery::Discovery;
use writ::cluster::globals::{Globals, Way};
use writ::cluster::status::Readiness;
use writ::cluster::{Api, Reader, ServiceOptions, Services, connect};
use writ::compile;
use writ::compile::generate::global_entry;
use writ::core::generate::{Answer, Gate, InstallBounds, Outbound, Reach};
use writ::core::problem::Reason;
use writ::server::{Bound, Limits, Shutdown};

use crate::support::command::writ;

/// The namespace of the install.
const INSTALL: &str = "writ-system";
const SOON: Duration = Duration::from_secs(10);

fn entry(spec: Value) -> Value {
    json!({"apiVersion": "kyverno.io/v2alpha1", "kind": "GlobalContextEntry", "metadata": {"name": "e"}, "spec": spec})
}

fn pods(namespace: &str) -> Value {
    json!({"kubernetesResource": {"version": "v1", "resource": "pods", "namespace": namespace}})
}

#[track_caller]
fn check(spec: Value, expected: &[(&str, Reason)]) {
    let findings = compile::check(&entry(spec)).expect("a kind that is served");
    let found: Vec<_> = findings.errors.iter().map(|error| (error.field.to_string(), error.reason)).collect();
    let expected: Vec<_> = expected.iter().map(|(field, reason)| ((*field).to_owned(), *reason)).collect();
    assert_eq!(found, expected, "{:#?}", findings.errors);
}

#[test]
fn an_entry_is_checked_field_by_field() {
    check(pods(""), &[]);
    check(json!({"kubernetesResource": {"group": "apps", "version": "v1", "resource": "deployments"}}), &[]);
    let good = json!({"urlPath": "/api/v1/pods", "refreshInterval": "1h30m", "retryLimit": 0});
    check(json!({"apiCall": good}), &[]);
    check(
        json!({"apiCall": {"service": {"url": "https://a.svc"}, "method": "POST", "data": [{"key": "k", "value": 1}]}}),
        &[],
    );

    check(json!({}), &[("spec", Reason::Xor)]);
    let both = json!({"kubernetesResource": {"version": "v1", "resource": "pods"}, "apiCall": good});
    check(both, &[("spec", Reason::Xor)]);
    check(
        json!({"kubernetesResource": {"group": "apps"}}),
        &[
            ("spec.kubernetesResource.version", Reason::Required),
            ("spec.kubernetesResource.resource", Reason::Required),
        ],
    );
    let subresource = json!({"kubernetesResource": {"version": "v1", "resource": "pods/status"}});
    check(subresource, &[("spec.kubernetesResource.resource", Reason::Format)]);

    let call = |field: &str, value: Value| {
        let mut call = json!({"urlPath": "/api/v1/pods"});
        call[field] = value;
        json!({"apiCall": call})
    };
    check(call("urlPath", json!("pods")), &[("spec.apiCall.urlPath", Reason::Format)]);
    check(call("urlPath", json!("/api/v1/namespaces/{{ x }}/pods")), &[("spec.apiCall.urlPath", Reason::Context)]);
    let with_variables = json!({
        "method": "POST", "data": [{"key": "k", "value": {"list": ["{{ x }}"]}}],
        "service": {"url": "http://a", "headers": [{"key": "K", "value": "{{ x }}"}], "caBundle": "{{ x }}"},
    });
    check(
        json!({"apiCall": with_variables}),
        &[
            ("spec.apiCall.data[0].value.list[0]", Reason::Context),
            ("spec.apiCall.service.caBundle", Reason::Context),
            ("spec.apiCall.service.headers[0].value", Reason::Context),
        ],
    );
    check(call("service", json!({"url": "http://a"})), &[("spec.apiCall", Reason::Xor)]);
    check(call("method", json!("PUT")), &[("spec.apiCall.method", Reason::Enum)]);
    check(call("refreshInterval", json!("often")), &[("spec.apiCall.refreshInterval", Reason::Format)]);
    check(call("refreshInterval", json!("-1m")), &[("spec.apiCall.refreshInterval", Reason::Range)]);
    check(call("retryLimit", json!(-1)), &[("spec.apiCall.retryLimit", Reason::Format)]);
    check(call("jmesPath", json!("a")), &[("spec.apiCall.jmesPath", Reason::Unknown)]);
    let link_local = json!({"apiCall": {"service": {"url": "http://169.254.169.254/"}}});
    check(link_local, &[("spec.apiCall.service.url", Reason::Forbidden)]);

    let mut projected = pods("");
    projected["projections"] = json!([
        {"name": "a", "jmesPath": "[].metadata.name"}, {"name": "b", "jmesPath": "[?"}, {"jmesPath": "a"}, {"name": "a"},
    ]);
    check(
        projected,
        &[
            ("spec.projections[1].jmesPath", Reason::Format),
            ("spec.projections[2].name", Reason::Required),
            ("spec.projections[3].jmesPath", Reason::Required),
            ("spec.projections[3].name", Reason::Duplicate),
        ],
    );
}

#[test]
fn the_commands_know_entries() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, document: Value| {
        let path = folder.path().join(name);
        std::fs::write(&path, document.to_string()).expect("written");
        path.display().to_string()
    };
    let good = file("good.json", entry(pods("a")));
    let call = file("call.json", entry(json!({"apiCall": {"urlPath": "/apis/apps/v1/deployments"}})));
    let bad = file("bad.json", entry(json!({})));
    writ(&["validate", &good]).expect(0);
    assert!(writ(&["validate", &bad]).expect(1).out.contains("spec: an entry has exactly one of"));
    let role: Value = serde_json::from_str(&writ(&["rbac", &good, &call, "-o", "json"]).expect(0).out).expect("JSON");
    assert_eq!(
        role["rules"],
        json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]},
        ])
    );
}

/// An API server with ConfigMaps `a/x` and, after the first watch, `b/y`; other paths answer what is set.
struct Server {
    task: JoinHandle<()>,
    _shutdown: Shutdown,
    _folder: tempfile::TempDir,
    way: Way,
    globals: Globals,
    paths: Arc<Mutex<BTreeMap<&'static str, Result<Value, u16>>>>,
    polls: Arc<AtomicUsize>,
}

impl Server {
    async fn start() -> Self {
        let bound = Bound::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = bound.address();
        let (shutdown, drain) = Shutdown::new();
        let (paths, polls) = (Arc::new(Mutex::new(BTreeMap::new())), Arc::new(AtomicUsize::new(0)));
        let watches = Arc::new(AtomicUsize::new(0));
        let (set, counted) = (paths.clone(), polls.clone());
        let answer = move |request: Request<Bytes>| {
            let (set, counted, watches) = (set.clone(), counted.clone(), watches.clone());
            async move {
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                match request.uri().path() {
                    _ if is_watch && watches.fetch_add(1, Ordering::SeqCst) > 0 => pending().await,
                    _ if is_watch => json_response(&json!({"type": "ADDED", "object": config_map("b", "y", "2")})),
                    "/api" => json_response(&discovery()),
                    "/apis" => json_response(&json!({"items": []})),
                    "/api/v1/configmaps" => json_response(
                        &json!({"metadata": {"resourceVersion": "1"}, "items": [config_map("a", "x", "1")]}),
                    ),
                    path => {
                        counted.fetch_add(1, Ordering::SeqCst);
                        let set: std::sync::MutexGuard<'_, BTreeMap<_, _>> = set.lock().unwrap();
                        match set.get(path) {
                            Some(Ok(value)) => json_response(value),
                            Some(Err(code)) => failure(*code),
                            None => failure(404),
                        }
                    }
                }
            }
        };
        let task = tokio::spawn(bound.serve(None, answer, Limits::default(), (), drain));
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}],
              clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [{{name: u, user: {{}}}}]}}"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let api = Api::new(connect(Some(&kubeconfig), None).await.unwrap());
        let discovery = Arc::new(Discovery::new(api.clone()));
        let services = Services::new(ServiceOptions {
            timeout: SOON,
            response_limit: 1000,
            token_file: PathBuf::from("/nonexistent/token"),
        });
        let globals = Globals::default();
        let reader =
            Reader::new(api.clone(), discovery.clone(), INSTALL).with_services(services).with_globals(globals.clone());
        let way = Way { api, discovery, reader, outbound: Outbound::any().into(), namespace: INSTALL.to_owned() };
        Self { task, _shutdown: shutdown, _folder: folder, way, globals, paths, polls }
    }

    fn set(&self, path: &'static str, answer: Result<Value, u16>) {
        self.paths.lock().unwrap().insert(path, answer);
    }

    fn keep(&self, spec: Value) -> JoinHandle<()> {
        let (entry, findings) = global_entry(&entry(spec));
        let entry = Arc::new(entry.unwrap_or_else(|| panic!("{:?}", findings.errors)));
        self.globals.put(&entry);
        tokio::spawn(self.globals.clone().keep(entry, self.way.clone()))
    }

    /// `None` while there is nothing to be said.
    async fn ask(&self, name: &str, reach: &Reach) -> Option<Result<Value, String>> {
        let bounds = InstallBounds::offline();
        let fetch = Gate::new(reach, &bounds).global(name);
        match self.way.reader.answer(&fetch).await.ok()? {
            Answer::Found(found) => Some(Ok(Value::clone(&found))),
            Answer::Absent => Some(Err("absent".to_owned())),
            Answer::Failed(reason) => Some(Err(reason)),
        }
    }

    async fn becomes(&self, name: &str, expected: Result<Value, &str>) {
        let deadline = Instant::now() + SOON;
        loop {
            let found = self.ask(name, &Reach::Cluster).await;
            let fits = match (&found, &expected) {
                (Some(Ok(found)), Ok(expected)) => found == expected,
                (Some(Err(reason)), Err(part)) => reason.contains(part),
                _ => false,
            };
            if fits {
                return;
            }
            assert!(Instant::now() < deadline, "{name}: {found:?} is not {expected:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn config_map(namespace: &str, name: &str, version: &str) -> Value {
    let metadata = json!({"namespace": namespace, "name": name, "resourceVersion": version, "managedFields": []});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

fn discovery() -> Value {
    let resource = |plural: &str, kind: &str, scope: &str| json!({"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "verbs": ["list", "watch"]});
    let resources = [resource("configmaps", "ConfigMap", "Namespaced"), resource("nodes", "Node", "Cluster")];
    json!({"items": [{"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": resources}]}]})
}

fn json_response(value: &Value) -> Response<Bytes> {
    Response::builder().header("content-type", "application/json").body(Bytes::from(format!("{value}\n"))).unwrap()
}

fn failure(code: u16) -> Response<Bytes> {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "no", "reason": ""});
    let mut response = json_response(&status);
    *response.status_mut() = code.try_into().unwrap();
    response
}

#[tokio::test]
async fn objects_of_a_resource_are_followed() {
    let server = Server::start().await;
    let resource = json!({"version": "v1", "resource": "configmaps"});
    let projections = json!([{"name": "names", "jmesPath": "[].metadata.name"}, {"name": "bad", "jmesPath": "a.b"}]);
    assert_eq!(server.ask("e", &Reach::Cluster).await, None, "nobody knows yet which entries there are");
    let _keeping = server.keep(json!({"kubernetesResource": resource, "projections": projections}));
    server.globals.set_listed();
    server.becomes("e.names", Ok(json!(["x", "y"]))).await;
    let Some(Ok(Value::Array(objects))) = server.ask("e", &Reach::Cluster).await else { panic!("a list") };
    assert_eq!(objects[0]["kind"], json!("ConfigMap"));
    assert_eq!(objects[0]["metadata"].get("managedFields"), None);
    server.becomes("e.other", Err("it has no projection `other`")).await;
    server.becomes("f", Err("absent")).await;
    let standings = server.globals.standings();
    assert_eq!(standings[0].readiness, Readiness::Ready);
    assert!(standings[0].refreshed.is_some());
    let refused = server.ask("e", &Reach::Namespace("a".to_owned())).await;
    assert!(matches!(&refused, Some(Err(reason)) if reason.contains("cannot leave")), "{refused:?}");

    server.globals.remove("e");
    server.becomes("e", Err("absent")).await;
}

#[tokio::test]
async fn what_cannot_be_followed_says_why() {
    let server = Server::start().await;
    let _unknown = server.keep(json!({"kubernetesResource": {"version": "v1", "resource": "widgets"}}));
    server.becomes("e", Err("the cluster has no resource `widgets`")).await;
    // Else a Policy of the namespace would see all of them.
    let _homeless =
        server.keep(json!({"kubernetesResource": {"version": "v1", "resource": "nodes", "namespace": "a"}}));
    server.becomes("e", Err("list of nodes is cluster-scoped, but namespace `a` is named for it")).await;
    server.globals.put_aside("e", "it is broken".to_owned());
    server.becomes("e", Err("it is broken")).await;
    let Readiness::NotReady { because } = &server.globals.standings()[0].readiness else { panic!("not ready") };
    assert_eq!(because, "it is broken");
}

#[tokio::test]
async fn a_call_is_asked_again_and_again() {
    let server = Server::start().await;
    server.set("/version", Ok(json!({"n": 1})));
    let projections = json!([{"name": "number", "jmesPath": "n"}]);
    let call = json!({"urlPath": "/version", "refreshInterval": "1s", "retryLimit": 0});
    let _keeping = server.keep(json!({"apiCall": call, "projections": projections}));
    server.becomes("e.number", Ok(json!(1))).await;
    server.set("/version", Ok(json!({"n": 2})));
    server.becomes("e.number", Ok(json!(2))).await;
    // What is old is not passed off as new.
    server.set("/version", Err(403));
    server.becomes("e", Err("GET /version")).await;
    server.set("/version", Ok(json!({"n": 3})));
    server.becomes("e", Ok(json!({"n": 3}))).await;
}

#[tokio::test]
async fn a_call_that_fails_is_tried_again_before_the_entry_fails() {
    let server = Server::start().await;
    let call = json!({"urlPath": "/version", "refreshInterval": "1h", "retryLimit": 1});
    let _keeping = server.keep(json!({"apiCall": call}));
    server.becomes("e", Err("not found")).await;
    assert_eq!(server.polls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_outage_is_no_failure_of_the_entry() {
    let server = Server::start().await;
    let polls = || server.polls.load(Ordering::SeqCst);
    let more_polls = async |before: usize| {
        let deadline = Instant::now() + SOON;
        while polls() < before + 2 {
            assert!(Instant::now() < deadline, "{} calls", polls());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    server.set("/version", Err(503));
    let rarely = json!({"urlPath": "/version", "refreshInterval": "1h", "retryLimit": 0});
    let keeping = server.keep(json!({"apiCall": rarely}));
    more_polls(0).await;
    assert_eq!(server.ask("e", &Reach::Cluster).await, None, "the data is on its way");
    server.set("/version", Ok(json!({"n": 1})));
    server.becomes("e", Ok(json!({"n": 1}))).await;
    keeping.abort();

    let often = json!({"urlPath": "/version", "refreshInterval": "1s", "retryLimit": 0});
    let _keeping = server.keep(json!({"apiCall": often}));
    server.becomes("e", Ok(json!({"n": 1}))).await;
    server.set("/version", Err(503));
    more_polls(polls()).await;
    assert_eq!(server.ask("e", &Reach::Cluster).await, Some(Ok(json!({"n": 1}))), "what there is stays");
    server.set("/version", Ok(json!({"n": 2})));
    server.becomes("e", Ok(json!({"n": 2}))).await;
}

#[tokio::test]
async fn a_call_of_a_service_passes_the_operators_list() {
    let mut server = Server::start().await;
    server.way.outbound = Outbound::default().into();
    let _keeping = server.keep(json!({"apiCall": {"service": {"url": "http://a.svc"}, "retryLimit": 0}}));
    server.becomes("e", Err("calls of `a.svc` are switched off")).await;
}
