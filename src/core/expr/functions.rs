//! The function table. Each function carries its own signature, note and examples; help and tests read those.
//!
//! The 26 functions of JMESPath and the 50 that Kyverno adds, one family per file.

mod arithmetic;
mod certificates;

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

use super::datum::{Datum, Elements, Entries, Number, Reference, Type};
use super::error::{EvalError, FailReason, Fault};
use super::evaluate;
use super::runtime::Runtime;

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
    certificates::FUNCTIONS,
];

/// What no input can do, for the tests of what happens then.
#[cfg(test)]
const PANICS: Function = Function {
    name: "panic_in_test",
    takes: &["any"],
    gives: "any",
    note: "",
    examples: &[],
    call: |_| panic!("on purpose"),
};

/// The function of that name.
pub fn find(name: &str) -> Option<&'static Function> {
    #[cfg(test)]
    if name == PANICS.name {
        return Some(&PANICS);
    }
    FAMILIES.iter().flat_map(|family| family.iter()).find(|function| function.name == name)
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
    let enough = if variadic { values.len() >= function.least() } else { values.len() == function.takes.len() };
    if !enough {
        let least = if variadic { "at least " } else { "" };
        let expected = format!("{least}{}", function.least());
        return Err(EvalError::Arity { name: function.name, expected, given: values.len() }.into());
    }
    let arguments = Arguments { function, values, runtime };
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
    let every = |kind| value.elements().is_some_and(|elements| elements.iter().all(|one| one.type_of() == kind));
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
        let text = self.get(position).as_text().ok_or_else(|| self.wrong_type(position, "string"))?;
        self.runtime.read(text.len())?;
        Ok(text)
    }

    fn bytes(&self, position: usize) -> Result<&'c [u8], Fault<'a>> {
        let bytes = self.get(position).as_bytes().ok_or_else(|| self.wrong_type(position, "string"))?;
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
        self.get(position).as_number().ok_or_else(|| self.wrong_type(position, "number"))
    }

    /// The elements of a list, whose visit is paid for here.
    fn list(&self, position: usize) -> Result<Elements<'c, 'a>, Fault<'a>> {
        let elements = self.get(position).elements().ok_or_else(|| self.wrong_type(position, "array"))?;
        self.runtime.step(elements.len())?;
        Ok(elements)
    }

    fn entries(&self, position: usize) -> Result<Entries<'c, 'a>, Fault<'a>> {
        let entries = self.get(position).entries(self.runtime)?.ok_or_else(|| self.wrong_type(position, "object"))?;
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
            given: self.get(position).shape(),
            expected: expected.to_owned(),
        }
        .into()
    }

    fn fail(&self, words: &'static str) -> Fault<'a> {
        self.fail_with(FailReason::new(words))
    }

    /// Fails because of the argument at `position`.
    fn fail_on(&self, position: usize, words: &'static str) -> Fault<'a> {
        self.fail_with(FailReason::about(self.get(position).shape(), words))
    }

    fn fail_with(&self, reason: FailReason) -> Fault<'a> {
        EvalError::Function { name: self.function.name, reason: Box::new(reason) }.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::core::expr::Expression;

    fn run(expression: &str) -> Result<Value, EvalError> {
        let runtime = Runtime::new("2024-02-29T12:00:00Z".parse().expect("a time"), 42);
        Expression::compile(expression).expect("an expression").search_json(&json!({"a": {"b": 1}}), &runtime)
    }

    #[test]
    fn every_example_gives_its_result() {
        for function in catalogue() {
            assert!(!function.examples.is_empty(), "{function} has no example");
            for (expression, expected) in function.examples {
                let expected: Value = serde_json::from_str(expected).expect("a result in JSON");
                match run(expression) {
                    Ok(found) => assert_eq!(found, expected, "{expression}"),
                    Err(error) => panic!("{expression}: {error}"),
                }
            }
        }
    }

    #[test]
    fn the_table_is_whole() {
        let names: Vec<_> = catalogue().iter().map(|function| function.name).collect();
        assert_eq!(names.len(), 26 + 50);
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "a name occurs twice");
        for function in catalogue() {
            for wanted in function.takes.iter().flat_map(|wanted| wanted.trim_end_matches('.').split('|')) {
                let known = ["any", "ignored", "string", "number", "array", "object", "expression"];
                assert!(known.contains(&wanted) || ["array[string]", "array[number]"].contains(&wanted), "{function}");
            }
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        #[track_caller]
        fn check(expression: &str, message: &str) {
            let error = run(expression).expect_err(expression).to_string();
            assert!(error.contains(message), "{expression}: {error}");
        }
        check("nope(a)", "unknown function: nope");
        check("length()", "incorrect number of args");
        check("length(a, a)", "incorrect number of args");
        check("merge()", "incorrect number of args: expected at least 1");
        check("length(missing)", "Invalid type for: null, expected: string|array|object");
        check("split(missing, ',')", "Invalid type for: null, expected: string");
        check("a.x | split(@, ',')", "Invalid type for: null");
        check("merge(a, missing)", "Invalid type for: null, expected: object");
        check("sum('x')", "Invalid type for: a string of 1 character, expected: array");
        check("sum(`[]`)", "at least one element");
        check("sum(['1', '1s'])", "Types mismatch");
        check("add('12', '13s')", "JMESPath function 'add': Types mismatch");
        check("add(`12`, '13')", "Types mismatch");
        check("add('x', '13')", "invalid operand");
        check("add(a, '13')", "invalid operand");
        check("multiply('1', '1')", "Types mismatch");
        check("divide(`1`, '1')", "Types mismatch");
        check("divide(`1`, `0`)", "Zero divisor passed");
        check("divide('1', `0`)", "Zero divisor passed");
        check("modulo(`1`, `0`)", "Zero divisor passed");
        check("modulo('4', '1.5')", "JMESPath function 'modulo'");
        check("modulo(`1.5`, `1`)", "Non-integer");
        check("round(`14`, `1.5`)", "argument #2 is not an integer");
        check("round(`14`, `-2`)", "negative");
        check("lookup(`{}`, `123`)", "argument #2 is not of type String");
        check("lookup(`[]`, 'a')", "argument #2 is not of type Number");
        check("lookup(`[]`, `1.5`)", "argument #2 is not an integer");
        check("to_boolean('FaLsee')", "neither true nor false");
        check("to_boolean('foo')", "neither true nor false");
        check("base64_decode('a')", "JMESPath function 'base64_decode'");
        check("base64_decode('YQ')", "JMESPath function 'base64_decode'");
        check("parse_json('{')", "JMESPath function 'parse_json'");
        check("object_from_lists(`[null]`, `[]`)", "null cannot be a key");
        check("sort_by(`[{\"a\": 1}, {}]`, &a)", "an element has no key \"a\"");
        check("sort_by(`[{\"a\": 1}, {}]`, &a) || 'x'", "an element has no key \"a\"");
        check("x509_decode('xyz')", "JMESPath function 'x509_decode': failed to decode PEM block");
        check("parse_yaml('a: [')", "JMESPath function 'parse_yaml'");
        check("sort_by(`[{\"a\": 1}, {\"a\": \"x\"}]`, &a)", "all must be numbers or all strings");
        check("avg(`[]`)", "NaN");
        check("to_number('inf')", "infinite");
        check("image_normalize('')", "an empty string is a bad image: invalid reference format");
        check("semver_compare('1.0.0', '')", "JMESPath function 'semver_compare'");
        check("time_add('2021', '3h')", "JMESPath function 'time_add'");
        check("time_add('2021-01-02T15:04:05Z', '3d')", "JMESPath function 'time_add'");
        check("time_parse('1', 'x')", "JMESPath function 'time_parse'");
        check("regex_match('(', 'x')", "bad regular expression");
        check("random('')", "JMESPath function 'random'");
        check("map(a, `[]`)", "expected: expression");
        check("to_string(&a)", "expected: any");
    }

    /// Every function with every combination of arguments that holds a value of the cluster: whatever goes wrong, the message
    /// shows no value.
    #[test]
    fn no_message_shows_a_value() {
        const ARGUMENTS: [&str; 9] = ["t", "n", "o", "l", "lo", "p", "'x'", "`1`", "&k"];
        let document = json!({
            "t": "hidden-text(", "n": 734_917.25, "o": {"hidden-key": "hidden-in-object", "kind": "hidden-kind"},
            "l": ["hidden-one", 734_918, null], "lo": [{"k": "hidden-k"}, {"k": 734_919}, {}],
            "p": "-----BEGIN hidden-label-----\naGlkZGVu\n-----END hidden-label-----\n",
        });
        let mut failed = 0;
        for function in catalogue() {
            for first in ARGUMENTS {
                for second in ARGUMENTS {
                    let count = function.takes.len();
                    let arguments = [first, second, "t", "n", first];
                    let call = format!("{}({})", function.name, arguments[..count.min(5)].join(", "));
                    let expression = Expression::compile(&call).expect(&call);
                    let runtime = Runtime::new("2024-02-29T12:00:00Z".parse().expect("a time"), 42);
                    let Err(error) = expression.search_json(&document, &runtime) else { continue };
                    failed += 1;
                    let shown = [error.to_string(), format!("{error:?}")].concat();
                    // What a caller is asked to look up is not a message; it never leaves the evaluation.
                    let hides = !shown.contains("hidden") && !shown.contains("7349");
                    assert!(hides || matches!(error, EvalError::Needs(_)), "{call}: {shown}");
                }
            }
        }
        assert!(failed > 2_000, "only {failed} calls failed");
    }

    #[test]
    fn details_of_single_functions() {
        #[track_caller]
        fn check(expression: &str, expected: Value) {
            assert_eq!(run(expression), Ok(expected), "{expression}");
        }
        check("divide('8', '3')", json!(8.0 / 3.0));
        check("add(`9007199254740993`, `1`)", json!(9_007_199_254_740_994_i64));
        check("add(`0.5`, `0.5`)", json!(1));
        check("sum([`1.5`])", json!(1.5));
        check("max_by(`[{\"b\": 1}]`, &a)", json!({"b": 1}));
        check("min_by(`[]`, &a)", json!(null));
        check("sort_by(`[{}]`, &a)", json!([{}]));
        check(
            "sort(`[9007199254740993, 9007199254740992.0, 1]`)",
            json!([1, 9_007_199_254_740_992_i64, 9_007_199_254_740_993_i64]),
        );
        check("contains(`[1, 2]`, `1.0`)", json!(true));
        check("contains(items(a, 'k', 'v'), `{\"k\": \"b\", \"v\": 1}`)", json!(true));
        check("type(items(a, 'k', 'v'))", json!("array"));
        check("sort_by(items(a, 'k', 'v'), &k)[0].k", json!("b"));
        check("length(reverse(to_array(items(a, 'k', 'v'))))", json!(1));
        check("join('-', items(`{\"x\": 1}`, 'k', 'v')[].k)", json!("x"));
        check("to_string(`1e21`)", json!("1e+21"));
        check("to_string(`1e-7`)", json!("1e-7"));
        check("to_string('<a>')", json!("<a>"));
        check("to_string(['<a>&'])", json!(r#"["\u003ca\u003e\u0026"]"#));
        check("to_number('nan') == to_number('nan')", json!(false));
        check("length(base64_decode('//79'))", json!(3));
        check("sha256(base64_decode('//79')) == sha256('//79')", json!(false));
        check("base64_decode('SGVs\nbG8=')", json!("Hello"));
        check("equal_fold('ß', 'ẞ')", json!(true));
        check("to_lower('İ')", json!("i"));
        check("regex_replace_all('x', 'x', `16777217`)", json!("16777217"));
        check("pattern_match('1?', `12`)", json!(true));
        check("time_now()", json!("2024-02-29T12:00:00Z"));
        check("time_now_utc('ignored')", json!("2024-02-29T12:00:00Z"));
        check("time_since('', '2024-02-29T11:00:00Z', '')", json!("1h0m0s"));
        check("replace('aaa', 'a', 'b', `1.9`)", json!("baa"));
        check("merge(a, `{\"c\": 2}`)", json!({"b": 1, "c": 2}));
    }
}
