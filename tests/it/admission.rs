//! The webhook as API servers and strangers call it, without sockets: every input has its answer.

use bytes::Bytes;
use hyper::{Method, Request};
use serde_json::{Value, json};
use writ::compile::mesh::admission::ControlPlane;
use writ::core::mesh::reach::Routes;
use writ::webhook::{self, MeshView, Outcome, ReviewKey};

const REVIEW: &str = "admission.k8s.io/v1";

fn handle(request: &Request<Bytes>) -> webhook::Answer {
    webhook::handle(
        request,
        MeshView { plane: &ControlPlane::default(), routes: &Routes::default(), key: ReviewKey::Offline },
    )
}

fn call(method: Method, path: &str, content_type: &str, body: impl Into<Bytes>) -> (u16, Value, Outcome) {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let answer = handle(&request.body(body.into()).unwrap());
    assert_eq!(answer.response.headers()["content-type"], "application/json");
    let body = serde_json::from_slice(answer.response.body()).expect("every answer is JSON");
    (answer.response.status().as_u16(), body, answer.outcome)
}

fn review(request: Value) -> (Value, Outcome) {
    let body = json!({"apiVersion": REVIEW, "kind": "AdmissionReview", "request": request}).to_string();
    let (status, body, outcome) = call(Method::POST, "/validate", "application/json", body);
    assert_eq!((status, &body["apiVersion"], &body["kind"]), (200, &json!(REVIEW), &json!("AdmissionReview")));
    (body["response"].clone(), outcome)
}

/// Not a review, and no uid to answer to: a Status with this code and message.
#[track_caller]
fn refused(method: Method, path: &str, content_type: &str, body: &str, code: u16, message: &str) -> Value {
    let (status, body, outcome) = call(method, path, content_type, body.to_owned());
    assert_eq!((status, outcome), (code, Outcome::Invalid));
    assert_eq!((&body["kind"], &body["status"], &body["code"]), (&json!("Status"), &json!("Failure"), &json!(code)));
    let text = body["message"].as_str().unwrap();
    assert!(text.contains(message), "{text}");
    body
}

#[test]
fn what_is_no_review_gets_a_status() {
    let json = "application/json";
    refused(Method::GET, "/validate", json, "", 405, "POST an AdmissionReview");
    refused(Method::POST, "/", json, "{}", 404, "known paths: /validate, /default");
    refused(Method::POST, "/validate/", json, "{}", 404, "known paths: /validate");
    refused(Method::POST, "/validate", "text/yaml", "{}", 415, "application/json");
    refused(Method::POST, "/validate", "", "{}", 415, "application/json");
    refused(Method::POST, "/validate", json, "", 400, "cannot be read");
    refused(Method::POST, "/validate", json, "{", 400, "cannot be read");
    refused(Method::POST, "/validate", json, "\u{feff}{}", 400, "cannot be read");
    refused(Method::POST, "/validate", json, "{}", 400, "must be admission.k8s.io/v1 AdmissionReview");
    refused(Method::POST, "/validate", "application/json; charset=utf-8", "null", 400, "cannot be read");
}

#[test]
fn a_wrong_method_says_which_is_right() {
    let request = Request::builder().method(Method::PUT).uri("/validate").body(Bytes::new()).unwrap();
    let answer = handle(&request);
    assert_eq!(answer.response.headers()["allow"], "POST");
}

#[test]
fn bytes_that_are_no_text_are_no_problem() {
    for body in [&[0xff, 0xfe, 0x00][..], b"{\"request\":{\"uid\":\"\xff\"}}", &[0; 4096]] {
        let (status, _, _) = call(Method::POST, "/validate", "application/json", Bytes::copy_from_slice(body));
        assert_eq!(status, 400);
    }
}

/// A review that cannot be judged, but whose uid is known: denied, with the reason.
#[track_caller]
fn denied(body: &str, message: &str) {
    let (status, body, outcome) = call(Method::POST, "/validate", "application/json", body.to_owned());
    assert_eq!((status, outcome), (200, Outcome::Invalid));
    let response = &body["response"];
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u-1"), &json!(false)));
    assert_eq!(response["status"]["code"], 400);
    let text = response["status"]["message"].as_str().unwrap();
    assert!(text.contains(message), "{text}");
}

#[test]
fn what_can_be_answered_as_a_review_is() {
    let wrap = |version: &str, kind: &str, rest: &str| {
        format!(r#"{{"apiVersion":"{version}","kind":"{kind}","request":{{"uid":"u-1"{rest}}}}}"#)
    };
    denied(&wrap("admission.k8s.io/v1beta1", "AdmissionReview", ""), "v1beta1");
    denied(&wrap(REVIEW, "ConversionReview", ""), "ConversionReview");
    denied(&wrap(REVIEW, "AdmissionReview", r#","kind":"ProxyTemplate""#), "cannot be read");
    denied(&wrap(REVIEW, "AdmissionReview", r#","object":{"spec":1e999}"#), "number out of range");
    for depth in [200, 1_000_000] {
        let deep = format!(r#","object":{{"spec":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        denied(&wrap(REVIEW, "AdmissionReview", &deep), "nested deeper");
    }
}

#[test]
fn what_is_not_ours_to_judge_is_allowed() {
    let policy = json!({"apiVersion": "kuma.io/v1alpha1", "kind": "ProxyTemplate", "metadata": {"name": "broken"}});
    for request in [
        json!({"uid": "u", "operation": "DELETE", "oldObject": policy}),
        json!({"uid": "u", "operation": "CONNECT", "object": policy}),
        json!({"uid": "u", "operation": "UPDATE", "subResource": "status", "object": policy}),
        json!({"uid": "u", "operation": "CREATE", "object": {"apiVersion": "v1", "kind": "Pod"}}),
    ] {
        let (response, outcome) = review(request);
        assert_eq!((response, outcome), (json!({"uid": "u", "allowed": true}), Outcome::Allowed));
    }
}

#[test]
fn a_request_without_what_it_needs_is_denied() {
    let (response, _) = review(json!({"uid": "u", "operation": "CREATE"}));
    assert_eq!(response["status"]["message"], "the review has no request.object");
    let (response, _) = review(json!({"uid": "u", "operation": "MOVE", "object": {}}));
    assert!(response["status"]["message"].as_str().unwrap().contains("request.operation"));
}

#[test]
fn an_invalid_policy_is_denied_field_by_field() {
    let spec = json!({
        "selectors": [{"match": {"kuma.io/service": "*"}}],
        "conf": {"imports": ["no-such-import"], "modifications": [{}]},
    });
    let (response, outcome) = review(json!({
        "uid": "u", "operation": "CREATE", "name": "broken",
        "kind": {"group": "kuma.io", "version": "v1alpha1", "kind": "ProxyTemplate"},
        "object": {
            "apiVersion": "kuma.io/v1alpha1", "kind": "ProxyTemplate", "metadata": {"name": "broken"}, "mesh": "default",
            "spec": spec,
        },
    }));
    assert_eq!((outcome, &response["allowed"]), (Outcome::Denied, &json!(false)));
    let status = &response["status"];
    assert_eq!(
        (&status["status"], &status["code"], &status["reason"]),
        (&json!("Failure"), &json!(422), &json!("Invalid"))
    );
    let details = &status["details"];
    assert_eq!(
        (&details["name"], &details["group"], &details["kind"]),
        (&json!("broken"), &json!("kuma.io"), &json!("ProxyTemplate"))
    );
    let causes = details["causes"].as_array().unwrap();
    assert!(causes.len() >= 2, "{causes:?}");
    for cause in causes {
        let (field, message) = (cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap());
        assert!(cause["reason"].as_str().unwrap().starts_with("FieldValue"));
        let line = if field.is_empty() { message.to_owned() } else { format!("{field}: {message}") };
        assert!(status["message"].as_str().unwrap().contains(&line), "{status}");
    }
}
