//! The few schema forms that definitions are put together from. Every one carries a description: `kubectl explain` is
//! documentation too.

use serde_json::{Map, Value, json};

/// Text.
pub(crate) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// One of some words.
pub(crate) fn word(description: &str, words: &[&str]) -> Value {
    json!({"type": "string", "description": description, "enum": words})
}

/// A switch that has no default.
pub(crate) fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

/// A switch that the API server sets if nobody does.
pub(crate) fn flag_default(description: &str, default: bool) -> Value {
    json!({"type": "boolean", "description": description, "default": default})
}

pub(crate) fn integer(description: &str) -> Value {
    json!({"type": "integer", "format": "int32", "description": description})
}

/// A whole number with its bounds written down: API servers do not enforce the format alone.
pub(crate) fn int32(description: &str) -> Value {
    with(integer(description), [("minimum", i32::MIN.into()), ("maximum", i32::MAX.into())])
}

/// A whole number, or text that holds a decimal one.
pub(crate) fn number_or_text(description: &str) -> Value {
    json!({"description": description, "x-kubernetes-int-or-string": true})
}

/// How the description of every duration ends.
const DURATION: &str = "A duration such as 1m30s.";

/// Text such as `1m30s`. Whether it can be read is decided at admission.
pub(crate) fn duration(description: &str) -> Value {
    text(&format!("{description} {DURATION}"))
}

/// Whether a schema is one of [`duration`].
pub(crate) fn is_duration(schema: &Value) -> bool {
    schema.get("description").and_then(Value::as_str).is_some_and(|description| description.ends_with(DURATION))
}

/// Anything at all: what it may hold is decided at admission, where all problems are shown at once.
pub(crate) fn open(description: &str) -> Value {
    json!({"description": description, "x-kubernetes-preserve-unknown-fields": true})
}

/// An object with any fields.
pub(crate) fn open_object(description: &str) -> Value {
    json!({"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": true})
}

/// An object whose fields are known, and others are kept for admission to judge.
pub(crate) fn object(description: &str, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let fields: Map<String, Value> = fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({
        "type": "object", "description": description, "properties": fields,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// An object whose fields are known; the API server drops all others.
pub(crate) fn closed(description: &str, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let fields: Map<String, Value> = fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({"type": "object", "description": description, "properties": fields})
}

/// The same with fields that must be there.
pub(crate) fn requiring(mut object: Value, fields: &[&str]) -> Value {
    object["required"] = fields.into();
    object
}

/// The same with further keywords: limits, a default.
pub(crate) fn with<const N: usize>(mut schema: Value, keywords: [(&str, Value); N]) -> Value {
    for (keyword, value) in keywords {
        schema[keyword] = value;
    }
    schema
}

pub(crate) fn list(description: &str, items: Value) -> Value {
    json!({"type": "array", "description": description, "items": items})
}

pub(crate) fn texts(description: &str) -> Value {
    list(description, json!({"type": "string"}))
}

/// Names with texts.
pub(crate) fn map(description: &str) -> Value {
    json!({"type": "object", "description": description, "additionalProperties": {"type": "string"}})
}
