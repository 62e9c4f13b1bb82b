//! The webhook of a program that has a cluster: policies and resources, each with its own handler.

use bytes::Bytes;
use serde_json::Value;
use tracing::field::Empty;
use tracing::{Instrument, debug, info, info_span};

use super::port::{Counter, Office};
use super::resources::Addressed;
use super::review::{self, Review, Unreadable, Verdict};
use super::routes::{self, Answer};
use super::{policies, resources};
use crate::core::generate::PolicyKey;
use crate::core::resource::text_at;

/// Judges generate policies. Existing webhook configurations call it by this name.
pub const POLICIES: &str = "/policyvalidate";
/// Marks generate policies as reviewed. Existing webhook configurations call it by this name.
pub(super) const MARK: &str = "/policymutate";
/// The intake for ClusterPolicies. With a further `/namespaced` it is for the Policies of the request's namespace; what follows
/// a further `/policy/` names the policy that is meant.
pub const RESOURCES: &str = "/validate/resources";
/// Names of the intake in webhook configurations that others have written.
const ALIASES: [&str; 2] = ["/validate/fail", "/validate/ignore"];

/// Answers one request.
pub async fn handle<P: Office + Counter>(port: &P, request: &hyper::Request<Bytes>) -> Answer {
    match Destination::of(request.uri().path()) {
        Destination::Elsewhere => refuse_unknown(),
        destination => match routes::refuse_misdirected(request) {
            Some(refusal) => refusal,
            None => match destination {
                Destination::Policies => judge_policy(port, request.body()).await,
                Destination::Mark => mark_policy(port, request.body()),
                Destination::Resources(addressed) => take_in(port, &addressed, request.body()).await,
                Destination::Elsewhere => refuse_unknown(),
            },
        },
    }
}

fn refuse_unknown() -> Answer {
    let known = [routes::PATHS, &[POLICIES, MARK, RESOURCES], &ALIASES].concat();
    routes::refuse_unknown(&known)
}

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
enum Destination {
    Policies,
    Mark,
    Resources(Addressed),
    Elsewhere,
}

impl Destination {
    fn of(path: &str) -> Self {
        if path == POLICIES {
            return Self::Policies;
        }
        if path == MARK {
            return Self::Mark;
        }
        let prefix = [RESOURCES].into_iter().chain(ALIASES).find(|prefix| path.starts_with(prefix));
        match prefix.map(|prefix| (prefix, &path[prefix.len()..])) {
            Some((RESOURCES, "")) => Self::Resources(Addressed::ClusterPolicies),
            Some((RESOURCES, "/namespaced")) => Self::Resources(Addressed::Policies),
            Some((_, "")) => Self::Resources(Addressed::All),
            Some((_, rest)) => {
                let named = rest.strip_prefix("/policy/").or_else(|| rest.strip_prefix("/finegrained/"));
                match named.map(|named| named.split('/').collect::<Vec<_>>()).as_deref() {
                    Some([name]) if !name.is_empty() => {
                        Self::Resources(Addressed::Policy(PolicyKey { namespace: None, name: (*name).to_owned() }))
                    }
                    Some([namespace, name]) if !namespace.is_empty() && !name.is_empty() => {
                        Self::Resources(Addressed::Policy(PolicyKey {
                            namespace: Some((*namespace).to_owned()),
                            name: (*name).to_owned(),
                        }))
                    }
                    _ => Self::Elsewhere,
                }
            }
            None => Self::Elsewhere,
        }
    }
}

async fn judge_policy<P: Office>(port: &P, body: &[u8]) -> Answer {
    let review: Review<'_, Value, Value> = match review::read(body, |_| true) {
        Ok(review) => review,
        Err(unreadable) => return unread(unreadable),
    };
    let request = &review.request;
    let span = info_span!(
        "admit",
        uid = &*request.uid,
        kind = &*request.kind.kind,
        ns = &*request.namespace,
        name = &*request.name,
        allowed = Empty
    );
    let verdict = policies::judge(port, &review).instrument(span.clone()).await;
    span.in_scope(|| log(&verdict));
    routes::answer(&request.uid, &verdict)
}

fn mark_policy<P: Office>(port: &P, body: &[u8]) -> Answer {
    match review::read(body, |_| true) {
        Ok(review) => {
            let verdict = policies::mark(port, &review);
            log(&verdict);
            routes::answer(&review.request.uid, &verdict)
        }
        Err(unreadable) => unread(unreadable),
    }
}

async fn take_in<P: Counter>(port: &P, addressed: &Addressed, body: &[u8]) -> Answer {
    let (uid, request) = match review::read_whole(body) {
        Ok(read) => read,
        Err(unreadable) => return unread(unreadable),
    };
    let root = Value::Object(request);
    let span = info_span!(
        "intake",
        uid,
        kind = text_at(&root, &["kind", "kind"]),
        ns = text_at(&root, &["namespace"]),
        name = text_at(&root, &["name"]),
        operation = text_at(&root, &["operation"])
    );
    let Value::Object(request) = root else {
        return routes::answer(&uid, &Verdict::allow());
    };
    let verdict = resources::admit(port, addressed, request).instrument(span).await;
    routes::answer(&uid, &verdict)
}

fn unread(unreadable: Unreadable) -> Answer {
    routes::unreadable(unreadable)
}

fn log(verdict: &Verdict) {
    match &verdict.status {
        Some(status) => info!(reason = status.message, "Denied"),
        None => debug!(warnings = verdict.warnings.len(), "Allowed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let policy = |namespace: Option<&str>, name: &str| {
            let key = PolicyKey { namespace: namespace.map(str::to_owned), name: name.to_owned() };
            Destination::Resources(Addressed::Policy(key))
        };
        assert_eq!(Destination::of("/policyvalidate"), Destination::Policies);
        assert_eq!(Destination::of("/policymutate"), Destination::Mark);
        assert_eq!(Destination::of("/validate/resources"), Destination::Resources(Addressed::ClusterPolicies));
        assert_eq!(Destination::of("/validate/resources/namespaced"), Destination::Resources(Addressed::Policies));
        assert_eq!(Destination::of("/validate/fail"), Destination::Resources(Addressed::All));
        assert_eq!(Destination::of("/validate/resources/policy/a"), policy(None, "a"));
        assert_eq!(Destination::of("/validate/ignore/finegrained/a/b"), policy(Some("a"), "b"));
        for path in [
            "/validate",
            "/",
            "/validate/resources/",
            "/validate/resources/policy/",
            "/validate/resources/policy/a/b/c",
        ] {
            assert_eq!(Destination::of(path), Destination::Elsewhere, "{path}");
        }
    }
}
