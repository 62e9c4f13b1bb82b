//! Why a rule, or a part of it, gave no result.

use std::fmt;

use crate::core::expr::{EvalError, Lookup, TemplateError};
use crate::core::problem::FieldPath;
use crate::core::resource::ObjectKey;
use crate::core::shape::ValueShape;

use super::gate::Refusal;

/// The name of a policy; with a namespace it is a Policy, without one a ClusterPolicy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyKey {
    pub namespace: Option<String>,
    pub name: String,
}

/// An error and where in which policy it happened.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("policy {policy}, rule {rule}: {field}: {cause}")]
pub struct RuleError {
    pub policy: PolicyKey,
    pub rule: String,
    /// The field of the policy that was being worked on, from the root of the document.
    pub field: FieldPath,
    pub cause: Box<Cause>,
}

/// What went wrong. Of values there is only the shape: see [`ValueShape`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// A bare expression, such as the list of a loop.
    #[error("`{expression}`: {reason}")]
    Expression { expression: String, reason: Box<EvalError> },
    #[error(transparent)]
    Template(Box<TemplateError>),
    #[error(transparent)]
    Gate(#[from] Refusal),
    /// A name, kind, … that did not become text.
    #[error("`{field}` must become text, but became {found}")]
    NotText { field: &'static str, found: ValueShape },
    #[error("`{field}` came out empty")]
    Empty { field: &'static str },
    /// Nothing is wrong yet: a fact is missing. Never leaves the evaluation.
    #[error("{what} has to be fetched first")]
    Waits { what: String },
    #[error("source {source_key} does not exist")]
    SourceMissing { source_key: Box<ObjectKey> },
    #[error("{what} could not be read: {reason}")]
    Unreadable { what: String, reason: String },
    #[error("{key} is wanted twice by this rule; make the name unique, for example with `{{{{ elementIndex }}}}`")]
    Collision { key: Box<ObjectKey> },
    #[error("`kind` of the body, {body}, is not the kind of the target, `{target}`")]
    OtherKind { body: ValueShape, target: String },
    #[error("`{what}` must be a mapping, but became {found}")]
    NotObject { what: &'static str, found: ValueShape },
    #[error("{0}")]
    Malformed(&'static str),
    /// What it panicked about may be a value, and is not kept.
    #[error(
        "the evaluation panicked; this is a bug in Writ, and the rule is not asked again until the policy or the object changes"
    )]
    Panicked,
    #[error("more than {limit} {what}; the rule asks for more than its budget")]
    Budget { what: &'static str, limit: usize },
}

impl Cause {
    /// Whether this is no error but a missing fact; a host name that must be looked up comes along.
    pub(super) fn waits(&self) -> Option<Option<&Lookup>> {
        match self {
            Self::Waits { .. } => Some(None),
            Self::Expression { reason, .. } => match &**reason {
                EvalError::Needs(lookup) => Some(Some(lookup)),
                _ => None,
            },
            Self::Template(error) => error.needs().map(Some),
            _ => None,
        }
    }
}

impl RuleError {
    pub fn is_panic(&self) -> bool {
        matches!(*self.cause, Cause::Panicked)
    }
}

impl From<TemplateError> for Cause {
    fn from(error: TemplateError) -> Self {
        Self::Template(Box::new(error))
    }
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}
