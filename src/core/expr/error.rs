//! Why an evaluation ended without a value.

use std::fmt;

use crate::core::shape::ValueShape;

/// An evaluation that gave no value. A missing key is one of these, because a policy that reads what is not there must not go
/// on silently; `||`, pipes, projections, comparisons and function arguments turn it into null.
///
/// It shows what the author of the expression wrote and the shape of values, never a value: see [`ValueShape`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    #[error("Unknown key {key:?} in path")]
    NotFound { key: String },
    #[error("unknown function: {name}")]
    UnknownFunction { name: String },
    #[error("function {name}: incorrect number of args: expected {expected}, got {given}")]
    Arity { name: &'static str, expected: String, given: usize },
    #[error("function {name}, argument #{position}: Invalid type for: {given}, expected: {expected}")]
    Type { name: &'static str, position: usize, given: ValueShape, expected: String },
    #[error("JMESPath function '{name}': {reason}")]
    Function { name: &'static str, reason: Box<FailReason> },
    #[error("a slice with step 0 has no end")]
    SliceStep,
    #[error("{0} is no JSON value")]
    NotJson(&'static str),
    /// A name that the scope has, but could not give.
    #[error("variable {name}: {reason}")]
    Variable { name: String, reason: String },
    /// A fact is missing: add it and evaluate again.
    #[error("{0} has to be looked up first")]
    Needs(Lookup),
    #[error("`{}` goes beyond {limit} {bound}", super::shorten(expression))]
    Budget { expression: String, bound: Bound, limit: u64 },
}

/// Why a function gave no value: fixed words and the shape of what it was given. There is no room for a text that was
/// computed, because that may be the content of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailReason {
    words: &'static str,
    given: Option<ValueShape>,
    /// A key that the expression names.
    key: Option<String>,
    /// Line and column in the text that a function read.
    position: Option<(u64, u64)>,
}

impl FailReason {
    /// A sentence that stands alone.
    pub(super) fn new(words: &'static str) -> Self {
        Self { words, given: None, key: None, position: None }
    }

    /// A sentence whose subject is the value.
    pub(super) fn about(given: ValueShape, words: &'static str) -> Self {
        Self { given: Some(given), ..Self::new(words) }
    }

    pub(super) fn with_key(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    pub(super) fn at(self, line: u64, column: u64) -> Self {
        Self { position: Some((line, column)), ..self }
    }
}

impl fmt::Display for FailReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(given) = &self.given {
            write!(f, "{given} ")?;
        }
        f.write_str(self.words)?;
        if let Some(key) = &self.key {
            write!(f, " {key:?}")?;
        }
        if let Some((line, column)) = self.position {
            write!(f, " at line {line}, column {column}")?;
        }
        Ok(())
    }
}

/// A fact that an evaluation asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lookup {
    /// The addresses of a host name, to be told to the [`Runtime`](super::Runtime).
    Host(String),
    /// What a variable stands for. The scope knows what it lacks.
    Variable(String),
}

/// What a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Steps,
    Bytes,
    Depth,
    Passes,
}

impl EvalError {
    /// An error that no part of an expression may swallow: the evaluation as a whole cannot be trusted without it.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Needs(_) | Self::Budget { .. } | Self::Variable { .. })
    }

    /// The same error of an expression whose text was computed: what would quote the text says so instead, because the text
    /// holds values.
    pub(super) fn of_computed_text(mut self) -> Self {
        match &mut self {
            Self::NotFound { key } => COMPUTED.clone_into(key),
            Self::UnknownFunction { name } => COMPUTED.clone_into(name),
            Self::Budget { expression, .. } => COMPUTED_EXPRESSION.clone_into(expression),
            Self::Function { reason, .. } if reason.key.is_some() => reason.key = Some(COMPUTED.to_owned()),
            _ => {}
        }
        self
    }

    /// Names the expression in a budget error that does not have one.
    pub(super) fn in_expression(mut self, text: &str) -> Self {
        if let Self::Budget { expression, .. } = &mut self
            && expression.is_empty()
        {
            *expression = text.to_owned();
        }
        self
    }
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(_) => f.write_str("a host"),
            Self::Variable(name) => write!(f, "variable {name}"),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Steps => "steps",
            Self::Bytes => "bytes",
            Self::Depth => "levels of nesting",
            Self::Passes => "passes of substitution",
        })
    }
}

/// Stands in a message for a name that was computed.
const COMPUTED: &str = "…";

/// Stands in a message for an expression that was computed.
pub(super) const COMPUTED_EXPRESSION: &str = "a computed expression";

/// The evaluator's own error: a missing key is common inside filters and must cost nothing.
#[derive(Debug)]
pub(super) enum Fault<'a> {
    Missing(&'a str),
    Error(Box<EvalError>),
}

impl From<EvalError> for Fault<'_> {
    fn from(error: EvalError) -> Self {
        Self::Error(Box::new(error))
    }
}

impl From<Fault<'_>> for EvalError {
    fn from(fault: Fault<'_>) -> Self {
        match fault {
            Fault::Missing(key) => Self::NotFound { key: key.to_owned() },
            Fault::Error(error) => *error,
        }
    }
}
