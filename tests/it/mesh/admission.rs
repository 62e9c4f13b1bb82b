//! What a control plane answers when objects of the mesh are applied.

use serde_json::{Value, json};
use writ::compile::mesh::admission::{ControlPlane, Mode, Operation, Refusal, RefusalKind, Request, defaults, review};

use super::conformance::cases;

const OPERATOR: &str = "system:serviceaccount:kuma-system:kuma-control-plane";

fn plane(mode: Mode) -> ControlPlane {
    ControlPlane { mode, system_namespace: "kuma-system".to_owned(), privileged: vec![OPERATOR.to_owned()] }
}

fn zone(federated: bool) -> ControlPlane {
    plane(Mode::Zone { name: "zone-1".to_owned(), federated })
}

fn create<'r>(object: &'r Value, namespace: &'r str) -> Request<'r> {
    Request { operation: Operation::Create, user: "somebody", namespace, object }
}

fn timeout(labels: Value, spec: Value) -> Value {
    json!({
        "apiVersion": "kuma.io/v1alpha1", "kind": "MeshTimeout",
        "metadata": {"name": "short", "namespace": "shop", "labels": labels}, "spec": spec,
    })
}

fn to_mesh() -> Value {
    json!({"to": [{"targetRef": {"kind": "Mesh"}, "default": {"idleTimeout": "1h"}}]})
}

/// The object as it is stored.
fn completed(object: &Value, namespace: &str, plane: &ControlPlane) -> Result<Value, Refusal> {
    let mut stored = object.clone();
    let operations = defaults(&create(object, namespace), plane)?;
    json_patch::patch(&mut stored, &operations).expect("the operations fit the object");
    Ok(stored)
}

#[test]
fn a_policy_of_a_zone_learns_where_it_is_and_whose() {
    let object = timeout(json!({"kuma.io/policy-role": "system", "team": "a"}), to_mesh());
    let stored = completed(&object, "shop", &zone(true)).expect("nothing is wrong");
    assert_eq!(
        stored["metadata"]["labels"],
        json!({
            "team": "a", "kuma.io/mesh": "default", "kuma.io/origin": "zone", "kuma.io/zone": "zone-1",
            "kuma.io/env": "kubernetes", "k8s.kuma.io/namespace": "shop", "kuma.io/policy-role": "consumer",
        })
    );
    assert_eq!(stored["metadata"]["annotations"], json!({"kuma.io/display-name": "short"}));
    let again = defaults(&create(&stored, "shop"), &zone(true)).expect("nothing is wrong");
    assert_eq!(again, [], "what is complete stays as it is");
}

#[test]
fn what_came_from_elsewhere_keeps_its_labels() {
    let object = timeout(json!({"kuma.io/origin": "global", "kuma.io/policy-role": "system"}), to_mesh());
    let stored = completed(&object, "shop", &zone(false)).expect("nothing is wrong");
    let expected = json!({"kuma.io/mesh": "default", "kuma.io/origin": "global", "kuma.io/policy-role": "system"});
    assert_eq!(stored["metadata"]["labels"], expected);
}

#[test]
fn a_role_that_cannot_be_told_is_a_refusal() {
    let spec = json!({"to": [
        {"targetRef": {"kind": "Mesh"}, "default": {"idleTimeout": "1h"}},
        {"targetRef": {"kind": "MeshService", "name": "backend"}, "default": {"idleTimeout": "1h"}},
    ]});
    let object = timeout(json!({}), spec);
    let refused = |plane: &ControlPlane| completed(&object, "shop", plane).expect_err("mixed roles").kind;
    assert_eq!(refused(&zone(true)), RefusalKind::Forbidden);
    assert_eq!(refused(&zone(false)), RefusalKind::Internal);
}

#[test]
fn every_object_has_one_home() {
    let policy = timeout(json!({}), to_mesh());
    let template = json!({"apiVersion": "kuma.io/v1alpha1", "kind": "ProxyTemplate", "mesh": "default",
        "metadata": {"name": "x"}, "spec": {"conf": {"imports": ["default-proxy"]}}});
    let external = json!({"apiVersion": "kuma.io/v1alpha1", "kind": "MeshExternalService", "metadata": {"name": "x"}});
    let global = plane(Mode::Global);
    for (object, namespace, plane, expected) in [
        (&policy, "shop", &global, Err((RefusalKind::ForbiddenNamespace, false))),
        (&policy, "kuma-system", &global, Ok(())),
        (&policy, "shop", &zone(true), Ok(())),
        (&policy, "kuma-system", &zone(true), Err((RefusalKind::Forbidden, true))),
        (&policy, "kuma-system", &zone(false), Ok(())),
        (&template, "", &global, Ok(())),
        (&template, "", &zone(true), Err((RefusalKind::Forbidden, false))),
        (&template, "", &zone(false), Ok(())),
        (&external, "shop", &zone(false), Err((RefusalKind::ForbiddenNamespace, false))),
    ] {
        let answer = review(&create(object, namespace), plane);
        let answer = answer.map(drop).map_err(|refusal| (refusal.kind, !refusal.causes.is_empty()));
        assert_eq!(answer, expected, "{} in `{namespace}` of {:?}", object["kind"], plane.mode);
    }
    let privileged = Request { user: OPERATOR, ..create(&template, "") };
    assert!(review(&privileged, &zone(true)).is_ok());
}

#[test]
fn faults_are_told_one_kind_at_a_time() {
    let plane = zone(false);
    let refusal = |object: &Value| review(&create(object, "shop"), &plane).expect_err("a fault");
    let fields = |refusal: &Refusal| refusal.causes.iter().map(|cause| cause.field.clone()).collect::<Vec<_>>();

    let all = timeout(json!({"kuma.io/mesh": "A B", "kuma.io/origin": "moon"}), json!({}));
    assert_eq!(fields(&refusal(&all)), ["mesh"]);
    let origin = timeout(json!({"kuma.io/origin": "moon"}), json!({}));
    assert_eq!(fields(&refusal(&origin)), ["labels[\"kuma.io/origin\"]"]);
    let content = refusal(&timeout(json!({}), json!({})));
    assert_eq!((content.code(), content.reason(), fields(&content)), (422, "Invalid", vec!["spec".to_owned()]));
    assert_eq!(content.subject, Some(("short".to_owned(), "MeshTimeout".to_owned())));

    let gone = Request { operation: Operation::Delete, ..create(&all, "shop") };
    assert_eq!(review(&gone, &plane), Ok(Vec::new()), "whatever is wrong with it may be deleted");
    assert_eq!(review(&create(&json!({"apiVersion": "v1", "kind": "Pod"}), "shop"), &plane), Ok(Vec::new()));
}

#[test]
fn answers_agree_with_the_cases_of_others() {
    let Some(cases) = cases("admission.validating.json") else {
        return;
    };
    let planes = [("global", plane(Mode::Global)), ("federated", zone(true)), ("non-federated", zone(false))];
    for case in cases {
        let object = case["objects"].as_array().and_then(|objects| objects.last()).expect("an object");
        let kind = object["kind"].as_str().unwrap_or_default();
        // The content of these kinds is not checked, so nothing is said of it.
        let content_checked = !matches!(kind, "TrafficRoute" | "MeshTrust") && !kind.ends_with("Service");
        let request = Request {
            operation: match case["request"]["operation"].as_str() {
                Some("CREATE") => Operation::Create,
                Some("UPDATE") => Operation::Update,
                _ => Operation::Delete,
            },
            user: case["request"]["user"].as_str().unwrap_or_default(),
            namespace: case["request"]["namespace"].as_str().unwrap_or_default(),
            object,
        };
        for (mode, plane) in &planes {
            let want = &case["expected"][mode];
            let (status, label) = (&want["status"], format!("{} on {mode}", case["name"]));
            let causes = |list: &Value| -> Vec<String> {
                let list = list.as_array().into_iter().flatten();
                list.map(|cause| cause["field"].as_str().unwrap_or_default().to_owned()).collect()
            };
            match review(&request, plane) {
                Ok(warnings) => {
                    let unchecked = !content_checked
                        && status["reason"] == "Invalid"
                        && status["message"] != "mesh: cannot be empty";
                    assert!(want["allowed"] == true || unchecked, "{label}: allowed, but {status}");
                    if content_checked {
                        let ours = warnings.iter().filter(|warning| is_of_reference(warning)).count();
                        assert_eq!(ours, want["warnings"].as_array().map_or(0, Vec::len), "{label}: {warnings:?}");
                    }
                }
                Err(refusal) => {
                    assert_eq!(want["allowed"], false, "{label}: {refusal:?}");
                    assert_eq!(status["code"], refusal.code(), "{label}: {refusal:?}");
                    assert_eq!(status["reason"], refusal.reason(), "{label}");
                    assert_eq!(status["status"] == "Failure", refusal.is_marked_as_failure(), "{label}");
                    let ours: Vec<_> = refusal.causes.iter().map(|cause| cause.field.clone()).collect();
                    assert_eq!(ours, causes(&status["details"]["causes"]), "{label}");
                    let subject = refusal.subject.map(|(name, kind)| json!([name, kind]));
                    let details = &status["details"];
                    assert_eq!(
                        subject.is_some(),
                        details["name"].is_string() && details["kind"].is_string(),
                        "{label}"
                    );
                }
            }
        }
    }
}

/// Whether the reference warns of it too; it does not warn of fields that only the next version refuses.
fn is_of_reference(warning: &writ::core::problem::Problem) -> bool {
    let field = warning.field.to_string();
    warning.reason.as_str() != "REMOVED" || field.ends_with("targetRef.kind") || field.ends_with(".from")
}

#[test]
fn stored_objects_agree_with_the_cases_of_others() {
    let Some(cases) = cases("admission.defaulting.json") else {
        return;
    };
    for case in cases {
        let plane = match case["checker"]["fn"].as_str() {
            Some("globalChecker") => plane(Mode::Global),
            _ => zone(case["checker"]["args"][0] == true),
        };
        let stored = completed(&case["input"], "", &plane).expect("nothing is wrong");
        for map in ["labels", "annotations"] {
            assert_eq!(stored["metadata"][map], case["expected"]["metadata"][map], "{} {map}", case["name"]);
        }
    }
}
