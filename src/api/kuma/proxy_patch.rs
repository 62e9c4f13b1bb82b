//! MeshProxyPatch.

use serde_json::Value;

use super::forms::policy;
use crate::api::schema::{closed, list, map, open, requiring, text, with, word};

/// The spelling of this kind comes first; that of ProxyTemplate is understood as well.
const RESOURCE_OPERATIONS: &[&str] = &["Add", "Remove", "Patch", "add", "remove", "patch"];
const FILTER_OPERATIONS: &[&str] = &[
    "AddFirst",
    "AddLast",
    "AddBefore",
    "AddAfter",
    "Remove",
    "Patch",
    "addFirst",
    "addLast",
    "addBefore",
    "addAfter",
    "remove",
    "patch",
];

type Field = (&'static str, Value);

pub(super) fn spec() -> Value {
    let modification = closed(
        "One change: exactly one of these.",
        [
            ("cluster", change("A change of clusters.", RESOURCE_OPERATIONS, criteria([]))),
            ("listener", change("A change of listeners.", RESOURCE_OPERATIONS, criteria([tags("tags")]))),
            ("route", change("A change of route configurations.", RESOURCE_OPERATIONS, criteria([]))),
            ("virtualHost", virtual_host()),
            ("networkFilter", change("A change of network filters.", FILTER_OPERATIONS, filter_criteria())),
            ("httpFilter", change("A change of HTTP filters.", FILTER_OPERATIONS, filter_criteria())),
        ],
    );
    let conf = closed(
        "What is changed in the finished configuration of Envoy.",
        [("appendModifications", list("Changes, run in order; each sees what those before it made.", modification))],
    );
    requiring(policy([("default", conf)]), &["default"])
}

fn virtual_host() -> Value {
    let configuration = ("routeConfigurationName", text("The name of the route configuration that it is in."));
    let change = change("A change of virtual hosts.", RESOURCE_OPERATIONS, criteria([configuration]));
    requiring(change, &["operation", "match"])
}

fn change(description: &str, operations: &[&str], criteria: Value) -> Value {
    let change = closed(
        description,
        [
            ("operation", word("What is done.", operations)),
            ("match", criteria),
            ("value", open("What is added or merged: an Envoy document, as YAML text or inline.")),
            ("jsonPatches", list("Changes by JSON patch, instead of value, with Patch.", json_patch())),
        ],
    );
    requiring(change, &["operation"])
}

fn criteria(fields: impl IntoIterator<Item = Field>) -> Value {
    let common = [
        ("name", text("Its name.")),
        ("origin", text("What it was made for: inbound, outbound, gateway, prometheus and others.")),
        ("side", text("Another word for origin.")),
    ];
    closed("What is changed: all that is given must fit.", common.into_iter().chain(fields))
}

fn filter_criteria() -> Value {
    criteria([
        ("type", text("Another word for name.")),
        ("listenerName", text("The name of the listener that it is in.")),
        tags("listenerTags"),
    ])
}

fn tags(name: &'static str) -> Field {
    (name, map("Tags of the listener, in its metadata under io.kuma.tags; `*` matches any value."))
}

fn json_patch() -> Value {
    let operations = ["add", "remove", "replace", "move", "copy"];
    let patch = closed(
        "One step.",
        [
            ("op", word("What is done.", &operations)),
            ("path", text("Where: a JSON pointer.")),
            ("from", text("Where from, with move and copy.")),
            // Null is a value like any other; the API server would take it for nothing.
            ("value", with(open("What, with add and replace."), [("nullable", true.into())])),
        ],
    );
    requiring(patch, &["op", "path"])
}
