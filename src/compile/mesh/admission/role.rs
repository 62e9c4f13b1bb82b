//! The role of a policy follows from where it is and what its `to` refers to.

use crate::core::json::{Json, Tree};
use crate::core::mesh::policy::Role;
use crate::core::mesh::target_ref::TargetKind;
use crate::core::problem::{FieldPath, Problem, Reason};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoleError {
    #[error("a policy outside the system namespace may have `to` or `from`, not both: make two policies of it")]
    ToAndFrom,
    #[error(
        "`to` has entries for services of this namespace and for others: make a policy of the first (a producer) and \
         one of the others (a consumer)"
    )]
    Mixed,
}

impl RoleError {
    /// The same as a finding in the policy.
    pub(super) fn problem(&self) -> Problem {
        let spec = FieldPath::root().field("spec");
        match self {
            Self::ToAndFrom => Problem::new(&spec, Reason::Xor, self.to_string()),
            Self::Mixed => Problem::new(spec.field("to"), Reason::Context, self.to_string()),
        }
    }
}

/// The role of a policy in `namespace`; empty for a policy without one.
pub fn role(policy: Json<'_>, namespace: &str, system_namespace: &str) -> Result<Role, RoleError> {
    if namespace.is_empty() || namespace == system_namespace {
        return Ok(Role::System);
    }
    let list = |name: &str| policy.at(&["spec", name]).into_iter().flat_map(Tree::items);
    let entries = list("to").count();
    if entries == 0 {
        return Ok(Role::WorkloadOwner);
    }
    if list("from").next().is_some() {
        return Err(RoleError::ToAndFrom);
    }
    let produced = list("to").filter(|entry| is_produced_in(*entry, namespace)).count();
    match produced {
        0 => Ok(Role::Consumer),
        all if all == entries => Ok(Role::Producer),
        _ => Err(RoleError::Mixed),
    }
}

/// Whether the entry names a service or route of the namespace itself.
fn is_produced_in(entry: Json<'_>, namespace: &str) -> bool {
    let field = |name: &str| entry.at(&["targetRef", name]).and_then(Tree::as_text).unwrap_or_default();
    let kind = TargetKind::parse(field("kind"));
    let owned = kind.is_some_and(|kind| kind == TargetKind::MeshService || kind.is_route());
    owned && !field("name").is_empty() && (field("namespace").is_empty() || field("namespace") == namespace)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::core::json::Document;

    #[track_caller]
    fn check(spec: Value, namespace: &str, expected: Result<Role, RoleError>) {
        let policy = json!({"spec": spec});
        assert_eq!(role(Document::from(&policy).root(), namespace, "kuma-system"), expected, "{spec}");
    }

    #[test]
    fn roles_follow_from_place_and_destinations() {
        let own = json!({"targetRef": {"kind": "MeshService", "name": "backend"}});
        let named = json!({"targetRef": {"kind": "MeshHTTPRoute", "name": "route", "namespace": "shop"}});
        let foreign = json!({"targetRef": {"kind": "MeshService", "name": "backend", "namespace": "other"}});
        let labelled = json!({"targetRef": {"kind": "MeshService", "labels": {"app": "backend"}}});
        let mesh = json!({"targetRef": {"kind": "Mesh"}});

        check(json!({"to": [own, mesh]}), "kuma-system", Ok(Role::System));
        check(json!({"to": [own, mesh]}), "", Ok(Role::System));
        check(json!({}), "shop", Ok(Role::WorkloadOwner));
        check(json!({"from": [mesh]}), "shop", Ok(Role::WorkloadOwner));
        check(json!({"rules": [{}]}), "shop", Ok(Role::WorkloadOwner));
        check(json!({"to": [own, named]}), "shop", Ok(Role::Producer));
        check(json!({"to": [foreign]}), "shop", Ok(Role::Consumer));
        check(json!({"to": [labelled, mesh]}), "shop", Ok(Role::Consumer));
        check(json!({"to": [own, mesh]}), "shop", Err(RoleError::Mixed));
        check(json!({"to": [own], "from": [mesh]}), "shop", Err(RoleError::ToAndFrom));
    }
}
