//! The cases of `tests/cases/proxy-template`: what is accepted, and what is refused at which field for which reason.
//!
//! Expectations stand in the comments at the top of each file: `# error: FIELD CLASS` and `# warning: FIELD CLASS`.

use std::fs;
use std::path::{Path, PathBuf};

use writ::compile::{self, KumaVersion};
use writ::core::problem::Problem;
use writ::core::yaml;

#[test]
fn accepted_templates_are_accepted() {
    let cases = cases("accepted");
    assert!(cases.iter().filter(|case| case.name.starts_with("example-")).count() == 8, "all eight examples are here");
    for case in cases {
        let findings = case.check();
        assert_eq!(classes(&findings.errors), Vec::<String>::new(), "{}", case.name);
        // Every template is told at its end that Kuma 3 has no more of its kind.
        let expected = [case.expected("warning"), vec![" REMOVED".to_owned()]].concat();
        assert_eq!(classes(&findings.warnings), expected, "{}", case.name);
    }
}

#[test]
fn refused_templates_are_refused_for_the_right_reasons() {
    let cases = cases("refused");
    assert!(cases.len() >= 25, "{} cases", cases.len());
    for case in cases {
        let expected = case.expected("error");
        assert!(!expected.is_empty(), "{} says what is wrong with it", case.name);
        assert_eq!(classes(&case.check().errors), expected, "{}", case.name);
    }
}

#[test]
fn kuma_3_refuses_every_template() {
    for case in cases("accepted") {
        let findings = case.check().seen_by(KumaVersion::Three);
        assert_eq!(classes(&findings.errors), [" REMOVED"], "{}", case.name);
        assert_eq!(classes(&findings.warnings), case.expected("warning"), "{}", case.name);
    }
}

struct Case {
    name: String,
    text: String,
}

impl Case {
    fn check(&self) -> compile::Findings {
        let document = yaml::read(&self.text).remove(0).expect("good YAML");
        compile::check(&document.value).expect("a kind that is checked")
    }

    fn expected(&self, level: &str) -> Vec<String> {
        let prefix = format!("# {level}: ");
        self.text.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
    }
}

fn cases(folder: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/proxy-template").join(folder);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("the case folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let read = |file: PathBuf| Case {
        name: file.file_stem().expect("a name").to_string_lossy().into_owned(),
        text: fs::read_to_string(&file).expect("readable"),
    };
    files.into_iter().map(read).collect()
}

fn classes(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{} {}", problem.field, problem.reason.as_str())).collect()
}
