//! From what users write to what the engine runs, collecting every problem on the way.
//!
//! The webhook, the controller and the command line all come through here, so nothing is admitted that cannot be run and
//! nothing is refused in one place that another accepts. This room knows documents; it does no I/O.

pub mod generate;
pub mod mesh;
mod reader;
mod way;

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::api;
use crate::core::json::{Document, Tree};
use crate::core::problem::{FieldPath, Problem, Reason};

/// What a check found in one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Why the document is refused.
    pub errors: Vec<Problem>,
    /// What the API server's schema refuses before anybody is asked.
    pub schema: Vec<Problem>,
    /// What is accepted but should be looked at.
    pub warnings: Vec<Problem>,
}

/// Who a document is, as far as it says so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'v> {
    pub kind: &'v str,
    pub name: &'v str,
    pub form: Form,
}

/// The two ways to write a policy down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `apiVersion`, `kind`, `metadata`, and the content below `spec`.
    Kubernetes,
    /// `type`, `mesh`, `name`, and the content beside them (older kinds) or below `spec`.
    Universal,
}

/// Whether [`check`] knows a kind of a Kubernetes API group.
pub fn serves(group: &str, kind: &str) -> bool {
    match group {
        "kuma.io" => mesh::checks(kind),
        "kyverno.io" => generate::KINDS.contains(&kind),
        _ => false,
    }
}

/// Checks a document of one of the kinds that Writ serves; `None` for any other.
pub fn check(document: &Value) -> Option<Findings> {
    if generate::is_policy(document) {
        return Some(generate::policy(document).1);
    }
    if generate::is_exception(document) {
        return Some(generate::exception(document).1);
    }
    if generate::is_global_entry(document) {
        return Some(generate::global_entry(document).1);
    }
    mesh::check(Document::from(document).root())
}

/// The CRDs of all kinds that Writ serves.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let mut all = api::definitions();
    all.extend(mesh::definitions());
    all
}

/// Kind, name and form of a document; `None` if it is neither a Kubernetes object nor a universal resource.
pub fn identify<'v>(document: impl Tree<'v>) -> Option<Identity<'v>> {
    let text = |path: &[&str]| document.at(path).and_then(Tree::as_text);
    if document.get("apiVersion").is_some() {
        let kind = text(&["kind"])?;
        let metadata = document.get("metadata");
        let name = metadata.and_then(|metadata| metadata.get("name").or_else(|| metadata.get("generateName")));
        let name = name.and_then(Tree::as_text).unwrap_or_default();
        return Some(Identity { kind, name, form: Form::Kubernetes });
    }
    let (kind, name) = (text(&["type"])?, text(&["name"]).unwrap_or_default());
    Some(Identity { kind, name, form: Form::Universal })
}

fn group_of<'v>(document: impl Tree<'v>) -> &'v str {
    let version = document.get("apiVersion").and_then(Tree::as_text).unwrap_or_default();
    version.split_once('/').map_or("", |(group, _)| group)
}

/// The generation of Kuma that a document has to please.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KumaVersion {
    #[default]
    Two,
    Three,
}

impl Findings {
    /// All errors: what the schema says of a field that the checks have spoken of need not be told again.
    pub fn refusals(&self) -> Vec<Problem> {
        let told: BTreeSet<_> = self.errors.iter().map(|error| &error.field).collect();
        let news = self.schema.iter().filter(|problem| !told.contains(&problem.field));
        self.errors.iter().chain(news).cloned().collect()
    }

    /// What the version of Kuma makes of the findings: for Kuma 3 the forms that it has no more are errors.
    #[must_use]
    pub fn seen_by(mut self, version: KumaVersion) -> Self {
        if version == KumaVersion::Three {
            let removed = self.warnings.extract_if(.., |warning| warning.reason == Reason::Removed);
            self.errors.extend(removed);
        }
        self
    }

    /// Makes errors of unknown fields.
    pub fn refuse_unknown(&mut self) {
        let unknown = self.warnings.extract_if(.., |warning| warning.reason == Reason::Unknown);
        self.schema.extend(unknown);
    }

    /// Adds an error.
    fn refuse(&mut self, field: impl Into<FieldPath>, reason: Reason, message: impl Into<String>) {
        self.errors.push(Problem::new(field, reason, message));
    }

    /// Adds a warning.
    fn warn(&mut self, field: impl Into<FieldPath>, reason: Reason, message: impl Into<String>) {
        self.warnings.push(Problem::new(field, reason, message));
    }
}
