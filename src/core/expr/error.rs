//! Why an evaluation ended without a value.

use std::fmt;

/// An evaluation that gave no value. A missing key is one of these, because a policy that reads what is not there must not go
/// on silently; `||`, pipes, projections, comparisons and function arguments turn it into null.
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
    Type { name: &'static str, position: usize, given: String, expected: String },
    #[error("JMESPath function '{name}': {reason}")]
    Function { name: &'static str, reason: String },
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
            Self::Host(name) => write!(f, "host {name}"),
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
