use proptest::prelude::*;
use serde_json::json;

use super::*;

fn path(text: &str) -> FieldPath {
    FieldPath::root().below_pointer(text)
}

#[track_caller]
fn check(text: &str, edits: &[Edit], expected: &str) {
    let value = crate::core::yaml::read_value(text).expect("good YAML");
    let edited = apply(text, &value, edits).map(|(text, _)| text);
    assert_eq!(edited.as_deref(), Ok(expected), "{text}");
}

#[track_caller]
fn check_refused(text: &str, edit: Edit) {
    let value = crate::core::yaml::read_value(text).expect("good YAML");
    assert_eq!(apply(text, &value, &[edit]), Err(Unchangeable), "{text}");
}

fn remove(at: &str) -> Edit {
    Edit::Remove { at: path(at) }
}

fn set(at: &str, value: Value) -> Edit {
    Edit::Set { at: path(at), value }
}

fn insert(into: &str, key: &'static str, value: Value, after: Option<&'static str>) -> Edit {
    Edit::Insert { into: path(into), key, value, after }
}

#[test]
fn scalars_change_and_their_comments_stay() {
    check("a: x  # why\nb: 'y'\n", &[set("a", json!("z"))], "a: z  # why\nb: 'y'\n");
    check("a: \"x\"\nb: y", &[set("b", json!("on")), set("a", json!("1"))], "a: \"1\"\nb: \"on\"");
    check("{\"a\": \"x\"}", &[set("a", json!("z"))], "{\"a\": \"z\"}");
    check("a:\nb: 1\n", &[set("a", json!("z"))], "a: z\nb: 1\n");
    check("l:\n- a: |\n    x\n\n    y\n  b: 1\n", &[set("l/0/a", json!("z"))], "l:\n- a: z\n  b: 1\n");
}

#[test]
fn mappings_become_text() {
    let text = "m:\n  value: # a cluster\n    # its name\n    name: x\n    at:\n    - y\n  next: 1\n";
    let inside = source(text, &path("m/value")).expect("a mapping");
    assert_eq!(inside, "name: x\nat:\n- y\n");
    check(text, &[set("m/value", json!(inside))], "m:\n  value: |\n    name: x\n    at:\n    - y\n  next: 1\n");
    let flow = "m: {value: {a: [1,\n  2]}}\n";
    assert_eq!(source(flow, &path("m/value")).as_deref(), Some("{a: [1,\n2]}\n"));
    check(flow, &[set("m/value", json!("a: b\n"))], "m: {value: \"a: b\\n\"}\n");
}

#[test]
fn entries_go_with_their_lines() {
    check(
        "a: 1\n# of b\nb: # here\n  c: 2\n  d: 3 # last\n# of e\ne: 4\n",
        &[remove("b")],
        "a: 1\n# of b\n# of e\ne: 4\n",
    );
    check("a: 1\nb: 2", &[remove("b")], "a: 1");
    check("l:\n- a: 1 # x\n  b: 2\n- a: 3\n", &[remove("l/0/a"), remove("l/1/a")], "l:\n- b: 2\n- {}\n");
    check("l:\n- b: 1\n  a: |\n    x\n\n- 2\n", &[remove("l/0/a")], "l:\n- b: 1\n\n- 2\n");
    check("{a: 1, b: {c: 2}, d: 3}", &[remove("b")], "{a: 1, d: 3}");
    check("{a: 1, b: {c: 2}, d: 3}", &[remove("d"), remove("b/c"), remove("a")], "{b: {}}");
}

#[test]
fn new_entries_look_like_their_neighbours() {
    let labels = json!({"kuma.io/name": "a", "port": "5"});
    check(
        "l:\n  - kind: x # k\n    z: 1\n",
        &[insert("l/0", "labels", labels.clone(), Some("kind"))],
        "l:\n  - kind: x # k\n    labels:\n      kuma.io/name: a\n      port: \"5\"\n    z: 1\n",
    );
    check("l:\n- z: 1\n", &[insert("l/0", "a", json!({}), None)], "l:\n- a: {}\n  z: 1\n");
    check(
        "t: {kind: x, z: 1}",
        &[insert("t", "labels", labels.clone(), Some("kind"))],
        "t: {kind: x, labels: {kuma.io/name: a, port: \"5\"}, z: 1}",
    );
    check(
        r#"{"t": {"kind": "x"}}"#,
        &[insert("t", "labels", json!({"a": "b"}), Some("kind")), insert("", "n", json!(1), None)],
        r#"{"n": 1, "t": {"kind": "x", "labels": {"a": "b"}}}"#,
    );
    check("t: {}\n", &[insert("t", "a", json!("b"), None)], "t: {\"a\": \"b\"}\n");
}

#[test]
fn entries_are_renamed_replaced_and_nested() {
    let rename = Edit::Rename { at: path("a/b"), key: "c" };
    check("a:\n  b: # why\n  - 1\n", std::slice::from_ref(&rename), "a:\n  c: # why\n  - 1\n");
    check("{\"a\": {\"b\": 1}}", &[rename], "{\"a\": {\"c\": 1}}");
    let replace = Edit::Replace { at: path("a/name"), key: "labels", value: json!({"x": "v"}) };
    check("a:\n- 1\nb: 2\n", &[Edit::Replace { at: path("a"), key: "c", value: json!(3) }], "c: 3\nb: 2\n");
    check("a:\n  name: z # n\n  q: 1\n", std::slice::from_ref(&replace), "a:\n  labels:\n    x: v # n\n  q: 1\n");
    check("a: {name: z, q: 1}\n", &[replace], "a: {labels: {x: v}, q: 1}\n");
    let nest = Edit::Nest { at: path("conf"), under: "spec" };
    check(
        "a: 1\nconf: # c\n  t: |\n    x\n\n    y\n  # end\nb: 2\n",
        std::slice::from_ref(&nest),
        "a: 1\nspec:\n  conf: # c\n    t: |\n      x\n\n      y\n  # end\nb: 2\n",
    );
    check("{conf: {a: 1}}", &[nest], "{spec: {conf: {a: 1}}}");
}

#[test]
fn what_cannot_be_changed_in_place_is_refused() {
    check_refused("a: &x {n: 1}\nb: *x\n", set("b/n", json!(2)));
    check_refused("a: &x {n: 1}\nb: *x\n", set("a/n", json!(2)));
    check_refused("a: &x {n: 1}\nb:\n  <<: *x\n  m: 2\n", remove("b/n"));
    check_refused("a: 1\na: 2\nb: 3\n", remove("a"));
    check_refused("a: 1\nb: 2\n", Edit::Rename { at: path("a"), key: "b" });
    check_refused("a: 1\n", insert("", "a", json!(2), None));
    check_refused("a: 1\n", remove("b"));
    check_refused("a: 1\n", insert("a", "b", json!(2), None));
}

#[test]
fn documents_have_their_places() {
    let text = "# first\na: 1 # x\n# behind\n---\n\n# only a comment\n---\n- b\n\n...\n--- ~\n--- # c\nd: |\n  x\n";
    let texts = |text: &str| -> Vec<_> {
        let parts = parts(text).expect("good YAML");
        parts.iter().map(|part| (text[part.range.clone()].to_owned(), part.indent)).collect()
    };
    let part = |text: &str, indent| (text.to_owned(), indent);
    assert_eq!(texts(text), [part("a: 1 # x", 0), part("- b", 0), part("d: |\n  x", 0)]);
    let list = "kind: List\nitems:\n  - a: 1\n    b: 2 # b\n  -\n    c: 3\n  - {d: 4} # d\n";
    assert_eq!(texts(list), [part("a: 1\n    b: 2 # b", 4), part("c: 3", 4), part("{d: 4}", 0)]);
    assert_eq!(super::parts("a: ["), None);
}

proptest! {
    #[test]
    fn no_text_panics(text in "[\\[\\]{}:,&*!|>'\"#ab0-9 \\n\\-?é]{0,60}") {
        let _ = parts(&text);
        for document in crate::core::yaml::read(&text).into_iter().flatten() {
            for at in ["a", "b", "a/b", "a/0/b"] {
                let edits = [
                    remove(at), set(at, json!("x\ny\n")), Edit::Rename { at: path(at), key: "c" },
                    Edit::Replace { at: path(at), key: "c", value: json!({"d": {"e": 1}}) },
                    Edit::Nest { at: path(at), under: "c" }, insert(at, "c", json!({"d": 1}), Some("a")),
                ];
                for edit in edits {
                    let _ = apply(&text, &document.value, &[edit]);
                }
            }
        }
    }
}
