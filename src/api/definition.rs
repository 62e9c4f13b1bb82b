//! Building a CustomResourceDefinition from the few things that differ between kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// What makes a kind its own.
pub(super) struct Definition {
    pub(super) group: &'static str,
    /// All are served and have the same shape; the first is stored.
    pub(super) versions: &'static [&'static str],
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) short_names: &'static [&'static str],
    pub(super) categories: &'static [&'static str],
    pub(super) scope: Scope,
    /// Whether `status` is written apart from the rest.
    pub(super) status: bool,
    /// Columns of `kubectl get` besides name and age.
    pub(super) columns: &'static [Column],
    /// The structural schema of the whole object.
    pub(super) schema: Value,
}

#[derive(Clone, Copy)]
pub(super) enum Scope {
    Cluster,
    Namespaced,
}

/// One column of `kubectl get`.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) kind: &'static str,
    pub(super) path: &'static str,
    /// Shown with `-o wide` only.
    pub(super) wide: bool,
}

impl Column {
    pub(super) const fn text(title: &'static str, path: &'static str) -> Self {
        Self { title, kind: "string", path, wide: false }
    }

    pub(super) const fn flag(title: &'static str, path: &'static str) -> Self {
        Self { kind: "boolean", ..Self::text(title, path) }
    }

    pub(super) const fn wide_number(title: &'static str, path: &'static str) -> Self {
        Self { kind: "integer", wide: true, ..Self::text(title, path) }
    }

    pub(super) const fn wide_text(title: &'static str, path: &'static str) -> Self {
        Self { wide: true, ..Self::text(title, path) }
    }

    fn build(&self) -> Value {
        let Self { title, kind, path, wide } = self;
        let mut column = json!({"name": title, "type": kind, "jsonPath": path});
        if *wide {
            column["priority"] = 1.into();
        }
        column
    }
}

impl Definition {
    pub(super) fn build(self) -> CustomResourceDefinition {
        let Self { group, versions, kind, plural, short_names, categories, scope, status, columns, schema } = self;
        let scope = match scope {
            Scope::Cluster => "Cluster",
            Scope::Namespaced => "Namespaced",
        };
        let mut printed: Vec<Value> = columns.iter().map(Column::build).collect();
        printed.push(json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}));
        let mut names = json!({
            "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
        });
        for (field, values) in [("shortNames", short_names), ("categories", categories)] {
            if !values.is_empty() {
                names[field] = values.into();
            }
        }
        let versions: Vec<Value> = versions
            .iter()
            .enumerate()
            .map(|(index, version)| {
                let mut version = json!({
                    "name": version, "served": true, "storage": index == 0,
                    "additionalPrinterColumns": printed,
                    "schema": {"openAPIV3Schema": schema},
                });
                if status {
                    version["subresources"] = json!({"status": {}});
                }
                version
            })
            .collect();
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "labels": {"app.kubernetes.io/part-of": "writ"}},
            "spec": {"group": group, "names": names, "scope": scope, "versions": versions},
        });
        serde_json::from_value(definition).expect("a definition that a test has read")
    }
}
