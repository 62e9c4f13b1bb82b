//! JMESPath as a whole: the not-found rules, the dialect's details, scopes. Hostile input is timed in `tests/it`.

use serde_json::{Value, json};

use super::*;

fn runtime() -> Runtime {
    Runtime::new(jiff::Timestamp::UNIX_EPOCH, 0)
}

fn search(expression: &str, document: &Value) -> Result<Value, EvalError> {
    let compiled = Expression::compile(expression).unwrap_or_else(|error| panic!("{error}"));
    compiled.search_json(document, &runtime())
}

#[track_caller]
fn check(expression: &str, document: Value, expected: Value) {
    assert_eq!(search(expression, &document), Ok(expected), "{expression}");
}

#[test]
fn a_missing_key_is_an_error_where_it_is_read() {
    let document = json!({"a": {"b": 1}});
    for (expression, key) in [("a.x", "x"), ("x", "x"), ("x[0]", "x"), ("a.x.y", "x"), ("a && x", "x"), ("(x)", "x")] {
        let expected = Err(EvalError::NotFound { key: key.to_owned() });
        assert_eq!(search(expression, &document), expected, "{expression}");
    }
}

#[test]
fn a_missing_key_is_null_everywhere_else() {
    let check = |expression: &str, expected: Value| check(expression, json!({"a": {"b": 1}}), expected);
    check("x || 'd'", json!("d"));
    for expression in [
        "x || y",
        "x | y",
        "x[*].b",
        "x[?b]",
        "x[0:2]",
        "x.*",
        "x[]",
        "x && a",
        "a | x",
        "a.b.c",
        "a.b[0]",
        "*.x.y | [0]",
    ] {
        check(expression, json!(null));
    }
    check("!x", json!(true));
    check("x == y", json!(true));
    check("x < y", json!(null));
    check("[x, a]", json!([null, {"b": 1}]));
    check("{k: x}", json!({"k": null}));
    check("to_string(x)", json!("null"));
    check("[a][?x == `null`]", json!([{"b": 1}]));
    check("[a][*].x", json!([]));
    check("map(&x, [a])", json!([null]));
}

#[test]
fn some_projections_swallow_every_error_of_their_left_side() {
    let check = |expression: &str, expected: Value| check(expression, json!({"a": 1}), expected);
    check("to_number(a, a)[]", json!(null));
    check("length(a)[?b]", json!(null));
    check("length(a).*", json!(null));
    assert!(search("length(a)[*]", &json!({"a": 1})).is_err());
    assert!(search("length(a)[0:1]", &json!({"a": 1})).is_err());
    assert!(search("nope(a) || 'x'", &json!({"a": 1})).is_err());
    let poor = runtime().with_limits(Limits { steps: 3, ..Limits::default() });
    let spent = Expression::compile("[a, a, a, a][]").expect("an expression").search_json(&json!({"a": 1}), &poor);
    assert!(matches!(spent, Err(EvalError::Budget { .. })), "{spent:?}");
}

#[test]
fn the_dialect() {
    let document = json!({"a": [1, 2, 3], "s": "text", "t": "", "f": false, "n": 0, "o": {"y": 2, "x": 1}, "e": []});
    let check = |expression: &str, expected: Value| check(expression, document.clone(), expected);
    check("a[-1]", json!(3));
    check("a[3]", json!(null));
    check("s[0]", json!(null));
    check("s[0:2]", json!(null));
    check("a[::-1]", json!([3, 2, 1]));
    check("a[:2]", json!([1, 2]));
    check("a[5:0:-2]", json!([3]));
    check("o.*", json!([1, 2]));
    check("keys(o)", json!(["x", "y"]));
    check("n && 'zero is true'", json!("zero is true"));
    check("t || f || e || `{}` || 'all false'", json!("all false"));
    check("s < s", json!(null));
    check("n == `0.0`", json!(true));
    check("a == `[1, 2, 3.0]`", json!(true));
    check("!o.x", json!(null));
    check("!(o.x)", json!(false));
    check("s | @ || 'x'", json!("text"));
    check(r"'it\'s'", json!("it's"));
    check(r"'a\nb\\c'", json!(r"a\nb\\c"));
    check("`\"a\\`b\"`", json!("a`b"));
    check("join('-', [s, s][0:1],)", json!("text"));
    check("o.{p: x, \"q r\": y}", json!({"p": 1, "q r": 2}));
    check("not_null(n,)", json!(0));
    check("\"a\"[0]", json!(1));
    check("@.n", json!(0));
    check("@", document.clone());
}

#[test]
fn bad_syntax_is_explained() {
    #[track_caller]
    fn check(expression: &str, column: usize, reason: &str) {
        let error = Expression::compile(expression).map(|_| ()).expect_err(expression);
        assert!(error.reason.contains(reason), "{expression}: {error}");
        assert_eq!(error.column, column, "{expression}: {error}");
    }
    check("", 1, "empty");
    check("  ", 1, "empty");
    check("a.", 3, "after `.`");
    check("a b", 3, "name `b`");
    check("a[", 3, "the end");
    check("foo(1)", 5, "in backticks");
    check("a = b", 3, "`==`");
    check("a-b", 2, "double quotes");
    check("'abc", 1, "no end");
    check(r"'a\\'", 1, "no end");
    check("`abc`", 1, "must be JSON");
    check("é", 1, "unexpected character");
    check("'é' $a", 5, "no `$`");
    check("{{ x }}", 2, "a key");
    check("\"f\"(a)", 1, "without quotes");
    check("a[-0]", 3, "no index");
    check("list[:::]", 8, "`]`");
    check("a ? b", 3, "unexpected character");
    check("let $x = a in x", 5, "no `$`");
    check("join('-' a)", 10, "`,` or `)`");
    let error = Expression::compile("a.\nb..c").map(|_| ()).expect_err("two dots");
    assert_eq!(error.snippet().lines().take(2).collect::<Vec<_>>()[0], "b..c");
    assert!(error.snippet().contains("\n  ^ expected a name"), "{}", error.snippet());
}

#[test]
fn trees_are_readable() {
    let tree = parse_tree("a.b[?c > `1`].d | length(@)").expect("an expression");
    let expected = "\
pipe
  project filtered
    subexpression
      field \"a\"
      field \"b\"
    compare >
      field \"c\"
      literal 1
    field \"d\"
  call length
    current
";
    assert_eq!(tree, expected);
}

/// A scope that counts what it is asked for.
struct Lazy {
    values: Value,
    asked: std::cell::RefCell<Vec<String>>,
}

impl Scope for Lazy {
    fn lookup<'s>(&'s self, name: &str, _: &Runtime) -> Result<Option<&'s Value>, EvalError> {
        self.asked.borrow_mut().push(name.to_owned());
        match name {
            "broken" => Err(EvalError::Variable { name: name.to_owned(), reason: "cannot be loaded".to_owned() }),
            "waiting" => Err(EvalError::Needs(Lookup::Variable(name.to_owned()))),
            _ => Ok(self.values.get(name)),
        }
    }

    fn names(&self) -> Vec<&str> {
        Scope::names(&self.values)
    }
}

#[test]
fn a_scope_is_asked_only_for_what_is_read() {
    #[track_caller]
    fn check(expression: &str, names: &[&str]) {
        let values = json!({"one": {"two": {"three": 1}, "one": 1}, "two": {"one": 2}, "three": 3});
        let scope = Lazy { values, asked: Default::default() };
        let compiled = Expression::compile(expression).expect("an expression");
        let _ = compiled.resolve_json(&scope, &runtime());
        assert_eq!(*scope.asked.borrow(), names, "{expression}");
    }
    check("one.two.three", &["one"]);
    check("(one)", &["one"]);
    check("one<two", &["one", "two"]);
    check("[one, two]", &["one", "two"]);
    check("two.one", &["two"]);
    check("one1", &["one1"]);
    check("one_two", &["one_two"]);
    check("oneTwoThree", &["oneTwoThree"]);
    check("'one'", &[]);
    check("one | two", &["one"]);
    check("one || two", &["one"]);
    check("keys(@)", &["one", "three", "two"]);
    check("*", &["one", "three", "two"]);
    check("@.one", &["one"]);
    check("lookup(@, 'one')", &["one"]);
}

#[test]
fn errors_of_a_scope_cannot_be_swallowed() {
    let scope = Lazy { values: json!({}), asked: Default::default() };
    for expression in ["broken", "broken || 'x'", "broken[]", "[broken]", "to_string(broken)", "broken[?a]", "!broken"]
    {
        let compiled = Expression::compile(expression).expect("an expression");
        let found = compiled.resolve_json(&scope, &runtime());
        assert!(matches!(found, Err(EvalError::Variable { .. })), "{expression}: {found:?}");
    }
    let waiting = Expression::compile("waiting.*").expect("an expression").resolve_json(&scope, &runtime());
    assert_eq!(waiting, Err(EvalError::Needs(Lookup::Variable("waiting".to_owned()))));
}

#[test]
fn expressions_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Expression>();
    shared::<Template>();
}
