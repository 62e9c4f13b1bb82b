//! Confs of several entries become one. The weakest comes first; what comes later wins.

pub mod routes;

use serde_json::{Map, Value};

use super::kind::MergeRule;
use super::target_ref::TargetRef;

/// Lists whose name starts like this are joined, all others replaced.
const APPEND: &str = "append";

/// A conf, with the reference of the entry that it is from: a MeshTCPRoute without rules leads there.
#[derive(Clone, Copy, Debug)]
pub struct ConfOf<'p> {
    pub target: Option<&'p TargetRef>,
    pub conf: &'p Value,
}

/// Merges confs by the rule of their kind. The result is one conf, or one for each hostname of HTTP routes.
pub fn merge<'p>(rule: MergeRule, confs: impl IntoIterator<Item = ConfOf<'p>>) -> Vec<Value> {
    let confs = confs.into_iter();
    match rule {
        MergeRule::Fields => vec![merge_fields(confs.map(|part| part.conf))],
        MergeRule::HttpRoutes => routes::merge(confs.map(|part| part.conf)),
        MergeRule::TcpRoutes => {
            let confs: Vec<Value> = confs.map(tcp_conf).collect();
            vec![merge_fields(&confs)]
        }
    }
}

/// Merges field by field: objects merge, everything else replaces, except lists to append to.
pub fn merge_fields<'p>(confs: impl IntoIterator<Item = &'p Value>) -> Value {
    let mut merged = Value::Object(Map::new());
    for conf in confs {
        patch(&mut merged, conf);
    }
    merged
}

fn patch(merged: &mut Value, conf: &Value) {
    let (Value::Object(merged), Value::Object(conf)) = (&mut *merged, conf) else {
        *merged = conf.clone();
        return;
    };
    for (name, value) in conf {
        match (merged.get_mut(name), value) {
            (Some(Value::Array(list)), Value::Array(more)) if name.starts_with(APPEND) => {
                list.extend(more.iter().cloned());
            }
            (Some(held @ Value::Object(_)), Value::Object(_)) => patch(held, value),
            _ => drop(merged.insert(name.clone(), value.clone())),
        }
    }
}

/// The first rule of the entry; without one, the destination itself.
fn tcp_conf(part: ConfOf<'_>) -> Value {
    let rules = part.conf.get("rules").and_then(Value::as_array);
    if let Some(rule) = rules.and_then(|rules| rules.first()) {
        return rule.clone();
    }
    let mut backend = part.target.map(TargetRef::to_json).unwrap_or_default();
    backend["weight"] = 1.into();
    serde_json::json!({"default": {"backendRefs": [backend]}})
}
