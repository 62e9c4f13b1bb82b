//! The way to the value at hand, as a chain of borrowed steps: it costs nothing until an error or a note asks for it.

use crate::core::problem::FieldPath;

#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
    Key(&'a Place<'a>, &'a str),
}

impl Place<'_> {
    pub(super) fn path(&self) -> FieldPath {
        let mut steps = Vec::new();
        let mut place = self;
        while let Self::Field(parent, _) | Self::Index(parent, _) | Self::Key(parent, _) = place {
            steps.push(place);
            place = parent;
        }
        steps.iter().rev().fold(FieldPath::root(), |path, step| match step {
            Self::Root => path,
            Self::Field(_, name) => path.field((*name).to_owned()),
            Self::Index(_, index) => path.index(*index),
            Self::Key(_, key) => path.key(*key),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_out_in_reading_order() {
        let list = Place::Field(&Place::Root, "filters");
        let element = Place::Index(&list, 2);
        assert_eq!(Place::Key(&element, "a.b").path().to_string(), r#"filters[2]["a.b"]"#);
        assert_eq!(Place::Root.path(), FieldPath::root());
    }
}
