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

/// A kind of the group.
pub(super) struct Kind {
    pub(super) name: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    description: &'static str,
    content: Content,
}

/// What a kind has besides the usual, and the schema of its `spec`.
enum Content {
    Policy(fn() -> Value),
    Service(fn() -> Value),
    /// An older kind, with a field for its mesh.
    Older(Scope, &'static [Column], fn() -> Value),
}

/// All kinds of the group, in the order of their plurals.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "Dataplane",
        plural: "dataplanes",
        short_names: &["dpp"],
        description: "A proxy, and what it stands for.",
        content: Content::Older(Scope::Namespaced, SERVICE_COLUMNS, || {
            open("The addresses, ports and tags of the proxy: networking with inbound, outbound and gateway.")
        }),
    },
    Kind {
        name: "MeshAccessLog",
        plural: "meshaccesslogs",
        short_names: &["mal"],
        description: "How traffic is logged.",
        content: Content::Policy(access_log::spec),
    },
    Kind {
        name: "MeshCircuitBreaker",
        plural: "meshcircuitbreakers",
        short_names: &["mcb"],
        description: "Limits of what a service is given at once, and how hosts that fail are left out.",
        content: Content::Policy(circuit_breaker::spec),
    },
    Kind {
        name: "Mesh",
        plural: "meshes",
        short_names: &[],
        description: "A mesh: services that know and trust each other.",
        content: Content::Older(Scope::Cluster, &[], || {
            open("What holds in the whole mesh: mtls, networking, routing, meshServices and others.")
        }),
    },
    Kind {
        name: "MeshExternalService",
        plural: "meshexternalservices",
        short_names: &["extsvc"],
        description: "A service outside the mesh.",
        content: Content::Service(resources::external_service),
    },
    Kind {
        name: "MeshFaultInjection",
        plural: "meshfaultinjections",
        short_names: &["mfi"],
        description: "Faults made on purpose, to see how others cope.",
        content: Content::Policy(fault_injection::spec),
    },
    Kind {
        name: "MeshGateway",
        plural: "meshgateways",
        short_names: &["mgw"],
        description: "Proxies at the edge, and what they listen to.",
        content: Content::Older(Scope::Cluster, MESH_COLUMN, || {
            open("selectors: the proxies, by tag. conf.listeners: ports with protocol, hostname and tags.")
        }),
    },
    Kind {
        name: "MeshHealthCheck",
        plural: "meshhealthchecks",
        short_names: &["mhc"],
        description: "How hosts are asked whether they are well.",
        content: Content::Policy(health_check::spec),
    },
    Kind {
        name: "MeshHTTPRoute",
        plural: "meshhttproutes",
        short_names: &["mhttpr"],
        description: "Where HTTP requests go, and how.",
        content: Content::Policy(route::http),
    },
    Kind {
        name: "MeshLoadBalancingStrategy",
        plural: "meshloadbalancingstrategies",
        short_names: &["mlbs"],
        description: "How a host is chosen among those of a service.",
        content: Content::Policy(load_balancing::spec),
    },
    Kind {
        name: "MeshMetric",
        plural: "meshmetrics",
        short_names: &["mm"],
        description: "How metrics are collected.",
        content: Content::Policy(metric::spec),
    },
    Kind {
        name: "MeshMultiZoneService",
        plural: "meshmultizoneservices",
        short_names: &["mzsvc"],
        description: "A service of several zones.",
        content: Content::Service(resources::multi_zone_service),
    },
    Kind {
        name: "MeshPassthrough",
        plural: "meshpassthroughs",
        short_names: &["mp"],
        description: "What may leave the mesh without a service that describes it.",
        content: Content::Policy(passthrough::spec),
    },
    Kind {
        name: "MeshProxyPatch",
        plural: "meshproxypatches",
        short_names: &["mpp"],
        description: "Changes of the Envoy configuration that the mesh generates.",
        content: Content::Policy(proxy_patch::spec),
    },
    Kind {
        name: "MeshRateLimit",
        plural: "meshratelimits",
        short_names: &["mrl"],
        description: "How much a service lets in.",
        content: Content::Policy(rate_limit::spec),
    },
    Kind {
        name: "MeshRetry",
        plural: "meshretries",
        short_names: &["mr"],
        description: "When and how often what failed is tried again.",
        content: Content::Policy(retry::spec),
    },
    Kind {
        name: "MeshService",
        plural: "meshservices",
        short_names: &["msvc"],
        description: "A service of one zone.",
        content: Content::Service(resources::service),
    },
    Kind {
        name: "MeshTCPRoute",
        plural: "meshtcproutes",
        short_names: &["mtcpr"],
        description: "Where TCP connections go.",
        content: Content::Policy(route::tcp),
    },
    Kind {
        name: "MeshTimeout",
        plural: "meshtimeouts",
        short_names: &["mt"],
        description: "How long connections and requests may take.",
        content: Content::Policy(timeout::spec),
    },
    Kind {
        name: "MeshTLS",
        plural: "meshtlses",
        short_names: &["mtls"],
        description: "Whether and how services insist on TLS.",
        content: Content::Policy(tls::spec),
    },
    Kind {
        name: "MeshTrace",
        plural: "meshtraces",
        short_names: &["mtr"],
        description: "How requests are traced.",
        content: Content::Policy(trace::spec),
    },
    Kind {
        name: "MeshTrafficPermission",
        plural: "meshtrafficpermissions",
        short_names: &["mtp"],
        description: "Who may call whom.",
        content: Content::Policy(traffic_permission::spec),
    },
    Kind {
        name: "ProxyTemplate",
        plural: "proxytemplates",
        short_names: &[],
        description: "Changes the Envoy configuration that the mesh generates for the proxies it selects.",
        content: Content::Older(Scope::Cluster, MESH_COLUMN, proxy_template),
    },
];

/// The definitions of all kinds.
pub(super) fn definitions() -> impl Iterator<Item = CustomResourceDefinition> {
    KINDS.iter().map(Kind::define)
}

impl Kind {
    /// The schema of a whole object.
    pub(super) fn schema(&self) -> Value {
        let mut fields =
            json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}});
        match self.content {
            Content::Policy(spec) => fields["spec"] = spec(),
            Content::Service(spec) => {
                fields["spec"] = spec();
                fields["status"] = open_object("What the control plane has found out: addresses, and how it fares.");
            }
            Content::Older(_, _, spec) => {
                fields["spec"] = spec();
                fields["mesh"] = text("The mesh that the object belongs to.");
            }
        }
        json!({"type": "object", "description": self.description, "properties": fields})
    }

    fn define(&self) -> CustomResourceDefinition {
        let (scope, columns) = match self.content {
            Content::Policy(_) => (Scope::Namespaced, TARGET_COLUMNS),
            Content::Service(_) => (Scope::Namespaced, HOSTNAME_COLUMN),
            Content::Older(scope, columns, _) => (scope, columns),
        };
        Definition {
            group: GROUP,
            versions: VERSIONS,
            kind: self.name,
            plural: self.plural,
            short_names: self.short_names,
            categories: CATEGORIES,
            scope,
            status: false,
            columns,
            schema: self.schema(),
        }
        .build()
    }
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
