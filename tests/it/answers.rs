//! Answers of the API server: how much of them is read, and what is shown of them. It is played on loopback.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Request, Response};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use writ::cluster::discovery::Discovery;
use writ::cluster::kinds::ApiKind;
use writ::cluster::{Api, ClusterError, Reader, Selection, connect};
use writ::core::generate::api_path::PathPattern;
use writ::core::generate::{Answer, Fetch, Gate, InstallBounds, Reach};
use writ::server::{Bound, Limits, Shutdown};

const INSTALL: &str = "writ-system";

/// How many objects there are, and how large each is.
const OBJECTS: usize = 100;
const OBJECT_BYTES: usize = 10_000;

struct Server {
    api: Api,
    _shutdown: Shutdown,
    _folder: tempfile::TempDir,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start() -> Self {
        let bound = Bound::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = bound.address();
        let (shutdown, drain) = Shutdown::new();
        let answer = |request: Request<Bytes>| async move { respond(&request) };
        let task = tokio::spawn(bound.serve(None, answer, Limits::default(), (), drain));
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}],
              clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [{{name: u, user: {{}}}}]}}"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let api = Api::new(connect(Some(&kubeconfig), None).await.unwrap());
        Self { api, _shutdown: shutdown, _folder: folder, task }
    }

    async fn call(&self, path: &str) -> Answer {
        let reader = Reader::new(self.api.clone(), Arc::new(Discovery::new(self.api.clone())), INSTALL);
        let fetch = fetch(path);
        reader.answer(&fetch).await.expect(path)
    }
}

fn fetch(path: &str) -> Fetch {
    Gate::new(&Reach::Cluster, &InstallBounds::offline()).call(path, None, &PathPattern::of(path)).expect(path)
}

fn respond(request: &Request<Bytes>) -> Response<Bytes> {
    let status = |code: u16, message: &str| {
        let body =
            json!({"kind": "Status", "status": "Failure", "code": code, "reason": "Invalid", "message": message});
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = code.try_into().unwrap();
        response
    };
    match request.uri().path() {
        "/api/v1/namespaces/a/pods" => Response::new(Bytes::from(json!({"items": ["x".repeat(3 << 20)]}).to_string())),
        "/api/v1/namespaces/b/pods" => Response::new(Bytes::from(json!({"items": ["x".repeat(1 << 20)]}).to_string())),
        "/api/v1/namespaces/c/pods" => status(422, "Invalid value: \"hidden\": must be another"),
        "/api/v1/namespaces/d/pods" => Response::new(Bytes::from("{\"items\": \"hidden")),
        "/api/v1/configmaps" => Response::new(Bytes::from(page(request.uri().query().unwrap_or_default()).to_string())),
        path => status(404, path),
    }
}

/// A page of the objects, as the parameters ask for it.
fn page(query: &str) -> Value {
    let parameter = |name: &str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse::<usize>().ok())
    };
    let (from, limit) = (parameter("continue").unwrap_or(0), parameter("limit").unwrap_or(OBJECTS));
    let to = (from + limit).min(OBJECTS);
    let items: Vec<Value> = (from..to)
        .map(|at| json!({"metadata": {"name": format!("m-{at}")}, "data": {"k": "x".repeat(OBJECT_BYTES)}}))
        .collect();
    let next = if to == OBJECTS { String::new() } else { to.to_string() };
    json!({"metadata": {"resourceVersion": "1", "continue": next}, "items": items})
}

#[tokio::test]
async fn an_answer_over_the_budget_of_the_context_is_not_read() {
    let server = Server::start().await;
    let Answer::Failed(reason) = server.call("/api/v1/namespaces/a/pods?x=hidden").await else { panic!("it was read") };
    assert_eq!(reason, "the answer about /api/v1/namespaces/a/pods is larger than 2097152 bytes");
    assert!(matches!(server.call("/api/v1/namespaces/b/pods").await, Answer::Found(_)));
}

#[tokio::test]
async fn what_an_answer_quotes_is_not_shown() {
    let server = Server::start().await;
    let Answer::Failed(reason) = server.call("/api/v1/namespaces/c/pods").await else { panic!("it was accepted") };
    assert_eq!(reason, "cannot get /api/v1/namespaces/c/pods: Invalid");
    let reader = Reader::new(server.api.clone(), Arc::new(Discovery::new(server.api.clone())), INSTALL);
    let fetch = fetch("/api/v1/namespaces/d/pods");
    let error = reader.answer(&fetch).await.expect_err("it is not JSON").to_string();
    assert!(error.contains("line 1, column") && !error.contains("hidden"), "{error}");
}

#[tokio::test]
async fn a_list_of_large_objects_comes_in_smaller_pages_and_has_an_end() {
    let server = Server::start().await;
    let (kind, selection) = (ApiKind::builtin("v1", "ConfigMap"), Selection::default());
    let small = server.api.within(20 * OBJECT_BYTES);
    let page = small.list(&kind, &selection, 64, "").await.expect("a page");
    assert_eq!((page.items.len(), page.next.as_str()), (8, "8"));
    let error = small.list_all(&kind, &selection).await.expect_err("it is longer than that");
    assert!(matches!(error, ClusterError::TooLarge { .. }), "{error}");
    let tiny = server.api.within(OBJECT_BYTES / 2);
    let error = tiny.list(&kind, &selection, 64, "").await.expect_err("one object is larger than that");
    assert!(matches!(error, ClusterError::TooLarge { .. }), "{error}");
    assert_eq!(server.api.list_all(&kind, &selection).await.expect("a list").len(), OBJECTS);
}
