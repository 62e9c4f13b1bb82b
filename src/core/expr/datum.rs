//! What an expression yields while it runs: a borrowed piece of JSON as long as possible, something computed otherwise.
//!
//! Computed text may hold bytes that are no UTF-8 (`base64_decode` of a binary Secret), and a computed number may be NaN or
//! infinite; both end where a datum becomes JSON: a bad byte becomes U+FFFD, a bad number an error.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::core::scalar::number;
use crate::core::shape::ValueShape;

use super::syntax::Node;
use super::{EvalError, Runtime, Scope, text};

#[derive(Clone)]
pub enum Datum<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Rc<str>),
    /// Text that is not UTF-8.
    Bytes(Rc<[u8]>),
    List(Rc<Vec<Datum<'a>>>),
    Object(Rc<BTreeMap<String, Datum<'a>>>),
    /// A piece of a document.
    Json(&'a Value),
    /// The root document, an object whose values are asked for by name.
    Scope(&'a dyn Scope),
    /// `&expression`, an argument of `map` and its relatives.
    Reference(Reference<'a>),
}

/// An expression that a function applies to elements.
#[derive(Clone, Copy)]
pub struct Reference<'a>(pub(super) &'a Node);

/// A number in the one numeric domain: integers stay exact, and compare equal to floats of the same value.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

/// The types that expressions can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
    Reference,
}

/// The elements of a list.
#[derive(Clone, Copy)]
pub(super) enum Elements<'d, 'a> {
    Json(&'a [Value]),
    Data(&'d [Datum<'a>]),
}

/// What copying a value costs: memory of its own, which is dearer than a look.
const COPY_STEPS: usize = 2;

/// The entries of an object, sorted by key.
pub(super) type Entries<'d, 'a> = Vec<(Cow<'d, str>, Datum<'a>)>;

impl<'a> Datum<'a> {
    pub(super) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// Text from bytes that may or may not be UTF-8.
    pub(super) fn bytes(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text.into()),
            Err(error) => Self::Bytes(error.into_bytes().into()),
        }
    }

    pub(super) fn list(elements: Vec<Datum<'a>>) -> Self {
        Self::List(Rc::new(elements))
    }

    pub(super) fn object(entries: BTreeMap<String, Datum<'a>>) -> Self {
        Self::Object(Rc::new(entries))
    }

    pub(super) fn float(value: f64) -> Self {
        Self::Number(Number::from_f64(value))
    }

    /// A datum of its own from JSON that nobody else keeps.
    pub(super) fn owned(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(Number::from_json(&number)),
            Value::String(text) => Self::Text(text.into()),
            Value::Array(elements) => Self::list(elements.into_iter().map(Self::owned).collect()),
            Value::Object(entries) => {
                Self::object(entries.into_iter().map(|(key, value)| (key, Self::owned(value))).collect())
            }
        }
    }

    pub fn type_of(&self) -> Type {
        match self {
            Self::Null | Self::Json(Value::Null) => Type::Null,
            Self::Bool(_) | Self::Json(Value::Bool(_)) => Type::Boolean,
            Self::Number(_) | Self::Json(Value::Number(_)) => Type::Number,
            Self::Text(_) | Self::Bytes(_) | Self::Json(Value::String(_)) => Type::String,
            Self::List(_) | Self::Json(Value::Array(_)) => Type::Array,
            Self::Object(_) | Self::Scope(_) | Self::Json(Value::Object(_)) => Type::Object,
            Self::Reference(_) => Type::Reference,
        }
    }

    /// What a message may say about it.
    pub fn shape(&self) -> ValueShape {
        match self {
            Self::Json(value) => ValueShape::of(value),
            Self::Null => ValueShape::Null,
            Self::Bool(_) => ValueShape::Boolean,
            Self::Number(_) => ValueShape::Number,
            Self::Text(text) => ValueShape::text(text),
            Self::Bytes(bytes) => ValueShape::Text(bytes.len()),
            Self::List(elements) => ValueShape::List(elements.len()),
            Self::Object(entries) => ValueShape::object(entries.keys().map(String::as_str)),
            Self::Scope(_) => ValueShape::Context,
            Self::Reference(_) => ValueShape::Reference,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null | Self::Json(Value::Null))
    }

    /// False are null, false, and empty text, lists and objects; zero is true.
    pub fn is_truthy(&self) -> bool {
        match self {
            Self::Null | Self::Json(Value::Null) => false,
            Self::Bool(value) | Self::Json(Value::Bool(value)) => *value,
            Self::Text(text) => !text.is_empty(),
            Self::Bytes(bytes) => !bytes.is_empty(),
            Self::Json(Value::String(text)) => !text.is_empty(),
            Self::List(elements) => !elements.is_empty(),
            Self::Json(Value::Array(elements)) => !elements.is_empty(),
            Self::Object(entries) => !entries.is_empty(),
            Self::Json(Value::Object(entries)) => !entries.is_empty(),
            Self::Scope(scope) => !scope.names().is_empty(),
            Self::Number(_) | Self::Json(Value::Number(_)) | Self::Reference(_) => true,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) | Self::Json(Value::Bool(value)) => Some(*value),
            _ => None,
        }
    }

    pub fn as_number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Json(Value::Number(number)) => Some(Number::from_json(number)),
            _ => None,
        }
    }

    /// The text as it is, bad bytes included.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            Self::Json(Value::String(text)) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The text with each bad byte as U+FFFD.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Json(Value::String(text)) => Some(Cow::Borrowed(text)),
            Self::Bytes(bytes) => Some(Cow::Owned(text::repair(bytes))),
            _ => None,
        }
    }

    pub(super) fn elements(&self) -> Option<Elements<'_, 'a>> {
        match self {
            Self::List(elements) => Some(Elements::Data(elements)),
            Self::Json(Value::Array(elements)) => Some(Elements::Json(elements)),
            _ => None,
        }
    }

    /// The entries of an object, sorted by key. Of a scope, this asks for every name.
    pub(super) fn entries(&self, runtime: &Runtime) -> Result<Option<Entries<'_, 'a>>, EvalError> {
        Ok(Some(match self {
            Self::Object(entries) => {
                entries.iter().map(|(key, value)| (Cow::Borrowed(key.as_str()), value.clone())).collect()
            }
            Self::Json(Value::Object(entries)) => {
                entries.iter().map(|(key, value)| (Cow::Borrowed(key.as_str()), Self::Json(value))).collect()
            }
            Self::Scope(scope) => {
                let mut entries = Vec::new();
                for name in scope.names() {
                    if let Some(value) = scope.lookup(name, runtime)? {
                        entries.push((Cow::Borrowed(name), Self::Json(value)));
                    }
                }
                entries
            }
            _ => return Ok(None),
        }))
    }

    /// JSON of its own. Whole floats become integers, because a typed reader downstream refuses `3.0` for an integer.
    pub fn to_json(&self, runtime: &Runtime) -> Result<Value, EvalError> {
        self.copy(runtime, 0)
    }

    fn copy(&self, runtime: &Runtime, depth: usize) -> Result<Value, EvalError> {
        runtime.check_depth(depth)?;
        runtime.step(COPY_STEPS)?;
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(number) => number.to_json()?,
            Self::Text(text) => {
                runtime.produce(text.len())?;
                Value::from(&**text)
            }
            Self::Bytes(bytes) => {
                runtime.produce(bytes.len())?;
                Value::from(text::repair(bytes))
            }
            Self::List(elements) => {
                let copied: Result<_, _> = elements.iter().map(|element| element.copy(runtime, depth + 1)).collect();
                Value::Array(copied?)
            }
            Self::Object(entries) => {
                let mut copied = Map::new();
                for (key, value) in &**entries {
                    runtime.produce(key.len())?;
                    copied.insert(key.clone(), value.copy(runtime, depth + 1)?);
                }
                Value::Object(copied)
            }
            Self::Json(value) => copy_json(value, runtime, depth)?,
            Self::Scope(_) => {
                let mut copied = Map::new();
                for (key, value) in self.entries(runtime)?.unwrap_or_default() {
                    copied.insert(key.into_owned(), value.copy(runtime, depth + 1)?);
                }
                Value::Object(copied)
            }
            Self::Reference(_) => return Err(EvalError::NotJson("an expression reference")),
        })
    }

    /// Deep equality. Objects and lists are compared by what they hold, wherever it is kept.
    pub(super) fn equals(&self, other: &Self, runtime: &Runtime) -> Result<bool, EvalError> {
        self.same(other, runtime, 0)
    }

    fn same(&self, other: &Self, runtime: &Runtime, depth: usize) -> Result<bool, EvalError> {
        runtime.check_depth(depth)?;
        runtime.step(1)?;
        if let (Some(left), Some(right)) = (self.as_bytes(), other.as_bytes()) {
            return Ok(left == right);
        }
        if let (Some(left), Some(right)) = (self.as_number(), other.as_number()) {
            return Ok(left.compare(right) == Some(Ordering::Equal));
        }
        if let (Some(left), Some(right)) = (self.elements(), other.elements()) {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (left, right) in left.iter().zip(right.iter()) {
                if !left.same(&right, runtime, depth + 1)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let kind = self.type_of();
        if kind != other.type_of() {
            return Ok(false);
        }
        if kind != Type::Object {
            return Ok(kind == Type::Null || (kind == Type::Boolean && self.as_bool() == other.as_bool()));
        }
        let (left, right) = (self.entries(runtime)?.unwrap_or_default(), other.entries(runtime)?.unwrap_or_default());
        if left.len() != right.len() {
            return Ok(false);
        }
        for ((left_key, left), (right_key, right)) in left.iter().zip(&right) {
            if left_key != right_key || !left.same(right, runtime, depth + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn copy_json(value: &Value, runtime: &Runtime, depth: usize) -> Result<Value, EvalError> {
    runtime.check_depth(depth)?;
    runtime.step(COPY_STEPS)?;
    Ok(match value {
        Value::Number(number) => Number::from_json(number).to_json()?,
        Value::String(text) => {
            runtime.produce(text.len())?;
            Value::String(text.clone())
        }
        Value::Array(elements) => {
            let copied: Result<_, _> = elements.iter().map(|element| copy_json(element, runtime, depth + 1)).collect();
            Value::Array(copied?)
        }
        Value::Object(entries) => {
            let mut copied = Map::new();
            for (key, value) in entries {
                runtime.produce(key.len())?;
                copied.insert(key.clone(), copy_json(value, runtime, depth + 1)?);
            }
            Value::Object(copied)
        }
        other => other.clone(),
    })
}

impl<'d, 'a> Elements<'d, 'a> {
    pub(super) fn len(self) -> usize {
        match self {
            Self::Json(elements) => elements.len(),
            Self::Data(elements) => elements.len(),
        }
    }

    pub(super) fn get(self, index: usize) -> Option<Datum<'a>> {
        match self {
            Self::Json(elements) => elements.get(index).map(Datum::Json),
            Self::Data(elements) => elements.get(index).cloned(),
        }
    }

    pub(super) fn iter(self) -> impl DoubleEndedIterator<Item = Datum<'a>> + ExactSizeIterator + use<'d, 'a> {
        (0..self.len()).map(move |index| self.get(index).expect("index is below the length"))
    }
}

impl Number {
    pub(super) fn from_json(number: &serde_json::Number) -> Self {
        if let Some(value) = number.as_i64() {
            Self::Signed(value)
        } else if let Some(value) = number.as_u64() {
            Self::Unsigned(value)
        } else {
            Self::Float(number.as_f64().unwrap_or(f64::NAN))
        }
    }

    /// A whole float that is exact becomes an integer.
    pub(super) fn from_f64(value: f64) -> Self {
        match number::from_f64(value) {
            Some(number) => Self::from_json(&number),
            None => Self::Float(value),
        }
    }

    /// An integer as long as it is one of JSON's, the nearest float otherwise.
    pub(super) fn from_i128(value: i128) -> Self {
        if let Ok(value) = i64::try_from(value) {
            Self::Signed(value)
        } else if let Ok(value) = u64::try_from(value) {
            Self::Unsigned(value)
        } else {
            Self::Float(value as f64)
        }
    }

    pub fn to_f64(self) -> f64 {
        match self {
            Self::Signed(value) => value as f64,
            Self::Unsigned(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// The value if it is kept as an integer.
    pub(super) fn integer(self) -> Option<i128> {
        match self {
            Self::Signed(value) => Some(value.into()),
            Self::Unsigned(value) => Some(value.into()),
            Self::Float(_) => None,
        }
    }

    /// The value if it is whole, however it is kept.
    pub(super) fn whole(self) -> Option<i64> {
        match self {
            Self::Signed(value) => Some(value),
            Self::Unsigned(_) => None,
            Self::Float(value) => match Self::from_f64(value) {
                Self::Signed(value) => Some(value),
                _ => None,
            },
        }
    }

    /// Order by exact value; nothing compares with NaN.
    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(&right),
            (Self::Float(_), _) => other.compare(self).map(Ordering::reverse),
            (_, Self::Float(right)) => {
                let left = self.integer()?;
                // The cast saturates, which keeps infinities and large floats on their side of every integer.
                let order = left.cmp(&(right.trunc() as i128));
                let fraction = 0.0.partial_cmp(&right.fract());
                match order {
                    _ if right.is_nan() => None,
                    Ordering::Equal if right.is_finite() => fraction,
                    _ => Some(order),
                }
            }
            _ => Some(self.integer()?.cmp(&other.integer()?)),
        }
    }

    /// A total order: by value, NaN after everything else.
    pub(super) fn order(self, other: Self) -> Ordering {
        let nan = |number: Self| number.to_f64().is_nan();
        self.compare(other).unwrap_or_else(|| nan(self).cmp(&nan(other)))
    }

    fn to_json(self) -> Result<Value, EvalError> {
        match self {
            Self::Signed(value) => Ok(value.into()),
            Self::Unsigned(value) => Ok(value.into()),
            Self::Float(value) => match number::from_f64(value) {
                Some(number) => Ok(Value::Number(number)),
                None if value.is_nan() => Err(EvalError::NotJson("a number that is not a number (NaN)")),
                None => Err(EvalError::NotJson("an infinite number")),
            },
        }
    }
}

/// The number's text: `5`, `2.5`, `1e+21`.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(value) => value.fmt(f),
            Self::Unsigned(value) => value.fmt(f),
            Self::Float(value) => f.write_str(&number::format(*value)),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
            Self::Reference => "expression",
        })
    }
}

/// The shape alone: a datum may be the content of a Secret, and messages are read by others.
impl fmt::Debug for Datum<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shape().fmt(f)
    }
}
