//! From what users write to what the engine runs, collecting every problem on the way.
//!
//! The webhook, the controller and the command line all come through here, so nothing is admitted that cannot be run and
//! nothing is refused in one place that another accepts. This room knows documents; it does no I/O.

pub mod generate;
mod json_patch;
mod modification;
mod proxy_template;
mod reader;
mod tags;

use serde_json::Value;

use crate::core::problem::{FieldPath, Problem, Reason};
use reader::Node;

/// What a check found in one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Why the document is refused.
    pub errors: Vec<Problem>,
    /// What is accepted but should be looked at.
    pub warnings: Vec<Problem>,
}

/// Who a document is, as far as it says so itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub kind: String,
    pub name: String,
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

type Check = fn(&Node<'_>, &mut Findings);

/// The kinds of group `kuma.io`, with the check of their content.
const MESH_KINDS: &[(&str, Check)] = &[("ProxyTemplate", proxy_template::check)];

/// Checks a document of one of the kinds that Writ serves; `None` for any other.
pub fn check(document: &Value) -> Option<Findings> {
    let identity = identify(document)?;
    if generate::serves(document) {
        return Some(generate::policy(document).1);
    }
    let (_, check) = MESH_KINDS.iter().find(|(kind, _)| *kind == identity.kind)?;
    if identity.form == Form::Kubernetes && group_of(document) != "kuma.io" {
        return None;
    }
    let mut findings = Findings::default();
    let root = Node::new(Some(document), FieldPath::root());
    match identity.form {
        Form::Kubernetes => check(&root.below("spec"), &mut findings),
        Form::Universal => check(&root, &mut findings),
    }
    Some(findings)
}

/// Kind, name and form of a document; `None` if it is neither a Kubernetes object nor a universal resource.
pub fn identify(document: &Value) -> Option<Identity> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if document.get("apiVersion").is_some() {
        let kind = document.get("kind").and_then(text)?;
        let metadata = document.get("metadata");
        let name = metadata
            .and_then(|metadata| metadata.get("name").or_else(|| metadata.get("generateName")))
            .and_then(text)
            .unwrap_or_default();
        return Some(Identity {
            kind,
            name,
            form: Form::Kubernetes,
        });
    }
    let kind = document.get("type").and_then(text)?;
    let name = document.get("name").and_then(text).unwrap_or_default();
    Some(Identity {
        kind,
        name,
        form: Form::Universal,
    })
}

fn group_of(document: &Value) -> &str {
    let version = document.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    version.split_once('/').map_or("", |(group, _)| group)
}

impl Findings {
    /// Adds an error.
    fn refuse(&mut self, field: &FieldPath, reason: Reason, message: impl Into<String>) {
        self.errors.push(Problem::new(field, reason, message));
    }

    /// Adds a warning.
    fn warn(&mut self, field: &FieldPath, reason: Reason, message: impl Into<String>) {
        self.warnings.push(Problem::new(field, reason, message));
    }
}
