//! Reading wire documents field by field, each with the way to it.
//!
//! Null reads as absent, and a number or boolean where text is wanted reads as its text, so that the semantic checks always
//! have something to say; what the API server's schema thinks of such a document is reported apart.

use std::borrow::Cow;
use std::cell::RefCell;

use smallvec::SmallVec;

use super::Findings;
use super::way::{Trunk, Way};
use crate::core::json::{Json, Shape, Tree};
use crate::core::nearest;
use crate::core::problem::{FieldPath, Reason};

/// Names of fields; most objects have no more than these.
type Names = SmallVec<[&'static str; 12]>;

/// A value that may be absent, and where it stands or would stand. Policies of the mesh are read from a document that
/// borrows, generate rules from a tree that parts of are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'v, T = Json<'v>> {
    value: Option<T>,
    pub(crate) path: Way<'v>,
}

/// An object that remembers which of its fields were asked for, so that the others can be called unknown.
pub(crate) struct Object<'v, T = Json<'v>> {
    fields: Option<T>,
    pub(crate) path: Way<'v>,
    trunk: Trunk<'v>,
    asked: RefCell<Names>,
    passed_over: RefCell<Vec<&'static str>>,
}

impl<'v, T: Tree<'v>> Node<'v, T> {
    pub(crate) fn new(value: Option<T>, path: Way<'v>) -> Self {
        Self { value: value.filter(|value| !value.is_null()), path }
    }

    /// A field of this value, if it is an object; for single look-ups without the unknown-field check.
    pub(crate) fn below(&self, name: &'static str) -> Self {
        Self::new(self.value.and_then(|value| value.get(name)), self.path.field(name))
    }

    pub(crate) fn value(&self) -> Option<T> {
        self.value
    }

    /// The value, if it is text.
    pub(crate) fn as_text(&self) -> Option<&'v str> {
        self.value?.as_text()
    }

    pub(crate) fn is_present(&self) -> bool {
        self.value.is_some()
    }

    /// The value as an object; absent and mistyped ones read as an empty object, the latter with a finding.
    pub(crate) fn object(&self, findings: &mut Findings) -> Object<'v, T> {
        Object {
            fields: self.of_shape(Shape::Object, "a mapping", findings),
            path: self.path,
            trunk: self.path.trunk(),
            asked: RefCell::default(),
            passed_over: RefCell::default(),
        }
    }

    /// The elements of a list; absent and mistyped ones read as an empty list, the latter with a finding.
    pub(crate) fn list(&self, findings: &mut Findings) -> Vec<Self> {
        let Some(list) = self.of_shape(Shape::List, "a list", findings) else { return Vec::new() };
        let trunk = self.path.trunk();
        let mut nodes = Vec::with_capacity(list.count());
        nodes.extend(list.items().enumerate().map(|(index, item)| Self::new(Some(item), trunk.index(index))));
        nodes
    }

    /// The entries of a map whose keys are the user's own, in the order of the keys.
    pub(crate) fn entries(&self, findings: &mut Findings) -> Vec<(&'v str, Self)> {
        let Some(map) = self.of_shape(Shape::Object, "a mapping", findings) else { return Vec::new() };
        let trunk = self.path.trunk();
        let mut entries = Vec::with_capacity(map.count());
        entries.extend(map.fields().map(|(key, value)| (key, Self::new(Some(value), trunk.key(key)))));
        entries
    }

    /// The value as text; numbers and booleans read as their text.
    pub(crate) fn text(&self, findings: &mut Findings) -> Option<Cow<'v, str>> {
        match self.value?.shape() {
            Shape::Text(text) => Some(Cow::Borrowed(text)),
            Shape::Number(number) => Some(Cow::Owned(number.to_string())),
            Shape::Bool(flag) => Some(Cow::Owned(flag.to_string())),
            other => {
                self.mistyped("text", other, findings);
                None
            }
        }
    }

    /// Refuses a number or boolean, for a document that has no schema to do so: it cannot be decoded.
    pub(crate) fn refuse_scalar(&self, findings: &mut Findings) {
        if let Some(shape @ (Shape::Number(_) | Shape::Bool(_))) = self.value.map(Tree::shape) {
            self.mistyped("text in quotes", shape, findings);
        }
    }

    pub(super) fn mistyped(&self, wanted: &str, found: Shape<'_>, findings: &mut Findings) {
        findings.refuse(self.path, Reason::Format, format!("must be {wanted}, not {}", found.describe()));
    }

    fn of_shape(&self, wanted: Shape<'_>, name: &str, findings: &mut Findings) -> Option<T> {
        let value = self.value?;
        let shape = value.shape();
        if shape == wanted {
            return Some(value);
        }
        self.mistyped(name, shape, findings);
        None
    }
}

impl<'v, T: Tree<'v>> Object<'v, T> {
    /// The field of that name.
    pub(crate) fn get(&self, name: &'static str) -> Node<'v, T> {
        self.asked.borrow_mut().push(name);
        self.peek(name)
    }

    /// The field of that name, without its counting as known.
    pub(crate) fn peek(&self, name: &'static str) -> Node<'v, T> {
        Node::new(self.fields.and_then(|fields| fields.get(name)), self.trunk.field(name))
    }

    /// Whether the field is there and has null.
    pub(crate) fn is_null(&self, name: &'static str) -> bool {
        self.fields.and_then(|fields| fields.get(name)).is_some_and(Tree::is_null)
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
            findings.warn(path, Reason::Unknown, format!("unknown field, it has no effect; {hint}"));
        }
    }

    /// Refuses the fields that nobody asked for.
    pub(crate) fn refuse_unknown(&self, findings: &mut Findings) {
        for (path, hint) in self.unknown() {
            findings.refuse(path, Reason::Unknown, format!("unknown field; {hint}"));
        }
    }

    fn unknown(&self) -> Vec<(FieldPath, String)> {
        let (asked, passed_over) = (self.asked.borrow(), self.passed_over.borrow());
        let known = |key: &str| asked.contains(&key) || passed_over.contains(&key);
        let names = self.fields.into_iter().flat_map(Tree::fields).map(|(name, _)| name);
        let hints = names.filter(|name| !known(name)).map(|name| {
            let hint = nearest::hint(name, asked.iter().copied());
            (self.path.told().field(name.to_owned()), hint)
        });
        hints.collect()
    }
}
