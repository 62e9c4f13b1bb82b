//! From the wire form of preconditions to [`Conditions`], with every problem found on the way.

use serde_json::{Map, Value};

use super::{Condition, Conditions, Operator};
use crate::core::problem::{FieldPath, Problem, Reason};

/// Where the conditions stand, which decides the forms they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// On a rule: blocks, or the older plain list.
    Rule,
    /// On a `foreach` entry: blocks only.
    Foreach,
}

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

impl Conditions {
    /// Compiles what stands under `preconditions`. Nothing at all always holds. `None` if there were problems that make it
    /// unusable; a suspicious or deprecated form is reported and compiled.
    pub fn parse(value: &Value, form: Form, path: &FieldPath, problems: &mut Vec<Problem>) -> Option<Self> {
        match value {
            Value::Null => Some(Self::default()),
            Value::Array(list) if form == Form::Rule => parse_list(list, path, problems).map(Self::List),
            Value::Object(fields) => parse_blocks(fields, path, problems),
            _ => {
                let message = match form {
                    Form::Rule => "must be an object with any or all, or a list of conditions",
                    Form::Foreach => "must be an object with any or all",
                };
                problems.push(Problem::new(path, Reason::Format, message));
                None
            }
        }
    }
}

fn parse_blocks(fields: &Map<String, Value>, path: &FieldPath, problems: &mut Vec<Problem>) -> Option<Conditions> {
    let mut sound = true;
    let (mut any, mut all) = (None, Vec::new());
    for (name, value) in fields {
        let path = path.field(name.clone());
        match (name.as_str(), value) {
            ("any" | "all", Value::Null) => {}
            ("any", Value::Array(list)) => match parse_list(list, &path, problems) {
                Some(list) => any = Some(list),
                None => sound = false,
            },
            ("all", Value::Array(list)) => match parse_list(list, &path, problems) {
                Some(list) => all = list,
                None => sound = false,
            },
            ("any" | "all", _) => {
                problems.push(Problem::new(&path, Reason::Format, "must be a list of conditions"));
                sound = false;
            }
            _ => {
                problems.push(Problem::new(&path, Reason::Unknown, "conditions stand under any or all"));
                sound = false;
            }
        }
    }
    sound.then_some(Conditions::Blocks { any, all })
}

/// All conditions, or `None` if one of them is unusable.
fn parse_list(list: &[Value], path: &FieldPath, problems: &mut Vec<Problem>) -> Option<Vec<Condition>> {
    let parsed: Vec<Option<Condition>> =
        list.iter().enumerate().map(|(index, value)| parse_condition(value, &path.index(index), problems)).collect();
    parsed.into_iter().collect()
}

fn parse_condition(value: &Value, path: &FieldPath, problems: &mut Vec<Problem>) -> Option<Condition> {
    let Value::Object(fields) = value else {
        problems.push(Problem::new(path, Reason::Format, "must be an object with key, operator and value"));
        return None;
    };
    let key = required(fields, "key", path, problems);
    let operator = required(fields, "operator", path, problems);
    let value = required(fields, "value", path, problems);
    let operator = operator.and_then(|operator| parse_operator(operator, &path.field("operator"), problems));
    let message = match fields.get("message") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => {
            problems.push(Problem::new(path.field("message"), Reason::Format, "must be a string"));
            return None;
        }
    };
    let (key, operator, value) = (key?, operator?, value?);
    if is_operation_key(key) && !check_operations(value, &path.field("value"), problems) {
        return None;
    }
    Some(Condition { key: key.clone(), operator, value: value.clone(), message })
}

fn required<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
    path: &FieldPath,
    problems: &mut Vec<Problem>,
) -> Option<&'a Value> {
    let value = fields.get(name).filter(|value| !value.is_null());
    if value.is_none() {
        problems.push(Problem::new(
            path.field(name.to_owned()),
            Reason::Required,
            "a condition needs key, operator and value",
        ));
    }
    value
}

fn parse_operator(value: &Value, path: &FieldPath, problems: &mut Vec<Problem>) -> Option<Operator> {
    let Some(name) = value.as_str() else {
        problems.push(Problem::new(path, Reason::Format, "must be a string"));
        return None;
    };
    let Some(operator) = Operator::parse(name) else {
        let message = format!("unknown operator `{name}`, use one of {}", Operator::NAMES.join(", "));
        problems.push(Problem::new(path, Reason::Enum, message));
        return None;
    };
    if let Operator::Miscased(right) = operator {
        let message = format!("`{name}` is never true in this spelling, write {right}");
        problems.push(Problem::new(path, Reason::Suspicious, message));
    }
    Some(operator)
}

/// Whether the key asks for the operation of the request, whatever the spacing.
fn is_operation_key(key: &Value) -> bool {
    key.as_str().is_some_and(|key| key.chars().filter(|c| *c != ' ').eq("{{request.operation}}".chars()))
}

/// An operation is compared with operations only, or with what a variable gives.
fn check_operations(value: &Value, path: &FieldPath, problems: &mut Vec<Problem>) -> bool {
    let known = |value: &Value| {
        value.as_str().is_some_and(|text| OPERATIONS.contains(&text) || (text.contains("{{") && text.contains("}}")))
    };
    let mut complain = |path: &FieldPath| {
        let message = format!("an operation is one of {}", OPERATIONS.join(", "));
        problems.push(Problem::new(path, Reason::Enum, message));
    };
    match value {
        Value::Array(items) => {
            let wrong: Vec<usize> = (0..items.len()).filter(|index| !known(&items[*index])).collect();
            wrong.iter().for_each(|index| complain(&path.index(*index)));
            wrong.is_empty()
        }
        value if known(value) => true,
        _ => {
            complain(path);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: Value, form: Form, expected: &[(&str, Reason)]) {
        let mut problems = Vec::new();
        let path = FieldPath::root().field("preconditions");
        let conditions = Conditions::parse(&value, form, &path, &mut problems);
        let found: Vec<_> = problems.iter().map(|p| (p.field.to_string(), p.reason)).collect();
        let expected: Vec<_> = expected.iter().map(|(field, reason)| ((*field).to_owned(), *reason)).collect();
        assert_eq!(found, expected);
        assert_eq!(conditions.is_some(), problems.iter().all(|p| p.reason == Reason::Suspicious));
    }

    #[test]
    fn structure() {
        check(json!(null), Form::Rule, &[]);
        check(json!([]), Form::Rule, &[]);
        check(json!([]), Form::Foreach, &[("preconditions", Reason::Format)]);
        check(json!("x"), Form::Rule, &[("preconditions", Reason::Format)]);
        check(json!({"any": {}}), Form::Rule, &[("preconditions.any", Reason::Format)]);
        check(json!({"every": []}), Form::Foreach, &[("preconditions.every", Reason::Unknown)]);
        check(json!([1]), Form::Rule, &[("preconditions[0]", Reason::Format)]);
    }

    #[test]
    fn every_condition_is_checked() {
        check(
            json!({"all": [
                {"key": "a", "operator": "Equals"},
                {"operator": "Equals", "value": 1},
                {"key": null, "value": 1},
                {"key": "a", "operator": "Is", "value": 1},
                {"key": "a", "operator": "equals", "value": 1},
                {"key": "a", "operator": "greaterthan", "value": 1},
                {"key": "a", "operator": "Equal", "value": 1, "message": 2},
            ]}),
            Form::Rule,
            &[
                ("preconditions.all[0].value", Reason::Required),
                ("preconditions.all[1].key", Reason::Required),
                ("preconditions.all[2].key", Reason::Required),
                ("preconditions.all[2].operator", Reason::Required),
                ("preconditions.all[3].operator", Reason::Enum),
                ("preconditions.all[5].operator", Reason::Suspicious),
                ("preconditions.all[6].message", Reason::Format),
            ],
        );
        check(json!([{"key": "", "operator": "NotEqual", "value": false}]), Form::Rule, &[]);
        check(
            json!([{"key": "a", "operator": "LESSTHAN", "value": 1}]),
            Form::Rule,
            &[("preconditions[0].operator", Reason::Suspicious)],
        );
    }

    #[test]
    fn operations_are_compared_with_operations() {
        let condition = |value: Value| json!([{"key": "{{ request.operation }}", "operator": "AnyIn", "value": value}]);
        check(condition(json!("CREATE")), Form::Rule, &[]);
        check(condition(json!(["CREATE", "{{ wanted }}"])), Form::Rule, &[]);
        check(condition(json!("create")), Form::Rule, &[("preconditions[0].value", Reason::Enum)]);
        check(
            condition(json!(["CREATE", "PATCH", 1])),
            Form::Rule,
            &[("preconditions[0].value[1]", Reason::Enum), ("preconditions[0].value[2]", Reason::Enum)],
        );
        check(json!([{"key": "{{ request.operation || 'x' }}", "operator": "Equals", "value": "x"}]), Form::Rule, &[]);
    }
}
