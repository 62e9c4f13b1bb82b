//! MeshMetric.

use super::open_telemetry::{self, Endpoint};
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::format::regex_error;
use crate::compile::mesh::scalars::UINT32;
use crate::compile::reader::Node;
use crate::core::mesh::policy::PolicyKind;
use crate::core::problem::Reason;

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(PolicyKind::Metric, resource, findings);
    let conf = policy.spec.get("default").object(findings);
    let (sidecar, applications, backends) = (conf.get("sidecar"), conf.get("applications"), conf.get("backends"));
    conf.warn_of_unknown(findings);
    check_sidecar(&sidecar, findings);
    for application in applications.list(findings) {
        let application = application.object(findings);
        application.knows(&["name", "path", "address"]);
        check_port(&application.get("port"), findings);
        application.warn_of_unknown(findings);
    }
    for backend in backends.list(findings) {
        check_backend(&backend, findings);
    }
    policy.finish(findings);
}

fn check_port(port: &Node<'_>, findings: &mut Findings) {
    if port.is_present() {
        port.bounded_integer(UINT32, 1..=65535, findings);
    } else {
        findings.refuse(port.path, Reason::Range, "a port within [1,65535] is needed");
    }
}

fn check_sidecar(sidecar: &Node<'_>, findings: &mut Findings) {
    let sidecar = sidecar.object(findings);
    sidecar.get("includeUnused").flag(findings);
    let profiles = sidecar.get("profiles").object(findings);
    sidecar.warn_of_unknown(findings);
    for profile in profiles.get("appendProfiles").list(findings) {
        let profile = profile.object(findings);
        profile.get("name").word(&["All", "Basic", "None"], findings);
        profile.warn_of_unknown(findings);
    }
    for list in ["include", "exclude"] {
        for selector in profiles.get(list).list(findings) {
            let selector = selector.object(findings);
            let kind = selector.get("type").word(&["Regex", "Prefix", "Exact", "Contains"], findings);
            let pattern = selector.get("match");
            selector.warn_of_unknown(findings);
            let text = pattern.text(findings).unwrap_or_default();
            if kind == Some("Regex")
                && let Some(error) = regex_error(&text)
            {
                findings.refuse(pattern.path, Reason::Format, format!("malformed: {error}"));
            }
        }
    }
    profiles.warn_of_unknown(findings);
}

fn check_backend(backend: &Node<'_>, findings: &mut Findings) {
    let backend = backend.object(findings);
    let (prometheus, telemetry) = (backend.get("prometheus"), backend.get("openTelemetry"));
    let kind = backend.get("type").word(&["Prometheus", "OpenTelemetry"], findings);
    backend.warn_of_unknown(findings);
    let body = match kind {
        Some("Prometheus") => prometheus,
        Some(_) => telemetry,
        None => return,
    };
    if !body.is_present() {
        findings.refuse(body.path, Reason::Required, "required: the body that belongs to the type");
        return;
    }
    let body = body.object(findings);
    if kind == Some("Prometheus") {
        body.knows(&["clientId", "path", "tls"]);
        let port = body.get("port");
        // Left out, it is the schema's default.
        if port.is_present() {
            check_port(&port, findings);
        }
    } else {
        body.get("refreshInterval").duration(findings);
        open_telemetry::check(&body, Endpoint::HostAndPort, findings);
    }
    body.warn_of_unknown(findings);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, refuses_below};

    #[track_caller]
    fn check(conf: &str, expected: &[&str]) {
        refuses_below("spec.default.", "MeshMetric", &format!("{{default: {conf}}}"), expected);
    }

    #[test]
    fn ports() {
        accepts("MeshMetric", "{}", &[]);
        check(
            "{applications: [{port: 1}, {port: 0}, {}]}",
            &["applications[1].port RANGE", "applications[2].port RANGE"],
        );
        check("{backends: [{type: Prometheus, prometheus: {port: 65536}}]}", &["backends[0].prometheus.port RANGE"]);
        check("{backends: [{type: Prometheus, prometheus: {}}]}", &[]);
    }

    #[test]
    fn backends() {
        check(
            "{backends: [{type: Prometheus}, {type: OpenTelemetry}, {type: Influx}]}",
            &["backends[0].prometheus REQ", "backends[1].openTelemetry REQ", "backends[2].type ENUM"],
        );
        check(
            "{backends: [{type: OpenTelemetry, openTelemetry: {endpoint: collector}}]}",
            &["backends[0].openTelemetry.endpoint FORMAT"],
        );
    }

    #[test]
    fn profiles() {
        check(
            "{sidecar: {profiles: {appendProfiles: [{name: Some}], include: [{type: Glob}], exclude: [{type: Regex, match: '('}]}}}",
            &[
                "sidecar.profiles.appendProfiles[0].name ENUM",
                "sidecar.profiles.include[0].type ENUM",
                "sidecar.profiles.exclude[0].match FORMAT",
            ],
        );
    }
}
