//! When two answers are the same.

use serde_json::{Map, Value};
use writ::core::scalar::duration::Duration;

/// The first place where they differ.
pub(super) fn first_difference(want: &Value, have: &Value) -> Option<String> {
    difference(&plain(want), &plain(have), "")
}

fn difference(want: &Value, have: &Value, path: &str) -> Option<String> {
    match (want, have) {
        (Value::Object(one), Value::Object(other)) => {
            let mut names: Vec<_> = one.keys().chain(other.keys()).collect();
            names.sort();
            names.dedup();
            let null = &Value::Null;
            names.into_iter().find_map(|name| {
                let (want, have) = (one.get(name).unwrap_or(null), other.get(name).unwrap_or(null));
                difference(want, have, &format!("{path}.{name}"))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other).enumerate();
            pairs.find_map(|(index, (want, have))| difference(want, have, &format!("{path}[{index}]")))
        }
        _ if want == have => None,
        _ => Some(format!("{path}: want {want}, have {have}")),
    }
}

/// Without what does not count.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) if fields.contains_key("creationTime") || fields.contains_key("CreationTime") => {
            plain(&meta(fields))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| (name.clone(), plain(field)));
            Value::Object(fields.filter(|(_, field)| !is_empty(field)).collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::String(text) => match text.parse::<Duration>() {
            Ok(duration) if text != "0" => format!("{}ns", duration.as_nanos()).into(),
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}

/// A meta has two spellings.
fn meta(fields: &Map<String, Value>) -> Value {
    let field = |name: &str| {
        let upper = name.replacen(|_: char| true, &name[..1].to_uppercase(), 1);
        fields.get(name).or_else(|| fields.get(&upper)).cloned().unwrap_or_default()
    };
    ["mesh", "name", "labels"].into_iter().map(|name| (name.to_owned(), field(name))).collect::<Map<_, _>>().into()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
