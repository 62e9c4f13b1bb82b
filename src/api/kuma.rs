//! Group `kuma.io`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use super::definition::{Column, Definition, Scope};

const MESH_COLUMN: &[Column] = &[Column::text("Mesh", ".mesh")];

/// ProxyTemplate. Its content is open for the API server, as it always was: every check is the webhook's, so that all
/// problems of a template come back at once and none is hidden behind the first wrong type.
pub(super) fn proxy_template() -> CustomResourceDefinition {
    let open = |description: &str| json!({"description": description, "x-kubernetes-preserve-unknown-fields": true});
    Definition {
        group: "kuma.io",
        versions: &["v1alpha1"],
        kind: "ProxyTemplate",
        plural: "proxytemplates",
        short_names: &[],
        categories: &[],
        scope: Scope::Cluster,
        status: false,
        columns: MESH_COLUMN,
        schema: json!({
            "description": "Changes the Envoy configuration that the mesh generates for the proxies it selects.",
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "mesh": {"type": "string", "description": "The mesh whose proxies are meant."},
                "spec": {
                    "type": "object",
                    "description": "Which proxies, and what to change in their configuration.",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {
                        "selectors": open(
                            "List of {match: {tag: value}}: a proxy is selected when one of its inbounds carries all tags of \
                             one entry; `*` matches any value. kuma.io/service is mandatory in each entry."),
                        "conf": open(
                            "imports: profiles to generate (default-proxy, gateway-proxy, ingress-proxy, egress-proxy). \
                             modifications: list of changes, run in order; each entry has exactly one of cluster, listener, \
                             route, virtualHost, httpFilter, networkFilter with operation, match, and value (Envoy YAML as \
                             text or inline) or jsonPatches."),
                    },
                },
            },
        }),
    }
    .build()
}
