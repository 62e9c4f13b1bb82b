//! What each fuzz target runs. The ordinary tests run the committed corpus through the same functions.
#![allow(dead_code, unreachable_pub, reason = "each target is a crate of its own and uses one of them")]

use serde_json::{Value, json};
use writ::compile;
use writ::core::expr::{Expression, Limits, Runtime, Template, parse_tree};
use writ::core::generate::{Answer, Evaluation, Facts, Fetch, InstallBounds, Policy, Trigger, drive};
use writ::core::json::Document;
use writ::core::json::cursor::Cursor;
use writ::core::yaml;

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
    assert_eq!(first, compiled.search_json(&document, &runtime()), "the same facts give the same value");
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
    assert_eq!(first, template.substitute(&context, &runtime()), "the same facts give the same document");
    if let Ok(value) = &first
        && !text.contains("{{")
        && !text.contains("$(")
    {
        assert_eq!(*value, document, "a document without tokens stays as it is");
    }
}

/// A policy as YAML: compiled, and if it compiles, run for a few objects in a world where everything asked for is there.
pub fn policy(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(document) = yaml::read_value(text) else { return };
    let _ = compile::check(&document);
    let (Some(policy), _) = compile::generate::policy(&document) else {
        return;
    };
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": {"sync": "x,y"}}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    ] {
        run(&policy, &object);
    }
}

/// A trigger as YAML, for policies that use every form there is.
pub fn resource(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(object) = yaml::read_value(text) else { return };
    for document in yaml::read(POLICIES) {
        let document = document.expect("good YAML").value;
        let (policy, findings) = compile::generate::policy(&document);
        run(&policy.unwrap_or_else(|| panic!("{:?}", findings.errors)), &object);
    }
}

/// A document that borrows is read as `serde_json` reads it, and refused where that refuses it; what is stepped over ends
/// where it does.
pub fn json(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let value = serde_json::from_str::<Value>(text).ok();
    assert_eq!(Document::read(text).ok().map(|document| document.to_value()), value, "{text}");
    if value.is_some() {
        let mut cursor = Cursor::new(text);
        cursor.skip().expect("a good value has an end");
        cursor.end().expect("nothing follows it");
    }
}

fn run(policy: &Policy, object: &Value) {
    let source = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n", "uid": "u"}, "data": {}});
    for rule in &policy.rules {
        let trigger = Trigger::background(object.clone());
        let evaluate = || {
            let mut facts = Facts::new("2024-02-29T12:00:00Z".parse().expect("a time"), 1, InstallBounds::offline());
            facts.limits.expressions = limits();
            facts.limits.context_bytes = 1 << 16;
            facts.limits.elements = 100;
            facts.limits.plan_bytes = 1 << 20;
            drive(rule, &trigger, &mut facts, |fetch| match fetch {
                Fetch::List(_) => Answer::found(json!([source.clone()])),
                Fetch::Host(_) => Answer::found(json!(["10.0.0.1"])),
                _ => Answer::found(source.clone()),
            })
        };
        let first = evaluate();
        assert_eq!(first, evaluate(), "the same facts give the same plan");
        if let (Ok(Evaluation::Done(plan)), Some(namespace)) = (first, &policy.key.namespace) {
            for target in plan.targets {
                assert_eq!(target.key.namespace.as_ref(), Some(namespace), "a Policy stays in its namespace");
            }
        }
    }
}

const POLICIES: &str = include_str!("policies.yaml");

fn limits() -> Limits {
    Limits { steps: 50_000, bytes: 1 << 20, depth: 64 }
}

fn runtime() -> Runtime {
    Runtime::new("2024-02-29T12:00:00Z".parse().expect("a time"), 1).with_limits(limits())
}
