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
mod forms;
mod headers;
mod health_check;
mod http_route;
mod json_patch;
mod kuma3;
mod load_balancing;
mod metadata;
mod metric;
mod modification;
mod normal;
mod older_route;
mod open_telemetry;
mod passthrough;
mod policy;
mod proxy_patch;
mod proxy_template;
mod rate_limit;
mod reach;
mod record;
mod resources;
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
use policy::Resource;
pub use reach::{route, unreached};
use record::MeshRecord;
pub use record::{definitions, kinds};

/// Whether [`check`] knows a kind of group `kuma.io`.
pub(super) fn checks(kind: &str) -> bool {
    MeshRecord::of_checked(kind).is_some()
}

/// Checks a document of one of the kinds of the mesh; `None` for any other.
pub fn check(document: Json<'_>) -> Option<Findings> {
    let identity = identify(document)?;
    let record = MeshRecord::of_checked(identity.kind)?;
    if identity.form == Form::Kubernetes && group_of(document) != "kuma.io" {
        return None;
    }
    let structural::Findings { refused, unknown } = schema::check(record, document, identity.form);
    let mut findings = Findings { schema: refused, ..Findings::default() };
    match record.check() {
        // It warns of unknown fields itself: it knows more than one spelling of some.
        Some(check) => {
            check(&resource(document, identity.form, record.is_older(), &Ways::default()), &mut findings);
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

/// `is_older`: in a universal document the content stands beside `type` and `name`, not below `spec`.
fn resource<'v>(document: Json<'v>, form: Form, is_older: bool, ways: &'v Ways) -> Resource<'v> {
    let root = Node::new(Some(document), ways.root());
    let labels = match form {
        Form::Kubernetes => document.at(&["metadata", "labels"]),
        Form::Universal => document.get("labels"),
    };
    let role = labels.and_then(|labels| labels.get("kuma.io/policy-role")).and_then(Tree::as_text);
    // Nobody but the webhook writes the label; what it could not have written counts as if it were not there.
    let role = role.and_then(Role::parse).unwrap_or_default();
    let content = if form == Form::Universal && is_older { root } else { root.below("spec") };
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
    if let Some(record) = MeshRecord::of_checked(identity.kind) {
        findings.schema = schema::check(record, document, identity.form).refused;
    }
    let (document, ways) = (Document::from(document), Ways::default());
    let policy = compile(&resource(document.root(), identity.form, false, &ways), &mut findings);
    (policy.filter(|_| findings.schema.is_empty()), findings)
}
