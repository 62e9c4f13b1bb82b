//! The targetRef policies of the mesh: one file per policy, and what they share.

pub(super) mod access_log;
pub mod admission;
pub(super) mod circuit_breaker;
pub(super) mod fault_injection;
pub(super) mod health_check;
pub(super) mod http_route;
pub(super) mod kuma3;
pub(super) mod load_balancing;
pub(super) mod metric;
pub(super) mod passthrough;
pub(super) mod proxy_patch;
pub(super) mod rate_limit;
pub(super) mod retry;
pub(super) mod tcp_route;
pub(super) mod timeout;
pub(super) mod tls;
pub(super) mod trace;
pub(super) mod traffic_permission;

mod backend_ref;
mod caller;
mod compiled;
mod datadog_url;
mod headers;
mod kinds;
mod normal;
mod older_route;
mod open_telemetry;
mod policy;
mod reach;
mod route_rule;

#[cfg(test)]
mod testing;

use serde_json::Value;

use super::way::Ways;
use super::{Content, Findings, identify, resource, schema};
use crate::core::json::Document;
use crate::core::mesh::http_route::HttpRoute;
use crate::core::mesh::proxy_patch::ProxyPatch;
use crate::core::mesh::tcp_route::TcpRoute;
use crate::core::mesh::timeout::TimeoutPolicy;

pub use compiled::{Compiled, compiled, resource_name};
pub use kinds::kinds;
pub(super) use policy::Resource;
pub use reach::{route, unreached};

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
