//! MeshHealthCheck.

use super::headers;
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::format::is_file_path;
use crate::compile::mesh::scalars::INT32;
use crate::compile::reader::Node;
use crate::core::mesh::policy::PolicyKind;
use crate::core::problem::Reason;

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(PolicyKind::HealthCheck, resource, findings);
    policy.top.warn(PolicyKind::HealthCheck, findings);
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
