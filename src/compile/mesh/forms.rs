//! Forms that several mesh policies share.

use serde_json::{Value, json};

use super::caller::{SNI_TYPES, SPIFFE_TYPES};
use super::open_telemetry::BACKEND_KINDS;
use super::target_ref::PROXY_TYPES;
use super::tls::VERSIONS;
use crate::api::schema::{closed, int32, list, map, requiring, text, with, word};

/// The kinds that a reference can name. Which of them a place takes is decided at admission.
const KINDS: &[&str] = &[
    "Mesh",
    "MeshSubset",
    "MeshGateway",
    "MeshService",
    "MeshExternalService",
    "MeshMultiZoneService",
    "MeshServiceSubset",
    "MeshHTTPRoute",
    "MeshTCPRoute",
    "Dataplane",
];

pub(super) const HEADER_TEST_TYPES: &[&str] = &["Exact", "Present", "RegularExpression", "Absent", "Prefix"];

/// Whether an entry of a list must have its conf.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Conf {
    Required,
    Optional,
}

type Field = (&'static str, Value);

/// The content of a policy: the proxies that it is for, and the rest.
pub(super) fn policy(fields: impl IntoIterator<Item = Field>) -> Value {
    let proxies = target_ref("The proxies that the policy is for; left out, all of the mesh.");
    closed("What the policy says.", [("targetRef", proxies)].into_iter().chain(fields))
}

/// `to`: outgoing traffic, by destination.
pub(super) fn to(conf: Value, need: Conf) -> Field {
    let entry = entry("Traffic to some destinations.", "The destinations.", conf, need);
    ("to", list("What holds for outgoing traffic, by destination.", entry))
}

/// `from`: incoming traffic, by caller.
pub(super) fn from(conf: Value, need: Conf) -> Field {
    let entry = entry("Traffic from some callers.", "The callers.", conf, need);
    ("from", list("What holds for incoming traffic, by caller. Deprecated: use rules.", entry))
}

fn entry(description: &str, who: &str, conf: Value, need: Conf) -> Value {
    let fields: &[&str] = if need == Conf::Required { &["targetRef", "default"] } else { &["targetRef"] };
    requiring(closed(description, [("targetRef", target_ref(who)), ("default", conf)]), fields)
}

/// `rules`: incoming traffic.
pub(super) fn rules(conf: Value, need: Conf) -> Field {
    ("rules", rule_list([("default", conf)], need))
}

/// `rules`: incoming traffic, by who calls.
pub(super) fn matching_rules(conf: Value, need: Conf) -> Field {
    let matches = callers("Whom the rule is for: one of these must fit. Left out, everybody.");
    ("rules", rule_list([("matches", matches), ("default", conf)], need))
}

fn rule_list(fields: impl IntoIterator<Item = Field>, need: Conf) -> Value {
    let rule = closed("One rule.", fields);
    let rule = if need == Conf::Required { requiring(rule, &["default"]) } else { rule };
    list("What holds for incoming traffic.", rule)
}

/// Matches of callers by identity and server name.
pub(super) fn callers(description: &str) -> Value {
    let spiffe_id = closed(
        "By the SPIFFE ID of the caller.",
        [
            ("type", word("Whether the value is the whole ID, or its beginning.", SPIFFE_TYPES)),
            ("value", text("A SPIFFE ID such as spiffe://trust.domain/ns/backend/sa/default.")),
        ],
    );
    let sni = closed(
        "By the server name that the caller asks for.",
        [("type", word("How to compare.", SNI_TYPES)), ("value", text("The server name."))],
    );
    list(
        description,
        closed(
            "One kind of caller; all that is given must fit.",
            [("spiffeID", requiring(spiffe_id, &["type", "value"])), ("sni", requiring(sni, &["type", "value"]))],
        ),
    )
}

/// A reference to proxies, services or routes.
pub(super) fn target_ref(description: &str) -> Value {
    requiring(closed(description, target_fields()), &["kind"])
}

/// A reference to a service that traffic goes to.
pub(super) fn backend_ref(description: &str) -> Value {
    let mut fields = target_fields();
    let weight = json!({
        "type": "integer", "minimum": 0, "default": 1,
        "description": "The share of the traffic, in relation to the weights of the others; 0 is none.",
    });
    fields.extend([("weight", weight), ("port", int32("The port of the service."))]);
    requiring(closed(description, fields), &["kind"])
}

fn target_fields() -> Vec<Field> {
    let proxy_type = word("A type of proxy.", PROXY_TYPES);
    vec![
        ("kind", word("The kind of what is meant.", KINDS)),
        ("name", text("Its name.")),
        ("namespace", text("Its namespace; left out, that of the policy.")),
        ("labels", map("Labels that it carries, instead of name and namespace.")),
        ("sectionName", text("A part of it: a port by name or number.")),
        ("tags", map("Tags that it carries, with kinds MeshSubset, MeshServiceSubset and MeshGateway.")),
        ("mesh", text("Reserved.")),
        ("proxyTypes", list("The types of proxies that are meant; left out, both.", proxy_type)),
    ]
}

/// The name of a header that is compared with: Envoy has them in lower case.
pub(super) fn header_name(description: &str) -> Value {
    token(&format!("{description} In lower case."), r"^[a-z0-9!#$%&'*+\-.^_\x60|~]+$")
}

fn token(description: &str, pattern: &str) -> Value {
    with(text(description), [("minLength", 1.into()), ("maxLength", 256.into()), ("pattern", pattern.into())])
}

/// Matches of headers.
pub(super) fn header_matches(description: &str) -> Value {
    let kind = with(word("How to compare.", HEADER_TEST_TYPES), [("default", "Exact".into())]);
    let header = closed(
        "One header.",
        [
            ("type", kind),
            ("name", header_name("The name.")),
            ("value", text("What to compare with; not with Present and Absent.")),
        ],
    );
    list(description, requiring(header, &["name"]))
}

/// `set` and `add`: headers with their values.
pub(super) fn header_changes() -> Vec<Field> {
    changes_of(|| header_name("The name."))
}

/// The same in the older form of a route, where names may be in any case.
pub(super) fn older_header_changes() -> Vec<Field> {
    changes_of(|| token("The name.", r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$"))
}

fn changes_of(name: impl Fn() -> Value) -> Vec<Field> {
    let headers = |description: &str| {
        let header = closed("One header.", [("name", name()), ("value", text("The value; left out, an empty one."))]);
        with(
            list(description, requiring(header, &["name"])),
            [
                ("maxItems", 16.into()),
                ("x-kubernetes-list-type", "map".into()),
                ("x-kubernetes-list-map-keys", json!(["name"])),
            ],
        )
    };
    vec![
        ("set", headers("Headers that get this value, whatever they had.")),
        ("add", headers("Headers that get this value besides what they had.")),
    ]
}

/// Where telemetry goes by OTLP, in a backend of its own kind or inline.
pub(super) fn open_telemetry(fields: impl IntoIterator<Item = Field>) -> Value {
    let backend = closed(
        "The MeshOpenTelemetryBackend that describes the collector.",
        [
            ("kind", word("The kind.", BACKEND_KINDS)),
            ("labels", map("Labels that it carries; of several the oldest counts.")),
        ],
    );
    let endpoint = with(
        text("Host and port of the collector, such as otel-collector:4317. Deprecated: use backendRef."),
        [("minLength", 1.into())],
    );
    closed(
        "A collector of OpenTelemetry: endpoint or backendRef.",
        [("endpoint", endpoint), ("backendRef", requiring(backend, &["kind"]))].into_iter().chain(fields),
    )
}

/// The oldest and the newest version of TLS.
pub(super) fn tls_version() -> Value {
    let version = |description: &str| with(word(description, VERSIONS), [("default", "TLSAuto".into())]);
    closed("Versions of TLS.", [("min", version("The oldest that is spoken.")), ("max", version("The newest."))])
}
