//! Our evaluator against the `jmespath` crate: its compliance suite, and its results on generated expressions.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};
use writ::core::expr::{EvalError, Expression, Runtime};
use writ::core::scalar::number::equal_values;

fn runtime() -> Runtime {
    Runtime::new(jiff::Timestamp::UNIX_EPOCH, 0)
}

/// The suite as the crate ships it, in cargo's own copy of the sources.
fn suite() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).expect("a cargo home");
    let sources = home.join("registry/src");
    let registries = std::fs::read_dir(&sources).unwrap_or_else(|error| panic!("{}: {error}", sources.display()));
    let folders = registries.flatten().map(|registry| registry.path().join("jmespath-0.5.0/tests/compliance"));
    let folder = folders.into_iter().find(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(|| panic!("no jmespath-0.5.0 with its tests below {}", sources.display()));
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("a folder").flatten().map(|file| file.path()).collect();
    files.sort();
    files
}

/// Where the dialect differs on purpose.
const DIFFERENT: &[(&str, &str)] = &[
    ("sum(`[]`)", "`sum` adds quantities too and needs one element, as upstream"),
    (r"'\\'", "a backslash before the closing quote always escapes it, as upstream"),
];

/// A missing key reads as null here, as the suite expects.
fn evaluate(expression: &str, document: &Value) -> Result<Value, String> {
    let compiled = Expression::compile(expression).map_err(|error| error.to_string())?;
    match compiled.search_json(document, &runtime()) {
        Err(EvalError::NotFound { .. }) => Ok(Value::Null),
        other => other.map_err(|error| error.to_string()),
    }
}

#[test]
fn the_compliance_suite_passes() {
    let (mut passed, mut failures) = (0, Vec::new());
    for file in suite() {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        let groups: Vec<Value> = serde_json::from_str(&text).expect("a suite");
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for group in &groups {
            for case in group["cases"].as_array().into_iter().flatten() {
                let expression = case["expression"].as_str().expect("an expression");
                let found = evaluate(expression, &group["given"]);
                let fits = match (&found, case.get("result")) {
                    (Ok(found), Some(expected)) => equal_values(found, expected),
                    (Err(_), Some(_)) => false,
                    // Benchmarks have no result.
                    (found, None) => case.get("error").is_none() || found.is_err(),
                };
                match fits {
                    true => passed += 1,
                    false if DIFFERENT.iter().any(|(different, _)| *different == expression) => {}
                    false => failures.push(format!("{name}: {expression}: {found:?}, expected {case}")),
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} passed, {} failed:\n{}", passed, failures.len(), failures.join("\n"));
    assert!(passed > 800, "only {passed} cases ran");
}

/// Documents in which every object has the same keys, so that no key is ever missing.
fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5_i64..5).prop_map(Value::from),
        (-40_i64..40).prop_map(|number| json!(number as f64 / 8.0)),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            [inner.clone(), inner.clone(), inner].prop_map(|[a, b, c]| json!({"a": a, "b": b, "c": c})),
        ]
    })
}

fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c", "@", "*", "[]", "[*]", "[0]", "[-1]", "[1:]", "[::-1]", "[::2]"]),
        1 => prop::sample::select(vec!["`1`", "`0.5`", "'a'", "`null`", "`[1, \"a\", null]`", "`{\"a\": 1, \"b\": [], \"c\": 2}`"]),
    ]
    .prop_map(str::to_owned);
    leaf.prop_recursive(5, 24, 3, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            (inner.clone(), prop::sample::select(vec!["a", "b", "c", "*", "[a, b]", "{a: a, b: c, c: @}"]))
                .prop_map(|(left, right)| format!("({left}).{right}")),
            (
                inner.clone(),
                prop::sample::select(vec!["[0]", "[-2]", "[]", "[*]", "[1:3]", "[::-2]", "[*].a", "[].b", "[?a]"])
            )
                .prop_map(|(left, right)| format!("({left}){right}")),
            (pair.clone(), prop::sample::select(vec!["|", "||", "&&", "==", "!=", "<", "<=", ">", ">="]))
                .prop_map(|((left, right), operator)| format!("({left}) {operator} ({right})")),
            (pair.clone(), prop::sample::select(vec!["|", "||", "&&"]))
                .prop_map(|((left, right), operator)| format!("{left} {operator} {right}")),
            inner.clone().prop_map(|inner| format!("!({inner})")),
            pair.clone().prop_map(|(left, condition)| format!("({left})[?{condition}]")),
            pair.prop_map(|(left, right)| format!("[{left}, {right}]")),
            (
                inner,
                prop::sample::select(vec![
                    "length",
                    "type",
                    "to_array",
                    "to_string",
                    "not_null",
                    "keys",
                    "values",
                    "reverse",
                    "sort",
                    "max",
                    "min",
                    "to_number",
                ])
            )
                .prop_map(|(inner, function)| format!("{function}({inner})")),
        ]
    })
}

/// The crate's own result, with its errors told apart only from values.
fn oracle(expression: &str, document: &Value) -> Option<Value> {
    let compiled = jmespath::compile(expression).ok()?;
    let found = compiled.search(document).ok()?;
    serde_json::to_value(&found).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn both_evaluators_agree(document in documents(), expression in expressions()) {
        // Four differences that are not faults: the crate prints floats otherwise, calls functions of the right side of a
        // projection on null, has no error to swallow on the left side of `[]`, `*` and filters, and makes any JSON of the text
        // that it should make a number of.
        let ours = evaluate(&expression, &document).ok();
        let theirs = oracle(&expression, &document);
        match (&ours, &theirs) {
            (Some(ours), Some(theirs)) if !expression.contains("to_string") => {
                prop_assert!(equal_values(ours, theirs), "{expression} on {document}: {ours} here, {theirs} there");
            }
            (Some(_), Some(_)) => {}
            (None, None) => {}
            (Some(_), None) => prop_assert!(
                expression.contains(")[") || expression.contains(").*"),
                "{expression} on {document}: {ours:?} here, an error there"
            ),
            (None, Some(_)) if expression.contains("to_number") && expression.contains("to_string") => {}
            (None, Some(theirs)) => {
                prop_assert!(false, "{expression} on {document}: an error here, {theirs} there");
            }
        }
    }
}
