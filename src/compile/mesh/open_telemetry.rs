//! The OpenTelemetry backend of logs, traces and metrics: an endpoint written inline, or a reference to a backend.

use crate::compile::Findings;
use crate::compile::mesh::format::is_host_and_port;
use crate::compile::reader::Object;
use crate::core::problem::Reason;

pub(super) const BACKEND_KINDS: &[&str] = &["MeshOpenTelemetryBackend"];

/// What an endpoint must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Host,
    HostAndPort,
}

/// Checks the address of the backend.
pub(super) fn check(object: &Object<'_>, form: Endpoint, findings: &mut Findings) {
    let (endpoint, backend) = (object.get("endpoint"), object.get("backendRef"));
    if endpoint.is_filled() == backend.is_present() {
        findings.refuse(object.path, Reason::Xor, "exactly one of endpoint, backendRef");
        return;
    }
    if endpoint.is_filled() {
        let address = endpoint.text(findings).unwrap_or_default();
        if address.contains(['/', '?', '#']) {
            let message = "malformed: a host and a port such as otel-collector:4317, without scheme and path";
            findings.refuse(endpoint.path, Reason::Format, message);
        } else if form == Endpoint::HostAndPort && !is_host_and_port(&address) {
            findings.refuse(endpoint.path, Reason::Format, "malformed: a host and a port such as otel-collector:4317");
        }
        let message = "deprecated: describe the collector in a MeshOpenTelemetryBackend and name it in backendRef";
        findings.warn(endpoint.path, Reason::Deprecated, message);
        return;
    }
    let reference = backend.object(findings);
    let (kind, labels) = (reference.get("kind"), reference.get("labels"));
    reference.warn_of_unknown(findings);
    kind.word(BACKEND_KINDS, findings);
    if !labels.is_filled() {
        findings.refuse(backend.path, Reason::Xor, "labels that select the backend are needed");
    }
}
