//! The routes of the mesh, as far as policies for them ask.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::compile::mesh;
use crate::core::mesh::reach::{Route, Routes};
use crate::core::resource::{Gvk, ObjectKey};

/// Takes documents, gives snapshots.
#[derive(Debug, Default)]
pub struct RouteIndex {
    known: BTreeMap<ObjectKey, Route>,
}

impl RouteIndex {
    /// Takes a document; one that cannot be read is as good as none.
    pub fn apply(&mut self, document: &Value) -> ObjectKey {
        let key = ObjectKey::of(document);
        match mesh::route(document) {
            Some(route) => drop(self.known.insert(key.clone(), route)),
            None => drop(self.known.remove(&key)),
        }
        key
    }

    pub fn delete(&mut self, document: &Value) {
        self.known.remove(&ObjectKey::of(document));
    }

    /// Forgets every route of a kind that a list of them did not name.
    pub fn retain(&mut self, kind: &Gvk, listed: &BTreeSet<ObjectKey>) {
        self.known.retain(|key, _| key.gvk != *kind || listed.contains(key));
    }

    pub fn snapshot(&self) -> Arc<Routes> {
        Arc::new(Routes(self.known.values().cloned().collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn follows_documents() {
        let document = |kind: &str, name: &str, top: &str| {
            json!({"apiVersion": "kuma.io/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "n"},
                "spec": {"targetRef": {"kind": top}}})
        };
        let names = |index: &RouteIndex| -> Vec<String> {
            index.snapshot().0.iter().map(|route| format!("{} {}", route.kind.name(), route.name)).collect()
        };
        let mut index = RouteIndex::default();
        let kept = index.apply(&document("MeshHTTPRoute", "a", "Mesh"));
        index.apply(&document("MeshHTTPRoute", "b", "Mesh"));
        index.apply(&document("MeshTCPRoute", "a", "Mesh"));
        index.apply(&document("MeshTimeout", "a", "Mesh"));
        assert_eq!(names(&index), ["MeshHTTPRoute a", "MeshHTTPRoute b", "MeshTCPRoute a"]);
        index.retain(&kept.gvk, &BTreeSet::from([kept.clone()]));
        assert_eq!(names(&index), ["MeshHTTPRoute a", "MeshTCPRoute a"]);
        index.delete(&document("MeshTCPRoute", "a", "Mesh"));
        index.apply(&document("MeshHTTPRoute", "a", "Moon"));
        assert_eq!(names(&index), Vec::<String>::new(), "an unreadable one is none");
    }
}
