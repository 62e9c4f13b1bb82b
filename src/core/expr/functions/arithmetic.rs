//! Sums and products of numbers, quantities and durations.
//!
//! A number is a scalar. A text is a quantity if it reads as one, else a duration: `'5m'` is five thousandths, and `'12'` is a
//! quantity, not a scalar. Which pairs an operation takes is its `match` below.

use super::{Arguments, Function, Outcome};
use crate::core::expr::datum::{Datum, Number};
use crate::core::expr::error::{FailReason, Fault};
use crate::core::scalar::duration::{Duration, DurationError};
use crate::core::scalar::quantity::{Quantity, QuantityError};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "add",
        takes: &["any", "any"],
        gives: "any",
        note: "Adds two numbers, two quantities or two durations.",
        examples: &[
            ("add(`12`, `13`)", "25"),
            ("add('12Ki', '13Ki')", r#""25Ki""#),
            ("add('12Ki', '13')", r#""12301""#),
            ("add('12s', '13s')", r#""25s""#),
        ],
        call: |arguments| fold(arguments, add),
    },
    Function {
        name: "subtract",
        takes: &["any", "any"],
        gives: "any",
        note: "Subtracts the second number, quantity or duration from the first.",
        examples: &[
            ("subtract(`12`, `13`)", "-1"),
            ("subtract('12Ki', '13Ki')", r#""-1Ki""#),
            ("subtract('12Ki', '13')", r#""12275""#),
            ("subtract('12s', '13s')", r#""-1s""#),
        ],
        call: |arguments| fold(arguments, subtract),
    },
    Function {
        name: "multiply",
        takes: &["any", "any"],
        gives: "any",
        note: "Multiplies two numbers, or a quantity or duration and a number.",
        examples: &[
            ("multiply(`3`, `2.5`)", "7.5"),
            ("multiply('12Ki', `2`)", r#""24Ki""#),
            ("multiply(`2.5`, '12Ki')", r#""30Ki""#),
            ("multiply(`2.5`, '12')", r#""30""#),
            ("multiply(`2.5`, '40s')", r#""1m40s""#),
        ],
        call: |arguments| fold(arguments, multiply),
    },
    Function {
        name: "divide",
        takes: &["any", "any"],
        gives: "any",
        note: "Divides two numbers, two quantities or two durations (a number), or one of the latter by a number.",
        examples: &[
            ("divide('12Ki', '200')", "61.44"),
            ("divide('12Ki', `3`)", r#""4Ki""#),
            ("divide('1', `3`)", r#""0""#),
            ("divide('12s', '5s')", "2.4"),
            ("divide(`14`, `3`)", "4.666666666666667"),
        ],
        call: |arguments| fold(arguments, divide),
    },
    Function {
        name: "modulo",
        takes: &["any", "any"],
        gives: "any",
        note: "The rest of a division of whole numbers, whole quantities or durations.",
        examples: &[
            ("modulo('12Ki', '5Ki')", r#""2Ki""#),
            ("modulo('13s', '2s')", r#""1s""#),
            ("modulo(`13`, `5`)", "3"),
            ("modulo(`-13`, `5`)", "-3"),
        ],
        call: |arguments| fold(arguments, modulo),
    },
    Function {
        name: "sum",
        takes: &["array"],
        gives: "any",
        note: "Adds all elements, as `add` does. A single element stays as it is.",
        examples: &[
            ("sum([`12`, `13`, `1`, `4`])", "30"),
            ("sum(['12Ki', '13Ki', '1Ki', '4Ki'])", r#""30Ki""#),
            ("sum(['12s'])", r#""12s""#),
        ],
        call: sum,
    },
];

#[derive(Clone, Copy)]
enum Operand {
    Scalar(Number),
    Quantity(Quantity),
    Duration(Duration),
}

use Operand::{Duration as D, Quantity as Q, Scalar as S};

/// What went wrong with a pair of operands.
enum Refusal {
    Mismatch,
    Reason(&'static str),
}

type Operation = fn(Operand, Operand) -> Result<Operand, Refusal>;

fn fold<'a>(arguments: &Arguments<'_, 'a>, operation: Operation) -> Outcome<'a> {
    let (left, right) = (arguments.operand(arguments.get(0))?, arguments.operand(arguments.get(1))?);
    arguments.settle(operation(left, right))
}

fn sum<'a>(arguments: &Arguments<'_, 'a>) -> Outcome<'a> {
    let elements = arguments.list(0)?;
    let mut iter = elements.iter();
    let Some(first) = iter.next() else {
        return Err(arguments.fail("at least one element in the array is required"));
    };
    if elements.len() == 1 {
        return Ok(first);
    }
    let mut total = arguments.operand(&first)?;
    for element in iter {
        total = match add(total, arguments.operand(&element)?) {
            Ok(total) => total,
            Err(refusal) => return arguments.settle(Err(refusal)),
        };
    }
    arguments.settle(Ok(total))
}

impl<'a> Arguments<'_, 'a> {
    fn operand(&self, datum: &Datum<'a>) -> Result<Operand, Fault<'a>> {
        if let Some(number) = datum.as_number() {
            return Ok(S(number));
        }
        let Some(text) = datum.as_text() else {
            return Err(self.fail_with(FailReason::about(datum.shape(), "is an invalid operand")));
        };
        if let Ok(quantity) = text.parse() {
            return Ok(Q(quantity));
        }
        match text.parse() {
            Ok(duration) => Ok(D(duration)),
            Err(_) => {
                let words = "is an invalid operand: it is neither a quantity nor a duration";
                Err(self.fail_with(FailReason::about(datum.shape(), words)))
            }
        }
    }

    fn settle(&self, result: Result<Operand, Refusal>) -> Outcome<'a> {
        match result {
            Ok(S(number)) => Ok(Datum::Number(number)),
            Ok(Q(quantity)) => self.give(quantity.to_string()),
            Ok(D(duration)) => self.give(duration.to_string()),
            Err(Refusal::Mismatch) => Err(self.fail("Types mismatch")),
            Err(Refusal::Reason(reason)) => Err(self.fail(reason)),
        }
    }
}

fn add(left: Operand, right: Operand) -> Result<Operand, Refusal> {
    match (left, right) {
        (S(left), S(right)) => Ok(S(exact(left, right, i128::checked_add, |left, right| left + right))),
        (Q(left), Q(right)) => Ok(Q(left.checked_add(right)?)),
        (D(left), D(right)) => Ok(D(left.checked_add(right)?)),
        _ => Err(Refusal::Mismatch),
    }
}

fn subtract(left: Operand, right: Operand) -> Result<Operand, Refusal> {
    match (left, right) {
        (S(left), S(right)) => Ok(S(exact(left, right, i128::checked_sub, |left, right| left - right))),
        (Q(left), Q(right)) => Ok(Q(left.checked_sub(right)?)),
        (D(left), D(right)) => Ok(D(left.checked_sub(right)?)),
        _ => Err(Refusal::Mismatch),
    }
}

fn multiply(left: Operand, right: Operand) -> Result<Operand, Refusal> {
    match (left, right) {
        (S(left), S(right)) => Ok(S(exact(left, right, i128::checked_mul, |left, right| left * right))),
        (Q(quantity), S(factor)) | (S(factor), Q(quantity)) => Ok(Q(quantity.checked_mul(factor.to_f64())?)),
        (D(duration), S(factor)) | (S(factor), D(duration)) => Ok(D(duration.checked_mul(factor.to_f64())?)),
        _ => Err(Refusal::Mismatch),
    }
}

fn divide(left: Operand, right: Operand) -> Result<Operand, Refusal> {
    if let S(divisor) = right
        && divisor.to_f64() == 0.0
    {
        return Err(zero_divisor());
    }
    match (left, right) {
        (S(left), S(right)) => Ok(S(Number::from_f64(left.to_f64() / right.to_f64()))),
        (Q(left), Q(right)) => Ok(S(Number::from_f64(left.ratio(right)?))),
        (D(left), D(right)) => Ok(S(Number::from_f64(left.ratio(right)?))),
        (Q(left), S(right)) => Ok(Q(left.checked_div(right.to_f64())?)),
        (D(left), S(right)) => Ok(D(left.checked_div(right.to_f64())?)),
        _ => Err(Refusal::Mismatch),
    }
}

fn modulo(left: Operand, right: Operand) -> Result<Operand, Refusal> {
    match (left, right) {
        (S(left), S(right)) => match (left.whole(), right.whole()) {
            (_, Some(0)) => Err(zero_divisor()),
            (Some(left), Some(right)) => Ok(S(Number::Signed(left.wrapping_rem(right)))),
            _ => Err(Refusal::Reason("Non-integer argument(s) passed for modulo")),
        },
        (Q(left), Q(right)) => Ok(Q(left.checked_rem(right)?)),
        (D(left), D(right)) => Ok(D(left.checked_rem(right)?)),
        _ => Err(Refusal::Mismatch),
    }
}

/// Integers by integer arithmetic as long as they fit, floats otherwise.
fn exact(left: Number, right: Number, whole: fn(i128, i128) -> Option<i128>, float: fn(f64, f64) -> f64) -> Number {
    let floats = || Number::from_f64(float(left.to_f64(), right.to_f64()));
    match (left.integer(), right.integer()) {
        (Some(left), Some(right)) => whole(left, right).map_or_else(floats, Number::from_i128),
        _ => floats(),
    }
}

fn zero_divisor() -> Refusal {
    Refusal::Reason("Zero divisor passed")
}

impl From<QuantityError> for Refusal {
    fn from(error: QuantityError) -> Self {
        Self::Reason(error.words())
    }
}

impl From<DurationError> for Refusal {
    fn from(error: DurationError) -> Self {
        Self::Reason(error.words())
    }
}
