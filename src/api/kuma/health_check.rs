//! MeshHealthCheck.

use serde_json::Value;

use super::forms::{Conf, header_changes, policy, to};
use crate::api::schema::{closed, duration, flag, int32, list, number_or_text, text, texts};

pub(super) fn spec() -> Value {
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
            ("noTrafficInterval", duration("Between two checks while there is no traffic; above 0s, 60s is usual.")),
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
