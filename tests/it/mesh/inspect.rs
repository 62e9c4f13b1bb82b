//! Bodies of the Inspect API: cases are folders with a mesh and what is expected of requests.
//!
//! `rules` is the body of `_rules` in short: destinations by kind, name and section, origins as `policy#index`. What a type
//! does not mention is not compared, except that warnings and further types are never expected.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use writ::core::yaml;

use crate::support::command::writ;

#[test]
fn answers_are_as_the_cases_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/inspect");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    for case in cases {
        let expected = yaml::read_value(&std::fs::read_to_string(case.join("expected.yaml")).unwrap()).unwrap();
        for request in expected.as_array().expect("a list of requests") {
            check(&case, request);
        }
    }
}

fn check(case: &Path, request: &Value) {
    let path = request["get"].as_str().expect("a path");
    let place = format!("{} {path}", case.file_name().unwrap().display());
    let status = request.get("status").and_then(Value::as_u64).unwrap_or(200);
    let file = case.join("mesh.yaml");
    let ran = writ(&["inspect", "get", path, "-f", file.to_str().unwrap()]).expect(u8::from(status >= 400));
    assert_eq!(ran.talk, "", "{place}");
    let body = ran.out;
    let body: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{place}: {error}: {body}"));
    if status >= 400 {
        assert_eq!(body["status"], status, "{place}");
    }
    if let Some(expected) = request.get("body") {
        assert_eq!(body, *expected, "{place}");
    }
    if let Some(expected) = request.get("rules") {
        compare(&in_short(&body), expected, &place);
    }
}

fn compare(found: &Map<String, Value>, expected: &Value, place: &str) {
    let expected = expected.as_object().expect("types of policies");
    let types = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
    assert_eq!(types(found), types(expected), "{place}");
    for (kind, parts) in expected {
        for (part, expected) in parts.as_object().expect("parts of a type") {
            assert_eq!(found[kind][part], *expected, "{place}: {kind} {part}");
        }
        if parts.get("warnings").is_none() {
            assert_eq!(found[kind]["warnings"], json!([]), "{place}: {kind}");
        }
    }
}

/// `_rules` in the words of the cases.
fn in_short(body: &Value) -> Map<String, Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = |meta: &Value| text(&meta["name"]);
    let entry = |origin: &Value| format!("{}#{}", name(&origin["resourceMeta"]), origin["ruleIndex"]);
    let mut types = Map::new();
    for rule in list(&body["rules"]) {
        let mut to = Map::new();
        for rule in list(&rule["toResourceRules"]) {
            let (meta, section) = (&rule["resourceMeta"], text(&rule["resourceSectionName"]));
            let key = format!("{} {} {section}", text(&meta["type"]), name(meta));
            let confs = list(&rule["conf"]);
            let conf = if confs.len() == 1 { confs[0].clone() } else { confs.into() };
            let origin: Vec<_> = list(&rule["origin"]).iter().map(entry).collect();
            let held = to.insert(key.trim_end().to_owned(), json!({"conf": conf, "origin": origin}));
            assert!(held.is_none(), "{key} is listed twice");
        }
        let subset = |rule: &Value| {
            let matcher = |matcher: &Value| {
                let not = if matcher["not"] == true { "!" } else { "" };
                format!("{not}{}={}", text(&matcher["key"]), text(&matcher["value"]))
            };
            let matchers: Vec<_> = list(&rule["matchers"]).iter().map(matcher).collect();
            let origin: Vec<_> = list(&rule["origin"]).iter().map(name).collect();
            json!({"matchers": matchers, "conf": rule["conf"], "origin": origin})
        };
        let tags: Vec<Value> = list(&rule["toRules"]).iter().map(subset).collect();
        let mut from = Map::new();
        for inbound in list(&rule["fromRules"]) {
            let rules: Vec<Value> = list(&inbound["rules"]).iter().map(subset).collect();
            from.insert(inbound["inbound"]["port"].to_string(), rules.into());
        }
        let proxy = &rule["proxyRule"];
        let origin: Vec<_> = list(&proxy["origin"]).iter().map(name).collect();
        let parts = json!({
            "to": to, "tags": tags, "from": from, "warnings": rule["warnings"], "proxy": {"conf": proxy["conf"], "origin": origin},
        });
        types.insert(text(&rule["type"]), parts);
    }
    types
}

#[test]
fn what_cannot_be_read_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mesh.yaml");
    let get = |text: &str, code: u8| {
        std::fs::write(&file, text).unwrap();
        writ(&["inspect", "get", "/meshes/default/dataplanes/x/_rules", "-f", file.to_str().unwrap()]).expect(code)
    };
    let ran = get("type: Mesh\nname: default\n---\ntype: [\n", 2);
    assert!(ran.talk.contains("line 5") || ran.talk.contains("line 4"), "{}", ran.talk);
    // A role that admission cannot compute: services of two namespaces in one policy.
    let mixed = "apiVersion: kuma.io/v1alpha1\nkind: MeshTimeout\nmetadata: {name: mixed, namespace: shop}\nspec:\n  \
        to:\n  - {targetRef: {kind: MeshService, name: a}}\n  - {targetRef: {kind: Mesh}}\n";
    let ran = get(mixed, 1);
    assert!(ran.talk.contains("skipped: MeshTimeout mixed: "), "{}", ran.talk);
    let unknown = writ(&["inspect", "get", "/nothing", "-f", file.to_str().unwrap()]).expect(1);
    assert_eq!(unknown.out, "404: Page Not Found");
}
