//! Something that went wrong in a policy, with its place in the file and a mark under the expression.

use serde_json::{Value, json};

use super::load::Placed;
use super::simulate::PolicyFile;
use crate::core::expr::{EvalError, TemplateError};
use crate::core::generate::{Cause, Place, RuleError};
use crate::core::problem::{FieldPath, Problem};
use crate::core::resource::text_at;

#[derive(Clone, Debug)]
pub(super) struct Complaint {
    /// Empty if an exception is meant.
    pub(super) policy: String,
    /// Empty if a policy is meant.
    pub(super) exception: String,
    /// Empty if the policy as a whole is meant.
    pub(super) rule: String,
    /// Empty if no trigger is involved.
    pub(super) trigger: String,
    pub(super) field: String,
    pub(super) message: String,
    pub(super) file: String,
    pub(super) line: usize,
    /// The expression with a mark under it.
    pub(super) snippet: Option<String>,
}

impl Complaint {
    /// A finding of the compiler.
    pub(super) fn of_document(file: &str, document: &Placed, problem: &Problem) -> Self {
        let name = text_at(&document.value, &["metadata", "name"]).to_owned();
        let (policy, exception) = match text_at(&document.value, &["kind"]) {
            "PolicyException" => (String::new(), name),
            _ => (name, String::new()),
        };
        Self {
            policy,
            exception,
            rule: String::new(),
            trigger: String::new(),
            field: problem.field.to_string(),
            message: problem.message.clone(),
            file: file.to_owned(),
            line: document.position_of(&problem.field).line,
            snippet: None,
        }
    }

    /// A rule that failed for a trigger.
    pub(super) fn of_rule(file: &PolicyFile, trigger: &str, place: Place, error: &RuleError) -> Self {
        let field = precise_field(error);
        let place = place.to_string();
        let message = if place.is_empty() { error.cause.to_string() } else { format!("{place}: {}", error.cause) };
        Self {
            policy: error.policy.to_string(),
            exception: String::new(),
            rule: error.rule.clone(),
            trigger: trigger.to_owned(),
            field: field.to_string(),
            message,
            file: file.file.clone(),
            line: file.document.position_of(&field).line,
            snippet: snippet(&error.cause),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { policy, exception, rule, trigger, field, message, file, line, snippet: _ } = self;
        json!({
            "policy": policy, "exception": exception, "rule": rule, "trigger": trigger, "field": field,
            "message": message, "file": file, "line": line,
        })
    }

    /// Several lines for people.
    pub(super) fn to_text(&self, level: &str) -> String {
        let Self { policy, exception, rule, trigger, field, message, file, line, snippet } = self;
        let whose = if exception.is_empty() { format!("policy {policy}") } else { format!("exception {exception}") };
        let mut text = format!("{file}:{line}: {level}: {whose}");
        for (what, name) in [("rule", rule), ("trigger", trigger)] {
            if !name.is_empty() {
                text.push_str(&format!(", {what} {name}"));
            }
        }
        text.push_str(&format!("\n  {field}: {message}\n"));
        for line in snippet.iter().flat_map(|snippet| snippet.lines()) {
            text.push_str(&format!("    | {line}\n"));
        }
        text
    }
}

/// Substitution knows the very text that failed.
fn precise_field(error: &RuleError) -> FieldPath {
    match &*error.cause {
        Cause::Template(template) => error.field.below_pointer(template.path()),
        _ => error.field.clone(),
    }
}

fn snippet(cause: &Cause) -> Option<String> {
    match cause {
        Cause::Expression { expression, reason } => Some(mark(expression, reason)),
        Cause::Template(error) => match &**error {
            TemplateError::Syntax { reason, .. } => Some(reason.snippet()),
            TemplateError::Expression { expression, reason, .. } => Some(mark(expression, reason)),
            _ => None,
        },
        _ => None,
    }
}

/// The expression, with a mark under the key that is missing or the function that failed, as far as the error names one.
fn mark(expression: &str, reason: &EvalError) -> String {
    let culprit = match reason {
        EvalError::NotFound { key } => key,
        EvalError::UnknownFunction { name } | EvalError::Variable { name, .. } => name,
        EvalError::Arity { name, .. } | EvalError::Type { name, .. } | EvalError::Function { name, .. } => *name,
        _ => "",
    };
    let column = expression.rfind(culprit).filter(|_| !culprit.is_empty()).unwrap_or(0);
    let indent = " ".repeat(expression[..column].chars().count());
    let lines = expression.replace('\n', " ");
    format!("{lines}\n{indent}^ {reason}")
}
