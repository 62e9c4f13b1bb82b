//! The cases of `tests/cases/migrate`, and `writ migrate` as somebody types it.
//!
//! A case is a text before and after. Comments in each document say what is told about it: `# rewritten: FIELD` and
//! `# by hand: FIELD`, in any order.

mod commands;
mod laws;

use std::fs;
use std::path::Path;

use writ::compile::KumaVersion;
use writ::compile::mesh::migrate::{Migrated, Migration, Remark, Settings};
use writ::core::yaml;

fn migrate(text: &str) -> Migration {
    writ::compile::mesh::migrate::migrate(text, &Settings { system_namespace: "kuma-system".to_owned() })
        .expect("good YAML")
}

#[test]
fn every_case_comes_out_as_it_should() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/migrate");
    let mut cases: Vec<_> = fs::read_dir(folder).expect("the cases").map(|case| case.expect("a case").path()).collect();
    cases.sort();
    assert!(cases.len() >= 11, "{} cases", cases.len());
    for case in cases {
        let read = |name: &str| fs::read_to_string(case.join(name)).expect("a file");
        let (name, before, after) = (case.display().to_string(), read("before.yaml"), read("after.yaml"));
        let migration = migrate(&before);
        assert_eq!(migration.text, after, "{name}");
        check_remarks(&name, "rewritten", &before, &migration, |document| &document.changes);
        check_remarks(&name, "by hand", &before, &migration, |document| &document.remaining);
        check_result(&name, &migration);
    }
}

/// Every comment `# LEVEL: FIELD` is a remark, and the other way round; each stands on a line of its document.
fn check_remarks(
    name: &str,
    level: &str,
    text: &str,
    migration: &Migration,
    remarks: impl Fn(&Migrated) -> &Vec<Remark>,
) {
    let lines: Vec<_> = text.lines().collect();
    let document_of = |line: usize| lines[..line].iter().filter(|line| line.starts_with("---")).count();
    let prefix = format!("# {level}: ");
    let mut expected: Vec<_> = lines
        .iter()
        .enumerate()
        .filter_map(|(number, line)| {
            Some((document_of(number + 1), line.trim_start().strip_prefix(&prefix)?.to_owned()))
        })
        .collect();
    let told = migration.documents.iter().flat_map(remarks);
    let mut told: Vec<_> =
        told.map(|remark| (document_of(remark.position.line), remark.problem.field.to_string())).collect();
    expected.sort();
    told.sort();
    assert_eq!(told, expected, "{name}: {level}");
}

/// What is left over is told; if nothing is, Kuma 3 takes it all. And there is nothing to do a second time.
fn check_result(name: &str, migration: &Migration) {
    let mut refused = 0;
    for document in yaml::read(&migration.text) {
        let document = document.expect("good YAML").value;
        let items = document.get("items").and_then(|items| items.as_array()).cloned().unwrap_or(vec![document]);
        let findings =
            items.iter().filter_map(writ::compile::check).map(|findings| findings.seen_by(KumaVersion::Three));
        refused += findings.filter(|findings| !findings.errors.is_empty() || !findings.schema.is_empty()).count();
    }
    let unfinished = migration.documents.iter().filter(|document| !document.remaining.is_empty()).count();
    assert_eq!(refused, unfinished, "{name}");
    let again = migrate(&migration.text);
    assert_eq!(again.text, migration.text, "{name}");
    assert!(again.documents.iter().all(|document| document.changes.is_empty()), "{name}: {:?}", again.documents);
}
