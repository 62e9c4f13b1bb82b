//! JMESPath's grammar: text to [`Node`] and back to something readable. It knows no values and no functions' meaning.
//!
//! The parser is ours, not the `jmespath` crate's. That parser recurses without a bound (on `!!!a`, `*.*.*`, `a[*][*]`
//! as much as on brackets), so it would need a text limit, a thread with a large stack and a walk over its tree; its tree
//! has one node for `.` and `|` and one for `a[0]` and `a[0:1]`, which the not-found rules must tell apart. A Pratt
//! parser with a depth counter is smaller than that guard. The crate stays the oracle: tests compare results with it.
//!
//! Binding powers, low to high: `|`, `||`, `&&`, comparators, `[]`, `*`, `[?`, `.`, `!`, `{`, `[`, `(`. So `!a.b` is
//! `(!a).b`, and `a | f(@) || 'x'` is `a | (f(@) || 'x')`.

mod lexer;
mod parser;
mod tree;

pub(super) use parser::parse;
pub(super) use tree::{Comparator, Kind, Node, Projection, Slice, outline};

/// The longest expression that is read. Texts spliced into an expression by nested braces can be long; people's are not.
pub(super) const MAX_TEXT: usize = 64 * 1024;

/// The deepest expression that is read, which bounds the recursion of parser, evaluator and destructor.
pub(super) const MAX_DEPTH: usize = 128;

/// An expression that is no JMESPath.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}`, column {column}: {reason}", super::shorten(expression))]
pub struct SyntaxError {
    pub expression: String,
    /// Counted in characters, from 1.
    pub column: usize,
    /// What is wrong there, lower case.
    pub reason: String,
}

impl SyntaxError {
    fn at(expression: &str, offset: usize, reason: impl Into<String>) -> Self {
        let column = expression.get(..offset).map_or(0, |before| before.chars().count()) + 1;
        Self { expression: expression.to_owned(), column, reason: reason.into() }
    }

    /// The same error of a text that was computed and is not to be quoted.
    pub(super) fn of_computed_text(self) -> Self {
        let reason = "it is not JMESPath".to_owned();
        Self { expression: super::error::COMPUTED_EXPRESSION.to_owned(), reason, ..self }
    }

    /// The line of the expression that is wrong, with a caret under the column, for people at a terminal.
    pub fn snippet(&self) -> String {
        let mut rest = self.column - 1;
        for line in self.expression.split('\n') {
            let length = line.chars().count();
            if rest <= length {
                return format!("{line}\n{}^ {}", " ".repeat(rest), self.reason);
            }
            rest -= length + 1;
        }
        self.reason.clone()
    }
}
