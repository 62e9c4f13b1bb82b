//! `{{ }}` variables and `$( )` references in documents.
//!
//! A document is substituted in two whole passes. References come first; they point into the document itself, so
//! [`Template::compile`] resolves them once. Variables come second, for each use of the template: in every key and every text of
//! the document, innermost token first, and the result is read again until no token is left. So text that comes from a
//! resource is evaluated as well when it is embedded; passes, bytes and steps are bounded.
//!
//! This file knows tokens and documents. What an expression means is the business of its parent module.

mod reference;
mod token;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::error::{Bound, COMPUTED_EXPRESSION};
use super::runtime::exceeded;
use super::{EvalError, Expression, Lookup, Runtime, Scope, SyntaxError, text};
use crate::core::shape::ValueShape;
use token::Token;

/// How often one text is read again before it counts as referring to itself.
const MAX_PASSES: u64 = 64;

/// What a token costs besides its expression: it is cut out, looked up and copied.
const TOKEN_STEPS: usize = 40;

/// The deepest document that is taken as a template.
const MAX_DEPTH: usize = 256;

/// A document ready to be substituted: references resolved, expressions compiled.
#[derive(Clone, Debug)]
pub struct Template {
    document: Result<Value, TemplateError>,
    /// Expressions by their text, as far as they can be known before the first evaluation.
    expressions: BTreeMap<String, Expression>,
    problems: Vec<TemplateError>,
}

/// Where a substitution failed, in which expression, and why. Path and expression are those of the author's document: what a
/// substitution has brought in is not shown, because it may be the content of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    #[error("failed to resolve {} at path {path}: JMESPath query failed: {reason}", super::shorten(expression))]
    Expression { path: String, expression: String, reason: EvalError },
    #[error("failed to resolve {} at path {path}: {reason}", super::shorten(&reason.expression))]
    Syntax { path: String, reason: SyntaxError },
    #[error("failed to resolve {reference} at path {path}: {reason}")]
    Reference { path: String, reference: String, reason: String },
    #[error("expected string after substituting variables in key {key:?} at path {path}")]
    Key { path: String, key: String },
    #[error("failed to resolve {expression} at path {path}: only text can be substituted with {{{{- }}}}, not {given}")]
    Shallow { path: String, expression: String, given: ValueShape },
    #[error("substitution at path {path}: {reason}")]
    Budget { path: String, reason: EvalError },
}

impl TemplateError {
    /// Where in the document it went wrong: `/`-joined keys and indices, `/` inside a key as `\/`.
    pub fn path(&self) -> &str {
        match self {
            Self::Expression { path, .. }
            | Self::Syntax { path, .. }
            | Self::Reference { path, .. }
            | Self::Key { path, .. }
            | Self::Shallow { path, .. }
            | Self::Budget { path, .. } => path,
        }
    }

    /// The fact that has to be found before substituting again.
    pub fn needs(&self) -> Option<&Lookup> {
        match self {
            Self::Expression { reason: EvalError::Needs(lookup), .. } => Some(lookup),
            _ => None,
        }
    }
}

/// Substitutes a document that is used only once.
pub fn substitute(document: &Value, scope: &dyn Scope, runtime: &Runtime) -> Result<Value, TemplateError> {
    Template::compile(document).substitute(scope, runtime)
}

impl Template {
    /// Never fails: what is wrong is kept for [`Template::problems`], and for the evaluation that meets it.
    pub fn compile(document: &Value) -> Self {
        let mut template = Self {
            document: reference::resolve(document, MAX_DEPTH),
            expressions: BTreeMap::new(),
            problems: Vec::new(),
        };
        match &template.document {
            Ok(document) => {
                let mut survey = Survey { expressions: BTreeMap::new(), problems: Vec::new() };
                survey.visit(document, &Path::root());
                template.expressions = survey.expressions;
                template.problems = survey.problems;
            }
            Err(error) => template.problems.push(error.clone()),
        }
        template
    }

    /// Everything that is known to be wrong before an evaluation: bad references, and tokens that are no JMESPath. A token that
    /// holds another token is known only when it is evaluated.
    pub fn problems(&self) -> &[TemplateError] {
        &self.problems
    }

    /// The document as its author wrote it, references resolved; nothing if they cannot be.
    pub fn written(&self) -> Option<&Value> {
        self.document.as_ref().ok()
    }

    /// Whether a substitution changes anything.
    pub fn has_variables(&self) -> bool {
        !self.expressions.is_empty() || !self.problems.is_empty()
    }

    /// The texts of all expressions that are known before an evaluation.
    pub fn expressions(&self) -> impl Iterator<Item = &str> {
        self.expressions.keys().map(String::as_str)
    }

    /// The document with every variable replaced by its value.
    pub fn substitute(&self, scope: &dyn Scope, runtime: &Runtime) -> Result<Value, TemplateError> {
        let document = self.document.as_ref().map_err(Clone::clone)?;
        Substitution { scope, runtime, known: &self.expressions }.document(document, &Path::root(), 0, 0)
    }
}

/// The way to a value, kept on the stack because it is needed only when something is wrong.
struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: String,
    /// The step stands in the author's document, and not in a value that took the place of a token.
    is_shown: bool,
    /// So does the value at the end of the path.
    is_written: bool,
}

impl<'p> Path<'p> {
    fn root() -> Self {
        Self { parent: None, step: String::new(), is_shown: true, is_written: true }
    }

    fn key(&'p self, key: &str) -> Self {
        self.child(key.replace('/', "\\/"))
    }

    fn index(&'p self, index: usize) -> Self {
        self.child(index.to_string())
    }

    fn child(&'p self, step: String) -> Self {
        Self { parent: Some(self), step, is_shown: self.is_written, is_written: self.is_written }
    }

    /// The same path, after its value has been replaced by one that was computed.
    fn computed(&self) -> Self {
        Self { parent: self.parent, step: self.step.clone(), is_shown: self.is_shown, is_written: false }
    }

    fn steps(&self) -> Vec<&str> {
        let mut steps = Vec::new();
        let mut path = self;
        while let Some(parent) = path.parent {
            steps.push(path.step.as_str());
            path = parent;
        }
        steps.reverse();
        steps
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parent {
            None => f.write_str("/"),
            Some(parent) if !self.is_shown => parent.fmt(f),
            Some(_) => self.steps().iter().try_for_each(|step| write!(f, "/{step}")),
        }
    }
}

/// Finds the expressions of a document before any evaluation.
struct Survey {
    expressions: BTreeMap<String, Expression>,
    problems: Vec<TemplateError>,
}

impl Survey {
    fn visit(&mut self, value: &Value, path: &Path<'_>) {
        match value {
            Value::String(text) => self.text(text, path),
            Value::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    self.visit(element, &path.index(index));
                }
            }
            Value::Object(entries) => {
                for (key, value) in entries {
                    self.text(key, path);
                    self.visit(value, &path.key(key));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&mut self, text: &str, path: &Path<'_>) {
        let mut from = 0;
        while let Some(token) = token::next(text, from) {
            // Past the token itself, unlike a pass: of `{{a}}{{b}}` both are wanted.
            from = token.end.saturating_sub(1);
            let expression = token.expression();
            if expression == "@" || self.expressions.contains_key(expression) {
                continue;
            }
            match Expression::compile(expression) {
                Ok(compiled) => {
                    self.expressions.insert(expression.to_owned(), compiled);
                }
                Err(reason) => self.problems.push(TemplateError::Syntax { path: path.to_string(), reason }),
            }
        }
    }
}

/// One evaluation of a template.
struct Substitution<'r> {
    scope: &'r dyn Scope,
    runtime: &'r Runtime,
    known: &'r BTreeMap<String, Expression>,
}

/// The expression of a token.
struct Formula {
    text: String,
    /// It stands in the author's document, and not in a text that was computed.
    is_written: bool,
}

impl Formula {
    fn shown(&self) -> &str {
        if self.is_written { &self.text } else { COMPUTED_EXPRESSION }
    }
}

/// Stands in a message for a key that was computed.
const COMPUTED_KEY: &str = "…";

/// What became of a text.
enum Replaced {
    /// The text was not one token: the outcome is text.
    Text(String),
    /// The text was one token: the outcome keeps its type.
    Whole(Value),
}

impl Substitution<'_> {
    /// `rounds` counts how many replacements this document is the result of.
    fn document(&self, value: &Value, path: &Path<'_>, depth: usize, rounds: u64) -> Result<Value, TemplateError> {
        self.pay(path, || self.runtime.step(1).and_then(|()| self.runtime.check_depth(depth)))?;
        Ok(match value {
            Value::String(text) => match self.text(text, path)? {
                Replaced::Text(text) => Value::String(text),
                Replaced::Whole(value) if value.is_array() || value.is_object() => {
                    if rounds == MAX_PASSES {
                        return self.pay(path, || Err(exceeded(Bound::Passes, MAX_PASSES)));
                    }
                    self.document(&value, &path.computed(), depth, rounds + 1)?
                }
                Replaced::Whole(value) => value,
            },
            Value::Array(elements) => {
                let mut substituted = Vec::with_capacity(elements.len());
                for (index, element) in elements.iter().enumerate() {
                    substituted.push(self.document(element, &path.index(index), depth + 1, rounds)?);
                }
                Value::Array(substituted)
            }
            Value::Object(entries) => {
                let mut substituted = Map::new();
                for (key, value) in entries {
                    let new_key = self.key(key, path)?;
                    substituted.insert(new_key, self.document(value, &path.key(key), depth + 1, rounds)?);
                }
                Value::Object(substituted)
            }
            other => other.clone(),
        })
    }

    fn key(&self, key: &str, parent: &Path<'_>) -> Result<String, TemplateError> {
        match self.text(key, parent)? {
            Replaced::Text(text) | Replaced::Whole(Value::String(text)) => Ok(text),
            Replaced::Whole(Value::Null) => Ok(key.to_owned()),
            Replaced::Whole(_) => {
                let key = if parent.is_written { key } else { COMPUTED_KEY };
                Err(TemplateError::Key { path: parent.to_string(), key: key.to_owned() })
            }
        }
    }

    /// Replaces tokens pass by pass until none is left, then removes the backslash of escaped ones.
    fn text(&self, text: &str, path: &Path<'_>) -> Result<Replaced, TemplateError> {
        self.pay(path, || self.runtime.produce(text.len()))?;
        let mut current = text.to_owned();
        for pass in 0..MAX_PASSES {
            let is_written = path.is_written && pass == 0;
            let mut rest = 0;
            let mut next = String::new();
            let mut shallow = false;
            while let Some(token) = token::next(&current, rest) {
                let expression = self.expression(&token, is_written, path)?;
                if token.start == 0 && token.end == current.len() {
                    return self.whole(&token, &expression, path).map(Replaced::Whole);
                }
                next.push_str(&current[rest..token.start]);
                next.push_str(&self.embedded(&token, &expression, path)?);
                rest = token.end;
                shallow = token.is_shallow();
            }
            if rest > 0 {
                next.push_str(&current[rest..]);
                current = next;
                self.pay(path, || self.runtime.read(current.len()))?;
            }
            if rest == 0 || shallow {
                return Ok(Replaced::Text(token::unescape(current)));
            }
        }
        self.pay(path, || Err(exceeded(Bound::Passes, MAX_PASSES)))
    }

    /// The expression to evaluate for a token: `@` becomes a path, and on DELETE the old object is meant.
    fn expression(&self, token: &Token<'_>, is_written: bool, path: &Path<'_>) -> Result<Formula, TemplateError> {
        self.pay(path, || self.runtime.step(TOKEN_STEPS))?;
        let mut formula = Formula { text: token.expression().to_owned(), is_written };
        if formula.text == "@" {
            let root = if self.scope.names().contains(&"target") { "target" } else { "request.object" };
            formula.text = token::current_path(root, &path.steps());
        }
        if formula.text.contains("request.object") && self.is_delete(&formula, path)? {
            formula.text = formula.text.replace("request.object", "request.oldObject");
        }
        Ok(formula)
    }

    fn is_delete(&self, formula: &Formula, path: &Path<'_>) -> Result<bool, TemplateError> {
        let request = self.scope.lookup("request", self.runtime).map_err(|reason| TemplateError::Expression {
            path: path.to_string(),
            expression: formula.shown().to_owned(),
            reason,
        })?;
        Ok(request.and_then(|request| request.get("operation")).is_some_and(|operation| operation == "DELETE"))
    }

    fn whole(&self, token: &Token<'_>, formula: &Formula, path: &Path<'_>) -> Result<Value, TemplateError> {
        let value = self.evaluate(formula, path, |compiled| compiled.resolve_json(self.scope, self.runtime))?;
        if token.is_shallow() && !value.is_string() && !value.is_null() {
            return Err(shallow(formula, path, ValueShape::of(&value)));
        }
        Ok(value)
    }

    fn embedded(&self, token: &Token<'_>, formula: &Formula, path: &Path<'_>) -> Result<String, TemplateError> {
        self.evaluate(formula, path, |compiled| {
            let found = compiled.resolve(self.scope, self.runtime)?;
            if token.is_shallow() && found.as_bytes().is_none() && !found.is_null() {
                return Ok(Err(shallow(formula, path, found.shape())));
            }
            let embedded = text::embed(&found, self.runtime)?;
            Ok(Ok(if token.is_shallow() { token::escape(&embedded) } else { embedded }))
        })?
    }

    fn evaluate<T>(
        &self,
        formula: &Formula,
        path: &Path<'_>,
        run: impl FnOnce(&Expression) -> Result<T, EvalError>,
    ) -> Result<T, TemplateError> {
        let fresh;
        let compile = if formula.is_written { Expression::compile } else { Expression::compile_computed };
        let compiled = match self.known.get(&formula.text) {
            Some(known) => known,
            None => {
                fresh = compile(&formula.text)
                    .map_err(|reason| TemplateError::Syntax { path: path.to_string(), reason })?;
                &fresh
            }
        };
        run(compiled).map_err(|reason| TemplateError::Expression {
            path: path.to_string(),
            expression: formula.shown().to_owned(),
            reason: reason.in_expression(formula.shown()),
        })
    }

    fn pay<T>(&self, path: &Path<'_>, cost: impl FnOnce() -> Result<T, EvalError>) -> Result<T, TemplateError> {
        cost().map_err(|reason| TemplateError::Budget {
            path: path.to_string(),
            reason: reason.in_expression("the text"),
        })
    }
}

fn shallow(formula: &Formula, path: &Path<'_>, given: ValueShape) -> TemplateError {
    TemplateError::Shallow { path: path.to_string(), expression: formula.shown().to_owned(), given }
}

#[cfg(test)]
mod tests;
