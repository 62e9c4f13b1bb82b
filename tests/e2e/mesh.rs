//! Mesh policies at the door of a real API server: completed, judged by definition and webhook as `writ validate` judges
//! files, and by who may write what where.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{self, Answer, Cluster, ControlPlane, Writ, eventually, root};

const SOON: Duration = Duration::from_secs(10);
const SYSTEM: &str = "kuma-system";

/// A document of `tests/cases/mesh`.
struct Case {
    name: String,
    text: String,
}

/// The documents of a folder that API servers know the form of.
fn cases(folder: &str) -> Vec<Case> {
    let folder = root().join("tests/cases/mesh").join(folder);
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the case folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("readable");
        let parts = text.split("\n---\n").enumerate().filter(|(_, part)| !part.contains("type: Mesh"));
        cases.extend(parts.map(|(index, part)| Case {
            name: format!("{}, document {index}", file.display()),
            text: part.to_owned(),
        }));
    }
    cases
}

/// What `writ validate` says of a document: fields of errors, fields of the schema, texts of warnings.
struct Offline {
    errors: Vec<String>,
    schema: Vec<String>,
    warnings: Vec<String>,
}

impl Offline {
    fn of(text: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_writ"))
            .args(["validate", "-o", "json", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("writ starts");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("writ reads");
        let output = child.wait_with_output().expect("writ ends");
        let reports: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let list = |level: &str, tell: fn(&Value) -> String| -> Vec<String> {
            reports[0][level].as_array().into_iter().flatten().map(tell).collect()
        };
        let field = |finding: &Value| finding["field"].as_str().unwrap_or_default().to_owned();
        let line = |finding: &Value| {
            let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", text("field"), text("message"))
        };
        Self { errors: list("errors", field), schema: list("schema", field), warnings: list("warnings", line) }
    }

    /// Whether `kubectl apply` came to the same: every warning, or every cause.
    fn agrees(&self, answer: &Answer) -> Result<(), String> {
        let Self { errors, schema, warnings } = self;
        if errors.is_empty() && schema.is_empty() {
            // What a definition does not know, the API server drops and tells itself; the webhook does not see it.
            let dropped = |warning: &String| {
                let (field, message) = warning.split_once(": ").unwrap_or_default();
                message.starts_with("unknown field").then(|| format!("unknown field \"{field}\""))
            };
            let wanted: BTreeSet<String> =
                warnings.iter().map(|warning| dropped(warning).unwrap_or_else(|| warning.clone())).collect();
            let told = answer.stderr.lines().filter_map(|line| line.strip_prefix("Warning: "));
            return match answer.success && told.map(str::to_owned).collect::<BTreeSet<_>>() == wanted {
                true => Ok(()),
                false => Err(format!("accepted with {wanted:?}")),
            };
        }
        // The API server asks nobody about what its definitions refuse.
        let causes = if schema.is_empty() { errors } else { schema };
        let is_told = |field: &String| answer.stderr.lines().any(|line| line.contains(&format!("{field}: ")));
        let told = answer.stderr.lines().filter(|line| line.trim_start().starts_with("* ")).count().max(1);
        match !answer.success && causes.iter().all(is_told) && told == causes.len() {
            true => Ok(()),
            false => Err(format!("refused for {causes:?}")),
        }
    }
}

fn namespace_for(cluster: &Cluster, name: &str) {
    let made = cluster.kubectl(["create", "namespace", name]).run();
    assert!(made.success || made.stderr.contains("AlreadyExists"), "{made:?}");
}

fn get(cluster: &Cluster, namespace: &str, kind: &str, name: &str) -> Value {
    let text = cluster.kubectl(["get", kind, name, "--namespace", namespace, "-o", "json"]).ok();
    serde_json::from_str(&text).expect("JSON")
}

fn timeout(name: &str, labels: &Value, request_timeout: &str) -> String {
    let http = json!({"requestTimeout": request_timeout});
    let to = json!([{"targetRef": {"kind": "Mesh"}, "default": {"http": http}}]);
    let object = json!({
        "apiVersion": "kuma.io/v1alpha1", "kind": "MeshTimeout", "metadata": {"name": name, "labels": labels},
        "spec": {"to": to},
    });
    object.to_string()
}

#[test]
fn kubectl_and_writ_validate_say_the_same() {
    let Some(cluster) = support::with_writ() else { return };
    for namespace in [SYSTEM, "frontend-ns", "backend-ns"] {
        namespace_for(cluster, namespace);
    }
    let (mut accepted, mut refused, mut differences) = (0, 0, Vec::new());
    for Case { name, text } in cases("seeds").into_iter().chain(cases("policies")) {
        let offline = Offline::of(&text);
        // Where a document does not say its namespace, it is one of the operators.
        let mut arguments = vec!["apply", "--dry-run=server", "--validate=warn", "-f", "-"];
        if !text.contains("\n  namespace: ") {
            arguments.extend(["--namespace", SYSTEM]);
        }
        let answer = cluster.kubectl(arguments).stdin(&text).run();
        *(if answer.success { &mut accepted } else { &mut refused }) += 1;
        if let Err(difference) = offline.agrees(&answer) {
            differences.push(format!("{name}: {difference}: {answer:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(accepted >= 30 && refused >= 25, "{accepted} accepted, {refused} refused");
}

#[test]
fn every_kind_is_stored_complete() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("kinds");
    let mut kinds = BTreeSet::new();
    for Case { name, text } in cases("policies").into_iter().filter(|case| !case.text.contains("# error: ")) {
        let word = |key: &str| {
            let value = text.lines().find_map(|line| line.trim().strip_prefix(key)).expect(key);
            value.trim().to_owned()
        };
        let (kind, object) = (word("kind:"), word("name:"));
        kinds.insert(kind.clone());
        ns.accepts(&text);
        let metadata = &get(cluster, &ns.name, &kind, &object)["metadata"];
        let role = if text.contains("\n  to:") { "consumer" } else { "workload-owner" };
        for (label, value) in [
            ("kuma.io/mesh", "default"),
            ("kuma.io/origin", "zone"),
            ("kuma.io/zone", "default"),
            ("kuma.io/env", "kubernetes"),
            ("k8s.kuma.io/namespace", &ns.name),
            ("kuma.io/policy-role", role),
        ] {
            assert_eq!(metadata["labels"][label], *value, "{name}: {label}");
        }
        assert_eq!(metadata["annotations"]["kuma.io/display-name"], *object, "{name}");
    }
    assert_eq!(kinds.len(), 16, "{kinds:?}");

    let dataplane = r#"
apiVersion: kuma.io/v1alpha1
kind: Dataplane
mesh: default
metadata: {name: web}
spec: {networking: {address: 192.0.2.1, gateway: {tags: {kuma.io/service: edge}}}}
"#;
    ns.accepts(dataplane);
    let labels = &get(cluster, &ns.name, "dataplane", "web")["metadata"]["labels"];
    assert_eq!((&labels["kuma.io/proxy-type"], &labels["kuma.io/mesh"]), (&json!("gateway"), &json!("default")));
    ns.rejects(&dataplane.replace("mesh: default", "mesh: Two Words").replace("name: web", "name: bad"), "mesh: ");
    let external = r#"
apiVersion: kuma.io/v1alpha1
kind: MeshExternalService
metadata: {name: example}
spec: {match: {type: HostnameGenerator, port: 80, protocol: http}, endpoints: [{address: example.com, port: 80}]}
"#;
    ns.rejects(external, "may stand only in the system namespace, kuma-system");
}

#[test]
fn labels_that_people_take_away_come_back_and_refused_updates_change_nothing() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("updates");
    let stored = || get(cluster, &ns.name, "meshtimeout", "short");
    let by_server = ["apply", "--server-side", "-f", "-"];
    for seconds in ["1s", "2s"] {
        ns.kubectl(by_server).stdin(&timeout("short", &json!({}), seconds)).ok();
        assert_eq!(stored()["spec"]["to"][0]["default"]["http"]["requestTimeout"], seconds);
        assert_eq!(stored()["metadata"]["labels"]["kuma.io/policy-role"], "consumer");
    }
    let before = stored();
    let refused = ns.kubectl(by_server).stdin(&timeout("short", &json!({}), "-1s")).run();
    assert!(!refused.success && refused.stderr.contains("requestTimeout: "), "{refused:?}");
    assert_eq!(stored(), before);

    ns.kubectl(["label", "meshtimeout", "short", "kuma.io/policy-role=system", "--overwrite"]).ok();
    ns.kubectl(["label", "meshtimeout", "short", "kuma.io/zone-"]).ok();
    ns.kubectl(["annotate", "meshtimeout", "short", "kuma.io/display-name=other", "--overwrite"]).ok();
    let after = stored();
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    assert_eq!(after["metadata"]["annotations"]["kuma.io/display-name"], "short");

    // Applied from a file as well, by people who never heard of the labels.
    ns.accepts(&timeout("plain", &json!({"team": "a"}), "1s"));
    ns.accepts(&timeout("plain", &json!({"team": "b"}), "1s"));
    let labels = &get(cluster, &ns.name, "meshtimeout", "plain")["metadata"]["labels"];
    assert_eq!((&labels["team"], &labels["kuma.io/origin"]), (&json!("b"), &json!("zone")));
}

#[test]
fn a_role_that_cannot_be_told_is_refused() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("roles");
    let mixed = r#"
apiVersion: kuma.io/v1alpha1
kind: MeshTimeout
metadata: {name: mixed}
spec:
  to:
    - {targetRef: {kind: Mesh}, default: {idleTimeout: 1h}}
    - {targetRef: {kind: MeshService, name: backend}, default: {idleTimeout: 1h}}
"#;
    ns.rejects(mixed, "make a policy of the first (a producer) and one of the others (a consumer)");
    let gateway = timeout("edge", &json!({}), "1s")
        .replace("\"to\":", r#""targetRef":{"kind":"MeshGateway","name":"edge"},"to":"#);
    ns.rejects(&gateway, "only policies in the system namespace may select a gateway");
    namespace_for(cluster, SYSTEM);
    let accepted =
        cluster.kubectl(["apply", "--dry-run=server", "--namespace", SYSTEM, "-f", "-"]).stdin(&gateway).run();
    assert!(accepted.success, "{accepted:?}");
}

#[test]
fn a_policy_that_never_meets_its_route_is_told_so() {
    let Some(cluster) = support::with_writ() else { return };
    let ns = cluster.namespace("disjoint");
    ns.accepts(
        r#"
apiVersion: kuma.io/v1alpha1
kind: MeshHTTPRoute
metadata: {name: route-to-backend}
spec:
  targetRef: {kind: MeshSubset, tags: {k8s.kuma.io/namespace: frontend-ns}}
  to:
    - targetRef: {kind: MeshService, name: backend}
      rules: [{matches: [{path: {type: PathPrefix, value: /}}], default: {}}]
"#,
    );
    let policy = |namespace: &str| {
        format!(
            r#"
apiVersion: kuma.io/v1alpha1
kind: MeshTimeout
metadata: {{name: timeout-for-backend}}
spec:
  targetRef: {{kind: MeshSubset, tags: {{k8s.kuma.io/namespace: {namespace}}}}}
  to:
    - targetRef: {{kind: MeshHTTPRoute, name: route-to-backend}}
      default: {{http: {{requestTimeout: 1s}}}}
"#
        )
    };
    let warning =
        format!("spec.to[0].targetRef: without effect: no proxy that this policy selects has the route {}/", ns.name);
    eventually(SOON, "the warning", || {
        let told = ns.accepts(&policy("some-other-ns"));
        if told.contains(&warning) { Ok(()) } else { Err(told) }
    });
    let told = ns.accepts(&policy("frontend-ns"));
    assert!(!told.contains("without effect"), "{told}");
}

#[test]
fn modes_decide_who_writes_what_and_an_uninstall_leaves_nothing() {
    let Some(cluster) = ControlPlane::start() else { return };
    let cluster: &Cluster = &cluster;
    let apply =
        |namespace: &str, yaml: &str| cluster.kubectl(["apply", "--namespace", namespace, "-f", "-"]).stdin(yaml).run();
    let template = r#"
apiVersion: kuma.io/v1alpha1
kind: ProxyTemplate
mesh: default
metadata: {name: simple}
spec: {selectors: [{match: {kuma.io/service: web}}], conf: {imports: [default-proxy]}}
"#;
    let dataplane = r#"
apiVersion: kuma.io/v1alpha1
kind: Dataplane
mesh: default
metadata: {name: web}
spec: {networking: {address: 192.0.2.1, inbound: [{port: 80, tags: {kuma.io/service: web}}]}}
"#;
    #[track_caller]
    fn forbidden(answer: &Answer, because: &str) {
        let told = answer.stderr.contains("Forbidden") && answer.stderr.contains(because);
        assert!(!answer.success && told, "{because}: {answer:?}");
    }

    let writ = Writ::start(cluster, &["--kuma-mode=global"]);
    namespace_for(cluster, SYSTEM);
    namespace_for(cluster, "shop");
    forbidden(&apply("shop", &timeout("short", &json!({}), "1s")), "only in the system namespace, kuma-system");
    forbidden(&apply(SYSTEM, dataplane), "can be written only in a zone");
    forbidden(&apply(SYSTEM, &timeout("short", &json!({"kuma.io/origin": "zone"}), "1s")), "must be `global` here");
    assert!(apply(SYSTEM, &timeout("global", &json!({}), "1s")).success);
    assert!(apply(SYSTEM, template).success);
    let labels = &get(cluster, SYSTEM, "meshtimeout", "global")["metadata"]["labels"];
    assert_eq!(labels["kuma.io/policy-role"], "system");
    assert_eq!(labels["kuma.io/zone"], Value::Null, "an object of all zones is of none");
    assert!(writ.terminate().is_some_and(|status| status.success()));

    let writ = Writ::start_again(cluster, &["--kuma-zone=east", "--kuma-federated"]);
    eventually(SOON, "the other mode", || {
        let answer = apply("shop", &timeout("short", &json!({}), "1s"));
        if answer.success { Ok(()) } else { Err(answer.stderr) }
    });
    assert_eq!(get(cluster, "shop", "meshtimeout", "short")["metadata"]["labels"]["kuma.io/zone"], "east");
    assert!(apply("shop", dataplane).success);
    forbidden(&apply(SYSTEM, &template.replace("simple", "other")), "only on the global control plane");
    let refused = apply(SYSTEM, &timeout("short", &json!({}), "1s"));
    forbidden(&refused, "label kuma.io/origin must be `zone`");
    let foreign = json!({"kuma.io/origin": "zone", "kuma.io/zone": "west"});
    forbidden(&apply("shop", &timeout("west", &foreign, "1s")), "label kuma.io/zone must be `east` here");
    let delete = cluster.kubectl(["delete", "meshtimeout", "global", "--namespace", SYSTEM]).run();
    forbidden(&delete, "label kuma.io/origin must be `zone`");
    let cleaner = "--as=system:serviceaccount:kuma-system:kuma-control-plane";
    let delete = ["delete", "meshtimeout", "global", "--namespace", SYSTEM, cleaner, "--as-group=system:masters"];
    cluster.kubectl(delete).ok();
    assert!(writ.terminate().is_some_and(|status| status.success()));

    // Without Writ no policy is stored, and nothing else is held up.
    let refused = apply("shop", &timeout("long", &json!({}), "1s"));
    assert!(!refused.success && refused.stderr.contains("failed calling webhook"), "{refused:?}");
    assert!(apply("shop", &dataplane.replace("name: web", "name: other")).success);
    cluster.kubectl(["delete", "meshtimeout", "short", "--namespace=shop"]).ok();
    cluster.kubectl(["delete", "namespace", "shop"]).ok();

    let folder = root().join("manifests/overlays/local").display().to_string();
    cluster.kubectl(["delete", "-k", &folder, "--ignore-not-found"]).ok();
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations,clusterroles,clusterrolebindings,\
                 customresourcedefinitions,namespaces";
    eventually(Duration::from_secs(60), "nothing left", || {
        let left = cluster.kubectl(["get", kinds, "-l", "app.kubernetes.io/part-of=writ", "-o", "name"]).ok();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    let left = cluster.kubectl(["get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-o", "name"]);
    assert_eq!(left.ok(), "");
}
