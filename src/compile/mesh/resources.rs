//! The resources that policies refer to.

use serde_json::{Value, json};

use super::forms::tls_version;
use super::record::{RecordContent, RecordSchemas, ResourceRecord};
use crate::api::definition::{Column, Scope};
use crate::api::schema::{
    closed, flag_default, int32, list, map, number_or_text, open, open_object, requiring, text, with, word,
};

const PROTOCOLS: &[&str] = &["tcp", "grpc", "http", "http2"];

const MESH_COLUMN: &[Column] = &[Column::text("Mesh", ".mesh")];
const PROXY_COLUMNS: &[Column] = &[
    Column::text("Mesh", ".mesh"),
    Column::text("kuma.io/service", r".spec.networking.inbound[0].tags['kuma\.io/service']"),
    Column::wide_text("kuma.io/service", r".spec.networking.inbound[1].tags['kuma\.io/service']"),
];

pub(super) static MESH: ResourceRecord = older(
    ("Mesh", "meshes", &[]),
    "A mesh: services that know and trust each other.",
    RecordContent::Older(Scope::Cluster, &[], || {
        open("What holds in the whole mesh: mtls, networking, routing, meshServices and others.")
    }),
);

pub(super) static DATAPLANE: ResourceRecord = older(
    ("Dataplane", "dataplanes", &["dpp"]),
    "A proxy, and what it stands for.",
    RecordContent::Older(Scope::Namespaced, PROXY_COLUMNS, || {
        open("The addresses, ports and tags of the proxy: networking with inbound, outbound and gateway.")
    }),
);

pub(super) static GATEWAY: ResourceRecord = older(
    ("MeshGateway", "meshgateways", &["mgw"]),
    "Proxies at the edge, and what they listen to.",
    RecordContent::Older(Scope::Cluster, MESH_COLUMN, || {
        open("selectors: the proxies, by tag. conf.listeners: ports with protocol, hostname and tags.")
    }),
);

pub(super) static SERVICE: ResourceRecord =
    service_record(("MeshService", "meshservices", &["msvc"]), "A service of one zone.", service);

pub(super) static EXTERNAL_SERVICE: ResourceRecord = service_record(
    ("MeshExternalService", "meshexternalservices", &["extsvc"]),
    "A service outside the mesh.",
    external_service,
);

pub(super) static MULTI_ZONE_SERVICE: ResourceRecord = service_record(
    ("MeshMultiZoneService", "meshmultizoneservices", &["mzsvc"]),
    "A service of several zones.",
    multi_zone_service,
);

/// Kind, plural and short names.
type Names = (&'static str, &'static str, &'static [&'static str]);

/// A kind that has a CRD and is not checked.
const fn older(
    (kind, plural, short_names): Names,
    description: &'static str,
    content: RecordContent,
) -> ResourceRecord {
    let schemas = RecordSchemas::new();
    ResourceRecord { kind, plural, short_names, description, content, check: None, is_checked: false, schemas }
}

/// A kind that is checked by its schema alone.
const fn service_record(
    (kind, plural, short_names): Names,
    description: &'static str,
    spec: fn() -> Value,
) -> ResourceRecord {
    let content = RecordContent::Service(spec);
    let schemas = RecordSchemas::new();
    ResourceRecord { kind, plural, short_names, description, content, check: None, is_checked: true, schemas }
}

/// MeshService.
fn service() -> Value {
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
fn multi_zone_service() -> Value {
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
fn external_service() -> Value {
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
