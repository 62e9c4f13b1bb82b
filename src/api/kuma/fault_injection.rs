//! MeshFaultInjection.

use serde_json::Value;

use super::forms::{Conf, from, matching_rules, policy, to};
use crate::api::schema::{closed, duration, int32, list, number_or_text, requiring, text};

pub(super) fn spec() -> Value {
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
