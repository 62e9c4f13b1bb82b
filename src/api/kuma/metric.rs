//! MeshMetric.

use serde_json::Value;

use super::forms::{open_telemetry, policy};
use crate::api::schema::{closed, duration, flag_default, integer, list, requiring, text, with, word};

pub(super) fn spec() -> Value {
    let conf = closed(
        "How metrics are collected.",
        [("sidecar", sidecar()), ("applications", applications()), ("backends", backends())],
    );
    policy([("default", conf)])
}

fn sidecar() -> Value {
    let selectors = |description: &str| {
        let types = ["Prefix", "Regex", "Exact", "Contains"];
        let selector = closed(
            "Some metrics.",
            [("type", word("How to compare.", &types)), ("match", text("What to compare the name with."))],
        );
        list(description, requiring(selector, &["type", "match"]))
    };
    let profile = closed("One set of metrics.", [("name", word("Its name.", &["All", "Basic", "None"]))]);
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
            ("port", integer("The port of its metrics; from 1 to 65535.")),
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
            ("port", with(integer("The port; from 1 to 65535."), [("default", 5670.into())])),
            ("path", with(text("The path."), [("default", "/metrics".into())])),
            ("tls", closed("TLS on the port.", [("mode", mode)])),
        ],
    );
    let backend = closed(
        "One way to collect.",
        [
            ("type", word("Which of the others counts.", &["Prometheus", "OpenTelemetry"])),
            ("prometheus", prometheus),
            ("openTelemetry", open_telemetry([("refreshInterval", duration("How often metrics are sent."))])),
        ],
    );
    list("Where metrics go.", requiring(backend, &["type"]))
}
