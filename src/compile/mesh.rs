//! The targetRef policies of the mesh: one file per policy, and what they share.

pub(super) mod access_log;
pub mod admission;
pub(super) mod circuit_breaker;
pub(super) mod fault_injection;
pub(super) mod health_check;
pub(super) mod http_route;
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
mod datadog_url;
mod headers;
pub(super) mod kuma3;
mod open_telemetry;
mod policy;
mod route_rule;

pub(super) use policy::Resource;
