//! MeshMetric.

use super::open_telemetry::{self, Endpoint};
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::format::regex_error;
use crate::compile::mesh::record::{FilledValue, PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::scalars::UINT32;
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{GATEWAYS, PROXIES_AND_SERVICES};
use crate::compile::reader::Node;
use crate::core::mesh::kind::PolicyKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind { single: true, ..policy_kind(1500, "MeshMetric", "mm", "meshmetrics") },
    description: "How metrics are collected.",
    places: Places { top_of_system: GATEWAYS, listener_tags: true, ..Places::at_top(PROXIES_AND_SERVICES) },
    spec: schema::spec,
    check,
    filled_in: &[("backends.*.openTelemetry.endpoint", FilledValue::EmptyText)],
    schemas: RecordSchemas::new(),
};

const PROFILES: &[&str] = &["All", "Basic", "None"];
const SELECTOR_TYPES: &[&str] = &["Prefix", "Regex", "Exact", "Contains"];
const BACKEND_TYPES: &[&str] = &["Prometheus", "OpenTelemetry"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
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
        profile.get("name").word(PROFILES, findings);
        profile.warn_of_unknown(findings);
    }
    for list in ["include", "exclude"] {
        for selector in profiles.get(list).list(findings) {
            let selector = selector.object(findings);
            let kind = selector.get("type").word(SELECTOR_TYPES, findings);
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
    let kind = backend.get("type").word(BACKEND_TYPES, findings);
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

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use super::{BACKEND_TYPES, PROFILES, SELECTOR_TYPES};
    use crate::api::schema::{closed, duration, flag_default, int32, list, requiring, text, with, word};
    use crate::compile::mesh::forms::{open_telemetry, policy};

    pub(in crate::compile::mesh) fn spec() -> Value {
        let conf = closed(
            "How metrics are collected.",
            [("sidecar", sidecar()), ("applications", applications()), ("backends", backends())],
        );
        policy([("default", conf)])
    }

    fn sidecar() -> Value {
        let selectors = |description: &str| {
            let selector = closed(
                "Some metrics.",
                [("type", word("How to compare.", SELECTOR_TYPES)), ("match", text("What to compare the name with."))],
            );
            list(description, requiring(selector, &["type", "match"]))
        };
        let profile = closed("One set of metrics.", [("name", word("Its name.", PROFILES))]);
        let profiles = closed(
            "Which of them are published.",
            [
                ("appendProfiles", list("Sets that are taken together.", requiring(profile, &["name"]))),
                ("exclude", selectors("What is left out of them.")),
                ("include", selectors("What is taken in after all.")),
            ],
        );
        closed(
            "Metrics of the proxy itself.",
            [
                ("profiles", profiles),
                ("includeUnused", flag_default("Whether metrics that never changed are told.", false)),
            ],
        )
    }

    fn applications() -> Value {
        let path = with(text("The path of its metrics."), [("default", "/metrics".into())]);
        let application = closed(
            "One application.",
            [
                ("name", text("A name for its metrics.")),
                ("path", path),
                ("address", text("The address that it listens on.")),
                ("port", int32("The port of its metrics; from 1 to 65535.")),
            ],
        );
        list("Applications beside the proxy whose metrics are told as well.", requiring(application, &["port"]))
    }

    fn backends() -> Value {
        let modes = ["Disabled", "ProvidedTLS", "ActiveMTLSBackend"];
        let mode = with(word("Whose certificates are used.", &modes), [("default", "Disabled".into())]);
        let prometheus = closed(
            "A port for Prometheus.",
            [
                ("clientId", text("The Prometheus that it is for, when it discovers proxies from the control plane.")),
                ("port", with(int32("The port; from 1 to 65535."), [("default", 5670.into())])),
                ("path", with(text("The path."), [("default", "/metrics".into())])),
                ("tls", closed("TLS on the port.", [("mode", mode)])),
            ],
        );
        let backend = closed(
            "One way to collect.",
            [
                ("type", word("Which of the others counts.", BACKEND_TYPES)),
                ("prometheus", prometheus),
                ("openTelemetry", open_telemetry([("refreshInterval", duration("How often metrics are sent."))])),
            ],
        );
        list("Where metrics go.", requiring(backend, &["type"]))
    }
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
