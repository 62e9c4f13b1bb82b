//! Reading wire documents field by field, each with its path.
//!
//! Null reads as absent, and a number or boolean where text is wanted reads as its text, so that the semantic checks always
//! have something to say; what the API server's schema thinks of such a document is reported apart.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};

use serde_json::{Map, Value};
use smallvec::SmallVec;

use super::Findings;
use crate::core::nearest;
use crate::core::problem::{FieldPath, Reason, Trunk};
use crate::core::structural::describe;

/// Names of fields; most objects have no more than these.
type Names = SmallVec<[&'static str; 12]>;

/// A value that may be absent, and where it stands or would stand.
#[derive(Clone, Debug)]
pub(crate) struct Node<'v> {
    value: Option<&'v Value>,
    pub(crate) path: FieldPath,
}

/// An object that remembers which of its fields were asked for, so that the others can be called unknown.
pub(crate) struct Object<'v> {
    entries: Option<&'v Map<String, Value>>,
    pub(crate) path: FieldPath,
    trunk: OnceCell<Trunk>,
    asked: RefCell<Names>,
    passed_over: RefCell<Vec<&'static str>>,
}

impl<'v> Node<'v> {
    pub(crate) fn new(value: Option<&'v Value>, path: FieldPath) -> Self {
        Self { value: value.filter(|value| !value.is_null()), path }
    }

    /// A field of this value, if it is an object; for single look-ups without the unknown-field check.
    pub(crate) fn below(&self, name: &'static str) -> Self {
        Self::new(self.value.and_then(|value| value.get(name)), self.path.field(name))
    }

    pub(crate) fn value(&self) -> Option<&'v Value> {
        self.value
    }

    pub(crate) fn is_present(&self) -> bool {
        self.value.is_some()
    }

    /// The value as an object; absent and mistyped ones read as an empty object, the latter with a finding.
    pub(crate) fn object(&self, findings: &mut Findings) -> Object<'v> {
        let entries = match self.value {
            Some(Value::Object(entries)) => Some(entries),
            Some(other) => {
                self.mistyped("a mapping", other, findings);
                None
            }
            None => None,
        };
        Object {
            entries,
            path: self.path.clone(),
            trunk: OnceCell::new(),
            asked: RefCell::default(),
            passed_over: RefCell::default(),
        }
    }

    /// The elements of a list; absent and mistyped ones read as an empty list, the latter with a finding.
    pub(crate) fn list(&self, findings: &mut Findings) -> Vec<Node<'v>> {
        match self.value {
            Some(Value::Array(items)) => {
                let trunk = self.path.trunk();
                items.iter().enumerate().map(|(index, item)| Node::new(Some(item), trunk.index(index))).collect()
            }
            Some(other) => {
                self.mistyped("a list", other, findings);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// The entries of a map whose keys are the user's own, in the order of the keys.
    pub(crate) fn entries(&self, findings: &mut Findings) -> Vec<(&'v str, Node<'v>)> {
        match self.value {
            Some(Value::Object(entries)) => {
                let trunk = self.path.trunk();
                let node = |(key, value): (&'v String, &'v Value)| {
                    (key.as_str(), Node::new(Some(value), trunk.key(key.as_str())))
                };
                entries.iter().map(node).collect()
            }
            Some(other) => {
                self.mistyped("a mapping", other, findings);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// The value as text; numbers and booleans read as their text.
    pub(crate) fn text(&self, findings: &mut Findings) -> Option<Cow<'v, str>> {
        match self.value? {
            Value::String(text) => Some(Cow::Borrowed(text)),
            scalar @ (Value::Number(_) | Value::Bool(_)) => Some(Cow::Owned(scalar.to_string())),
            other => {
                self.mistyped("text", other, findings);
                None
            }
        }
    }

    pub(super) fn mistyped(&self, wanted: &str, found: &Value, findings: &mut Findings) {
        findings.refuse(&self.path, Reason::Format, format!("must be {wanted}, not {}", describe(found)));
    }
}

impl<'v> Object<'v> {
    /// The field of that name.
    pub(crate) fn get(&self, name: &'static str) -> Node<'v> {
        self.asked.borrow_mut().push(name);
        self.peek(name)
    }

    /// The field of that name, without its counting as known.
    pub(crate) fn peek(&self, name: &'static str) -> Node<'v> {
        let trunk = self.trunk.get_or_init(|| self.path.trunk());
        Node::new(self.entries.and_then(|entries| entries.get(name)), trunk.field(name))
    }

    /// Counts fields as known that are read by another way, or need no check.
    pub(crate) fn knows(&self, names: &[&'static str]) {
        self.asked.borrow_mut().extend_from_slice(names);
    }

    /// Fields that are somebody else's business: not read here, and not unknown.
    pub(crate) fn pass_over(&self, names: &[&'static str]) {
        self.passed_over.borrow_mut().extend_from_slice(names);
    }

    /// Warns of the fields that nobody asked for.
    pub(crate) fn warn_of_unknown(&self, findings: &mut Findings) {
        for (path, hint) in self.unknown() {
            findings.warn(&path, Reason::Unknown, format!("unknown field, it has no effect; {hint}"));
        }
    }

    /// Refuses the fields that nobody asked for.
    pub(crate) fn refuse_unknown(&self, findings: &mut Findings) {
        for (path, hint) in self.unknown() {
            findings.refuse(&path, Reason::Unknown, format!("unknown field; {hint}"));
        }
    }

    fn unknown(&self) -> Vec<(FieldPath, String)> {
        let (asked, passed_over) = (self.asked.borrow(), self.passed_over.borrow());
        let known = |key: &str| asked.contains(&key) || passed_over.contains(&key);
        let unknown = self.entries.into_iter().flat_map(Map::keys).filter(|key| !known(key));
        let hints = unknown.map(|key| {
            let hint = nearest::hint(key, asked.iter().copied());
            (self.path.field(key.clone()), hint)
        });
        hints.collect()
    }
}
