//! Lists: count, search, order, map.

use std::cmp::Ordering;

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::{Datum, Number};
use crate::core::expr::error::{FailReason, Fault};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "length",
        takes: &["string|array|object"],
        gives: "number",
        note: "Counts characters, elements or keys.",
        examples: &[("length('größe')", "5"), ("length(`[1, 2]`)", "2"), ("length(`{\"a\": 1}`)", "1")],
        call: length,
    },
    Function {
        name: "contains",
        takes: &["array|string", "any"],
        gives: "boolean",
        note: "Tells whether the list has an equal element, or the text holds the other.",
        examples: &[
            ("contains(['a', 'b'], 'b')", "true"),
            ("contains('kube-system', 'sys')", "true"),
            ("contains('12', `1`)", "false"),
            ("contains(`[{\"a\": 1}]`, `{\"a\": 1}`)", "true"),
        ],
        call: contains,
    },
    Function {
        name: "reverse",
        takes: &["array|string"],
        gives: "array|string",
        note: "The elements or characters from last to first.",
        examples: &[("reverse(`[1, 2]`)", "[2, 1]"), ("reverse('añb')", r#""bña""#)],
        call: reverse,
    },
    Function {
        name: "sort",
        takes: &["array[string]|array[number]"],
        gives: "array",
        note: "The elements in order; texts are ordered byte by byte.",
        examples: &[("sort(`[3, 1.5, 2]`)", "[1.5, 2, 3]"), ("sort(['b', 'a', 'B'])", r#"["B", "a", "b"]"#)],
        call: sort,
    },
    Function {
        name: "sort_by",
        takes: &["array", "expression"],
        gives: "array",
        note: "The elements in the order of a key that each has, all numbers or all texts.",
        examples: &[("sort_by(`[{\"n\": 2}, {\"n\": 1}]`, &n)", r#"[{"n": 1}, {"n": 2}]"#)],
        call: sort_by,
    },
    Function {
        name: "map",
        takes: &["expression", "array"],
        gives: "array",
        note: "Applies the expression to each element; a missing key gives null.",
        examples: &[("map(&a, `[{\"a\": 1}, {\"b\": 2}]`)", "[1, null]")],
        call: map,
    },
    Function {
        name: "max",
        takes: &["array[number]|array[string]"],
        gives: "any",
        note: "The largest element, null of an empty list.",
        examples: &[("max(`[1, 3, 2]`)", "3"), ("max(['a', 'b'])", r#""b""#), ("max(`[]`)", "null")],
        call: |arguments| extreme(arguments, Ordering::Greater),
    },
    Function {
        name: "min",
        takes: &["array[number]|array[string]"],
        gives: "any",
        note: "The smallest element, null of an empty list.",
        examples: &[("min(`[2, 1, 3]`)", "1"), ("min(`[]`)", "null")],
        call: |arguments| extreme(arguments, Ordering::Less),
    },
    Function {
        name: "max_by",
        takes: &["array", "expression"],
        gives: "any",
        note: "The element with the largest key, null of an empty list.",
        examples: &[("max_by(`[{\"n\": 1}, {\"n\": 2}]`, &n)", r#"{"n": 2}"#)],
        call: |arguments| extreme_by(arguments, Ordering::Greater),
    },
    Function {
        name: "min_by",
        takes: &["array", "expression"],
        gives: "any",
        note: "The element with the smallest key, null of an empty list.",
        examples: &[("min_by(`[{\"n\": 2}, {\"n\": 1}]`, &n)", r#"{"n": 1}"#)],
        call: |arguments| extreme_by(arguments, Ordering::Less),
    },
];

fn length<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let count = if arguments.get(0).as_bytes().is_some() {
        arguments.text(0)?.chars().count()
    } else if let Some(elements) = arguments.get(0).elements() {
        elements.len()
    } else {
        arguments.entries(0)?.len()
    };
    Ok(Datum::Number(Number::from_i128(count as i128)))
}

fn contains<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let needle = arguments.get(1);
    if arguments.get(0).as_bytes().is_some() {
        return Ok(Datum::Bool(needle.as_bytes().is_some() && arguments.text(0)?.contains(&*arguments.text(1)?)));
    }
    for element in arguments.list(0)?.iter() {
        if element.equals(needle, arguments.runtime)? {
            return Ok(Datum::Bool(true));
        }
    }
    Ok(Datum::Bool(false))
}

fn reverse<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    if arguments.get(0).as_bytes().is_some() {
        let text = arguments.text(0)?;
        arguments.runtime.produce(text.len())?;
        return Ok(Datum::text(text.chars().rev().collect::<String>()));
    }
    Ok(Datum::list(arguments.list(0)?.iter().rev().collect()))
}

/// What lists are ordered by.
enum Key {
    Number(Number),
    Text(Box<[u8]>),
}

impl Key {
    fn of(datum: &Datum<'_>) -> Option<Self> {
        match datum.as_number() {
            Some(number) => Some(Self::Number(number)),
            None => datum.as_bytes().map(|bytes| Self::Text(bytes.into())),
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => left.order(*right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }

    fn same_type(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Pays for ordering `count` elements.
fn pay_for_order(arguments: &Arguments<'_, '_>, count: usize) -> Result<(), crate::core::expr::EvalError> {
    arguments.runtime.step(count.saturating_mul(count.max(2).ilog2() as usize))
}

fn sort<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let elements = arguments.list(0)?;
    pay_for_order(arguments, elements.len())?;
    let mut keyed = Vec::with_capacity(elements.len());
    for element in elements.iter() {
        keyed.push((Key::of(&element).ok_or_else(|| arguments.wrong_type(0, "array[string]|array[number]"))?, element));
    }
    Ok(ordered(keyed))
}

fn sort_by<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let elements = arguments.list(0)?;
    if elements.len() < 2 {
        return Ok(arguments.get(0).clone());
    }
    pay_for_order(arguments, elements.len())?;
    let mut keyed: Vec<(Key, Datum<'a>)> = Vec::with_capacity(elements.len());
    for element in elements.iter() {
        // A missing key is this function's error, so that no `||` around it reads it as a missing value.
        let found = match arguments.apply(1, &element) {
            Err(Fault::Missing(key)) => {
                return Err(arguments.fail_with(FailReason::new("an element has no key").with_key(key)));
            }
            other => other?,
        };
        let key = key_of(arguments, found, keyed.first().map(|(first, _)| first))?;
        keyed.push((key, element));
    }
    Ok(ordered(keyed))
}

fn ordered<'a>(mut keyed: Vec<(Key, Datum<'a>)>) -> Datum<'a> {
    keyed.sort_by(|(left, _), (right, _)| left.order(right));
    Datum::list(keyed.into_iter().map(|(_, element)| element).collect())
}

/// The key that an element was given, which must be of the first one's type.
fn key_of<'a>(arguments: &Arguments<'_, 'a>, found: Datum<'a>, first: Option<&Key>) -> Result<Key, Fault<'a>> {
    match Key::of(&found) {
        Some(key) if first.is_none_or(|first| first.same_type(&key)) => Ok(key),
        _ => Err(arguments
            .fail_with(FailReason::about(found.shape(), "is a key beside others; all must be numbers or all strings"))),
    }
}

fn map<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let elements = arguments.list(1)?;
    let mut mapped = Vec::with_capacity(elements.len());
    for element in elements.iter() {
        mapped.push(arguments.apply_forgiving(0, &element)?);
    }
    Ok(Datum::list(mapped))
}

fn extreme<'a>(arguments: &Arguments<'_, 'a>, wanted: Ordering) -> Outcome<'a> {
    let keyed = arguments.list(0)?.iter().filter_map(|element| Key::of(&element).map(|key| (key, element)));
    Ok(keyed
        .reduce(|best, next| if next.0.order(&best.0) == wanted { next } else { best })
        .map_or(Datum::Null, |best| best.1))
}

fn extreme_by<'a>(arguments: &Arguments<'_, 'a>, wanted: Ordering) -> Outcome<'a> {
    let elements = arguments.list(0)?;
    if elements.len() < 2 {
        return Ok(elements.get(0).unwrap_or(Datum::Null));
    }
    let mut best: Option<(Key, Datum<'a>)> = None;
    for element in elements.iter() {
        let found = arguments.apply_forgiving(1, &element)?;
        let key = key_of(arguments, found, best.as_ref().map(|(key, _)| key))?;
        if best.as_ref().is_none_or(|(best, _)| key.order(best) == wanted) {
            best = Some((key, element));
        }
    }
    Ok(best.map_or(Datum::Null, |(_, element)| element))
}

impl<'a> Arguments<'_, 'a> {
    /// Applies the expression in argument `position`; a missing key gives null.
    fn apply_forgiving(&self, position: usize, element: &Datum<'a>) -> Outcome<'a> {
        match self.apply(position, element) {
            Err(Fault::Missing(_)) => Ok(Datum::Null),
            other => other,
        }
    }
}
