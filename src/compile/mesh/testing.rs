//! Tables of documents and what is found in them.

use serde_json::{Value, json};

use crate::compile::{self, Findings};
use crate::core::problem::Problem;
use crate::core::yaml;

/// The errors of a policy with this content, each as field and class, in order.
#[track_caller]
pub(super) fn refuses(kind: &str, spec: &str, expected: &[&str]) {
    assert_eq!(listed(&findings(kind, spec).errors), expected, "{kind}: {spec}");
}

/// As [`refuses`], for findings that all stand below one field.
#[track_caller]
pub(super) fn refuses_below(field: &str, kind: &str, spec: &str, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|finding| format!("{field}{finding}")).collect();
    assert_eq!(listed(&findings(kind, spec).errors), expected, "{kind}: {spec}");
}

/// The policy has no errors; these are its warnings.
#[track_caller]
pub(super) fn accepts(kind: &str, spec: &str, warnings: &[&str]) {
    let findings = findings(kind, spec);
    let nothing: [&str; 0] = [];
    assert_eq!(listed(&findings.errors), nothing, "{kind}: {spec}");
    assert_eq!(listed(&findings.schema), nothing, "{kind}: {spec}");
    assert_eq!(listed(&findings.warnings), warnings, "{kind}: {spec}");
}

pub(super) fn findings(kind: &str, spec: &str) -> Findings {
    compile::check(&document(kind, spec)).expect("a kind that is served")
}

pub(super) fn document(kind: &str, spec: &str) -> Value {
    let spec = yaml::read_value(spec).expect("a test writes YAML");
    json!({"apiVersion": "kuma.io/v1alpha1", "kind": kind, "metadata": {"name": "test"}, "spec": spec})
}

fn listed(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{} {}", problem.field, problem.reason.as_str())).collect()
}
