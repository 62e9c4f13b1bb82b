//! The targetRef policies of the mesh: one file per policy, and what they share.

pub mod admission;
pub mod migrate;
pub mod modifier;

mod access_log;
mod backend_ref;
mod caller;
mod circuit_breaker;
mod compiled;
mod datadog_url;
mod decimal;
mod fault_injection;
mod format;
mod headers;
mod health_check;
mod http_route;
mod json_patch;
mod kinds;
mod kuma3;
mod load_balancing;
mod metadata;
mod metric;
mod modification;
mod normal;
mod open_telemetry;
mod passthrough;
mod policy;
mod proxy_patch;
mod proxy_template;
mod rate_limit;
mod reach;
mod retry;
mod route_rule;
mod scalars;
mod schema;
mod tags;
mod target_ref;
mod tcp_route;
mod timeout;
mod tls;
mod trace;
mod traffic_permission;

#[cfg(test)]
mod testing;

use serde_json::Value;

use super::reader::Node;
use super::way::Ways;
use super::{Findings, Form, group_of, identify};
use crate::core::json::{Document, Json, Tree};
use crate::core::mesh::http_route::HttpRoute;
use crate::core::mesh::policy::Role;
use crate::core::mesh::proxy_patch::ProxyPatch;
use crate::core::mesh::tcp_route::TcpRoute;
use crate::core::mesh::timeout::TimeoutPolicy;
use crate::core::problem::FieldPath;
use crate::core::structural;

pub use compiled::{Compiled, compiled, resource_name};
pub use kinds::kinds;
use policy::Resource;
pub use reach::{route, unreached};

/// How a kind of group `kuma.io` is checked, besides by its schema.
struct MeshKind {
    name: &'static str,
    /// Where the content of a universal document stands.
    content: Content,
    /// `None` where there is nothing to say beyond the schema.
    check: Option<fn(&Resource<'_>, &mut Findings)>,
}

#[derive(Clone, Copy)]
enum Content {
    /// Beside `type` and `name`.
    Document,
    Spec,
}

const fn policy(name: &'static str, check: fn(&Resource<'_>, &mut Findings)) -> MeshKind {
    MeshKind { name, content: Content::Spec, check: Some(check) }
}

const fn service(name: &'static str) -> MeshKind {
    MeshKind { name, content: Content::Spec, check: None }
}

const MESH_KINDS: &[MeshKind] = &[
    MeshKind { name: "ProxyTemplate", content: Content::Document, check: Some(proxy_template::check) },
    policy("MeshHTTPRoute", |resource, findings| drop(http_route::compile(resource, findings))),
    policy("MeshTCPRoute", |resource, findings| drop(tcp_route::compile(resource, findings))),
    policy("MeshTimeout", |resource, findings| drop(timeout::compile(resource, findings))),
    policy("MeshProxyPatch", |resource, findings| drop(proxy_patch::compile::<()>(resource, findings))),
    policy("MeshTLS", tls::check),
    policy("MeshLoadBalancingStrategy", load_balancing::check),
    policy("MeshPassthrough", passthrough::check),
    policy("MeshAccessLog", access_log::check),
    policy("MeshTrace", trace::check),
    policy("MeshFaultInjection", fault_injection::check),
    policy("MeshRateLimit", rate_limit::check),
    policy("MeshTrafficPermission", traffic_permission::check),
    policy("MeshHealthCheck", health_check::check),
    policy("MeshCircuitBreaker", circuit_breaker::check),
    policy("MeshRetry", retry::check),
    policy("MeshMetric", metric::check),
    service("MeshService"),
    service("MeshExternalService"),
    service("MeshMultiZoneService"),
];

impl MeshKind {
    fn find(name: &str) -> Option<&'static Self> {
        MESH_KINDS.iter().find(|kind| kind.name == name)
    }
}

/// Whether [`check`] knows a kind of group `kuma.io`.
pub(super) fn checks(kind: &str) -> bool {
    MeshKind::find(kind).is_some()
}

/// Checks a document of one of the kinds of the mesh; `None` for any other.
pub fn check(document: Json<'_>) -> Option<Findings> {
    let identity = identify(document)?;
    let kind = MeshKind::find(identity.kind)?;
    if identity.form == Form::Kubernetes && group_of(document) != "kuma.io" {
        return None;
    }
    let structural::Findings { refused, unknown } = schema::check(kind.name, document, identity.form);
    let mut findings = Findings { schema: refused, ..Findings::default() };
    match kind.check {
        // It warns of unknown fields itself: it knows more than one spelling of some.
        Some(check) => {
            check(&resource(document, identity.form, kind.content, &Ways::default()), &mut findings);
            findings.warnings.extend(unknown.into_iter().filter(|problem| !is_content(&problem.field)));
        }
        None => findings.warnings = unknown,
    }
    Some(findings)
}

/// Whether a field stands in the content of an object, which its check reads, and not beside it.
fn is_content(field: &FieldPath) -> bool {
    let field = field.to_string();
    field.strip_prefix("spec").is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn resource<'v>(document: Json<'v>, form: Form, content: Content, ways: &'v Ways) -> Resource<'v> {
    let root = Node::new(Some(document), ways.root());
    let labels = match form {
        Form::Kubernetes => document.at(&["metadata", "labels"]),
        Form::Universal => document.get("labels"),
    };
    let role = labels.and_then(|labels| labels.get("kuma.io/policy-role")).and_then(Tree::as_text);
    // Nobody but the webhook writes the label; what it could not have written counts as if it were not there.
    let role = role.and_then(Role::parse).unwrap_or_default();
    let content = match (form, content) {
        (Form::Universal, Content::Document) => root,
        _ => root.below("spec"),
    };
    Resource { content, role }
}

/// Compiles a MeshHTTPRoute; `None` if it has errors.
pub fn http_route(document: &Value) -> (Option<HttpRoute>, Findings) {
    compile(document, http_route::compile)
}

/// Compiles a MeshTCPRoute; `None` if it has errors.
pub fn tcp_route(document: &Value) -> (Option<TcpRoute>, Findings) {
    compile(document, tcp_route::compile)
}

/// Compiles a MeshTimeout; `None` if it has errors.
pub fn timeout(document: &Value) -> (Option<TimeoutPolicy>, Findings) {
    compile(document, timeout::compile)
}

/// Compiles a MeshProxyPatch; `None` if it has errors.
pub fn proxy_patch(document: &Value) -> (Option<ProxyPatch>, Findings) {
    compile(document, proxy_patch::compile)
}

fn compile<P>(document: &Value, compile: fn(&Resource<'_>, &mut Findings) -> Option<P>) -> (Option<P>, Findings) {
    let mut findings = Findings::default();
    let Some(identity) = identify(document) else {
        return (None, findings);
    };
    findings.schema = schema::check(identity.kind, document, identity.form).refused;
    let (document, ways) = (Document::from(document), Ways::default());
    let policy = compile(&resource(document.root(), identity.form, Content::Spec, &ways), &mut findings);
    (policy.filter(|_| findings.schema.is_empty()), findings)
}
