//! Confs of several entries become one. The weakest comes first; what comes later wins.

pub mod routes;

use std::collections::BTreeMap;

use serde_json::Value;

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
    let mut merged = Merged::Fields(BTreeMap::new());
    for conf in confs {
        merged.patch(conf);
    }
    merged.into_value()
}

/// A conf in the making. It borrows from the confs, so what is replaced later is never copied.
enum Merged<'p> {
    Whole(&'p Value),
    Fields(BTreeMap<&'p str, Merged<'p>>),
    Joined(Vec<&'p [Value]>),
}

impl<'p> Merged<'p> {
    fn patch(&mut self, conf: &'p Value) {
        let Value::Object(conf) = conf else {
            *self = Self::Whole(conf);
            return;
        };
        if let Self::Whole(Value::Object(fields)) = self {
            *self = Self::Fields(fields.iter().map(|(name, value)| (name.as_str(), Self::Whole(value))).collect());
        }
        let Self::Fields(fields) = self else { return };
        for (name, value) in conf {
            match (fields.get_mut(name.as_str()), value) {
                (Some(Self::Joined(lists)), Value::Array(more)) => lists.push(more),
                (Some(held @ Self::Whole(Value::Array(_))), Value::Array(more)) if name.starts_with(APPEND) => {
                    let Self::Whole(Value::Array(list)) = held else { continue };
                    *held = Self::Joined(vec![list, more]);
                }
                (Some(held @ (Self::Fields(_) | Self::Whole(Value::Object(_)))), Value::Object(_)) => held.patch(value),
                _ => drop(fields.insert(name, Self::Whole(value))),
            }
        }
    }

    fn into_value(self) -> Value {
        match self {
            Self::Whole(value) => value.clone(),
            Self::Joined(lists) => lists.concat().into(),
            Self::Fields(fields) => {
                Value::Object(fields.into_iter().map(|(name, field)| (name.to_owned(), field.into_value())).collect())
            }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(confs: &[Value], expected: Value) {
        assert_eq!(merge_fields(confs), expected, "{confs:?}");
    }

    #[test]
    fn what_comes_later_wins_field_by_field() {
        check(&[], json!({}));
        check(
            &[
                json!({"a": 1, "b": {"c": 1, "d": 1}}),
                json!({"b": {"d": 2}, "e": [1]}),
                json!({"e": [], "b": {"x": {}}}),
            ],
            json!({"a": 1, "b": {"c": 1, "d": 2, "x": {}}, "e": []}),
        );
        check(&[json!({"a": {"b": 1}}), json!({"a": 2}), json!({"a": {"c": 3}})], json!({"a": {"c": 3}}));
    }

    #[test]
    fn lists_to_append_to_are_joined() {
        let conf = |item: u8| json!({"x": {"appendMatch": [item], "plain": [item]}});
        check(&[conf(1), conf(2), conf(3)], json!({"x": {"appendMatch": [1, 2, 3], "plain": [3]}}));
        // Lists inside lists are not looked at.
        let inside = |item: u8| json!({"list": [{"appendMatch": [item]}]});
        check(&[inside(1), inside(2)], inside(2));
    }

    #[test]
    fn a_tcp_route_without_rules_leads_to_its_destination() {
        let target =
            TargetRef::MeshServiceSubset { name: "db".to_owned(), tags: [("v".to_owned(), "1".to_owned())].into() };
        let conf = json!({"rules": []});
        let merged = merge(MergeRule::TcpRoutes, [ConfOf { target: Some(&target), conf: &conf }]);
        let backend = json!({"kind": "MeshServiceSubset", "name": "db", "tags": {"v": "1"}, "weight": 1});
        assert_eq!(merged, [json!({"default": {"backendRefs": [backend]}})]);
    }
}
