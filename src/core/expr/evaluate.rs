//! A tree over a datum.
//!
//! The rules for a missing key: reading it from an object is [`Fault::Missing`]; a field, `a.b`, `a[0]`, the right side of
//! `&&` and parentheses pass it on; everything else reads it as null. The left side of `[?]`, `[]` and `*` reads any error
//! as null, except those that end the whole evaluation.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use super::datum::{Datum, Reference};
use super::error::{EvalError, Fault};
use super::functions;
use super::runtime::Runtime;
use super::syntax::{Comparator, Kind, Node, Projection, Slice};

pub(super) fn evaluate<'a>(node: &'a Node, current: &Datum<'a>, runtime: &Runtime) -> Result<Datum<'a>, Fault<'a>> {
    runtime.step(1)?;
    match &node.kind {
        Kind::Current => Ok(current.clone()),
        Kind::Literal(value) => Ok(Datum::Json(value)),
        Kind::Field(name) => field(name, current, runtime),
        Kind::Sub(left, right) => {
            let left = evaluate(left, current, runtime)?;
            evaluate(right, &left, runtime)
        }
        Kind::Index(left, index) => {
            let left = evaluate(left, current, runtime)?;
            Ok(element(&left, *index))
        }
        Kind::Project { source, projection, each } => project(source, projection, each, current, runtime),
        Kind::Pipe(left, right) => {
            let left = forgiving(left, current, runtime)?;
            forgiving(right, &left, runtime)
        }
        Kind::Or(left, right) => {
            let left = forgiving(left, current, runtime)?;
            if left.is_truthy() { Ok(left) } else { forgiving(right, current, runtime) }
        }
        Kind::And(left, right) => {
            let left = forgiving(left, current, runtime)?;
            if left.is_truthy() { evaluate(right, current, runtime) } else { Ok(left) }
        }
        Kind::Not(inner) => Ok(Datum::Bool(!forgiving(inner, current, runtime)?.is_truthy())),
        Kind::Compare(comparator, left, right) => {
            let left = forgiving(left, current, runtime)?;
            let right = forgiving(right, current, runtime)?;
            Ok(compare(*comparator, &left, &right, runtime)?)
        }
        Kind::List(_) | Kind::Object(_) if current.is_null() => Ok(Datum::Null),
        Kind::List(members) => {
            let mut elements = Vec::with_capacity(members.len());
            for member in members {
                elements.push(forgiving(member, current, runtime)?);
            }
            Ok(Datum::list(elements))
        }
        Kind::Object(members) => {
            let mut entries = BTreeMap::new();
            for (key, member) in members {
                entries.insert(key.clone(), forgiving(member, current, runtime)?);
            }
            Ok(Datum::object(entries))
        }
        Kind::Reference(inner) => Ok(Datum::Reference(Reference(inner))),
        Kind::Call { name, function, arguments } => {
            let Some(function) = function else {
                return Err(EvalError::UnknownFunction { name: name.clone() }.into());
            };
            let mut values = Vec::with_capacity(arguments.len());
            for argument in arguments {
                values.push(forgiving(argument, current, runtime)?);
            }
            functions::call(function, &values, runtime)
        }
    }
}

/// Evaluates, and reads a missing key as null.
#[inline]
pub(super) fn forgiving<'a>(node: &'a Node, current: &Datum<'a>, runtime: &Runtime) -> Result<Datum<'a>, Fault<'a>> {
    match evaluate(node, current, runtime) {
        Err(Fault::Missing(_)) => Ok(Datum::Null),
        other => other,
    }
}

/// Evaluates, and reads every error as null that does not end the evaluation as a whole.
fn lenient<'a>(node: &'a Node, current: &Datum<'a>, runtime: &Runtime) -> Result<Datum<'a>, Fault<'a>> {
    match evaluate(node, current, runtime) {
        Err(Fault::Error(error)) if error.is_final() => Err(Fault::Error(error)),
        Err(_) => Ok(Datum::Null),
        found => found,
    }
}

#[inline]
fn field<'a>(name: &'a str, current: &Datum<'a>, runtime: &Runtime) -> Result<Datum<'a>, Fault<'a>> {
    let found = match current {
        Datum::Json(Value::Object(entries)) => entries.get(name).map(Datum::Json),
        Datum::Object(entries) => entries.get(name).cloned(),
        Datum::Scope(scope) => scope.lookup(name, runtime)?.map(Datum::Json),
        _ => return Ok(Datum::Null),
    };
    found.ok_or(Fault::Missing(name))
}

fn element<'a>(list: &Datum<'a>, index: i64) -> Datum<'a> {
    let Some(elements) = list.elements() else {
        return Datum::Null;
    };
    let position = if index < 0 { index + elements.len() as i64 } else { index };
    usize::try_from(position).ok().and_then(|position| elements.get(position)).unwrap_or(Datum::Null)
}

fn project<'a>(
    source: &'a Node,
    projection: &'a Projection,
    each: &'a Node,
    current: &Datum<'a>,
    runtime: &Runtime,
) -> Result<Datum<'a>, Fault<'a>> {
    let source = match projection {
        Projection::Elements | Projection::Slice(_) => forgiving(source, current, runtime)?,
        Projection::Values | Projection::Flatten | Projection::Filter(_) => lenient(source, current, runtime)?,
    };
    let mut collected = Collector { each, runtime, elements: Vec::new() };
    match projection {
        Projection::Values => {
            let Some(entries) = source.entries(runtime)? else {
                return Ok(Datum::Null);
            };
            for (_, value) in entries {
                collected.add(value)?;
            }
        }
        Projection::Elements => {
            let Some(elements) = source.elements() else {
                return Ok(Datum::Null);
            };
            for element in elements.iter() {
                collected.add(element)?;
            }
        }
        Projection::Flatten => {
            let Some(elements) = source.elements() else {
                return Ok(Datum::Null);
            };
            for element in elements.iter() {
                match element.elements() {
                    Some(inner) => inner.iter().try_for_each(|element| collected.add(element))?,
                    None => collected.add(element)?,
                }
            }
        }
        Projection::Slice(slice) => {
            // The step is checked first: `@[::0]` is an error whatever it is applied to.
            if slice.step == Some(0) {
                return Err(EvalError::SliceStep.into());
            }
            let Some(elements) = source.elements() else {
                return Ok(Datum::Null);
            };
            for index in slice.indices(elements.len()) {
                if let Some(element) = elements.get(index) {
                    collected.add(element)?;
                }
            }
        }
        Projection::Filter(condition) => {
            let Some(elements) = source.elements() else {
                return Ok(Datum::Null);
            };
            for element in elements.iter() {
                if forgiving(condition, &element, runtime)?.is_truthy() {
                    collected.add(element)?;
                }
            }
        }
    }
    Ok(Datum::list(collected.elements))
}

/// Applies a projection's right side and drops nulls.
struct Collector<'r, 'a> {
    each: &'a Node,
    runtime: &'r Runtime,
    elements: Vec<Datum<'a>>,
}

impl<'a> Collector<'_, 'a> {
    fn add(&mut self, element: Datum<'a>) -> Result<(), Fault<'a>> {
        let found = if matches!(self.each.kind, Kind::Current) {
            self.runtime.step(1)?;
            element
        } else {
            forgiving(self.each, &element, self.runtime)?
        };
        if !found.is_null() {
            self.elements.push(found);
        }
        Ok(())
    }
}

impl Slice {
    /// The positions that the slice picks from a list of `length`, as Python's slices do.
    fn indices(self, length: usize) -> impl Iterator<Item = usize> {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let step = self.step.unwrap_or(1);
        let (lowest, highest) = if step < 0 { (-1, length - 1) } else { (0, length) };
        let clamp = |bound: Option<i64>, default: i64| match bound {
            Some(bound) if bound < 0 => bound.saturating_add(length).clamp(lowest, highest),
            Some(bound) => bound.clamp(lowest, highest),
            None => default,
        };
        let (first, last) = if step < 0 { (highest, lowest) } else { (lowest, highest) };
        let (start, stop) = (clamp(self.start, first), clamp(self.stop, last));
        std::iter::successors(Some(start), move |index| index.checked_add(step))
            .take_while(move |index| if step < 0 { *index > stop } else { *index < stop })
            .filter_map(|index| usize::try_from(index).ok())
    }
}

fn compare<'a>(
    comparator: Comparator,
    left: &Datum<'a>,
    right: &Datum<'a>,
    runtime: &Runtime,
) -> Result<Datum<'a>, EvalError> {
    let accepts: fn(Ordering) -> bool = match comparator {
        Comparator::Equal => return Ok(Datum::Bool(left.equals(right, runtime)?)),
        Comparator::NotEqual => return Ok(Datum::Bool(!left.equals(right, runtime)?)),
        Comparator::Less => Ordering::is_lt,
        Comparator::LessOrEqual => Ordering::is_le,
        Comparator::Greater => Ordering::is_gt,
        Comparator::GreaterOrEqual => Ordering::is_ge,
    };
    Ok(match (left.as_number(), right.as_number()) {
        (Some(left), Some(right)) => Datum::Bool(left.compare(right).is_some_and(accepts)),
        _ => Datum::Null,
    })
}
