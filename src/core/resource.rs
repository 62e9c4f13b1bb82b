//! Names of Kubernetes objects: group, version and kind, and the key of one object.
//!
//! Knows nothing of what an object holds beyond the fields that every object has.

use std::fmt;

use serde_json::Value;

/// Group, version and kind. The core group is the empty text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub gvk: Gvk,
    /// Absent for cluster-scoped objects.
    pub namespace: Option<String>,
    pub name: String,
}

impl Gvk {
    /// From an `apiVersion` such as `v1` or `apps/v1`.
    pub fn new(api_version: &str, kind: impl Into<String>) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.into() }
    }

    /// Of an object, as far as it says so.
    pub fn of(object: &Value) -> Self {
        Self::new(text_at(object, &["apiVersion"]), text_at(object, &["kind"]))
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }
}

impl ObjectKey {
    /// Of an object, as far as it says so.
    pub fn of(object: &Value) -> Self {
        let namespace = text_at(object, &["metadata", "namespace"]);
        Self {
            gvk: Gvk::of(object),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: text_at(object, &["metadata", "name"]).to_owned(),
        }
    }
}

/// The text at a path of fields, empty if there is none.
pub fn text_at<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    path.iter().try_fold(value, |value, field| value.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// Whether somebody has asked for the deletion of an object that is still there.
pub fn is_ending(object: &Value) -> bool {
    !text_at(object, &["metadata", "deletionTimestamp"]).is_empty()
}

/// `apps/v1 Deployment`
impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{} {}", self.version, self.kind)
    }
}

/// `apps/v1 Deployment team-a/web`
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.gvk)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_read_as_people_write_them() {
        let object =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "a"}});
        let key = ObjectKey::of(&object);
        assert_eq!(key.to_string(), "apps/v1 Deployment a/web");
        assert_eq!(key.gvk.api_version(), "apps/v1");
        let key = ObjectKey::of(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}));
        assert_eq!(key.to_string(), "v1 Namespace a");
        assert_eq!(key.namespace, None);
    }
}
