//! `writ plan`, asked about a cluster that an API server on loopback plays.

use std::collections::BTreeMap;

use bytes::Bytes;
use hyper::{Request, Response};
use serde_json::{Value, json};
use writ::compile;
use writ::core::expr::Seed;
use writ::core::generate::{Evaluation, Facts, InstallBounds, Trigger, evaluate, seed};
use writ::server::{Bound, Limits, Shutdown};

use crate::support::command::writ;

const SEED: &[u8] = b"0123456789abcdef0123456789abcdef";
const SECRET: &str = "/api/v1/namespaces/writ-system/secrets/writ-keys";

fn policy() -> Value {
    json!({
        "apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy",
        "metadata": {"name": "p", "annotations": {"writ.dev/prune": "true"}},
        "spec": {"rules": [{
            "name": "r", "match": {"any": [{"resources": {"kinds": ["Namespace"]}}]},
            "generate": {
                "apiVersion": "v1", "kind": "ConfigMap", "name": "new", "namespace": "{{ request.object.metadata.name }}",
                "synchronize": true, "generateExisting": true,
                "data": {"data": {"v": "{{ random('[a-z]{12}') }}"}},
            },
        }]},
    })
}

fn exception() -> Value {
    json!({
        "apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": {"name": "e", "namespace": "a"},
        "spec": {
            "exceptions": [{"policyName": "p", "ruleNames": ["r"]}],
            "match": {"any": [{"resources": {"kinds": ["Namespace"]}}]},
        },
    })
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "uid": "u-1"}})
}

/// What the rule makes in the install with the seed.
fn made() -> Value {
    let (policy, findings) = compile::generate::policy(&policy());
    let policy = policy.unwrap_or_else(|| panic!("{:?}", findings.errors));
    let trigger = Trigger::background(namespace());
    let root = Seed::new(SEED).expect("a seed");
    let seed = seed(&root, &policy.rules[0], &trigger);
    let facts = Facts::new(jiff::Timestamp::UNIX_EPOCH, seed, InstallBounds::offline());
    match evaluate(&policy.rules[0], &trigger, &facts) {
        Ok(Evaluation::Done(plan)) => plan.targets[0].body.clone(),
        other => panic!("{other:?}"),
    }
}

fn resource(plural: &str, kind: &str, scope: &str) -> Value {
    json!({"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "verbs": ["get", "list", "watch"]})
}

/// A cluster with one namespace, these objects in it, and what it has at other paths.
fn cluster(objects: &[Value], more: &[(&'static str, Value)]) -> BTreeMap<String, Value> {
    let core = [
        resource("namespaces", "Namespace", "Cluster"),
        resource("configmaps", "ConfigMap", "Namespaced"),
        resource("secrets", "Secret", "Namespaced"),
    ];
    let discovery = json!({"items": [{"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": core}]}]});
    let list = |items: &[Value]| json!({"metadata": {"resourceVersion": "1"}, "items": items});
    let mut paths = BTreeMap::from([
        ("/api".to_owned(), discovery),
        ("/apis".to_owned(), json!({"items": []})),
        ("/api/v1/namespaces".to_owned(), list(&[namespace()])),
        ("/api/v1/namespaces/team-a".to_owned(), namespace()),
        ("/api/v1/configmaps".to_owned(), list(objects)),
    ]);
    for object in objects {
        let name = object["metadata"]["name"].as_str().expect("a name");
        paths.insert(format!("/api/v1/namespaces/team-a/configmaps/{name}"), object.clone());
    }
    paths.extend(more.iter().map(|(path, value)| ((*path).to_owned(), value.clone())));
    paths
}

fn secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "writ-keys"}, "data": {"random-seed": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}})
}

async fn plan(paths: BTreeMap<String, Value>, code: u8) -> Value {
    plan_with(paths, code, None).await
}

/// What is printed; with an exception among the files where the namespace is named whose exceptions count.
async fn plan_with(paths: BTreeMap<String, Value>, code: u8, honoured: Option<&str>) -> Value {
    let bound = Bound::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = bound.address();
    let (_shutdown, drain) = Shutdown::new();
    let answer = move |request: Request<Bytes>| {
        let found = paths.get(request.uri().path()).filter(|_| request.method() == "GET").cloned();
        async move {
            let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "message": "no", "reason": "NotFound", "details": {"name": "it"}});
            let status = if found.is_some() { 200 } else { 404 };
            let body = Bytes::from(found.unwrap_or(missing).to_string());
            Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
        }
    };
    let serving = tokio::spawn(bound.serve(None, answer, Limits::default(), (), drain));
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}],
          clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [{{name: u, user: {{}}}}]}}"
    );
    std::fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("policy.json"), policy().to_string()).unwrap();
    std::fs::write(file("exception.json"), exception().to_string()).unwrap();
    let mut arguments = vec!["plan".to_owned(), file("policy.json")];
    if let Some(namespace) = honoured {
        arguments.extend([file("exception.json"), format!("--exception-namespace={namespace}")]);
    }
    arguments.extend(["--kubeconfig".to_owned(), file("kubeconfig"), "-o".to_owned(), "json".to_owned()]);
    let ran = tokio::task::spawn_blocking(move || {
        writ(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).expect(code).out
    });
    let out = ran.await.unwrap();
    serving.abort();
    serde_json::from_str(&out).expect("JSON")
}

fn steps(plan: &Value) -> Vec<(&str, &str)> {
    let steps = plan["steps"].as_array().expect("a list").iter();
    steps.map(|step| (step["action"].as_str().unwrap(), step["object"]["name"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_plan_shows_what_is_pruned() {
    let mut old = made();
    old["metadata"]["name"] = "old".into();
    let mut of_another = old.clone();
    of_another["metadata"]["name"] = "of-another".into();
    of_another["metadata"]["labels"]["generate.kyverno.io/trigger-uid"] = "u-2".into();
    let plan = plan(cluster(&[old, of_another], &[(SECRET, secret())]), 1).await;
    assert_eq!(steps(&plan), [("create", "new"), ("delete", "old")], "{plan}");
}

#[tokio::test]
async fn chance_is_that_of_the_cluster_where_it_can_be_read() {
    let found = plan(cluster(&[made()], &[(SECRET, secret())]), 0).await;
    assert_eq!(steps(&found), [("unchanged", "new")], "{found}");
    assert_eq!(found["notes"], json!([]));
    let found = plan(cluster(&[made()], &[]), 1).await;
    assert_eq!(steps(&found), [("update", "new")], "{found}");
    assert!(found["notes"][0].as_str().is_some_and(|note| note.contains("random()")), "{found}");
}

#[tokio::test]
async fn exceptions_among_the_files_count_where_the_cluster_would_honour_them() {
    let paths = || cluster(&[], &[(SECRET, secret())]);
    let found = plan_with(paths(), 0, Some("a")).await;
    assert_eq!(steps(&found), [], "{found}");
    for honoured in ["", "b"] {
        let found = plan_with(paths(), 1, Some(honoured)).await;
        assert_eq!(steps(&found), [("create", "new")], "{found}");
        assert_eq!(found["notes"], json!(["exception a/e does not count (--exception-namespace)"]));
    }
}
