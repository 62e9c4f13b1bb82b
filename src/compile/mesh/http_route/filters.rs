//! `filters` of a rule.

use super::Surroundings;
use crate::compile::Findings;
use crate::compile::mesh::backend_ref;
use crate::compile::mesh::format::{is_dns_subdomain, is_ip};
use crate::compile::mesh::scalars::INT32;
use crate::compile::reader::{Node, Object};
use crate::compile::way::Way;
use crate::core::mesh::http_route::{
    Filter, HeaderChange, HostChange, Mirror, PathChange, Redirect, RedirectStatus, Rewrite,
};
use crate::core::problem::Reason;

pub(super) const SCHEMES: &[&str] = &["http", "https"];
pub(super) const PATH_CHANGES: &[&str] = &["ReplaceFullPath", "ReplacePrefixMatch"];
/// The types of a filter: the name, the key of its body, and an older spelling of that key.
pub(super) const TYPES: &[(&str, &str, Option<&str>)] = &[
    ("RequestHeaderModifier", "requestHeaderModifier", Some("requestHeader")),
    ("ResponseHeaderModifier", "responseHeaderModifier", Some("responseHeader")),
    ("RequestRedirect", "requestRedirect", None),
    ("URLRewrite", "urlRewrite", None),
    ("RequestMirror", "requestMirror", None),
];

/// Reads a list of filters; those with findings are left out.
pub(super) fn read_list(list: &Node<'_>, surroundings: Surroundings, findings: &mut Findings) -> Vec<Filter> {
    let before = findings.errors.len();
    let filters: Vec<_> =
        list.list(findings).iter().filter_map(|filter| read(filter, surroundings, findings)).collect();
    let redirects = filters.iter().any(|filter| matches!(filter, Filter::Redirect(_)));
    let mirrors = filters.iter().any(|filter| matches!(filter, Filter::Mirror(_)));
    let rewrites = filters.iter().any(|filter| matches!(filter, Filter::Rewrite(_)));
    // Only sound filters are weighed against each other.
    if redirects && findings.errors.len() == before {
        if mirrors {
            let message = "either RequestRedirect or RequestMirror: a redirected request goes nowhere else";
            findings.refuse(list.path, Reason::Xor, message);
        } else if rewrites {
            let message = "URLRewrite has no effect beside RequestRedirect: set the path and hostname of the redirect";
            findings.warn(list.path, Reason::Suspicious, message);
        }
    }
    filters
}

/// Whether any filter of the list redirects, sound or not.
pub(super) fn redirects(list: &Node<'_>) -> bool {
    list.list(&mut Findings::default()).iter().any(|filter| {
        let kind = filter.below("type");
        match kind.is_present() {
            true => kind.as_text() == Some("RequestRedirect"),
            false => filter.below("requestRedirect").is_present(),
        }
    })
}

fn read(filter: &Node<'_>, surroundings: Surroundings, findings: &mut Findings) -> Option<Filter> {
    let object = filter.object(findings);
    let kind_field = object.get("type");
    let bodies: Vec<_> = TYPES.iter().map(|(kind, key, older)| (*kind, body(&object, key, *older, findings))).collect();
    object.warn_of_unknown(findings);
    let given: Vec<_> = bodies.iter().filter(|(_, body)| body.is_present()).collect();
    let (kind, body) = match given.as_slice() {
        _ if kind_field.is_filled() => {
            let known: Vec<_> = TYPES.iter().map(|(kind, ..)| *kind).collect();
            let kind = kind_field.word(&known, findings)?;
            bodies.iter().find(|(of, _)| *of == kind)?
        }
        [only] => {
            let message = format!("no `type` is given; taken as {}", only.0);
            findings.warn(kind_field.path, Reason::Deprecated, message);
            *only
        }
        _ => {
            let keys: Vec<_> = TYPES.iter().map(|(_, key, _)| *key).collect();
            let message = format!("exactly one of {}, or a `type` that says which counts", keys.join(", "));
            findings.refuse(filter.path, Reason::Xor, message);
            return None;
        }
    };
    if !body.is_present() {
        findings.refuse(body.path, Reason::Required, format!("required with type {kind}"));
        return None;
    }
    match *kind {
        "RequestHeaderModifier" => read_headers(body, findings).map(Filter::RequestHeaders),
        "ResponseHeaderModifier" => read_headers(body, findings).map(Filter::ResponseHeaders),
        "RequestRedirect" => read_redirect(body, surroundings, findings).map(Filter::Redirect),
        "URLRewrite" => read_rewrite(body, surroundings, findings).map(Filter::Rewrite),
        _ => read_mirror(body, findings).map(Filter::Mirror),
    }
}

/// The body under its key, or under an older spelling of it.
fn body<'v>(object: &Object<'v>, key: &'static str, older: Option<&'static str>, findings: &mut Findings) -> Node<'v> {
    let body = object.get(key);
    let Some(alias) = older.map(|older| object.get(older)).filter(Node::is_present) else {
        return body;
    };
    if body.is_present() {
        let message = format!("exactly one of `{key}` and `{}`: they mean the same", older.unwrap_or_default());
        findings.refuse(object.path, Reason::Xor, message);
        return body;
    }
    findings.warn(alias.path, Reason::Deprecated, format!("an older spelling: write `{key}`"));
    alias
}

fn read_headers(body: &Node<'_>, findings: &mut Findings) -> Option<HeaderChange> {
    let before = findings.errors.len();
    let object = body.object(findings);
    let (set, add, remove) = (object.get("set"), object.get("add"), object.get("remove"));
    object.warn_of_unknown(findings);
    if ![&set, &add, &remove].into_iter().any(Node::is_present) {
        findings.refuse(body.path, Reason::AnyOf, "at least one of set, add, remove");
        return None;
    }
    let mut names = Vec::new();
    let set = read_pairs(&set, &mut names, findings);
    let add = read_pairs(&add, &mut names, findings);
    let removed = remove.list(findings);
    let mut remove = Vec::new();
    for header in removed {
        let name = header.text(findings).unwrap_or_default().into_owned();
        note_name(&name, header.path.field("name"), &mut names, findings);
        remove.push(name);
    }
    (findings.errors.len() == before).then_some(HeaderChange { set, add, remove })
}

fn read_pairs(list: &Node<'_>, names: &mut Vec<String>, findings: &mut Findings) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for header in list.list(findings) {
        let object = header.object(findings);
        let (name_field, value) = (object.get("name"), object.get("value"));
        object.warn_of_unknown(findings);
        let name = name_field.text(findings).unwrap_or_default().into_owned();
        note_name(&name, name_field.path, names, findings);
        pairs.push((name, value.text(findings).unwrap_or_default().into_owned()));
    }
    pairs
}

/// A header may be named once in all lists of a modifier.
fn note_name(name: &str, path: Way<'_>, names: &mut Vec<String>, findings: &mut Findings) {
    if names.iter().any(|known| known == name) {
        findings.refuse(path, Reason::Duplicate, format!("duplicate of the earlier `{name}`"));
    } else {
        names.push(name.to_owned());
    }
}

fn read_redirect(body: &Node<'_>, surroundings: Surroundings, findings: &mut Findings) -> Option<Redirect> {
    let before = findings.errors.len();
    let object = body.object(findings);
    let scheme = object.get("scheme");
    let (hostname, path, port) = (object.get("hostname"), object.get("path"), object.get("port"));
    let status_field = object.get("statusCode");
    object.warn_of_unknown(findings);
    let scheme = if scheme.is_present() { scheme.schema_word(SCHEMES, findings) } else { None };
    let hostname = read_hostname(&hostname, findings);
    let path = read_path(&path, surroundings, findings);
    let port = port.integer(INT32, findings).and_then(|number| u16::try_from(number).ok());
    let status = status_field.integer(INT32, findings);
    let known = |code: i64| RedirectStatus::ALL.into_iter().find(|status| i64::from(status.code()) == code);
    let status = status.and_then(known).unwrap_or_default();
    let scheme = scheme.map(str::to_owned);
    (findings.errors.len() == before).then_some(Redirect { scheme, hostname, path, port, status })
}

fn read_rewrite(body: &Node<'_>, surroundings: Surroundings, findings: &mut Findings) -> Option<Rewrite> {
    let before = findings.errors.len();
    let object = body.object(findings);
    let (hostname, path, to_backend) =
        (object.get("hostname"), object.get("path"), object.get("hostToBackendHostname"));
    object.warn_of_unknown(findings);
    let host = read_hostname(&hostname, findings).map(HostChange::To);
    let path = read_path(&path, surroundings, findings);
    let follows = to_backend.flag(findings) == Some(true);
    if follows && !surroundings.below_gateway {
        let message = "only valid with a MeshGateway at the top level";
        findings.refuse(to_backend.path, Reason::Context, message);
    }
    if follows && hostname.is_present() {
        findings.refuse(to_backend.path, Reason::Context, "only valid when hostname is not set");
    }
    let host = if follows { Some(HostChange::ToBackend) } else { host };
    (findings.errors.len() == before).then_some(Rewrite { host, path })
}

/// A precise host name.
fn read_hostname(field: &Node<'_>, findings: &mut Findings) -> Option<String> {
    let name = field.text(findings)?;
    if is_ip(&name) {
        findings.refuse(field.path, Reason::Format, "malformed: a host name, not an IP address");
        return None;
    }
    if name.len() > 253 {
        findings.refuse(field.path, Reason::Format, "malformed: longer than 253 characters");
    }
    if !is_dns_subdomain(&name) {
        let message = "malformed: a host name has lower-case letters, digits, `-` and `.`";
        findings.refuse(field.path, Reason::Format, message);
    }
    Some(name.into_owned())
}

fn read_path(field: &Node<'_>, surroundings: Surroundings, findings: &mut Findings) -> Option<PathChange> {
    if let Some(path) = field.as_text() {
        let message = "an older form: write `{type: ReplaceFullPath, replaceFullPath: …}`";
        findings.warn(field.path, Reason::Deprecated, message);
        return Some(PathChange::Full(path.to_owned()));
    }
    if !field.is_present() {
        return None;
    }
    let object = field.object(findings);
    let (kind_field, full, prefix) =
        (object.get("type"), object.get("replaceFullPath"), object.get("replacePrefixMatch"));
    object.warn_of_unknown(findings);
    let kind = match (kind_field.is_present(), full.is_present(), prefix.is_present()) {
        (true, ..) => kind_field.schema_word(PATH_CHANGES, findings),
        (false, true, false) => Some("ReplaceFullPath"),
        (false, false, true) => Some("ReplacePrefixMatch"),
        (false, ..) => {
            findings.refuse(field.path, Reason::Xor, "exactly one of replaceFullPath, replacePrefixMatch");
            None
        }
    };
    if !kind_field.is_present()
        && let Some(kind) = kind
    {
        findings.warn(kind_field.path, Reason::Deprecated, format!("no `type` is given; taken as {kind}"));
    }
    if prefix.is_present() && !surroundings.by_prefix {
        let message =
            "only valid when every match of the rule is a PathPrefix: otherwise there is no prefix to replace";
        findings.refuse(prefix.path, Reason::Context, message);
    }
    let (named, make): (_, fn(String) -> PathChange) = match kind? {
        "ReplaceFullPath" => (full, PathChange::Full),
        _ => (prefix, PathChange::Prefix),
    };
    match named.text(findings) {
        Some(text) => Some(make(text.into_owned())),
        None => {
            if !named.is_present() {
                findings.refuse(named.path, Reason::Required, "required: `type` names it");
            }
            None
        }
    }
}

fn read_mirror(body: &Node<'_>, findings: &mut Findings) -> Option<Mirror> {
    let before = findings.errors.len();
    let object = body.object(findings);
    let (percentage, backend) = (object.get("percentage"), object.get("backendRef"));
    object.warn_of_unknown(findings);
    percentage.percentage(findings);
    let target = backend_ref::read_mirror(&backend, findings)?;
    let percentage = percentage.text(findings).map(|text| text.into_owned());
    (findings.errors.len() == before).then_some(Mirror { target, percentage })
}

#[cfg(test)]
mod tests {
    use crate::compile::mesh::testing::{accepts, refuses, refuses_below};

    fn spec(path: &str, filters: &str) -> String {
        let rule = format!("{{matches: [{{path: {{type: {path}, value: /a}}}}], default: {{filters: [{filters}]}}}}");
        format!("{{to: [{{targetRef: {{kind: MeshService, labels: {{a: b}}}}, rules: [{rule}]}}]}}")
    }

    #[track_caller]
    fn check(filters: &str, expected: &[&str]) {
        refuses_below("spec.to[0].rules[0].default.filters", "MeshHTTPRoute", &spec("PathPrefix", filters), expected);
    }

    #[test]
    fn a_type_needs_its_body() {
        check("{type: RequestRedirect}", &["[0].requestRedirect REQ"]);
        check("{type: URLRewrite, requestRedirect: {}}", &["[0].urlRewrite REQ"]);
        check("{type: ExtensionRef, extensionRef: {name: x}}", &["[0].type ENUM"]);
        check("{}", &["[0] XOR"]);
        check("{requestRedirect: {}, urlRewrite: {}}", &["[0] XOR"]);
        check("{requestHeader: {remove: [a]}, requestHeaderModifier: {remove: [a]}}", &["[0] XOR"]);
    }

    #[test]
    fn headers_are_named_once() {
        let modifier = |body: &str| format!("{{type: RequestHeaderModifier, requestHeaderModifier: {body}}}");
        check(&modifier("{}"), &["[0].requestHeaderModifier ANYOF"]);
        check(&modifier("{set: []}"), &[]);
        check(&modifier("{set: [{name: a}, {name: A}], add: [{name: b}], remove: [c]}"), &[]);
        check(
            &modifier("{set: [{name: a}], add: [{name: a}, {name: b}], remove: [b, a]}"),
            &[
                "[0].requestHeaderModifier.add[0].name DUP",
                "[0].requestHeaderModifier.remove[0].name DUP",
                "[0].requestHeaderModifier.remove[1].name DUP",
            ],
        );
    }

    #[test]
    fn host_names_are_precise() {
        let redirect = |host: &str| format!("{{type: RequestRedirect, requestRedirect: {{hostname: '{host}'}}}}");
        check(&redirect("example.com"), &[]);
        let field = "[0].requestRedirect.hostname FORMAT";
        check(&redirect("10.0.0.1"), &[field]);
        check(&redirect("*.example.com"), &[field]);
        check(&redirect(&format!("{}X", "a".repeat(253))), &[field, field]);
        check(&redirect(&"a".repeat(253)), &[]);
    }

    #[test]
    fn paths_name_what_they_replace() {
        let rewrite = |path: &str| format!("{{type: URLRewrite, urlRewrite: {{path: {path}}}}}");
        check(&rewrite("{type: ReplaceFullPath, replaceFullPath: /x}"), &[]);
        check(&rewrite("{replaceFullPath: /x}"), &[]);
        check(&rewrite("/x"), &[]);
        check(&rewrite("{type: ReplaceFullPath}"), &["[0].urlRewrite.path.replaceFullPath REQ"]);
        check(
            &rewrite("{type: ReplacePrefixMatch, replaceFullPath: /x}"),
            &["[0].urlRewrite.path.replacePrefixMatch REQ"],
        );
        check(&rewrite("{replaceFullPath: /x, replacePrefixMatch: /y}"), &["[0].urlRewrite.path XOR"]);
        let prefix = rewrite("{type: ReplacePrefixMatch, replacePrefixMatch: /x}");
        check(&prefix, &[]);
        refuses(
            "MeshHTTPRoute",
            &spec("Exact", &prefix),
            &["spec.to[0].rules[0].default.filters[0].urlRewrite.path.replacePrefixMatch CTX"],
        );
    }

    #[test]
    fn only_gateways_follow_the_backend() {
        check("{type: URLRewrite, urlRewrite: {hostToBackendHostname: false}}", &[]);
        check(
            "{type: URLRewrite, urlRewrite: {hostToBackendHostname: true, hostname: a.b}}",
            &["[0].urlRewrite.hostToBackendHostname CTX", "[0].urlRewrite.hostToBackendHostname CTX"],
        );
    }

    #[test]
    fn mirrors() {
        let mirror = |body: &str| format!("{{type: RequestMirror, requestMirror: {body}}}");
        check(&mirror("{backendRef: {kind: MeshService, name: a}, percentage: '0.5'}"), &[]);
        check(
            &mirror("{backendRef: {kind: MeshExternalService, name: a}, percentage: 101}"),
            &["[0].requestMirror.percentage RANGE", "[0].requestMirror.backendRef.kind KIND"],
        );
        check(
            &mirror("{percentage: x}"),
            &["[0].requestMirror.percentage FORMAT", "[0].requestMirror.backendRef.kind REQ"],
        );
    }

    #[test]
    fn a_redirected_request_goes_nowhere_else() {
        let redirect = "{type: RequestRedirect, requestRedirect: {}}";
        let rewrite = "{type: URLRewrite, urlRewrite: {hostname: a.b}}";
        let mirror = "{type: RequestMirror, requestMirror: {backendRef: {kind: MeshService, name: a}}}";
        check(&format!("{redirect}, {mirror}"), &[" XOR"]);
        check(&format!("{mirror}, {rewrite}, {redirect}"), &[" XOR"]);
        for both in [format!("{redirect}, {rewrite}"), format!("{rewrite}, {redirect}")] {
            let spec = format!(
                "{{to: [{{targetRef: {{kind: MeshService, labels: {{a: b}}}}, rules: [{{default: {{filters: [{both}]}}}}]}}]}}"
            );
            accepts("MeshHTTPRoute", &spec, &["spec.to[0].rules[0].default.filters SUSPICIOUS"]);
        }
        check(&format!("{redirect}, {{type: RequestHeaderModifier, requestHeaderModifier: {{set: []}}}}"), &[]);
    }
}
