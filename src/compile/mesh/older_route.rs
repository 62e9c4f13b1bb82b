//! Older spellings of an entry of MeshHTTPRoute in their present form, so that equal matches are equal whoever wrote them.

use serde_json::{Map, Value, json};

/// The entry as it is written today. What is not an older spelling stays as it is.
pub(super) fn present_form(entry: &Value) -> Value {
    let mut entry = entry.clone();
    let Some(fields) = entry.as_object_mut() else { return entry };
    if !fields.contains_key("rules")
        && let Some(rules) = fields.get_mut("default").and_then(|default| default.get_mut("rules"))
    {
        let rules = rules.take();
        fields.insert("rules".to_owned(), rules);
    }
    for rule in fields.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(rule) = rule.as_object_mut() {
            rewrite_rule(rule);
        }
    }
    entry
}

fn rewrite_rule(rule: &mut Map<String, Value>) {
    let matches = match rule.remove("matches") {
        Some(Value::Array(matches)) => matches,
        Some(one @ Value::Object(_)) => vec![one],
        _ => vec![json!({"path": {"type": "PathPrefix", "value": "/"}})],
    };
    rule.insert("matches".to_owned(), matches.into_iter().flat_map(rewrite_match).collect());
    // Filters and backends stood beside the matches.
    for name in ["filters", "backendRefs"] {
        if let Some(list) = rule.remove(name) {
            let default = rule.entry("default").or_insert_with(|| json!({}));
            if let Some(default) = default.as_object_mut() {
                default.entry(name).or_insert(list);
            }
        }
    }
    let default = rule.get_mut("default");
    let Some(default) = default else { return };
    for filter in list_mut(default, "filters") {
        rewrite_filter(filter);
    }
    for backend in list_mut(default, "backendRefs") {
        if backend["kind"] == "MeshService" && backend["tags"].as_object().is_some_and(|tags| !tags.is_empty()) {
            backend["kind"] = "MeshServiceSubset".into();
        }
    }
}

/// One match for each of its methods.
fn rewrite_match(mut one: Value) -> Vec<Value> {
    let Some(fields) = one.as_object_mut() else { return vec![one] };
    if let Some(path) = fields.get_mut("path").and_then(Value::as_object_mut) {
        for (name, kind) in [("exact", "Exact"), ("prefix", "PathPrefix"), ("regex", "RegularExpression")] {
            if let Some(value) = path.remove(name) {
                path.insert("type".to_owned(), kind.into());
                path.insert("value".to_owned(), value);
            }
        }
        if path.get("type").is_some_and(|kind| kind == "Prefix") {
            path.insert("type".to_owned(), "PathPrefix".into());
        }
    }
    let Some(Value::Array(methods)) = fields.remove("methods") else { return vec![one] };
    let with_method = |method: Value| {
        let mut one = one.clone();
        one["method"] = method;
        one
    };
    methods.into_iter().map(with_method).collect()
}

fn rewrite_filter(filter: &mut Value) {
    let Some(fields) = filter.as_object_mut() else { return };
    for (older, name) in [("requestHeader", "requestHeaderModifier"), ("responseHeader", "responseHeaderModifier")] {
        if let Some(body) = fields.remove(older) {
            fields.entry(name).or_insert(body);
        }
    }
    let types = [
        ("requestHeaderModifier", "RequestHeaderModifier"),
        ("responseHeaderModifier", "ResponseHeaderModifier"),
        ("requestRedirect", "RequestRedirect"),
        ("urlRewrite", "URLRewrite"),
        ("requestMirror", "RequestMirror"),
    ];
    if let Some((_, kind)) = types.into_iter().find(|(name, _)| fields.contains_key(*name)) {
        fields.entry("type").or_insert(kind.into());
    }
    for name in ["requestRedirect", "urlRewrite"] {
        let Some(path) = fields.get_mut(name).and_then(|body| body.get_mut("path")) else { continue };
        if path.is_string() {
            *path = json!({"type": "ReplaceFullPath", "replaceFullPath": path.take()});
        } else if let Some(path) = path.as_object_mut() {
            for (name, kind) in [("replaceFullPath", "ReplaceFullPath"), ("replacePrefixMatch", "ReplacePrefixMatch")] {
                if path.contains_key(name) {
                    path.entry("type").or_insert(kind.into());
                }
            }
        }
    }
}

fn list_mut<'v>(object: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(older: Value, present: Value) {
        assert_eq!(present_form(&older), present, "{older}");
        assert_eq!(present_form(&present), present, "the present form stays as it is");
    }

    #[test]
    fn rules_below_default_and_conditions_in_short() {
        let rules = json!([{"matches": {"path": {"prefix": "/v1"}, "methods": ["GET", "PUT"]}, "backendRefs": []}]);
        let present = json!([{
            "matches": [
                {"path": {"type": "PathPrefix", "value": "/v1"}, "method": "GET"},
                {"path": {"type": "PathPrefix", "value": "/v1"}, "method": "PUT"},
            ],
            "default": {"backendRefs": []},
        }]);
        let older = json!({"targetRef": {"kind": "MeshService"}, "default": {"rules": rules}});
        assert_eq!(present_form(&older)["rules"], present);
        check(json!({"rules": rules}), json!({"rules": present}));
    }

    #[test]
    fn filters_without_a_type() {
        let entry = |filter: Value| json!({"rules": [{"matches": [{}], "default": {"filters": [filter]}}]});
        check(
            entry(json!({"requestHeader": {"remove": ["a"]}})),
            entry(json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["a"]}})),
        );
        check(
            entry(json!({"urlRewrite": {"path": "/x"}})),
            entry(json!({"type": "URLRewrite",
                "urlRewrite": {"path": {"type": "ReplaceFullPath", "replaceFullPath": "/x"}}})),
        );
    }
}
