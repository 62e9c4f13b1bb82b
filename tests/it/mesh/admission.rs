//! What a control plane answers when objects of the mesh are applied: the decision, and further down the whole answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use writ::compile;
use writ::compile::mesh::admission::{
    ControlPlane, Mode, Operation, Refusal, RefusalKind, Request, defaults, rehearse, review,
};
use writ::core::integrity::MacKey;
use writ::core::json::Document;
use writ::core::mesh::reach::Routes;
use writ::core::reviewed::{REVIEWED, code, is_reviewed};
use writ::core::yaml;
use writ::webhook::{self, MeshView, ReviewKey};

use super::conformance::cases;
use super::documents::documents;

const OPERATOR: &str = "system:serviceaccount:kuma-system:kuma-control-plane";

fn plane(mode: Mode) -> ControlPlane {
    ControlPlane::new(mode, "kuma-system".to_owned(), Vec::new())
}

fn zone(federated: bool) -> ControlPlane {
    plane(Mode::Zone { name: "zone-1".to_owned(), federated })
}

/// What is asked when somebody creates an object.
fn create<'r>(object: &'r Document<'_>, namespace: &'r str) -> Request<'r> {
    Request { operation: Operation::Create, user: "somebody", namespace, object: object.root() }
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
    let operations = defaults(&create(&Document::from(object), namespace), plane)?;
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
    let again = defaults(&create(&Document::from(&stored), "shop"), &zone(true)).expect("nothing is wrong");
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
        let answer = review(&create(&Document::from(object), namespace), plane);
        let answer = answer.map(drop).map_err(|refusal| (refusal.kind, !refusal.problems.is_empty()));
        assert_eq!(answer, expected, "{} in `{namespace}` of {:?}", object["kind"], plane.mode);
    }
    let template = Document::from(&template);
    let privileged = Request { user: OPERATOR, ..create(&template, "") };
    assert!(review(&privileged, &zone(true)).is_ok());
}

#[test]
fn faults_are_told_one_kind_at_a_time() {
    let plane = zone(false);
    let refusal = |object: &Value| review(&create(&Document::from(object), "shop"), &plane).expect_err("a fault");
    let fields =
        |refusal: &Refusal| refusal.problems.iter().map(|problem| problem.field.to_string()).collect::<Vec<_>>();

    let all = timeout(json!({"kuma.io/mesh": "A B", "kuma.io/origin": "moon"}), json!({}));
    assert_eq!(fields(&refusal(&all)), ["mesh"]);
    let origin = timeout(json!({"kuma.io/origin": "moon"}), json!({}));
    assert_eq!(fields(&refusal(&origin)), ["labels[\"kuma.io/origin\"]"]);
    let content = refusal(&timeout(json!({}), json!({})));
    assert_eq!((content.kind, fields(&content)), (RefusalKind::Invalid, vec!["spec".to_owned()]));

    let all = Document::from(&all);
    let gone = Request { operation: Operation::Delete, ..create(&all, "shop") };
    assert_eq!(review(&gone, &plane), Ok(Vec::new()), "whatever is wrong with it may be deleted");
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    assert_eq!(review(&create(&Document::from(&pod), "shop"), &plane), Ok(Vec::new()));
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

/// The response of the webhook to a whole review.
fn ask(path: &str, request: &Value, plane: &ControlPlane) -> Value {
    ask_knowing(&Routes::default(), path, request, plane)
}

fn ask_knowing(routes: &Routes, path: &str, request: &Value, plane: &ControlPlane) -> Value {
    ask_with(ReviewKey::Offline, routes, path, request, plane)
}

fn ask_with(key: ReviewKey<'_>, routes: &Routes, path: &str, request: &Value, plane: &ControlPlane) -> Value {
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let call = hyper::Request::post(path).header("content-type", "application/json");
    let view = MeshView { plane, routes, key };
    let answer = webhook::handle(&call.body(Bytes::from(body.to_string())).expect("a request"), view);
    let mut review: Value = serde_json::from_slice(answer.response.body()).expect("JSON");
    assert_eq!((answer.response.status().as_u16(), &review["response"]["uid"]), (200, &json!("u")));
    review["response"].take()
}

fn wire(operation: &str, user: &str, namespace: &str, object: &Value) -> Value {
    let kind = object["kind"].as_str().unwrap_or_default();
    json!({
        "uid": "u", "operation": operation, "name": object["metadata"]["name"], "namespace": namespace,
        "kind": {"group": "kuma.io", "version": "v1alpha1", "kind": kind}, "userInfo": {"username": user},
        "object": if operation == "DELETE" { &Value::Null } else { object },
        "oldObject": if operation == "DELETE" { object } else { &Value::Null },
    })
}

/// An object as an API server stores it: completed, then judged.
fn applied(object: &Value, namespace: &str, plane: &ControlPlane) -> Result<(Value, Vec<String>), Value> {
    let response = ask("/default", &wire("CREATE", "somebody", namespace, object), plane);
    if response["allowed"] == false {
        return Err(response["status"].clone());
    }
    let mut stored = object.clone();
    if let Some(patch) = response["patch"].as_str() {
        assert_eq!(response["patchType"], "JSONPatch");
        let patch = STANDARD.decode(patch).expect("base64");
        json_patch::patch(&mut stored, &serde_json::from_slice::<json_patch::Patch>(&patch).expect("a patch"))
            .expect("it fits the object");
    }
    let response = ask("/validate", &wire("CREATE", "somebody", namespace, &stored), plane);
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.map(|warning| warning.as_str().expect("text").to_owned()).collect();
    if response["allowed"] == true { Ok((stored, warnings)) } else { Err(response["status"].clone()) }
}

#[test]
fn an_applied_policy_is_completed_and_then_judged_by_its_role() {
    let object = timeout(json!({"kuma.io/policy-role": "system"}), to_mesh());
    let (stored, warnings) = applied(&object, "shop", &zone(false)).expect("accepted");
    assert_eq!(stored["metadata"]["labels"]["kuma.io/policy-role"], "consumer");
    assert_eq!(stored["metadata"]["annotations"]["kuma.io/display-name"], "short");
    assert_eq!(warnings, Vec::<String>::new());
    let again = ask("/default", &wire("UPDATE", "somebody", "shop", &stored), &zone(false));
    assert_eq!(again, json!({"uid": "u", "allowed": true}), "nothing is patched that is complete");

    // What the reader skips is still there, and a patch must not take it away.
    let mut by_kubectl = object.clone();
    let last = "kubectl.kubernetes.io/last-applied-configuration";
    by_kubectl["metadata"]["annotations"] = json!({last: "{}"});
    let (stored, _) = applied(&by_kubectl, "shop", &zone(false)).expect("accepted");
    assert_eq!(stored["metadata"]["annotations"], json!({last: "{}", "kuma.io/display-name": "short"}));

    // The same content is for operators alone.
    let gateway = json!({"targetRef": {"kind": "MeshGateway", "name": "edge"}, "to": to_mesh()["to"]});
    let mut of_operators = timeout(json!({}), gateway.clone());
    of_operators["metadata"]["namespace"] = json!("kuma-system");
    applied(&of_operators, "kuma-system", &zone(false)).expect("accepted");
    let status = applied(&timeout(json!({}), gateway), "shop", &zone(false)).expect_err("refused");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.targetRef.kind");
}

#[test]
fn refusals_are_statuses_as_clients_know_them() {
    let mixed = json!({"to": [
        {"targetRef": {"kind": "Mesh"}, "default": {"idleTimeout": "1h"}},
        {"targetRef": {"kind": "MeshService", "name": "backend"}, "default": {"idleTimeout": "1h"}},
    ]});
    let status = |object: &Value, namespace: &str, plane: &ControlPlane| {
        let status = applied(object, namespace, plane).expect_err("refused");
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        let causes: Vec<Value> = causes.iter().map(|cause| json!([cause["reason"], cause["field"]])).collect();
        (json!([status["code"], status["reason"], status["status"]]), json!(causes))
    };
    let good = timeout(json!({}), to_mesh());
    let bad = timeout(json!({}), json!({"to": [{"targetRef": {"kind": "Moon"}, "default": {"idleTimeout": "-1h"}}]}));
    let invalid = "FieldValueInvalid";
    assert_eq!(
        status(&bad, "shop", &zone(false)),
        (
            json!([422, "Invalid", "Failure"]),
            json!([[invalid, "spec.to[0].targetRef.kind"], [invalid, "spec.to[0].default.idleTimeout"]])
        )
    );
    let mixed = timeout(json!({}), mixed);
    assert_eq!(status(&mixed, "shop", &zone(false)), (json!([500, "InternalError", "Failure"]), json!([])));
    assert_eq!(status(&mixed, "shop", &zone(true)), (json!([403, "Forbidden", "Failure"]), json!([])));
    assert_eq!(status(&good, "shop", &plane(Mode::Global)), (json!([403, "Forbidden", null]), json!([])));
    assert_eq!(
        status(&good, "kuma-system", &zone(true)),
        (json!([403, "Forbidden", "Failure"]), json!([[invalid, "metadata.labels[kuma.io/origin]"]]))
    );
    let malformed = ask("/default", &json!({"uid": "u", "operation": "CREATE"}), &zone(false));
    assert_eq!(malformed["status"]["code"], 400);
}

#[test]
fn deletions_are_judged_by_what_is_deleted_and_ends_are_not_held_up() {
    let foreign = timeout(json!({"kuma.io/origin": "zone", "kuma.io/zone": "other"}), json!({"to": "nonsense"}));
    let delete = |user: &str, plane: &ControlPlane| {
        ask("/validate", &wire("DELETE", user, "shop", &foreign), plane)["allowed"].clone()
    };
    assert_eq!(delete("somebody", &zone(true)), false);
    assert_eq!(delete("somebody", &zone(false)), true);
    for user in [OPERATOR, "system:serviceaccount:kube-system:generic-garbage-collector"] {
        assert_eq!(delete(user, &zone(true)), true, "{user}");
    }
    let mut ending = foreign.clone();
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for path in ["/default", "/validate"] {
        let mut request = wire("UPDATE", "somebody", "shop", &ending);
        request["oldObject"] = ending.clone();
        let response = ask(path, &request, &zone(true));
        assert_eq!(response, json!({"uid": "u", "allowed": true}), "a finalizer may be taken away");
        for field in ["/spec", "/metadata/labels/kuma.io~1zone"] {
            let mut changed = request.clone();
            *changed["object"].pointer_mut(field).expect("a field") = json!("x");
            assert_eq!(ask(path, &changed, &zone(true))["allowed"], false, "{path}: {field} is judged as ever");
        }
    }
}

#[test]
fn a_policy_is_marked_as_it_is_stored() {
    let key = MacKey::new(&[7; 32]).expect("32 bytes");
    let mark = |key: ReviewKey<'_>, object: &Value, old: &Value| {
        let mut request = wire(if old.is_null() { "CREATE" } else { "UPDATE" }, "somebody", "shop", object);
        request["oldObject"] = old.clone();
        ask_with(key, &Routes::default(), "/default", &request, &zone(false))
    };
    let patched = |object: &Value, response: &Value| {
        let patch = STANDARD.decode(response["patch"].as_str().unwrap_or("W10=")).expect("base64");
        let mut patched = object.clone();
        json_patch::patch(&mut patched, &serde_json::from_slice::<json_patch::Patch>(&patch).expect("a patch"))
            .expect("it applies");
        patched
    };
    let mut policy = timeout(json!({}), json!({"targetRef": {"kind": "Mesh"}}));
    policy["metadata"]["annotations"] = json!({REVIEWED: "forged"});
    let stored = patched(&policy, &mark(ReviewKey::Known(&key), &policy, &json!(null)));
    assert!(is_reviewed(&key, &stored), "{stored}");
    let mut moved = stored.clone();
    moved["metadata"]["labels"]["kuma.io/policy-role"] = json!("system");
    assert!(!is_reviewed(&key, &moved), "the role counts");
    // The end of a policy that nobody has reviewed.
    let mut ending = policy.clone();
    ending["metadata"]["annotations"] = json!({});
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut forged = ending.clone();
    forged["metadata"]["annotations"] = json!({REVIEWED: code(&key, &ending)});
    assert_eq!(patched(&forged, &mark(ReviewKey::Known(&key), &forged, &ending)), ending);
    let missing = mark(ReviewKey::Missing, &policy, &json!(null));
    assert_eq!((&missing["allowed"], &missing["status"]["code"]), (&json!(false), &json!(503)));
}

#[test]
fn a_policy_that_never_meets_its_route_is_told_so() {
    let documents: Vec<Value> = documents("seeds")
        .into_iter()
        .filter(|(name, _)| name.contains("004-disjoint-proxies"))
        .map(|(_, text)| yaml::read_value(&text).expect("good YAML"))
        .collect();
    let [route, policy] = &documents[..] else { panic!("a route and a policy") };
    let mut policy = policy.clone();
    policy["spec"]["to"][0]["default"] = json!({"http": {"requestTimeout": "1s"}});
    let routes = Routes(vec![compile::mesh::route(route).expect("a route")]);
    let request = wire("CREATE", "somebody", "backend-ns", &policy);
    let told = |routes: &Routes| {
        let response = ask_knowing(routes, "/validate", &request, &zone(false));
        assert_eq!(response["allowed"], true);
        response["warnings"]
            .to_string()
            .contains("no proxy that this policy selects has the route backend-ns/route-to-backend")
    };
    assert!(told(&routes));
    assert!(!told(&Routes::default()));
}

#[test]
fn every_policy_that_is_checked_is_completed_too() {
    for kind in compile::mesh::kinds().policies().map(|policy| policy.resource.kind).chain([
        "ProxyTemplate",
        "Mesh",
        "Dataplane",
    ]) {
        let object = json!({
            "apiVersion": "kuma.io/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "mesh": "default", "spec": {},
        });
        let response = ask("/default", &wire("CREATE", "somebody", "shop", &object), &zone(false));
        assert!(response["patch"].is_string(), "{kind}: {response}");
    }
    let other = json!({"apiVersion": "example.org/v1", "kind": "MeshTimeout", "metadata": {"name": "x"}});
    let response = ask("/default", &wire("CREATE", "somebody", "shop", &other), &zone(false));
    assert_eq!(response, json!({"uid": "u", "allowed": true}));
}

/// A file gets the same verdict from `writ validate` and from a control plane, whatever is in it.
#[test]
fn examples_fare_alike_in_files_and_on_the_wire() {
    let mut seen = [0, 0];
    for (name, text) in ["seeds", "policies"].into_iter().flat_map(documents) {
        let mut object = yaml::read_value(&text).expect("good YAML");
        if object["type"].is_string() {
            continue;
        }
        // Some examples leave out what says who they are.
        object["metadata"]["name"] = json!("example");
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("kuma-system").to_owned();
        let offline = rehearse(&object, "kuma-system").expect("a kind that is checked");
        let plane = ControlPlane::default();
        let fields = |problems: &[writ::core::problem::Problem]| -> Vec<String> {
            problems.iter().map(|problem| problem.field.to_string()).collect()
        };
        match applied(&object, &namespace, &plane) {
            Ok((_, warnings)) => {
                assert_eq!(fields(&offline.refusals()), Vec::<String>::new(), "{name}");
                let told: Vec<String> = offline.warnings.iter().map(ToString::to_string).collect();
                assert_eq!(warnings, told, "{name}");
                seen[0] += 1;
            }
            Err(status) => {
                let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
                let causes: Vec<&str> =
                    causes.iter().map(|cause| cause["field"].as_str().unwrap_or_default()).collect();
                assert_eq!(causes, fields(&offline.refusals()), "{name}: {status}");
                seen[1] += 1;
            }
        }
    }
    assert!(seen[0] > 10 && seen[1] > 5, "accepted and refused: {seen:?}");
}

#[test]
fn offline_the_role_follows_from_the_namespace_as_well() {
    let spec = json!({"targetRef": {"kind": "MeshGateway", "name": "edge"}, "to": to_mesh()["to"]});
    let classes = |object: &Value, system: &str| -> Vec<String> {
        let findings = rehearse(object, system).expect("a kind that is checked");
        findings.errors.iter().map(|problem| format!("{} {}", problem.field, problem.reason.as_str())).collect()
    };
    let object = timeout(json!({"kuma.io/policy-role": "system"}), spec.clone());
    assert_eq!(classes(&object, "kuma-system"), ["spec.targetRef.kind KIND"]);
    assert_eq!(classes(&object, "shop"), Vec::<String>::new());
    let mut nowhere = object.clone();
    nowhere["metadata"].as_object_mut().expect("an object").remove("namespace");
    assert_eq!(classes(&nowhere, "kuma-system"), Vec::<String>::new());
    assert_eq!(compile::check(&object).expect("checked").errors, [], "the label alone would have been believed");

    let own = json!({"targetRef": {"kind": "MeshService", "name": "backend"}, "default": {"idleTimeout": "1h"}});
    let mixed = timeout(json!({}), json!({"to": [own, to_mesh()["to"][0]]}));
    assert_eq!(classes(&mixed, "kuma-system"), ["spec.to CTX"]);
    let both = timeout(json!({}), json!({"to": [own], "from": to_mesh()["to"]}));
    assert_eq!(classes(&both, "kuma-system"), ["spec XOR"]);
    let template = json!({"apiVersion": "kuma.io/v1alpha1", "kind": "ProxyTemplate", "metadata": {"name": "x"},
        "spec": {"conf": {"imports": ["default-proxy"]}}});
    assert_eq!(classes(&template, "kuma-system"), ["mesh EMPTY"]);
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
        let text = |field: &str| case["request"][field].as_str().unwrap_or_default();
        let request = wire(text("operation"), text("user"), text("namespace"), object);
        for (mode, plane) in &planes {
            let want = &case["expected"][mode];
            let label = format!("{} on {mode}", case["name"]);
            let have = ask("/validate", &request, plane);
            let unchecked = !content_checked
                && want["status"]["reason"] == "Invalid"
                && want["status"]["message"] != "mesh: cannot be empty";
            assert!(have["allowed"] == want["allowed"] || unchecked, "{label}: {have}");
            if have["allowed"] == true {
                if content_checked {
                    let warnings = have["warnings"].as_array().into_iter().flatten();
                    let known =
                        warnings.filter(|warning| is_of_reference(warning.as_str().unwrap_or_default())).count();
                    assert_eq!(known, want["warnings"].as_array().map_or(0, Vec::len), "{label}: {have}");
                }
                continue;
            }
            for field in ["code", "reason", "status"] {
                assert_eq!(have["status"][field], want["status"][field], "{label}: {field}");
            }
            let causes = |response: &Value| -> Vec<Value> {
                let list = response["status"]["details"]["causes"].as_array().cloned().unwrap_or_default();
                list.iter().map(|cause| json!([cause["field"], cause["reason"]])).collect()
            };
            assert_eq!(causes(&have), causes(want), "{label}");
        }
    }
}

/// Whether the reference warns of it too; it does not warn of fields that only the next version refuses.
fn is_of_reference(warning: &str) -> bool {
    let field = warning.split_once(": ").map_or("", |(field, _)| field);
    ![".name", ".namespace", ".tags", ".proxyTypes"].iter().any(|end| field.ends_with(end))
}
