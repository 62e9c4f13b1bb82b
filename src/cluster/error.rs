//! What can go wrong with an API server, sorted by what to do about it.

use kube::core::Status;
use kube::core::response::StatusCause;
use kube::runtime::watcher;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// There is nothing to connect with. Retrying does not help.
    #[error("no way to the cluster: {reason}")]
    Config { reason: String },
    /// Rights are missing. Retrying helps once somebody grants them.
    #[error("not allowed to {verb} {resource}: {reason}; manifests/base/rbac.yaml grants this right")]
    Refused { verb: &'static str, resource: String, reason: String },
    /// Somebody else was faster: read again.
    #[error("{resource} was changed by somebody else meanwhile")]
    Conflict { resource: String },
    #[error("{resource} does not exist")]
    Missing { resource: String },
    /// The manifests ship it, and only they make it.
    #[error("{resource} does not exist; it is part of the install: apply the manifests again")]
    NotInstalled { resource: String },
    #[error("{resource} exists already")]
    Exists { resource: String },
    /// There is no such namespace to make something in.
    #[error("the namespace of {resource} does not exist")]
    NoNamespace { resource: String },
    /// Nothing can be made there any more.
    #[error("the namespace of {resource} is being deleted")]
    Ending { resource: String },
    /// What the API server remembers does not go back that far: list again.
    #[error("the history of {resource} is gone")]
    Expired { resource: String },
    /// The cluster has no such kind, or not yet.
    #[error("the cluster does not know {kind}")]
    UnknownKind { kind: String },
    /// The API server understood and said no.
    #[error("cannot {verb} {resource}: {reason}")]
    Rejected { verb: &'static str, resource: String, reason: String },
    /// More than is read of one answer.
    #[error("the answer about {resource} is larger than {limit} bytes")]
    TooLarge { resource: String, limit: usize },
    /// No answer, or none that makes sense: back off and retry.
    #[error("cannot {verb} {resource}, the API server does not answer: {reason}")]
    Unreachable { verb: &'static str, resource: String, reason: String },
}

impl ClusterError {
    /// Sorts what kube reports about one call.
    pub(super) fn of(verb: &'static str, resource: &str, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(verb, resource, status),
            // The errors of readers quote what they read.
            kube::Error::SerdeError(error) => Self::unreadable(verb, resource, error),
            other => Self::Unreachable { verb, resource: resource.to_owned(), reason: causes(other) },
        }
    }

    /// An answer that is not the JSON that was expected.
    pub(super) fn unreadable(verb: &'static str, resource: &str, error: &serde_json::Error) -> Self {
        let reason = format!("the answer is not readable: line {}, column {}", error.line(), error.column());
        Self::Unreachable { verb, resource: resource.to_owned(), reason }
    }

    /// Sorts what the API server says about one call.
    pub(super) fn of_status(verb: &'static str, resource: &str, status: &Status) -> Self {
        let reason = shown(resource, status);
        let resource = resource.to_owned();
        let names_object = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
        let of_namespace = status.details.as_ref().is_some_and(|details| details.kind == "namespaces");
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let ending = causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating");
        match (status.code, status.reason.as_str()) {
            (404, _) if of_namespace && matches!(verb, "create" | "update" | "patch") => Self::NoNamespace { resource },
            (403, _) if ending => Self::Ending { resource },
            (409, "AlreadyExists") => Self::Exists { resource },
            (410, _) => Self::Expired { resource },
            (401 | 403, _) => Self::Refused { verb, resource, reason },
            // Without the name of an object the path itself is unknown: the kind is not served, or not any more. That says
            // nothing about its objects.
            (404, _) if !names_object => Self::UnknownKind { kind: resource },
            (404, _) => Self::Missing { resource },
            (409, _) => Self::Conflict { resource },
            (429 | 500.., _) => Self::Unreachable { verb, resource, reason },
            _ => Self::Rejected { verb, resource, reason },
        }
    }

    pub(super) fn of_watch(resource: &str, error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(error) => Self::of("list", resource, error),
            watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
                Self::of("watch", resource, error)
            }
            other => Self::Unreachable { verb: "watch", resource: resource.to_owned(), reason: other.to_string() },
        }
    }

    /// Whether trying again is only a matter of time.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Whether somebody else wrote first: what they wrote is to be read.
    pub(super) fn is_lost_race(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Exists { .. })
    }

    pub(super) fn too_slow(verb: &'static str, resource: &str) -> Self {
        Self::Unreachable { verb, resource: resource.to_owned(), reason: "it took too long".to_owned() }
    }
}

/// Objects that Writ writes from its own text and from the text of policies. What the API server says of them is said of that
/// text.
const OWN_RESOURCES: [&str; 2] = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];

/// What the API server says without the values that it quotes. Of rejected objects, and of decoding, it quotes the content;
/// the field paths and one of these sentences stay.
const SAFE_PARTS: [&str; 22] = [
    "exceeded quota",
    "must specify",
    "maximum",
    "minimum",
    "violates PodSecurity",
    "denied request: ",
    "cannot be handled as a",
    "strict decoding error",
    "unknown field",
    "illegal base64 data",
    "cannot unmarshal",
    "failed to create typed patch object",
    "failed to prune fields",
    "no kind is registered",
    "does not match the namespace on the request",
    "name must be provided",
    "field is immutable",
    "no endpoints available",
    "request timed out",
    "too many requests",
    "context deadline exceeded",
    "connection refused",
];

/// Causes that are listed.
const LONGEST_LIST: usize = 8;

fn shown(resource: &str, status: &Status) -> String {
    let message = status.message.as_str();
    let own = OWN_RESOURCES.iter().any(|own| resource.split('/').next() == Some(own));
    // Kind, name, user and verb: no content.
    let of_rbac = message.contains(" is forbidden: User \"") && message.contains(" cannot ");
    if own || of_rbac {
        return message.to_owned();
    }
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<String> = causes.take(LONGEST_LIST).filter_map(shown_cause).collect();
    let webhook = ["admission webhook \"", "failed calling webhook \""].iter().find_map(|start| {
        let (_, rest) = message.split_once(start)?;
        Some(format!("{start}{}\"", rest.split('"').next()?))
    });
    let grants = message.contains("is attempting to grant RBAC permissions not currently held");
    let granted = grants.then(|| "it grants permissions that Writ does not have".to_owned());
    let parts = SAFE_PARTS.iter().filter(|part| message.contains(**part)).map(|part| (*part).trim_end_matches(": "));
    let mut reasons: Vec<String> = [status.reason.clone()].into_iter().filter(|reason| !reason.is_empty()).collect();
    reasons.extend(webhook);
    reasons.extend(granted);
    reasons.extend(parts.map(str::to_owned));
    if !causes.is_empty() {
        reasons.push(causes.join(", "));
    }
    if reasons.is_empty() { format!("HTTP {}", status.code) } else { reasons.join(": ") }
}

/// Field and reason of a cause; its message quotes the value.
fn shown_cause(cause: &StatusCause) -> Option<String> {
    let StatusCause { reason, field, .. } = cause;
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic());
    match (field.as_str(), reason.as_str()) {
        ("", "") => None,
        ("", reason) => Some(reason.to_owned()).filter(|reason| is_word(reason)),
        (field, reason) if is_word(reason) => Some(format!("{} {reason}", shown_field(field))),
        (field, _) => Some(shown_field(field)),
    }
}

/// A field path. What stands in brackets is an index or a key of a mapping, and a rule can make a key of a value.
fn shown_field(field: &str) -> String {
    let mut shown = String::new();
    let mut rest = field;
    while let Some((before, inside)) = rest.split_once('[') {
        let (key, after) = inside.split_once(']').unwrap_or((inside, ""));
        shown.push_str(before);
        shown.push_str(if key.bytes().all(|byte| byte.is_ascii_digit()) { "[" } else { "[…" });
        if key.bytes().all(|byte| byte.is_ascii_digit()) {
            shown.push_str(key);
        }
        shown.push(']');
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// An error with its causes: kube's outermost text alone says only which layer failed.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(code: u16, message: &str) {
        let status = Status::failure("because", "Reason").with_code(code);
        let error = ClusterError::of("get", "secrets/a", &kube::Error::Api(status.boxed()));
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn names_verb_and_resource_and_what_to_do() {
        check(403, "not allowed to get secrets/a: Reason; manifests/base/rbac.yaml grants this right");
        check(409, "secrets/a was changed by somebody else meanwhile");
        check(404, "the cluster does not know secrets/a");
        check(422, "cannot get secrets/a: Reason");
        check(503, "cannot get secrets/a, the API server does not answer: Reason");
    }

    #[test]
    fn what_the_api_server_quotes_is_not_shown() {
        #[track_caller]
        fn check(resource: &str, status: serde_json::Value, expected: &str) {
            let status: Status = serde_json::from_value(status).expect("a status");
            let shown = ClusterError::of_status("create", resource, &status).to_string();
            assert_eq!(shown, expected);
            assert!(resource.starts_with("validating") || !shown.contains("hidden"), "{shown}");
        }
        let status = |code: u16, reason: &str, message: &str, causes: serde_json::Value| json!({"status": "Failure", "code": code, "reason": reason, "message": message, "details": {"causes": causes}});
        let invalid =
            "Secret \"a\" is invalid: data[hidden key]: Invalid value: \"hidden key\": a valid config key must";
        let causes = json!([{"reason": "FieldValueInvalid", "field": "data[hidden key]", "message": invalid},
                            {"reason": "FieldValueRequired", "field": "spec.items[0].name", "message": "hidden"}]);
        check(
            "secrets/a",
            status(422, "Invalid", invalid, causes),
            "cannot create secrets/a: Invalid: data[…] FieldValueInvalid, spec.items[0].name FieldValueRequired",
        );
        let decoding = "Secret in version \"v1\" cannot be handled as a Secret: parsing time \"hidden\" as x";
        check(
            "secrets/a",
            status(400, "BadRequest", decoding, json!([])),
            "cannot create secrets/a: BadRequest: cannot be handled as a",
        );
        let webhook = "admission webhook \"check.example.com\" denied the request: hidden";
        check(
            "secrets/a",
            status(400, "", webhook, json!([])),
            "cannot create secrets/a: admission webhook \"check.example.com\"",
        );
        check("secrets/a", status(418, "", "hidden", json!([])), "cannot create secrets/a: HTTP 418");
        let rbac = "secrets is forbidden: User \"x\" cannot create resource \"secrets\" in API group \"\"";
        check(
            "secrets/a",
            status(403, "Forbidden", rbac, json!([])),
            &format!("not allowed to create secrets/a: {rbac}; manifests/base/rbac.yaml grants this right"),
        );
        let own = "validatingwebhookconfigurations/writ";
        check(
            own,
            status(422, "Invalid", "compilation failed", json!([])),
            &format!("cannot create {own}: compilation failed"),
        );
    }

    #[test]
    fn a_kind_that_is_not_served_is_no_missing_object() {
        let of = |details: Option<StatusDetails>| {
            let status = Status { details, ..Status::failure("gone", "NotFound").with_code(404) };
            ClusterError::of("get", "secrets/a", &kube::Error::Api(status.boxed()))
        };
        let named = |name: &str| serde_json::from_value(serde_json::json!({"name": name})).expect("details");
        assert!(matches!(of(named("a")), ClusterError::Missing { .. }));
        assert!(matches!(of(named("")), ClusterError::UnknownKind { .. }));
        assert!(matches!(of(None), ClusterError::UnknownKind { .. }));
    }
}
