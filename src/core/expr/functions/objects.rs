//! Objects: keys and values, merge, look-up, to and from lists.

use std::collections::BTreeMap;

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::{Datum, Number};
use crate::core::expr::error::FailReason;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "keys",
        takes: &["object"],
        gives: "array[string]",
        note: "The keys, sorted.",
        examples: &[("keys(`{\"b\": 1, \"a\": 2}`)", r#"["a", "b"]"#)],
        call: keys,
    },
    Function {
        name: "values",
        takes: &["object"],
        gives: "array",
        note: "The values in the order of their keys.",
        examples: &[("values(`{\"b\": 1, \"a\": 2}`)", "[2, 1]")],
        call: values,
    },
    Function {
        name: "merge",
        takes: &["object..."],
        gives: "object",
        note: "One object from several; of equal keys the last wins.",
        examples: &[("merge(`{\"a\": 1, \"b\": 1}`, `{\"b\": 2}`)", r#"{"a": 1, "b": 2}"#)],
        call: merge,
    },
    Function {
        name: "items",
        takes: &["object|array", "string", "string"],
        gives: "array[object]",
        note: "An object per entry, with the key (or index) and the value under the given names.",
        examples: &[
            (r#"items(`{"key1": "value1"}`, 'key', 'value')"#, r#"[{"key": "key1", "value": "value1"}]"#),
            ("items(['A', 'B'], 'k', 'v')", r#"[{"k": 0, "v": "A"}, {"k": 1, "v": "B"}]"#),
        ],
        call: items,
    },
    Function {
        name: "lookup",
        takes: &["object|array", "string|number"],
        gives: "any",
        note: "The value under a key, or the element at an index; null if there is none.",
        examples: &[
            (r#"lookup(`{"key1": "value1"}`, 'key1')"#, r#""value1""#),
            (r#"lookup(`{"key1": "value1"}`, 'key2')"#, "null"),
            ("lookup(['item0', 'item1', 'item2', 'item3'], `2`)", r#""item2""#),
            ("lookup(['item0'], `-1`)", "null"),
        ],
        call: lookup,
    },
    Function {
        name: "object_from_lists",
        takes: &["array", "array"],
        gives: "object",
        note: "An object from a list of keys and a list of values; values that are missing are null.",
        examples: &[
            (r#"object_from_lists(['key1', 'key2'], `[1]`)"#, r#"{"key1": 1, "key2": null}"#),
            (r#"object_from_lists(`[1, true]`, `["a", "b", "c"]`)"#, r#"{"1": "a", "true": "b"}"#),
        ],
        call: object_from_lists,
    },
    Function {
        name: "label_match",
        takes: &["object", "object"],
        gives: "boolean",
        note: "Tells whether the second object has every pair of the first.",
        examples: &[
            (r#"label_match(`{"app": "test-app"}`, `{"app": "test-app", "env": "prod"}`)"#, "true"),
            (r#"label_match(`{"app": "test-app"}`, `{"env": "prod"}`)"#, "false"),
            (r#"label_match(`{}`, `{"env": "prod"}`)"#, "true"),
        ],
        call: label_match,
    },
];

fn keys<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let mut keys = Vec::new();
    for (key, _) in arguments.entries(0)? {
        keys.push(arguments.give(key)?);
    }
    Ok(Datum::list(keys))
}

fn values<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    Ok(Datum::list(arguments.entries(0)?.into_iter().map(|(_, value)| value).collect()))
}

fn merge<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let mut merged = BTreeMap::new();
    for position in 0..arguments.values.len() {
        merged.extend(arguments.entries(position)?.into_iter().map(|(key, value)| (key.into_owned(), value)));
    }
    Ok(Datum::object(merged))
}

fn items<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let (key_name, value_name) = (arguments.text(1)?, arguments.text(2)?);
    let item = |key: Datum<'a>, value: Datum<'a>| {
        arguments.runtime.produce(key_name.len() + value_name.len())?;
        let entries = [(key_name.clone().into_owned(), key), (value_name.clone().into_owned(), value)];
        Ok::<_, crate::core::expr::error::Fault<'a>>(Datum::object(BTreeMap::from(entries)))
    };
    let mut items = Vec::new();
    if arguments.get(0).elements().is_some() {
        for (index, element) in arguments.list(0)?.iter().enumerate() {
            items.push(item(Datum::Number(Number::Signed(index as i64)), element)?);
        }
    } else {
        for (key, value) in arguments.entries(0)? {
            items.push(item(arguments.give(key)?, value)?);
        }
    }
    Ok(Datum::list(items))
}

fn lookup<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let (collection, key) = (arguments.get(0), arguments.get(1));
    let Some(elements) = collection.elements() else {
        let Some(key) = key.as_text() else {
            return Err(arguments.fail("argument #2 is not of type String"));
        };
        let found = match collection {
            Datum::Object(entries) => entries.get(&*key).cloned(),
            Datum::Scope(scope) => scope.lookup(&key, arguments.runtime)?.map(Datum::Json),
            Datum::Json(value) => value.get(&*key).map(Datum::Json),
            _ => None,
        };
        return Ok(found.unwrap_or(Datum::Null));
    };
    let Some(number) = key.as_number() else {
        return Err(arguments.fail("argument #2 is not of type Number"));
    };
    let Some(index) = number.whole() else {
        return Err(arguments.fail("argument #2 is not an integer"));
    };
    Ok(usize::try_from(index).ok().and_then(|index| elements.get(index)).unwrap_or(Datum::Null))
}

fn object_from_lists<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let (keys, values) = (arguments.list(0)?, arguments.list(1)?);
    let mut entries = BTreeMap::new();
    for (position, key) in keys.iter().enumerate() {
        let key = match (key.as_text(), key.as_number(), key.as_bool()) {
            (Some(text), _, _) => text.into_owned(),
            (_, Some(number), _) => number.to_string(),
            (_, _, Some(value)) => value.to_string(),
            _ => {
                let reason =
                    FailReason::about(key.shape(), "cannot be a key; a key must be a string, a number or a boolean");
                return Err(arguments.fail_with(reason));
            }
        };
        arguments.runtime.produce(key.len())?;
        entries.insert(key, values.get(position).unwrap_or(Datum::Null));
    }
    Ok(Datum::object(entries))
}

fn label_match<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let labels: BTreeMap<_, _> = arguments.entries(1)?.into_iter().collect();
    for (key, wanted) in arguments.entries(0)? {
        match labels.get(&key) {
            Some(found) if found.equals(&wanted, arguments.runtime)? => {}
            _ => return Ok(Datum::Bool(false)),
        }
    }
    Ok(Datum::Bool(true))
}
