//! MeshPassthrough.

use std::collections::{BTreeMap, BTreeSet};

use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::format::{is_cidr, is_domain, is_ip};
use crate::compile::reader::Node;
use crate::compile::scalars::UINT32;
use crate::core::mesh::policy::PolicyKind;
use crate::core::problem::Reason;

const PROTOCOLS: &[&str] = &["tcp", "tls", "grpc", "http", "http2", "mysql"];
/// Protocols that are told apart by what is said on the connection, so that they cannot share a port with another.
const HTTP: &[&str] = &["grpc", "http", "http2"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(PolicyKind::Passthrough, resource, findings);
    let conf = policy.spec.get("default").object(findings);
    let (mode, matches) = (conf.get("passthroughMode"), conf.get("appendMatch"));
    conf.warn_of_unknown(findings);
    if mode.is_present() {
        mode.schema_word(&["All", "Matched", "None"], findings);
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
    let protocol = if protocol_field.is_present() {
        protocol_field.text(findings).unwrap_or_default()
    } else {
        "tcp".into()
    };
    let port = port_field.bounded_integer(UINT32, 1..=65535, findings);
    let is_http = HTTP.contains(&protocol.as_ref());

    if protocol == "mysql" && !port_field.is_present() {
        findings.refuse(&port_field.path, Reason::Required, "required with protocol mysql");
    }
    if let Some(port) = port {
        match seen.protocols.get(&port) {
            Some(other) if *other != protocol && is_http => {
                let message =
                    format!("port {port} is already used with protocol {other}, and {protocol} cannot share it");
                findings.refuse(&port_field.path, Reason::Context, message);
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
    if !seen
        .values
        .insert((port.unwrap_or_default(), protocol.to_string(), text.to_string()))
    {
        let message = format!("duplicate of an earlier match for `{text}` with the same port and protocol");
        findings.refuse(&value.path, Reason::Duplicate, message);
    }
    match kind.word(&["Domain", "IP", "CIDR"], findings) {
        Some("Domain") => {
            if matches!(protocol.as_ref(), "tcp" | "mysql") {
                let message = format!("only valid with tls, grpc, http or http2: {protocol} does not carry a domain");
                findings.refuse(&protocol_field.path, Reason::Context, message);
            }
            check_domain(&value, &text, findings);
            if text.starts_with('*') && !port_field.is_present() && is_http {
                let message = "only valid when a port is given: a wildcard domain needs one";
                findings.refuse(&port_field.path, Reason::Context, message);
            }
        }
        Some("IP") if !is_ip(&text) => findings.refuse(&value.path, Reason::Format, "malformed: an IP address"),
        Some("CIDR") if !is_cidr(&text) => {
            findings.refuse(
                &value.path,
                Reason::Format,
                "malformed: an address range such as 10.0.0.0/8",
            );
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
        findings.refuse(&value.path, Reason::Format, message);
    }
}
