//! JSON that borrows: a document is one list of slots in reading order, and its texts stay where they were read.
//!
//! What is read once, looked at and thrown away need not become a tree of maps and strings, each with memory of its own:
//! a [`Document`] has one piece of memory, however much there is in it. [`Tree`] is what it has in common with
//! `serde_json::Value`, for whoever can look at both. As there, the fields of an object are sorted, and of fields that stand
//! twice the last one counts.

pub mod cursor;

mod blocks;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Number, Value};

/// A document that borrows from its text, or from another tree.
#[derive(Debug)]
pub struct Document<'a> {
    slots: Vec<Slot<'a>>,
}

/// A value of a [`Document`].
#[derive(Clone, Copy, Debug)]
pub struct Json<'d> {
    /// This value's own slot and those of everything in it; never empty.
    slots: &'d [Slot<'d>],
}

/// The slots of a list are followed by those of its elements, the slots of an object by those of its fields, each with the
/// slot of its name before it.
#[derive(Debug)]
enum Slot<'a> {
    Leaf(Leaf<'a>),
    List(Extent),
    Object(Extent),
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    /// How many elements or fields there are.
    count: u32,
    /// How many slots it has, with its own.
    slots: u32,
}

/// What sort of value it is, and its content if that is a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape<'v> {
    Null,
    Bool(bool),
    Number(&'v Number),
    Text(&'v str),
    List,
    Object,
}

/// A tree of JSON, whoever keeps it.
pub trait Tree<'v>: Copy {
    fn shape(self) -> Shape<'v>;

    /// How many elements or fields there are.
    fn count(self) -> usize;

    /// The elements; none if it is no list.
    fn items(self) -> impl Iterator<Item = Self>;

    /// The fields, sorted by name; none if it is no object.
    fn fields(self) -> impl Iterator<Item = (&'v str, Self)>;

    /// The field of that name, if it is an object that has it.
    fn get(self, name: &str) -> Option<Self>;

    fn is_null(self) -> bool {
        matches!(self.shape(), Shape::Null)
    }

    fn is_object(self) -> bool {
        matches!(self.shape(), Shape::Object)
    }

    fn is_list(self) -> bool {
        matches!(self.shape(), Shape::List)
    }

    fn as_text(self) -> Option<&'v str> {
        self.shape().as_text()
    }

    /// The value below, field by field.
    fn at(self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }

    /// Whether it says the same as another tree.
    fn equals<'w>(self, other: impl Tree<'w>) -> bool {
        match (self.shape(), other.shape()) {
            (Shape::List, Shape::List) => {
                self.count() == other.count() && self.items().zip(other.items()).all(|(own, other)| own.equals(other))
            }
            (Shape::Object, Shape::Object) => {
                let mut pairs = self.fields().zip(other.fields());
                self.count() == other.count() && pairs.all(|(own, other)| own.0 == other.0 && own.1.equals(other.1))
            }
            (own, other) => own == other,
        }
    }

    /// A copy that stands for itself.
    fn to_value(self) -> Value {
        match self.shape() {
            Shape::Null => Value::Null,
            Shape::Bool(flag) => Value::Bool(flag),
            Shape::Number(number) => Value::Number(number.clone()),
            Shape::Text(text) => Value::from(text),
            Shape::List => self.items().map(Self::to_value).collect(),
            Shape::Object => {
                let fields = self.fields().map(|(name, value)| (name.to_owned(), value.to_value()));
                Value::Object(fields.collect())
            }
        }
    }
}

/// A scalar of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
}

impl Leaf<'_> {
    pub fn shape(&self) -> Shape<'_> {
        match self {
            Self::Null => Shape::Null,
            Self::Bool(flag) => Shape::Bool(*flag),
            Self::Number(number) => Shape::Number(number),
            Self::Text(text) => Shape::Text(text),
        }
    }
}

impl<'v> Shape<'v> {
    pub fn as_text(self) -> Option<&'v str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// As people call it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List => "a list",
            Self::Object => "a mapping",
        }
    }
}

impl<'v> Tree<'v> for &'v Value {
    fn shape(self) -> Shape<'v> {
        match self {
            Value::Null => Shape::Null,
            Value::Bool(flag) => Shape::Bool(*flag),
            Value::Number(number) => Shape::Number(number),
            Value::String(text) => Shape::Text(text),
            Value::Array(_) => Shape::List,
            Value::Object(_) => Shape::Object,
        }
    }

    fn count(self) -> usize {
        match self {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        }
    }

    fn items(self) -> impl Iterator<Item = Self> {
        self.as_array().into_iter().flatten()
    }

    fn fields(self) -> impl Iterator<Item = (&'v str, Self)> {
        let fields = self.as_object().into_iter().flat_map(Map::iter);
        fields.map(|(name, value)| (name.as_str(), value))
    }

    fn get(self, name: &str) -> Option<Self> {
        self.as_object()?.get(name)
    }
}

impl<'d> Tree<'d> for Json<'d> {
    fn shape(self) -> Shape<'d> {
        match &self.slots[0] {
            Slot::Leaf(leaf) => leaf.shape(),
            Slot::List(_) => Shape::List,
            Slot::Object(_) => Shape::Object,
        }
    }

    fn count(self) -> usize {
        match self.slots[0] {
            Slot::List(extent) | Slot::Object(extent) => extent.count as usize,
            _ => 0,
        }
    }

    fn items(self) -> impl Iterator<Item = Self> {
        let mut rest = match self.slots {
            [Slot::List(_), elements @ ..] => elements,
            _ => &[],
        };
        std::iter::from_fn(move || take(&mut rest))
    }

    fn fields(self) -> impl Iterator<Item = (&'d str, Self)> {
        let mut rest = match self.slots {
            [Slot::Object(_), fields @ ..] => fields,
            _ => &[],
        };
        std::iter::from_fn(move || take_field(&mut rest))
    }

    fn get(self, name: &str) -> Option<Self> {
        self.fields().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// The value that the slots begin with.
fn take<'d>(slots: &mut &'d [Slot<'d>]) -> Option<Json<'d>> {
    let length = slots.first()?.slots();
    let (value, rest) = slots.split_at_checked(length)?;
    *slots = rest;
    Some(Json { slots: value })
}

fn take_field<'d>(slots: &mut &'d [Slot<'d>]) -> Option<(&'d str, Json<'d>)> {
    let [Slot::Leaf(Leaf::Text(name)), rest @ ..] = *slots else { return None };
    *slots = rest;
    take(slots).map(|value| (&**name, value))
}

impl Slot<'_> {
    /// How many slots the value has.
    fn slots(&self) -> usize {
        match self {
            Self::Leaf(_) => 1,
            Self::List(extent) | Self::Object(extent) => extent.slots as usize,
        }
    }

    /// The name of a field.
    fn as_text(&self) -> &str {
        match self {
            Self::Leaf(Leaf::Text(text)) => text,
            _ => "",
        }
    }

    /// A copy that borrows from nobody.
    fn owned(&self) -> Slot<'static> {
        match self {
            Self::Leaf(Leaf::Null) => Slot::Leaf(Leaf::Null),
            Self::Leaf(Leaf::Bool(flag)) => Slot::Leaf(Leaf::Bool(*flag)),
            Self::Leaf(Leaf::Number(number)) => Slot::Leaf(Leaf::Number(number.clone())),
            Self::Leaf(Leaf::Text(text)) => Slot::Leaf(Leaf::Text(Cow::Owned(text.to_string()))),
            Self::List(extent) => Slot::List(*extent),
            Self::Object(extent) => Slot::Object(*extent),
        }
    }
}

impl Document<'_> {
    /// `{}`
    pub fn empty_object() -> Document<'static> {
        Document { slots: vec![Slot::Object(Extent { count: 0, slots: 1 })] }
    }

    pub fn root(&self) -> Json<'_> {
        Json { slots: &self.slots }
    }

    /// A copy that stands for itself.
    pub fn to_value(&self) -> Value {
        self.root().to_value()
    }

    /// The same, borrowing from nobody.
    #[must_use]
    pub fn into_owned(self) -> Document<'static> {
        Document { slots: self.slots.iter().map(Slot::owned).collect() }
    }
}

impl<'a> From<&'a Value> for Document<'a> {
    fn from(value: &'a Value) -> Self {
        let mut builder = Builder::default();
        builder.copy(value);
        builder.finish()
    }
}

/// Makes a document, value by value in reading order.
#[derive(Debug, Default)]
pub struct Builder<'a> {
    slots: Vec<Slot<'a>>,
}

/// A list or an object that is not complete yet.
#[derive(Debug)]
pub struct Open {
    at: usize,
    count: u32,
    /// Where the name of the last field is.
    last: Option<usize>,
    is_sorted: bool,
}

impl<'a> Builder<'a> {
    /// With room for so many slots.
    pub fn with_capacity(slots: usize) -> Self {
        Self { slots: Vec::with_capacity(slots) }
    }

    pub fn leaf(&mut self, leaf: Leaf<'a>) {
        self.slots.push(Slot::Leaf(leaf));
    }

    pub fn text(&mut self, text: impl Into<Cow<'a, str>>) {
        self.leaf(Leaf::Text(text.into()));
    }

    /// Begins a list or an object, which one of the two below ends.
    pub fn open(&mut self) -> Open {
        self.leaf(Leaf::Null);
        Open { at: self.slots.len() - 1, count: 0, last: None, is_sorted: true }
    }

    /// The next value is an element of the list.
    pub fn element(&mut self, open: &mut Open) {
        open.count += 1;
    }

    /// The next value is the field of that name.
    pub fn field(&mut self, open: &mut Open, name: impl Into<Cow<'a, str>>) {
        let name = name.into();
        if let Some(Slot::Leaf(Leaf::Text(last))) = open.last.and_then(|last| self.slots.get(last)) {
            // Most names differ in their first letter.
            let first = |text: &str| text.as_bytes().first().copied();
            open.is_sorted &= first(last) < first(&name) || **last < *name;
        }
        open.last = Some(self.slots.len());
        open.count += 1;
        self.text(name);
    }

    pub fn end_list(&mut self, open: &Open) {
        self.slots[open.at] = Slot::List(self.extent(open.at, open.count));
    }

    pub fn end_object(&mut self, open: &Open) {
        let count = if open.is_sorted { open.count } else { self.sort(open.at + 1, |_| true) };
        self.slots[open.at] = Slot::Object(self.extent(open.at, count));
    }

    /// The same without some of the fields.
    pub fn end_object_without(&mut self, open: &Open, names: &[&str]) {
        let count = self.sort(open.at + 1, |name| !names.contains(&name));
        self.slots[open.at] = Slot::Object(self.extent(open.at, count));
    }

    fn extent(&self, at: usize, count: u32) -> Extent {
        let slots = u32::try_from(self.slots.len() - at).expect("nobody reads a text with four billion values");
        Extent { count, slots }
    }

    /// Sorts the fields whose slots begin there; of those that may stay, the last of each name does. How many are left.
    fn sort(&mut self, from: usize, stays: impl Fn(&str) -> bool) -> u32 {
        let mut slots = self.slots.split_off(from);
        let (mut fields, mut at) = (Vec::new(), 0);
        while let Some(value) = slots.get(at + 1) {
            let end = at + 1 + value.slots();
            fields.push(at..end);
            at = end;
        }
        let name = |field: &Range<usize>| slots[field.start].as_text();
        fields.sort_by(|one, other| name(one).cmp(name(other)));
        let is_last = |index: usize, field| fields.get(index + 1).is_none_or(|next| name(next) != name(field));
        let stay = fields.iter().enumerate().filter(|(index, field)| is_last(*index, field) && stays(name(field)));
        let staying: Vec<Range<usize>> = stay.map(|(_, field)| field.clone()).collect();
        let count = u32::try_from(staying.len()).expect("as many as there are, or fewer");
        for field in staying {
            self.slots.extend(slots[field].iter_mut().map(|slot| std::mem::replace(slot, Slot::Leaf(Leaf::Null))));
        }
        count
    }

    fn copy(&mut self, value: &'a Value) {
        match value {
            Value::Null => self.leaf(Leaf::Null),
            Value::Bool(flag) => self.leaf(Leaf::Bool(*flag)),
            Value::Number(number) => self.leaf(Leaf::Number(number.clone())),
            Value::String(text) => self.text(text.as_str()),
            Value::Array(items) => {
                let mut open = self.open();
                for item in items {
                    self.element(&mut open);
                    self.copy(item);
                }
                self.end_list(&open);
            }
            Value::Object(fields) => {
                let mut open = self.open();
                for (name, value) in fields {
                    self.field(&mut open, name.as_str());
                    self.copy(value);
                }
                self.end_object(&open);
            }
        }
    }

    /// The document that was made; null if nothing was.
    pub fn finish(mut self) -> Document<'a> {
        if self.slots.is_empty() {
            self.leaf(Leaf::Null);
        }
        Document { slots: self.slots }
    }
}

#[cfg(test)]
mod tests;
