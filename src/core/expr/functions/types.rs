//! Types: ask for one, convert to another.

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::Datum;
use crate::core::expr::text;
use crate::core::scalar::number;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "type",
        takes: &["any"],
        gives: "string",
        note: "The type's name: null, boolean, number, string, array or object.",
        examples: &[("type(`1`)", r#""number""#), ("type(missing)", r#""null""#), ("type(`[]`)", r#""array""#)],
        call: |arguments| arguments.give(arguments.get(0).type_of().to_string()),
    },
    Function {
        name: "not_null",
        takes: &["any..."],
        gives: "any",
        note: "The first argument that is not null.",
        examples: &[("not_null(missing, `1`, `2`)", "1"), ("not_null(missing)", "null")],
        call: not_null,
    },
    Function {
        name: "to_array",
        takes: &["any"],
        gives: "array",
        note: "A list as it is, anything else as a list of one.",
        examples: &[("to_array('a')", r#"["a"]"#), ("to_array(`[1]`)", "[1]")],
        call: to_array,
    },
    Function {
        name: "to_string",
        takes: &["any"],
        gives: "string",
        note: "Text as it is, anything else as compact JSON.",
        examples: &[
            ("to_string('a')", r#""a""#),
            ("to_string(`{\"b\": 1.0, \"a\": [null]}`)", r#""{\"a\":[null],\"b\":1}""#),
            ("to_string(missing)", r#""null""#),
        ],
        call: to_string,
    },
    Function {
        name: "to_number",
        takes: &["any"],
        gives: "number",
        note: "A number as it is, text read as a number; null for everything else.",
        examples: &[("to_number('1e3')", "1000"), ("to_number('x')", "null"), ("to_number(`true`)", "null")],
        call: to_number,
    },
    Function {
        name: "to_boolean",
        takes: &["string"],
        gives: "boolean",
        note: "`true` or `false` in any case; other texts are an error.",
        examples: &[("to_boolean('TRue')", "true"), ("to_boolean('FaLse')", "false")],
        call: to_boolean,
    },
];

fn not_null<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    Ok(arguments.values.iter().find(|value| !value.is_null()).cloned().unwrap_or(Datum::Null))
}

fn to_array<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let value = arguments.get(0).clone();
    Ok(if value.elements().is_some() { value } else { Datum::list(vec![value]) })
}

fn to_string<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let value = arguments.get(0);
    if value.as_bytes().is_some() {
        Ok(value.clone())
    } else {
        Ok(Datum::text(text::encode(value, arguments.runtime)?))
    }
}

fn to_number<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let value = arguments.get(0);
    if let Some(number) = value.as_number() {
        return Ok(Datum::Number(number));
    }
    let Some(text) = value.as_text() else {
        return Ok(Datum::Null);
    };
    // Digits are read as an integer first, so that a long identifier keeps its last digits.
    if let Ok(whole) = text.parse::<i64>() {
        return Ok(Datum::Number(crate::core::expr::Number::Signed(whole)));
    }
    Ok(number::parse(&text).map_or(Datum::Null, Datum::float))
}

fn to_boolean<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let text = arguments.text(0)?;
    if text.eq_ignore_ascii_case("true") {
        Ok(Datum::Bool(true))
    } else if text.eq_ignore_ascii_case("false") {
        Ok(Datum::Bool(false))
    } else {
        Err(arguments.fail_on(0, "is neither true nor false"))
    }
}
