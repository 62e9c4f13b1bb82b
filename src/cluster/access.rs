//! Access reviews: may somebody do something, as the API server sees it at this moment. Answers are never remembered.

use serde_json::{Value, json};

use super::{Api, ClusterError};
use crate::core::access::{Access, Subject};
use crate::core::resource::text_at;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Whether somebody may do something.
pub async fn allows(api: &Api, who: &Subject, access: &Access) -> Result<bool, ClusterError> {
    let answer = api.raw(REVIEWS, Some(&question(who, access).to_string())).await?;
    Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
}

/// The user that this program is to the API server.
pub async fn own_name(api: &Api) -> Result<String, ClusterError> {
    let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = api.raw(SELF, Some(&question.to_string())).await?;
    Ok(text_at(&answer, &["status", "userInfo", "username"]).to_owned())
}

fn question(who: &Subject, access: &Access) -> Value {
    let Access { verb, group, resource, subresource, namespace, name, path } = access;
    let mut spec = json!({"user": who.user, "groups": who.groups});
    if !who.uid.is_empty() {
        spec["uid"] = who.uid.as_str().into();
    }
    if !who.extra.is_empty() {
        spec["extra"] = json!(who.extra);
    }
    if !path.is_empty() {
        spec["nonResourceAttributes"] = json!({"verb": verb, "path": path});
        return review(spec);
    }
    let mut attributes = json!({"verb": verb, "group": group, "version": "*", "resource": resource});
    for (field, value) in [("subresource", subresource), ("namespace", namespace), ("name", name)] {
        if !value.is_empty() {
            attributes[field] = value.as_str().into();
        }
    }
    spec["resourceAttributes"] = attributes;
    review(spec)
}

fn review(spec: Value) -> Value {
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn all_namespaces_are_asked_for_by_naming_none() {
        let access = Access { verb: "create".into(), resource: "secrets".into(), ..Access::default() };
        let who = Subject { user: "jane".into(), groups: vec!["devs".into()], ..Subject::default() };
        assert_eq!(
            question(&who, &access)["spec"],
            json!({"user": "jane", "groups": ["devs"],
                   "resourceAttributes": {"verb": "create", "group": "", "version": "*", "resource": "secrets"}})
        );
    }

    #[test]
    fn the_whole_user_is_asked_about() {
        let extra = BTreeMap::from([("example.org/tenant".to_owned(), vec!["a".to_owned()])]);
        let who = Subject { user: "jane".into(), uid: "u".into(), groups: Vec::new(), extra };
        let access = Access { verb: "get".into(), path: "/version".into(), ..Access::default() };
        assert_eq!(
            question(&who, &access)["spec"],
            json!({"user": "jane", "uid": "u", "groups": [], "extra": {"example.org/tenant": ["a"]},
                   "nonResourceAttributes": {"verb": "get", "path": "/version"}})
        );
    }
}
