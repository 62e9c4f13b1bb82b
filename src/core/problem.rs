//! Where in a document something is wrong, and what: [`FieldPath`] and [`Problem`].
//!
//! A validator never stops at the first problem; it pushes each into a list. Paths render as Kubernetes users know them:
//! `spec.to[0].rules[2]`, `selectors[0].match["kuma.io/service"]`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The way from the root of a document to one of its values.
///
/// Readers make one for every field they look at, and hardly any is ever told to anybody: so its last step lies in the
/// path itself, and the way there is shared with its neighbours (see [`Trunk`]).
#[derive(Clone, Default)]
pub struct FieldPath {
    above: Trunk,
    last: Option<Step>,
}

/// The way to an object or list, of which paths to its fields or elements are made at next to no cost.
#[derive(Clone, Default)]
pub struct Trunk(Option<Arc<FieldPath>>);

/// One step of a [`FieldPath`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A named field of an object: `.name`.
    Field(Cow<'static, str>),
    /// An element of a list: `[2]`.
    Index(usize),
    /// An entry of a map whose keys are the user's own: `["kuma.io/service"]`.
    Key(String),
}

/// One finding: a place and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub field: FieldPath,
    pub reason: Reason,
    /// What is wrong and what to do, lower case, without the path and without a full stop.
    pub message: String,
}

/// The class of a problem. Texts may change, the pair of path and class is a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A needed value is absent.
    Required,
    /// Present but empty.
    Empty,
    /// Present but not permitted for this kind or operation.
    Forbidden,
    /// A legal field in an illegal combination.
    Context,
    /// A targetRef kind that this position does not take.
    Kind,
    /// Neither of, or both of, name and labels.
    NameOrLabels,
    /// An unknown value where only some are known.
    Enum,
    /// Not exactly one of several alternatives.
    Xor,
    /// None of several alternatives.
    AnyOf,
    /// A number or duration below zero.
    Negative,
    /// A number or duration that must be above zero.
    NotPositive,
    /// A number outside its bounds.
    Range,
    /// Bad syntax or type.
    Format,
    /// The same key twice.
    Duplicate,
    /// An embedded Envoy document that does not decode.
    Envoy,
    /// A field that this kind does not have.
    Unknown,
    /// Legal today, on its way out.
    Deprecated,
    /// Legal here and in Kuma 2, refused by Kuma 3.
    Removed,
    /// Legal, but probably not what was meant.
    Suspicious,
}

impl FieldPath {
    /// The document itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// `self.name`
    #[must_use]
    pub fn field(&self, name: impl Into<Cow<'static, str>>) -> Self {
        self.trunk().field(name)
    }

    /// `self[index]`
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.trunk().index(index)
    }

    /// `self["key"]`
    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.trunk().key(key)
    }

    /// One step further.
    #[must_use]
    pub fn step(&self, step: Step) -> Self {
        self.trunk().step(step)
    }

    /// For somebody who is going to make several paths below this one.
    pub fn trunk(&self) -> Trunk {
        Trunk(self.last.is_some().then(|| Arc::new(self.clone())))
    }

    /// This path seen from further up: `parent` followed by its steps.
    #[must_use]
    pub fn below(&self, parent: &Self) -> Self {
        self.steps().into_iter().fold(parent.clone(), |path, step| path.trunk().step(step.clone()))
    }

    /// A value below, at the `/`-joined path that templates use; digits are taken for the index of a list.
    #[must_use]
    pub fn below_pointer(&self, pointer: &str) -> Self {
        let mut path = self.clone();
        let mut part = String::new();
        let mut letters = pointer.strip_prefix('/').unwrap_or(pointer).chars().peekable();
        loop {
            match letters.next() {
                Some('\\') if letters.next_if_eq(&'/').is_some() => part.push('/'),
                Some(letter) if letter != '/' => part.push(letter),
                end => {
                    if !part.is_empty() {
                        let part = std::mem::take(&mut part);
                        path = path.trunk().step(part.parse().map_or(Step::Field(part.into()), Step::Index));
                    }
                    if end.is_none() {
                        return path;
                    }
                }
            }
        }
    }

    /// From the root to the value.
    pub fn steps(&self) -> Vec<&Step> {
        let upwards = std::iter::successors(Some(self), |path| path.above.0.as_deref());
        let mut steps: Vec<_> = upwards.filter_map(|path| path.last.as_ref()).collect();
        steps.reverse();
        steps
    }
}

impl Trunk {
    /// The field of that name.
    pub fn field(&self, name: impl Into<Cow<'static, str>>) -> FieldPath {
        self.step(Step::Field(name.into()))
    }

    /// The element at that index.
    pub fn index(&self, index: usize) -> FieldPath {
        self.step(Step::Index(index))
    }

    /// The entry under that key of the user's own.
    pub fn key(&self, key: impl Into<String>) -> FieldPath {
        self.step(Step::Key(key.into()))
    }

    fn step(&self, step: Step) -> FieldPath {
        FieldPath { above: self.clone(), last: Some(step) }
    }
}

impl From<&FieldPath> for FieldPath {
    fn from(path: &FieldPath) -> Self {
        path.clone()
    }
}

impl PartialEq for FieldPath {
    fn eq(&self, other: &Self) -> bool {
        self.steps() == other.steps()
    }
}

impl Eq for FieldPath {}

impl PartialOrd for FieldPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FieldPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.steps().cmp(&other.steps())
    }
}

impl Hash for FieldPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.steps().hash(state);
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldPath({self})")
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.steps().into_iter().enumerate() {
            match step {
                Step::Field(name) if position == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write!(f, "[{}]", serde_json::Value::from(key.as_str()))?,
            }
        }
        Ok(())
    }
}

impl Problem {
    pub fn new(field: impl Into<FieldPath>, reason: Reason, message: impl Into<String>) -> Self {
        Self { field: field.into(), reason, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.steps().is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl Reason {
    /// The short name that programs compare.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "REQ",
            Self::Empty => "EMPTY",
            Self::Forbidden => "FORBID",
            Self::Context => "CTX",
            Self::Kind => "KIND",
            Self::NameOrLabels => "NAMEORLABELS",
            Self::Enum => "ENUM",
            Self::Xor => "XOR",
            Self::AnyOf => "ANYOF",
            Self::Negative => "NEG",
            Self::NotPositive => "POS",
            Self::Range => "RANGE",
            Self::Format => "FORMAT",
            Self::Duplicate => "DUP",
            Self::Envoy => "ENVOY",
            Self::Unknown => "UNKNOWN",
            Self::Deprecated => "DEPRECATED",
            Self::Removed => "REMOVED",
            Self::Suspicious => "SUSPICIOUS",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_render_as_kubernetes_users_know_them() {
        let path = FieldPath::root().field("spec").field("to").index(0).field("tags").key("kuma.io/\"x\"");
        assert_eq!(path.to_string(), r#"spec.to[0].tags["kuma.io/\"x\""]"#);
        assert_eq!(FieldPath::root().field("conf").to_string(), "conf");
        assert_eq!(FieldPath::root().to_string(), "");
    }

    #[test]
    fn paths_are_compared_by_their_steps() {
        let to = FieldPath::root().field("to");
        assert_eq!(to.index(1), FieldPath::root().field("to".to_owned()).index(1));
        assert_ne!(to.index(1), to.index(2));
        assert!(to < to.index(0) && to.index(0) < to.index(1));
        assert_eq!(to.index(1).below(&FieldPath::root().field("spec")).to_string(), "spec.to[1]");
    }
}
