//! The plain port: `/healthz`, `/readyz`, `/metrics`.

use bytes::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;

use super::{Health, Metrics};

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one request of the plain port.
pub fn answer(request: &Request<Bytes>, health: &Health, metrics: &Metrics) -> Response<Bytes> {
    let path = request.uri().path();
    if !["/healthz", "/livez", "/readyz", "/metrics"].contains(&path) {
        return respond(StatusCode::NOT_FOUND, TEXT, "known paths: /healthz, /livez, /readyz, /metrics\n");
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match path {
        "/readyz" => {
            let missing = health.missing();
            metrics.ready(missing.is_empty());
            if missing.is_empty() {
                return respond(StatusCode::OK, JSON, "{\"ready\":true}\n");
            }
            let because: serde_json::Map<_, _> =
                missing.into_iter().map(|(name, because)| (name.to_owned(), because.into())).collect();
            let body = json!({"ready": false, "because": because}).to_string() + "\n";
            respond(StatusCode::SERVICE_UNAVAILABLE, JSON, body)
        }
        "/metrics" => {
            metrics.ready(health.missing().is_empty());
            respond(StatusCode::OK, OPEN_METRICS, metrics.render())
        }
        _ => respond(StatusCode::OK, TEXT, "ok\n"),
    }
}

fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: Method, path: &str, health: &Health, status: u16, body: &str) {
        let request = Request::builder().method(method).uri(path).body(Bytes::new()).unwrap();
        let response = answer(&request, health, &Metrics::default());
        assert_eq!(response.status(), status);
        let text = std::str::from_utf8(response.body()).unwrap();
        assert!(text.contains(body), "{text}");
    }

    #[test]
    fn says_why_it_is_not_ready() {
        let health = Health::default();
        check(Method::GET, "/readyz", &health, 200, r#"{"ready":true}"#);
        let condition = health.condition("certificate", "no certificate yet");
        check(Method::GET, "/readyz", &health, 503, r#""because":{"certificate":"no certificate yet"}"#);
        check(Method::GET, "/metrics", &health, 200, "writ_ready 0");
        check(Method::GET, "/healthz", &health, 200, "ok");
        condition.holds();
        check(Method::HEAD, "/readyz", &health, 200, "");
        check(Method::POST, "/readyz", &health, 405, "only GET");
        check(Method::GET, "/", &health, 404, "/metrics");
    }
}
