//! Expressions: JMESPath over borrowed JSON, and the `{{ }}` and `$( )` texts that carry it.
//!
//! | file | subject |
//! |---|---|
//! | `syntax` | the grammar |
//! | `datum` | what an expression yields while it runs: borrowed JSON, or something computed |
//! | `scope` | where the names of an expression come from |
//! | `chance` | what `random()` draws from |
//! | `runtime` | clock, chance, look-ups and budgets of one evaluation |
//! | `evaluate` | a tree over a datum, with the not-found rules |
//! | `functions` | the function table |
//! | `template` | `{{ }}` and `$( )` in documents |
//!
//! Evaluation is a function of expression, scope and runtime. It never asks a clock, a network or a random source: what it
//! lacks comes back as [`EvalError::Needs`], the caller adds the fact and evaluates again.

mod chance;
mod datum;
mod error;
mod evaluate;
pub mod functions;
pub(crate) mod go_regex;
mod names;
mod runtime;
mod scope;
mod syntax;
pub mod template;

mod text;

use std::sync::Arc;

use serde_json::Value;

pub use chance::Seed;
pub use datum::{Datum, Number};
pub use error::{Bound, EvalError, FailReason, Lookup};
pub use functions::Function;
pub use runtime::{Limits, Runtime};
pub use scope::Scope;
pub use syntax::SyntaxError;
pub use template::{Template, TemplateError};

/// A compiled expression: immutable, cheap to clone, shared between threads. Compile once, evaluate often.
#[derive(Clone, Debug)]
pub struct Expression {
    text: Arc<str>,
    root: Arc<syntax::Node>,
    /// Its text holds values, so errors do not quote it.
    is_computed: bool,
}

impl Expression {
    pub fn compile(text: &str) -> Result<Self, SyntaxError> {
        Ok(Self { root: Arc::new(syntax::parse(text)?), text: text.into(), is_computed: false })
    }

    /// Compiles a text that an evaluation has made. It may hold the content of a Secret, so no error quotes it.
    pub fn compile_computed(text: &str) -> Result<Self, SyntaxError> {
        match Self::compile(text) {
            Ok(compiled) => Ok(Self { is_computed: true, ..compiled }),
            Err(error) => Err(error.of_computed_text()),
        }
    }

    /// The text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names of the root document that it reads, sorted.
    pub fn names(&self) -> std::collections::BTreeSet<&str> {
        names::collect(&self.root)
    }

    /// Evaluates against a document that is at hand. The result borrows from expression and document.
    pub fn search<'a>(&'a self, document: &'a Value, runtime: &Runtime) -> Result<Datum<'a>, EvalError> {
        self.run(&Datum::Json(document), runtime)
    }

    /// Evaluates against a scope, which is asked only for the names that the evaluation reads.
    pub fn resolve<'a>(&'a self, scope: &'a dyn Scope, runtime: &Runtime) -> Result<Datum<'a>, EvalError> {
        self.run(&Datum::Scope(scope), runtime)
    }

    /// [`Expression::search`] with the result as JSON of its own.
    pub fn search_json(&self, document: &Value, runtime: &Runtime) -> Result<Value, EvalError> {
        let found = self.search(document, runtime)?;
        found.to_json(runtime).map_err(|error| self.blame(error))
    }

    /// [`Expression::resolve`] with the result as JSON of its own.
    pub fn resolve_json(&self, scope: &dyn Scope, runtime: &Runtime) -> Result<Value, EvalError> {
        let found = self.resolve(scope, runtime)?;
        found.to_json(runtime).map_err(|error| self.blame(error))
    }

    /// The error as it may be shown.
    fn blame(&self, error: EvalError) -> EvalError {
        if self.is_computed { error.of_computed_text() } else { error.in_expression(&self.text) }
    }

    fn run<'a>(&'a self, root: &Datum<'a>, runtime: &Runtime) -> Result<Datum<'a>, EvalError> {
        evaluate::evaluate(&self.root, root, runtime).map_err(|fault| self.blame(fault.into()))
    }
}

/// The tree of an expression, one node per line, for people.
pub fn parse_tree(expression: &str) -> Result<String, SyntaxError> {
    syntax::parse(expression).map(|root| syntax::outline(&root))
}

/// A text as a message quotes it: whole if short, else its beginning.
pub(crate) fn shorten(text: &str) -> std::borrow::Cow<'_, str> {
    const LONGEST: usize = 160;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests;
