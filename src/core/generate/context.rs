//! Context entries: named values that a rule, or an entry of `foreach`, may use in its expressions.
//!
//! Scoping is lexical. An entry sees the entries declared before it, in its own scope and the ones around it; everything after
//! the context sees the last entry of a name. Nothing is computed or fetched until an expression reads the name, each entry
//! at most once per scope, so a broken entry that nobody uses does no harm.

mod call;
mod frame;
mod load;

use serde_json::Value;

use crate::core::expr::{Expression, Template};
use crate::core::generate::api_path::PathPattern;
use crate::core::problem::FieldPath;

pub use call::Call;
pub(super) use call::decode;
pub(super) use frame::{Base, Frame, Session};

/// Names that entries may not take.
pub const RESERVED: &[&str] =
    &["images", "request", "serviceAccountName", "serviceAccountNamespace", "element", "elementIndex"];

/// One entry.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: String,
    pub source: EntrySource,
    /// Where it stands in the policy.
    pub field: FieldPath,
}

/// Where the value comes from.
#[derive(Clone, Debug)]
pub enum EntrySource {
    Variable(Variable),
    /// `{name, namespace}`
    ConfigMap(Template),
    ApiCall(ApiCall),
    ImageRegistry {
        reference: Template,
        query: Option<Query>,
    },
    GlobalReference {
        name: Template,
        query: Option<Query>,
    },
}

impl EntrySource {
    /// Whether somebody beside the API server has to be asked.
    fn is_elsewhere(&self) -> bool {
        match self {
            Self::ApiCall(call) => call.is_service,
            Self::ImageRegistry { .. } | Self::GlobalReference { .. } => true,
            Self::Variable(_) | Self::ConfigMap(_) => false,
        }
    }
}

/// `variable`. At least one of value and query is there.
#[derive(Clone, Debug)]
pub struct Variable {
    pub value: Option<Template>,
    pub query: Option<Query>,
    pub default: Option<Template>,
}

/// `apiCall`.
#[derive(Clone, Debug)]
pub struct ApiCall {
    /// `{urlPath, method, data, service}`, substituted as a whole.
    pub call: Template,
    /// What the `urlPath` can become.
    pub path: PathPattern,
    pub query: Option<Query>,
    /// Used as it is when the call fails.
    pub default: Option<Value>,
    /// It is not the API server that is called.
    pub is_service: bool,
}

/// A bare expression field (`jmesPath`). With braces in it, its text is known only when it runs.
#[derive(Clone, Debug)]
pub enum Query {
    Fixed(Expression),
    Computed(Template),
}
