//! Plain numbers. Integers stay integers.

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::{Datum, Number};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "abs",
        takes: &["number"],
        gives: "number",
        note: "The number without its sign.",
        examples: &[("abs(`-12`)", "12"), ("abs(`-1.5`)", "1.5")],
        call: |arguments| of(arguments, |value| value.abs(), f64::abs),
    },
    Function {
        name: "ceil",
        takes: &["number"],
        gives: "number",
        note: "The next whole number upwards.",
        examples: &[("ceil(`1.2`)", "2"), ("ceil(`-1.2`)", "-1"), ("ceil(`3`)", "3")],
        call: |arguments| of(arguments, |value| value, f64::ceil),
    },
    Function {
        name: "floor",
        takes: &["number"],
        gives: "number",
        note: "The next whole number downwards.",
        examples: &[("floor(`1.8`)", "1"), ("floor(`-1.2`)", "-2"), ("floor(`3`)", "3")],
        call: |arguments| of(arguments, |value| value, f64::floor),
    },
    Function {
        name: "avg",
        takes: &["array[number]"],
        gives: "number",
        note: "The mean. Of an empty list there is none: the result is no JSON value.",
        examples: &[("avg(`[1, 2, 6]`)", "3"), ("avg(`[1, 2]`)", "1.5")],
        call: avg,
    },
    Function {
        name: "round",
        takes: &["number", "number"],
        gives: "number",
        note: "Rounds to that many decimals, halves away from zero.",
        examples: &[
            ("round(`9.414675`, `2`)", "9.41"),
            ("round(`14.123`, `6`)", "14.123"),
            ("round(`2.5`, `0`)", "3"),
            ("round(`-2.5`, `0`)", "-3"),
        ],
        call: round,
    },
];

fn of<'a>(arguments: &Arguments<'_, 'a>, whole: fn(i128) -> i128, float: fn(f64) -> f64) -> Outcome<'a> {
    let number = arguments.number(0)?;
    Ok(match number.integer() {
        Some(value) => Datum::Number(Number::from_i128(whole(value))),
        None => Datum::float(float(number.to_f64())),
    })
}

fn avg<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let elements = arguments.list(0)?;
    let sum: f64 = elements.iter().filter_map(|element| element.as_number()).map(Number::to_f64).sum();
    Ok(Datum::float(sum / elements.len() as f64))
}

fn round<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let (number, digits) = (arguments.number(0)?, arguments.number(1)?);
    let digits = match digits.whole() {
        Some(whole) if whole >= 0 => whole,
        Some(_) => return Err(arguments.fail("argument #2 is negative")),
        None => return Err(arguments.fail("argument #2 is not an integer")),
    };
    if number.integer().is_some() {
        return Ok(Datum::Number(number));
    }
    // Beyond 10^308 the factor is infinite, and every float is its own rounding long before that.
    let factor = 10_f64.powi(i32::try_from(digits).unwrap_or(i32::MAX));
    let scaled = number.to_f64() * factor;
    Ok(if scaled.is_finite() { Datum::float(scaled.round() / factor) } else { Datum::Number(number) })
}
