//! MeshAccessLog.

use super::caller::{self, Strictness};
use super::open_telemetry::{self, Endpoint};
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::format::{is_attribute_key, is_file_path, is_url};
use crate::compile::mesh::record::{FilledValue, PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{DESTINATIONS_AND_ROUTES, GATEWAYS, MESH, PROXIES_SERVICES_GATEWAYS};
use crate::compile::reader::Node;
use crate::core::mesh::kind::PolicyKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        to: true,
        from: true,
        rules: true,
        from_as_rules: true,
        destinations: DESTINATIONS_AND_ROUTES,
        ..policy_kind(600, "MeshAccessLog", "mal", "meshaccesslogs")
    },
    description: "How traffic is logged.",
    places: Places {
        listener_tags: true,
        to_below: Some((GATEWAYS, MESH)),
        from: MESH,
        ..Places::at_top(PROXIES_SERVICES_GATEWAYS)
    },
    spec: schema::spec,
    check,
    filled_in: &[("backends.*.openTelemetry.endpoint", FilledValue::EmptyText)],
    schemas: RecordSchemas::new(),
};

const BACKEND_TYPES: &[&str] = &["Tcp", "File", "OpenTelemetry"];
const FORMATS: &[&str] = &["Plain", "Json"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
    policy.rules_exclude(&["to", "from"], findings);
    policy.needs_any(&["to", "from", "rules"], findings);
    policy.each_rule(findings, |entry, findings| {
        caller::read_list(&entry.object.get("matches"), Strictness::Lenient, findings);
        check_conf(&entry.conf, findings);
    });
    policy.each_to(findings, |entry, findings| check_conf(&entry.conf, findings));
    policy.each_from(findings, |entry, findings| check_conf(&entry.conf, findings));
    policy.finish(findings);
}

fn check_conf(conf: &Node<'_>, findings: &mut Findings) {
    let object = conf.object(findings);
    let backends = object.get("backends");
    object.warn_of_unknown(findings);
    if !backends.is_present() {
        findings.refuse(backends.path, Reason::Required, "required; an empty list switches logging off");
        return;
    }
    for backend in backends.list(findings) {
        let backend = backend.object(findings);
        let kind = backend.get("type").schema_word(BACKEND_TYPES, findings);
        let (tcp, file, telemetry) = (backend.get("tcp"), backend.get("file"), backend.get("openTelemetry"));
        backend.warn_of_unknown(findings);
        let (body, check): (_, fn(&Node<'_>, &mut Findings)) = match kind {
            Some("Tcp") => (tcp, check_tcp),
            Some("File") => (file, check_file),
            Some(_) => (telemetry, check_open_telemetry),
            None => continue,
        };
        if body.is_present() {
            check(&body, findings);
        } else {
            findings.refuse(body.path, Reason::Required, "required: the body that belongs to the type");
        }
    }
}

fn check_tcp(tcp: &Node<'_>, findings: &mut Findings) {
    let object = tcp.object(findings);
    let (format, address) = (object.get("format"), object.get("address"));
    object.warn_of_unknown(findings);
    check_format(&format, findings);
    if !is_url(&address.text(findings).unwrap_or_default()) {
        findings.refuse(address.path, Reason::Format, "malformed: an address such as logs.example:5000");
    }
}

fn check_file(file: &Node<'_>, findings: &mut Findings) {
    let object = file.object(findings);
    let (format, path) = (object.get("format"), object.get("path"));
    object.warn_of_unknown(findings);
    check_format(&format, findings);
    if !is_file_path(&path.text(findings).unwrap_or_default()) {
        findings.refuse(path.path, Reason::Format, "malformed: an absolute path of a file");
    }
}

fn check_format(format: &Node<'_>, findings: &mut Findings) {
    if !format.is_present() {
        return;
    }
    let object = format.object(findings);
    let kind = object.get("type").schema_word(FORMATS, findings);
    let (plain, json) = (object.get("plain"), object.get("json"));
    object.get("omitEmptyValues").flag(findings);
    object.warn_of_unknown(findings);
    let body = match kind {
        Some("Plain") => &plain,
        Some(_) => &json,
        None => return,
    };
    if !body.is_present() {
        findings.refuse(body.path, Reason::Required, "required: the format that belongs to the type");
    } else if !body.is_filled() {
        findings.refuse(body.path, Reason::Empty, "may not be empty; leave `format` out for the standard one");
    }
    if kind == Some("Json") {
        json.list(findings).iter().for_each(|entry| check_json_entry(entry, findings));
    }
}

fn check_json_entry(entry: &Node<'_>, findings: &mut Findings) {
    let object = entry.object(findings);
    let (key, value) = (object.get("key"), object.get("value"));
    object.warn_of_unknown(findings);
    let mut complete = true;
    for field in [&key, &value] {
        if !field.is_filled() {
            findings.refuse(field.path, Reason::Empty, "may not be empty");
            complete = false;
        }
    }
    let text = |field: &Node<'_>, findings: &mut Findings| field.text(findings).unwrap_or_default().into_owned();
    let member = format!("{{\"{}\": \"{}\"}}", text(&key, findings), text(&value, findings));
    if complete && serde_json::from_str::<serde::de::IgnoredAny>(&member).is_err() {
        findings.refuse(entry.path, Reason::Format, "malformed: key and value must be the inside of JSON texts");
    }
}

fn check_open_telemetry(field: &Node<'_>, findings: &mut Findings) {
    let object = field.object(findings);
    object.knows(&["body"]);
    let attributes = object.get("attributes");
    open_telemetry::check(&object, Endpoint::Host, findings);
    object.warn_of_unknown(findings);
    for attribute in attributes.list(findings) {
        let attribute = attribute.object(findings);
        let (key, value) = (attribute.get("key"), attribute.get("value"));
        attribute.warn_of_unknown(findings);
        value.text(findings);
        let name = key.text(findings).unwrap_or_default();
        if name.is_empty() {
            findings.refuse(key.path, Reason::Required, "required");
        } else if !is_attribute_key(&name) {
            let message = "malformed: lower-case words joined by `.` or `_`, outside `otel.`";
            findings.refuse(key.path, Reason::Format, message);
        }
    }
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use super::{BACKEND_TYPES, FORMATS};
    use crate::api::schema::{closed, flag_default, list, open, requiring, text, with, word};
    use crate::compile::mesh::forms::{Conf, from, matching_rules, open_telemetry, policy, to};

    pub(in crate::compile::mesh) fn spec() -> Value {
        policy([to(conf(), Conf::Required), from(conf(), Conf::Required), matching_rules(conf(), Conf::Required)])
    }

    fn conf() -> Value {
        let backend = closed(
            "One place that logs go to.",
            [
                ("type", word("Which of the others counts.", BACKEND_TYPES)),
                (
                    "tcp",
                    requiring(
                        closed(
                            "Over TCP.",
                            [("format", format()), ("address", filled("Host and port: logs.example:5000."))],
                        ),
                        &["address"],
                    ),
                ),
                (
                    "file",
                    requiring(
                        closed(
                            "To a file.",
                            [("format", format()), ("path", filled("The file, such as /tmp/access.log."))],
                        ),
                        &["path"],
                    ),
                ),
                ("openTelemetry", open_telemetry([("attributes", attributes()), ("body", body())])),
            ],
        );
        let backends = list("Where logs go; an empty list switches logging off.", requiring(backend, &["type"]));
        closed("How traffic is logged.", [("backends", backends)])
    }

    fn filled(description: &str) -> Value {
        with(text(description), [("minLength", 1.into())])
    }

    fn format() -> Value {
        let format = closed(
            "What a line looks like, with the placeholders of Envoy's access logs and %KUMA_MESH% and its like.",
            [
                ("type", word("Which of plain and json counts.", FORMATS)),
                ("plain", text("The line as text.")),
                ("json", list("The line as a JSON object.", pair("One member."))),
                (
                    "omitEmptyValues",
                    flag_default("Whether empty values are left out instead of written as `-`.", false),
                ),
            ],
        );
        requiring(format, &["type"])
    }

    fn pair(description: &str) -> Value {
        let pair = closed(description, [("key", text("The key.")), ("value", text("The value, with placeholders."))]);
        requiring(pair, &["key", "value"])
    }

    fn attributes() -> Value {
        let mut attribute = pair("One attribute; the key is a lower-case dotted name.");
        attribute["properties"]["key"]["pattern"] = r"^[a-z]([a-z0-9._]*[a-z0-9])?$".into();
        list("Attributes of the record.", attribute)
    }

    fn body() -> Value {
        open("The body of the record: text, or a value of OTLP, with placeholders.")
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, findings, refuses, refuses_below};
    use crate::core::problem::Problem;

    #[track_caller]
    fn check(backend: &str, expected: &[&str]) {
        let spec = format!("{{rules: [{{default: {{backends: [{backend}]}}}}]}}");
        refuses_below("spec.rules[0].default.backends[0]", "MeshAccessLog", &spec, expected);
    }

    #[test]
    fn attribute_keys_are_judged_whatever_the_address() {
        for address in ["", "endpoint: a/b, "] {
            let spec = format!(
                "{{to: [{{targetRef: {{kind: Mesh}}, default: {{backends: [{{type: OpenTelemetry, \
                 openTelemetry: {{{address}attributes: [{{key: A, value: x}}]}}}}]}}}}]}}"
            );
            let found = findings("MeshAccessLog", &spec);
            let key = "spec.to[0].default.backends[0].openTelemetry.attributes[0].key";
            let names_key = |problems: &[Problem]| problems.iter().any(|problem| problem.field.to_string() == key);
            assert!(names_key(&found.errors) && names_key(&found.schema), "{spec}: {found:?}");
        }
    }

    #[test]
    fn backends() {
        refuses("MeshAccessLog", "{}", &["spec ANYOF"]);
        refuses("MeshAccessLog", "{to: [{targetRef: {kind: Mesh}}]}", &["spec.to[0].default.backends REQ"]);
        accepts("MeshAccessLog", "{rules: [{matches: [{}], default: {backends: []}}]}", &[]);
        check("{type: Tcp}", &[".tcp REQ"]);
        check("{type: File, tcp: {address: 'a:1'}}", &[".file REQ"]);
        check("{type: OpenTelemetry}", &[".openTelemetry REQ"]);
        check("{type: Tcp, tcp: {address: svc}}", &[".tcp.address FORMAT"]);
        check("{type: File, file: {path: tmp}}", &[".file.path FORMAT"]);
    }

    #[test]
    fn formats() {
        let file = |format: &str| format!("{{type: File, file: {{path: /x, format: {format}}}}}");
        check(&file("{type: Plain}"), &[".file.format.plain REQ"]);
        check(&file("{type: Plain, plain: ''}"), &[".file.format.plain EMPTY"]);
        check(&file("{type: Json}"), &[".file.format.json REQ"]);
        check(&file("{type: Json, json: []}"), &[".file.format.json EMPTY"]);
        check(&file("{type: Json, json: [{key: a, value: '%X%'}]}"), &[]);
        check(
            &file("{type: Json, json: [{key: a}, {value: b}, {key: '\"', value: b}]}"),
            &[".file.format.json[0].value EMPTY", ".file.format.json[1].key EMPTY", ".file.format.json[2] FORMAT"],
        );
    }

    #[test]
    fn open_telemetry() {
        let otel = |body: &str| format!("{{type: OpenTelemetry, openTelemetry: {body}}}");
        let backend = "backendRef: {kind: MeshOpenTelemetryBackend, labels: {a: b}}";
        check(&otel("{}"), &[".openTelemetry XOR"]);
        check(&otel(&format!("{{endpoint: x, {backend}}}")), &[".openTelemetry XOR"]);
        check(&otel("{endpoint: 'http://x'}"), &[".openTelemetry.endpoint FORMAT"]);
        check(&otel("{backendRef: {kind: MeshService, labels: {a: b}}}"), &[".openTelemetry.backendRef.kind ENUM"]);
        check(&otel("{backendRef: {kind: MeshOpenTelemetryBackend}}"), &[".openTelemetry.backendRef XOR"]);
        check(
            &otel(&format!("{{{backend}, attributes: [{{key: ''}}, {{key: Otel.x, value: y}}]}}")),
            &[".openTelemetry.attributes[0].key REQ", ".openTelemetry.attributes[1].key FORMAT"],
        );
        accepts(
            "MeshAccessLog",
            "{rules: [{default: {backends: [{type: OpenTelemetry, openTelemetry: {endpoint: 'otel:4317'}}]}}]}",
            &["spec.rules[0].default.backends[0].openTelemetry.endpoint DEPRECATED"],
        );
    }
}
