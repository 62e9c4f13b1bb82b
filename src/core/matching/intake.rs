//! What an operator keeps away from all rules: resource filters and excluded users of the configuration.

use super::request::Candidate;
use super::{KindSelector, Request, Requester, Resource};
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::scalar::wildcard;

/// `[kind,namespace,name]` triples. What one of them matches is nobody's trigger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceFilters(Vec<ResourceFilter>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceFilter {
    kind: KindSelector,
    namespace: String,
    name: String,
}

/// Requesters that trigger nothing. An entry that starts with `!` lets them in again, whatever else excludes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExcludedUsers {
    pub usernames: UserPatterns,
    pub groups: UserPatterns,
    pub roles: UserPatterns,
    pub cluster_roles: UserPatterns,
}

/// One list of the configuration, split by the `!`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserPatterns {
    excluded: Vec<String>,
    included: Vec<String>,
}

/// Work items and reports of the policy engine itself never trigger rules.
pub fn is_internal_kind(kind: &str) -> bool {
    const INTERNAL: [&str; 5] = [
        "AdmissionReport",
        "ClusterAdmissionReport",
        "BackgroundScanReport",
        "ClusterBackgroundScanReport",
        "UpdateRequest",
    ];
    INTERNAL.contains(&kind)
}

impl ResourceFilters {
    /// Reads a sequence of `[kind,namespace,name]`; text between the triples is ignored, trailing parts may be absent and
    /// are then empty. A triple that cannot be read is reported and left out.
    pub fn parse(text: &str, path: &FieldPath, problems: &mut Vec<Problem>) -> Self {
        let mut filters = Vec::new();
        for triple in brackets(text) {
            let parts: Vec<&str> = triple.split(',').map(str::trim).collect();
            match (KindSelector::parse(parts[0]), parts.len()) {
                (Some(kind), 1..=3) => {
                    let part = |index: usize| parts.get(index).copied().unwrap_or_default().to_owned();
                    filters.push(ResourceFilter { kind, namespace: part(1), name: part(2) });
                }
                _ => {
                    let message = format!("`[{triple}]` is not a filter such as [Pod,kube-system,*]");
                    problems.push(Problem::new(path, Reason::Format, message));
                }
            }
        }
        Self(filters)
    }

    /// Whether an object, given by its resource, namespace and name, is filtered.
    pub fn matches(&self, resource: &Resource<'_>, namespace: &str, name: &str) -> bool {
        // A Namespace is in itself as far as filters are concerned.
        let itself = (resource.group, resource.version, resource.kind) == ("", "v1", "Namespace");
        self.0.iter().any(|filter| {
            filter.kind.matches(resource)
                && ((wildcard::matches(&filter.namespace, namespace) && wildcard::matches(&filter.name, name))
                    || (itself && wildcard::matches(&filter.namespace, name)))
        })
    }

    /// Whether the new or the old object of a request is filtered.
    pub fn matches_request(&self, request: &Request<'_>) -> bool {
        [request.object, request.old_object].into_iter().any(|object| {
            Candidate::new(request, object)
                .is_some_and(|candidate| self.matches(&request.resource, candidate.namespace(), candidate.name()))
        })
    }
}

/// The insides of all pairs of brackets that hold no brackets themselves.
fn brackets(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(']').filter_map(|part| part.strip_suffix(']')?.rsplit_once('[').map(|(_, inside)| inside))
}

impl ExcludedUsers {
    pub fn exclude(&self, requester: &Requester) -> bool {
        let any = |pick: fn(&UserPatterns) -> &[String]| {
            let hit =
                |list: &UserPatterns, text: &str| pick(list).iter().any(|pattern| wildcard::matches(pattern, text));
            hit(&self.usernames, &requester.username)
                || requester.groups.iter().any(|group| hit(&self.groups, group))
                || requester.roles.iter().any(|role| hit(&self.roles, role))
                || requester.cluster_roles.iter().any(|role| hit(&self.cluster_roles, role))
        };
        !any(|list| &list.included) && any(|list| &list.excluded)
    }
}

impl UserPatterns {
    /// Reads patterns separated by commas.
    pub fn parse(text: &str) -> Self {
        let mut patterns = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match entry.strip_prefix('!') {
                Some(entry) => patterns.included.push(entry.trim().to_owned()),
                None => patterns.excluded.push(entry.to_owned()),
            }
        }
        patterns
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    const DEPLOYMENT: Resource<'_> = Resource { group: "apps", version: "v1", kind: "Deployment", subresource: "" };
    const NAMESPACE: Resource<'_> = Resource { group: "", version: "v1", kind: "Namespace", subresource: "" };

    fn parse(text: &str) -> ResourceFilters {
        let mut problems = Vec::new();
        let filters = ResourceFilters::parse(text, &FieldPath::root(), &mut problems);
        assert_eq!(problems, []);
        filters
    }

    #[test]
    fn filters_are_triples() {
        #[track_caller]
        fn check(filters: &str, resource: Resource<'_>, namespace: &str, name: &str, expected: bool) {
            assert_eq!(parse(filters).matches(&resource, namespace, name), expected, "{filters}");
        }
        check("[*,kube-system,*]", DEPLOYMENT, "kube-system", "a", true);
        check("[*,kube-system,*]", DEPLOYMENT, "default", "a", false);
        check("[Event,*,*][Deployment,*,a*]", DEPLOYMENT, "default", "abc", true);
        check("[Event,*,*]\n[ apps/v1/Deployment , * , a* ]", DEPLOYMENT, "default", "abc", true);
        check("[Deployment]", DEPLOYMENT, "default", "a", false);
        check("[Deployment]", DEPLOYMENT, "", "", true);
        check("[Deployment,default]", DEPLOYMENT, "default", "a", false);
        check("[*,kube-system,*]", NAMESPACE, "", "kube-system", true);
        check("[Deployment,kube-system,*]", NAMESPACE, "", "kube-system", false);
        check("[Deployment/*,*,*]", Resource { subresource: "scale", ..DEPLOYMENT }, "a", "b", true);
        check("", DEPLOYMENT, "", "", false);
        check("] [Deployment,*,*]", DEPLOYMENT, "a", "b", true);
        check("[[Deployment,*,*", DEPLOYMENT, "a", "b", false);
    }

    #[test]
    fn a_bad_triple_is_left_out() {
        let mut problems = Vec::new();
        let filters =
            ResourceFilters::parse("[a,b,c,d][][Deployment,*,*]", &FieldPath::root().field("f"), &mut problems);
        assert_eq!(filters, parse("[Deployment,*,*]"));
        assert_eq!(problems.len(), 2);
        assert_eq!(problems[0].to_string(), "f: `[a,b,c,d]` is not a filter such as [Pod,kube-system,*]");
    }

    #[test]
    fn either_object_of_a_request_is_enough() {
        let object = json!({"metadata": {"namespace": "kube-system", "name": "a"}});
        let mut request = Request {
            resource: DEPLOYMENT,
            operation: None,
            namespace: "",
            object: None,
            old_object: Some(&object),
            requester: None,
            namespace_labels: None,
        };
        assert!(parse("[*,kube-system,*]").matches_request(&request));
        request.old_object = None;
        assert!(!parse("[*,kube-system,*]").matches_request(&request));
    }

    #[test]
    fn inclusions_win() {
        let users = ExcludedUsers {
            usernames: UserPatterns::parse("system:node:*, !system:node:special"),
            groups: UserPatterns::parse("system:nodes"),
            roles: UserPatterns::default(),
            cluster_roles: UserPatterns::parse("ops-*"),
        };
        let requester = |username: &str, group: &str, cluster_role: &str| Requester {
            username: username.into(),
            groups: vec![group.into()],
            roles: BTreeSet::new(),
            cluster_roles: BTreeSet::from([cluster_role.into()]),
        };
        assert!(users.exclude(&requester("system:node:a", "", "")));
        assert!(!users.exclude(&requester("system:node:special", "system:nodes", "")));
        assert!(users.exclude(&requester("jane", "system:nodes", "")));
        assert!(users.exclude(&requester("jane", "devs", "ops-admin")));
        assert!(!users.exclude(&requester("jane", "devs", "view")));
    }

    #[test]
    fn own_kinds_are_internal() {
        assert!(is_internal_kind("UpdateRequest"));
        assert!(!is_internal_kind("ConfigMap"));
    }
}
