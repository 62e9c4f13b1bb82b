//! The function table. Each function carries its own signature, note and examples; help and tests read those.
//!
//! The 26 functions of JMESPath and the 50 that Kyverno adds, one family per file.

mod arithmetic;

mod encoding;
mod lists;
mod network;
mod numbers;
mod objects;
mod patterns;
mod random;
mod strings;
mod time;
mod types;
mod versions;

use std::borrow::Cow;
use std::fmt;

use super::datum::{Datum, Elements, Number, Reference, Type};
use super::error::{EvalError, Fault};
use super::runtime::Runtime;
use super::{evaluate, text};

/// A function that expressions can call.
pub struct Function {
    pub name: &'static str,
    /// A type per argument: `any`, a type's name, `array[string]`, alternatives with `|`. Three dots after the last one
    /// mean one or more of it.
    pub takes: &'static [&'static str],
    pub gives: &'static str,
    pub note: &'static str,
    /// Expressions and their results as JSON.
    pub examples: &'static [(&'static str, &'static str)],
    call: for<'a> fn(&Arguments<'_, 'a>) -> Outcome<'a>,
}

type Outcome<'a> = Result<Datum<'a>, Fault<'a>>;

const FAMILIES: &[&[Function]] = &[
    strings::FUNCTIONS,
    patterns::FUNCTIONS,
    random::FUNCTIONS,
    numbers::FUNCTIONS,
    arithmetic::FUNCTIONS,
    lists::FUNCTIONS,
    objects::FUNCTIONS,
    types::FUNCTIONS,
    encoding::FUNCTIONS,
    time::FUNCTIONS,
    versions::FUNCTIONS,
    network::FUNCTIONS,
];

/// The function of that name.
pub fn find(name: &str) -> Option<&'static Function> {
    FAMILIES
        .iter()
        .flat_map(|family| family.iter())
        .find(|function| function.name == name)
}

/// All functions, sorted by name.
pub fn catalogue() -> Vec<&'static Function> {
    let mut all: Vec<_> = FAMILIES.iter().flat_map(|family| family.iter()).collect();
    all.sort_by_key(|function| function.name);
    all
}

/// Checks the arguments against the signature, then calls.
pub(super) fn call<'a>(function: &'static Function, values: &[Datum<'a>], runtime: &Runtime) -> Outcome<'a> {
    let variadic = function.takes.last().is_some_and(|last| last.ends_with("..."));
    let enough = if variadic {
        values.len() >= function.least()
    } else {
        values.len() == function.takes.len()
    };
    if !enough {
        let least = if variadic { "at least " } else { "" };
        let expected = format!("{least}{}", function.least());
        return Err(EvalError::Arity {
            name: function.name,
            expected,
            given: values.len(),
        }
        .into());
    }
    let arguments = Arguments {
        function,
        values,
        runtime,
    };
    for (position, value) in values.iter().enumerate() {
        let wanted = function.takes[position.min(function.takes.len() - 1)];
        if !accepts(wanted.trim_end_matches('.'), value) {
            return Err(arguments.wrong_type(position, wanted));
        }
    }
    (function.call)(&arguments)
}

fn accepts(wanted: &str, value: &Datum<'_>) -> bool {
    let kind = value.type_of();
    let every = |kind| {
        value
            .elements()
            .is_some_and(|elements| elements.iter().all(|one| one.type_of() == kind))
    };
    wanted.split('|').any(|wanted| match wanted {
        "any" => kind != Type::Reference,
        "ignored" => true,
        "string" => kind == Type::String,
        "number" => kind == Type::Number,
        "array" => kind == Type::Array,
        "object" => kind == Type::Object,
        "expression" => kind == Type::Reference,
        "array[string]" => every(Type::String),
        "array[number]" => every(Type::Number),
        _ => false,
    })
}

impl Function {
    /// The least number of arguments.
    fn least(&self) -> usize {
        self.takes.len() - usize::from(self.takes == ["ignored..."])
    }
}

/// `name(type, type) -> type`
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.least() == 0 { &[] } else { self.takes };
        write!(f, "{}({}) -> {}", self.name, shown.join(", "), self.gives)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The arguments of one call, already checked against the signature.
struct Arguments<'c, 'a> {
    function: &'static Function,
    values: &'c [Datum<'a>],
    runtime: &'c Runtime,
}

impl<'c, 'a> Arguments<'c, 'a> {
    fn get(&self, position: usize) -> &'c Datum<'a> {
        self.values.get(position).unwrap_or(&Datum::Null)
    }

    fn text(&self, position: usize) -> Result<Cow<'c, str>, Fault<'a>> {
        let text = self
            .get(position)
            .as_text()
            .ok_or_else(|| self.wrong_type(position, "string"))?;
        self.runtime.read(text.len())?;
        Ok(text)
    }

    fn bytes(&self, position: usize) -> Result<&'c [u8], Fault<'a>> {
        let bytes = self
            .get(position)
            .as_bytes()
            .ok_or_else(|| self.wrong_type(position, "string"))?;
        self.runtime.read(bytes.len())?;
        Ok(bytes)
    }

    /// Text, or a number as text.
    fn printed(&self, position: usize) -> Result<Cow<'c, str>, Fault<'a>> {
        match self.get(position).as_number() {
            Some(number) => Ok(Cow::Owned(number.to_string())),
            None => self.text(position),
        }
    }

    fn number(&self, position: usize) -> Result<Number, Fault<'a>> {
        self.get(position)
            .as_number()
            .ok_or_else(|| self.wrong_type(position, "number"))
    }

    /// The elements of a list, whose visit is paid for here.
    fn list(&self, position: usize) -> Result<Elements<'c, 'a>, Fault<'a>> {
        let elements = self
            .get(position)
            .elements()
            .ok_or_else(|| self.wrong_type(position, "array"))?;
        self.runtime.step(elements.len())?;
        Ok(elements)
    }

    fn entries(&self, position: usize) -> Result<Vec<(Cow<'c, str>, Datum<'a>)>, Fault<'a>> {
        let entries = self
            .get(position)
            .entries(self.runtime)?
            .ok_or_else(|| self.wrong_type(position, "object"))?;
        self.runtime.step(entries.len())?;
        Ok(entries)
    }

    /// Applies the expression in argument `position`; a missing key stays an error.
    fn apply(&self, position: usize, element: &Datum<'a>) -> Outcome<'a> {
        match self.get(position) {
            Datum::Reference(Reference(node)) => evaluate::evaluate(node, element, self.runtime),
            _ => Err(self.wrong_type(position, "expression")),
        }
    }

    /// Text as a result, paid for.
    fn give(&self, text: impl Into<String>) -> Outcome<'a> {
        let text = text.into();
        self.runtime.produce(text.len())?;
        Ok(Datum::text(text))
    }

    fn wrong_type(&self, position: usize, expected: &str) -> Fault<'a> {
        EvalError::Type {
            name: self.function.name,
            position: position + 1,
            given: text::brief(self.get(position)),
            expected: expected.to_owned(),
        }
        .into()
    }

    fn fail(&self, reason: impl fmt::Display) -> Fault<'a> {
        EvalError::Function {
            name: self.function.name,
            reason: reason.to_string(),
        }
        .into()
    }
}
