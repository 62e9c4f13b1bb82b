//! Reading the object of a review without its ballast.
//!
//! `metadata.managedFields` and the copy that `kubectl apply` keeps in an annotation are often most of an object, and no
//! policy is about them; they are skipped unread.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Reads an object, or null.
pub(super) struct Reader;

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        Ok(Some(Level::Object.deserialize(deserializer)?).filter(|value| !value.is_null()))
    }
}

/// How far down the reader is: everything besides these three levels is plain JSON.
#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
    Annotations,
}

impl Level {
    /// What to do with the value of a key: skip it, read it by a level of its own, or take it as it is.
    fn below(self, key: &str) -> Below {
        match (self, key) {
            (Self::Object, "metadata") => Below::Level(Self::Metadata),
            (Self::Metadata, "annotations") => Below::Level(Self::Annotations),
            (Self::Metadata, "managedFields") | (Self::Annotations, LAST_APPLIED) => Below::Ballast,
            _ => Below::Plain,
        }
    }
}

enum Below {
    Ballast,
    Level(Level),
    Plain,
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut entries: M) -> Result<Value, M::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            match self.below(&key) {
                Below::Ballast => drop(entries.next_value::<IgnoredAny>()?),
                Below::Level(level) => drop(object.insert(key, entries.next_value_seed(level)?)),
                Below::Plain => drop(object.insert(key, entries.next_value()?)),
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ballast_is_left_behind_and_nothing_else() {
        let object = json!({
            "kind": "Pod", "managedFields": "stays",
            "metadata": {
                "name": "x", "managedFields": [{"manager": "kubectl"}],
                "annotations": {LAST_APPLIED: "{}", "note": "stays"},
            },
            "spec": {"metadata": {"managedFields": "stays"}},
        });
        let read = Reader.deserialize(&mut serde_json::Deserializer::from_str(&object.to_string())).unwrap();
        let expected = json!({
            "kind": "Pod", "managedFields": "stays",
            "metadata": {"name": "x", "annotations": {"note": "stays"}},
            "spec": {"metadata": {"managedFields": "stays"}},
        });
        assert_eq!(read, Some(expected));
    }

    #[test]
    fn null_is_no_object_and_text_is_an_error() {
        assert_eq!(Reader.deserialize(&mut serde_json::Deserializer::from_str("null")).unwrap(), None);
        assert!(Reader.deserialize(&mut serde_json::Deserializer::from_str("\"x\"")).is_err());
        let odd = Reader.deserialize(&mut serde_json::Deserializer::from_str(r#"{"metadata": null}"#)).unwrap();
        assert_eq!(odd, Some(json!({"metadata": null})));
    }
}
