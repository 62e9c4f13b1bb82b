//! MeshFaultInjection.

use super::caller::{self, Strictness};
use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::scalars::INT32;
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{GATEWAYS, MESH, PROXIES_AND_SERVICES, SOURCES};
use crate::compile::reader::Node;
use crate::core::mesh::kind::PolicyKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        to: true,
        from: true,
        rules: true,
        destinations: MESH,
        ..policy_kind(800, "MeshFaultInjection", "mfi", "meshfaultinjections")
    },
    description: "Faults made on purpose, to see how others cope.",
    places: Places {
        top_of_system: GATEWAYS,
        listener_tags: true,
        from: SOURCES,
        ..Places::at_top(PROXIES_AND_SERVICES)
    },
    spec: schema::spec,
    check,
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
    policy.rules_exclude(&["from"], findings);
    let gateways = policy.top.includes_gateways();
    let (from, to) = (policy.spec.get("from"), policy.spec.get("to"));
    if policy.has("from") && gateways {
        let message = "only valid when no gateway is selected: say `proxyTypes: [Sidecar]`, or select by Dataplane";
        findings.refuse(from.path, Reason::Context, message);
    } else {
        policy.each_from(findings, |entry, findings| check_conf(&entry.conf, findings));
    }
    if policy.has("to") && !gateways {
        let message = "only permitted when gateways are selected: faults of sidecars go into `rules`";
        findings.refuse(to.path, Reason::Forbidden, message);
    } else {
        policy.each_to(findings, |entry, findings| check_conf(&entry.conf, findings));
    }
    policy.each_rule(findings, |entry, findings| {
        caller::read_list(&entry.object.get("matches"), Strictness::Lenient, findings);
        check_conf(&entry.conf, findings);
    });
    policy.finish(findings);
}

fn check_conf(conf: &Node<'_>, findings: &mut Findings) {
    let object = conf.object(findings);
    let faults = object.get("http");
    object.warn_of_unknown(findings);
    for fault in faults.list(findings) {
        let fault = fault.object(findings);
        let (abort, delay, bandwidth) = (fault.get("abort"), fault.get("delay"), fault.get("responseBandwidth"));
        fault.warn_of_unknown(findings);
        if abort.is_present() {
            check_abort(&abort, findings);
        }
        if delay.is_present() {
            let delay = delay.object(findings);
            delay.get("value").natural_duration(findings);
            delay.get("percentage").percentage(findings);
            delay.warn_of_unknown(findings);
        }
        if bandwidth.is_present() {
            check_bandwidth(&bandwidth, findings);
        }
    }
}

fn check_abort(abort: &Node<'_>, findings: &mut Findings) {
    let abort = abort.object(findings);
    let status = abort.get("httpStatus");
    if status.is_present() {
        status.bounded_integer(INT32, 100..=599, findings);
    } else {
        findings.refuse(status.path, Reason::Range, "a status within [100,599] is needed");
    }
    abort.get("percentage").percentage(findings);
    abort.warn_of_unknown(findings);
}

fn check_bandwidth(bandwidth: &Node<'_>, findings: &mut Findings) {
    let bandwidth = bandwidth.object(findings);
    let limit = bandwidth.get("limit");
    let text = limit.text(findings).unwrap_or_default();
    match Rate::read(&text) {
        _ if text.is_empty() => findings.refuse(limit.path, Reason::Required, "required: a rate such as 50Mbps"),
        Rate::Malformed => {
            findings.refuse(limit.path, Reason::Format, "malformed: a number and kbps, Mbps or Gbps, such as 50Mbps");
        }
        Rate::Odd => {
            let message = format!("`{text}` has no number or more than one unit, and will not limit anything");
            findings.warn(limit.path, Reason::Suspicious, message);
        }
        Rate::Sound => {}
    }
    bandwidth.get("percentage").percentage(findings);
    bandwidth.warn_of_unknown(findings);
}

/// How well a rate is written.
#[derive(Debug, PartialEq)]
enum Rate {
    Sound,
    /// It passes, but means nothing: no number, or several units.
    Odd,
    Malformed,
}

impl Rate {
    fn read(text: &str) -> Self {
        let Some(rest) = text.strip_suffix("bps") else {
            return Self::Malformed;
        };
        let rest_after_units = rest.trim_end_matches(['G', 'M', 'k']);
        let units = rest.len() - rest_after_units.len();
        let number = rest_after_units.strip_suffix(|c: char| c.is_ascii_whitespace()).unwrap_or(rest_after_units);
        if units == 0 || !number.bytes().all(|c| c.is_ascii_digit()) {
            Self::Malformed
        } else if units > 1 || number.is_empty() {
            Self::Odd
        } else {
            Self::Sound
        }
    }
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use crate::api::schema::{closed, duration, int32, list, number_or_text, requiring, text};
    use crate::compile::mesh::forms::{Conf, from, matching_rules, policy, to};

    pub(in crate::compile::mesh) fn spec() -> Value {
        policy([to(conf(), Conf::Optional), from(conf(), Conf::Optional), matching_rules(conf(), Conf::Required)])
    }

    fn conf() -> Value {
        let fault = |description: &str, name: &'static str, value: Value| {
            let share = number_or_text("How many percent of the requests it happens to; from 0 to 100.");
            requiring(closed(description, [(name, value), ("percentage", share)]), &[name, "percentage"])
        };
        let faults = closed(
            "Faults that happen together.",
            [
                ("abort", fault("Answer instead of the service.", "httpStatus", int32("The status, from 100 to 599."))),
                ("delay", fault("Answer later.", "value", duration("How much later."))),
                (
                    "responseBandwidth",
                    fault("Answer slowly.", "limit", text("How fast at most: 50Mbps, or with Gbps or kbps.")),
                ),
            ],
        );
        closed("What goes wrong.", [("http", list("Faults of HTTP.", faults))])
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{accepts, refuses, refuses_below};
    use super::*;

    #[test]
    fn rates() {
        for (text, expected) in [
            ("50Mbps", Rate::Sound),
            ("50 kbps", Rate::Sound),
            ("kbps", Rate::Odd),
            ("5MMbps", Rate::Odd),
            ("1000", Rate::Malformed),
            ("5bps", Rate::Malformed),
            ("5  Mbps", Rate::Malformed),
            ("1.5Mbps", Rate::Malformed),
            ("5Mbps ", Rate::Malformed),
        ] {
            assert_eq!(Rate::read(text), expected, "{text}");
        }
    }

    #[track_caller]
    fn check(fault: &str, expected: &[&str]) {
        let spec = format!("{{rules: [{{default: {{http: [{fault}]}}}}]}}");
        refuses_below("spec.rules[0].default.http[0].", "MeshFaultInjection", &spec, expected);
    }

    #[test]
    fn faults() {
        check("{}", &[]);
        check("{delay: {}}", &[]);
        check("{abort: {}}", &["abort.httpStatus RANGE"]);
        check("{abort: {httpStatus: 600, percentage: '100.1'}}", &["abort.httpStatus RANGE", "abort.percentage RANGE"]);
        check("{delay: {value: -1s, percentage: x}}", &["delay.value NEG", "delay.percentage FORMAT"]);
        check("{responseBandwidth: {}}", &["responseBandwidth.limit REQ"]);
        check("{responseBandwidth: {limit: 1000}}", &["responseBandwidth.limit FORMAT"]);
        accepts(
            "MeshFaultInjection",
            "{rules: [{matches: [{}], default: {http: [{responseBandwidth: {limit: kbps, percentage: 1}}]}}]}",
            &["spec.rules[0].default.http[0].responseBandwidth.limit SUSPICIOUS"],
        );
    }

    #[test]
    fn gateways_take_to_and_sidecars_take_from() {
        let entry = "[{targetRef: {kind: Mesh}, default: {http: []}}]";
        accepts("MeshFaultInjection", "{}", &[]);
        accepts("MeshFaultInjection", &format!("{{to: {entry}}}"), &[]);
        refuses("MeshFaultInjection", &format!("{{from: {entry}}}"), &["spec.from CTX"]);
        let sidecars = "targetRef: {kind: Mesh, proxyTypes: [Sidecar]}";
        refuses("MeshFaultInjection", &format!("{{{sidecars}, to: {entry}}}"), &["spec.to FORBID"]);
        refuses("MeshFaultInjection", &format!("{{{sidecars}, from: {entry}}}"), &[]);
        refuses(
            "MeshFaultInjection",
            &format!("{{{sidecars}, from: {entry}, rules: [{{default: {{}}}}]}}"),
            &["spec XOR"],
        );
        refuses(
            "MeshFaultInjection",
            &format!("{{targetRef: {{kind: Nothing}}, to: {entry}}}"),
            &["spec.targetRef.kind KIND", "spec.to FORBID"],
        );
    }
}
