//! MeshHTTPRoute: rules of several policies with equal matches become one rule.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::merge_fields;
use crate::core::scalar::json_text::write_string;

/// Merges `{rules, hostnames}` of several entries: one conf for each hostname, and one for those without any.
pub(super) fn merge<'p>(confs: impl IntoIterator<Item = &'p Value>) -> Vec<Value> {
    let mut groups: Vec<(Option<&str>, Vec<&Value>)> = Vec::new();
    for conf in confs {
        let hostnames: Vec<_> = list(conf, "hostnames").filter_map(Value::as_str).map(Some).collect();
        let hostnames = if hostnames.is_empty() { vec![None] } else { hostnames };
        for hostname in hostnames {
            match groups.iter_mut().find(|(held, _)| *held == hostname) {
                Some((_, members)) => members.push(conf),
                None => groups.push((hostname, vec![conf])),
            }
        }
    }
    groups.into_iter().map(|(hostname, members)| merge_group(hostname, &members)).collect()
}

/// In the result the strongest policy's rules come first, in the order they are written in.
fn merge_group(hostname: Option<&str>, confs: &[&Value]) -> Value {
    // Weakest first: of two equal rules of one policy the earlier is the stronger.
    let mut kept: Vec<(String, &Value, Vec<&Value>)> = Vec::new();
    for conf in confs {
        let rules: Vec<_> = list(conf, "rules").collect();
        for rule in rules.into_iter().rev() {
            let (matches, default) = (&rule["matches"], &rule["default"]);
            let hash = matches_hash(matches);
            let held = kept.iter().position(|(other, ..)| *other == hash);
            let mut defaults = held.map(|index| kept.remove(index).2).unwrap_or_default();
            if default.is_object() {
                defaults.push(default);
            }
            kept.push((hash, matches, defaults));
        }
    }
    let rules: Vec<Value> = kept
        .iter()
        .rev()
        .map(|(_, matches, defaults)| json!({"matches": matches, "default": merge_fields(defaults.iter().copied())}))
        .collect();
    let mut conf = json!({});
    if !rules.is_empty() {
        conf["rules"] = rules.into();
    }
    if let Some(hostname) = hostname {
        conf["hostnames"] = json!([hostname]);
    }
    conf
}

/// The lists of matches in a conf, each with its hash.
pub fn matches_in(conf: &Value) -> impl Iterator<Item = (String, &Value)> {
    list(conf, "rules").map(|rule| (matches_hash(&rule["matches"]), &rule["matches"]))
}

/// The hash by which clients know a list of matches: SHA-256 of its JSON in one fixed form.
pub fn matches_hash(matches: &Value) -> String {
    let mut text = String::new();
    write_matches(matches, &mut text);
    STANDARD.encode(Sha256::digest(text))
}

fn write_matches(matches: &Value, out: &mut String) {
    let Some(list) = matches.as_array() else {
        out.push_str("null");
        return;
    };
    out.push('[');
    for (index, one) in list.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_fields(one, &["path", "method", "queryParams", "headers"], out, |name, value, out| match name {
            "path" => write_fields(value, &["value", "type"], out, |_, value, out| write_text(value, out)),
            "queryParams" | "headers" => write_conditions(name, value, out),
            _ => write_text(value, out),
        });
    }
    out.push(']');
}

fn write_conditions(name: &str, conditions: &Value, out: &mut String) {
    out.push('[');
    for (index, condition) in conditions.as_array().into_iter().flatten().enumerate() {
        if index > 0 {
            out.push(',');
        }
        // An absent value of a header is an empty one, which is not written.
        let omits_value = name == "headers" && condition["value"].as_str().is_none_or(str::is_empty);
        let fields: &[&str] = if omits_value { &["type", "name"] } else { &["type", "name", "value"] };
        write_fields(condition, fields, out, |_, value, out| write_text(value, out));
    }
    out.push(']');
}

/// Writes the given fields in the given order; an absent one is left out.
fn write_fields(object: &Value, names: &[&str], out: &mut String, write: impl Fn(&str, &Value, &mut String)) {
    out.push('{');
    let mut first = true;
    for name in names {
        let Some(value) = object.get(*name).filter(|value| !value.is_null()) else { continue };
        if !first {
            out.push(',');
        }
        first = false;
        let _ = write!(out, "\"{name}\":");
        write(name, value, out);
    }
    out.push('}');
}

fn write_text(value: &Value, out: &mut String) {
    write_string(value.as_str().unwrap_or_default(), out);
}

fn list<'v>(conf: &'v Value, name: &str) -> impl DoubleEndedIterator<Item = &'v Value> {
    conf.get(name).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_that_clients_know() {
        let matches = json!([{"path": {"type": "Exact", "value": "/"}}]);
        assert_eq!(matches_hash(&matches), "JNNc6//C3P17nUsOJm5f4kqG+U3v8pXhS0od9C3+oss=");
    }
}
