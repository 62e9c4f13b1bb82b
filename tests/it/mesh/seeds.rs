//! The cases of `tests/cases/mesh/seeds`: the examples of the two proposals that the routes come from, as they stand there.
//!
//! Every document says in comments before it what is found in it: `# error: FIELD CLASS` and `# warning: FIELD CLASS`. A
//! document with errors is refused, and its warnings do not matter; every other is accepted with exactly these warnings.

use std::fs;
use std::path::Path;

use writ::compile;
use writ::core::problem::Problem;
use writ::core::yaml;

#[test]
fn examples_are_accepted_and_their_slips_are_not() {
    let (mut accepted, mut refused) = (0, 0);
    for (name, text) in documents() {
        let findings = compile::check(&yaml::read_value(&text).expect("good YAML")).expect(&name);
        let errors = expected(&text, "error");
        assert_eq!(classes(&findings.errors), errors, "{name}");
        if errors.is_empty() {
            assert_eq!(classes(&findings.schema), errors, "{name}");
            assert_eq!(classes(&findings.warnings), expected(&text, "warning"), "{name}");
            accepted += 1;
        } else {
            refused += 1;
        }
    }
    assert_eq!((accepted, refused), (37, 14));
}

/// Every document, with a name for messages.
pub(super) fn documents() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/mesh/seeds");
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
