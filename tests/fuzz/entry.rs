//! What each fuzz target runs. The ordinary tests run the committed corpus through the same functions.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each target is a crate of its own and uses one of them"
)]

use serde_json::{Value, json};
use writ::core::expr::{Expression, Limits, Runtime, Template, parse_tree};

/// An expression, a line `---`, a document. No input may panic, and none may outlive its budget.
pub fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (expression, document) = text.split_once("\n---\n").unwrap_or((text, "null"));
    let document: Value = serde_json::from_str(document).unwrap_or(Value::Null);
    let Ok(compiled) = Expression::compile(expression) else {
        return;
    };
    assert!(parse_tree(expression).is_ok(), "an expression that compiles has a tree");
    let _ = compiled.names();
    let first = compiled.search_json(&document, &runtime());
    assert_eq!(
        first,
        compiled.search_json(&document, &runtime()),
        "the same facts give the same value"
    );
    if document.is_object()
        && let (Ok(whole), Ok(asked)) = (first, compiled.resolve_json(&document, &runtime()))
    {
        assert_eq!(whole, asked, "a scope gives what the document gives");
    }
}

/// A document as text or JSON, substituted in a context that holds tokens itself.
pub fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let document = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    let template = Template::compile(&document);
    let context = json!({
        "a": "A", "n": 5, "z": null, "o": {"k": 1, "{{a}}": "{{n}}"}, "l": ["{{ a }}", 1], "x": "{{a}}", "self": "{{ self }} ",
        "twice": "{{twice}}{{twice}}", "bin": "/w==",
        "request": {"operation": "DELETE", "object": null, "oldObject": {"metadata": {"name": "n"}}},
    });
    let first = template.substitute(&context, &runtime());
    assert_eq!(
        first,
        template.substitute(&context, &runtime()),
        "the same facts give the same document"
    );
    if let Ok(value) = &first
        && !text.contains("{{")
        && !text.contains("$(")
    {
        assert_eq!(*value, document, "a document without tokens stays as it is");
    }
}

fn runtime() -> Runtime {
    let limits = Limits {
        steps: 50_000,
        bytes: 1 << 20,
        depth: 64,
    };
    Runtime::new("2024-02-29T12:00:00Z".parse().expect("a time"), 1).with_limits(limits)
}
