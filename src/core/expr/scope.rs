//! Where the names of an expression come from.
//!
//! Upstream scans the *text* of an expression for the names of context entries and loads all that it mentions, before
//! evaluating. Here evaluation itself asks: reading field `N` of the root document calls [`Scope::lookup`] with `N`, and
//! nothing else is loaded. Everything that can be observed through a value stays the same (`one.two`, `(one)` and `one<two`
//! load `one`; `two.one`, `one1` and `one_two` do not; an error of a loader is the error of the expression, whatever stands
//! around it). The difference is what is *not* loaded: a name that occurs only in a text literal, in a quoted key of another object,
//! or in a branch that `||` and `&&` never reach. Uses of the whole document (`@`, `*`, `keys(@)`) load every name.

use serde_json::{Map, Value};

use super::{EvalError, Runtime};

/// A root document whose top-level values are found by name, one at a time. An implementation that computes values keeps
/// them (in a `OnceCell` per name), so that each is computed once.
pub trait Scope {
    /// The value under `name`, or nothing if there is no such key. [`EvalError::Needs`] asks the caller for a fact;
    /// [`EvalError::Variable`] says that the name is known but has no value.
    fn lookup<'s>(&'s self, name: &str, runtime: &Runtime) -> Result<Option<&'s Value>, EvalError>;

    /// All names, sorted and unique.
    fn names(&self) -> Vec<&str>;
}

impl Scope for Map<String, Value> {
    fn lookup<'s>(&'s self, name: &str, _: &Runtime) -> Result<Option<&'s Value>, EvalError> {
        Ok(self.get(name))
    }

    fn names(&self) -> Vec<&str> {
        self.keys().map(String::as_str).collect()
    }
}

/// A document of another type than object has no names.
impl Scope for Value {
    fn lookup<'s>(&'s self, name: &str, _: &Runtime) -> Result<Option<&'s Value>, EvalError> {
        Ok(self.get(name))
    }

    fn names(&self) -> Vec<&str> {
        self.as_object().map(Scope::names).unwrap_or_default()
    }
}
