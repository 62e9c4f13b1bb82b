//! MeshTimeout.

use serde_json::Value;

use super::forms::{Conf, from, matching_rules, policy, to};
use crate::api::schema::{closed, duration};

pub(super) fn spec() -> Value {
    policy([to(conf(), Conf::Optional), from(conf(), Conf::Optional), matching_rules(conf(), Conf::Optional)])
}

fn conf() -> Value {
    let http = closed(
        "Timeouts of HTTP.",
        [
            ("requestTimeout", duration("How long a request may take as a whole; 0s is without end, 15s is usual.")),
            ("streamIdleTimeout", duration("How long a stream may be silent; 0s is without end, 30m is usual.")),
            ("maxStreamDuration", duration("How long a stream may live; 0s is without end.")),
            ("maxConnectionDuration", duration("How long a connection may live; 0s is without end.")),
            ("requestHeadersTimeout", duration("How long the headers of a request may take; 0s is without end.")),
        ],
    );
    closed(
        "Timeouts.",
        [
            ("connectionTimeout", duration("How long a connection may take to come about; above 0s, 5s is usual.")),
            ("idleTimeout", duration("How long a connection may be silent; 0s is without end, 1h is usual.")),
            ("http", http),
        ],
    )
}
