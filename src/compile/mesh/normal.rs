//! Confs in their one normal form: as they are after an API server has filled in defaults and a control plane has read and
//! written them again. Confs are compared, hashed and merged in this form only.

use serde_json::{Map, Value};

use super::record::{FilledValue, PolicyRecord};
use crate::api::schema::is_duration;
use crate::core::scalar::duration::Duration;

/// The normal form of a conf by the schema of it.
pub(super) fn conf(record: &PolicyRecord, schema: &Value, conf: &Value) -> Value {
    let mut normal = normalise(schema, conf);
    for (path, value) in record.filled_in {
        fill_in(&mut normal, path, *value);
    }
    normal
}

/// Fills in defaults, drops nulls and unknown fields, and writes durations as Go does.
pub(super) fn normalise(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(normalise_object(schema, fields)),
        Value::Array(items) => match schema.get("items") {
            Some(schema) => items.iter().map(|item| normalise(schema, item)).collect(),
            None => value.clone(),
        },
        Value::String(text) if is_duration(schema) => match text.parse::<Duration>() {
            Ok(duration) => duration.to_string().into(),
            Err(_) => value.clone(),
        },
        _ => value.clone(),
    }
}

fn normalise_object(schema: &Value, fields: &Map<String, Value>) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let additional = schema.get("additionalProperties").filter(|schema| schema.is_object());
    let is_closed = properties.is_some() && schema.get("x-kubernetes-preserve-unknown-fields").is_none();
    let mut normal = Map::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let schema = properties.and_then(|properties| properties.get(name)).or(additional);
        match schema {
            Some(schema) => drop(normal.insert(name.clone(), normalise(schema, value))),
            None if is_closed => {}
            None => drop(normal.insert(name.clone(), value.clone())),
        }
    }
    for (name, schema) in properties.into_iter().flatten() {
        if let Some(default) = schema.get("default").filter(|_| !normal.contains_key(name)) {
            normal.insert(name.clone(), default.clone());
        }
    }
    normal
}

fn fill_in(value: &mut Value, path: &str, filler: FilledValue) {
    let Some((first, rest)) = path.split_once('.') else {
        if let Value::Object(fields) = value {
            let filled = match filler {
                FilledValue::Flag(flag) => flag.into(),
                FilledValue::EmptyText => "".into(),
            };
            fields.entry(path).or_insert(filled);
        }
        return;
    };
    match value {
        Value::Array(items) if first == "*" => items.iter_mut().for_each(|item| fill_in(item, rest, filler)),
        Value::Object(fields) => {
            if let Some(below) = fields.get_mut(first) {
                fill_in(below, rest, filler);
            }
        }
        _ => {}
    }
}
