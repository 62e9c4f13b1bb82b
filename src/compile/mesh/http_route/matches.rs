//! `matches` of a rule: path, method, query parameters and headers.

use crate::compile::Findings;
use crate::compile::mesh::format::regex_error;
use crate::compile::mesh::forms::HEADER_TEST_TYPES;
use crate::compile::reader::{Node, Object};
use crate::core::json::Tree;
use crate::core::mesh::http_route::{HeaderMatch, HeaderTest, Match, Method, PathMatch, QueryMatch, QueryTest};
use crate::core::problem::Reason;

pub(super) const QUERY_TYPES: &[&str] = &["Exact", "RegularExpression"];

/// Reads a list of matches, or the single one that older documents write without a list.
pub(super) fn read_list(field: &Node<'_>, findings: &mut Findings) -> Vec<Match> {
    if field.value().is_some_and(Tree::is_object) {
        findings.warn(field.path, Reason::Deprecated, "an older form: write a list of matches");
        return read(field, findings);
    }
    field.list(findings).iter().flat_map(|entry| read(entry, findings)).collect()
}

/// Reads an entry, which gives one match for each of its methods.
fn read(entry: &Node<'_>, findings: &mut Findings) -> Vec<Match> {
    let object = entry.object(findings);
    let (path, query, headers) = (object.get("path"), object.get("queryParams"), object.get("headers"));
    let methods = read_methods(entry, &object, findings);
    object.warn_of_unknown(findings);
    let one = Match {
        path: path.is_present().then(|| read_path(&path, findings)).flatten(),
        method: None,
        query: read_query(&query, findings),
        headers: read_headers(&headers, findings),
    };
    if methods.is_empty() {
        return vec![one];
    }
    methods.into_iter().map(|method| Match { method: Some(method), ..one.clone() }).collect()
}

fn read_methods(entry: &Node<'_>, object: &Object<'_>, findings: &mut Findings) -> Vec<Method> {
    let (method, methods) = (object.get("method"), object.get("methods"));
    if method.is_present() && methods.is_present() {
        findings.refuse(entry.path, Reason::Xor, "exactly one of `method` and `methods`");
    } else if methods.is_present() {
        let message = "an older form: write one match with a `method` for each";
        findings.warn(methods.path, Reason::Deprecated, message);
    }
    let names = if methods.is_present() { methods.list(findings) } else { vec![method] };
    let known = Method::ALL.map(Method::name);
    let words = names.iter().filter(|name| name.is_present()).filter_map(|name| name.schema_word(&known, findings));
    words.filter_map(|word| Method::ALL.into_iter().find(|method| method.name() == word)).collect()
}

fn read_path(field: &Node<'_>, findings: &mut Findings) -> Option<PathMatch> {
    let object = field.object(findings);
    let (kind, value) = (object.get("type"), object.get("value"));
    let short = [("prefix", "PathPrefix"), ("exact", "Exact"), ("regex", "RegularExpression")]
        .map(|(key, kind)| (object.get(key), kind));
    object.warn_of_unknown(findings);
    let short: Vec<_> = short.iter().filter(|(node, _)| node.is_present()).collect();
    let (kind, value) = match short.as_slice() {
        [] => (read_path_type(&kind, findings)?, &value),
        [(node, name)] if !kind.is_present() && !value.is_present() => {
            let message = format!("an older form: write `type: {name}` and `value`");
            findings.warn(node.path, Reason::Deprecated, message);
            (*name, node)
        }
        _ => {
            findings.refuse(field.path, Reason::Xor, "exactly one of: type with value, prefix, exact, regex");
            return None;
        }
    };
    let text = value.text(findings).unwrap_or_default();
    if kind == "RegularExpression" {
        check_regex(value, &text, findings);
        return Some(PathMatch::Regex(text.into_owned()));
    }
    if !text.starts_with('/') {
        findings.refuse(value.path, Reason::Format, "malformed: a path starts with `/`");
    }
    if kind == "Exact" {
        return Some(PathMatch::Exact(text.into_owned()));
    }
    if text.len() > 1 && text.ends_with('/') {
        let message = "malformed: a prefix covers whole segments, so leave out the `/` at its end";
        findings.refuse(value.path, Reason::Format, message);
    }
    Some(PathMatch::Prefix(text.into_owned()))
}

fn read_path_type(kind: &Node<'_>, findings: &mut Findings) -> Option<&'static str> {
    if kind.as_text() == Some("Prefix") {
        findings.warn(kind.path, Reason::Deprecated, "an older form: write `PathPrefix`");
        return Some("PathPrefix");
    }
    kind.schema_word(&["Exact", "PathPrefix", "RegularExpression"], findings)
}

fn read_query(list: &Node<'_>, findings: &mut Findings) -> Vec<QueryMatch> {
    let mut names = Names::default();
    let mut read = Vec::new();
    for entry in list.list(findings) {
        let object = entry.object(findings);
        let (kind, name_field, value) = (object.get("type"), object.get("name"), object.get("value"));
        object.warn_of_unknown(findings);
        let kind = kind.schema_word(QUERY_TYPES, findings);
        let name = name_field.text(findings).unwrap_or_default();
        if names.repeats(&name) {
            findings.refuse(name_field.path, Reason::Duplicate, format!("duplicate of the earlier `{name}`"));
        }
        let text = value.text(findings).unwrap_or_default();
        let test = match kind {
            Some("Exact") => QueryTest::Exact(text.into_owned()),
            Some(_) => {
                check_regex(&value, &text, findings);
                QueryTest::Regex(text.into_owned())
            }
            None => continue,
        };
        read.push(QueryMatch { name: name.into_owned(), test });
    }
    read
}

fn read_headers(list: &Node<'_>, findings: &mut Findings) -> Vec<HeaderMatch> {
    let mut names = Names::default();
    let mut read = Vec::new();
    for entry in list.list(findings) {
        let before = findings.errors.len();
        let object = entry.object(findings);
        let (kind, name_field, value) = (object.get("type"), object.get("name"), object.get("value"));
        object.warn_of_unknown(findings);
        let kind = if kind.is_present() { kind.schema_word(HEADER_TEST_TYPES, findings) } else { Some("Exact") };
        let name = name_field.text(findings).unwrap_or_default();
        let Some(test) = kind.map(|kind| read_header_test(kind, &value, findings)) else {
            continue;
        };
        // A second matcher of a header would not be rendered; an entry that is refused anyway need not hear of it.
        if findings.errors.len() == before && names.repeats(&name) {
            findings.refuse(name_field.path, Reason::Duplicate, format!("duplicate of the earlier `{name}`"));
        }
        read.push(HeaderMatch { name: name.into_owned(), test });
    }
    read
}

fn read_header_test(kind: &str, value: &Node<'_>, findings: &mut Findings) -> HeaderTest {
    let text = value.text(findings).unwrap_or_default();
    if matches!(kind, "Present" | "Absent") && !text.is_empty() {
        findings.refuse(value.path, Reason::Forbidden, format!("not permitted with type {kind}"));
    }
    match kind {
        "Present" => HeaderTest::Present,
        "Absent" => HeaderTest::Absent,
        "Prefix" => HeaderTest::Prefix(text.into_owned()),
        "RegularExpression" => {
            check_regex(value, &text, findings);
            HeaderTest::Regex(text.into_owned())
        }
        _ => HeaderTest::Exact(text.into_owned()),
    }
}

fn check_regex(value: &Node<'_>, text: &str, findings: &mut Findings) {
    if let Some(error) = regex_error(text) {
        findings.refuse(value.path, Reason::Format, format!("malformed: {error}"));
    }
}

/// The names that were there before. Lists are short, so they are simply searched.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn repeats(&mut self, name: &str) -> bool {
        let known = self.0.iter().any(|known| known == name);
        if !known {
            self.0.push(name.to_owned());
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::mesh::testing::refuses_below;

    fn spec(matches: &str) -> String {
        format!("{{to: [{{targetRef: {{kind: MeshService, labels: {{a: b}}}}, rules: [{{matches: {matches}}}]}}]}}")
    }

    #[track_caller]
    fn check(matches: &str, expected: &[&str]) {
        refuses_below("spec.to[0].rules[0].matches", "MeshHTTPRoute", &spec(matches), expected);
    }

    #[test]
    fn paths() {
        check("[{path: {type: Exact, value: a}}, {path: {type: Exact, value: /a/}}]", &["[0].path.value FORMAT"]);
        check("[{path: {type: PathPrefix, value: /a/}}]", &["[0].path.value FORMAT"]);
        check("[{path: {type: PathPrefix, value: a/}}]", &["[0].path.value FORMAT", "[0].path.value FORMAT"]);
        check("[{path: {type: PathPrefix, value: /}}]", &[]);
        check("[{path: {type: RegularExpression, value: '('}}]", &["[0].path.value FORMAT"]);
        check("[{path: {type: RegularExpression, value: 'a.*'}}]", &[]);
    }

    #[test]
    fn older_paths() {
        check("[{path: {type: Prefix, value: /a/}}]", &["[0].path.value FORMAT"]);
        check("{path: {prefix: /a/}}", &[".path.prefix FORMAT"]);
        check("[{path: {exact: a}}, {path: {regex: '('}}]", &["[0].path.exact FORMAT", "[1].path.regex FORMAT"]);
        check("[{path: {exact: /a, prefix: /a}}, {path: {exact: /a, type: Exact}}]", &["[0].path XOR", "[1].path XOR"]);
        check("[{method: GET, methods: [GET]}]", &["[0] XOR"]);
    }

    #[test]
    fn queries_and_headers() {
        check(
            "[{queryParams: [{type: Exact, name: a, value: x}, {type: Exact, name: a, value: y}]}]",
            &["[0].queryParams[1].name DUP"],
        );
        check(
            "[{queryParams: [{type: RegularExpression, name: a, value: '['}]}]",
            &["[0].queryParams[0].value FORMAT"],
        );
        check(
            "[{headers: [{type: Present, name: a, value: x}, {type: Absent, name: b}]}]",
            &["[0].headers[0].value FORBID"],
        );
        check("[{headers: [{name: a, value: x}, {type: Prefix, name: a, value: y}]}]", &["[0].headers[1].name DUP"]);
        check("[{headers: [{type: RegularExpression, name: a, value: '*'}]}]", &["[0].headers[0].value FORMAT"]);
    }
}
