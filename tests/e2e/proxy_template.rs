//! The cases of `tests/cases/proxy-template` through `kubectl apply`: the API server, the webhook and `writ validate` agree.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::certificates::client;
use crate::support::{self, root};

#[test]
fn accepted_templates_are_stored() {
    let Some(cluster) = support::with_writ() else { return };
    for Case { name, text } in cases("accepted").into_iter().filter(Case::is_kubernetes) {
        let applied = cluster.kubectl(["apply", "-f", "-"]).stdin(&text).run();
        assert!(applied.success, "{name}: {applied:?}");
        for warning in expected(&text, "warning") {
            assert!(applied.stderr.contains(&format!("{}: ", warning.field)), "{name}: {applied:?}");
        }
        cluster.kubectl(["delete", "proxytemplate", &name]).ok();
    }
}

#[test]
fn refused_templates_are_refused_with_every_cause() {
    let Some(cluster) = support::with_writ() else { return };
    for Case { name, text } in cases("refused") {
        let applied = cluster.kubectl(["apply", "-f", "-"]).stdin(&text).run();
        assert!(!applied.success, "{name} was stored");
        let causes = expected(&text, "error");
        for Expected { field, .. } in &causes {
            let told = applied.stderr.lines().any(|line| line.contains(&format!("{field}: ")));
            assert!(told, "{name}: nothing said about {field}: {applied:?}");
        }
        let told = applied.stderr.lines().filter(|line| line.trim_start().starts_with("* ")).count();
        assert!(told == causes.len() || causes.len() == 1, "{name}: {} causes expected: {applied:?}", causes.len());
        let stored = cluster.kubectl(["get", "proxytemplate", &name, "--ignore-not-found"]).ok();
        assert!(stored.is_empty(), "{name} was stored");
    }
}

/// What `kubectl apply` is told, field by field, is what `writ validate` tells about the same file.
#[test]
fn causes_are_those_of_the_command() {
    let Some(cluster) = support::with_writ() else { return };
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = runtime.block_on(client(cluster.kubeconfig()));
    for Case { name, text } in cases("accepted").into_iter().filter(Case::is_kubernetes) {
        assert_eq!(validate("accepted", &name), Vec::<String>::new(), "{name}");
        let created = runtime.block_on(client.request::<Value>(dry_run(&text)));
        assert!(created.is_ok(), "{name}: {created:?}");
    }
    for Case { name, text } in cases("refused") {
        let refused = runtime.block_on(client.request::<Value>(dry_run(&text)));
        let Err(kube::Error::Api(status)) = refused else { panic!("{name}: {refused:?}") };
        let causes = status.details.as_ref().map(|details| details.causes.clone()).unwrap_or_default();
        assert!(!causes.is_empty(), "{name}: {status:?}");
        for cause in &causes {
            assert!(cause.reason.starts_with("FieldValue") && !cause.message.is_empty(), "{name}: {cause:?}");
        }
        let mut fields: Vec<String> = causes.into_iter().map(|cause| cause.field).collect();
        fields.sort();
        assert_eq!(fields, validate("refused", &name), "{name}: {status:?}");
    }
}

fn dry_run(yaml: &str) -> hyper::Request<Vec<u8>> {
    hyper::Request::post("/apis/kuma.io/v1alpha1/proxytemplates?dryRun=All")
        .header("content-type", "application/yaml")
        .body(yaml.as_bytes().to_vec())
        .expect("a request")
}

/// The fields that `writ validate` refuses, sorted.
fn validate(folder: &str, name: &str) -> Vec<String> {
    let file = root().join("tests/cases/proxy-template").join(folder).join(format!("{name}.yaml"));
    let output = Command::new(env!("CARGO_BIN_EXE_writ")).args(["validate", "-o", "json"]).arg(file).output();
    let output = output.expect("writ runs");
    let reports: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mut fields: Vec<String> = ["errors", "schema"]
        .iter()
        .flat_map(|level| reports[0][level].as_array().expect("a list"))
        .map(|finding| finding["field"].as_str().expect("a field").to_owned())
        .collect();
    assert_eq!(output.status.code(), Some(i32::from(!fields.is_empty())), "{name}: {reports}");
    fields.sort();
    fields
}

#[test]
fn a_refused_update_leaves_the_old_template() {
    let Some(cluster) = support::with_writ() else { return };
    let name = support::unique("update");
    let template = |operation: &str| {
        format!(
            "{{apiVersion: kuma.io/v1alpha1, kind: ProxyTemplate, mesh: default, metadata: {{name: {name}}}, spec: \
             {{selectors: [{{match: {{kuma.io/service: web}}}}], conf: {{modifications: [{{cluster: {{operation: \
             {operation}}}}}]}}}}}}"
        )
    };
    cluster.kubectl(["apply", "--server-side", "-f", "-"]).stdin(&template("remove")).ok();
    let refused = cluster.kubectl(["apply", "--server-side", "-f", "-"]).stdin(&template("addFirst")).run();
    assert!(!refused.success, "{refused:?}");
    let operation = "jsonpath={.spec.conf.modifications[0].cluster.operation}";
    let stored = cluster.kubectl(["get", "proxytemplate", &name, "-o", operation]).ok();
    assert_eq!(stored, "remove");
    cluster.kubectl(["delete", "proxytemplate", &name]).ok();
}

struct Case {
    name: String,
    text: String,
}

struct Expected {
    field: String,
}

impl Case {
    fn is_kubernetes(&self) -> bool {
        self.text.contains("\napiVersion:")
    }
}

fn cases(folder: &str) -> Vec<Case> {
    let folder = root().join("tests/cases/proxy-template").join(folder);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("the case folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let read = |file: PathBuf| Case {
        name: file.file_stem().expect("a name").to_string_lossy().into_owned(),
        text: fs::read_to_string(&file).expect("readable"),
    };
    files.into_iter().map(read).collect()
}

/// The lines `# error: FIELD CLASS` (or `# warning: …`) at the top of a case.
fn expected(text: &str, level: &str) -> Vec<Expected> {
    let prefix = format!("# {level}: ");
    let fields = text.lines().filter_map(|line| line.strip_prefix(&prefix)?.rsplit_once(' '));
    fields.map(|(field, _)| Expected { field: field.to_owned() }).collect()
}
