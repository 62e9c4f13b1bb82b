//! What the API server knows of a MeshHTTPRoute. Besides the canonical form the older one is described that admission
//! understands; where the two have different types, the API server takes both.

use serde_json::{Value, json};

use super::filters::{PATH_CHANGES, SCHEMES, TYPES};
use super::matches::QUERY_TYPES;
use crate::api::schema::{closed, flag, int32, list, number_or_text, open, requiring, text, texts, with, word};
use crate::compile::mesh::forms::{backend_ref, header_changes, header_matches, older_header_changes, policy};
use crate::compile::mesh::route_rule::schema::{backends, destination};
use crate::core::mesh::http_route::Method;

type Field = (&'static str, Value);

pub(in crate::compile::mesh) fn spec() -> Value {
    let filters = || list("What happens to a request on its way.", filter());
    let backends = || backends("Where it goes; left out, to where it was going.");
    let rule = closed(
        "One rule.",
        [
            ("matches", matches()),
            ("default", closed("What to do.", [("filters", filters()), ("backendRefs", backends())])),
            ("filters", filters()),
            ("backendRefs", backends()),
        ],
    );
    let hostnames = texts("The hosts that the rules are for; only below a MeshGateway.");
    policy([("to", list("Requests, by destination.", destination(rule, [("hostnames", hostnames)], None)))])
}

/// A list, or the single match that the older form writes.
fn matches() -> Value {
    let one = closed(
        "One kind of request; all that is given must fit.",
        [
            ("path", path()),
            ("method", word("The method.", &Method::ALL.map(Method::name))),
            (
                "methods",
                list("Older form: write a match for each method.", word("A method.", &Method::ALL.map(Method::name))),
            ),
            ("queryParams", query_parameters()),
            ("headers", header_matches("Headers; all must fit.")),
        ],
    );
    let list = open("Which requests the rule is for: a list, of which one must fit. Left out, all requests.");
    with(list, [("properties", one["properties"].clone()), ("items", one)])
}

fn path() -> Value {
    let filled = |description: &str| with(text(description), [("minLength", 1.into())]);
    let types = ["Exact", "PathPrefix", "RegularExpression", "Prefix"];
    with(
        closed(
            "The path.",
            [
                ("type", word("How to compare; Prefix is an older word for PathPrefix.", &types)),
                ("value", filled("What to compare with: an absolute path, without a slash at the end of a prefix.")),
                ("exact", filled("Older form of type and value.")),
                ("prefix", filled("Older form of type and value.")),
                ("regex", filled("Older form of type and value.")),
            ],
        ),
        [(
            "anyOf",
            json!([
                {"required": ["type", "value"]},
                {"required": ["exact"]},
                {"required": ["prefix"]},
                {"required": ["regex"]},
            ]),
        )],
    )
}

fn query_parameters() -> Value {
    let parameter = closed(
        "One parameter.",
        [
            ("type", word("How to compare.", QUERY_TYPES)),
            ("name", with(text("The name."), [("minLength", 1.into())])),
            ("value", text("What to compare with.")),
        ],
    );
    list("Parameters of the query; all must fit.", requiring(parameter, &["type", "name", "value"]))
}

fn filter() -> Value {
    let types: Vec<_> = TYPES.iter().map(|(kind, ..)| *kind).collect();
    closed(
        "One filter.",
        [
            ("type", word("Which of the others counts; left out, the only one that is there.", &types)),
            ("requestHeaderModifier", header_modifier("Changes headers of the request.")),
            ("responseHeaderModifier", header_modifier("Changes headers of the answer.")),
            ("requestHeader", older_header_modifier("Older form: write requestHeaderModifier.")),
            ("responseHeader", older_header_modifier("Older form: write responseHeaderModifier.")),
            ("requestRedirect", redirect()),
            ("urlRewrite", rewrite()),
            ("requestMirror", mirror()),
        ],
    )
}

fn header_modifier(description: &str) -> Value {
    modifier(description, header_changes())
}

fn older_header_modifier(description: &str) -> Value {
    modifier(description, older_header_changes())
}

fn modifier(description: &str, mut fields: Vec<Field>) -> Value {
    fields.push(("remove", with(texts("Headers that are taken away."), [("maxItems", 16.into())])));
    closed(description, fields)
}

fn redirect() -> Value {
    let port =
        with(int32("The port; left out, that of the request."), [("minimum", 1.into()), ("maximum", 65535.into())]);
    let status = with(int32("The status."), [("enum", json!([301, 302, 303, 307, 308])), ("default", 302.into())]);
    closed(
        "Tells the caller to go elsewhere; what is left out stays as in the request.",
        [
            ("scheme", word("The scheme.", SCHEMES)),
            ("hostname", hostname()),
            ("path", path_change()),
            ("port", port),
            ("statusCode", status),
        ],
    )
}

fn rewrite() -> Value {
    closed(
        "Changes the URL before the request goes on.",
        [
            ("hostname", hostname()),
            ("path", path_change()),
            ("hostToBackendHostname", flag("Whether the host becomes that of the backend; only below a MeshGateway.")),
        ],
    )
}

fn hostname() -> Value {
    with(
        text("A host name, in lower case; not an address."),
        [
            ("minLength", 1.into()),
            ("maxLength", 253.into()),
            ("pattern", r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$".into()),
        ],
    )
}

/// An object, or the whole new path as text, which the older form writes.
fn path_change() -> Value {
    let change = closed(
        "",
        [
            ("type", word("Which of the others counts.", PATH_CHANGES)),
            ("replaceFullPath", text("The whole new path.")),
            ("replacePrefixMatch", text("What the matched prefix becomes.")),
        ],
    );
    let either = open("How the path changes: {type, replaceFullPath, replacePrefixMatch}.");
    with(either, [("properties", change["properties"].clone())])
}

fn mirror() -> Value {
    let mirror = closed(
        "Sends a copy elsewhere; the answer to it is dropped.",
        [
            ("percentage", number_or_text("How many percent of the requests; left out, all.")),
            ("backendRef", backend_ref("Where the copy goes.")),
        ],
    );
    requiring(mirror, &["backendRef"])
}
