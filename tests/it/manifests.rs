//! The files of `manifests/` that follow from the code.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use writ::core::mesh::policy::PolicyKind;
use writ::core::yaml;

/// `manifests/crds` is what `api` says. `make golden` rewrites it; the difference is reviewed like code.
#[test]
fn definitions_are_those_of_the_code() {
    let folder = root().join("manifests/crds");
    let mut expected = Vec::new();
    for definition in writ::api::definitions() {
        let (plural, group) = (&definition.spec.names.plural, &definition.spec.group);
        let file = format!("{group}_{plural}.yaml");
        let text = serde_saphyr::to_string(&definition).expect("a definition can be written");
        check_golden(&folder.join(&file), &text);
        expected.push(file);
    }
    expected.sort();
    let mut present: Vec<String> = fs::read_dir(&folder)
        .expect("the folder of definitions")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name != "kustomization.yaml")
        .collect();
    present.sort();
    assert_eq!(present, expected, "one file for each definition");
}

/// Every kind of the mesh is completed and judged; only policies wait for Writ, and nothing waits to be deleted.
#[test]
fn every_kind_of_the_mesh_comes_through_the_webhooks() {
    let text = fs::read_to_string(root().join("manifests/base/webhooks.yaml")).expect("the webhooks");
    let configurations: Vec<Value> =
        yaml::read(&text).into_iter().map(|document| document.expect("good YAML").value).collect();
    let definitions = writ::api::definitions();
    let kinds: Vec<_> = definitions.iter().filter(|definition| definition.spec.group == "kuma.io").collect();
    assert!(kinds.len() >= 23, "{} kinds", kinds.len());
    for kind in kinds {
        let names = &kind.spec.names;
        let is_policy = names.kind == "ProxyTemplate" || PolicyKind::parse(&names.kind).is_some();
        let waits = if is_policy { "Fail" } else { "Ignore" };
        let mut expected = Vec::new();
        for operation in ["CREATE", "UPDATE"] {
            expected.push(format!("ValidatingWebhookConfiguration {operation} /validate {waits}"));
            expected.push(format!("MutatingWebhookConfiguration {operation} /default {waits}"));
        }
        expected.push("ValidatingWebhookConfiguration DELETE /validate Ignore".to_owned());
        expected.sort();
        assert_eq!(calls(&configurations, &names.plural), expected, "{}", names.kind);
    }
}

/// `CONFIGURATION OPERATION PATH FAILURE-POLICY` for every call that a resource of the mesh brings about, sorted.
fn calls(configurations: &[Value], plural: &str) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut calls = Vec::new();
    for configuration in configurations {
        for entry in list(&configuration["webhooks"]) {
            let (path, policy) = (text(&entry["clientConfig"]["service"]["path"]), text(&entry["failurePolicy"]));
            for rule in list(&entry["rules"]) {
                let covers = |field: &str, value: &str| list(&rule[field]).contains(&Value::from(value));
                if !covers("apiGroups", "kuma.io") || !covers("resources", plural) {
                    continue;
                }
                for operation in list(&rule["operations"]) {
                    calls.push(format!("{} {} {path} {policy}", text(&configuration["kind"]), text(&operation)));
                }
            }
        }
    }
    calls.sort();
    calls
}

fn check_golden(file: &Path, text: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(file, text).expect("a writable golden file");
    }
    let golden = fs::read_to_string(file).unwrap_or_default();
    assert_eq!(golden, text, "{} is stale: run `make golden` and review the difference", file.display());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
