//! MeshPassthrough.

use std::collections::{BTreeMap, BTreeSet};

use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::format::{is_cidr, is_domain, is_ip};
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::scalars::UINT32;
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::PROXIES;
use crate::compile::reader::Node;
use crate::core::mesh::kind::PolicyKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind { single: true, ..policy_kind(500, "MeshPassthrough", "mp", "meshpassthroughs") },
    description: "What may leave the mesh without a service that describes it.",
    places: Places::at_top(PROXIES),
    spec: schema::spec,
    check,
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

const MODES: &[&str] = &["All", "Matched", "None"];
const MATCH_TYPES: &[&str] = &["Domain", "IP", "CIDR"];

const PROTOCOLS: &[&str] = &["tcp", "tls", "grpc", "http", "http2", "mysql"];
/// Protocols that are told apart by what is said on the connection, so that they cannot share a port with another.
const HTTP: &[&str] = &["grpc", "http", "http2"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
    let conf = policy.spec.get("default").object(findings);
    let (mode, matches) = (conf.get("passthroughMode"), conf.get("appendMatch"));
    conf.warn_of_unknown(findings);
    if mode.is_present() {
        mode.schema_word(MODES, findings);
    }
    let mut seen = Seen::default();
    for entry in matches.list(findings) {
        check_match(&entry, &mut seen, findings);
    }
    policy.finish(findings);
}

/// What the entries before said.
#[derive(Default)]
struct Seen {
    /// The protocol of the last entry that was accepted on a port.
    protocols: BTreeMap<i64, String>,
    values: BTreeSet<(i64, String, String)>,
}

fn check_match(entry: &Node<'_>, seen: &mut Seen, findings: &mut Findings) {
    let object = entry.object(findings);
    let (kind, value) = (object.get("type"), object.get("value"));
    let (port_field, protocol_field) = (object.get("port"), object.get("protocol"));
    object.warn_of_unknown(findings);
    let protocol =
        if protocol_field.is_present() { protocol_field.text(findings).unwrap_or_default() } else { "tcp".into() };
    let port = port_field.bounded_integer(UINT32, 1..=65535, findings);
    let is_http = HTTP.contains(&protocol.as_ref());

    if protocol == "mysql" && !port_field.is_present() {
        findings.refuse(port_field.path, Reason::Required, "required with protocol mysql");
    }
    if let Some(port) = port {
        match seen.protocols.get(&port) {
            Some(other) if *other != protocol && is_http => {
                let message =
                    format!("port {port} is already used with protocol {other}, and {protocol} cannot share it");
                findings.refuse(port_field.path, Reason::Context, message);
            }
            _ => {
                seen.protocols.insert(port, protocol.to_string());
            }
        }
    }
    if !PROTOCOLS.contains(&protocol.as_ref()) {
        protocol_field.word(PROTOCOLS, findings);
    }
    let text = value.text(findings).unwrap_or_default();
    if !seen.values.insert((port.unwrap_or_default(), protocol.to_string(), text.to_string())) {
        let message = format!("duplicate of an earlier match for `{text}` with the same port and protocol");
        match port_field.is_present() {
            true => findings.refuse(value.path, Reason::Duplicate, message),
            // The peer takes it, and it changes nothing.
            false => findings.warn(value.path, Reason::Duplicate, message),
        }
    }
    match kind.word(MATCH_TYPES, findings) {
        Some("Domain") => {
            if matches!(protocol.as_ref(), "tcp" | "mysql") {
                let message = format!("only valid with tls, grpc, http or http2: {protocol} does not carry a domain");
                findings.refuse(protocol_field.path, Reason::Context, message);
            }
            check_domain(&value, &text, findings);
            if text.starts_with('*') && !port_field.is_present() && is_http {
                let message = "only valid when a port is given: a wildcard domain needs one";
                findings.refuse(port_field.path, Reason::Context, message);
            }
        }
        Some("IP") if !is_ip(&text) => findings.refuse(value.path, Reason::Format, "malformed: an IP address"),
        Some("CIDR") if !is_cidr(&text) => {
            findings.refuse(value.path, Reason::Format, "malformed: an address range such as 10.0.0.0/8");
        }
        _ => {}
    }
}

fn check_domain(value: &Node<'_>, text: &str, findings: &mut Findings) {
    let mut rest = text;
    while let Some(after) = rest.strip_prefix("*.") {
        rest = after;
    }
    if rest != "*" && !is_domain(rest) {
        let message =
            "malformed: a domain such as example.com or *.example.com, the wildcard being the whole first label";
        findings.refuse(value.path, Reason::Format, message);
    }
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use super::{MATCH_TYPES, MODES, PROTOCOLS};
    use crate::api::schema::{closed, int32, list, requiring, text, with, word};
    use crate::compile::mesh::forms::policy;

    pub(in crate::compile::mesh) fn spec() -> Value {
        let mode = with(word("What passes.", MODES), [("default", "None".into())]);
        let conf = closed(
            "What may leave the mesh without a service that describes it.",
            [("passthroughMode", mode), ("appendMatch", list("What passes with Matched.", destination()))],
        );
        policy([("default", conf)])
    }

    fn destination() -> Value {
        let destination = closed(
            "One destination.",
            [
                ("type", word("What the value is.", MATCH_TYPES)),
                ("value", text("A domain such as *.example.com, an address, or a range such as 10.0.0.0/8.")),
                ("port", int32("The port, from 1 to 65535; left out, any.")),
                ("protocol", with(word("What is spoken.", PROTOCOLS), [("default", "tcp".into())])),
            ],
        );
        requiring(destination, &["type", "value"])
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, refuses_below};

    #[track_caller]
    fn check(matches: &str, expected: &[&str]) {
        let spec = format!("{{default: {{appendMatch: [{matches}]}}}}");
        refuses_below("spec.default.appendMatch", "MeshPassthrough", &spec, expected);
    }

    #[test]
    fn values_fit_their_type() {
        accepts("MeshPassthrough", "{}", &[]);
        check("{type: IP, value: 10.0.0.1}, {type: IP, value: a.b}", &["[1].value FORMAT"]);
        check("{type: CIDR, value: 10.0.0.0/8}, {type: CIDR, value: 10.0.0.0}", &["[1].value FORMAT"]);
        check("{type: Name, value: x}", &["[0].type ENUM"]);
        check("{type: IP, value: 10.0.0.1, protocol: udp}", &["[0].protocol ENUM"]);
        check("{type: IP, value: 10.0.0.1, port: 65536}", &["[0].port RANGE"]);
    }

    #[test]
    fn domains_need_a_protocol_that_names_them() {
        check("{type: Domain, value: a.b}", &["[0].protocol CTX"]);
        check("{type: Domain, value: a.b, protocol: mysql, port: 3306}", &["[0].protocol CTX"]);
        check("{type: IP, value: 10.0.0.1, protocol: mysql}", &["[0].port REQ"]);
        check("{type: Domain, value: '*.a.b', protocol: http}", &["[0].port CTX"]);
        check("{type: Domain, value: '*.a.b', protocol: tls}", &[]);
    }

    #[test]
    fn wildcards_are_whole_first_labels() {
        let tls = |value: &str| format!("{{type: Domain, value: '{value}', protocol: tls}}");
        for value in ["*", "*.com", "*.*.com", "a.b.", "_a.b"] {
            check(&tls(value), &[]);
        }
        for value in ["*a.com", "a.*.com", "1.2.3.4", "", "a..b"] {
            check(&tls(value), &["[0].value FORMAT"]);
        }
    }

    #[test]
    fn http_shares_no_port_with_others() {
        let entries = |protocols: &[&str]| {
            let entry = |(index, protocol): (usize, &&str)| {
                format!("{{type: IP, value: 10.0.0.{index}, port: 80, protocol: {protocol}}}")
            };
            protocols.iter().enumerate().map(entry).collect::<Vec<_>>().join(", ")
        };
        check(&entries(&["http", "tcp", "http"]), &["[2].port CTX"]);
        check(&entries(&["tcp", "http", "tls"]), &["[1].port CTX"]);
        check(&entries(&["http", "http"]), &[]);
        check(&entries(&["tcp", "tls"]), &[]);
    }

    #[test]
    fn nothing_is_said_twice() {
        check("{type: IP, value: 10.0.0.1, port: 1}, {type: IP, value: 10.0.0.1, port: 1}", &["[1].value DUP"]);
        check("{type: IP, value: 10.0.0.1}, {type: CIDR, value: 10.0.0.1}", &["[1].value FORMAT"]);
        let twice = "{default: {appendMatch: [{type: IP, value: 10.0.0.1}, {type: IP, value: 10.0.0.1}]}}";
        accepts("MeshPassthrough", twice, &["spec.default.appendMatch[1].value DUP"]);
        check("{type: IP, value: 10.0.0.1, port: 1}, {type: IP, value: 10.0.0.1, port: 2}", &[]);
    }
}
