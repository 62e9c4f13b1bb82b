//! The files of `manifests/` that follow from the code.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use writ::core::mesh::target_ref::TargetKind;
use writ::core::problem::FieldPath;
use writ::core::structural::Schema;
use writ::core::webhook_token::WebhookType;
use writ::core::yaml;
use writ::webhook::ENTRY_PATHS;

/// `manifests/crds` is what `api` says. `make golden` rewrites it; the difference is reviewed like code.
#[test]
fn definitions_are_those_of_the_code() {
    let folder = root().join("manifests/crds");
    let mut expected = Vec::new();
    for definition in writ::compile::definitions() {
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
    let installed = fs::read_to_string(folder.join("kustomization.yaml")).expect("the kustomization");
    let mut installed: Vec<_> = installed.lines().filter_map(|line| line.strip_prefix("  - ")).collect();
    installed.sort_unstable();
    assert_eq!(installed, expected, "every file is installed");
}

/// What an API server demands of a definition, as far as it can be told without one.
#[test]
fn schemas_are_structural() {
    for definition in writ::compile::definitions() {
        let kind = &definition.spec.names.kind;
        for version in &definition.spec.versions {
            let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let schema = serde_json::to_value(schema.expect("a schema")).expect("a schema is JSON");
            check_structure(kind, &schema);
        }
    }
}

/// The content of a policy is closed, and every field says what it is for.
#[test]
fn mesh_policies_are_closed_and_explained() {
    for (kind, schema) in mesh_schemas() {
        let spec = &schema["properties"]["spec"];
        if schema["properties"].get("mesh").is_none() {
            assert!(spec.get("x-kubernetes-preserve-unknown-fields").is_none(), "{kind}");
        }
        check_descriptions(&format!("{kind}.spec"), spec);
    }
}

/// The mesh kinds and their schemas.
fn mesh_schemas() -> impl Iterator<Item = (String, Value)> {
    writ::compile::mesh::definitions().into_iter().map(|definition| {
        let schema = definition.spec.versions[0].schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        (definition.spec.names.kind, serde_json::to_value(schema).expect("a schema is JSON"))
    })
}

#[test]
fn references_name_the_kinds_that_there_are() {
    let (_, schema) = mesh_schemas().find(|(kind, _)| kind == "MeshTimeout").expect("it is there");
    let kinds = schema["properties"]["spec"]["properties"]["targetRef"]["properties"]["kind"]["enum"].clone();
    let mut kinds: Vec<String> = serde_json::from_value(kinds).expect("names");
    kinds.sort();
    let mut known = TargetKind::ALL.map(|kind| kind.name().to_owned());
    known.sort();
    assert_eq!(kinds, known);
}

fn check_structure(path: &str, schema: &Value) {
    let fields = schema.as_object().unwrap_or_else(|| panic!("{path}: a schema is an object"));
    let flag = |keyword: &str| fields.get(keyword) == Some(&Value::Bool(true));
    let typed = fields.contains_key("type");
    assert!(
        typed != flag("x-kubernetes-int-or-string") || flag("x-kubernetes-preserve-unknown-fields"),
        "{path}: a type"
    );
    let properties = fields.get("properties").and_then(Value::as_object);
    assert!(properties.is_none() || !fields.contains_key("additionalProperties"), "{path}: either fields or a map");
    if schema["type"] == "array" {
        assert!(schema["items"].is_object(), "{path}: what the items are");
    }
    let none = Map::new();
    let properties = properties.unwrap_or(&none);
    for name in texts(schema, "required") {
        assert!(properties.contains_key(name), "{path}: {name} is required and not described");
    }
    check_list_keys(path, schema);
    for alternative in schema["anyOf"].as_array().into_iter().flatten() {
        check_alternative(&format!("{path}, anyOf"), alternative, schema);
    }
    if let Some(default) = fields.get("default") {
        let found = Schema::read(schema).expect("a readable schema").check(default, &FieldPath::root());
        assert_eq!(found, Default::default(), "{path}: the default fits its schema");
    }
    for (name, property) in properties {
        check_structure(&format!("{path}.{name}"), property);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(below) = fields.get(keyword) {
            check_structure(&format!("{path}, {keyword}"), below);
        }
    }
}

/// Keys tell entries apart, so every entry must have them.
fn check_list_keys(path: &str, schema: &Value) {
    let items = &schema["items"];
    for key in texts(schema, "x-kubernetes-list-map-keys") {
        let required = texts(items, "required").any(|name| name == key);
        assert!(required || items["properties"][key].get("default").is_some(), "{path}: entries without {key}");
        assert!(matches!(items["properties"][key]["type"].as_str(), Some("string" | "integer")), "{path}: {key}");
    }
}

/// Alternatives only demand: what there is, the schema around them says.
fn check_alternative(path: &str, alternative: &Value, structure: &Value) {
    for keyword in alternative.as_object().expect("a schema").keys() {
        assert!(matches!(keyword.as_str(), "required" | "properties"), "{path}: {keyword} belongs outside");
    }
    for name in texts(alternative, "required") {
        assert!(structure["properties"].get(name).is_some(), "{path}: {name} is not described");
    }
    for (name, below) in alternative["properties"].as_object().into_iter().flatten() {
        check_alternative(&format!("{path}.{name}"), below, &structure["properties"][name]);
    }
}

fn check_descriptions(path: &str, schema: &Value) {
    assert!(schema["description"].as_str().is_some_and(|text| text.len() > 3), "{path}: no description");
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check_descriptions(&format!("{path}.{name}"), property);
    }
    for (name, property) in schema["items"]["properties"].as_object().into_iter().flatten() {
        check_descriptions(&format!("{path}[].{name}"), property);
    }
}

fn texts<'v>(schema: &'v Value, keyword: &str) -> impl Iterator<Item = &'v str> {
    schema[keyword].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Every kind of the mesh is completed and judged; only policies wait for Writ, and nothing waits to be deleted.
#[test]
fn every_kind_of_the_mesh_comes_through_the_webhooks() {
    let text = fs::read_to_string(root().join("manifests/base/webhooks.yaml")).expect("the webhooks");
    let configurations: Vec<Value> =
        yaml::read(&text).into_iter().map(|document| document.expect("good YAML").value).collect();
    let definitions = writ::compile::definitions();
    let kinds: Vec<_> = definitions.iter().filter(|definition| definition.spec.group == "kuma.io").collect();
    assert!(kinds.len() >= 23, "{} kinds", kinds.len());
    for kind in kinds {
        let names = &kind.spec.names;
        let is_policy = names.kind == "ProxyTemplate" || writ::compile::mesh::kinds().policy(&names.kind).is_some();
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

/// Policies of every namespace are marked and checked before they are stored: those of `kube-system` and of the install too.
#[test]
fn no_policy_is_stored_without_a_review() {
    for (file, entries) in [("base", 4), ("overlays/kyverno", 1)] {
        let text = fs::read_to_string(root().join(format!("manifests/{file}/webhooks.yaml"))).expect("the webhooks");
        let documents = yaml::read(&text).into_iter().map(|document| document.expect("good YAML").value);
        let mut found = 0;
        for configuration in documents {
            let kind = configuration["kind"].as_str().expect("a kind").to_owned();
            for entry in configuration["webhooks"].as_array().into_iter().flatten() {
                let rules = entry["rules"].as_array().expect("rules");
                let waits = |rule: &&Value| texts(rule, "operations").any(|operation| operation == "CREATE");
                let resources: Vec<&str> =
                    rules.iter().filter(waits).flat_map(|rule| texts(rule, "resources")).collect();
                if !resources.iter().any(|name| ["clusterpolicies", "meshtimeouts"].contains(name)) {
                    continue;
                }
                found += 1;
                assert_eq!(entry["failurePolicy"], "Fail", "{kind} {}", entry["name"]);
                assert_eq!(entry.get("namespaceSelector"), None, "{kind} {}", entry["name"]);
                if resources.contains(&"clusterpolicies") {
                    assert!(resources.contains(&"policyexceptions") && resources.contains(&"globalcontextentries"));
                }
                if kind == "MutatingWebhookConfiguration" {
                    assert_eq!(entry["reinvocationPolicy"], "IfNeeded", "{}", entry["name"]);
                }
            }
        }
        assert_eq!(found, entries, "{file}");
    }
}

/// `CONFIGURATION OPERATION PATH FAILURE-POLICY` for every call that a resource of the mesh brings about, sorted.
fn calls(configurations: &[Value], plural: &str) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut calls = Vec::new();
    for configuration in configurations {
        for entry in list(&configuration["webhooks"]) {
            let (path, policy) = (path_of(configuration, &entry), text(&entry["failurePolicy"]));
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

/// The path that Writ writes into an entry.
fn path_of(configuration: &Value, entry: &Value) -> &'static str {
    let kind = match configuration["kind"].as_str() {
        Some("MutatingWebhookConfiguration") => WebhookType::Mutating,
        _ => WebhookType::Validating,
    };
    let listed = ENTRY_PATHS.iter().find(|(listed, name, _)| *listed == kind && entry["name"] == *name);
    listed.unwrap_or_else(|| panic!("Writ knows no path for {}", entry["name"])).2
}

/// Everything that `kubectl apply -k` of the folder would apply, without what overlays change.
fn shipped(folder: &str) -> Vec<Value> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| {
        !file.ends_with("kustomization.yaml") && file.extension().is_some_and(|ending| ending == "yaml")
    });
    files.sort();
    let read = |file: &PathBuf| yaml::read(&fs::read_to_string(file).expect("a readable file"));
    files.iter().flat_map(read).map(|document| document.expect("good YAML").value).collect()
}

/// An apply must leave what Writ has written: tokens in paths, CAs, certificates, keys, checkpoints.
#[test]
fn what_writ_fills_in_is_not_named_by_the_manifests() {
    let objects = [shipped("manifests/base"), shipped("manifests/overlays/kyverno")].concat();
    let mut state = Vec::new();
    for object in &objects {
        let (kind, name) =
            (object["kind"].as_str().expect("a kind"), object["metadata"]["name"].as_str().expect("a name"));
        for entry in object["webhooks"].as_array().into_iter().flatten() {
            path_of(object, entry);
            assert!(entry["clientConfig"]["service"].get("path").is_none(), "{name}: {}", entry["name"]);
            assert!(entry["clientConfig"].get("caBundle").is_none(), "{name}: {}", entry["name"]);
        }
        if matches!(kind, "Secret" | "ConfigMap" | "Lease") {
            let content = ["data", "stringData", "spec", "type"].into_iter().find(|field| object.get(field).is_some());
            assert_eq!(content, None, "{kind} {name}");
            state.push(format!("{kind} {name}"));
        }
    }
    let expected = [
        "Secret writ-certificates",
        "Secret writ-keys",
        "ConfigMap writ-progress",
        "ConfigMap writ",
        "Lease writ",
        "ConfigMap kyverno",
    ];
    assert_eq!(state, expected);
    for name in ["writ-resources", "kyverno-resource-validating-webhook-cfg"] {
        let shipped = objects.iter().find(|object| object["metadata"]["name"] == name).expect("it is shipped");
        assert!(shipped.get("webhooks").is_none(), "{name} has entries");
    }
}

/// No permission goes beyond what is needed: nothing is made that the manifests could ship, and Secrets go by name.
#[test]
fn permissions_are_granted_by_name() {
    for object in shipped("manifests/base") {
        for rule in object["rules"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|_| object["kind"].as_str() != Some("ValidatingWebhookConfiguration"))
        {
            if rule.get("verbs").is_none() {
                continue;
            }
            let (resources, verbs): (Vec<_>, Vec<_>) =
                (texts(rule, "resources").collect(), texts(rule, "verbs").collect());
            for field in ["apiGroups", "resources", "verbs"] {
                assert!(texts(rule, field).all(|text| text != "*"), "{rule}");
            }
            let own =
                ["secrets", "configmaps", "leases", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"];
            if resources.iter().any(|resource| own.contains(resource)) {
                assert!(rule.get("resourceNames").is_some() && !verbs.contains(&"create"), "{rule}");
            }
        }
    }
    for object in shipped("manifests/overlays/kyverno") {
        for rule in object["rules"].as_array().into_iter().flatten() {
            assert!(texts(rule, "apiGroups").all(|group| group != "*"), "{rule}");
        }
    }
}

/// Probes come from the kubelet; everybody else needs the label.
#[test]
fn the_admin_port_is_open_to_monitoring_only() {
    let objects = shipped("manifests/base");
    let policy = objects.iter().find(|object| object["kind"] == "NetworkPolicy").expect("a policy");
    for rule in policy["spec"]["ingress"].as_array().expect("rules") {
        let admin = rule["ports"].as_array().expect("ports").iter().any(|port| port["port"] == "admin");
        let from = rule.pointer("/from/0/namespaceSelector/matchLabels/writ.dev~1monitoring");
        assert_eq!(admin, from.is_some_and(|label| label == "true"), "{rule}");
    }
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").expect("a deployment");
    assert_eq!(
        deployment.pointer("/spec/template/spec/priorityClassName"),
        Some(&Value::from("system-cluster-critical"))
    );
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
