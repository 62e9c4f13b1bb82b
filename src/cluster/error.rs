//! What can go wrong with an API server, sorted by what to do about it.

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
    /// No answer, or none that makes sense: back off and retry.
    #[error("cannot {verb} {resource}, the API server does not answer: {reason}")]
    Unreachable { verb: &'static str, resource: String, reason: String },
}

impl ClusterError {
    /// Sorts what kube reports about one call.
    pub(super) fn of(verb: &'static str, resource: &str, error: &kube::Error) -> Self {
        let resource = resource.to_owned();
        let kube::Error::Api(status) = error else {
            return Self::Unreachable { verb, resource, reason: causes(error) };
        };
        let reason = status.message.clone();
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
    use kube::core::Status;
    use kube::core::response::StatusDetails;

    use super::*;

    #[track_caller]
    fn check(code: u16, message: &str) {
        let status = Status::failure("because", "Reason").with_code(code);
        let error = ClusterError::of("get", "secrets/a", &kube::Error::Api(status.boxed()));
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn names_verb_and_resource_and_what_to_do() {
        check(403, "not allowed to get secrets/a: because; manifests/base/rbac.yaml grants this right");
        check(409, "secrets/a was changed by somebody else meanwhile");
        check(404, "the cluster does not know secrets/a");
        check(422, "cannot get secrets/a: because");
        check(503, "cannot get secrets/a, the API server does not answer: because");
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
