//! Which request goes where, and what is answered to those that go nowhere.

use bytes::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use tracing::field::Empty;
use tracing::{debug, info, info_span};

use super::desk::{MARK, POLICIES};
use super::mesh::{self, MeshView};
use super::object::Skipped;
use super::review::{self, Operation, Review, Status, Unreadable, Verdict};
use super::validate::{is_judged, validate};
use crate::core::json::{Document, Tree};
use crate::core::webhook_token::{EntryPath, WebhookType};

/// Judges policies.
const VALIDATE: &str = "/validate";
/// Completes objects of the mesh.
const DEFAULT: &str = "/default";
/// The paths that API servers may call, cluster or not.
pub const PATHS: &[&str] = &[VALIDATE, DEFAULT];

/// The paths of the entries that the manifests install. They leave `path` out: Writ writes it with the token.
pub const ENTRY_PATHS: &[EntryPath] = &[
    (WebhookType::Validating, "policies.writ.dev", VALIDATE),
    (WebhookType::Validating, "mesh-objects.writ.dev", VALIDATE),
    (WebhookType::Validating, "generate-policies.writ.dev", POLICIES),
    (WebhookType::Validating, "validate-policy.kyverno.svc", POLICIES),
    (WebhookType::Mutating, "policies.writ.dev", DEFAULT),
    (WebhookType::Mutating, "mesh-objects.writ.dev", DEFAULT),
    (WebhookType::Mutating, "generate-policies.writ.dev", MARK),
];

/// What is judged by the new object alone.
pub(super) type New<'a> = Review<'a, Document<'a>, Skipped>;

/// A response, and how the request ended.
#[derive(Debug)]
pub struct Answer {
    pub response: hyper::Response<Bytes>,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Allowed,
    Denied,
    /// Not readable as a review, or not addressed to us.
    Invalid,
}

/// Answers one request. It neither waits nor calls anybody.
pub fn handle(request: &hyper::Request<Bytes>, view: MeshView<'_>) -> Answer {
    let decide = match request.uri().path() {
        VALIDATE => validate,
        DEFAULT => mesh::complete,
        _ => return refuse_unknown(PATHS),
    };
    refuse_misdirected(request).unwrap_or_else(|| admit(request.body(), view, decide))
}

/// What is answered to a call without the token of the install. It tells nothing of what there is.
pub fn refuse_unauthenticated() -> hyper::Response<Bytes> {
    refuse(Status::failure(404, "NotFound", "no such path")).response
}

/// What is answered to a path that leads nowhere.
pub(super) fn refuse_unknown(known: &[&str]) -> Answer {
    let message = format!("no such path; known paths: {}", known.join(", "));
    refuse(Status::failure(404, "NotFound", message))
}

/// What is answered to a request that is no POST of JSON.
pub(super) fn refuse_misdirected(request: &hyper::Request<Bytes>) -> Option<Answer> {
    if request.method() != Method::POST {
        let message = format!("{} is not possible here, POST an AdmissionReview", request.method());
        let mut answer = refuse(Status::failure(405, "MethodNotAllowed", message));
        answer.response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return Some(answer);
    }
    if !is_json(request.headers().get(CONTENT_TYPE)) {
        let message = "the body must be JSON with content type application/json";
        return Some(refuse(Status::failure(415, "UnsupportedMediaType", message)));
    }
    None
}

/// What is answered to a body that is no review.
pub(super) fn unreadable(unreadable: Unreadable) -> Answer {
    match unreadable {
        Unreadable::Review { uid, reason } => {
            info!(uid, error = %reason, "Review not readable");
            let verdict = Verdict::deny(Status::failure(400, "BadRequest", reason));
            Answer { response: respond(StatusCode::OK, review::write(&uid, &verdict)), outcome: Outcome::Invalid }
        }
        Unreadable::Body { reason } => {
            info!(error = %reason, "Body not readable");
            refuse(Status::failure(400, "BadRequest", reason))
        }
    }
}

/// The review that carries a verdict.
pub(super) fn answer(uid: &str, verdict: &Verdict) -> Answer {
    let outcome = if verdict.allowed { Outcome::Allowed } else { Outcome::Denied };
    Answer { response: respond(StatusCode::OK, review::write(uid, verdict)), outcome }
}

fn admit(body: &[u8], view: MeshView<'_>, decide: fn(&New<'_>, MeshView<'_>) -> Verdict) -> Answer {
    let span =
        info_span!("admit", uid = Empty, kind = Empty, ns = Empty, name = Empty, operation = Empty, allowed = Empty);
    let _entered = span.enter();
    let review: New<'_> = match review::read(body, is_judged) {
        Ok(review) => review,
        Err(problem) => return unreadable(problem),
    };
    let request = &review.request;
    if !span.is_disabled() {
        span.record("uid", &*request.uid);
        span.record("kind", &*request.kind.kind);
        span.record("ns", &*request.namespace);
        span.record("name", &*request.name);
        span.record("operation", request.operation.name());
    }
    let verdict = match request.operation {
        // Only here the old object matters, so only here it is read.
        Operation::Delete => match review::read(body, is_judged) {
            Ok(review) => mesh::release(&review, view),
            Err(problem) => return unreadable(problem),
        },
        // The same for an object that is being deleted.
        Operation::Update if is_ending(&review) => match review::read(body, is_judged) {
            Ok(ending) => mesh::finish(&ending).unwrap_or_else(|| decide(&review, view)),
            Err(problem) => return unreadable(problem),
        },
        _ => decide(&review, view),
    };
    span.record("allowed", verdict.allowed);
    match &verdict.status {
        Some(status) => info!(reason = status.message, "Denied"),
        None => debug!(warnings = verdict.warnings.len(), "Allowed"),
    }
    answer(&request.uid, &verdict)
}

fn is_ending(review: &New<'_>) -> bool {
    let object = review.object.as_ref().map(Document::root);
    let time = object.and_then(|object| object.at(&["metadata", "deletionTimestamp"]));
    time.is_some_and(|time| !time.is_null())
}

fn is_json(content_type: Option<&HeaderValue>) -> bool {
    let essence = content_type.and_then(|value| value.to_str().ok()).and_then(|text| text.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

fn refuse(status: Status) -> Answer {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_REQUEST);
    let body = serde_json::to_vec(&status).expect("strings and numbers always serialize");
    Answer { response: respond(code, body), outcome: Outcome::Invalid }
}

fn respond(status: StatusCode, body: Vec<u8>) -> hyper::Response<Bytes> {
    let mut response = hyper::Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
