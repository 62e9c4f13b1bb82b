//! What a message may say about a value: its type and size, never its content.
//!
//! Rules read Secrets, and their messages go to warnings, Events and logs, which more people may read than the objects. So
//! errors carry a [`ValueShape`] in place of a value. It has no way back to the value.

use std::fmt;

use serde_json::Value;

/// The type and size of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape {
    Null,
    Boolean,
    Number,
    /// With its number of characters.
    Text(usize),
    /// With its number of elements.
    List(usize),
    Object(KeyShape),
    /// `&expression`
    Reference,
    /// The root document of an expression.
    Context,
}

/// Which of the fields that Kubernetes objects share an object has, and how many others. A rule can make keys of values
/// (`object_from_lists`), so only names of this fixed list are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyShape {
    known: u16,
    others: usize,
}

const KNOWN_KEYS: [&str; 12] = [
    "apiVersion",
    "binaryData",
    "data",
    "items",
    "kind",
    "metadata",
    "name",
    "namespace",
    "spec",
    "status",
    "stringData",
    "type",
];

impl ValueShape {
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(text) => Self::text(text),
            Value::Array(elements) => Self::List(elements.len()),
            Value::Object(entries) => Self::object(entries.keys().map(String::as_str)),
        }
    }

    pub fn text(text: &str) -> Self {
        Self::Text(text.chars().count())
    }

    pub fn object<'k>(keys: impl IntoIterator<Item = &'k str>) -> Self {
        let mut shape = KeyShape { known: 0, others: 0 };
        for key in keys {
            match KNOWN_KEYS.iter().position(|known| *known == key) {
                Some(position) => shape.known |= 1 << position,
                None => shape.others += 1,
            }
        }
        Self::Object(shape)
    }
}

impl fmt::Display for ValueShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean => f.write_str("a boolean"),
            Self::Number => f.write_str("a number"),
            Self::Text(0) => f.write_str("an empty string"),
            Self::Text(1) => f.write_str("a string of 1 character"),
            Self::Text(length) => write!(f, "a string of {length} characters"),
            Self::List(0) => f.write_str("an empty array"),
            Self::List(1) => f.write_str("an array of 1 element"),
            Self::List(length) => write!(f, "an array of {length} elements"),
            Self::Object(keys) => keys.fmt(f),
            Self::Reference => f.write_str("an expression"),
            Self::Context => f.write_str("the whole context"),
        }
    }
}

impl fmt::Display for KeyShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = KNOWN_KEYS.iter().enumerate();
        let known: Vec<&str> = names.filter(|(at, _)| self.known & (1 << at) != 0).map(|(_, key)| *key).collect();
        match (known.as_slice(), self.others) {
            ([], 0) => f.write_str("an empty object"),
            ([], 1) => f.write_str("an object with 1 key"),
            ([], others) => write!(f, "an object with {others} keys"),
            (known, 0) => write!(f, "an object with keys {}", known.join(", ")),
            (known, others) => write!(f, "an object with keys {} and {others} more", known.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shapes_name_type_and_size_only() {
        #[track_caller]
        fn check(value: Value, expected: &str) {
            assert_eq!(ValueShape::of(&value).to_string(), expected);
        }
        check(json!(null), "null");
        check(json!(true), "a boolean");
        check(json!(42), "a number");
        check(json!(""), "an empty string");
        check(json!("é"), "a string of 1 character");
        check(json!("hidden"), "a string of 6 characters");
        check(json!(["hidden"]), "an array of 1 element");
        check(json!([]), "an empty array");
        check(json!({}), "an empty object");
        check(json!({"hidden": 1}), "an object with 1 key");
        check(json!({"kind": "hidden", "data": {}, "apiVersion": "v1"}), "an object with keys apiVersion, data, kind");
        check(json!({"kind": 1, "hidden": 2}), "an object with keys kind and 1 more");
    }
}
