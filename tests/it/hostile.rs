//! Hostile expressions and templates: each ends in an error, soon and in bounded memory.

use serde_json::{Value, json};
use writ::core::expr::{Expression, Runtime, template};

use crate::support::core_time::spent;

/// Seconds that hostile input may take; code without optimisation is allowed more.
const PATIENCE: f64 = if cfg!(debug_assertions) { 4.0 } else { 1.0 };

fn runtime() -> Runtime {
    Runtime::new(jiff::Timestamp::UNIX_EPOCH, 0)
}

#[test]
fn deep_expressions_are_refused() {
    let shapes: &[(&str, &str, &str)] = &[
        ("[", "a", "]"),
        ("(", "a", ")"),
        ("{a: ", "a", "}"),
        ("f(", "a", ")"),
        ("!", "a", ""),
        ("& ", "a", ""),
        ("", "a", ".a"),
        ("", "a", "[*]"),
        ("", "a", "[]"),
        ("", "a", "[:]"),
        ("", "a", "[0]"),
        ("", "a", "[?b]"),
        ("", "*", ".*"),
        ("", "a", "[*].a"),
        ("", "a", " | a"),
        ("", "a", " || a"),
        ("", "a", " && a"),
        ("", "a", " == a"),
        ("[?", "a", "]"),
        ("a.{b: ", "a", "}"),
    ];
    for (open, middle, close) in shapes {
        for count in [100, 127, 200, 1_000, 8_000, 100_000] {
            let started = spent();
            let text = format!("{}{middle}{}", open.repeat(count), close.repeat(count));
            let compiled = Expression::compile(&text);
            assert!(count < 128 || compiled.is_err(), "{count} times {open}{close}");
            if let Ok(compiled) = compiled {
                let _ = compiled.search_json(&json!({"a": [[[1]]]}), &runtime());
            }
            let elapsed = spent() - started;
            assert!(elapsed < PATIENCE, "{count} times {open}{close}: {elapsed} s");
        }
    }
}

#[test]
fn hostile_expressions_end_in_an_error() {
    let document = json!({
        "large": "a".repeat(50 << 20), "words": vec!["word"; 100_000], "numbers": (0..100_000).collect::<Vec<_>>(),
    });
    let repeated = |step: &str| format!("numbers{}", format!(" | {step}").repeat(60));
    for expression in [
        &*repeated("[@, @]"),
        &*repeated("[@, @][]"),
        &*repeated("to_string([@, @])"),
        "split(large, '')",
        "split(large, 'a')",
        "replace_all(large, '', 'bbbbbbbb')",
        "replace_all(large, 'a', 'bbbbbbbb')",
        "regex_match('(a*)*b', large)",
        "regex_replace_all('a', large, 'bbbbbbbb')",
        "base64_encode(large)",
        "to_upper(large)",
        "reverse(large)",
        "sha256(large)",
        "parse_json(large)",
        "parse_yaml(large)",
        "pattern_match('*a*a*a*a*a*a*a*a*a*a*b', large)",
        "join(large, words)",
        "join('', [large, large])",
        "items(words, large, large)",
        "words[].split(@, '').join('', @).to_string([@, @, @, @])",
        "map(&sort_by(@, &@), [numbers, numbers, numbers, numbers])",
        "map(&object_from_lists(@, @), [words, words, words, words, words, words, words, words, words, words, words])",
        "numbers[?contains(`[1, 2, 3]`, @)] && numbers[*].[@, @, @, @, @, @, @, @, @, @, @, @, @, @, @, @, @, @, @]",
        "random('((((((a{1000}){1000}){1000}){1000}){1000}){1000})')",
    ] {
        let started = spent();
        let compiled = Expression::compile(expression).unwrap_or_else(|error| panic!("{error}"));
        let found = compiled.search_json(&document, &runtime());
        let elapsed = spent() - started;
        assert!(found.is_err(), "{expression} gave a value");
        assert!(elapsed < PATIENCE, "{expression}: {elapsed} s");
    }
}

#[test]
fn templates_that_refer_to_themselves_end() {
    let context = json!({
        "once": "{{ once }} ", "twice": "{{twice}} {{twice}}", "nest": {"again": "{{ nest }}"},
        "fork": {"left": "{{ fork }}", "right": "{{ fork }}"},
        "deep": serde_json::from_str::<Value>(&format!("{}\"{{{{ deep }}}}\"{}", "[".repeat(100), "]".repeat(100))).unwrap(),
    });
    for text in ["{{ once }}!", "!{{ twice }}", "{{ nest }}", "{{ fork }}", "{{ deep }}"] {
        let started = spent();
        let found = template::substitute(&json!(text), &context, &runtime());
        let elapsed = spent() - started;
        let error = found.expect_err(text).to_string();
        assert!(error.contains("goes beyond"), "{text}: {error}");
        assert!(elapsed < PATIENCE, "{text}: {elapsed} s");
    }
}

#[test]
fn large_templates_are_read_once() {
    let size = if cfg!(debug_assertions) { 256 << 10 } else { 2 << 20 };
    for piece in ["{", "{{a}", "{{ {a} ", "{{a", "}}", "$(", "$(a)", "\\{{", "\\$(a) "] {
        let text = piece.repeat(size / piece.len());
        let started = spent();
        let _ = template::substitute(&json!(text), &json!({"a": 1}), &runtime());
        let elapsed = spent() - started;
        assert!(elapsed < PATIENCE, "{piece} over and over: {elapsed} s");
    }
}
