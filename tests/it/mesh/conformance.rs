//! Cases that others wrote, if the folder is at hand: `WRIT_CONFORMANCE` names it. Without it there is nothing to do.
//!
//! Texts are ours; what must agree is which document is refused, at which fields, for which class of reason.

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};
use writ::compile;

/// A field and the class of what is wrong there.
type Finding = (String, String);

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("WRIT_CONFORMANCE").map(|root| PathBuf::from(root).join("kuma/cases"));
    if folder.is_none() {
        // Past the capture of the tests, in one piece: nobody shall take a case for passed that was not there.
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let _ = std::io::stderr().write_all(format!("SKIPPED {test}: WRIT_CONFORMANCE names no folder\n").as_bytes());
    }
    folder
}

pub(super) fn cases(file: &str) -> Option<Vec<Value>> {
    let text = std::fs::read_to_string(folder()?.join(file)).expect(file);
    Some(serde_json::from_str(&text).expect("cases are a JSON list"))
}

#[test]
fn policies_are_refused_for_the_same_reasons() {
    let Some(folder) = folder() else { return };
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let (mut passed, mut failed) = (0, Vec::new());
    for file in files {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let ours = name.starts_with("validate.") && !name.contains("TargetRef") && !name.contains("JsonPatch");
        if !ours {
            continue;
        }
        let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&file).expect("a file")).expect("JSON");
        for case in cases {
            match policy_case(&case) {
                Ok(()) => passed += 1,
                Err(why) => failed.push(format!("{name} #{} {}: {why}", case["case"], case["name"])),
            }
        }
    }
    println!("{passed} passed, {} failed", failed.len());
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

fn policy_case(case: &Value) -> Result<(), String> {
    let kind = case["kind"].as_str().unwrap_or_default();
    let mut spec = case["input"].clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|key, _| !["type", "mesh", "name"].contains(&key.as_str()));
    }
    let have = findings(kind, spec.clone());
    let mut want: Vec<Finding> = Vec::new();
    for violation in case["violations"].as_array().into_iter().flatten() {
        let root = if kind == "ProxyTemplate" { "spec." } else { "" };
        let field = format!("{root}{}", violation["field"].as_str().unwrap_or_default());
        want.push((real(kind, &spec, &field), violation["class"].as_str().unwrap_or_default().to_owned()));
    }
    want.sort();
    if want == have { Ok(()) } else { Err(format!("\n  want {want:?}\n  have {have:?}")) }
}

/// A path that the cases spell oddly, as it really is.
fn real(kind: &str, spec: &Value, field: &str) -> String {
    let steps = |from: &str, to: &str| field.replace(from, to);
    match kind {
        "MeshRetry" => steps(".default.conf", ".default"),
        "MeshCircuitBreaker" if spec["from"].as_array().is_none_or(Vec::is_empty) => steps("spec.from[", "spec.rules["),
        "MeshFaultInjection" => {
            for fault in ["abort", "delay", "responseBandwidth"] {
                if let Some((before, after)) = field.split_once(&format!(".http.{fault}[")) {
                    let (index, rest) = after.split_once(']').expect("a closed index");
                    return format!("{before}.http[{index}].{fault}{rest}");
                }
            }
            field.to_owned()
        }
        "MeshMetric" => {
            let field = field.replace(".applications.application[", ".applications[");
            if field.contains(".applications[") && field.ends_with(']') {
                return format!("{field}.port");
            }
            let field = field.replace(".backends.backend[", ".backends[");
            field.replace("].port", if field.contains(".backends[") { "].prometheus.port" } else { "].port" })
        }
        "MeshTrafficPermission" => match field.split_once("].") {
            Some((rule, rest)) if rule.starts_with("spec.rules[") => format!("{rule}].default.{rest}"),
            _ => field.to_owned(),
        },
        _ => field.to_owned(),
    }
}

#[test]
fn references_are_refused_for_the_same_reasons() {
    let Some(cases) = cases("validate.TargetRef.json") else {
        return;
    };
    let mut failed = Vec::new();
    for case in cases {
        let (kind, place, spec) = reference_in_policy(&case);
        let have = findings(kind, spec);
        let labelled_subset = |finding: &Finding| {
            // Labels on a MeshSubset are taken here, with a warning.
            case["input"]["kind"] == "MeshSubset" && finding.0.ends_with(".labels")
        };
        let violations = case["violations"].as_array().into_iter().flatten();
        let mut want: Vec<Finding> = violations
            .map(|violation| {
                let field = violation["field"].as_str().unwrap_or_default().replacen("targetRef", place, 1);
                (field, violation["class"].as_str().unwrap_or_default().to_owned())
            })
            .filter(|finding| !labelled_subset(finding))
            .collect();
        want.sort();
        if want != have {
            failed.push(format!("#{} {}:\n  want {want:?}\n  have {have:?}", case["case"], case["name"]));
        }
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

/// A policy with a place that takes the kinds of the case: its kind, the path of the reference, and its content.
fn reference_in_policy(case: &Value) -> (&'static str, &'static str, Value) {
    let reference = &case["input"];
    let options = &case["opts"]["opts"];
    let kinds = options["supportedKinds"].as_array().cloned().unwrap_or_default();
    let conf = json!({"http": {"requestTimeout": "1s"}});
    let mesh = json!({"kind": "Mesh"});
    let accepted = kinds.contains(&reference["kind"]);
    if !accepted && !reference["kind"].is_null() {
        return ("MeshTimeout", "spec.from[0].targetRef", json!({"from": [{"targetRef": reference, "default": conf}]}));
    }
    if reference["kind"] == "MeshExternalService" {
        return ("MeshTimeout", "spec.to[0].targetRef", json!({"to": [{"targetRef": reference, "default": conf}]}));
    }
    if options["gatewayListenerTagsAllowed"] != true {
        let backends = json!({"backends": []});
        if options["isInboundPolicy"] != true {
            return ("MeshTrace", "spec.targetRef", json!({"targetRef": reference, "default": backends}));
        }
        return ("MeshTimeout", "spec.targetRef", json!({"targetRef": reference, "rules": [{"default": conf}]}));
    }
    ("MeshTimeout", "spec.targetRef", json!({"targetRef": reference, "to": [{"targetRef": mesh, "default": conf}]}))
}

#[test]
fn json_patches_are_refused_for_the_same_reasons() {
    let Some(cases) = cases("validate.JsonPatch.json") else {
        return;
    };
    for case in cases {
        let patches = &case["patch_blocks"];
        let modification = json!({"cluster": {"operation": "Patch", "jsonPatches": patches}});
        let have = findings("MeshProxyPatch", json!({"default": {"appendModifications": [modification]}}));
        let cluster = "spec.default.appendModifications[0].cluster";
        let mut want: Vec<Finding> = Vec::new();
        for violation in case["violations"].as_array().into_iter().flatten() {
            let field = violation["field"].as_str().unwrap_or_default();
            let class = violation["class"].as_str().unwrap_or_default();
            want.push(match field {
                // In a modification, an empty list is as good as none.
                "jsonPatches" => (cluster.to_owned(), "XOR".to_owned()),
                _ => (format!("{cluster}.{field}"), class.to_owned()),
            });
        }
        want.sort();
        assert_eq!(want, have, "#{} {}", case["case"], case["name"]);
    }
}

fn findings(kind: &str, spec: Value) -> Vec<Finding> {
    let document = json!({
        "apiVersion": "kuma.io/v1alpha1",
        "kind": kind,
        "mesh": "default",
        "metadata": {"name": "case", "namespace": "kuma-system", "labels": {"kuma.io/mesh": "default"}},
        "spec": spec,
    });
    let findings = compile::check(&document).expect("a kind that is served");
    let mut errors: Vec<_> =
        findings.errors.iter().map(|problem| (problem.field.to_string(), problem.reason.as_str().to_owned())).collect();
    errors.sort();
    errors
}
