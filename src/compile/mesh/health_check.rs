//! MeshHealthCheck.

use super::headers;
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::format::is_file_path;
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::scalars::INT32;
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{DESTINATIONS, PROXIES_SERVICES_GATEWAYS};
use crate::compile::reader::Node;
use crate::core::mesh::kind::PolicyKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        to: true,
        destinations: DESTINATIONS,
        ..policy_kind(1200, "MeshHealthCheck", "mhc", "meshhealthchecks")
    },
    description: "How hosts are asked whether they are well.",
    places: Places { listener_tags: true, ..Places::at_top(PROXIES_SERVICES_GATEWAYS) },
    spec: schema::spec,
    check,
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
    policy.top.warn(&RECORD, findings);
    policy.each_to(findings, |entry, findings| check_conf(&entry.conf, findings));
    policy.close(findings);
}

fn check_conf(conf: &Node<'_>, findings: &mut Findings) {
    let object = conf.object(findings);
    object.get("interval").positive_duration(findings);
    object.get("timeout").positive_duration(findings);
    object.get("unhealthyThreshold").positive_integer(INT32, findings);
    object.get("healthyThreshold").positive_integer(INT32, findings);
    object.get("initialJitter").positive_duration(findings);
    object.get("intervalJitter").positive_duration(findings);
    object.get("intervalJitterPercent").bounded_integer(INT32, 0..=100, findings);
    let panic = object.get("healthyPanicThreshold");
    if panic.is_present() {
        let message = "deprecated: it belongs to MeshCircuitBreaker, below outlierDetection";
        findings.warn(panic.path, Reason::Deprecated, message);
        panic.percentage(findings);
    }
    object.get("noTrafficInterval").positive_duration(findings);
    let log = object.get("eventLogPath");
    if log.text(findings).is_some_and(|path| !is_file_path(&path)) {
        findings.refuse(log.path, Reason::Format, "malformed: an absolute path of a file");
    }
    for flag in ["failTrafficOnPanic", "alwaysLogHealthCheckFailures", "reuseConnection"] {
        object.get(flag).flag(findings);
    }
    let protocols = [object.get("http"), object.get("tcp"), object.get("grpc")];
    object.warn_of_unknown(findings);
    if !protocols.iter().any(Node::is_present) {
        findings.refuse(conf.path, Reason::AnyOf, "at least one of http, tcp, grpc");
    }
    let [http, tcp, grpc] = protocols;
    check_http(&http, findings);
    for (section, texts) in [(tcp, &["send", "receive"]), (grpc, &["serviceName", "authority"])] {
        let section = section.object(findings);
        section.get("disabled").flag(findings);
        section.knows(texts);
        section.warn_of_unknown(findings);
    }
}

fn check_http(http: &Node<'_>, findings: &mut Findings) {
    let http = http.object(findings);
    http.get("disabled").flag(findings);
    let path = http.get("path");
    if path.is_present() && !path.is_filled() {
        findings.refuse(path.path, Reason::Required, "required: leave it out for `/`");
    }
    headers::check(&http.get("requestHeadersToAdd"), findings);
    for status in http.get("expectedStatuses").list(findings) {
        status.bounded_integer(INT32, 100..=599, findings);
    }
    http.warn_of_unknown(findings);
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use crate::api::schema::{closed, duration, flag, int32, list, number_or_text, text, texts};
    use crate::compile::mesh::forms::{Conf, header_changes, policy, to};

    pub(in crate::compile::mesh) fn spec() -> Value {
        policy([to(conf(), Conf::Optional)])
    }

    fn conf() -> Value {
        let percent = number_or_text("Deprecated: use outlierDetection of MeshCircuitBreaker.");
        closed(
            "How hosts are asked whether they are well: over http, tcp, grpc, or several of them.",
            [
                ("interval", duration("Between two checks; above 0s, 1m is usual.")),
                ("timeout", duration("How long an answer may take; above 0s, 15s is usual.")),
                ("unhealthyThreshold", int32("How many failures make a host unhealthy; above 0, 5 is usual.")),
                ("healthyThreshold", int32("How many successes make it healthy again; above 0, 1 is usual.")),
                ("initialJitter", duration("At most how long the first check is put off; above 0s.")),
                ("intervalJitter", duration("At most how long each check is put off; above 0s.")),
                ("intervalJitterPercent", int32("The same as a share of the interval; from 0 to 100.")),
                ("healthyPanicThreshold", percent),
                ("failTrafficOnPanic", flag("Whether requests fail when too few hosts are healthy.")),
                ("eventLogPath", text("The file that events are written to.")),
                ("alwaysLogHealthCheckFailures", flag("Whether every failure is written there, or the first only.")),
                (
                    "noTrafficInterval",
                    duration("Between two checks while there is no traffic; above 0s, 60s is usual."),
                ),
                ("reuseConnection", flag("Whether checks share a connection; true is usual.")),
                ("http", http()),
                (
                    "tcp",
                    closed(
                        "Check by connecting.",
                        [
                            ("disabled", flag("Whether this is off.")),
                            ("send", text("What is sent, in base64.")),
                            ("receive", texts("What the answer must contain, in this order, each in base64.")),
                        ],
                    ),
                ),
                (
                    "grpc",
                    closed(
                        "Check by the health protocol of gRPC.",
                        [
                            ("disabled", flag("Whether this is off.")),
                            ("serviceName", text("The service that is asked for.")),
                            ("authority", text("The value of `:authority`.")),
                        ],
                    ),
                ),
            ],
        )
    }

    fn http() -> Value {
        closed(
            "Check by a request.",
            [
                ("disabled", flag("Whether this is off.")),
                ("path", text("The path that is asked for; `/` is usual.")),
                ("requestHeadersToAdd", closed("Headers of the request.", header_changes())),
                ("expectedStatuses", list("Statuses of a healthy host.", int32("A status from 100 to 599."))),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, refuses_below};

    #[track_caller]
    fn check(conf: &str, expected: &[&str]) {
        let spec = format!("{{to: [{{targetRef: {{kind: Mesh}}, default: {conf}}}]}}");
        refuses_below("spec.to[0].default", "MeshHealthCheck", &spec, expected);
    }

    #[test]
    fn a_protocol_is_needed() {
        accepts("MeshHealthCheck", "{}", &[]);
        check("{}", &[" ANYOF"]);
        check("{tcp: {send: Zm9v}}", &[]);
    }

    #[test]
    fn bounds() {
        check(
            "{grpc: {}, interval: 0s, healthyThreshold: 0, unhealthyThreshold: -1, intervalJitterPercent: 101, \
             healthyPanicThreshold: 'x', eventLogPath: logs}",
            &[
                ".interval POS",
                ".unhealthyThreshold POS",
                ".healthyThreshold POS",
                ".intervalJitterPercent RANGE",
                ".healthyPanicThreshold FORMAT",
                ".eventLogPath FORMAT",
            ],
        );
        check(
            "{http: {path: '', expectedStatuses: [99, 100, 599, 600]}}",
            &[".http.path REQ", ".http.expectedStatuses[0] RANGE", ".http.expectedStatuses[3] RANGE"],
        );
    }

    #[test]
    fn the_top_level_is_warned_of_first() {
        accepts(
            "MeshHealthCheck",
            "{targetRef: {kind: MeshSubset}, to: [{targetRef: {kind: Mesh}, default: {tcp: {}, healthyPanicThreshold: 50}}]}",
            &["spec.targetRef.kind REMOVED", "spec.to[0].default.healthyPanicThreshold DEPRECATED"],
        );
    }
}
