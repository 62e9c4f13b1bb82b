//! MeshRetry.

use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::format::is_http_status;
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::scalars::{INT32, UINT32};
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{DESTINATIONS_AND_ROUTES, GATEWAYS_AND_ROUTES, PROXIES_AND_SERVICES};
use crate::compile::reader::{Node, Object};
use crate::core::mesh::kind::PolicyKind;
use crate::core::mesh::target_ref::TargetKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        to: true,
        destinations: DESTINATIONS_AND_ROUTES,
        ..policy_kind(1400, "MeshRetry", "mr", "meshretries")
    },
    description: "When and how often what failed is tried again.",
    places: Places {
        top_of_system: GATEWAYS_AND_ROUTES,
        listener_tags: true,
        to_below: Some((GATEWAYS_AND_ROUTES, &[TargetKind::Mesh, TargetKind::MeshExternalService])),
        ..Places::at_top(PROXIES_AND_SERVICES)
    },
    spec: schema::spec,
    check,
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

const RESET_FORMATS: &[&str] = &["Seconds", "UnixTimestamp"];
const PREDICATES: &[&str] = &["OmitPreviousHosts", "OmitHostsWithTags", "OmitPreviousPriorities"];

const HTTP_CONDITIONS: &[&str] = &[
    "5xx",
    "GatewayError",
    "Reset",
    "Retriable4xx",
    "ConnectFailure",
    "EnvoyRatelimited",
    "RefusedStream",
    "Http3PostConnectFailure",
    "HttpMethodConnect",
    "HttpMethodDelete",
    "HttpMethodGet",
    "HttpMethodHead",
    "HttpMethodOptions",
    "HttpMethodPatch",
    "HttpMethodPost",
    "HttpMethodPut",
    "HttpMethodTrace",
];

const GRPC_CONDITIONS: &[&str] = &["Canceled", "DeadlineExceeded", "Internal", "ResourceExhausted", "Unavailable"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
    policy.each_to(findings, |entry, findings| check_conf(&entry.conf, entry.kind(), findings));
    policy.finish(findings);
}

fn check_conf(conf: &Node<'_>, kind: Option<TargetKind>, findings: &mut Findings) {
    let object = conf.object(findings);
    let (tcp, http, grpc) = (object.get("tcp"), object.get("http"), object.get("grpc"));
    object.warn_of_unknown(findings);
    if ![&tcp, &http, &grpc].into_iter().any(Node::is_present) {
        findings.refuse(conf.path, Reason::AnyOf, "at least one of tcp, http, grpc");
    }
    let foreign: &[&Node<'_>] = match kind {
        Some(TargetKind::MeshHttpRoute) => &[&tcp],
        Some(TargetKind::MeshTcpRoute) => &[&http, &grpc],
        _ => &[],
    };
    for section in foreign.iter().filter(|section| section.is_present()) {
        findings.refuse(section.path, Reason::Context, "not valid for a route of another protocol");
    }
    if tcp.is_present() {
        check_tcp(&tcp, findings);
    }
    if http.is_present() {
        check_http(&http, findings);
    }
    if grpc.is_present() {
        check_grpc(&grpc, findings);
    }
}

fn check_tcp(tcp: &Node<'_>, findings: &mut Findings) {
    let object = tcp.object(findings);
    let attempts = object.get("maxConnectAttempt");
    object.warn_of_unknown(findings);
    if attempts.is_present() {
        attempts.positive_integer(UINT32, findings);
    } else {
        findings.refuse(tcp.path, Reason::Empty, "may not be empty: set maxConnectAttempt");
    }
}

fn check_http(http: &Node<'_>, findings: &mut Findings) {
    let object = http.object(findings);
    let common = Common::read(&object, findings);
    let headers = [object.get("retriableRequestHeaders"), object.get("retriableResponseHeaders")];
    let (hosts, attempts) = (object.get("hostSelection"), object.get("hostSelectionMaxAttempts"));
    object.warn_of_unknown(findings);
    if !common.any && !headers.iter().any(Node::is_present) && !hosts.is_present() {
        let message = "may not be empty: say how often, how fast, on what or where to retry";
        findings.refuse(http.path, Reason::Empty, message);
    }
    common.check(findings);
    for condition in common.retry_on.list(findings) {
        let given = condition.text(findings).unwrap_or_default();
        if !HTTP_CONDITIONS.contains(&given.as_ref()) && !is_http_status(&given) {
            let message =
                format!("unknown value `{given}`; known: {}, or a status code such as 503", HTTP_CONDITIONS.join(", "));
            findings.refuse(condition.path, Reason::Enum, message);
        }
    }
    check_host_selection(&hosts, findings);
    attempts.integer(INT32, findings);
}

fn check_grpc(grpc: &Node<'_>, findings: &mut Findings) {
    let object = grpc.object(findings);
    let common = Common::read(&object, findings);
    object.warn_of_unknown(findings);
    if !common.any {
        findings.refuse(grpc.path, Reason::Empty, "may not be empty: say how often, how fast or on what to retry");
    }
    common.check(findings);
    for condition in common.retry_on.list(findings) {
        condition.word(GRPC_CONDITIONS, findings);
    }
}

/// What retries of HTTP and gRPC have in common.
struct Common<'v> {
    any: bool,
    back_off: Node<'v>,
    rate_limited: Node<'v>,
    retry_on: Node<'v>,
}

impl<'v> Common<'v> {
    fn read(object: &Object<'v>, findings: &mut Findings) -> Self {
        let (retries, per_try) = (object.get("numRetries"), object.get("perTryTimeout"));
        let (back_off, rate_limited) = (object.get("backOff"), object.get("rateLimitedBackOff"));
        let retry_on = object.get("retryOn");
        let any = [&retries, &per_try, &back_off, &rate_limited, &retry_on].into_iter().any(Node::is_present);
        retries.integer(UINT32, findings);
        per_try.duration(findings);
        Self { any, back_off, rate_limited, retry_on }
    }

    fn check(&self, findings: &mut Findings) {
        if self.back_off.is_present() {
            let object = self.back_off.object(findings);
            let (base, max) = (object.get("baseInterval"), object.get("maxInterval"));
            object.warn_of_unknown(findings);
            if !base.is_present() && !max.is_present() {
                let message = "may not be empty: set baseInterval, maxInterval or both";
                findings.refuse(self.back_off.path, Reason::Empty, message);
            }
            base.duration(findings);
            max.duration(findings);
        }
        if self.rate_limited.is_present() {
            check_rate_limited(&self.rate_limited, findings);
        }
    }
}

fn check_rate_limited(field: &Node<'_>, findings: &mut Findings) {
    let object = field.object(findings);
    let (max, headers) = (object.get("maxInterval"), object.get("resetHeaders"));
    object.warn_of_unknown(findings);
    max.positive_duration(findings);
    if !headers.is_present() {
        findings.refuse(headers.path, Reason::Required, "required: the response headers that say when to come back");
    }
    for header in headers.list(findings) {
        let header = header.object(findings);
        let (name, format) = (header.get("name"), header.get("format"));
        header.warn_of_unknown(findings);
        if !name.is_filled() {
            findings.refuse(name.path, Reason::Required, "required");
        }
        format.schema_word(RESET_FORMATS, findings);
    }
}

fn check_host_selection(list: &Node<'_>, findings: &mut Findings) {
    let mut by_priority = false;
    for entry in list.list(findings) {
        let entry = entry.object(findings);
        let (predicate, tags, frequency) = (entry.get("predicate"), entry.get("tags"), entry.get("updateFrequency"));
        entry.warn_of_unknown(findings);
        match predicate.word(PREDICATES, findings) {
            Some("OmitHostsWithTags") if !tags.is_present() => {
                findings.refuse(tags.path, Reason::Required, "required with OmitHostsWithTags");
            }
            Some("OmitPreviousPriorities") => {
                if by_priority {
                    findings.refuse(predicate.path, Reason::Duplicate, "OmitPreviousPriorities may stand only once");
                }
                by_priority = true;
                frequency.positive_integer(INT32, findings);
            }
            _ => {}
        }
    }
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::{Value, json};

    use super::{GRPC_CONDITIONS, PREDICATES, RESET_FORMATS};
    use crate::api::schema::{closed, duration, int32, list, map, requiring, texts, with, word};
    use crate::compile::mesh::forms::{Conf, header_matches, header_name, policy, to};

    pub(in crate::compile::mesh) fn spec() -> Value {
        let tcp = closed(
            "Retries of connections.",
            [("maxConnectAttempt", int32("How often a connection is tried before it is given up."))],
        );
        let conf = closed("Retries.", [("tcp", tcp), ("http", http()), ("grpc", grpc())]);
        policy([to(conf, Conf::Optional)])
    }

    fn http() -> Value {
        let mut fields = common();
        fields.extend([
            (
                "retryOn",
                texts(
                    "When to retry: 5xx, GatewayError, Reset, Retriable4xx, ConnectFailure, EnvoyRatelimited, RefusedStream, \
                     Http3PostConnectFailure, HttpMethodGet and its like, or a status such as 503.",
                ),
            ),
            ("retriableRequestHeaders", header_matches("Only requests with one of these headers are retried.")),
            ("retriableResponseHeaders", header_matches("Answers with one of these headers are retried.")),
            ("hostSelection", host_selection()),
            (
                "hostSelectionMaxAttempts",
                json!({
                    "type": "integer", "format": "int64",
                    "description": "How often another host is looked for before the last one found is taken.",
                }),
            ),
        ]);
        closed("Retries of HTTP requests.", fields)
    }

    fn grpc() -> Value {
        let mut fields = common();
        fields.push(("retryOn", list("When to retry.", word("A status of gRPC.", GRPC_CONDITIONS))));
        closed("Retries of gRPC calls.", fields)
    }

    fn common() -> Vec<(&'static str, Value)> {
        let back_off = closed(
            "Pauses between attempts, longer each time.",
            [
                ("baseInterval", duration("The first pause; 25ms is usual.")),
                ("maxInterval", duration("The longest pause; ten times the first is usual.")),
            ],
        );
        vec![
            ("numRetries", int32("How often to retry; 0 is never, 1 is usual.")),
            ("perTryTimeout", duration("How long one attempt may take; 0s is without end.")),
            ("backOff", back_off),
            ("rateLimitedBackOff", rate_limited_back_off()),
        ]
    }

    fn rate_limited_back_off() -> Value {
        let header = closed(
            "One header.",
            [("name", header_name("The name.")), ("format", word("What its value is.", RESET_FORMATS))],
        );
        closed(
            "Pauses that the answer asks for.",
            [
                (
                    "resetHeaders",
                    list(
                        "Headers that say when to come back; the first that can be read counts.",
                        requiring(header, &["name", "format"]),
                    ),
                ),
                ("maxInterval", duration("The longest pause; 300s is usual.")),
            ],
        )
    }

    fn host_selection() -> Value {
        let predicate = closed(
            "One way to leave hosts out.",
            [
                ("predicate", word("Which hosts are left out.", PREDICATES)),
                ("tags", map("Tags of the hosts, with OmitHostsWithTags.")),
                (
                    "updateFrequency",
                    with(
                        int32("After how many attempts priorities are weighed anew, with OmitPreviousPriorities."),
                        [("default", 2.into())],
                    ),
                ),
            ],
        );
        list("Where to retry.", requiring(predicate, &["predicate"]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, refuses, refuses_below};

    #[track_caller]
    fn check(conf: &str, expected: &[&str]) {
        let spec = format!("{{to: [{{targetRef: {{kind: Mesh}}, default: {conf}}}]}}");
        refuses_below("spec.to[0].default", "MeshRetry", &spec, expected);
    }

    #[test]
    fn sections_say_something() {
        accepts("MeshRetry", "{}", &[]);
        check("{}", &[" ANYOF"]);
        check("{tcp: {}}", &[".tcp EMPTY"]);
        check("{tcp: {maxConnectAttempt: 0}}", &[".tcp.maxConnectAttempt POS"]);
        check("{tcp: {maxConnectAttempt: -1}}", &[".tcp.maxConnectAttempt FORMAT"]);
        check("{http: {}, grpc: {}}", &[".http EMPTY", ".grpc EMPTY"]);
        check("{http: {retryOn: []}, grpc: {retryOn: []}}", &[]);
        check("{http: {hostSelection: []}}", &[]);
        check("{grpc: {backOff: {}}}", &[".grpc.backOff EMPTY"]);
    }

    #[test]
    fn conditions() {
        check("{http: {retryOn: [5xx, GatewayError, HttpMethodGet, 503, '103']}}", &[]);
        check(
            "{http: {retryOn: [5XX, 499, get]}}",
            &[".http.retryOn[0] ENUM", ".http.retryOn[1] ENUM", ".http.retryOn[2] ENUM"],
        );
        check("{grpc: {retryOn: [Canceled, Unavailable, 500]}}", &[".grpc.retryOn[2] ENUM"]);
    }

    #[test]
    fn rate_limited_back_off() {
        check("{http: {rateLimitedBackOff: {}}}", &[".http.rateLimitedBackOff.resetHeaders REQ"]);
        check(
            "{grpc: {rateLimitedBackOff: {maxInterval: 0s, resetHeaders: [{name: '', format: Seconds}]}}}",
            &[".grpc.rateLimitedBackOff.maxInterval POS", ".grpc.rateLimitedBackOff.resetHeaders[0].name REQ"],
        );
        check("{http: {perTryTimeout: -1s, backOff: {baseInterval: -1s}}}", &[]);
    }

    #[test]
    fn host_selection() {
        check(
            "{http: {hostSelection: [{predicate: OmitHostsWithTags}, {predicate: OmitHostsWithTags, tags: {}}, \
             {predicate: OmitPreviousPriorities}, {predicate: OmitPreviousPriorities, updateFrequency: 0}, {predicate: X}]}}",
            &[
                ".http.hostSelection[0].tags REQ",
                ".http.hostSelection[3].predicate DUP",
                ".http.hostSelection[3].updateFrequency POS",
                ".http.hostSelection[4].predicate ENUM",
            ],
        );
    }

    #[test]
    fn routes_take_their_own_protocol() {
        let spec =
            |kind: &str, conf: &str| format!("{{to: [{{targetRef: {{kind: {kind}, name: r}}, default: {conf}}}]}}");
        let (tcp, http) = ("{tcp: {maxConnectAttempt: 1}}", "{http: {numRetries: 1}}");
        refuses("MeshRetry", &spec("MeshHTTPRoute", tcp), &["spec.to[0].default.tcp CTX"]);
        refuses("MeshRetry", &spec("MeshTCPRoute", http), &["spec.to[0].default.http CTX"]);
        refuses("MeshRetry", &spec("MeshHTTPRoute", http), &[]);
        refuses("MeshRetry", &spec("MeshTCPRoute", tcp), &[]);
    }
}
