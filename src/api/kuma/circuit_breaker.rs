//! MeshCircuitBreaker.

use serde_json::Value;

use super::forms::{Conf, from, policy, rules, to};
use crate::api::schema::{closed, duration, flag, int32, number_or_text};

pub(super) fn spec() -> Value {
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
            ("localOriginFailures", consecutive("Failures on this side, counted with splitExternalAndLocalErrors.")),
            ("successRate", closed("Hosts that succeed less often than the others.", success_rate)),
            ("failurePercentage", closed("Hosts that fail too often.", failure_percentage)),
        ],
    )
}
