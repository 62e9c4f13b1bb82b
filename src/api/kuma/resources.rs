//! The resources that policies refer to.

use serde_json::{Value, json};

use super::forms::tls_version;
use crate::api::schema::{
    closed, flag_default, int32, list, map, number_or_text, open, open_object, requiring, text, with, word,
};

const PROTOCOLS: &[&str] = &["tcp", "grpc", "http", "http2"];

/// MeshService.
pub(super) fn service() -> Value {
    let state = with(
        word("Whether any proxy of it is healthy.", &["Available", "Unavailable"]),
        [("default", "Unavailable".into())],
    );
    let selector = closed(
        "The proxies of the service.",
        [
            ("dataplaneTags", map("Tags of their inbounds.")),
            ("dataplaneRef", closed("One proxy.", [("name", text("Its name."))])),
            ("dataplane", closed("Proxies by label.", [("matchLabels", map("Labels that they carry."))])),
        ],
    );
    let identity = closed(
        "One identity.",
        [("type", word("What it is.", &["ServiceTag", "SpiffeID"])), ("value", text("The identity."))],
    );
    closed(
        "Which proxies the service consists of.",
        [
            ("state", state),
            ("selector", selector),
            ("ports", ports()),
            ("identities", list("Who the service is when it calls.", requiring(identity, &["type", "value"]))),
        ],
    )
}

fn ports() -> Value {
    let port = closed(
        "One port.",
        [
            ("name", text("Its name; left out, its number.")),
            ("port", int32("The number.")),
            ("targetPort", number_or_text("The port of the proxy's inbound, by number or name.")),
            ("appProtocol", with(text("What is spoken."), [("default", "tcp".into())])),
        ],
    );
    with(
        list("The ports of the service.", requiring(port, &["port"])),
        [("x-kubernetes-list-type", "map".into()), ("x-kubernetes-list-map-keys", json!(["port", "appProtocol"]))],
    )
}

/// MeshMultiZoneService.
pub(super) fn multi_zone_service() -> Value {
    let services = closed("By label.", [("matchLabels", map("Labels that they carry."))]);
    let selector =
        closed("The services that it consists of.", [("meshService", requiring(services, &["matchLabels"]))]);
    let spec = closed(
        "Which services of which zones are one.",
        [("selector", requiring(selector, &["meshService"])), ("ports", with(ports(), [("minItems", 1.into())]))],
    );
    requiring(spec, &["selector"])
}

/// MeshExternalService.
pub(super) fn external_service() -> Value {
    let traffic = closed(
        "The traffic that is meant.",
        [
            ("type", with(word("How it is known.", &["HostnameGenerator"]), [("default", "HostnameGenerator".into())])),
            ("port", port("The port that callers use.")),
            ("protocol", with(word("What is spoken.", PROTOCOLS), [("default", "tcp".into())])),
        ],
    );
    let priority = with(
        int32("Used when those with lower numbers are unhealthy."),
        [("minimum", 0.into()), ("maximum", 128.into())],
    );
    let endpoint = closed(
        "One address.",
        [
            ("address", with(text("A domain or an IP address."), [("minLength", 1.into())])),
            ("port", port("Its port.")),
            ("priority", priority),
        ],
    );
    let extension = closed(
        "Where the addresses come from, if not from endpoints.",
        [("type", text("The extension.")), ("config", open("Its configuration."))],
    );
    let spec = closed(
        "What the service is, and where.",
        [
            ("match", requiring(traffic, &["port"])),
            ("endpoints", list("Where the traffic goes.", requiring(endpoint, &["address", "port"]))),
            ("extension", requiring(extension, &["type"])),
            ("tls", tls()),
        ],
    );
    requiring(spec, &["match"])
}

fn port(description: &str) -> Value {
    with(int32(description), [("minimum", 1.into()), ("maximum", 65535.into())])
}

fn tls() -> Value {
    let source = |description: &str| {
        open_object(&format!("{description}: {{secret}}, {{inline}}, {{inlineString}}, or {{type}} with its body."))
    };
    let modes = ["SkipSAN", "SkipCA", "Secured", "SkipAll"];
    let name = closed(
        "One name.",
        [
            ("type", with(word("How to compare.", &["Exact", "Prefix"]), [("default", "Exact".into())])),
            ("value", text("What to compare with.")),
        ],
    );
    let verification = closed(
        "What is demanded of the server.",
        [
            ("mode", with(word("What is looked at.", &modes), [("default", "Secured".into())])),
            ("serverName", text("The name that is asked for.")),
            ("subjectAltNames", list("Names that its certificate may have.", requiring(name, &["value"]))),
            ("caCert", source("The authority of its certificate")),
            ("clientCert", source("The certificate that is shown to it")),
            ("clientKey", source("The key of that")),
        ],
    );
    closed(
        "TLS that the proxy speaks on behalf of callers.",
        [
            ("enabled", flag_default("Whether it does.", false)),
            ("version", tls_version()),
            ("allowRenegotiation", flag_default("Whether a session may be negotiated anew; unsafe.", false)),
            ("verification", verification),
        ],
    )
}
