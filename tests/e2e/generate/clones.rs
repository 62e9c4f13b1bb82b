//! `clone` and `cloneList` by kinds: what the table of events does not show.

use serde_json::json;

use super::rules::Rule;
use super::{SOON, VALUE, base64, label, stage};
use crate::support::eventually;

#[test]
fn copies_say_where_they_come_from() {
    let Some(stage) = stage("clone-labels") else { return };
    stage.source("source", "yes", "1");
    stage.policy(Rule::clone("copy").synchronized());
    stage.trigger("a", "x");
    stage.becomes("secret", "copy-a", VALUE, &base64("1"));
    stage.becomes("secret", "source", &label("clone-source"), "");
    let uid = stage.field("secret", "source", ".metadata.uid").expect("there");
    for (name, value) in
        [("source-uid", uid.as_str()), ("source-group", ""), ("source-version", "v1"), ("source-kind", "Secret")]
    {
        assert_eq!(stage.field("secret", "copy-a", &label(name)).as_deref(), Some(value), "{name}");
    }
    assert_eq!(stage.field("secret", "copy-a", &label("source-namespace")), Some(stage.ns.name.clone()));
}

#[test]
fn a_new_source_is_not_the_old_one() {
    let Some(stage) = stage("clone-anew") else { return };
    stage.source("source", "yes", "1");
    stage.policy(Rule::clone("copy").synchronized());
    stage.trigger("a", "x");
    stage.becomes("secret", "copy-a", VALUE, &base64("1"));
    stage.delete("secret", "source");
    stage.disappears("secret", "copy-a");
    stage.source("source", "yes", "2");
    stage.fence();
    stage.is_absent("secret", "copy-a");
    stage.trigger("a", "y");
    stage.becomes("secret", "copy-a", VALUE, &base64("2"));
}

#[test]
fn a_source_that_is_itself_generated_is_followed() {
    let Some(stage) = stage("clone-chain") else { return };
    stage.source("source", "yes", "1");
    let first = json!({"namespace": "NS", "name": "first-{{request.object.metadata.name}}"});
    stage.policy([Rule::clone("first").synchronized(), Rule::clone("second").making("clone", first).synchronized()]);
    stage.trigger("a", "x");
    stage.becomes("secret", "first-a", VALUE, &base64("1"));
    stage.becomes("secret", "second-a", VALUE, &base64("1"));
    stage.source("source", "yes", "2");
    stage.becomes("secret", "first-a", VALUE, &base64("2"));
    stage.becomes("secret", "second-a", VALUE, &base64("2"));
}

#[test]
fn a_missing_source_is_told_and_tried_again_for_a_while() {
    let Some(stage) = stage("clone-missing") else { return };
    let policy = stage.policy(Rule::clone("copy").synchronized());
    stage.trigger("a", "x");
    eventually(SOON, "an event about the missing source", || {
        let notes = stage.failures(&policy);
        if notes.contains("source v1 Secret") { Ok(()) } else { Err(notes) }
    });
    stage.source("source", "yes", "1");
    stage.trigger("a", "y");
    stage.becomes("secret", "copy-a", VALUE, &base64("1"));
}

#[test]
fn a_list_of_clones_loses_only_what_lost_its_source() {
    let Some(stage) = stage("clone-list") else { return };
    let target = stage.beside("clone-list-target");
    stage.source("one", "yes", "1");
    stage.source("two", "yes", "2");
    let policy = stage.policy(Rule::clone_list("list", "yes", &target.ns.name).synchronized());
    stage.trigger("a", "x");
    target.becomes("secret", "one", VALUE, &base64("1"));
    target.becomes("secret", "two", VALUE, &base64("2"));
    stage.delete("secret", "one");
    target.disappears("secret", "one");
    stage.fence();
    target.is_there("secret", "two");
    stage.delete("clusterpolicy", &policy);
    target.disappears("secret", "two");
}

#[test]
fn finalizers_and_owners_are_not_copied() {
    let Some(stage) = stage("clone-strip") else { return };
    let target = stage.beside("clone-strip-target");
    stage.source("source", "yes", "1");
    let owner = stage.field("secret", "source", ".metadata.uid").expect("there");
    stage.source("owned", "owned", "1");
    stage.patch(
        "secret",
        "owned",
        &json!({"metadata": {
            "finalizers": ["example.org/held"],
            "annotations": {"note": "kept"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "source", "uid": owner}],
        }})
        .to_string(),
    );
    stage.policy(Rule::clone_list("list", "owned", &target.ns.name));
    stage.trigger("a", "x");
    target.becomes("secret", "owned", ".metadata.annotations.note", "kept");
    assert_eq!(target.field("secret", "owned", ".metadata.finalizers").as_deref(), Some(""));
    assert_eq!(target.field("secret", "owned", ".metadata.ownerReferences").as_deref(), Some(""));
    stage.patch("secret", "owned", r#"{"metadata": {"finalizers": null}}"#);
}
