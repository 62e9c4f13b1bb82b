//! Building a CustomResourceDefinition from the few things that differ between kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// What makes a kind its own.
pub(super) struct Definition {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) scope: Scope,
    /// Columns of `kubectl get` besides name and age: title and JSON path.
    pub(super) columns: &'static [(&'static str, &'static str)],
    /// The structural schema of the whole object.
    pub(super) schema: Value,
}

pub(super) enum Scope {
    Cluster,
}

impl Definition {
    pub(super) fn build(self) -> CustomResourceDefinition {
        let Self {
            group,
            version,
            kind,
            plural,
            scope,
            columns,
            schema,
        } = self;
        let scope = match scope {
            Scope::Cluster => "Cluster",
        };
        let mut printed: Vec<Value> = columns
            .iter()
            .map(|(name, path)| json!({"name": name, "type": "string", "jsonPath": path}))
            .collect();
        printed.push(json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}));
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "labels": {"app.kubernetes.io/part-of": "writ"}},
            "spec": {
                "group": group,
                "names": {
                    "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
                },
                "scope": scope,
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "additionalPrinterColumns": printed,
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        serde_json::from_value(definition).expect("a definition that a test has read")
    }
}
