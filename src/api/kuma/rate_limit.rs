//! MeshRateLimit.

use serde_json::Value;

use super::forms::{Conf, from, header_changes, matching_rules, policy, to};
use crate::api::schema::{closed, duration, flag, int32, requiring};

pub(super) fn spec() -> Value {
    policy([to(conf(), Conf::Optional), from(conf(), Conf::Optional), matching_rules(conf(), Conf::Optional)])
}

fn conf() -> Value {
    let answer = closed(
        "What is answered beyond the limit.",
        [
            ("status", int32("The status; 429 is usual.")),
            ("headers", closed("Headers of the answer.", header_changes())),
        ],
    );
    let http = closed(
        "A limit of requests.",
        [
            ("disabled", flag("Whether this is off.")),
            ("requestRate", rate("How many requests pass.")),
            ("onRateLimit", answer),
        ],
    );
    let tcp = closed(
        "A limit of connections.",
        [("disabled", flag("Whether this is off.")), ("connectionRate", rate("How many connections pass."))],
    );
    let local = closed("Limits that every proxy counts by itself.", [("http", http), ("tcp", tcp)]);
    closed("Limits.", [("local", local)])
}

fn rate(description: &str) -> Value {
    let rate = closed(
        description,
        [("num", int32("How many; above 0.")), ("interval", duration("In how much time; above 50ms."))],
    );
    requiring(rate, &["num", "interval"])
}
