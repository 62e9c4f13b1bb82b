//! Objects as they come in, without the ballast: of managed fields only who, when and through which path is kept. The rest of
//! them is half of what small objects weigh, and nobody here reads it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// An object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lean(pub(super) Value);

/// A list of objects, or a page of it.
#[derive(Debug, serde::Deserialize)]
pub(super) struct LeanList {
    #[serde(default)]
    pub(super) metadata: ListMetadata,
    /// Some lists say null instead of nothing.
    pub(super) items: Option<Vec<Lean>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMetadata {
    #[serde(default)]
    pub(super) resource_version: String,
    #[serde(default, rename = "continue")]
    pub(super) next: String,
}

/// What is kept of one entry.
#[derive(serde::Deserialize, serde::Serialize)]
struct Manager {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    time: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    subresource: String,
}

struct Metadata(Map<String, Value>);

impl<'de> Deserialize<'de> for Lean {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields { inside: false }).map(|fields| Self(Value::Object(fields)))
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields { inside: true }).map(Self)
    }
}

/// Reads the fields of an object, or of its metadata.
struct Fields {
    inside: bool,
}

impl<'de> Visitor<'de> for Fields {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let value = match name.as_str() {
                "metadata" if !self.inside => Value::Object(access.next_value::<Metadata>()?.0),
                "managedFields" if self.inside => {
                    let managers: Vec<Manager> = access.next_value()?;
                    managers.iter().filter_map(|manager| serde_json::to_value(manager).ok()).collect()
                }
                _ => access.next_value()?,
            };
            fields.insert(name, value);
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_managed_fields_lose_weight() {
        let object = json!({
            "kind": "Secret",
            "metadata": {"name": "a", "labels": {"managedFields": "kept"}, "managedFields": [
                {"manager": "m", "time": "t", "operation": "Update", "fieldsV1": {"f:data": {}}},
                {"manager": "k", "time": "u", "subresource": "status"},
            ]},
            "data": {"metadata": {"managedFields": "kept"}},
        });
        let Lean(lean) = serde_json::from_value(object.clone()).expect("an object");
        let mut expected = object;
        expected["metadata"]["managedFields"] =
            json!([{"manager": "m", "time": "t"}, {"manager": "k", "time": "u", "subresource": "status"}]);
        assert_eq!(lean, expected);
    }

    #[test]
    fn an_empty_list_may_be_null() {
        let list: LeanList = serde_json::from_value(json!({"metadata": {}, "items": null})).expect("a list");
        assert!(list.items.is_none());
    }

    #[test]
    fn pages_are_read() {
        let list: LeanList = serde_json::from_value(json!({
            "kind": "SecretList", "metadata": {"resourceVersion": "7", "continue": "c"}, "items": [{"metadata": {"name": "a"}}],
        }))
        .expect("a list");
        assert_eq!(
            (list.metadata.resource_version.as_str(), list.metadata.next.as_str(), list.items.map(|items| items.len())),
            ("7", "c", Some(1))
        );
    }
}
