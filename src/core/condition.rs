//! Preconditions: the `any`/`all` blocks (or the older plain list) that decide whether a rule runs.
//!
//! Substitution is the caller's: a condition hands out its key, then its value, and compares what comes back. Nothing
//! here knows variables, contexts or requests.

mod compile;
mod equality;
mod membership;
mod operator;
mod order;
mod price;
mod span;

use std::fmt;

use serde_json::Value;

use crate::core::expr::Template;
use crate::core::problem::FieldPath;
use crate::core::scalar::json_text;
use crate::core::shape::ValueShape;

pub use compile::Form;
pub use membership::Member;
pub use operator::Operator;
pub use order::Relation;

/// A compiled block of conditions. The default one always holds. Operands are of the caller's type: JSON as it was written,
/// or whatever resolves to JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Conditions<T = Value> {
    Blocks {
        /// One must hold, if the block is there at all: an empty one never does.
        any: Option<Vec<Condition<T>>>,
        /// Each must hold.
        all: Vec<Condition<T>>,
    },
    /// The older form: each must hold.
    List(Vec<Condition<T>>),
}

/// One comparison, its operands not yet substituted.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition<T = Value> {
    pub key: T,
    pub operator: Operator,
    pub value: T,
    /// Plain text, never substituted.
    pub message: Option<String>,
}

/// What a block came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub holds: bool,
    /// The messages of the conditions that speak for the verdict.
    pub message: String,
    /// Which conditions made it false.
    pub failure: Option<Failure>,
}

/// Why a block does not hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// None of these conditions of the `any` block held.
    Any(Vec<Tested>),
    /// This condition of the `all` block, or of the plain list, did not hold.
    All { index: usize, tested: Tested },
}

/// A condition that did not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    key: TestedOperand,
    operator: Operator,
    value: TestedOperand,
}

/// An operand as its author wrote it, and the shape of what its variables made of it. What they made of it may be the
/// content of a Secret.
#[derive(Clone, Debug, PartialEq)]
struct TestedOperand {
    written: String,
    became: Option<ValueShape>,
}

/// What an author writes as key or value of a condition.
pub trait Operand {
    /// The operand with its variables, if it can be shown at all.
    fn written(&self) -> Option<&Value>;

    fn has_variables(&self) -> bool;
}

/// JSON without variables.
impl Operand for Value {
    fn written(&self) -> Option<&Value> {
        Some(self)
    }

    fn has_variables(&self) -> bool {
        false
    }
}

/// An operand that could not be substituted, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved<E> {
    /// `any` or `all`; empty for the plain list.
    block: &'static str,
    index: usize,
    /// `key` or `value`.
    operand: &'static str,
    pub error: E,
}

impl Operand for Template {
    fn written(&self) -> Option<&Value> {
        Self::written(self)
    }

    fn has_variables(&self) -> bool {
        Self::has_variables(self)
    }
}

/// What a caller does for the conditions: substitutes an operand, and pays for a comparison before it is done.
pub trait Resolver<T, E> {
    fn resolve(&mut self, operand: &T) -> Result<Value, E>;

    /// `steps` are those of [`Runtime`](crate::core::expr::Runtime).
    fn pay(&mut self, steps: usize) -> Result<(), E>;
}

/// How much of an operand is shown.
const SHOWN: usize = 64;

impl<T> Default for Conditions<T> {
    fn default() -> Self {
        Self::Blocks { any: None, all: Vec::new() }
    }
}

impl<T> Conditions<T> {
    /// Tests the conditions in order and stops as soon as a block is decided. The first error of the resolver ends the test.
    pub fn evaluate<E>(&self, resolver: &mut dyn Resolver<T, E>) -> Result<Verdict, Unresolved<E>>
    where
        T: Operand,
    {
        match self {
            Self::Blocks { any, all } => evaluate_blocks(any.as_deref(), all, resolver),
            Self::List(list) => evaluate_list(list, resolver),
        }
    }

    /// The same conditions with every operand in another form.
    pub fn map<U>(&self, operand: &mut dyn FnMut(&T) -> U) -> Conditions<U> {
        let mut block = |conditions: &[Condition<T>]| -> Vec<Condition<U>> {
            conditions.iter().map(|condition| condition.map(operand)).collect()
        };
        match self {
            Self::Blocks { any, all } => Conditions::Blocks { any: any.as_deref().map(&mut block), all: block(all) },
            Self::List(list) => Conditions::List(block(list)),
        }
    }

    /// Every condition with the name of its block and its place there.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, usize, &Condition<T>)> {
        let (any, all, list): (&[_], &[_], &[_]) = match self {
            Self::Blocks { any, all } => (any.as_deref().unwrap_or_default(), all, &[]),
            Self::List(list) => (&[], &[], list),
        };
        named("any", any).chain(named("all", all)).chain(named("", list))
    }
}

impl<T> Condition<T> {
    fn map<U>(&self, operand: &mut dyn FnMut(&T) -> U) -> Condition<U> {
        let (key, value) = (operand(&self.key), operand(&self.value));
        Condition { key, operator: self.operator, value, message: self.message.clone() }
    }

    /// Tests the condition that stands in the block at that place. Nothing comes back if it holds.
    fn test<E>(
        &self,
        block: &'static str,
        index: usize,
        resolver: &mut dyn Resolver<T, E>,
    ) -> Result<Option<Tested>, Unresolved<E>>
    where
        T: Operand,
    {
        let failed = |operand| move |error| Unresolved { block, index, operand, error };
        let key = resolver.resolve(&self.key).map_err(failed("key"))?;
        let value = resolver.resolve(&self.value).map_err(failed("value"))?;
        resolver.pay(price::of(&key, &value)).map_err(failed("value"))?;
        if self.operator.holds(&key, &value) {
            return Ok(None);
        }
        let shown = |operand: &T, became: &Value| TestedOperand {
            written: operand.written().map(shorten).unwrap_or_default(),
            became: operand.has_variables().then(|| ValueShape::of(became)),
        };
        let (key, value) = (shown(&self.key, &key), shown(&self.value, &value));
        Ok(Some(Tested { key, operator: self.operator, value }))
    }
}

fn evaluate_blocks<T: Operand, E>(
    any: Option<&[Condition<T>]>,
    all: &[Condition<T>],
    resolver: &mut dyn Resolver<T, E>,
) -> Result<Verdict, Unresolved<E>> {
    let (mut agreeing, mut refusing) = (Vec::new(), Vec::new());
    let mut failure = None;
    if let Some(any) = any {
        let mut failed = Vec::new();
        let mut found = false;
        for (index, condition) in any.iter().enumerate() {
            let Some(tested) = condition.test("any", index, resolver)? else {
                agreeing.extend(condition.message.as_deref());
                found = true;
                break;
            };
            refusing.extend(condition.message.as_deref());
            failed.push(tested);
        }
        if !found {
            failure = Some(Failure::Any(failed));
        }
    }
    // Tested even if `any` has failed: an error in it is an error of the rule.
    for (index, condition) in all.iter().enumerate() {
        if let Some(tested) = condition.test("all", index, resolver)? {
            refusing.extend(condition.message.as_deref());
            failure = failure.or(Some(Failure::All { index, tested }));
            break;
        }
        agreeing.extend(condition.message.as_deref());
    }
    let holds = failure.is_none();
    Ok(Verdict { holds, message: join(if holds { &agreeing } else { &refusing }, "; "), failure })
}

fn evaluate_list<T: Operand, E>(
    list: &[Condition<T>],
    resolver: &mut dyn Resolver<T, E>,
) -> Result<Verdict, Unresolved<E>> {
    let mut agreeing = Vec::new();
    for (index, condition) in list.iter().enumerate() {
        if let Some(tested) = condition.test("", index, resolver)? {
            let message = condition.message.clone().unwrap_or_default();
            return Ok(Verdict { holds: false, message, failure: Some(Failure::All { index, tested }) });
        }
        agreeing.extend(condition.message.as_deref());
    }
    Ok(Verdict { holds: true, message: join(&agreeing, ";"), failure: None })
}

impl<E> Unresolved<E> {
    /// The field of the operand, below that of the conditions.
    pub fn field(&self, conditions: &FieldPath) -> FieldPath {
        let block = if self.block.is_empty() { conditions.clone() } else { conditions.field(self.block) };
        block.index(self.index).field(self.operand)
    }
}

fn named<'c, T>(
    name: &'static str,
    block: &'c [Condition<T>],
) -> impl Iterator<Item = (&'static str, usize, &'c Condition<T>)> {
    block.iter().enumerate().map(move |(index, condition)| (name, index, condition))
}

fn join(messages: &[&str], separator: &str) -> String {
    let messages: Vec<&str> = messages.iter().copied().filter(|message| !message.is_empty()).collect();
    messages.join(separator)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(tested) if tested.is_empty() => f.write_str("an empty `any` block never holds"),
            Self::Any(tested) => {
                f.write_str("none of `any` holds: ")?;
                for (position, tested) in tested.iter().enumerate() {
                    write!(f, "{}{tested}", if position > 0 { "; " } else { "" })?;
                }
                Ok(())
            }
            Self::All { tested, .. } => write!(f, "{tested} does not hold"),
        }
    }
}

impl fmt::Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.key, self.operator, self.value)
    }
}

impl fmt::Display for TestedOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)?;
        match &self.became {
            Some(became) => write!(f, " ({became})"),
            None => Ok(()),
        }
    }
}

/// The JSON of a value, cut where it gets long.
fn shorten(value: &Value) -> String {
    let text = json_text::encode(value);
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn compile(value: Value) -> Conditions {
        let mut problems = Vec::new();
        let conditions = Conditions::parse(&value, Form::Rule, &FieldPath::root(), &mut problems);
        assert_eq!(problems, []);
        conditions.expect("no problems")
    }

    /// Resolves `"$x"` to an error and everything else to itself.
    struct Plain;

    impl Resolver<Value, String> for Plain {
        fn resolve(&mut self, value: &Value) -> Result<Value, String> {
            match value.as_str() {
                Some(text) if text.starts_with('$') => Err(text.to_owned()),
                _ => Ok(value.clone()),
            }
        }

        fn pay(&mut self, _: usize) -> Result<(), String> {
            Ok(())
        }
    }

    fn condition(key: Value, value: Value, message: &str) -> Value {
        json!({"key": key, "operator": "Equals", "value": value, "message": message})
    }

    fn yes(message: &str) -> Value {
        condition(json!("a"), json!("a"), message)
    }

    fn no(message: &str) -> Value {
        condition(json!("a"), json!("b"), message)
    }

    fn error(name: &str) -> Value {
        condition(json!(name), json!("b"), "")
    }

    #[test]
    fn blocks_combine() {
        #[track_caller]
        fn check(conditions: Value, expected: Result<(bool, &str), &str>) {
            let verdict = compile(conditions).evaluate(&mut Plain);
            let found =
                verdict.as_ref().map(|v| (v.holds, v.message.as_str())).map_err(|unresolved| unresolved.error.as_str());
            assert_eq!(found, expected);
        }
        check(Value::Null, Ok((true, "")));
        check(json!({}), Ok((true, "")));
        check(json!({"any": []}), Ok((false, "")));
        check(json!({"any": null}), Ok((true, "")));
        check(json!({"all": []}), Ok((true, "")));
        check(json!({"any": [no("1"), yes("2"), error("$never")]}), Ok((true, "2")));
        check(json!({"any": [no("1"), no(""), no("2")]}), Ok((false, "1; 2")));
        check(json!({"all": [yes("1"), yes(""), yes("2")]}), Ok((true, "1; 2")));
        check(json!({"all": [yes("1"), no("2"), error("$never")]}), Ok((false, "2")));
        check(json!({"any": [yes("1")], "all": [yes("2")]}), Ok((true, "1; 2")));
        check(json!({"any": [yes("1")], "all": [no("2")]}), Ok((false, "2")));
        check(json!({"any": [no("1")], "all": [yes("2"), no("3")]}), Ok((false, "1; 3")));
        check(json!({"any": [no("1")], "all": [error("$late")]}), Err("$late"));
        check(json!({"any": [error("$first"), yes("")]}), Err("$first"));
        check(json!([yes("1"), yes("2")]), Ok((true, "1;2")));
        check(json!([yes("1"), no("2"), error("$never")]), Ok((false, "2")));
        check(json!([]), Ok((true, "")));
    }

    #[test]
    fn the_key_is_resolved_before_the_value() {
        let conditions = compile(json!([{"key": "$key", "operator": "Equals", "value": "$value"}]));
        assert_eq!(conditions.evaluate(&mut Plain).map_err(|unresolved| unresolved.error), Err("$key".to_owned()));
    }

    #[test]
    fn an_error_says_where_it_was() {
        #[track_caller]
        fn check(conditions: Value, expected: &str) {
            let unresolved = compile(conditions).evaluate(&mut Plain).expect_err("an error");
            assert_eq!(unresolved.field(&FieldPath::root().field("preconditions")).to_string(), expected);
        }
        check(json!({"any": [no(""), error("$x")]}), "preconditions.any[1].key");
        check(json!({"any": [yes("")], "all": [condition(json!("a"), json!("$x"), "")]}), "preconditions.all[0].value");
        check(json!([yes(""), yes(""), error("$x")]), "preconditions[2].key");
    }

    #[test]
    fn a_failure_says_which_condition_it_was() {
        #[track_caller]
        fn check(conditions: Value, expected: &str) {
            let verdict = compile(conditions).evaluate(&mut Plain).unwrap();
            assert_eq!(verdict.failure.unwrap().to_string(), expected);
        }
        check(json!([yes(""), no("")]), r#""a" Equals "b" does not hold"#);
        check(json!({"any": [no(""), no("")]}), r#"none of `any` holds: "a" Equals "b"; "a" Equals "b""#);
        check(json!({"any": []}), "an empty `any` block never holds");
        check(
            json!([{"key": "a".repeat(100), "operator": "AnyIn", "value": [1, 2]}]),
            &format!("\"{}… AnyIn [1,2] does not hold", "a".repeat(63)),
        );
    }
}
