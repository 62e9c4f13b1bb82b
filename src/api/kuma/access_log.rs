//! MeshAccessLog.

use serde_json::Value;

use super::forms::{Conf, from, matching_rules, open_telemetry, policy, to};
use crate::api::schema::{closed, flag_default, list, open, requiring, text, with, word};

pub(super) fn spec() -> Value {
    policy([to(conf(), Conf::Required), from(conf(), Conf::Required), matching_rules(conf(), Conf::Required)])
}

fn conf() -> Value {
    let backend = closed(
        "One place that logs go to.",
        [
            ("type", word("Which of the others counts.", &["Tcp", "File", "OpenTelemetry"])),
            (
                "tcp",
                requiring(
                    closed(
                        "Over TCP.",
                        [("format", format()), ("address", filled("Host and port: logs.example:5000."))],
                    ),
                    &["address"],
                ),
            ),
            (
                "file",
                requiring(
                    closed(
                        "To a file.",
                        [("format", format()), ("path", filled("The file, such as /tmp/access.log."))],
                    ),
                    &["path"],
                ),
            ),
            ("openTelemetry", open_telemetry([("attributes", attributes()), ("body", body())])),
        ],
    );
    let backends = list("Where logs go; an empty list switches logging off.", requiring(backend, &["type"]));
    closed("How traffic is logged.", [("backends", backends)])
}

fn filled(description: &str) -> Value {
    with(text(description), [("minLength", 1.into())])
}

fn format() -> Value {
    let format = closed(
        "What a line looks like, with the placeholders of Envoy's access logs and %KUMA_MESH% and its like.",
        [
            ("type", word("Which of plain and json counts.", &["Plain", "Json"])),
            ("plain", text("The line as text.")),
            ("json", list("The line as a JSON object.", pair("One member."))),
            ("omitEmptyValues", flag_default("Whether empty values are left out instead of written as `-`.", false)),
        ],
    );
    requiring(format, &["type"])
}

fn pair(description: &str) -> Value {
    let pair = closed(description, [("key", text("The key.")), ("value", text("The value, with placeholders."))]);
    requiring(pair, &["key", "value"])
}

fn attributes() -> Value {
    let mut attribute = pair("One attribute; the key is a lower-case dotted name.");
    attribute["properties"]["key"]["pattern"] = r"^[a-z]([a-z0-9._]*[a-z0-9])?$".into();
    list("Attributes of the record.", attribute)
}

fn body() -> Value {
    open("The body of the record: text, or a value of OTLP, with placeholders.")
}
