//! MeshProxyPatch: modifications of the finished Envoy configuration.

use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::modification::{self, Keep};
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{GATEWAYS, PROXIES_AND_SERVICES};
use crate::core::envoy::modification::Dialect;
use crate::core::mesh::kind::PolicyKind;
use crate::core::mesh::proxy_patch::ProxyPatch;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind { single: true, ..policy_kind(9999, "MeshProxyPatch", "mpp", "meshproxypatches") },
    description: "Changes of the Envoy configuration that the mesh generates.",
    places: Places { top_of_system: GATEWAYS, ..Places::at_top(PROXIES_AND_SERVICES) },
    spec: schema::spec,
    check: |resource, findings| drop(compile::<()>(resource, findings)),
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

/// Compiles the content; `None` if there are errors.
pub(in crate::compile) fn compile<D: Keep>(resource: &Resource<'_>, findings: &mut Findings) -> Option<ProxyPatch<D>> {
    let before = findings.errors.len();
    let policy = Policy::read(&RECORD, resource, findings);
    let conf = policy.spec.get("default").object(findings);
    let list = conf.get("appendModifications");
    conf.warn_of_unknown(findings);
    if !list.is_filled() {
        findings.refuse(list.path, Reason::Empty, "may not be empty");
    }
    let modifications = modification::read_list(&list, Dialect::MeshProxyPatch, findings);
    let target = policy.finish(findings)?;
    (findings.errors.len() == before).then_some(ProxyPatch { target, modifications })
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use crate::api::schema::{closed, list, map, open, requiring, text, with, word};
    use crate::compile::mesh::forms::policy;
    use crate::compile::mesh::json_patch::OPERATIONS;

    /// The spelling of this kind comes first; that of ProxyTemplate is understood as well.
    const RESOURCE_OPERATIONS: &[&str] = &["Add", "Remove", "Patch", "add", "remove", "patch"];
    const FILTER_OPERATIONS: &[&str] = &[
        "AddFirst",
        "AddLast",
        "AddBefore",
        "AddAfter",
        "Remove",
        "Patch",
        "addFirst",
        "addLast",
        "addBefore",
        "addAfter",
        "remove",
        "patch",
    ];

    type Field = (&'static str, Value);

    pub(in crate::compile::mesh) fn spec() -> Value {
        let modification = closed(
            "One change: exactly one of these.",
            [
                ("cluster", change("A change of clusters.", RESOURCE_OPERATIONS, criteria([]))),
                ("listener", change("A change of listeners.", RESOURCE_OPERATIONS, criteria([tags("tags")]))),
                ("route", change("A change of route configurations.", RESOURCE_OPERATIONS, criteria([]))),
                ("virtualHost", virtual_host()),
                ("networkFilter", change("A change of network filters.", FILTER_OPERATIONS, filter_criteria())),
                ("httpFilter", change("A change of HTTP filters.", FILTER_OPERATIONS, filter_criteria())),
            ],
        );
        let conf = closed(
            "What is changed in the finished configuration of Envoy.",
            [(
                "appendModifications",
                list("Changes, run in order; each sees what those before it made.", modification),
            )],
        );
        requiring(policy([("default", conf)]), &["default"])
    }

    fn virtual_host() -> Value {
        let configuration = ("routeConfigurationName", text("The name of the route configuration that it is in."));
        let change = change("A change of virtual hosts.", RESOURCE_OPERATIONS, criteria([configuration]));
        requiring(change, &["operation", "match"])
    }

    fn change(description: &str, operations: &[&str], criteria: Value) -> Value {
        let change = closed(
            description,
            [
                ("operation", word("What is done.", operations)),
                ("match", criteria),
                ("value", open("What is added or merged: an Envoy document, as YAML text or inline.")),
                ("jsonPatches", list("Changes by JSON patch, instead of value, with Patch.", json_patch())),
            ],
        );
        requiring(change, &["operation"])
    }

    fn criteria(fields: impl IntoIterator<Item = Field>) -> Value {
        let common = [
            ("name", text("Its name.")),
            ("origin", text("What it was made for: inbound, outbound, gateway, prometheus and others.")),
            ("side", text("Another word for origin.")),
        ];
        closed("What is changed: all that is given must fit.", common.into_iter().chain(fields))
    }

    fn filter_criteria() -> Value {
        criteria([
            ("type", text("Another word for name.")),
            ("listenerName", text("The name of the listener that it is in.")),
            tags("listenerTags"),
        ])
    }

    fn tags(name: &'static str) -> Field {
        (name, map("Tags of the listener, in its metadata under io.kuma.tags; `*` matches any value."))
    }

    fn json_patch() -> Value {
        let patch = closed(
            "One step.",
            [
                ("op", word("What is done.", OPERATIONS)),
                ("path", text("Where: a JSON pointer.")),
                ("from", text("Where from, with move and copy.")),
                // Null is a value like any other; the API server would take it for nothing.
                ("value", with(open("What, with add and replace."), [("nullable", true.into())])),
            ],
        );
        requiring(patch, &["op", "path"])
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{document, refuses, refuses_below};
    use crate::compile::mesh;
    use crate::core::envoy::modification::{FilterChange, Modification};

    #[track_caller]
    fn check(modification: &str, expected: &[&str]) {
        let spec = format!("{{default: {{appendModifications: [{modification}]}}}}");
        refuses_below("spec.default.appendModifications[0]", "MeshProxyPatch", &spec, expected);
    }

    #[test]
    fn a_list_is_needed() {
        refuses("MeshProxyPatch", "{}", &["spec.default.appendModifications EMPTY"]);
        refuses("MeshProxyPatch", "{default: {appendModifications: []}}", &["spec.default.appendModifications EMPTY"]);
        check("{}", &[" XOR"]);
        check("{cluster: {operation: Remove}, listener: {operation: Remove}}", &[" XOR"]);
    }

    #[test]
    fn operations_of_either_case() {
        check("{cluster: {operation: Remove}}", &[]);
        check("{cluster: {operation: remove}}", &[]);
        check("{cluster: {operation: AddFirst}}", &[".cluster.operation ENUM"]);
        check("{httpFilter: {operation: Add}}", &[".httpFilter.operation ENUM"]);
    }

    #[test]
    fn matches_fit_the_operation() {
        check("{cluster: {operation: Add, match: {}, value: 'name: x'}}", &[".cluster.match FORBID"]);
        check(
            "{virtualHost: {operation: Add, match: {name: a}, value: '{name: x, domains: [x]}'}}",
            &[".virtualHost.match.name FORBID"],
        );
        check("{virtualHost: {operation: Add, match: {}, value: '{name: x, domains: [x]}'}}", &[]);
        check("{networkFilter: {operation: Patch, value: '{}'}}", &[".networkFilter.match.name REQ"]);
        check("{networkFilter: {operation: AddBefore, match: {name: ''}, value: 'name: x'}}", &[]);
        check(
            "{httpFilter: {operation: AddLast, match: {name: a}, value: 'name: x'}}",
            &[".httpFilter.match.name FORBID"],
        );
    }

    #[test]
    fn values() {
        check("{cluster: {operation: Add}}", &[".cluster.value REQ"]);
        check("{cluster: {operation: Add, value: '{'}}", &[".cluster.value ENVOY"]);
        check("{cluster: {operation: Remove, value: 'name: x'}}", &[".cluster.value FORBID"]);
        check("{cluster: {operation: Remove, jsonPatches: []}}", &[".cluster.jsonPatches FORBID"]);
        check("{cluster: {operation: Patch}}", &[".cluster XOR"]);
        check("{cluster: {operation: Patch, value: '', jsonPatches: []}}", &[]);
        check("{cluster: {operation: Patch, value: 'name: x', jsonPatches: [{op: test}]}}", &[".cluster XOR"]);
        check(
            "{cluster: {operation: Patch, jsonPatches: [{op: test, path: /a}, {op: add, path: /a, value: null}]}}",
            &[".cluster.jsonPatches[0].op ENUM"],
        );
    }

    #[test]
    fn types_that_nobody_knows() {
        let filter = |config: &str| {
            format!("{{httpFilter: {{operation: AddFirst, value: {{name: x, typedConfig: {config}}}}}}}")
        };
        check(&filter("{'@type': t/no.Such}"), &[".httpFilter.value ENVOY"]);
        check(&filter("{'@type': t/udpa.type.v1.TypedStruct}"), &[".httpFilter.value ENVOY"]);
        check(&filter("t/envoy.extensions.filters.http.router.v3.Router"), &[".httpFilter.value ENVOY"]);
        check(&filter("{'@type': t/envoy.extensions.filters.http.gzip.v3.Gzip}"), &[]);
        check(&filter("{'@type': t/xds.type.v3.TypedStruct}"), &[]);
    }

    #[test]
    fn all_of_a_json_patch_is_judged() {
        check(
            "{cluster: {operation: Patch, jsonPatches: [{op: test, value: 1}]}}",
            &[
                ".cluster.jsonPatches[0].op ENUM",
                ".cluster.jsonPatches[0].path REQ",
                ".cluster.jsonPatches[0].value CTX",
            ],
        );
    }

    #[test]
    fn tags_have_names() {
        check("{listener: {operation: Remove, match: {tags: {'': a}}}}", &[".listener.match.tags EMPTY"]);
        check(
            "{httpFilter: {operation: Remove, match: {listenerTags: {'': a}}}}",
            &[".httpFilter.match.listenerTags EMPTY"],
        );
    }

    #[test]
    fn an_empty_criterion_is_compared() {
        let spec =
            "{default: {appendModifications: [{httpFilter: {operation: Remove, match: {name: '', origin: inbound}}}]}}";
        let (patch, _) = mesh::proxy_patch(&document("MeshProxyPatch", spec));
        let patch = patch.expect("nothing is wrong");
        let [Modification::Filter { criteria, change: FilterChange::Remove, .. }] = patch.modifications.as_slice()
        else {
            panic!("one removal")
        };
        assert_eq!(criteria.name.as_deref(), Some(""));
        assert_eq!(criteria.origin.as_deref(), Some("inbound"));
        assert_eq!(criteria.listener_name, None);
    }
}
