//! An object as the rewrites look at it.

use serde_json::Value;

use super::{Settings, reference};
use crate::compile::Form;
use crate::core::mesh::kind::PolicyKind;
use crate::core::problem::FieldPath;

/// An object and what lies around it. Paths lead from its own root.
pub(super) struct Subject<'o> {
    pub(super) object: &'o Value,
    pub(super) form: Form,
    /// `None` for a template.
    pub(super) policy: Option<&'static PolicyKind>,
    pub(super) settings: &'o Settings,
    /// How it is written.
    pub(super) text: &'o str,
    /// The meshes of which there is more than one template.
    pub(super) several_templates: &'o [String],
}

/// A value of an object and where it stands; absent values read as null.
#[derive(Clone)]
pub(super) struct Field<'o> {
    pub(super) value: &'o Value,
    pub(super) path: FieldPath,
}

static ABSENT: Value = Value::Null;

impl<'o> Subject<'o> {
    pub(super) fn root(&self) -> Field<'o> {
        Field { value: self.object, path: FieldPath::root() }
    }

    pub(super) fn spec(&self) -> Field<'o> {
        self.root().below("spec")
    }

    pub(super) fn label(&self, name: &str) -> Option<&'o str> {
        let labels = match self.form {
            Form::Kubernetes => self.object.get("metadata")?.get("labels"),
            Form::Universal => self.object.get("labels"),
        };
        labels?.get(name)?.as_str()
    }

    /// The namespace that a reference without one means.
    pub(super) fn namespace(&self) -> Option<&'o str> {
        let metadata = self.object.get("metadata").filter(|_| self.form == Form::Kubernetes);
        let own = metadata.and_then(|metadata| metadata.get("namespace")).and_then(Value::as_str);
        self.label(reference::NAMESPACE_LABEL).or(own)
    }
}

impl<'o> Field<'o> {
    /// A place where nothing stands.
    pub(super) fn absent(path: FieldPath) -> Self {
        Self { value: &ABSENT, path }
    }

    pub(super) fn below(&self, name: &'static str) -> Self {
        Self { value: self.value.get(name).unwrap_or(&ABSENT), path: self.path.field(name) }
    }

    pub(super) fn elements(&self) -> Vec<Self> {
        let elements = self.value.as_array().into_iter().flatten().enumerate();
        elements.map(|(index, value)| Self { value, path: self.path.index(index) }).collect()
    }

    pub(super) fn text(&self) -> &'o str {
        self.value.as_str().unwrap_or_default()
    }

    /// Whether the key stands in it, with or without a value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.value.get(name).is_some()
    }

    pub(super) fn is_present(&self) -> bool {
        !self.value.is_null()
    }

    pub(super) fn is_filled(&self) -> bool {
        match self.value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
            _ => true,
        }
    }
}
