//! Substitution row by row.

use serde_json::{Value, json};

use super::*;
use crate::core::expr::Limits;

fn runtime() -> Runtime {
    Runtime::new(jiff::Timestamp::UNIX_EPOCH, 0)
}

fn context() -> Value {
    json!({
        "a": "A", "b": "B", "e": "", "n": 5, "o": {"k": 1}, "z": null, "x": "{{a}}", "foo": {"A": 7},
        "loop": "{{ loop }} ", "nest": {"again": "{{ nest }}"}, "deep": {"v": "{{ a }}", "{{ b }}": 1},
        "list": ["{{ a }}", {"{{ a }}": "{{ n }}"}], "bin": "YfCfmGI=",
        "request": {"object": {"metadata": {"name": "temp", "annotations": {"targetnew": "target"}}, "spec": {"kind": "K"}}},
    })
}

fn run(input: Value) -> Result<Value, TemplateError> {
    substitute(&input, &context(), &runtime())
}

#[track_caller]
fn check(input: Value, expected: Value) {
    match run(input.clone()) {
        Ok(found) => assert_eq!(found, expected, "{input}"),
        Err(error) => panic!("{input}: {error}"),
    }
}

#[track_caller]
fn refuse(input: Value, message: &str) {
    let error = run(input.clone()).expect_err("an error").to_string();
    assert!(error.contains(message), "{input}: {error}");
}

#[test]
fn a_whole_token_keeps_its_type() {
    check(json!("{{ n }}"), json!(5));
    check(json!(" {{ n }}"), json!(" 5"));
    check(json!("{{ z }}"), json!(null));
    check(json!("v={{ z }}"), json!("v=null"));
    check(json!("{{ o }}"), json!({"k": 1}));
    check(json!("v={{ o }}"), json!(r#"v={"k":1}"#));
    check(json!("{{ e }}"), json!(""));
}

#[test]
fn neighbours_are_found_in_the_next_pass() {
    check(json!("{{a}}{{b}}"), json!("AB"));
    check(json!("!{{ request.object.metadata.name }}"), json!("!temp"));
    check(json!("é{{a}}é"), json!("éAé"));
}

#[test]
fn nested_tokens_are_evaluated_from_the_inside() {
    check(json!("{{ foo.{{a}} }}"), json!(7));
    check(json!("{{ foo.{{ a }} }}!"), json!("7!"));
    check(json!("{{ `{\"p\": 1}` }}"), json!({"p": 1}));
    check(json!("{{ {p: a, q: n} }}"), json!({"p": "A", "q": 5}));
    check(json!("{{ {a: {b: c}} }}"), json!("{{ {a: {b: c}} }}"));
}

#[test]
fn embedded_results_are_read_again() {
    check(json!("{{x}}"), json!("{{a}}"));
    check(json!(" {{x}}"), json!(" A"));
}

#[test]
fn shallow_tokens_are_not_read_again() {
    check(json!("{{- a}}{{b}}"), json!("A{{b}}"));
    check(json!("{{- x}} {{b}}"), json!("{{a}} B"));
    check(json!("{{- x }}"), json!("{{a}}"));
    check(json!("v {{- z }}"), json!("v null"));
    refuse(json!("v {{- o }}"), "only text");
    refuse(json!("{{- n }}"), "only text");
}

#[test]
fn escaped_tokens_lose_their_backslash() {
    check(json!("\\{{a}} {{b}}"), json!("{{a}} B"));
    check(json!("\\\\{{a}}"), json!("\\{{a}}"));
    check(
        json!("\\{{request.object.metadata.annotations.{{request.object.metadata.annotations.targetnew}}}}"),
        json!("{{request.object.metadata.annotations.target}}"),
    );
}

#[test]
fn unbalanced_braces_are_text() {
    for text in ["{{ a", "a }}", "{{ a }", "{ {a} }", "{{a} }"] {
        check(json!(text), json!(text));
    }
}

#[test]
fn keys_are_substituted() {
    check(json!({"{{ a }}": "{{ b }}", "k-{{ n }}": 1}), json!({"A": "B", "k-5": 1}));
    check(json!({"{{ z }}": 1}), json!({"{{ z }}": 1}));
    refuse(json!({"p": {"{{ o }}": 1}}), r#"expected string after substituting variables in key "{{ o }}""#);
}

#[test]
fn lists_and_objects_in_a_result_are_substituted() {
    check(json!({"d": "{{ deep }}"}), json!({"d": {"v": "A", "B": 1}}));
    check(json!("{{ list }}"), json!(["A", {"A": 5}]));
    check(json!([1, true, null, 2.5]), json!([1, true, null, 2.5]));
}

#[test]
fn errors_name_the_path_and_the_expression() {
    let failed = run(json!({"data": [{"na/me": "x-{{ o.missing }}"}]})).expect_err("a missing key");
    assert_eq!(
        failed.to_string(),
        r#"failed to resolve o.missing at path /data/0/na\/me: JMESPath query failed: Unknown key "missing" in path"#
    );
    refuse(json!({"a": "{{ a.[ }}"}), "column 4");
    refuse(json!("{{ }}"), "the expression is empty");
    refuse(json!("{{ nope() }}"), "unknown function: nope");
    check(json!("{{ o.missing || '' }}"), json!(""));
}

#[test]
fn problems_are_known_before_evaluation() {
    let template = Template::compile(&json!({"a": "{{ b. }}", "c": "{{ d.{{ e }} }}", "f": "{{ ok }}{{ too bad }}"}));
    let problems: Vec<String> = template.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("at path /a"), "{problems:?}");
    assert!(problems[1].contains("at path /f"), "{problems:?}");
    assert_eq!(template.expressions().collect::<Vec<_>>(), ["e", "ok"]);
    assert_eq!(Template::compile(&json!("$(FOO)")).problems().len(), 1);
}

#[test]
fn the_current_object_is_named_by_the_leaf() {
    check(
        json!({"mutate": {"overlay": {"spec": {"kind": "{{@}}"}}}}),
        json!({"mutate": {"overlay": {"spec": {"kind": "K"}}}}),
    );
    let scope = json!({"target": {"spec": {"kind": "T"}}});
    let document = json!({"mutate": {"overlay": {"spec": {"kind": "{{ @ }}"}}}});
    let found = substitute(&document, &scope, &runtime()).expect("a value");
    assert_eq!(found.pointer("/mutate/overlay/spec/kind"), Some(&json!("T")));
}

#[test]
fn on_delete_the_old_object_is_meant() {
    let scope = |operation: &str| json!({"request": {"operation": operation, "object": {"v": "new"}, "oldObject": {"v": "old"}}});
    let run = |operation: &str, text: &str| substitute(&json!(text), &scope(operation), &runtime()).expect("a value");
    assert_eq!(run("DELETE", "{{ request.object.v }}"), json!("old"));
    assert_eq!(run("UPDATE", "{{ request.object.v }}"), json!("new"));
    assert_eq!(run("DELETE", "{{ 'request.object' }}"), json!("request.oldObject"));
    let bare = Expression::compile("request.object.v").expect("an expression");
    assert_eq!(bare.resolve_json(&scope("DELETE"), &runtime()), Ok(json!("new")));
}

#[test]
fn binary_text_survives_until_it_is_stored() {
    check(json!("{{ base64_encode(base64_decode(bin)) }}"), json!("YfCfmGI="));
    check(json!("{{ base64_decode(bin) }}"), json!("a\u{fffd}\u{fffd}\u{fffd}b"));
    check(json!("{{ length(base64_decode(bin)) }}"), json!(5));
}

#[test]
fn references_come_before_variables() {
    check(json!({"p": "{{ a }}", "q": "$(../p)"}), json!({"p": "A", "q": "A"}));
    check(json!({"q": "\\$(X)", "r": "{{ a }}"}), json!({"q": "$(X)", "r": "A"}));
}

#[test]
fn text_that_refers_to_itself_ends() {
    refuse(json!("{{ loop }}!"), "goes beyond 64 passes of substitution");
    refuse(json!("{{ nest }}"), "goes beyond 64 passes of substitution");
}

#[test]
fn a_small_budget_stops_a_large_document() {
    let limits = Limits { steps: 100, ..Limits::default() };
    let document = json!(vec!["{{ a }}"; 1000]);
    let error = substitute(&document, &context(), &runtime().with_limits(limits)).expect_err("a budget error");
    assert!(error.to_string().contains("goes beyond 100 steps"), "{error}");
}

/// A text that was computed holds values: neither it nor what is below it in the document may be quoted.
#[test]
fn no_message_shows_what_a_substitution_has_brought_in() {
    let scope = json!({
        "secret": "hidden-text",
        "call": "{{ hidden_function(secret) }}",
        "path": "{{ absent.hidden_key }}",
        "broken": "{{ hidden( }}",
        "object": {"hidden-key": "{{ absent.hidden_key }}", "hidden-list": [{"x": "{{ hidden( }}"}]},
        "keyed": {"{{ o }}": 1},
        "o": {"hidden-key": "hidden-value"},
    });
    #[track_caller]
    fn check(scope: &Value, template: Value, expected: &str) {
        let error = substitute(&template, scope, &runtime()).expect_err("an error");
        let shown = [error.to_string(), format!("{error:?}")].concat();
        assert!(!shown.contains("hidden"), "{shown}");
        assert!(shown.contains(expected), "{shown}");
    }
    check(&scope, json!({"a": "x {{ call }}"}), "a computed expression");
    check(&scope, json!({"a": "x {{ path }}"}), "at path /a");
    check(&scope, json!({"a": "x {{ broken }}"}), "it is not JMESPath");
    check(&scope, json!({"a": "{{ object }}"}), "at path /a");
    check(&scope, json!({"a": "{{ keyed }}"}), "in key \"…\" at path /a");
    check(&scope, json!({"a": "{{ o.\"{{ secret }}\" }}"}), "at path /a");
    check(&scope, json!({"a": "{{ \"{{ secret }}\"(o) }}"}), "at path /a");
    check(&scope, json!({"a": "{{ split(o, '{{ secret }}') }}"}), "an object with 1 key");
    check(&scope, json!({"a": "{{ sort_by(`[{}, {}]`, &\"{{ secret }}\") }}"}), "at path /a");
    check(&scope, json!({"a": "{{- o }}"}), "not an object with 1 key");
    check(&scope, json!({"a": "{{- o }} x"}), "not an object with 1 key");
    check(&scope, json!({"{{ o }}": 1}), "expected string after substituting");
}
