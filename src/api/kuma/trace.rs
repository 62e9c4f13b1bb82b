//! MeshTrace.

use serde_json::Value;

use super::forms::{open_telemetry, policy};
use crate::api::schema::{closed, flag, list, number_or_text, requiring, text, with, word};

pub(super) fn spec() -> Value {
    let conf =
        closed("How requests are traced.", [("backends", backends()), ("sampling", sampling()), ("tags", tags())]);
    policy([("default", conf)])
}

fn backends() -> Value {
    let version = with(word("The form of its API.", &["httpJson", "httpProto"]), [("default", "httpJson".into())]);
    let zipkin = closed(
        "Zipkin.",
        [
            ("url", text("Its address, such as http://zipkin:9411/api/v2/spans.")),
            ("traceId128bit", flag("Whether trace IDs have 128 bits.")),
            ("apiVersion", version),
            ("sharedSpanContext", flag("Whether both ends share a span; true is usual.")),
        ],
    );
    let datadog = closed(
        "Datadog.",
        [
            ("url", text("Its address, such as http://datadog-agent:8126, without a path.")),
            ("splitService", flag("Whether the name of the service tells direction and destination.")),
        ],
    );
    let backend = closed(
        "One place that spans go to.",
        [
            ("type", word("Which of the others counts.", &["Zipkin", "Datadog", "OpenTelemetry"])),
            ("zipkin", requiring(zipkin, &["url"])),
            ("datadog", requiring(datadog, &["url"])),
            ("openTelemetry", open_telemetry([])),
        ],
    );
    with(
        list("Where spans go: one place, or none to switch tracing off.", requiring(backend, &["type"])),
        [("maxItems", 1.into())],
    )
}

fn sampling() -> Value {
    let percent = |description: &str| with(number_or_text(description), [("default", 100.into())]);
    closed(
        "How many requests are traced, in percent.",
        [
            ("overall", percent("At most, whatever the others say.")),
            ("client", percent("Of requests whose caller asks for it by `x-client-trace-id`.")),
            ("random", percent("Of all others.")),
        ],
    )
}

fn tags() -> Value {
    let header = closed(
        "From a header of the request.",
        [("name", text("The header.")), ("default", text("What to say when it is missing."))],
    );
    let tag = closed(
        "One tag: header or literal.",
        [
            ("name", text("Its name.")),
            ("literal", text("A value that is always the same.")),
            ("header", requiring(header, &["name"])),
        ],
    );
    list("Tags of every span.", requiring(tag, &["name"]))
}
