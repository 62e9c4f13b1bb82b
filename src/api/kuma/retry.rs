//! MeshRetry.

use serde_json::{Value, json};

use super::forms::{Conf, header_matches, header_name, policy, to};
use crate::api::schema::{closed, duration, int32, list, map, requiring, texts, with, word};

pub(super) fn spec() -> Value {
    let tcp = closed(
        "Retries of connections.",
        [("maxConnectAttempt", int32("How often a connection is tried before it is given up."))],
    );
    let conf = closed("Retries.", [("tcp", tcp), ("http", http()), ("grpc", grpc())]);
    policy([to(conf, Conf::Optional)])
}

fn http() -> Value {
    let mut fields = common();
    fields.extend([
        (
            "retryOn",
            texts(
                "When to retry: 5xx, GatewayError, Reset, Retriable4xx, ConnectFailure, EnvoyRatelimited, RefusedStream, \
                 Http3PostConnectFailure, HttpMethodGet and its like, or a status such as 503.",
            ),
        ),
        ("retriableRequestHeaders", header_matches("Only requests with one of these headers are retried.")),
        ("retriableResponseHeaders", header_matches("Answers with one of these headers are retried.")),
        ("hostSelection", host_selection()),
        (
            "hostSelectionMaxAttempts",
            json!({
                "type": "integer", "format": "int64",
                "description": "How often another host is looked for before the last one found is taken.",
            }),
        ),
    ]);
    closed("Retries of HTTP requests.", fields)
}

fn grpc() -> Value {
    let conditions = ["Canceled", "DeadlineExceeded", "Internal", "ResourceExhausted", "Unavailable"];
    let mut fields = common();
    fields.push(("retryOn", list("When to retry.", word("A status of gRPC.", &conditions))));
    closed("Retries of gRPC calls.", fields)
}

fn common() -> Vec<(&'static str, Value)> {
    let back_off = closed(
        "Pauses between attempts, longer each time.",
        [
            ("baseInterval", duration("The first pause; 25ms is usual.")),
            ("maxInterval", duration("The longest pause; ten times the first is usual.")),
        ],
    );
    vec![
        ("numRetries", int32("How often to retry; 0 is never, 1 is usual.")),
        ("perTryTimeout", duration("How long one attempt may take; 0s is without end.")),
        ("backOff", back_off),
        ("rateLimitedBackOff", rate_limited_back_off()),
    ]
}

fn rate_limited_back_off() -> Value {
    let header = closed(
        "One header.",
        [("name", header_name("The name.")), ("format", word("What its value is.", &["Seconds", "UnixTimestamp"]))],
    );
    closed(
        "Pauses that the answer asks for.",
        [
            (
                "resetHeaders",
                list(
                    "Headers that say when to come back; the first that can be read counts.",
                    requiring(header, &["name", "format"]),
                ),
            ),
            ("maxInterval", duration("The longest pause; 300s is usual.")),
        ],
    )
}

fn host_selection() -> Value {
    let predicates = ["OmitPreviousHosts", "OmitHostsWithTags", "OmitPreviousPriorities"];
    let predicate = closed(
        "One way to leave hosts out.",
        [
            ("predicate", word("Which hosts are left out.", &predicates)),
            ("tags", map("Tags of the hosts, with OmitHostsWithTags.")),
            (
                "updateFrequency",
                with(
                    int32("After how many attempts priorities are weighed anew, with OmitPreviousPriorities."),
                    [("default", 2.into())],
                ),
            ),
        ],
    );
    list("Where to retry.", requiring(predicate, &["predicate"]))
}
