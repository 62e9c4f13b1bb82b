//! MeshTrace.

use super::datadog_url;
use super::open_telemetry::{self, Endpoint};
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::format::is_url;
use crate::compile::mesh::record::{FilledValue, PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{GATEWAYS, PROXIES_AND_SERVICES};
use crate::compile::reader::Node;
use crate::core::mesh::kind::PolicyKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind { single: true, ..policy_kind(700, "MeshTrace", "mtr", "meshtraces") },
    description: "How requests are traced.",
    places: Places { top_of_system: GATEWAYS, ..Places::at_top(PROXIES_AND_SERVICES) },
    spec: schema::spec,
    check,
    filled_in: &[
        ("backends.*.zipkin.traceId128bit", FilledValue::Flag(false)),
        ("backends.*.zipkin.sharedSpanContext", FilledValue::Flag(true)),
        ("backends.*.datadog.splitService", FilledValue::Flag(false)),
        ("backends.*.openTelemetry.endpoint", FilledValue::EmptyText),
    ],
    schemas: RecordSchemas::new(),
};

const BACKEND_TYPES: &[&str] = &["Zipkin", "Datadog", "OpenTelemetry"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
    let conf = policy.spec.get("default").object(findings);
    let (backends, sampling, tags) = (conf.get("backends"), conf.get("sampling"), conf.get("tags"));
    conf.warn_of_unknown(findings);
    if !backends.is_present() {
        findings.refuse(backends.path, Reason::Required, "required; an empty list switches tracing off");
    }
    let list = backends.list(findings);
    if list.len() > 1 {
        findings.refuse(backends.path, Reason::Xor, "exactly one backend, or none");
    }
    list.iter().for_each(|backend| check_backend(backend, findings));
    tags.list(findings).iter().for_each(|tag| check_tag(tag, findings));
    let sampling = sampling.object(findings);
    for share in ["client", "random", "overall"] {
        sampling.get(share).percentage(findings);
    }
    sampling.warn_of_unknown(findings);
    policy.finish(findings);
}

fn check_backend(backend: &Node<'_>, findings: &mut Findings) {
    let backend = backend.object(findings);
    let kind = backend.get("type").schema_word(BACKEND_TYPES, findings);
    let (zipkin, datadog, telemetry) = (backend.get("zipkin"), backend.get("datadog"), backend.get("openTelemetry"));
    backend.warn_of_unknown(findings);
    let (body, check): (_, fn(&Node<'_>, &mut Findings)) = match kind {
        Some("Zipkin") => (zipkin, check_zipkin),
        Some("Datadog") => (datadog, check_datadog),
        Some(_) => (telemetry, check_open_telemetry),
        None => return,
    };
    if body.is_present() {
        check(&body, findings);
    } else {
        findings.refuse(body.path, Reason::Required, "required: the body that belongs to the type");
    }
}

fn check_zipkin(zipkin: &Node<'_>, findings: &mut Findings) {
    let zipkin = zipkin.object(findings);
    zipkin.knows(&["apiVersion"]);
    for flag in ["traceId128bit", "sharedSpanContext"] {
        zipkin.get(flag).flag(findings);
    }
    let url = zipkin.get("url");
    zipkin.warn_of_unknown(findings);
    let address = url.text(findings).unwrap_or_default();
    if address.is_empty() {
        findings.refuse(url.path, Reason::Empty, "may not be empty");
    } else if !is_url(&address) {
        findings.refuse(url.path, Reason::Format, "malformed: a URL such as http://zipkin:9411/api/v2/spans");
    }
}

fn check_datadog(datadog: &Node<'_>, findings: &mut Findings) {
    let datadog = datadog.object(findings);
    datadog.get("splitService").flag(findings);
    let url = datadog.get("url");
    datadog.warn_of_unknown(findings);
    let text = url.text(findings).unwrap_or_default();
    for (reason, message) in datadog_url::faults(&text) {
        findings.refuse(url.path, reason, format!("{message}: a URL such as http://datadog-agent:8126"));
    }
}

fn check_open_telemetry(field: &Node<'_>, findings: &mut Findings) {
    let object = field.object(findings);
    open_telemetry::check(&object, Endpoint::Host, findings);
    object.warn_of_unknown(findings);
}

fn check_tag(tag: &Node<'_>, findings: &mut Findings) {
    let object = tag.object(findings);
    let (name, header, literal) = (object.get("name"), object.get("header"), object.get("literal"));
    object.warn_of_unknown(findings);
    if !name.is_filled() {
        findings.refuse(name.path, Reason::Empty, "may not be empty");
    }
    if header.is_present() == literal.is_present() {
        findings.refuse(tag.path, Reason::Xor, "exactly one of header, literal");
    }
    literal.text(findings);
    let header = header.object(findings);
    header.get("name").text(findings);
    header.get("default").text(findings);
    header.warn_of_unknown(findings);
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use super::BACKEND_TYPES;
    use crate::api::schema::{closed, flag, list, number_or_text, requiring, text, with, word};
    use crate::compile::mesh::forms::{open_telemetry, policy};

    pub(in crate::compile::mesh) fn spec() -> Value {
        let conf =
            closed("How requests are traced.", [("backends", backends()), ("sampling", sampling()), ("tags", tags())]);
        policy([("default", conf)])
    }

    fn backends() -> Value {
        let version = with(word("The form of its API.", &["httpJson", "httpProto"]), [("default", "httpJson".into())]);
        let zipkin = closed(
            "Zipkin.",
            [
                ("url", text("Its address, such as http://zipkin:9411/api/v2/spans.")),
                ("traceId128bit", flag("Whether trace IDs have 128 bits.")),
                ("apiVersion", version),
                ("sharedSpanContext", flag("Whether both ends share a span; true is usual.")),
            ],
        );
        let datadog = closed(
            "Datadog.",
            [
                ("url", text("Its address, such as http://datadog-agent:8126, without a path.")),
                ("splitService", flag("Whether the name of the service tells direction and destination.")),
            ],
        );
        let backend = closed(
            "One place that spans go to.",
            [
                ("type", word("Which of the others counts.", BACKEND_TYPES)),
                ("zipkin", requiring(zipkin, &["url"])),
                ("datadog", requiring(datadog, &["url"])),
                ("openTelemetry", open_telemetry([])),
            ],
        );
        with(
            list("Where spans go: one place, or none to switch tracing off.", requiring(backend, &["type"])),
            [("maxItems", 1.into())],
        )
    }

    fn sampling() -> Value {
        let percent = |description: &str| with(number_or_text(description), [("default", 100.into())]);
        closed(
            "How many requests are traced, in percent.",
            [
                ("overall", percent("At most, whatever the others say.")),
                ("client", percent("Of requests whose caller asks for it by `x-client-trace-id`.")),
                ("random", percent("Of all others.")),
            ],
        )
    }

    fn tags() -> Value {
        let header = closed(
            "From a header of the request.",
            [("name", text("The header.")), ("default", text("What to say when it is missing."))],
        );
        let tag = closed(
            "One tag: header or literal.",
            [
                ("name", text("Its name.")),
                ("literal", text("A value that is always the same.")),
                ("header", requiring(header, &["name"])),
            ],
        );
        list("Tags of every span.", requiring(tag, &["name"]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, refuses};

    #[test]
    fn one_backend() {
        refuses("MeshTrace", "{}", &["spec.default.backends REQ"]);
        accepts("MeshTrace", "{default: {backends: []}}", &[]);
        refuses(
            "MeshTrace",
            "{default: {backends: [{type: Zipkin}, {type: Datadog, datadog: {url: 'http://dd:1'}}]}}",
            &["spec.default.backends XOR", "spec.default.backends[0].zipkin REQ"],
        );
    }

    #[test]
    fn urls() {
        let zipkin = |url: &str| format!("{{default: {{backends: [{{type: Zipkin, zipkin: {{url: '{url}'}}}}]}}}}");
        refuses("MeshTrace", &zipkin(""), &["spec.default.backends[0].zipkin.url EMPTY"]);
        refuses("MeshTrace", &zipkin("zipkin"), &["spec.default.backends[0].zipkin.url FORMAT"]);
        accepts("MeshTrace", &zipkin("http://zipkin:9411/api/v2/spans"), &[]);
        refuses(
            "MeshTrace",
            "{default: {backends: [{type: Datadog, datadog: {url: 'https://dd/x'}}]}}",
            &[
                "spec.default.backends[0].datadog.url FORMAT",
                "spec.default.backends[0].datadog.url REQ",
                "spec.default.backends[0].datadog.url FORBID",
            ],
        );
    }

    #[test]
    fn tags_and_sampling() {
        refuses(
            "MeshTrace",
            "{default: {backends: [], tags: [{literal: x}, {name: a}, {name: b, literal: x, header: {name: y}}], \
             sampling: {client: 101, random: 'x', overall: '99.9'}}}",
            &[
                "spec.default.tags[0].name EMPTY",
                "spec.default.tags[1] XOR",
                "spec.default.tags[2] XOR",
                "spec.default.sampling.client RANGE",
                "spec.default.sampling.random FORMAT",
            ],
        );
    }
}
