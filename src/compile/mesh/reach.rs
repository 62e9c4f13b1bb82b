//! Policies for routes, and whether they can meet them.

use serde_json::Value;

use super::policy::Policy;
use super::record::PolicyRecord;
use crate::compile::way::Ways;
use crate::compile::{self, Findings};
use crate::core::json::{Document, Json, Tree};
use crate::core::mesh::policy::Role;
use crate::core::mesh::reach::{Reach, Route, Routes};
use crate::core::mesh::target_ref::{Pairs, ResourceRef, TargetKind, TargetRef};
use crate::core::problem::{FieldPath, Problem, Reason};
use crate::core::resource::text_at;

/// A route as far as policies for it must know it; `None` if it is none, or cannot be read.
pub fn route(document: &Value) -> Option<Route> {
    let kind = TargetKind::parse(text_at(document, &["kind"])).filter(|kind| kind.is_route())?;
    let (reach, _) = read(Document::from(document).root())?;
    let labels = document.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let labels: Pairs =
        labels.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect();
    Some(Route {
        kind,
        namespace: text_at(document, &["metadata", "namespace"]).to_owned(),
        name: text_at(document, &["metadata", "name"]).to_owned(),
        labels,
        reach,
    })
}

/// Warns of every entry for routes that no proxy of the policy has.
pub fn unreached(document: Json<'_>, routes: &Routes) -> Vec<Problem> {
    if routes.0.is_empty() {
        return Vec::new();
    }
    let Some((reach, to)) = read(document) else {
        return Vec::new();
    };
    let namespace = namespace_of(document);
    let mut warnings = Vec::new();
    for (field, kind, reference) in &to {
        let meant: Vec<&Route> = routes.meant(*kind, reference, namespace).collect();
        if meant.iter().all(|route| route.reach.excludes(&reach))
            && let Some(first) = meant.first()
        {
            let others = if meant.len() > 1 { format!(" and {} more", meant.len() - 1) } else { String::new() };
            let message = format!(
                "without effect: no proxy that this policy selects has the route {}/{}{others}, which is for other proxies",
                first.namespace, first.name
            );
            warnings.push(Problem::new(field, Reason::Suspicious, message));
        }
    }
    warnings
}

/// An entry of `to` that refers to routes.
type ToRoute = (FieldPath, TargetKind, ResourceRef);

fn read(document: Json<'_>) -> Option<(Reach, Vec<ToRoute>)> {
    let identity = compile::identify(document)?;
    let record = PolicyRecord::find(identity.kind)?;
    let ways = Ways::default();
    let resource = super::resource(document, identity.form, false, &ways);
    // Whatever is wrong is told elsewhere.
    let mut findings = Findings::default();
    let policy = Policy::read(record, &resource, &mut findings);
    let mut to = Vec::new();
    policy.each_to(&mut findings, |entry, _| {
        let field = entry.object.path.field("targetRef").told();
        match entry.reference.target.clone() {
            Some(TargetRef::MeshHttpRoute(route)) => to.push((field, TargetKind::MeshHttpRoute, route)),
            Some(TargetRef::MeshTcpRoute(route)) => to.push((field, TargetKind::MeshTcpRoute, route)),
            _ => {}
        }
    });
    let namespace = namespace_of(document);
    let is_confined = matches!(resource.role, Role::Consumer | Role::WorkloadOwner);
    let top = policy.top.target?;
    Some((Reach { top, namespace: is_confined.then(|| namespace.to_owned()) }, to))
}

fn namespace_of(document: Json<'_>) -> &str {
    document.at(&["metadata", "namespace"]).and_then(Tree::as_text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(kind: &str, role: &str, spec: Value) -> Value {
        json!({
            "apiVersion": "kuma.io/v1alpha1", "kind": kind,
            "metadata": {"name": "x", "namespace": "backend-ns", "labels": {"kuma.io/policy-role": role}}, "spec": spec,
        })
    }

    fn subset(namespace: &str) -> Value {
        json!({"kind": "MeshSubset", "tags": {"k8s.kuma.io/namespace": namespace}})
    }

    #[track_caller]
    fn check(top: Value, role: &str, expected: &[&str]) {
        let to = json!([
            {"targetRef": {"kind": "MeshService", "name": "backend"}, "default": {"http": {"requestTimeout": "1s"}}},
            {"targetRef": {"kind": "MeshHTTPRoute", "name": "x"}, "default": {"http": {"requestTimeout": "1s"}}},
            {"targetRef": {"kind": "MeshHTTPRoute", "name": "missing"}, "default": {"http": {"requestTimeout": "1s"}}},
        ]);
        let found = route(&policy("MeshHTTPRoute", "producer", json!({"targetRef": subset("frontend-ns"), "to": []})));
        let routes = Routes(vec![found.expect("a route")]);
        let document = policy("MeshTimeout", role, json!({"targetRef": top, "to": to}));
        let fields: Vec<String> = unreached(Document::from(&document).root(), &routes)
            .iter()
            .map(|problem| problem.field.to_string())
            .collect();
        assert_eq!(fields, expected);
        assert_eq!(
            unreached(Document::from(&document).root(), &Routes::default()),
            [],
            "nothing is said of routes that nobody knows"
        );
    }

    #[test]
    fn a_policy_and_a_route_for_different_proxies_never_meet() {
        check(subset("some-other-ns"), "producer", &["spec.to[1].targetRef"]);
        check(subset("frontend-ns"), "producer", &[]);
        check(json!({"kind": "Mesh"}), "producer", &[]);
        check(json!({"kind": "Mesh"}), "consumer", &["spec.to[1].targetRef"]);
    }
}
