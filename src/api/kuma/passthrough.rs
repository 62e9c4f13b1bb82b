//! MeshPassthrough.

use serde_json::Value;

use super::forms::policy;
use crate::api::schema::{closed, int32, list, requiring, text, with, word};

pub(super) fn spec() -> Value {
    let mode = with(word("What passes.", &["All", "Matched", "None"]), [("default", "None".into())]);
    let conf = closed(
        "What may leave the mesh without a service that describes it.",
        [("passthroughMode", mode), ("appendMatch", list("What passes with Matched.", destination()))],
    );
    policy([("default", conf)])
}

fn destination() -> Value {
    let protocols = ["tcp", "tls", "grpc", "http", "http2", "mysql"];
    let destination = closed(
        "One destination.",
        [
            ("type", word("What the value is.", &["Domain", "IP", "CIDR"])),
            ("value", text("A domain such as *.example.com, an address, or a range such as 10.0.0.0/8.")),
            ("port", int32("The port, from 1 to 65535; left out, any.")),
            ("protocol", with(word("What is spoken.", &protocols), [("default", "tcp".into())])),
        ],
    );
    requiring(destination, &["type", "value"])
}
