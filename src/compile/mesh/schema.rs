//! The schema of a document's kind: what an API server that has our definitions refuses before it asks anybody.

use super::record::MeshRecord;
use crate::compile::Form;
use crate::core::json::Tree;
use crate::core::problem::FieldPath;
use crate::core::structural::Findings;

/// Checks a document by the CRD of its kind.
pub(super) fn check<'v>(record: MeshRecord, document: impl Tree<'v>, form: Form) -> Findings {
    let (root, spec) = (FieldPath::root(), FieldPath::root().field("spec"));
    let schema = record.object_schema();
    match form {
        Form::Kubernetes => schema.check(document, &root),
        Form::Universal => {
            let content = document.get("spec").filter(|content| !content.is_null());
            let found = content.zip(schema.property("spec")).map(|(content, schema)| schema.check(content, &spec));
            found.unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::yaml;

    /// What the schema of a policy refuses in this content, each as path and class, in any order.
    #[track_caller]
    fn refuses(kind: &str, spec: &str, expected: &[&str]) {
        let record = MeshRecord::of_checked(kind).expect(kind);
        let spec = yaml::read_value(spec).expect("a test writes YAML");
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        let object = json!({"apiVersion": "kuma.io/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
        let universal = json!({"type": kind, "mesh": "default", "name": "x", "spec": spec});
        for (document, form) in [(object, Form::Kubernetes), (universal, Form::Universal)] {
            let refused = check(record, &document, form).refused;
            let mut found: Vec<_> =
                refused.iter().map(|problem| format!("{} {}", problem.field, problem.reason.as_str())).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{kind} {form:?}: {spec}");
        }
    }

    #[test]
    fn every_kind_has_a_schema_that_can_be_read() {
        for record in MeshRecord::all() {
            assert!(record.object_schema().property("spec").is_some(), "{}", record.kind());
        }
    }

    #[test]
    fn whole_numbers_have_32_bits() {
        refuses(
            "MeshRetry",
            "{to: [{targetRef: {kind: Mesh}, default: {http: {numRetries: 2147483648}, tcp: {maxConnectAttempt: 1.0}}}]}",
            &["spec.to[0].default.http.numRetries RANGE"],
        );
    }

    #[test]
    fn references() {
        refuses(
            "MeshTimeout",
            "{targetRef: {kind: '', proxyTypes: [Sidecar, Zone]}, to: [{}, {targetRef: {kind: Route}}, \
             {targetRef: {labels: {a: 1}, tags: {b: true}}}], rules: [{matches: [{spiffeID: {type: Regex}}]}]}",
            &[
                "spec.targetRef.kind KIND",
                "spec.targetRef.proxyTypes[1] ENUM",
                "spec.to[0].targetRef REQ",
                "spec.to[1].targetRef.kind KIND",
                "spec.to[2].targetRef.kind REQ",
                "spec.to[2].targetRef.labels[\"a\"] FORMAT",
                "spec.to[2].targetRef.tags[\"b\"] FORMAT",
                "spec.rules[0].matches[0].spiffeID.type ENUM",
                "spec.rules[0].matches[0].spiffeID.value REQ",
            ],
        );
    }

    #[test]
    fn confs_that_must_be_there() {
        for (kind, refused) in [
            ("MeshFaultInjection", &["spec.rules[0].default REQ"][..]),
            ("MeshTrafficPermission", &["spec.rules[0].default REQ"]),
            ("MeshAccessLog", &["spec.rules[0].default REQ"]),
            ("MeshTLS", &[]),
            ("MeshTimeout", &[]),
            ("MeshRateLimit", &[]),
        ] {
            refuses(kind, "{rules: [{}]}", refused);
        }
        refuses("MeshAccessLog", "{to: [{targetRef: {kind: Mesh}}]}", &["spec.to[0].default REQ"]);
        refuses("MeshProxyPatch", "{}", &["spec.default REQ"]);
        refuses("MeshTrace", "{}", &[]);
    }

    #[test]
    fn limits_of_single_policies() {
        refuses(
            "MeshTrafficPermission",
            "{from: [{targetRef: {kind: Mesh}, default: {action: ALLOW}}], rules: [{default: {allow: [{spiffeID: {type: X, value: v}}]}}]}",
            &["spec.from[0].default.action ENUM", "spec.rules[0].default.allow[0].spiffeID.type ENUM"],
        );
        refuses(
            "MeshTrace",
            "{default: {backends: [{type: Zipkin}, {type: Jaeger}]}}",
            &["spec.default.backends RANGE", "spec.default.backends[1].type ENUM"],
        );
        refuses(
            "MeshTLS",
            "{rules: [{default: {tlsCiphers: [ECDHE-RSA-AES128-GCM-SHA256, RC4], mode: strict, tlsVersion: {min: TLS9}}}]}",
            &[
                "spec.rules[0].default.tlsCiphers[1] ENUM",
                "spec.rules[0].default.mode ENUM",
                "spec.rules[0].default.tlsVersion.min ENUM",
            ],
        );
        refuses(
            "MeshProxyPatch",
            "{default: {appendModifications: [{virtualHost: {operation: Add}}, {route: {operation: remove}}, \
             {cluster: {operation: AddFirst, value: {name: x}, jsonPatches: [{op: test, path: /a, value: null}]}}]}}",
            &[
                "spec.default.appendModifications[0].virtualHost.match REQ",
                "spec.default.appendModifications[2].cluster.operation ENUM",
                "spec.default.appendModifications[2].cluster.jsonPatches[0].op ENUM",
            ],
        );
        refuses("MeshTCPRoute", "{to: []}", &["spec.to EMPTY"]);
        refuses("MeshTCPRoute", "{}", &[]);
        refuses(
            "MeshTCPRoute",
            "{to: [{targetRef: {kind: Mesh}}, {targetRef: {kind: Mesh}, rules: []}, {targetRef: {kind: Mesh}, rules: [{}, {}]}, \
             {targetRef: {kind: Mesh}, default: {rules: [{}, {}]}}]}",
            &["spec.to[0].rules REQ", "spec.to[2].rules RANGE", "spec.to[3].default.rules RANGE"],
        );
    }

    #[test]
    fn matches_of_routes() {
        let check = |matches: &str, expected: &[&str]| {
            let spec = format!("{{to: [{{targetRef: {{kind: Mesh}}, rules: [{{matches: {matches}}}]}}]}}");
            let expected: Vec<_> =
                expected.iter().map(|finding| format!("spec.to[0].rules[0].matches{finding}")).collect();
            refuses("MeshHTTPRoute", &spec, &expected.iter().map(String::as_str).collect::<Vec<_>>());
        };
        check("[]", &[]);
        check(
            "[{method: FETCH, path: {type: Glob, value: ''}, headers: [{name: A, type: Like}, {}, {name: ''}], queryParams: [{}]}]",
            &[
                "[0].method ENUM",
                "[0].path.type ENUM",
                "[0].path.value EMPTY",
                "[0].headers[0].name FORMAT",
                "[0].headers[0].type ENUM",
                "[0].headers[1].name REQ",
                "[0].headers[2].name EMPTY",
                "[0].queryParams[0].type REQ",
                "[0].queryParams[0].name REQ",
                "[0].queryParams[0].value REQ",
            ],
        );
        check(&format!("[{{headers: [{{name: {}}}]}}]", "a".repeat(257)), &["[0].headers[0].name RANGE"]);
        check("[{path: {}}]", &["[0].path.type REQ", "[0].path.value REQ"]);
        check("{path: {prefix: ''}, methods: [GET, FETCH]}", &[".path.prefix EMPTY", ".methods[1] ENUM"]);
        check("[{path: {type: Prefix, value: /}}, {path: {regex: x}}]", &[]);
    }

    #[test]
    fn filters_of_routes() {
        let check = |filter: &str, expected: &[&str]| {
            let spec =
                format!("{{to: [{{targetRef: {{kind: Mesh}}, rules: [{{default: {{filters: [{filter}]}}}}]}}]}}");
            let expected: Vec<_> =
                expected.iter().map(|finding| format!("spec.to[0].rules[0].default.filters[0]{finding}")).collect();
            refuses("MeshHTTPRoute", &spec, &expected.iter().map(String::as_str).collect::<Vec<_>>());
        };
        check("{type: ExtensionRef}", &[".type ENUM"]);
        check(
            "{requestRedirect: {scheme: ftp, hostname: '', port: 0, statusCode: 300, path: {type: X}}}",
            &[
                ".requestRedirect.scheme ENUM",
                ".requestRedirect.hostname EMPTY",
                ".requestRedirect.port RANGE",
                ".requestRedirect.statusCode ENUM",
                ".requestRedirect.path.type ENUM",
            ],
        );
        check(&format!("{{urlRewrite: {{hostname: {}, path: /x}}}}", "a".repeat(254)), &[".urlRewrite.hostname RANGE"]);
        check("{urlRewrite: {hostname: A.b}}", &[".urlRewrite.hostname FORMAT"]);
        let headers =
            |number: usize| (0..number).map(|n| format!("{{name: x{n}, value: v}}")).collect::<Vec<_>>().join(", ");
        check(&format!("{{requestHeaderModifier: {{set: [{}]}}}}", headers(16)), &[]);
        check(&format!("{{requestHeader: {{add: [{}]}}}}", headers(17)), &[".requestHeader.add RANGE"]);
        check(
            "{responseHeaderModifier: {set: [{name: a, value: b}, {name: a, value: c}]}}",
            &[".responseHeaderModifier.set[1] DUP"],
        );
        check(
            "{requestMirror: {percentage: 1.5, backendRef: {kind: Backend, weight: -1}}}",
            &[
                ".requestMirror.percentage FORMAT",
                ".requestMirror.backendRef.kind KIND",
                ".requestMirror.backendRef.weight RANGE",
            ],
        );
    }

    #[test]
    fn older_kinds_have_a_mesh_and_an_open_content() {
        let object = json!({"apiVersion": "kuma.io/v1alpha1", "kind": "ProxyTemplate", "mesh": 1, "spec": {"conf": 5}});
        let refused =
            check(MeshRecord::of_checked("ProxyTemplate").expect("a record"), &object, Form::Kubernetes).refused;
        assert_eq!(refused.iter().map(|problem| problem.field.to_string()).collect::<Vec<_>>(), ["mesh"]);
    }
}
