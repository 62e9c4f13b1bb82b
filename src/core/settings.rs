//! What operators set in the ConfigMap of the install, with the names that Kyverno gave them.

use serde_json::{Map, Value};

use super::matching::{ExcludedUsers, ResourceFilters, UserPatterns};
use super::problem::{FieldPath, Problem};

/// The settings in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Objects that set nothing off.
    pub resource_filters: ResourceFilters,
    /// Requesters whose requests set nothing off.
    pub excluded_users: ExcludedUsers,
    /// Whether successes become events, too.
    pub success_events: bool,
}

/// What is left alone unless somebody says otherwise: the cluster's own machinery.
const FILTERS: &str = "\
    [*/*,kube-system,*][*/*,kube-public,*][*/*,kube-node-lease,*]\
    [Event,*,*][Node,*,*][Node/?*,*,*][APIService,*,*][APIService/?*,*,*]\
    [TokenReview,*,*][SubjectAccessReview,*,*][SelfSubjectAccessReview,*,*][LocalSubjectAccessReview,*,*]\
    [Binding,*,*][Pod/binding,*,*][ReplicaSet,*,*][ReplicaSet/?*,*,*]\
    [UpdateRequest,*,*][Lease,*,*]";
const EXCLUDED_GROUPS: &str = "system:nodes";

impl Settings {
    /// Reads the `data` of the ConfigMap. What cannot be read is a problem and left out.
    pub fn read(data: &Map<String, Value>, own_namespace: &str, problems: &mut Vec<Problem>) -> Self {
        let text = |key: &str| data.get(key).and_then(Value::as_str);
        let path = FieldPath::root().field("data").field("resourceFilters");
        let filters = format!("{}[*/*,{own_namespace},*]", text("resourceFilters").unwrap_or(FILTERS));
        let patterns = |key: &str, default: &str| UserPatterns::parse(text(key).unwrap_or(default));
        Self {
            resource_filters: ResourceFilters::parse(&filters, &path, problems),
            excluded_users: ExcludedUsers {
                usernames: patterns("excludeUsernames", ""),
                groups: patterns("excludeGroups", EXCLUDED_GROUPS),
                roles: patterns("excludeRoles", ""),
                cluster_roles: patterns("excludeClusterRoles", ""),
            },
            success_events: text("generateSuccessEvents") == Some("true"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::matching::Resource;

    fn read(data: Value) -> Settings {
        let mut problems = Vec::new();
        let settings = Settings::read(data.as_object().expect("an object"), "writ-system", &mut problems);
        assert_eq!(problems, []);
        settings
    }

    fn filters(settings: &Settings, kind: &str, namespace: &str, name: &str) -> bool {
        let resource = Resource { group: "", version: "v1", kind, subresource: "" };
        settings.resource_filters.matches(&resource, namespace, name)
    }

    #[test]
    fn the_machinery_is_left_alone() {
        let settings = read(json!({}));
        assert!(filters(&settings, "Secret", "kube-system", "a"));
        assert!(filters(&settings, "Namespace", "", "kube-system"));
        assert!(filters(&settings, "Secret", "writ-system", "a"));
        assert!(!filters(&settings, "Secret", "default", "a"));
        assert!(!settings.success_events);
    }

    #[test]
    fn operators_say_otherwise() {
        let settings = read(json!({"resourceFilters": "[Secret,*,a*]", "generateSuccessEvents": "true"}));
        assert!(filters(&settings, "Secret", "default", "abc"));
        assert!(!filters(&settings, "Secret", "kube-system", "b"));
        assert!(filters(&settings, "Secret", "writ-system", "b"), "its own namespace stays out in any case");
        assert!(settings.success_events);
    }
}
