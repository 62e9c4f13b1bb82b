//! Slips that people make in generate rules, seen in published examples: mended with a warning, or refused with a hint.

use std::borrow::Cow;

use serde_json::Value;

use super::Node;
use crate::compile::Findings;
use crate::core::problem::{FieldPath, Reason};

/// `list: "{{ x }}"` means `list: x`.
pub(super) fn strip_braces<'t>(text: &'t str, path: &FieldPath, findings: &mut Findings) -> &'t str {
    let inner = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    match inner {
        Some(inner) if !inner.contains("{{") && !inner.contains("}}") => {
            let message = format!("is an expression already; the braces are ignored, write `{}`", inner.trim());
            findings.warn(path, Reason::Suspicious, message);
            inner.trim()
        }
        _ => text,
    }
}

/// `kind: v1, apiVersion: Secret` is the wrong way round. Gives the source as it was meant, if it was.
pub(super) fn unswap(source: &Node<'_>, findings: &mut Findings) -> Option<Value> {
    let text = |field: &'static str| source.below(field).value().and_then(Value::as_str).map(Cow::Borrowed);
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    if is_api_version(&api_version) || !is_api_version(&kind) || api_version.contains("{{") {
        return None;
    }
    let message = format!("apiVersion and kind are swapped; read as apiVersion `{kind}`, kind `{api_version}`");
    findings.warn(source.path, Reason::Suspicious, message);
    let mut mended = source.value()?.clone();
    mended["apiVersion"] = Value::from(&*kind);
    mended["kind"] = Value::from(&*api_version);
    Some(mended)
}

/// `v1`, `apps/v1`, `gateway.networking.k8s.io/v1beta1`.
fn is_api_version(text: &str) -> bool {
    let version = text.rsplit('/').next().unwrap_or(text);
    let Some(rest) = version.strip_prefix('v') else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match rest.find(|letter: char| !letter.is_ascii_digit()) {
        None => digits(rest),
        Some(end) => {
            let (major, stage) = rest.split_at(end);
            let minor = stage.strip_prefix("alpha").or_else(|| stage.strip_prefix("beta"));
            digits(major) && minor.is_some_and(digits)
        }
    }
}

/// Anchors belong to patterns of other rule types; in a body they would become field names.
pub(super) fn refuse_anchors(body: &Node<'_>, findings: &mut Findings) {
    let Some(value) = body.value() else { return };
    // A stack of our own: documents may be nested deeply.
    let mut open = vec![(value, body.path)];
    while let Some((value, path)) = open.pop() {
        match value {
            Value::Array(items) => {
                open.extend(items.iter().enumerate().map(|(index, item)| (item, path.index(index))));
            }
            Value::Object(fields) => {
                for (key, item) in fields {
                    let path = path.found(key);
                    if is_anchor(key) {
                        let message = "anchors have no meaning in generated objects; write the plain field name";
                        findings.refuse(path, Reason::Forbidden, message);
                    }
                    open.push((item, path));
                }
            }
            _ => {}
        }
    }
}

/// `(key)`, `=(key)`, `^(key)`, `+(key)`, `X(key)`, `<(key)`
fn is_anchor(key: &str) -> bool {
    let bare = key.strip_prefix(['=', '^', '+', 'X', '<']).unwrap_or(key);
    bare.len() > 2 && bare.starts_with('(') && bare.ends_with(')')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::compile::way::Ways;

    #[test]
    fn one_outer_pair_of_braces_goes() {
        #[track_caller]
        fn check(text: &str, expected: &str, warned: bool) {
            let mut findings = Findings::default();
            assert_eq!(strip_braces(text, &FieldPath::root(), &mut findings), expected);
            assert_eq!(!findings.warnings.is_empty(), warned, "{text}");
        }
        check("{{ namespaces }}", "namespaces", true);
        check("namespaces", "namespaces", false);
        check("{{ a }}{{ b }}", "{{ a }}{{ b }}", false);
        check("{a: b}", "{a: b}", false);
    }

    #[test]
    fn versions_and_kinds_are_told_apart() {
        for text in ["v1", "apps/v1", "a.b/v1beta1", "v2alpha3"] {
            assert!(is_api_version(text), "{text}");
        }
        for text in ["Secret", "v", "vX", "v1b", "v1beta", "VirtualService", "apps/"] {
            assert!(!is_api_version(text), "{text}");
        }
        let swapped = json!({"apiVersion": "Secret", "kind": "v1", "name": "s"});
        let mut findings = Findings::default();
        let ways = Ways::default();
        let mended = unswap(&Node::new(Some(&swapped), ways.root()), &mut findings);
        assert_eq!(mended, Some(json!({"apiVersion": "v1", "kind": "Secret", "name": "s"})));
        assert_eq!(findings.warnings.len(), 1);
        let right = json!({"apiVersion": "v1", "kind": "Secret"});
        assert_eq!(unswap(&Node::new(Some(&right), ways.root()), &mut findings), None);
    }

    #[test]
    fn anchors_are_found_at_any_depth() {
        let body = json!({"spec": [{"=(name)": 1}], "(x)": 2, "plain()": 3, "data": {"a(b)": ""}});
        let mut findings = Findings::default();
        let ways = Ways::default();
        refuse_anchors(&Node::new(Some(&body), ways.root().field("data")), &mut findings);
        let mut fields: Vec<_> = findings.errors.iter().map(|problem| problem.field.to_string()).collect();
        fields.sort();
        assert_eq!(fields, ["data.(x)", "data.spec[0].=(name)"]);
    }
}
