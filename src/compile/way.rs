//! Where a reader is in a document.
//!
//! Readers look at many places and have something to say of hardly any, so a way is no more than a few words that can be
//! copied; it becomes a [`FieldPath`] when somebody is to be told.

use std::cell::RefCell;
use std::fmt;

use crate::core::problem::{FieldPath, Step};

/// The ways to all objects and lists of a document that were looked into, each as the way above and one step more.
#[derive(Debug)]
pub(crate) struct Ways(RefCell<Vec<(Above, Step)>>);

/// The way from the root of a document to one of its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'v> {
    trunk: Trunk<'v>,
    last: Last<'v>,
}

/// The way to an object or list, of which the ways to its fields or elements are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trunk<'v> {
    ways: &'v Ways,
    at: Above,
}

/// The position among all ways; `None` is the root.
type Above = Option<usize>;

#[derive(Clone, Copy, Debug)]
enum Last<'v> {
    Nothing,
    Field(&'static str),
    /// A field whose name is the user's own.
    Found(&'v str),
    Index(usize),
    Key(&'v str),
}

impl Default for Ways {
    /// With room for what the usual policy has.
    fn default() -> Self {
        Self(RefCell::new(Vec::with_capacity(32)))
    }
}

impl Ways {
    /// The document itself.
    pub(crate) fn root(&self) -> Way<'_> {
        Way { trunk: Trunk { ways: self, at: None }, last: Last::Nothing }
    }
}

impl<'v> Way<'v> {
    /// `self.name`
    pub(crate) fn field(self, name: &'static str) -> Self {
        self.trunk().field(name)
    }

    /// `self.name`, for a name that stands in the document.
    pub(crate) fn found(self, name: &'v str) -> Self {
        Way { trunk: self.trunk(), last: Last::Found(name) }
    }

    /// `self[index]`
    pub(crate) fn index(self, index: usize) -> Self {
        self.trunk().index(index)
    }

    /// For somebody who is going to look at several values below this one.
    pub(crate) fn trunk(self) -> Trunk<'v> {
        let Some(step) = self.last.step() else { return self.trunk };
        let Trunk { ways: Ways(ways), at: above } = self.trunk;
        let mut ways = ways.borrow_mut();
        ways.push((above, step));
        Trunk { at: Some(ways.len() - 1), ..self.trunk }
    }

    /// The way as somebody can be told of it.
    pub(crate) fn told(self) -> FieldPath {
        let Ways(ways) = self.trunk.ways;
        let ways = ways.borrow();
        let mut steps: Vec<Step> = self.last.step().into_iter().collect();
        let mut at = self.trunk.at;
        while let Some((above, step)) = at.and_then(|at| ways.get(at)) {
            steps.push(step.clone());
            at = *above;
        }
        steps.into_iter().rev().fold(FieldPath::root(), |path, step| path.step(step))
    }
}

impl<'v> Trunk<'v> {
    /// The field of that name.
    pub(crate) fn field(self, name: &'static str) -> Way<'v> {
        Way { trunk: self, last: Last::Field(name) }
    }

    /// The element at that index.
    pub(crate) fn index(self, index: usize) -> Way<'v> {
        Way { trunk: self, last: Last::Index(index) }
    }

    /// The entry under that key of the user's own.
    pub(crate) fn key(self, key: &'v str) -> Way<'v> {
        Way { trunk: self, last: Last::Key(key) }
    }
}

impl Last<'_> {
    fn step(self) -> Option<Step> {
        match self {
            Self::Nothing => None,
            Self::Field(name) => Some(Step::Field(name.into())),
            Self::Found(name) => Some(Step::Field(name.to_owned().into())),
            Self::Index(index) => Some(Step::Index(index)),
            Self::Key(key) => Some(Step::Key(key.to_owned())),
        }
    }
}

impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.told().fmt(f)
    }
}

impl From<Way<'_>> for FieldPath {
    fn from(way: Way<'_>) -> Self {
        way.told()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_told_from_the_root() {
        let ways = Ways::default();
        let list = ways.root().field("spec").field("to").trunk();
        let (first, second) = (list.index(0), list.index(1).field("tags"));
        assert_eq!(second.trunk().key("kuma.io/x").told().to_string(), r#"spec.to[1].tags["kuma.io/x"]"#);
        assert_eq!((first.told().to_string(), ways.root().told().to_string()), ("spec.to[0]".into(), String::new()));
    }
}
