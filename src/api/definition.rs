//! Building a CustomResourceDefinition from the few things that differ between kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// What makes a kind its own.
pub(crate) struct Definition {
    pub(crate) group: &'static str,
    /// All are served and have the same shape; the first is stored.
    pub(crate) versions: &'static [&'static str],
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) scope: Scope,
    /// Whether `status` is written apart from the rest.
    pub(crate) status: bool,
    /// Columns of `kubectl get` besides name and age.
    pub(crate) columns: &'static [Column],
    /// The structural schema of the whole object.
    pub(crate) schema: Value,
}

#[derive(Clone, Copy)]
pub(crate) enum Scope {
    Cluster,
    Namespaced,
}

/// One column of `kubectl get`.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) path: &'static str,
    /// Shown with `-o wide` only.
    pub(crate) wide: bool,
}

impl Column {
    pub(crate) const fn text(title: &'static str, path: &'static str) -> Self {
        Self { title, kind: "string", path, wide: false }
    }

    pub(crate) const fn flag(title: &'static str, path: &'static str) -> Self {
        Self { kind: "boolean", ..Self::text(title, path) }
    }

    pub(crate) const fn wide_number(title: &'static str, path: &'static str) -> Self {
        Self { kind: "integer", wide: true, ..Self::text(title, path) }
    }

    pub(crate) const fn wide_text(title: &'static str, path: &'static str) -> Self {
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
    pub(crate) fn build(self) -> CustomResourceDefinition {
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
