//! MeshCircuitBreaker.

use std::cmp::Ordering;

use super::policy::{Policy, Resource};
use crate::compile::Findings;
use crate::compile::mesh::scalars::UINT32;
use crate::compile::reader::{Node, Object};
use crate::core::mesh::policy::PolicyKind;
use crate::core::problem::Reason;

const LIMITS: &[&str] = &["maxConnections", "maxConnectionPools", "maxPendingRequests", "maxRetries", "maxRequests"];
const CONSECUTIVE: &[&str] = &["totalFailures", "gatewayFailures", "localOriginFailures"];

pub(in crate::compile) fn check(resource: &Resource<'_>, findings: &mut Findings) {
    let policy = Policy::read(PolicyKind::CircuitBreaker, resource, findings);
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
