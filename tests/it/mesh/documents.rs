//! The cases of `tests/cases/mesh`: `seeds` has the examples of the two proposals that the routes come from, as they stand
//! there; `policies` has a file for each kind of policy.
//!
//! Every document says in comments before it what is found in it: `# error: FIELD CLASS` and `# warning: FIELD CLASS`. A
//! document with errors is refused, and its warnings do not matter; every other is accepted with exactly these warnings.

use std::fs;
use std::path::Path;

use writ::compile::{self, KumaVersion};
use writ::core::problem::Problem;
use writ::core::yaml;

use crate::support::command::writ;

#[test]
fn examples_are_accepted_and_their_slips_are_not() {
    assert_eq!(check("seeds"), (36, 15));
}

#[test]
fn every_policy_has_what_is_accepted_and_what_is_refused() {
    let (accepted, refused) = check("policies");
    let kinds: Vec<_> = compile::mesh::kinds().policies().map(|policy| policy.resource.kind).collect();
    assert!(accepted >= kinds.len() && refused >= kinds.len(), "{accepted} {refused}");
    for kind in kinds {
        let of_kind = |text: &str| text.contains(&format!("\nkind: {kind}\n"));
        let has = |refused: bool| {
            let mut documents = documents("policies").into_iter();
            documents.any(|(_, text)| of_kind(&format!("\n{text}")) && expected(&text, "error").is_empty() != refused)
        };
        assert!(has(false) && has(true), "{kind} has both");
    }
}

/// Checks every document of a folder; gives how many are accepted and how many refused.
fn check(folder: &str) -> (usize, usize) {
    let (mut accepted, mut refused) = (0, 0);
    for (name, text) in documents(folder) {
        let findings = compile::check(&yaml::read_value(&text).expect("good YAML")).expect(&name);
        let errors = expected(&text, "error");
        assert_eq!(classes(&findings.errors), errors, "{name}");
        if errors.is_empty() {
            assert_eq!(classes(&findings.schema), errors, "{name}");
            assert_eq!(classes(&findings.warnings), expected(&text, "warning"), "{name}");
            let removed = |class: &String| class.ends_with(" REMOVED");
            let (removed, others): (Vec<_>, Vec<_>) = expected(&text, "warning").into_iter().partition(removed);
            let of_kuma_3 = findings.seen_by(KumaVersion::Three);
            assert_eq!((classes(&of_kuma_3.errors), classes(&of_kuma_3.warnings)), (removed, others), "{name}");
            accepted += 1;
        } else {
            refused += 1;
        }
    }
    (accepted, refused)
}

/// Every document of a folder, with a name for messages.
pub(super) fn documents(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/mesh").join(folder);
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the case folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let mut documents = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("readable");
        for (index, part) in text.split("\n---\n").enumerate() {
            documents.push((format!("{}, document {index}", file.display()), part.to_owned()));
        }
    }
    documents
}

fn expected(part: &str, level: &str) -> Vec<String> {
    let prefix = format!("# {level}: ");
    part.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

fn classes(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{} {}", problem.field, problem.reason.as_str())).collect()
}

#[test]
fn unknown_fields_are_warned_of_and_strictly_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("timeout.yaml");
    let text = "apiVersion: kuma.io/v1alpha1\nkind: MeshTimeout\nmetadata: {name: x}\nmesh: default\nspec:\n  \
                to: [{targetRef: {kind: Mesh}, default: {idleTimeout: 1s, idle: 1s}}]\n";
    fs::write(&file, text).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let lenient = writ(&["validate", file]).expect(0).out;
    let strict = writ(&["validate", "--strict", file]).expect(1).out;
    for field in ["mesh", "spec.to[0].default.idle"] {
        assert!(lenient.contains(&format!("warning: MeshTimeout x: {field}: unknown field")), "{lenient}");
        assert!(strict.contains(&format!("error: MeshTimeout x: {field}: unknown field")), "{strict}");
    }
}

#[test]
fn the_metadata_of_files_is_checked_as_a_server_would() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("timeout.yaml");
    let content = "spec:\n  to: [{targetRef: {kind: Mesh}, default: {idleTimeout: 1s}}]\n";
    let told = |head: &str, code: u8| {
        fs::write(&file, format!("{head}{content}")).expect("a file");
        writ(&["validate", file.to_str().expect("UTF-8")]).expect(code).out
    };
    assert!(told("type: MeshTimeout\nname: a_b\nmesh: default\n", 1).contains("name: malformed"));
    told("type: MeshTimeout\nname: a-b\nmesh: default\n", 0);
    let object = "apiVersion: kuma.io/v1alpha1\nkind: MeshTimeout\n";
    assert!(told(&format!("{object}metadata: {{name: x, labels: {{a: 1}}}}\n"), 1).contains("must be text"));
    told(&format!("{object}metadata: {{name: x, labels: {{a: '1'}}}}\n"), 0);
}
