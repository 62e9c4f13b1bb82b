//! MeshCircuitBreaker.

use std::cmp::Ordering;

use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::record::{PolicyRecord, RecordSchemas, policy_kind};
use crate::compile::mesh::scalars::UINT32;
use crate::compile::mesh::target_ref::Places;
use crate::compile::mesh::target_ref::places::{DESTINATIONS, MESH, PROXIES_SERVICES_GATEWAYS};
use crate::compile::reader::{Node, Object};
use crate::core::mesh::kind::PolicyKind;
use crate::core::problem::Reason;

pub(super) static RECORD: PolicyRecord = PolicyRecord {
    kind: PolicyKind {
        to: true,
        from: true,
        rules: true,
        from_as_rules: true,
        destinations: DESTINATIONS,
        ..policy_kind(1300, "MeshCircuitBreaker", "mcb", "meshcircuitbreakers")
    },
    description: "Limits of what a service is given at once, and how hosts that fail are left out.",
    places: Places { listener_tags: true, from: MESH, ..Places::at_top(PROXIES_SERVICES_GATEWAYS) },
    spec: schema::spec,
    check,
    filled_in: &[],
    schemas: RecordSchemas::new(),
};

const LIMITS: &[&str] = &["maxConnections", "maxConnectionPools", "maxPendingRequests", "maxRetries", "maxRequests"];
const CONSECUTIVE: &[&str] = &["totalFailures", "gatewayFailures", "localOriginFailures"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(&RECORD, resource, findings);
    policy.rules_exclude(&["to", "from"], findings);
    policy.needs_any(&["to", "from", "rules"], findings);
    policy.each_rule(findings, |entry, findings| check_conf(&entry.conf, findings));
    policy.each_from(findings, |entry, findings| check_conf(&entry.conf, findings));
    policy.each_to(findings, |entry, findings| check_conf(&entry.conf, findings));
    policy.finish(findings);
}

fn check_conf(conf: &Node<'_>, findings: &mut Findings) {
    let object = conf.object(findings);
    let (limits, outliers) = (object.get("connectionLimits"), object.get("outlierDetection"));
    object.warn_of_unknown(findings);
    if !limits.is_present() && !outliers.is_present() {
        findings.refuse(conf.path, Reason::AnyOf, "at least one of connectionLimits, outlierDetection");
        return;
    }
    let limits = limits.object(findings);
    for name in LIMITS {
        limits.get(name).positive_integer(UINT32, findings);
    }
    limits.warn_of_unknown(findings);
    if outliers.is_present() {
        check_outlier_detection(&outliers, findings);
    }
}

fn check_outlier_detection(field: &Node<'_>, findings: &mut Findings) {
    let object = field.object(findings);
    object.get("disabled").flag(findings);
    object.get("interval").positive_duration(findings);
    object.get("baseEjectionTime").positive_duration(findings);
    object.get("maxEjectionPercent").bounded_integer(UINT32, 0..=100, findings);
    object.get("splitExternalAndLocalErrors").flag(findings);
    object.get("healthyPanicThreshold").percentage(findings);
    let detectors = object.get("detectors");
    object.warn_of_unknown(findings);
    if detectors.is_present() {
        check_detectors(&detectors, findings);
    } else {
        findings.refuse(detectors.path, Reason::Required, "required: what counts as a failure");
    }
}

fn check_detectors(field: &Node<'_>, findings: &mut Findings) {
    let object = field.object(findings);
    let consecutive: Vec<_> = CONSECUTIVE.iter().map(|name| object.get(name)).collect();
    let (success_rate, failure_percentage) = (object.get("successRate"), object.get("failurePercentage"));
    object.warn_of_unknown(findings);
    if !consecutive.iter().chain([&success_rate, &failure_percentage]).any(Node::is_present) {
        let message = format!("at least one of {}, successRate, failurePercentage", CONSECUTIVE.join(", "));
        findings.refuse(field.path, Reason::AnyOf, message);
        return;
    }
    for detector in consecutive {
        let detector = detector.object(findings);
        detector.get("consecutive").positive_integer(UINT32, findings);
        detector.warn_of_unknown(findings);
    }
    let success_rate = success_rate.object(findings);
    check_sample(&success_rate, findings);
    success_rate.get("standardDeviationFactor").decimal_above(&[Ordering::Greater], findings);
    success_rate.warn_of_unknown(findings);
    let failure_percentage = failure_percentage.object(findings);
    check_sample(&failure_percentage, findings);
    failure_percentage.get("threshold").bounded_integer(UINT32, 0..=100, findings);
    failure_percentage.warn_of_unknown(findings);
}

/// How many hosts and requests a statistical detector needs.
fn check_sample(detector: &Object<'_>, findings: &mut Findings) {
    detector.get("minimumHosts").positive_integer(UINT32, findings);
    detector.get("requestVolume").positive_integer(UINT32, findings);
}

/// What the API server knows of the content.
pub(super) mod schema {
    use serde_json::Value;

    use crate::api::schema::{closed, duration, flag, int32, number_or_text};
    use crate::compile::mesh::forms::{Conf, from, policy, rules, to};

    pub(in crate::compile::mesh) fn spec() -> Value {
        policy([to(conf(), Conf::Optional), from(conf(), Conf::Optional), rules(conf(), Conf::Optional)])
    }

    fn conf() -> Value {
        let limits = closed(
            "How much a service is given at once; each above 0.",
            [
                ("maxConnections", int32("Connections.")),
                ("maxConnectionPools", int32("Pools of connections.")),
                ("maxPendingRequests", int32("Requests that wait for a connection.")),
                ("maxRetries", int32("Retries under way.")),
                ("maxRequests", int32("Requests under way; not for TCP.")),
            ],
        );
        closed("When to stop sending.", [("connectionLimits", limits), ("outlierDetection", outlier_detection())])
    }

    fn outlier_detection() -> Value {
        closed(
            "Hosts that fail are left out for a while.",
            [
                ("disabled", flag("Whether this is off.")),
                ("interval", duration("How often hosts are weighed; above 0s.")),
                ("baseEjectionTime", duration("How long a host is left out, times how often it was; above 0s.")),
                ("maxEjectionPercent", int32("How many percent of the hosts may be left out; from 0 to 100.")),
                ("splitExternalAndLocalErrors", flag("Whether failures on this side are counted apart.")),
                (
                    "healthyPanicThreshold",
                    number_or_text("Below how many percent of healthy hosts all are used again; from 0 to 100."),
                ),
                ("detectors", detectors()),
            ],
        )
    }

    fn detectors() -> Value {
        let consecutive = |description: &str| {
            closed(description, [("consecutive", int32("How many in a row leave a host out; above 0."))])
        };
        let sample = || {
            vec![
                ("minimumHosts", int32("How many hosts there must be; above 0.")),
                ("requestVolume", int32("How many requests a host must have had in an interval; above 0.")),
            ]
        };
        let (mut success_rate, mut failure_percentage) = (sample(), sample());
        success_rate.push((
            "standardDeviationFactor",
            number_or_text("How far below the mean, in standard deviations, is too low; above 0."),
        ));
        failure_percentage.push(("threshold", int32("How many percent are too many; from 0 to 100.")));
        closed(
            "What counts as a failure.",
            [
                ("totalFailures", consecutive("Any failures.")),
                ("gatewayFailures", consecutive("Status 502, 503 and 504.")),
                (
                    "localOriginFailures",
                    consecutive("Failures on this side, counted with splitExternalAndLocalErrors."),
                ),
                ("successRate", closed("Hosts that succeed less often than the others.", success_rate)),
                ("failurePercentage", closed("Hosts that fail too often.", failure_percentage)),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::refuses_below;

    #[track_caller]
    fn check(conf: &str, expected: &[&str]) {
        let spec = format!("{{rules: [{{default: {conf}}}]}}");
        refuses_below("spec.rules[0].default", "MeshCircuitBreaker", &spec, expected);
    }

    #[test]
    fn limits() {
        check("{}", &[" ANYOF"]);
        check("{connectionLimits: {}}", &[]);
        check(
            "{connectionLimits: {maxConnections: 0, maxRequests: 1, maxRetries: -1}}",
            &[".connectionLimits.maxConnections POS", ".connectionLimits.maxRetries FORMAT"],
        );
    }

    #[test]
    fn outlier_detection() {
        check("{outlierDetection: {disabled: true}}", &[".outlierDetection.detectors REQ"]);
        check("{outlierDetection: {detectors: {}}}", &[".outlierDetection.detectors ANYOF"]);
        check(
            "{outlierDetection: {interval: 0s, maxEjectionPercent: 101, healthyPanicThreshold: 100.1, detectors: {totalFailures: {}}}}",
            &[
                ".outlierDetection.interval POS",
                ".outlierDetection.maxEjectionPercent RANGE",
                ".outlierDetection.healthyPanicThreshold FORMAT",
            ],
        );
        check(
            "{outlierDetection: {healthyPanicThreshold: '100.1', detectors: {gatewayFailures: {consecutive: 0}, \
             successRate: {standardDeviationFactor: 'x'}, failurePercentage: {threshold: 101, minimumHosts: 0}}}}",
            &[
                ".outlierDetection.healthyPanicThreshold RANGE",
                ".outlierDetection.detectors.gatewayFailures.consecutive POS",
                ".outlierDetection.detectors.successRate.standardDeviationFactor FORMAT",
                ".outlierDetection.detectors.failurePercentage.minimumHosts POS",
                ".outlierDetection.detectors.failurePercentage.threshold RANGE",
            ],
        );
    }
}
