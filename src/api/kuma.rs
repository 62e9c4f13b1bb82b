//! Group `kuma.io`.
//!
//! Policies have a closed schema: what it does not know the API server drops, and `writ validate` warns of. The older kinds
//! have a field for their mesh and an open content.

mod access_log;
mod circuit_breaker;
mod fault_injection;
mod forms;
mod health_check;
mod load_balancing;
mod metric;
mod passthrough;
mod proxy_patch;
mod rate_limit;
mod resources;
mod retry;
mod route;
mod timeout;
mod tls;
mod trace;
mod traffic_permission;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::definition::{Column, Definition, Scope};
use super::schema::{open, open_object, text};

const GROUP: &str = "kuma.io";
const VERSIONS: &[&str] = &["v1alpha1"];
const CATEGORIES: &[&str] = &["kuma"];
const MESH_COLUMN: &[Column] = &[Column::text("Mesh", ".mesh")];
const TARGET_COLUMNS: &[Column] =
    &[Column::text("TargetRef Kind", ".spec.targetRef.kind"), Column::text("TargetRef Name", ".spec.targetRef.name")];
const HOSTNAME_COLUMN: &[Column] = &[Column::text("Hostname", ".status.addresses[0].hostname")];
const SERVICE_COLUMNS: &[Column] = &[
    Column::text("Mesh", ".mesh"),
    Column::text("kuma.io/service", r".spec.networking.inbound[0].tags['kuma\.io/service']"),
    Column::wide_text("kuma.io/service", r".spec.networking.inbound[1].tags['kuma\.io/service']"),
];

/// All definitions of the group, in the order of their names.
pub(super) fn definitions() -> Vec<CustomResourceDefinition> {
    let mut all = kinds();
    all.sort_by_key(|definition| definition.plural);
    all.into_iter().map(Definition::build).collect()
}

/// Every kind with its schema.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    kinds().into_iter().map(|definition| (definition.kind, definition.schema)).collect()
}

fn kinds() -> Vec<Definition> {
    [policies(), services(), older()].into_iter().flatten().collect()
}

fn policies() -> Vec<Definition> {
    let policy = |kind, plural, short_names, description, spec| Definition {
        columns: TARGET_COLUMNS,
        ..newer(kind, plural, short_names, json!({"spec": spec}), description)
    };
    vec![
        policy("MeshAccessLog", "meshaccesslogs", &["mal"], "How traffic is logged.", access_log::spec()),
        policy(
            "MeshCircuitBreaker",
            "meshcircuitbreakers",
            &["mcb"],
            "Limits of what a service is given at once, and how hosts that fail are left out.",
            circuit_breaker::spec(),
        ),
        policy(
            "MeshFaultInjection",
            "meshfaultinjections",
            &["mfi"],
            "Faults made on purpose, to see how others cope.",
            fault_injection::spec(),
        ),
        policy(
            "MeshHealthCheck",
            "meshhealthchecks",
            &["mhc"],
            "How hosts are asked whether they are well.",
            health_check::spec(),
        ),
        policy("MeshHTTPRoute", "meshhttproutes", &["mhttpr"], "Where HTTP requests go, and how.", route::http()),
        policy(
            "MeshLoadBalancingStrategy",
            "meshloadbalancingstrategies",
            &["mlbs"],
            "How a host is chosen among those of a service.",
            load_balancing::spec(),
        ),
        policy("MeshMetric", "meshmetrics", &["mm"], "How metrics are collected.", metric::spec()),
        policy(
            "MeshPassthrough",
            "meshpassthroughs",
            &["mp"],
            "What may leave the mesh without a service that describes it.",
            passthrough::spec(),
        ),
        policy(
            "MeshProxyPatch",
            "meshproxypatches",
            &["mpp"],
            "Changes of the Envoy configuration that the mesh generates.",
            proxy_patch::spec(),
        ),
        policy("MeshRateLimit", "meshratelimits", &["mrl"], "How much a service lets in.", rate_limit::spec()),
        policy("MeshRetry", "meshretries", &["mr"], "When and how often what failed is tried again.", retry::spec()),
        policy("MeshTCPRoute", "meshtcproutes", &["mtcpr"], "Where TCP connections go.", route::tcp()),
        policy("MeshTimeout", "meshtimeouts", &["mt"], "How long connections and requests may take.", timeout::spec()),
        policy("MeshTLS", "meshtlses", &["mtls"], "Whether and how services insist on TLS.", tls::spec()),
        policy("MeshTrace", "meshtraces", &["mtr"], "How requests are traced.", trace::spec()),
        policy(
            "MeshTrafficPermission",
            "meshtrafficpermissions",
            &["mtp"],
            "Who may call whom.",
            traffic_permission::spec(),
        ),
    ]
}

fn services() -> Vec<Definition> {
    let service = |kind, plural, short_names, description, spec| {
        let status = open_object("What the control plane has found out: addresses, and how it is with the service.");
        Definition {
            columns: HOSTNAME_COLUMN,
            ..newer(kind, plural, short_names, json!({"spec": spec, "status": status}), description)
        }
    };
    vec![
        service("MeshService", "meshservices", &["msvc"], "A service of one zone.", resources::service()),
        service(
            "MeshExternalService",
            "meshexternalservices",
            &["extsvc"],
            "A service outside the mesh.",
            resources::external_service(),
        ),
        service(
            "MeshMultiZoneService",
            "meshmultizoneservices",
            &["mzsvc"],
            "A service of several zones.",
            resources::multi_zone_service(),
        ),
    ]
}

fn older() -> Vec<Definition> {
    let older = |kind, plural, short_names, scope, columns, description: &str, spec| Definition {
        scope,
        columns,
        ..newer(
            kind,
            plural,
            short_names,
            json!({"mesh": text("The mesh that the object belongs to."), "spec": spec}),
            description,
        )
    };
    vec![
        older(
            "Mesh",
            "meshes",
            &[],
            Scope::Cluster,
            &[],
            "A mesh: services that know and trust each other.",
            open("What holds in the whole mesh: mtls, networking, routing, meshServices and others."),
        ),
        older(
            "Dataplane",
            "dataplanes",
            &["dpp"],
            Scope::Namespaced,
            SERVICE_COLUMNS,
            "A proxy, and what it stands for.",
            open("The addresses, ports and tags of the proxy: networking with inbound, outbound and gateway."),
        ),
        older(
            "MeshGateway",
            "meshgateways",
            &["mgw"],
            Scope::Cluster,
            MESH_COLUMN,
            "Proxies at the edge, and what they listen to.",
            open("selectors: the proxies, by tag. conf.listeners: ports with protocol, hostname and tags."),
        ),
        older(
            "ProxyTemplate",
            "proxytemplates",
            &[],
            Scope::Cluster,
            MESH_COLUMN,
            "Changes the Envoy configuration that the mesh generates for the proxies it selects.",
            proxy_template(),
        ),
    ]
}

/// The content of a ProxyTemplate is open for the API server, as it always was: every check is the webhook's, so that all
/// problems of a template come back at once and none is hidden behind the first wrong type.
fn proxy_template() -> Value {
    json!({
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
    })
}

/// A namespaced kind, whose mesh is a label.
fn newer(
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    mut fields: Value,
    description: &str,
) -> Definition {
    fields["apiVersion"] = json!({"type": "string"});
    fields["kind"] = json!({"type": "string"});
    fields["metadata"] = json!({"type": "object"});
    Definition {
        group: GROUP,
        versions: VERSIONS,
        kind,
        plural,
        short_names,
        categories: CATEGORIES,
        scope: Scope::Namespaced,
        status: false,
        columns: &[],
        schema: json!({"type": "object", "description": description, "properties": fields}),
    }
}
