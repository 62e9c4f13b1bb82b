//! MeshTCPRoute.

use super::policy::{Policy, Resource};
use super::{backend_ref, route_rule};
use crate::compile::Findings;
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{GATEWAYS, MESH, PROXIES_AND_SERVICES, SERVICES};
use crate::core::mesh::kind::{MergeRule, PolicyKind};
use crate::core::mesh::tcp_route::{TcpRoute, TcpRouteTo};
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        to: true,
        destinations: SERVICES,
        merge: MergeRule::TcpRoutes,
        ..policy_kind(200, "MeshTCPRoute", "mtcpr", "meshtcproutes")
    },
    description: "Where TCP connections go.",
    places: Places {
        top_of_system: GATEWAYS,
        listener_tags: true,
        to_below: Some((GATEWAYS, MESH)),
        ..Places::at_top(PROXIES_AND_SERVICES)
    },
    spec: schema::spec,
    check: |resource, findings| drop(compile(resource, findings)),
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

/// Compiles the content; `None` if there are errors.
pub(in crate::compile) fn compile(resource: &Resource<'_>, findings: &mut Findings) -> Option<TcpRoute> {
    let before = findings.errors.len();
    let policy = Policy::read(&RECORD, resource, findings);
    let mut to = Vec::new();
    policy.each_to(findings, |entry, findings| {
        let rules = route_rule::read_list(entry, findings);
        let mut backends = Vec::new();
        for rule in rules {
            let list = rule.part("backendRefs", findings);
            rule.finish(findings);
            if !list.is_filled() {
                findings.refuse(list.path, Reason::Required, "required: where the connections go");
            }
            let read = backend_ref::read_list(&list, None, findings);
            if backends.is_empty() {
                backends = read;
            }
        }
        to.extend(entry.reference.target.clone().map(|target| TcpRouteTo { target, backends }));
    });
    let target = policy.finish(findings)?;
    (findings.errors.len() == before).then_some(TcpRoute { target, to })
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use crate::api::schema::{closed, list, with};
    use crate::compile::mesh::forms::policy;
    use crate::compile::mesh::route_rule::schema::{backends, destination};

    pub(in crate::compile::mesh) fn spec() -> Value {
        let backends = || backends("Where the connections go.");
        let rule = closed(
            "The rule.",
            [("default", closed("What to do.", [("backendRefs", backends())])), ("backendRefs", backends())],
        );
        let to = list("Connections, by destination.", destination(rule, [], Some(1)));
        policy([("to", with(to, [("minItems", 1.into())]))])
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, document, refuses, refuses_below};
    use crate::compile::mesh;
    use crate::core::mesh::backend::BackendRef;
    use crate::core::mesh::target_ref::{ResourceRef, TargetRef};

    const TO: &str = "targetRef: {kind: MeshService, labels: {a: b}}";

    #[test]
    fn backends_are_needed() {
        accepts("MeshTCPRoute", "{}", &[]);
        accepts("MeshTCPRoute", &format!("{{to: [{{{TO}, rules: []}}]}}"), &[]);
        for rule in ["{}", "{default: {}}", "{default: {backendRefs: []}}"] {
            refuses(
                "MeshTCPRoute",
                &format!("{{to: [{{{TO}, rules: [{rule}]}}]}}"),
                &["spec.to[0].rules[0].default.backendRefs REQ"],
            );
        }
    }

    #[test]
    fn backends() {
        let check = |backend: &str, expected: &[&str]| {
            let spec = format!("{{to: [{{{TO}, rules: [{{default: {{backendRefs: [{backend}]}}}}]}}]}}");
            refuses_below("spec.to[0].rules[0].default.backendRefs[0]", "MeshTCPRoute", &spec, expected);
        };
        check("{kind: MeshService, name: a, weight: 0, port: 70000}", &[]);
        check("{kind: MeshMultiZoneService, name: a}", &[".port REQ"]);
        check("{kind: MeshServiceSubset, tags: {v: '1'}}", &[".name REQ"]);
        check("{kind: Mesh}", &[".kind KIND"]);
        check("{kind: MeshService, name: kuma.io/unresolved-backend}", &[".name FORMAT"]);
        check("{kind: MeshService, name: a, weight: -1}", &[".weight FORMAT"]);
    }

    #[test]
    fn the_engine_gets_weights() {
        let spec = format!(
            "{{to: [{{{TO}, rules: [{{default: {{backendRefs: [{{kind: MeshExternalService, labels: {{c: d}}}}]}}}}]}}]}}"
        );
        let (route, _) = mesh::tcp_route(&document("MeshTCPRoute", &spec));
        let labels = [("c".to_owned(), "d".to_owned())].into();
        let target = TargetRef::MeshExternalService(ResourceRef::Labelled(labels));
        let expected = BackendRef { target, weight: 1, port: None };
        assert_eq!(route.expect("nothing is wrong").to[0].backends, [expected]);
    }
}
