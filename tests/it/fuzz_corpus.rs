//! The committed fuzz corpus, run as ordinary tests through the targets' own entry functions.

#[path = "../fuzz/author.rs"]
mod author;
#[path = "../fuzz/entry.rs"]
mod entry;

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

fn run(target: &str, entry: fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        let data = std::fs::read(file.expect("an entry").path()).expect("a readable file");
        entry(&data);
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn expressions() {
    run("expression", entry::expression);
}

#[test]
fn templates() {
    run("template", entry::template);
}

#[test]
fn policies() {
    run("policy", entry::policy);
}

#[test]
fn documents() {
    run("json", entry::json);
}

#[test]
fn authors() {
    run("author", |data| {
        author::author(data);
    });
}

/// Cases that are not in the corpus. A share of them must be admitted and write something, or nothing would be shown.
#[test]
fn no_policy_does_more_than_its_author() {
    let worked = AtomicUsize::new(0);
    let config = ProptestConfig::default();
    let config = ProptestConfig { cases: config.cases.max(5_000), failure_persistence: None, ..config };
    proptest!(config, |(data in proptest::collection::vec(any::<u8>(), 0..96))| {
        if author::author(&data) {
            worked.fetch_add(1, Ordering::Relaxed);
        }
    });
    let worked = worked.into_inner();
    assert!(worked > 50, "only {worked} cases were admitted and wrote something");
}

#[test]
fn resources() {
    run("resource", entry::resource);
}
